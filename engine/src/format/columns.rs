//! Runs of events that are alike, kept as columns (docs/format.md section 7.1.1).
//!
//! # Invariants
//! K1. An event goes into a series only when prefix, text and suffix together are its `data`: looked at for each event.
//! K2. A series never takes more bytes than the records of its events would.
//! K3. Both ways are linear: of no event more than a few times [`TEMPLATE_MAX`] bytes are compared with its neighbours',
//!     and a series is walked once when it is opened and once when it is read.
//! K4. A template that is pointed at holds its own bytes: there are no chains.
//! K5. Nothing here knows JSON: where a string begins is a guess that costs bytes when it is wrong, never an event.

use super::codec::{Walk, narrow, put_varint, put_zigzag, wide};
use super::events::{RESTART_EVERY, head, put_type, take_type};
use crate::event::NewEvent;
use crate::limits::TEMPLATE_BYTES_MAX as TEMPLATE_MAX;

/// Fewest bytes that a template must save an event, and by which a better one must be longer.
const WORTH: usize = 16;
/// Templates that an encoder remembers.
const RECENT: usize = 4;

/// The fields of a series, in order.
#[cfg(test)]
pub(crate) const FIELDS: &[(usize, &str)] = &[
    (1, "head"),
    (2, "type"),
    (3, "n"),
    (4, "back"),
    (5, "template"),
    (6, "times"),
    (7, "lengths"),
    (8, "texts"),
];

/// Whether an encoder may make series.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Columns {
    /// Every event is a record.
    Off,
    /// Events that are alike become series.
    On,
    /// As `On`, but the suffix of an event is not compared with that of its series: a planted fault.
    #[cfg(feature = "planted")]
    Unchecked,
}

/// Where prefix and suffix of a series stand: in the data of one of the events that are encoded.
#[derive(Clone, Copy, Debug)]
struct Template {
    event: usize,
    prefix: usize,
    suffix: usize,
    /// Offset in the payload, once it is written.
    at: usize,
}

impl Template {
    fn saves(&self) -> usize {
        self.prefix + self.suffix
    }
}

/// The next events as a series.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    template: Template,
    is_new: bool,
    /// How many events, 1 to 16.
    pub(super) n: usize,
}

/// Finds the series of one payload.
#[derive(Debug)]
pub(super) struct Packer<'e, 'd> {
    events: &'e [NewEvent<'d>],
    columns: Columns,
    recent: [Option<Template>; RECENT],
    made: usize,
}

