//! The lines of `log`: events that pass the filters, runs of stream chunks taken together.
//!
//! # Invariants
//! E1. A run is chunks of one turn and step that follow each other; it ends at `RUN_BYTES_MAX` or `RUN_EVENTS_MAX`.
//! E2. Forward and backward give the same entries, but for where a run that is too long was cut.
//! E3. One frame and one run are in memory at a time.
//! E4. What cannot be read is stepped over and kept as missing seqs.

use everlog::data::at;
use everlog::{Event, Session, Surface};
use regex::bytes::Regex;

use crate::args_read::SurfaceClass;
use crate::cmd::is_damage;
use crate::exit::Failure;
use crate::{signal, summary};

const RUN_BYTES_MAX: usize = 16 << 20;
const RUN_EVENTS_MAX: usize = 1 << 16;

/// Which events are wanted.
#[derive(Default)]
pub(crate) struct Filter {
    /// Globs of types, any of which does; all types when there is none.
    pub(crate) types: Vec<Vec<u8>>,
    pub(crate) grep: Option<Regex>,
    pub(crate) since: Option<i64>,
    pub(crate) until: Option<i64>,
    pub(crate) surface: Option<SurfaceClass>,
}

impl Filter {
    /// Whether it passes what single events are asked for.
    pub(crate) fn takes(&self, event: &Event, surface: Option<&Surface>) -> bool {
        let class = match (event.surface_op, surface) {
            (None, _) => SurfaceClass::LogOnly,
            (Some(_), Some(surface)) if !surface.contains(event.seq) => SurfaceClass::Shadowed,
            _ => SurfaceClass::Current,
        };
        self.surface.is_none_or(|wanted| wanted == class)
            && self.since.is_none_or(|t| event.time_ms >= t)
            && self.until.is_none_or(|t| event.time_ms <= t)
            && (self.types.is_empty() || self.types.iter().any(|g| glob(g, &event.event_type)))
    }

    /// Whether the pattern is found in the text, or in the JSON of an event that is no chunk.
    pub(crate) fn finds(&self, entry: &Entry) -> bool {
        let Some(grep) = &self.grep else { return true };
        let json = |e: &Event| !is_chunk(e) && grep.is_match(&e.data);
        grep.is_match(&entry.text()) || entry.events.iter().any(json)
    }
}

/// One line: an event, or a run of chunks.
pub(crate) struct Entry {
    /// Never empty, in the order of their seqs.
    pub(crate) events: Vec<Event>,
}

impl Entry {
    pub(crate) fn first(&self) -> u64 {
        self.events.first().map_or(0, |e| e.seq)
    }

    pub(crate) fn last(&self) -> u64 {
        self.events.last().map_or(0, |e| e.seq)
    }

    /// Time of the last event.
    pub(crate) fn time_ms(&self) -> i64 {
        self.events.last().map_or(0, |e| e.time_ms)
    }

    /// What it says, whole.
    pub(crate) fn text(&self) -> Vec<u8> {
        match self.events.as_slice() {
            [one] => summary::of(&one.event_type, &one.data),
            many => summary::of_chunks(many),
        }
    }
}

/// Seqs that could not be read, as inclusive ranges.
pub(crate) type Missing = Vec<(u64, u64)>;

/// Entries of a range of a session, in one direction.
pub(crate) struct Entries<'a> {
    filter: &'a Filter,
    events: Box<dyn Iterator<Item = everlog::Result<Event>> + 'a>,
    surface: Option<Surface>,
    /// Whether runs are taken together.
    runs: bool,
    back: bool,
    /// Seqs that are still to come: below `end`, from `next` on.
    next: u64,
    end: u64,
    pending: Option<Event>,
    pub(crate) missing: Missing,
}

impl<'a> Entries<'a> {
    /// Events `first` to `last` of a session, both included, from the end when `back` is set.
    pub(crate) fn new(
        session: &Session,
        (first, last): (u64, u64),
        filter: &'a Filter,
        runs: bool,
        back: bool,
    ) -> Result<Self, Failure> {
        let end = session.next_seq().min(last.saturating_add(1));
        let range = session.range(first, last);
        let surface = match filter.surface {
            Some(SurfaceClass::Current | SurfaceClass::Shadowed) => {
                Some(session.surface_at(u64::MAX)?)
            }
            _ => None,
        };
        Ok(Self {
            filter,
            events: if back { Box::new(range.rev()) } else { Box::new(range) },
            surface,
            runs,
            back,
            next: first.min(end),
            end,
            pending: None,
            missing: Vec::new(),
        })
    }

