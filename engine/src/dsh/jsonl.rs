//! Lines of any JSONL file as events, and back: nothing of the file is refused, and every byte comes back.
//!
//! # Invariants
//! N1. A line that is one JSON object is one ignorable event `jsonl/<its type>`; its data is the line.
//! N2. Everything else on a line is set aside in its place, and objects beside it on that line are events all the same.
//! N3. Left out are a byte order mark at the start, blank lines and a carriage return before a newline, each with a
//!     warning. All other bytes of the input are in the events, in order.
//! N4. Data that ends in a newline marks the last event of an input that does not end in one.
//! N5. An input that is one JSON value over several lines is refused: it is no JSONL.
//!
//! # Units
//! As in dsh/lines.rs.

mod pieces;

use std::io::Read;

use self::pieces::{Piece, pieces};
use super::aside::{Aside, AsideList, salvaged_event};
use super::header::ImportHeader;
use super::input::{Gap, Input};
use super::lines::{Line, Lines};
use super::outcome::{ImportOutcome, Place, TornTail, WarningKind};
use super::read::{BOM, ImportOptions, ImportSink};
use super::{NewHeader, aside};
use crate::accept::check_header;
use crate::json::{
    JsonFaultKind, check, is_string, member, safe_integer, string_value, trim, unescape,
};
use crate::json::{split_object, string_is};
use crate::limits::{EVENT_TYPE_BYTES_MAX, JSON_DEPTH_MAX, SAFE_INTEGER_MAX};
use crate::{Error, EventRef, NewEvent, Result, Seq};

/// What the types of the events start with.
const PREFIX: &[u8] = b"jsonl/";
/// The type of a line that names none.
const NO_TYPE: &[u8] = b"line";
/// Member of the header that says what the session was made from.
const ORIGIN_KEY: &str = "importedFrom";
/// Bytes of an input that may be one document, before it counts as one.
const DOCUMENT_BYTES: usize = 1 << 20;
/// NUL bytes set aside in one event.
const NUL_BYTES: usize = 64 << 10;

/// Reads a JSONL file of any tool, plain or compressed, and gives a header of its own making and an event a line to
/// `sink`. `options.name` names the session. Memory is bounded by one line.
///
/// ```
/// use everlog::{NewEvent, Result, Seq, SessionId, dsh};
/// #[derive(Default)]
/// struct Types(Vec<String>);
/// impl dsh::ImportSink for Types {
///     fn header(&mut self, header: &dsh::ImportHeader) -> Result<()> {
///         assert_eq!(header.view.id.as_str(), Some("log"));
///         Ok(())
///     }
///     fn event(&mut self, event: NewEvent<'_>, _: Seq, _: u64) -> Result<()> {
///         self.0.push(String::from_utf8_lossy(&event.event_type).into_owned());
///         Ok(())
///     }
/// #     fn tool_result_data(&mut self, _: Seq) -> Result<Option<Vec<u8>>> { Ok(None) }
///     // ...
/// }
/// let mut sink = Types::default();
/// let options = dsh::ImportOptions { name: SessionId::new("log").ok(), ..Default::default() };
/// let text = "{\"type\":\"user\",\"n\":1}\n{\"n\":2}\nno JSON\n";
/// let outcome = dsh::read_jsonl(text.as_bytes(), &options, &mut sink)?;
/// assert_eq!(sink.0, ["jsonl/user", "jsonl/line", "everlog/salvaged"]);
/// assert_eq!((outcome.salvaged, outcome.aside[0].first), (1, 3));
/// # Ok::<(), everlog::Error>(())
/// ```
///
/// # Errors
/// `Invalid` without a name, and for one JSON document that is no JSONL; `Corrupt` for zstd frames that are damaged over
/// more than 8 MiB, `Limit` for those that want too much memory, `Io` when reading fails, and what the sink gives.
pub fn read_jsonl<R: Read>(
    reader: R,
    options: &ImportOptions,
    sink: &mut dyn ImportSink,
) -> Result<ImportOutcome> {
    let input = Input::open(reader, options.window_log_max, options.decoded_bytes_max, true)?;
    let compressed = input.is_compressed();
    let mut lines = Lines::new(input, options.line_bytes_max).exact();
    let mut reading = Reading {
        options,
        sink,
        outcome: ImportOutcome { compressed, ..ImportOutcome::default() },
        list: AsideList::default(),
        has_header: false,
        next: 0,
        time_ms: 0,
        opening: Opening::Unseen,
    };
    loop {
        while let Some(line) = lines.next()? {
            reading.take(&line)?;
        }
        let Some(gap) = lines.source().take_gap() else { break };
        reading.gap(&gap)?;
        lines.resume();
    }
    let torn = lines.source().torn();
    reading.outcome.text_bytes = lines.offset();
    reading.finish(torn.map(|torn| (torn.offset, torn.bytes)))
}

