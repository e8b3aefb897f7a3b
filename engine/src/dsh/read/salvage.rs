//! Reading a damaged log without losing a byte: what cannot take its place is kept as text.
//!
//! # Invariants
//! V1. Events up to the first line that cannot take its place are those of a log without damage. That line and all
//!     after it become events `everlog/salvaged`, one a line, in their order.
//! V2. Without a whole event behind it, damage at the end is a torn tail, as everywhere.
//! V3. Lines that may still turn out to be a torn tail are held; past 1 MiB they are kept.
//! V4. A log without a header that holds gets one with the id it names, else with the name of the file.

use super::super::aside::{Aside, AsideList, salvaged_event};
use super::super::input::Gap;
use super::super::lines::{Line, Lines};
use super::{BOM, Damage, Input, Reading, at_line};
use crate::accept::check_header;
use crate::dsh::outcome::WarningKind;
use crate::dsh::{ImportHeader, ImportOutcome, NewHeader};
use crate::json::{is_object, member, string_value, trim};
use crate::{Error, ErrorKind, Result, SessionId, limits};

/// Bytes of lines that are held while nothing whole follows them.
const HELD_BYTES_MAX: usize = 1 << 20;

/// A line that is held.
#[derive(Clone, Debug)]
struct Held {
    line: u64,
    offset: u64,
    text: Vec<u8>,
    ended: bool,
}

impl Held {
    fn of(line: &Line<'_>) -> Self {
        let (text, offset) = without_mark(line);
        Self { line: line.no, offset, text: text.to_vec(), ended: line.ended }
    }

    fn aside(&self) -> Aside<'_> {
        Aside { unended: !self.ended, ..Aside::line(self.line, self.offset, &self.text) }
    }
}

/// What salvaging keeps in mind.
#[derive(Default)]
pub(super) struct Salvage {
    /// Whether a line could not take its place.
    broken: bool,
    /// Lines behind damage that hold no whole event.
    held: Vec<Held>,
    held_bytes: usize,
    /// The header line, until the sink has a header.
    header: Option<Held>,
    list: AsideList,
    cause: Option<String>,
}

impl Reading<'_, '_> {
    /// Reads all lines, and gaps between them.
    pub(super) fn read_all<R: std::io::Read>(
        mut self,
        mut lines: Lines<Input<R>>,
    ) -> Result<ImportOutcome> {
        loop {
            while let Some(line) = lines.next()? {
                self.line_or_aside(&line)?;
            }
            let Some(gap) = lines.source().take_gap() else { break };
            self.gap(&gap)?;
            lines.resume();
        }
        self.outcome.text_bytes = lines.offset();
        if !self.has_header {
            self.stand_in()?;
        }
        self.salvage_header()?;
        let torn = lines.source().torn();
        let mut outcome = self.finish(torn.map(|torn| (torn.offset, torn.bytes)))?;
        outcome.salvaged = self.salvage.list.lines;
        outcome.aside = std::mem::take(&mut self.salvage.list.ranges);
        outcome.aside_cause = self.salvage.cause.take();
        Ok(outcome)
    }

    fn line_or_aside(&mut self, line: &Line<'_>) -> Result<()> {
        if !line.is_whole() {
            let max = self.options.line_bytes_max;
            let long = Error::new(ErrorKind::Limit, format!("a line is longer than {max} bytes"));
            self.break_off(at_line(long, line))?;
        }
        if self.salvage.broken {
            self.outcome.lines = line.no;
            return self.keep(line);
        }
        let had_header = self.has_header;
        match self.line(line) {
            Ok(()) if self.damage.is_some() => self.hold(line),
            Ok(()) => {
                if !had_header && self.has_header {
                    self.salvage.header = Some(Held::of(line));
                }
                Ok(())
            }
            Err(e) if self.sink.failed => Err(e),
            Err(e) if !had_header => {
                // The line that should be the header: a header in its place is made from it, and keeps it.
                self.salvage.header = Some(Held::of(line));
                self.break_off(e)?;
                self.note_nuls(line);
                Ok(())
            }
            Err(e) => {
                self.break_off(e)?;
                self.keep(line)
            }
        }
    }

    /// Holds a line behind damage, which may be a torn tail.
    fn hold(&mut self, line: &Line<'_>) -> Result<()> {
        if trim(line.text).is_empty() || line.nuls > 0 {
            return Ok(());
        }
        self.salvage.held_bytes += line.text.len();
        self.salvage.held.push(Held::of(line));
        if self.salvage.held_bytes <= HELD_BYTES_MAX {
            return Ok(());
        }
        let cause = self.damage.as_ref().map(Damage::error);
        self.break_off(cause.unwrap_or_else(|| Error::corrupt("a line is no event")))
    }