    /// The next entry that passes all filters.
    pub(crate) fn next_entry(&mut self) -> Result<Option<Entry>, Failure> {
        while let Some(first) = self.next_event()? {
            let entry = self.run_of(first)?;
            if self.filter.finds(&entry) {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    fn run_of(&mut self, first: Event) -> Result<Entry, Failure> {
        let mut bytes = first.data.len();
        let mut events = vec![first];
        while self.runs && events.len() < RUN_EVENTS_MAX && bytes < RUN_BYTES_MAX {
            if !events.last().is_some_and(is_chunk) {
                break;
            }
            let Some(event) = self.next_event()? else { break };
            if !events.last().is_some_and(|last| follows(last, &event)) {
                self.pending = Some(event);
                break;
            }
            bytes += event.data.len();
            events.push(event);
        }
        if self.back {
            events.reverse();
        }
        Ok(Entry { events })
    }

    /// The next event that passes the filters of single events.
    fn next_event(&mut self) -> Result<Option<Event>, Failure> {
        if let Some(event) = self.pending.take() {
            return Ok(Some(event));
        }
        loop {
            signal::check()?;
            match self.events.next() {
                Some(Ok(event)) => {
                    self.pass(event.seq);
                    if self.filter.takes(&event, self.surface.as_ref()) {
                        return Ok(Some(event));
                    }
                }
                Some(Err(e)) if is_damage(&e) => {}
                Some(Err(e)) => return Err(e.into()),
                None => {
                    self.finish();
                    return Ok(None);
                }
            }
        }
    }

    /// Takes note that `seq` was read; what lies before it was not.
    fn pass(&mut self, seq: u64) {
        if self.back {
            if seq + 1 < self.end {
                self.missing.push((seq + 1, self.end - 1));
            }
            self.end = seq;
        } else {
            if self.next < seq {
                self.missing.push((self.next, seq - 1));
            }
            self.next = seq + 1;
        }
    }

    fn finish(&mut self) {
        if self.next < self.end {
            self.missing.push((self.next, self.end - 1));
            self.next = self.end;
        }
    }
}

/// Whether two events are neighbours in a run of chunks.
pub(crate) fn follows(last: &Event, event: &Event) -> bool {
    event.seq.abs_diff(last.seq) == 1
        && is_chunk(last)
        && is_chunk(event)
        && place_of(last) == place_of(event)
}

pub(crate) fn is_chunk(event: &Event) -> bool {
    *event.event_type == *b"assistant/chunk"
}

/// Turn and step, as their JSON says.
fn place_of(event: &Event) -> (Vec<u8>, Vec<u8>) {
    let of = |name| at(&event.data, &[name]).unwrap_or_default().to_vec();
    (of("turn"), of("step"))
}

/// Whether a pattern with `*` and `?` is all of the text; `*` takes in `/` too.
pub(crate) fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where the last star stands, and how much of the text it takes.
    let mut star: Option<(usize, usize)> = None;
    while let Some(byte) = text.get(t) {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(wanted) if *wanted == b'?' || wanted == byte => {
                p += 1;
                t += 1;
            }
            _ => {
                let Some((at, taken)) = star else { return false };
                star = Some((at, taken + 1));
                p = at + 1;
                t = taken + 1;
            }
        }
    }
    pattern.get(p..).is_some_and(|rest| rest.iter().all(|b| *b == b'*'))
}

#[cfg(test)]
mod tests {
    use super::glob;

    #[test]
    fn globs() {
        let cases = [
            ("tool/*", "tool/call", true),
            ("tool/*", "tool-workflow/run", false),
            ("*", "", true),
            ("*/call", "tool/call", true),
            ("t??l/c*l", "tool/call", true),
            ("tool", "tool/call", false),
            ("*a*b*c", "xaybzc", true),
            ("*a*b*c", "xaybz", false),
            ("", "", true),
            ("?", "", false),
        ];
        for (pattern, text, want) in cases {
            assert_eq!(glob(pattern.as_bytes(), text.as_bytes()), want, "{pattern} {text}");
        }
        assert!(!glob("*a".repeat(40).as_bytes(), "a".repeat(39).as_bytes()));
    }
}
