//! The lines of `log` in each shape.
//!
//! # Invariants
//! Ll1. For people a line is one line, escaped, and cut to the terminal, or to `PIPE_COLUMNS` of text in a pipe.
//! Ll2. For machines every event is one object with its whole `data`, which has no control character either.

use everlog::{Event, SurfaceOp};

use crate::args::{Globals, Shape};
use crate::entries::Entry;
use crate::exit::Failure;
use crate::json_out::{Object, array};
use crate::out::Out;
use crate::text::{self, Style};
use crate::{json_text, time, width};

/// Columns of an entry's text where there is no terminal.
const PIPE_COLUMNS: usize = 400;
/// Columns of a terminal that does not say how wide it is.
const TERMINAL_COLUMNS: usize = 100;
const SESSION_COLUMNS: usize = 16;
const TYPE_COLUMNS: usize = 20;
const TEXT_COLUMNS_MIN: usize = 20;

/// The position behind an event, as text, where there is one.
pub(super) type CursorOf<'a> = &'a mut dyn FnMut(&Event) -> Result<Option<String>, Failure>;

/// Where entries go.
pub(super) struct Lines {
    out: Out,
    style: Style,
    shape: Shape,
    columns: usize,
    /// Whether the columns name the session: there may be several.
    sessions: bool,
    shown: u64,
}

impl Lines {
    /// `sessions`: there may be several. `live`: lines are wanted at once, so there is no pager.
    pub(super) fn new(globals: &Globals, shape: Shape, sessions: bool, live: bool) -> Self {
        let human = matches!(shape, Shape::Table | Shape::Text);
        let columns = width::of_stdout();
        let columns = columns.unwrap_or(match shape {
            Shape::Table => TERMINAL_COLUMNS,
            _ => PIPE_COLUMNS,
        });
        let style = Style::for_stdout(globals.color);
        let out = if human && !live { Out::paged(globals) } else { Out::new() };
        Self { out, style, shape, columns, sessions, shown: 0 }
    }

    /// Prints an entry; `cursor` tells the position behind an event.
    pub(super) fn put(
        &mut self,
        session: &[u8],
        entry: &Entry,
        cursor: CursorOf<'_>,
    ) -> Result<(), Failure> {
        match self.shape {
            Shape::Table => {
                let line = self.aligned(session, entry);
                self.out.line(line)?;
            }
            Shape::Text => {
                let line = self.tabbed(session, entry);
                self.out.line(line)?;
            }
            Shape::Json | Shape::Jsonl => {
                for event in &entry.events {
                    let cursor = cursor(event)?;
                    self.object(session, event, cursor)?;
                }
            }
        }
        self.shown += 1;
        Ok(())
    }

    /// Hands everything to the operating system.
    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        self.out.finish()
    }

    /// Whether the reader of standard output went away.
    pub(super) fn is_closed(&self) -> bool {
        self.out.is_closed()
    }

    /// How many lines there were.
    pub(super) fn shown(&self) -> u64 {
        self.shown
    }

    fn object(
        &mut self,
        session: &[u8],
        event: &Event,
        cursor: Option<String>,
    ) -> Result<(), Failure> {
        let line = object(session, event).maybe_text("cursor", cursor).end();
        if self.shape == Shape::Jsonl {
            return self.out.line(line);
        }
        let first = self.shown == 0;
        self.shown += 1;
        self.out.put(if first { b"[" } else { b"," })?;
        self.out.put(&line)
    }

    /// Time, session, seqs, type and text.
    fn tabbed(&self, session: &[u8], entry: &Entry) -> String {
        let event_type = entry.events.first().map(|e| text::line(&e.event_type));
        [
            time::machine(entry.events.first().map_or(0, |e| e.time_ms)),
            text::line(session),
            seqs(entry),
            self.style.event_type(kind(entry), &event_type.unwrap_or_default()),
            width::cut(&entry.text(), self.columns),
        ]
        .join("\t")
    }

    /// The same in columns.
    fn aligned(&self, session: &[u8], entry: &Entry) -> String {
        let mut kind_cell = width::cut(kind(entry), TYPE_COLUMNS);
        if entry.events.len() > 1 {
            kind_cell.push_str(&format!(" x{}", entry.events.len()));
        }
        let mut place = time::local(entry.events.first().map_or(0, |e| e.time_ms));
        if self.sessions {
            let session = padded(width::cut(session, SESSION_COLUMNS), SESSION_COLUMNS);
            place.push_str(&["  ", &session].concat());
        }
        place.push_str(&["  ", &padded(seqs(entry), 7)].concat());
        let kind_cell = padded(kind_cell, TYPE_COLUMNS);
        let used = width::columns(&place) + width::columns(&kind_cell) + 4;
        let room = self.columns.saturating_sub(used).max(TEXT_COLUMNS_MIN);
        let line = format!(
            "{}  {}  {}",
            self.style.aside(&place),
            self.style.event_type(kind(entry), &kind_cell),
            width::cut(&entry.text(), room)
        );
        line.trim_end().to_owned()
    }

    /// Ends the output; gives how many lines there were.
    pub(super) fn finish(&mut self) -> Result<u64, Failure> {
        if self.shape == Shape::Json {
            self.out.line(if self.shown == 0 { "[]" } else { "]" })?;
        }
        self.out.finish()?;
        Ok(self.shown)
    }
}

fn kind(entry: &Entry) -> &[u8] {
    entry.events.first().map_or(b"", |e| &e.event_type)
}

fn seqs(entry: &Entry) -> String {
    match (entry.first(), entry.last()) {
        (first, last) if first == last => first.to_string(),
        (first, last) => format!("{first}..{last}"),
    }
}

fn padded(mut cell: String, columns: usize) -> String {
    let room = columns.saturating_sub(width::columns(&cell));
    cell.extend(std::iter::repeat_n(' ', room));
    cell
}

/// An event for machines, up to and with its data.
pub(super) fn object(session: &[u8], event: &Event) -> Object {
    let mut object = Object::new()
        .text("session", session)
        .number("seq", event.seq)
        .time("time", event.time_ms)
        .text("type", &event.event_type);
    if event.ignorable {
        object = object.flag("ignorable", true);
    }
    match event.surface_op {
        Some(SurfaceOp::Append) => object = object.text("surfaceOp", "append"),
        Some(SurfaceOp::Replace { start, end }) => {
            let op = Object::nested().text("op", "replace").number("start", start);
            object = object.raw("surfaceOp", &op.number("end", end).end());
        }
        None => {}
    }
    if let Some(sources) = &event.sources {
        object = object.raw("sourceEventSeqs", &numbers(sources));
    }
    object.raw("data", &json_text::compact(&event.data))
}

/// A JSON array of seqs.
pub(super) fn numbers(seqs: &[u64]) -> Vec<u8> {
    array(seqs.iter().map(|seq| seq.to_string().into_bytes()))
}
