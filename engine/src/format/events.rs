//! Payload of an EVENTS frame: the events of one append call (docs/format.md section 7.1).
//!
//! # Invariants
//! P1. `decode(encode(events))` gives the same events; `data` comes back byte for byte.
//! P2. A decoder holds no more than the payload, one event and, for citations, one number a byte of it.
//! P3. The event k of a frame of more than 32 is found by decoding at most 16 events.

use std::borrow::Cow;

use super::codec::{Walk, i64_at, narrow, put_varint, put_zigzag, u32_at, varint_len, wide};
use super::columns::{Columns, Packer, Series};
use super::event_types::{code_of, type_of};
use super::frame::flag;
use super::{Decoded, Fault};
use crate::event::{EventRef, NewEvent, SurfaceOp};
use crate::types::Seq;

/// Events between two entries of the restart table.
pub(crate) const RESTART_EVERY: usize = 16;
/// Frames of more events than this have a restart table.
pub(crate) const RESTART_ABOVE: usize = 32;
const RESTART_LEN: usize = 12;

/// Bits of a record's head.
pub(crate) mod head {
    pub(crate) const IGNORABLE: u64 = 1;
    pub(crate) const APPEND: u64 = 1 << 1;
    pub(crate) const REPLACE: u64 = 1 << 2;
    pub(crate) const SOURCES: u64 = 1 << 3;
    pub(crate) const SURFACE_FIRST: u64 = 1 << 4;
    pub(crate) const TYPE_TEXT: u64 = 1 << 5;
    /// All that the record of one event can have.
    pub(crate) const ALL: u64 = (1 << 6) - 1;
    pub(crate) const SERIES: u64 = 1 << 7;
}

/// Encodes the events of one append call into `out`, which is cleared first. `first_seq` is the seq of the first,
/// `now_ms` the time of those that name none. Returns the flags of the frame.
pub(crate) fn encode(
    out: &mut Vec<u8>,
    events: &[NewEvent<'_>],
    first_seq: Seq,
    now_ms: i64,
    columns: Columns,
) -> u8 {
    out.clear();
    let base = events.first().and_then(|e| e.time_ms).unwrap_or(now_ms);
    put_zigzag(out, base);
    let mut time = base;
    let mut flags = if events.len() > RESTART_ABOVE { flag::RESTARTS } else { 0 };
    let mut table = Vec::new();
    let mut packer = Packer::new(events, columns);
    let mut i = 0;
    while let Some(event) = events.get(i) {
        if flags & flag::RESTARTS != 0 && i > 0 && i % RESTART_EVERY == 0 {
            table.extend_from_slice(&(out.len() as u32).to_le_bytes());
            table.extend_from_slice(&time.to_le_bytes());
        }
        if let Some(plan) = packer.plan(i) {
            packer.write(out, i, &plan, &mut time, now_ms);
            flags |= flag::COLUMNS;
            i += plan.n;
        } else {
            encode_record(out, event, first_seq + wide(i), &mut time, now_ms);
            i += 1;
        }
    }
    out.extend_from_slice(&table);
    flags
}

/// Appends a head with these bits, and the type.
pub(super) fn put_type(out: &mut Vec<u8>, bits: u64, event_type: &[u8]) {
    match code_of(event_type) {
        Some(code) => {
            put_varint(out, bits);
            out.push(code);
        }
        None => {
            put_varint(out, bits | head::TYPE_TEXT);
            put_varint(out, wide(event_type.len()));
            out.extend_from_slice(event_type);
        }
    }
}

fn encode_record(out: &mut Vec<u8>, event: &NewEvent<'_>, seq: Seq, time: &mut i64, now_ms: i64) {
    let mut bits = 0;
    bits |= if event.ignorable { head::IGNORABLE } else { 0 };
    bits |= match event.surface_op {
        None => 0,
        Some(SurfaceOp::Append) => head::APPEND,
        Some(SurfaceOp::Replace { .. }) => head::REPLACE,
    };
    bits |= if event.sources.is_some() { head::SOURCES } else { 0 };
    bits |= if event.surface_first { head::SURFACE_FIRST } else { 0 };
    put_type(out, bits, &event.event_type);
    let t = event.time_ms.unwrap_or(now_ms);
    put_zigzag(out, t.wrapping_sub(*time));
    *time = t;
    if let Some(SurfaceOp::Replace { start, end }) = event.surface_op {
        put_varint(out, start);
        put_varint(out, end);
    }
    if let Some(sources) = &event.sources {
        put_varint(out, wide(sources.len()));
        let mut before = seq;
        for s in sources.iter() {
            put_zigzag(out, s.wrapping_sub(before) as i64);
            before = *s;
        }
    }
    put_varint(out, wide(event.data.len()));
    out.extend_from_slice(&event.data);
}

/// Most bytes that the record of an event can take beside its data and type.
pub(crate) fn record_bytes_max(event: &NewEvent<'_>) -> usize {
    let sources = event.sources.as_ref().map_or(0, |s| 10 * (s.len() + 1));
    let sizes = varint_len(wide(event.data.len())) + varint_len(wide(event.event_type.len()));
    1 + 10 + 20 + sources + sizes + event.data.len() + event.event_type.len() + RESTART_LEN
}

/// A decoder of one payload.
#[derive(Clone, Debug)]
pub(crate) struct Events<'a> {
    walk: Walk<'a>,
    payload: &'a [u8],
    records_end: usize,
    base_time: i64,
    time: i64,
    first_seq: Seq,
    next: usize,
    count: usize,
    columns: bool,
    series: Series<'a>,
    /// Data of the event of a series that was given last; its start is the prefix of the series.
    data: Vec<u8>,
    /// Whether it does start so.
    is_begun: bool,
}

