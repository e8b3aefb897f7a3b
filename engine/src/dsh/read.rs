//! Reads a log: header and events go to a sink one by one, or a typed error says why they cannot.
//!
//! # Invariants
//! I1. Bytes after the last good line that hold no whole event are a torn tail and are reported. When a
//!     whole event follows damage, the input is refused as corrupt, with the line of the damage.
//! I2. After a refusal the sink is not called again. It may have been called before: what it holds then
//!     must be dropped.
//! I3. Memory is bounded by one line, whatever the length of the input.
//! I4. With `salvage` no line is lost and none refuses the input: from the first that cannot take its place, all are
//!     kept as events that hold their text (dsh/read/salvage.rs).
//! I5. The first line with an event decides whether the file is a projection; a mixture is refused.
//!
//! # Units
//! `line`: lines from 1. Offsets in errors: bytes of the text from the start of the file, or of the
//! compressed input where the error is about a frame.

mod salvage;

use std::io::Read;

use self::salvage::Salvage;
use super::damage::{holds_event, is_whole_but_utf8};
use super::header::{ImportHeader, PendingHeader};
use super::input::Input;
use super::lines::{Line, Lines};
use super::outcome::{ImportOutcome, Place, TornTail, WarningKind};
use super::record::{Fields, expect_next};
use super::rows::{CHUNK_TYPE, RowKind};
use crate::accept::{Candidate, Rules, judge};
use crate::json::{JsonFault, JsonFaultKind, is_space, trim};
use crate::surface::Surface;
use crate::{Error, ErrorKind, NewEvent, Result, Seq, SessionId, limits};

/// Byte order mark of UTF-8.
pub(super) const BOM: &[u8] = b"\xEF\xBB\xBF";

/// Takes what an import reads. After an error no method is called again, and what was taken must be dropped.
///
/// ```
/// use everlog::{NewEvent, Result, Seq, dsh};
///
/// /// Keeps the data of all events.
/// struct Kept(Vec<(bool, Vec<u8>)>);
/// impl dsh::ImportSink for Kept {
///     fn header(&mut self, header: &dsh::ImportHeader) -> Result<()> {
///         assert_eq!(header.view.id.as_str(), Some("s"));
///         Ok(())
///     }
///     fn event(&mut self, event: NewEvent<'_>, seq: Seq, _line: u64) -> Result<()> {
///         assert_eq!(seq, self.0.len() as u64);
///         self.0.push((event.event_type == &b"tool/result"[..], event.data.into_owned()));
///         Ok(())
///     }
///     fn tool_result_data(&mut self, seq: Seq) -> Result<Option<Vec<u8>>> {
///         let kept = self.0.get(seq as usize);
///         Ok(kept.filter(|(result, _)| *result).map(|(_, data)| data.clone()))
///     }
/// }
///
/// let header = r#"{"type":"session","version":0,"id":"s","createdAt":1,"delegationDepth":0}"#;
/// let log = format!("{header}\n{{\"type\":\"note\",\"seq\":0,\"time\":2,\"data\":[ ]}}\n");
/// let mut kept = Kept(Vec::new());
/// dsh::read_log(log.as_bytes(), &Default::default(), &mut kept)?;
/// assert_eq!(kept.0, [(false, b"[ ]".to_vec())]);
/// # Ok::<(), everlog::Error>(())
/// ```
pub trait ImportSink {
    /// Takes the header, once, before the first event.
    ///
    /// # Errors
    /// Any error ends the import.
    fn header(&mut self, header: &ImportHeader) -> Result<()>;