/// A line that is held while the input may be one document.
struct Held {
    line: u64,
    offset: u64,
    text: Vec<u8>,
    ended: bool,
    nuls: u64,
}

/// Whether the input is one document over several lines.
enum Opening {
    /// No line was seen.
    Unseen,
    /// It may be: the lines so far, their text, and its length at which it is looked at next.
    Open(Vec<Held>, Vec<u8>, usize),
    /// It is not.
    Done,
}

struct Reading<'a> {
    options: &'a ImportOptions,
    sink: &'a mut dyn ImportSink,
    outcome: ImportOutcome,
    list: AsideList,
    has_header: bool,
    next: Seq,
    /// Time of the line before, in Unix milliseconds; lines without a time have it too.
    time_ms: i64,
    opening: Opening,
}

impl Reading<'_> {
    /// Takes a line, or holds it while the input may be one document (N5).
    fn take(&mut self, line: &Line<'_>) -> Result<()> {
        self.outcome.lines = line.no;
        match &mut self.opening {
            Opening::Done => return self.line(line),
            Opening::Unseen => {
                let text = line.text.strip_prefix(BOM).unwrap_or(line.text);
                if trim(text).is_empty() && line.nuls == 0 {
                    return self.line(line);
                }
                let opens = matches!(trim(text).first(), Some(b'{' | b'['));
                if !opens || !line.is_whole() || !self.is_cut(text) {
                    self.opening = Opening::Done;
                    return self.line(line);
                }
                self.opening = Opening::Open(Vec::new(), Vec::new(), 4 << 10);
            }
            Opening::Open(..) => {}
        }
        if !line.is_whole() {
            self.release()?;
            return self.line(line);
        }
        let Opening::Open(held, text, _) = &mut self.opening else { return Ok(()) };
        let bare = if line.no == 1 { line.text.strip_prefix(BOM) } else { None };
        text.extend_from_slice(bare.unwrap_or(line.text));
        text.push(b'\n');
        let (no, offset, ended, nuls) = (line.no, line.offset, line.ended, line.nuls);
        held.push(Held { line: no, offset, text: line.text.to_vec(), ended, nuls });
        self.look(false)
    }

    fn is_cut(&self, text: &[u8]) -> bool {
        let fault = check(text, self.options.depth_max);
        matches!(fault, Err(fault) if fault.what == JsonFaultKind::Truncated)
    }

    /// Looks at what is held, when it has grown enough or nothing more comes.
    fn look(&mut self, last: bool) -> Result<()> {
        let Opening::Open(held, text, next) = &mut self.opening else { return Ok(()) };
        if !last && text.len() < *next {
            return Ok(());
        }
        *next = text.len().saturating_mul(2);
        let (several, long) = (held.len() > 1, text.len() > DOCUMENT_BYTES);
        let (whole, cut) = match check(text, self.options.depth_max) {
            Ok(()) => (true, false),
            Err(fault) => (false, fault.what == JsonFaultKind::Truncated),
        };
        if several && ((whole && last) || (cut && long)) {
            let what = "the input is one JSON document, not JSONL: write one value a line";
            return Err(Error::invalid("format", what).with_line(1).with_offset(0));
        }
        if last || !(whole || cut) || long { self.release() } else { Ok(()) }
    }

    /// Takes the lines that are held: the input is no document.
    fn release(&mut self) -> Result<()> {
        let opening = std::mem::replace(&mut self.opening, Opening::Done);
        let Opening::Open(held, ..) = opening else { return Ok(()) };
        for Held { line: no, offset, text, ended, nuls } in &held {
            let (no, offset, ended, nuls) = (*no, *offset, *ended, *nuls);
            self.line(&Line { text, no, offset, ended, nuls, goes_on: false, unfinished: false })?;
        }
        Ok(())
    }

    fn line(&mut self, line: &Line<'_>) -> Result<()> {
        let mut line = *line;
        if line.no == 1
            && !line.goes_on
            && let Some(rest) = line.text.strip_prefix(BOM)
        {
            line.text = rest;
            line.offset += BOM.len() as u64;
            self.outcome.warn(WarningKind::ByteOrderMark, 1);
        }
        if !line.is_whole() {
            let (before, after) = (line.goes_on, line.unfinished);
            let unended = !line.ended && !after;
            self.because("a line is longer than the limit of line bytes");
            return self.set_aside(&Aside {
                before,
                after,
                unended,
                ..Aside::line(line.no, line.offset, line.text)
            });
        }
        if trim(line.text).is_empty() && line.nuls == 0 {
            self.outcome.warn(WarningKind::BlankLine, line.no);
            return Ok(());
        }
        if line.ended
            && let Some(rest) = line.text.strip_suffix(b"\r")
        {
            line.text = rest;
            self.outcome.warn(WarningKind::CarriageReturn, line.no);
        }
        if !line.text.is_empty() {
            self.text(&line)?;
        }
        self.nuls(&line)
    }

    /// The text of a line: one event, or pieces of which some are events.
    fn text(&mut self, line: &Line<'_>) -> Result<()> {
        let ends = !line.ended && line.nuls == 0;
        if let Some(event) = self.event_of(line.text) {
            return self.give(event, line.text, line.no, ends);
        }
        let why = match check(line.text, self.options.depth_max) {
            Ok(()) if line.text.len() > self.options.event_bytes_max => {
                "a line is larger than an event may be"
            }
            Ok(()) => "a line is no JSON object",
            Err(_) => "a line is not one JSON object",
        };
        self.because(why);
        let all = pieces(line.text, self.options.depth_max);
        let count = all.len();
        let mut was_event = false;
        for (at, piece) in all.into_iter().enumerate() {
            let (start, end, is_event) = match piece {
                Piece::Event(start, end) => (start, end, true),
                Piece::Other(start, end) => (start, end, false),
            };
            let text = line.text.get(start..end).unwrap_or_default();
            let offset = line.offset + start as u64;
            let (before, after) = (at > 0, at + 1 < count || line.nuls > 0);
            let unended = ends && !after;
            let event = if is_event { self.event_of(text) } else { None };
            let Some(event) = event else {
                let aside = Aside::line(line.no, offset, text);
                self.set_aside(&Aside { before, after, unended, ..aside })?;
                was_event = false;
                if unended {
                    self.torn(line.no, offset, text.len() as u64, false);
                }
                continue;
            };
            if was_event {
                // Nothing stands between the two: that no newline does must be kept.
                let aside = Aside::line(line.no, offset, &[]);
                self.set_aside(&Aside { before: true, after: true, ..aside })?;
            }
            was_event = true;
            self.give(event, text, line.no, unended)?;
        }
        Ok(())
    }

    /// NUL bytes behind the last line.
    fn nuls(&mut self, line: &Line<'_>) -> Result<()> {
        let offset = line.offset + line.text.len() as u64;
        let zeros = vec![0; NUL_BYTES.min(usize::try_from(line.nuls).unwrap_or(NUL_BYTES))];
        let mut done = 0;
        while done < line.nuls {
            let now = (line.nuls - done).min(zeros.len() as u64);
            let bytes = zeros.get(..now as usize).unwrap_or_default();
            let after = done + now < line.nuls;
            let before = done > 0 || !line.text.is_empty();
            let aside = Aside::line(line.no, offset + done, bytes);
            self.because("NUL bytes stand behind the last line");
            self.set_aside(&Aside { before, after, unended: !after, ..aside })?;
            done += now;
        }
        if line.nuls > 0 {
            self.torn(line.no, offset, line.nuls, true);
        }
        Ok(())
    }

    /// Reports the end of the input, which holds no whole event and was kept.
    fn torn(&mut self, line: u64, offset: u64, bytes: u64, nul: bool) {
        self.outcome.torn_bytes = bytes;
        let (place, kept) = (Place::Text, true);
        self.outcome.warn_torn(TornTail { offset, bytes, place, line, nul, kept });
    }

    /// Type and time of a line that is an event.
    fn event_of(&self, text: &[u8]) -> Option<(Vec<u8>, Option<i64>)> {
        if text.len() > self.options.event_bytes_max {
            return None;
        }
        let (mut kind, mut time) = (None, None);
        split_object(text, self.options.depth_max, |key, value, _| match &*unescape(key) {
            b"type" => kind = Some(value),
            b"time" => time = Some(value),
            _ => {}
        })
        .ok()?;
        let name = kind.filter(|value| is_string(value)).and_then(string_value);
        let name = name
            .filter(|name| !name.is_empty() && name.len() + PREFIX.len() <= EVENT_TYPE_BYTES_MAX);
        let name = name.as_deref().unwrap_or(NO_TYPE);
        Some(([PREFIX, name].concat(), time.and_then(safe_integer)))
    }

    fn give(
        &mut self,
        (event_type, time): (Vec<u8>, Option<i64>),
        text: &[u8],
        line: u64,
        ends: bool,
    ) -> Result<()> {
        self.header(Some(text))?;
        self.time_ms = time.unwrap_or(self.time_ms);
        let mut data = std::borrow::Cow::Borrowed(text);
        if ends {
            data.to_mut().push(b'\n'); // N4
        }
        let event = NewEvent {
            event_type: event_type.into(),
            data,
            time_ms: Some(self.time_ms),
            surface_op: None,
            sources: None,
            ignorable: true,
            surface_first: false,
        };
        let seq = self.seq()?;
        self.sink.event(event, seq, line)
    }

    fn seq(&mut self) -> Result<Seq> {
        if self.next > SAFE_INTEGER_MAX {
            return Err(Error::limit("seq", self.next, SAFE_INTEGER_MAX));
        }
        self.next += 1;
        Ok(self.next - 1)
    }

    fn because(&mut self, why: &str) {
        self.outcome.aside_cause.get_or_insert_with(|| why.to_owned());
    }

    fn set_aside(&mut self, aside: &Aside<'_>) -> Result<()> {
        self.header(None)?;
        self.list.note(aside.line, aside.offset);
        let (max, time_ms) = (self.options.event_bytes_max, self.time_ms);
        aside.for_each(max, |data| {
            let seq = self.seq()?;
            self.sink.event(salvaged_event(data, time_ms), seq, aside.line)
        })
    }

    fn gap(&mut self, gap: &Gap) -> Result<()> {
        self.release()?;
        self.because(&gap.why);
        let line = self.outcome.lines;
        let aside = Aside { compressed: true, ..Aside::line(line, gap.offset, &gap.bytes) };
        self.set_aside(&aside)
    }

    /// Gives the sink a header of the session, once; `first` is the first line, which may say when it was made.
    fn header(&mut self, first: Option<&[u8]>) -> Result<()> {
        if std::mem::replace(&mut self.has_header, true) {
            return Ok(());
        }
        let Some(id) = &self.options.name else {
            return Err(Error::invalid("id", "the input has no name that a session may have"));
        };
        let made = |text| {
            ["createdAt", "time"]
                .iter()
                .find_map(|key| u64::try_from(safe_integer(member(text, key.as_bytes())?)?).ok())
        };
        let mut text = NewHeader::new(id, first.and_then(made).unwrap_or(0)).to_text();
        text.pop();
        text.extend_from_slice(format!(",\"{ORIGIN_KEY}\":\"jsonl\"}}").as_bytes());
        let view = check_header(&text).map_err(|refusal| refusal.header_error())?;
        self.sink.header(&ImportHeader { view, text, placeholder_cwd: false })
    }

    fn finish(mut self, torn_frame: Option<(u64, u64)>) -> Result<ImportOutcome> {
        self.look(true)?;
        if self.next == 0 {
            self.outcome.warn(WarningKind::Empty, 1);
        }
        self.header(None)?;
        let mut outcome = self.outcome;
        outcome.events = self.next;
        outcome.salvaged = self.list.lines;
        outcome.aside = self.list.ranges;
        if let Some((offset, bytes)) = torn_frame {
            outcome.torn_bytes = bytes;
            let (place, line, nul, kept) = (Place::Compressed, outcome.lines, false, false);
            outcome.warn_torn(TornTail { offset, bytes, place, line, nul, kept });
        }
        Ok(outcome)
    }
}