    /// From here on nothing takes a place; what was held is kept first.
    fn break_off(&mut self, cause: Error) -> Result<()> {
        if std::mem::replace(&mut self.salvage.broken, true) {
            return Ok(());
        }
        self.salvage.cause = Some(cause.message().to_owned());
        self.damage = None;
        if !self.has_header || (self.pending.is_none() && !self.sink.has_header) {
            self.stand_in()?;
        }
        self.salvage_header()?;
        for held in std::mem::take(&mut self.salvage.held) {
            self.set_aside(&held.aside())?;
        }
        Ok(())
    }

    /// Gives the header to the sink when that was not done; one of its own when that one does not hold.
    fn salvage_header(&mut self) -> Result<()> {
        if self.sink.has_header {
            return Ok(());
        }
        match self.give_header(true) {
            Ok(()) => {}
            Err(e) if self.sink.failed => return Err(e),
            Err(_) => self.stand_in()?,
        }
        self.salvage.header = None;
        Ok(())
    }

    /// Makes a header where there is none that holds (V4), and keeps the line that should have been it.
    fn stand_in(&mut self) -> Result<()> {
        let line = self.salvage.header.take();
        let named = line.as_ref().and_then(|held| session_id(&held.text));
        let Some(id) = named.or_else(|| self.options.name.clone()) else {
            let what = "no line names the session, and the input has no name to take its place";
            return Err(Error::corrupt(what).with_field("header"));
        };
        let text = NewHeader::new(&id, 0).to_text();
        let view = check_header(&text).map_err(|refusal| refusal.header_error())?;
        self.outcome.warn(WarningKind::HeaderMade, line.as_ref().map_or(1, |held| held.line));
        self.has_header = true;
        self.pending = None;
        self.sink.header(&ImportHeader { view, text, placeholder_cwd: false })?;
        match line {
            Some(held) => self.set_aside(&held.aside()),
            None => Ok(()),
        }
    }

    /// Keeps a line that cannot take its place, or a part of one.
    fn keep(&mut self, line: &Line<'_>) -> Result<()> {
        let (text, offset) = without_mark(line);
        let aside = Aside {
            before: line.goes_on,
            after: line.unfinished,
            unended: !line.ended && !line.unfinished,
            ..Aside::line(line.no, offset, text)
        };
        if line.is_whole() && trim(text).is_empty() {
            if line.nuls == 0 {
                self.outcome.warn(WarningKind::BlankLine, line.no);
            }
        } else {
            self.set_aside(&aside)?;
        }
        self.note_nuls(line);
        Ok(())
    }

    /// NUL bytes at the end are a torn tail.
    fn note_nuls(&mut self, line: &Line<'_>) {
        if line.nuls > 0 {
            let offset = line.offset + line.text.len() as u64;
            self.damage = Some(Damage { line: line.no, offset, fault: None, nul: true });
        }
    }

    /// Keeps a part of the compressed input that no frame could be read from.
    fn gap(&mut self, gap: &Gap) -> Result<()> {
        let cause = Error::corrupt(gap.why.clone()).with_offset(gap.offset);
        self.break_off(cause)?;
        let line = self.outcome.lines;
        let aside = Aside { compressed: true, ..Aside::line(line, gap.offset, &gap.bytes) };
        self.set_aside(&aside)
    }

    fn set_aside(&mut self, aside: &Aside<'_>) -> Result<()> {
        self.salvage.list.note(aside.line, aside.offset);
        let (max, time_ms) = (self.options.event_bytes_max, self.sink.last_time_ms);
        let (sink, next) = (&mut *self.sink, &mut self.next);
        aside.for_each(max, |data| {
            if *next > limits::SAFE_INTEGER_MAX {
                return Err(Error::limit("seq", *next, limits::SAFE_INTEGER_MAX));
            }
            sink.event(salvaged_event(data, time_ms), *next, aside.line)?;
            *next += 1;
            Ok(())
        })
    }
}

/// The text of a line and its offset, without a byte order mark at the start of the input.
fn without_mark<'a>(line: &Line<'a>) -> (&'a [u8], u64) {
    match line.text.strip_prefix(BOM) {
        Some(rest) if line.no == 1 && !line.goes_on => (rest, line.offset + BOM.len() as u64),
        _ => (line.text, line.offset),
    }
}

/// The id of a header that does not hold, when it is one that a session may have.
fn session_id(text: &[u8]) -> Option<SessionId> {
    if crate::json::check(text, limits::JSON_DEPTH_MAX).is_err() || !is_object(text) {
        return None;
    }
    if string_value(member(text, b"type")?)?.as_ref() != b"session" {
        return None;
    }
    SessionId::from_wtf8(&string_value(member(text, b"id")?)?).ok()
}