    /// Takes the next event. Seqs go up from 0 without gaps; `line` is where it stands in the text.
    ///
    /// # Errors
    /// Any error ends the import.
    fn event(&mut self, event: NewEvent<'_>, seq: Seq, line: u64) -> Result<()>;

    /// The data of an event that was taken before, if it is a `tool/result`; nothing if it is another.
    /// Asked when a tool result replaces an event.
    ///
    /// # Errors
    /// Any error ends the import.
    fn tool_result_data(&mut self, seq: Seq) -> Result<Option<Vec<u8>>>;
}

/// Limits and names for [`read_log`].
///
/// ```
/// use everlog::{dsh::ImportOptions, limits};
/// let options = ImportOptions { depth_max: 64, ..ImportOptions::default() };
/// assert_eq!(options.line_bytes_max, limits::LINE_BYTES_MAX);
/// assert_eq!((options.event_bytes_max, options.window_log_max), (limits::EVENT_BYTES_MAX, 27));
/// ```
#[derive(Clone, Debug)]
pub struct ImportOptions {
    /// What takes the place of a placeholder id in a projection: the name of the file.
    pub name: Option<SessionId>,
    /// Longest line, in bytes; 64 MiB by default.
    pub line_bytes_max: usize,
    /// Largest `data` of an event, in bytes of JSON text; 48 MiB by default.
    pub event_bytes_max: usize,
    /// Deepest nesting of `data`, in levels; 4,096 by default.
    pub depth_max: usize,
    /// Largest window of a Zstandard frame, as a power of two: 10 to 31; 27 (128 MiB) by default.
    pub window_log_max: u32,
    /// Most bytes of text out of a compressed input; 64 GiB by default.
    pub decoded_bytes_max: u64,
    /// Keeps what would refuse the input: the events up to the first line that cannot take its place go in as they are,
    /// that line and all after it as ignorable events `everlog/salvaged` with line, offset and text.
    pub salvage: bool,
}

impl Default for ImportOptions {
    fn default() -> Self {
        Self {
            name: None,
            line_bytes_max: limits::LINE_BYTES_MAX,
            event_bytes_max: limits::EVENT_BYTES_MAX,
            depth_max: limits::JSON_DEPTH_MAX,
            window_log_max: 27,
            decoded_bytes_max: 64 << 30,
            salvage: false,
        }
    }
}

/// Reads a whole log of dsh, plain or compressed (dsh-spec.md sections 8.3 to 8.6), and gives its header and events to
/// `sink`. Memory is bounded by one line.
///
/// ```
/// use everlog::dsh::{ImportHeader, ImportOptions, ImportSink, read_log};
/// use everlog::{NewEvent, Result, Seq};
///
/// #[derive(Default)]
/// struct Types(Vec<String>);
/// impl ImportSink for Types {
///     fn header(&mut self, _: &ImportHeader) -> Result<()> {
///         Ok(())
///     }
///     fn event(&mut self, event: NewEvent<'_>, _: Seq, _: u64) -> Result<()> {
///         self.0.push(String::from_utf8_lossy(&event.event_type).into_owned());
///         Ok(())
///     }
///     fn tool_result_data(&mut self, _: Seq) -> Result<Option<Vec<u8>>> {
///         Ok(None)
///     }
/// }
///
/// let text = concat!(
///     r#"{"type":"session","version":0,"id":"s","createdAt":1,"delegationDepth":0}"#, "\n",
///     r#"{"type":"turn/start","seq":0,"time":2,"data":{"turn":1}}"#, "\n",
///     r#"{"type":"turn/e"#,
/// );
/// let mut sink = Types::default();
/// let outcome = read_log(text.as_bytes(), &ImportOptions::default(), &mut sink)?;
/// assert_eq!(sink.0, ["turn/start"]);
/// assert_eq!((outcome.events, outcome.torn_bytes), (1, 15));
/// # Ok::<(), everlog::Error>(())
/// ```
///
/// # Errors
/// `Corrupt` for damage that is followed by whole events and for a file that is no log, `Unsupported` for
/// a header of another version, `Invalid` for an event that breaks a rule, `Limit` for one that is too
/// large, `Io` when reading fails, and what the sink gives. Line, offset, seq and field are set where
/// they are known.
pub fn read_log<R: Read>(
    reader: R,
    options: &ImportOptions,
    sink: &mut dyn ImportSink,
) -> Result<ImportOutcome> {
    let input =
        Input::open(reader, options.window_log_max, options.decoded_bytes_max, options.salvage)?;
    let compressed = input.is_compressed();
    let mut lines = Lines::new(input, options.line_bytes_max);
    let mut sink = Guarded::new(sink);
    let mut reading = Reading::new(options, &mut sink);
    reading.outcome.compressed = compressed;
    if options.salvage {
        return reading.read_all(lines.exact());
    }
    while let Some(line) = lines.next().map_err(|e| reading.blame_damage(e))? {
        if let Err(error) = reading.line(&line) {
            return Err(blame_frame(error, lines.source()));
        }
    }
    reading.outcome.text_bytes = lines.offset();
    let torn = lines.source().torn();
    reading.finish(torn.map(|torn| (torn.offset, torn.bytes)))
}

/// A frame that fails its checksum makes its text worthless: it is the error then, not what the text breaks.
fn blame_frame<R: Read>(error: Error, input: &mut Input<R>) -> Error {
    use ErrorKind::{Corrupt, Invalid, Limit, Unsupported};
    if !matches!(error.kind(), Corrupt | Invalid | Limit | Unsupported) {
        return error;
    }
    match input.settle() {
        Err(frame) if frame.kind() == Corrupt => frame,
        _ => error,
    }
}

/// A line that is no event, with nothing whole after it so far.
#[derive(Clone, Copy, Debug)]
struct Damage {
    line: u64,
    offset: u64,
    fault: Option<JsonFault>,
    /// Whether everything from there on is NUL.
    nul: bool,
}

impl Damage {
    fn error(&self) -> Error {
        let why = match self.fault {
            Some(fault) => fault.to_string(),
            None => "it holds NUL bytes".to_owned(),
        };
        let what = format!(
            "a line is no event and whole events follow it: {why}; take another copy of the file"
        );
        let at = self.fault.map_or(0, |fault| fault.offset as u64);
        Error::corrupt(what).with_line(self.line).with_offset(self.offset + at)
    }
}

/// The sink, and whether an error came from it and not from the input.
struct Guarded<'a> {
    sink: &'a mut dyn ImportSink,
    failed: bool,
    has_header: bool,
    /// Time of the last event, in Unix milliseconds.
    last_time_ms: i64,
}