impl<'e, 'd> Packer<'e, 'd> {
    pub(super) fn new(events: &'e [NewEvent<'d>], columns: Columns) -> Self {
        let columns = if events.len() < 2 { Columns::Off } else { columns };
        Self { events, columns, recent: [None; RECENT], made: 0 }
    }

    /// The series that begins with the event `i`, when there is one that pays.
    pub(super) fn plan(&self, i: usize) -> Option<Plan> {
        if self.columns == Columns::Off {
            return None;
        }
        let event = self.events.get(i).filter(|e| fits(e))?;
        let end = self.events.len().min(i - i % RESTART_EVERY + RESTART_EVERY);
        let known = self.recent.iter().flatten().filter(|t| self.matches(event, t));
        let known = known.max_by_key(|t| t.saves()).copied();
        if let Some(template) = self.better(i, end, known.as_ref()) {
            let n = self.extent(&template, i, end);
            if n > 1 {
                return Some(Plan { template, is_new: true, n });
            }
        }
        let template = known?;
        Some(Plan { template, is_new: false, n: self.extent(&template, i, end) })
    }

    /// How many events from `i` on have this template, up to one that has a better one.
    fn extent(&self, template: &Template, i: usize, end: usize) -> usize {
        let Some(rest) = self.events.get(i..end) else { return 0 };
        let mut n = 1;
        while let (Some(first), Some(event)) = (rest.first(), rest.get(n)) {
            if !alike(first, event)
                || !self.matches(event, template)
                || self.better(i + n, end, Some(template)).is_some()
            {
                break;
            }
            n += 1;
        }
        n
    }

    fn matches(&self, event: &NewEvent<'_>, template: &Template) -> bool {
        let Some(model) = self.events.get(template.event) else { return false };
        let (prefix, suffix) = ends(&model.data, template);
        #[cfg(feature = "planted")]
        if self.columns == Columns::Unchecked {
            return event.data.len() >= template.saves() && event.data.starts_with(prefix);
        }
        event.data.len() >= template.saves()
            && event.data.starts_with(prefix)
            && event.data.ends_with(suffix)
    }

    /// A template for the events `i` and `i + 1` that is worth more than the one there is.
    fn better(&self, i: usize, end: usize, than: Option<&Template>) -> Option<Template> {
        if i + 1 >= end {
            return None;
        }
        let (a, b) = (self.events.get(i)?, self.events.get(i + 1)?);
        if !alike(a, b) {
            return None;
        }
        let known = than.map_or(0, Template::saves);
        if let Some(t) = than {
            // Most often the texts part at once, and there is nothing to find.
            let next = t.prefix..t.prefix + WORTH;
            if a.data.get(next.clone())? != b.data.get(next)? {
                return None;
            }
        }
        let (prefix, suffix) = shared(&a.data, &b.data);
        let found = Template { event: i, prefix, suffix, at: 0 };
        (found.saves() >= known + WORTH).then_some(found)
    }

    /// Appends a series that begins with the event `i`.
    pub(super) fn write(
        &mut self,
        out: &mut Vec<u8>,
        i: usize,
        plan: &Plan,
        time: &mut i64,
        now_ms: i64,
    ) {
        let Some(series) = self.events.get(i..i + plan.n) else { return };
        let (Some(first), Some(model)) = (series.first(), self.events.get(plan.template.event))
        else {
            return;
        };
        let start = out.len();
        let ignorable = if first.ignorable { head::IGNORABLE } else { 0 };
        put_type(out, head::SERIES | ignorable, &first.event_type);
        out.push(plan.n as u8);
        if plan.is_new {
            put_varint(out, 0);
            let template = Template { at: out.len(), ..plan.template };
            let (prefix, suffix) = ends(&model.data, &template);
            for part in [prefix, suffix] {
                put_varint(out, wide(part.len()));
                out.extend_from_slice(part);
            }
            if let Some(slot) = self.recent.get_mut(self.made % RECENT) {
                *slot = Some(template);
            }
            self.made += 1;
        } else {
            put_varint(out, wide(start - plan.template.at));
        }
        for event in series {
            let t = event.time_ms.unwrap_or(now_ms);
            put_zigzag(out, t.wrapping_sub(*time));
            *time = t;
        }
        let saves = plan.template.saves();
        for event in series {
            put_varint(out, wide(event.data.len().saturating_sub(saves)));
        }
        for event in series {
            let to = event.data.len().saturating_sub(plan.template.suffix);
            out.extend_from_slice(event.data.get(plan.template.prefix..to).unwrap_or_default());
        }
    }
}

/// Prefix and suffix of a template, in the data of the event that it was made of.
fn ends<'d>(data: &'d [u8], template: &Template) -> (&'d [u8], &'d [u8]) {
    let from = data.len().saturating_sub(template.suffix);
    let parts = (data.get(..template.prefix), data.get(from..));
    (parts.0.unwrap_or_default(), parts.1.unwrap_or_default())
}

/// Whether an event has nothing that a series cannot hold.
fn fits(event: &NewEvent<'_>) -> bool {
    event.surface_op.is_none() && event.sources.is_none() && !event.surface_first
}

/// Whether an event may stand in the series of another that fits.
fn alike(first: &NewEvent<'_>, event: &NewEvent<'_>) -> bool {
    fits(event) && event.ignorable == first.ignorable && event.event_type == first.event_type
}

/// Lengths of what two texts share at their ends, cut where a JSON string seems to begin and end, so that the strings
/// of their neighbours have the same ends.
fn shared(a: &[u8], b: &[u8]) -> (usize, usize) {
    let prefix = common_prefix(a, b, TEMPLATE_MAX);
    let prefix = last_quote(a.get(..prefix).unwrap_or_default()).map_or(0, |at| at + 1);
    let most = (TEMPLATE_MAX - prefix).min(a.len().min(b.len()) - prefix);
    let suffix = common_suffix(a, b, most);
    let from = a.len() - suffix;
    let mut quotes = memchr::memchr_iter(b'"', a.get(from..).unwrap_or_default());
    let quote = quotes.find(|at| !is_escaped(a, from + at));
    (prefix, quote.map_or(0, |at| suffix - at))
}

/// What an event shares with the one before it when both fit into one series: about what it takes less there.
pub(crate) fn shared_bytes(before: &NewEvent<'_>, event: &NewEvent<'_>) -> usize {
    if !fits(before) || !alike(before, event) {
        return 0;
    }
    let (prefix, suffix) = shared(&before.data, &event.data);
    if prefix + suffix < WORTH { 0 } else { prefix + suffix }
}