impl<'a> Events<'a> {
    /// Opens the payload of a frame of `count` events from `first_seq` with these `flags`.
    pub(crate) fn open(payload: &'a [u8], count: u16, flags: u8, first_seq: Seq) -> Decoded<Self> {
        let count = usize::from(count);
        let restarts = flags & flag::RESTARTS != 0;
        let table =
            if restarts { count.saturating_sub(1) / RESTART_EVERY * RESTART_LEN } else { 0 };
        let records_end = payload
            .len()
            .checked_sub(table)
            .ok_or(Fault::Field("the restart table is cut short"))?;
        let mut walk = Walk::new(payload.get(..records_end).unwrap_or(&[]));
        let base_time = walk.zigzag().ok_or(Fault::Field("the time of a frame is cut short"))?;
        let first_end = first_seq.checked_add(wide(count));
        if first_end.is_none_or(|end| end > crate::limits::SAFE_INTEGER_MAX + 1) {
            return Err(Fault::Field("a seq is out of range"));
        }
        Ok(Self {
            walk,
            payload,
            records_end,
            base_time,
            time: base_time,
            first_seq,
            next: 0,
            count,
            columns: flags & flag::COLUMNS != 0,
            series: Series::none(),
            data: Vec::new(),
            is_begun: false,
        })
    }