impl<'a> Guarded<'a> {
    fn new(sink: &'a mut dyn ImportSink) -> Self {
        Self { sink, failed: false, has_header: false, last_time_ms: 0 }
    }

    fn note<T>(&mut self, result: Result<T>) -> Result<T> {
        self.failed |= result.is_err();
        result
    }

    fn header(&mut self, header: &ImportHeader) -> Result<()> {
        let result = self.sink.header(header);
        self.has_header = true;
        self.note(result)
    }

    fn event(&mut self, event: NewEvent<'_>, seq: Seq, line: u64) -> Result<()> {
        self.last_time_ms = event.time_ms.unwrap_or(self.last_time_ms);
        let result = self.sink.event(event, seq, line);
        self.note(result)
    }

    fn tool_result_data(&mut self, seq: Seq) -> Result<Option<Vec<u8>>> {
        let result = self.sink.tool_result_data(seq);
        self.note(result)
    }
}

struct Reading<'a, 's> {
    options: &'a ImportOptions,
    sink: &'a mut Guarded<'s>,
    outcome: ImportOutcome,
    /// The header, until the first event or the end shows whether the file is a projection.
    pending: Option<PendingHeader>,
    has_header: bool,
    /// Whether events have a seq; not known before the first.
    placed: Option<bool>,
    next: Seq,
    damage: Option<Damage>,
    surface: Surface,
    rules: Rules,
    scratch: Vec<u8>,
    salvage: Salvage,
}

impl<'a, 's> Reading<'a, 's> {
    fn new(options: &'a ImportOptions, sink: &'a mut Guarded<'s>) -> Self {
        Self {
            options,
            sink,
            outcome: ImportOutcome::default(),
            pending: None,
            has_header: false,
            placed: None,
            next: 0,
            damage: None,
            surface: Surface::new(),
            rules: Rules {
                data_bytes_max: options.event_bytes_max,
                depth_max: options.depth_max,
                data_checked: true,
                shapes: true,
                legacy: true,
            },
            scratch: Vec::new(),
            salvage: Salvage::default(),
        }
    }

    /// Deepest nesting of a line, its own object included.
    fn line_depth_max(&self) -> usize {
        self.options.depth_max.saturating_add(1)
    }

    fn line(&mut self, line: &Line<'_>) -> Result<()> {
        self.outcome.lines = line.no;
        let mut line = *line;
        if line.no == 1
            && let Some(rest) = line.text.strip_prefix(BOM)
        {
            line.text = rest;
            line.offset += BOM.len() as u64;
            self.outcome.warn(WarningKind::ByteOrderMark, 1);
        }
        let nul_offset = line.offset + line.text.len() as u64;
        let returns = line.ended && line.text.ends_with(b"\r");
        let text = trim(line.text);
        let lead = line.text.iter().position(|byte| !is_space(*byte)).unwrap_or(0);
        line.offset += lead as u64;
        if line.nuls > 0 {
            self.text_before_nul(&line, text, nul_offset)?;
        } else if text.is_empty() {
            if self.damage.is_none() {
                self.outcome.warn(WarningKind::BlankLine, line.no);
            }
        } else {
            if returns && self.damage.is_none() {
                self.outcome.warn(WarningKind::CarriageReturn, line.no);
            }
            self.text(&line, text)?;
        }
        Ok(())
    }