/// How many of the first bytes are equal, up to `most`.
fn common_prefix(a: &[u8], b: &[u8], most: usize) -> usize {
    let words = a.chunks_exact(8).zip(b.chunks_exact(8)).take(most / 8);
    let equal = 8 * words.take_while(|(a, b)| a == b).count();
    let rest = a.iter().zip(b).take(most).skip(equal);
    equal + rest.take_while(|(a, b)| a == b).count()
}

/// How many of the last bytes are equal, up to `most`.
fn common_suffix(a: &[u8], b: &[u8], most: usize) -> usize {
    let words = a.rchunks_exact(8).zip(b.rchunks_exact(8)).take(most / 8);
    let equal = 8 * words.take_while(|(a, b)| a == b).count();
    let rest = a.iter().rev().zip(b.iter().rev()).take(most).skip(equal);
    equal + rest.take_while(|(a, b)| a == b).count()
}

pub(super) fn last_quote(text: &[u8]) -> Option<usize> {
    let mut quotes = memchr::memrchr_iter(b'"', text);
    quotes.find(|at| !is_escaped(text, *at))
}

/// Whether an odd number of backslashes stands before a byte.
fn is_escaped(text: &[u8], at: usize) -> bool {
    let before = text.get(..at).unwrap_or_default();
    before.iter().rev().take_while(|b| **b == b'\\').count() % 2 == 1
}

/// What is left of a series that is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Series<'a> {
    pub(super) event_type: &'a [u8],
    pub(super) ignorable: bool,
    pub(super) prefix: &'a [u8],
    pub(super) suffix: &'a [u8],
    pub(super) left: usize,
    /// Bytes of the longest data in it.
    pub(super) longest: usize,
    times: Walk<'a>,
    lengths: Walk<'a>,
    texts: Walk<'a>,
}

impl<'a> Series<'a> {
    /// A series of which nothing is left.
    pub(super) const fn none() -> Self {
        let empty = Walk::new(&[]);
        Self {
            event_type: &[],
            ignorable: false,
            prefix: &[],
            suffix: &[],
            left: 0,
            longest: 0,
            times: empty,
            lengths: empty,
            texts: empty,
        }
    }

    /// Opens the series whose head, at `start` of the records, was read, and steps over it. `room` is how many events it may
    /// hold at most. What is not well formed is found here, not at its events.
    pub(super) fn open(
        records: &'a [u8],
        start: usize,
        w: &mut Walk<'a>,
        bits: u64,
        room: usize,
    ) -> Option<Self> {
        if bits & !(head::SERIES | head::IGNORABLE | head::TYPE_TEXT) != 0 {
            return None;
        }
        let event_type = take_type(w, bits)?;
        let n = usize::from(w.byte()?);
        if n == 0 || n > room {
            return None;
        }
        let (prefix, suffix) = match narrow(w.varint()?) {
            0 => template(w)?,
            back => template(&mut Walk::at(records.get(..start)?, start.checked_sub(back)?))?,
        };
        let times = *w;
        for _ in 0..n {
            w.zigzag()?;
        }
        let (lengths, mut sum, mut longest) = (*w, 0usize, 0);
        for _ in 0..n {
            let len = narrow(w.varint()?);
            sum = sum.checked_add(len)?;
            longest = longest.max(len);
        }
        let texts = Walk::new(w.take(sum)?);
        let ignorable = bits & head::IGNORABLE != 0;
        let longest = prefix.len() + longest + suffix.len();
        Some(Self {
            event_type,
            ignorable,
            prefix,
            suffix,
            left: n,
            longest,
            times,
            lengths,
            texts,
        })
    }

    /// Time since the event before and text of the next event.
    pub(super) fn next(&mut self) -> Option<(i64, &'a [u8])> {
        self.left = self.left.checked_sub(1)?;
        let len = narrow(self.lengths.varint()?);
        Some((self.times.zigzag()?, self.texts.take(len)?))
    }
}

fn template<'a>(w: &mut Walk<'a>) -> Option<(&'a [u8], &'a [u8])> {
    let len = narrow(w.varint()?);
    let prefix = w.take(len)?;
    let len = narrow(w.varint()?);
    let suffix = w.take(len)?;
    (prefix.len() + suffix.len() <= TEMPLATE_MAX).then_some((prefix, suffix))
}