    /// The next event, or `None` after the last. After an error, nothing more is given.
    pub(crate) fn next_event(&mut self) -> Option<Decoded<EventRef<'_>>> {
        let (event, in_run) = match self.advance()? {
            Ok(found) => found,
            Err(fault) => return Some(Err(fault)),
        };
        if !in_run {
            return Some(Ok(event));
        }
        if self.is_begun {
            self.data.truncate(self.series.prefix.len());
        } else {
            self.data.clear();
            self.data.reserve(self.series.longest);
            self.data.extend_from_slice(self.series.prefix);
            self.is_begun = true;
        }
        self.data.extend_from_slice(event.data);
        self.data.extend_from_slice(self.series.suffix);
        Some(Ok(EventRef { data: &self.data, ..event }))
    }

    /// As [`Events::next_event`], for those who do not look at `data`: that of an event of a series is only its text.
    pub(crate) fn next_outline(&mut self) -> Option<Decoded<EventRef<'a>>> {
        Some(self.advance()?.map(|(event, _)| event))
    }

    /// The next event with what the payload holds of its data, and whether it is one of a series.
    fn advance(&mut self) -> Option<Decoded<(EventRef<'a>, bool)>> {
        if self.next >= self.count {
            return None;
        }
        let out = self.one(self.first_seq + wide(self.next));
        let out = out.filter(|(e, _)| self.next > 0 || e.time_ms == self.base_time);
        self.next += 1;
        match out {
            Some(event) if self.next < self.count || self.walk.left() == 0 => Some(Ok(event)),
            Some(_) => {
                self.next = self.count;
                Some(Err(Fault::Field("a frame of events has bytes left over")))
            }
            None => {
                self.next = self.count;
                Some(Err(Fault::Field("a record of an event is not well formed")))
            }
        }
    }

    fn one(&mut self, seq: Seq) -> Option<(EventRef<'a>, bool)> {
        if self.series.left == 0 {
            let start = self.walk.pos();
            let bits = self.walk.varint()?;
            if bits & head::SERIES == 0 {
                return record(&mut self.walk, bits, seq, &mut self.time).map(|e| (e, false));
            }
            if !self.columns {
                return None;
            }
            let room = RESTART_EVERY - self.next % RESTART_EVERY;
            let room = room.min(self.count - self.next);
            let records = self.payload.get(..self.records_end)?;
            self.series = Series::open(records, start, &mut self.walk, bits, room)?;
            self.is_begun = false;
        }
        let (delta, data) = self.series.next()?;
        self.time = self.time.wrapping_add(delta);
        let event = EventRef {
            seq,
            time_ms: self.time,
            event_type: self.series.event_type,
            data,
            surface_op: None,
            sources: None,
            ignorable: self.series.ignorable,
            surface_first: false,
        };
        Some((event, true))
    }

    /// Moves before the event at `index` of the frame.
    pub(crate) fn seek(&mut self, index: usize) -> Decoded<()> {
        let entry = index / RESTART_EVERY;
        let records = self.payload.get(..self.records_end).unwrap_or(&[]);
        self.series = Series::none();
        if entry > 0
            && self.records_end < self.payload.len()
            && entry <= self.count.saturating_sub(1) / RESTART_EVERY
        {
            let at = self.records_end + (entry - 1) * RESTART_LEN;
            let offset = narrow(u64::from(u32_at(self.payload, at)));
            if offset > records.len() {
                return Err(Fault::Field("a restart entry points outside"));
            }
            self.walk = Walk::at(records, offset);
            self.time = i64_at(self.payload, at + 4);
            self.next = entry * RESTART_EVERY;
        } else {
            self.walk = Walk::new(records);
            self.walk.zigzag();
            self.time = self.base_time;
            self.next = 0;
        }
        while self.next < index {
            match self.next_outline() {
                Some(Ok(_)) => {}
                Some(Err(fault)) => return Err(fault),
                None => return Err(Fault::Field("an event is past the end of its frame")),
            }
        }
        Ok(())
    }
}

/// The type behind a head with these bits.
pub(super) fn take_type<'a>(w: &mut Walk<'a>, bits: u64) -> Option<&'a [u8]> {
    if bits & head::TYPE_TEXT == 0 {
        return type_of(w.byte()?);
    }
    let len = narrow(w.varint()?);
    w.take(len)
}

fn record<'a>(w: &mut Walk<'a>, bits: u64, seq: Seq, time: &mut i64) -> Option<EventRef<'a>> {
    if bits & !head::ALL != 0 || bits & head::APPEND != 0 && bits & head::REPLACE != 0 {
        return None;
    }
    let event_type = take_type(w, bits)?;
    let time_ms = time.wrapping_add(w.zigzag()?);
    *time = time_ms;
    let surface_op = if bits & head::APPEND != 0 {
        Some(SurfaceOp::Append)
    } else if bits & head::REPLACE != 0 {
        Some(SurfaceOp::Replace { start: w.varint()?, end: w.varint()? })
    } else {
        None
    };
    let sources =
        if bits & head::SOURCES == 0 { None } else { Some(Cow::Owned(citations(w, seq)?)) };
    let len = narrow(w.varint()?);
    Some(EventRef {
        seq,
        time_ms,
        event_type,
        data: w.take(len)?,
        surface_op,
        sources,
        ignorable: bits & head::IGNORABLE != 0,
        surface_first: bits & head::SURFACE_FIRST != 0,
    })
}