    /// A last line that ends in NUL bytes: what stands before them may be whole.
    fn text_before_nul(&mut self, line: &Line<'_>, text: &[u8], offset: u64) -> Result<()> {
        if !text.is_empty() {
            self.text(line, text)?;
        }
        if self.damage.is_none() {
            self.damage = Some(Damage { line: line.no, offset, fault: None, nul: true });
        }
        Ok(())
    }

    fn text(&mut self, line: &Line<'_>, text: &[u8]) -> Result<()> {
        if !self.has_header {
            return self.header_line(line, text);
        }
        if let Some(damage) = self.damage {
            return if self.holds_event(text) { Err(damage.error()) } else { Ok(()) };
        }
        let mut fields = match Fields::split(text, self.line_depth_max()) {
            Ok(fields) => fields,
            Err(fault) => return self.damaged(line, text, fault),
        };
        let placed = self.settle(line, &fields)?;
        let result = self.record(line, &mut fields, placed);
        result.map_err(|e| at_line(e, line).with_seq(self.next))
    }

    fn holds_event(&self, text: &[u8]) -> bool {
        holds_event(text, self.line_depth_max(), self.placed, self.next)
    }

    /// A line that is not one JSON object: refused when it holds a whole event, kept in mind otherwise.
    fn damaged(&mut self, line: &Line<'_>, text: &[u8], fault: JsonFault) -> Result<()> {
        if let JsonFaultKind::Depth { .. } = fault.what {
            let max = self.options.depth_max;
            let what = format!("data is nested deeper than {max}: flatten it or raise the limit");
            let error = Error::new(ErrorKind::Limit, what).with_field("depth_max");
            return Err(at_line(error, line).with_seq(self.next));
        }
        let nul = false;
        let damage = Damage { line: line.no, offset: line.offset, fault: Some(fault), nul };
        if fault.what == JsonFaultKind::Utf8 && is_whole_but_utf8(text, self.line_depth_max()) {
            let what =
                "a line holds bytes that are not UTF-8; they are not replaced: mend the line";
            let offset = line.offset + fault.offset as u64;
            return Err(at_line(Error::corrupt(what), line).with_offset(offset));
        }
        if self.holds_event(text) {
            return Err(damage.error());
        }
        self.damage = Some(damage);
        Ok(())
    }

    fn header_line(&mut self, line: &Line<'_>, text: &[u8]) -> Result<()> {
        let header = PendingHeader::read(text, line.no).map_err(|e| at_line(e, line))?;
        if !line.ended {
            let what = "the header line has no newline: the file was cut; take another copy";
            return Err(at_line(Error::corrupt(what).with_field("header"), line));
        }
        self.has_header = true;
        self.pending = Some(header);
        Ok(())
    }

    /// Gives the header to the sink, when that was not done.
    fn give_header(&mut self, projection: bool) -> Result<()> {
        let Some(pending) = self.pending.take() else { return Ok(()) };
        let line = pending.line();
        if projection {
            if pending.has_placeholder_cwd() {
                self.outcome.warn(WarningKind::PlaceholderDirectory, line);
            }
            if pending.has_placeholder_id() {
                self.outcome.warn(WarningKind::PlaceholderId, line);
            }
        }
        let header = pending
            .finish(projection, self.options.name.as_ref())
            .map_err(|e| e.with_line(line))?;
        self.sink.header(&header)
    }

    /// Says whether events have a seq here, which the first one decides; the header goes out with it.
    fn settle(&mut self, line: &Line<'_>, fields: &Fields<'_>) -> Result<bool> {
        let placed = fields.is_placed();
        match self.placed {
            None => {
                self.placed = Some(placed);
                if !placed {
                    self.outcome.projection = true;
                    self.outcome.warn(WarningKind::Projection, line.no);
                }
                self.give_header(!placed)?;
            }
            Some(known) if known != placed => {
                let what =
                    "some events have seq and time and some have not; give it to all or none";
                return Err(at_line(Error::invalid("seq", what), line).with_seq(self.next));
            }
            Some(_) => {}
        }
        Ok(placed)
    }