/// Whether the header is one that [`read_jsonl`] makes.
pub(crate) fn is_jsonl_header(text: &[u8]) -> bool {
    check(text, JSON_DEPTH_MAX).is_ok()
        && member(text, ORIGIN_KEY.as_bytes()).is_some_and(|value| string_is(value, b"jsonl"))
}

/// Whether an event is a line that [`read_jsonl`] read: its data may differ by the mark of an end (N4).
pub(crate) fn is_jsonl_type(event_type: &[u8]) -> bool {
    event_type.starts_with(PREFIX)
}

/// Writes the events of a session that was read from JSONL as the lines that they were.
#[derive(Default)]
pub(crate) struct JsonlWriter {
    /// Whether something stands on the line that is not ended.
    open: bool,
    /// Whether it stays open at the end.
    unended: bool,
}

impl JsonlWriter {
    /// Appends one event: the line it was read from, what was set aside, or any other event as a canonical line.
    ///
    /// # Errors
    /// `Invalid` for an event that no line can hold.
    pub(crate) fn push(&mut self, event: &EventRef<'_>, out: &mut Vec<u8>) -> Result<()> {
        let kept = if event.event_type == aside::SALVAGED_TYPE {
            aside::read_aside(event.data).filter(|kept| !kept.compressed)
        } else {
            None
        };
        if self.open && !kept.as_ref().is_some_and(|kept| kept.before) {
            out.push(b'\n');
        }
        self.open = true;
        self.unended = false;
        if let Some(kept) = kept {
            out.extend_from_slice(&kept.bytes);
            self.open = !kept.after;
            self.unended = kept.unended;
        } else if is_jsonl_type(event.event_type) {
            let data = event.data.strip_suffix(b"\n");
            self.unended = data.is_some();
            let data = data.unwrap_or(event.data);
            // A newline between tokens, which no line that was read holds, is left out.
            data.split(|byte| *byte == b'\n').for_each(|part| out.extend_from_slice(part));
        } else {
            super::write::write_line(out, event);
            out.pop();
        }
        Ok(())
    }

    /// Ends the last line, unless the input did not.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        if self.open && !self.unended {
            out.push(b'\n');
        }
    }
}