fn citations(w: &mut Walk<'_>, seq: Seq) -> Option<Vec<Seq>> {
    let n = narrow(w.varint()?);
    if n > w.left() {
        return None;
    }
    let mut out = Vec::with_capacity(n);
    let mut before = seq;
    for _ in 0..n {
        before = before.wrapping_add(w.zigzag()? as u64);
        out.push(before);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn sample(n: usize) -> Vec<NewEvent<'static>> {
        (0..n)
            .map(|i| {
                let mut e = NewEvent::new(
                    ["turn/start", "user/message", "x/own", "tool/result"][i % 4],
                    [&b"{}"[..], br#"{"a":[1,2]}"#, b"null", b"\"\\ud800\""][i % 4],
                )
                .with_time_ms(1_000 + (i as i64 * 7919) % 50 - 25);
                if i % 4 == 1 {
                    e = e.with_surface_op(SurfaceOp::Append).with_sources(vec![0, i as u64 / 2, 3]);
                }
                if i % 4 == 3 {
                    e = e.with_surface_op(SurfaceOp::Replace { start: 4, end: 1 }).with_ignorable();
                    e.surface_first = true;
                }
                e
            })
            .collect()
    }

    fn owned(payload: &[u8], n: usize, flags: u8) -> Vec<crate::event::Event> {
        let mut d = Events::open(payload, n as u16, flags, 100).unwrap();
        let mut out = Vec::new();
        while let Some(e) = d.next_event() {
            out.push(e.unwrap().to_owned());
        }
        out
    }

    #[test]
    fn p1_events_round_trip() {
        for n in [1, 2, 16, 17, 32, 33, 64, 65, 100] {
            let events = sample(n);
            let mut payload = Vec::new();
            let flags = encode(&mut payload, &events, 100, 5, Columns::Off);
            assert_eq!(flags, u8::from(n > RESTART_ABOVE));
            let got = owned(&payload, n, flags);
            assert_eq!(got.len(), n);
            for (i, (g, e)) in got.iter().zip(&events).enumerate() {
                assert_eq!(g.seq, 100 + i as u64);
                assert_eq!(Some(g.time_ms), e.time_ms);
                assert_eq!((&g.event_type[..], &g.data[..]), (&e.event_type[..], &e.data[..]));
                assert_eq!((g.surface_op, g.ignorable), (e.surface_op, e.ignorable));
                assert_eq!(g.sources.as_deref(), e.sources.as_deref());
                assert_eq!(g.surface_first, e.surface_first);
            }
            for (k, want) in got.iter().enumerate() {
                let mut d = Events::open(&payload, n as u16, flags, 100).unwrap();
                d.seek(k).unwrap();
                assert_eq!(d.next_event().unwrap().unwrap().to_owned(), *want);
            }
        }
    }

    #[test]
    fn p2_no_cut_or_flip_panics() {
        let mut payload = Vec::new();
        encode(&mut payload, &sample(40), 100, 5, Columns::Off);
        for cut in 0..payload.len() {
            if let Ok(mut d) = Events::open(&payload[..cut], 40, flag::RESTARTS, 100) {
                while let Some(Ok(_)) = d.next_event() {}
            }
        }
        for bit in 0..payload.len() * 8 {
            let mut p = payload.clone();
            p[bit / 8] ^= 1 << (bit % 8);
            if let Ok(mut d) = Events::open(&p, 40, flag::RESTARTS, 100) {
                while let Some(Ok(_)) = d.next_event() {}
                for k in [0, 17, 39] {
                    let _ = Events::open(&p, 40, flag::RESTARTS, 100).unwrap().seek(k);
                }
            }
        }
    }
}