    fn record(&mut self, line: &Line<'_>, fields: &mut Fields<'_>, placed: bool) -> Result<()> {
        if let Some(kind) = fields.row_kind() {
            return self.row(line, fields, kind, placed);
        }
        if placed {
            fields.expect_seq(self.next)?;
        }
        let event = fields.event(placed, self.options.event_bytes_max)?;
        self.give(event, line.no)
    }

    fn row(
        &mut self,
        line: &Line<'_>,
        fields: &Fields<'_>,
        kind: RowKind,
        placed: bool,
    ) -> Result<()> {
        let row = fields.row(kind, placed, self.next).map_err(|why| {
            Error::corrupt(format!(
                "a packed row is malformed: {why}; take another copy of the file"
            ))
            .with_field(kind.tag())
        })?;
        expect_next(i64::try_from(row.seq0()).unwrap_or(-1), self.next)?;
        let mut scratch = std::mem::take(&mut self.scratch);
        let max = self.options.event_bytes_max;
        if row.member_bytes_max() > max {
            // Rare, and nothing of the row may have gone in when it is refused.
            row.for_each(&mut scratch, |_, data| match data.len() > max {
                true => Err(Error::limit("data", data.len() as u64, max as u64)),
                false => Ok(()),
            })?;
        }
        let result = row.for_each(&mut scratch, |time_ms, data| {
            let event = NewEvent {
                event_type: CHUNK_TYPE.into(),
                data: data.into(),
                time_ms: Some(time_ms),
                surface_op: None,
                sources: None,
                ignorable: false,
                surface_first: false,
            };
            // No rule looks into a stream chunk; seq and time were checked with the row.
            self.sink.event(event, self.next, line.no)?;
            self.next += 1;
            Ok(())
        });
        self.scratch = scratch;
        result
    }

    /// Judges an event and gives it to the sink.
    fn give(&mut self, event: NewEvent<'_>, line: u64) -> Result<()> {
        if self.next > limits::SAFE_INTEGER_MAX {
            return Err(Error::limit("seq", self.next, limits::SAFE_INTEGER_MAX));
        }
        let seq = self.next;
        let candidate = Candidate::of_new(&event, seq);
        let plan =
            judge(&candidate, &self.rules, &self.surface, |old| self.sink.tool_result_data(old))
                .map_err(|refusal| refusal.into_error(seq))?;
        if let Some(plan) = plan {
            self.surface.apply(&plan);
        }
        self.sink.event(event, seq, line)?;
        self.next += 1;
        Ok(())
    }

    /// An error of the source comes after the damage when there is some.
    fn blame_damage(&self, error: Error) -> Error {
        match (&self.damage, error.kind()) {
            (Some(damage), ErrorKind::Limit) if error.field() == Some("line_bytes_max") => {
                damage.error()
            }
            _ => error,
        }
    }

    fn finish(&mut self, torn_frame: Option<(u64, u64)>) -> Result<ImportOutcome> {
        if !self.has_header {
            let what =
                "the file holds no session header: it is empty or was cut; take another copy";
            return Err(Error::corrupt(what).with_field("header").with_line(1).with_offset(0));
        }
        self.give_header(true)?;
        let mut outcome = std::mem::take(&mut self.outcome);
        outcome.events = self.next;
        if let Some(damage) = self.damage {
            outcome.torn_bytes = outcome.text_bytes - damage.offset;
            outcome.warn_torn(TornTail {
                offset: damage.offset,
                bytes: outcome.torn_bytes,
                place: Place::Text,
                line: damage.line,
                nul: damage.nul,
                kept: false,
            });
        }
        if let Some((offset, bytes)) = torn_frame {
            outcome.torn_bytes = bytes;
            let (place, line, nul, kept) = (Place::Compressed, outcome.lines, false, false);
            outcome.warn_torn(TornTail { offset, bytes, place, line, nul, kept });
        }
        Ok(outcome)
    }
}

fn at_line(error: Error, line: &Line<'_>) -> Error {
    error.with_line(line.no).with_offset(line.offset)
}
