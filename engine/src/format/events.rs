//! Payload of an EVENTS frame: the events of one append call (docs/format.md section 7.1).
//!
//! # Invariants
//! P1. `decode(encode(events))` gives the same events; `data` comes back byte for byte.
//! P2. A decoder holds no more than the payload and, for citations, one number a byte of it.
//! P3. The event k of a frame is found by decoding at most 16 records.

use std::borrow::Cow;

use super::codec::{Walk, i64_at, narrow, put_varint, put_zigzag, u32_at, varint_len, wide};
use super::event_types::{code_of, type_of};
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
    pub(crate) const ALL: u64 = (1 << 6) - 1;
}

/// Encodes the events of one append call into `out`, which is cleared first. `first_seq` is the seq of the first,
/// `now_ms` the time of those that name none. Returns whether the payload has a restart table.
pub(crate) fn encode(
    out: &mut Vec<u8>,
    events: &[NewEvent<'_>],
    first_seq: Seq,
    now_ms: i64,
) -> bool {
    out.clear();
    let base = events.first().and_then(|e| e.time_ms).unwrap_or(now_ms);
    put_zigzag(out, base);
    let mut time = base;
    let restarts = events.len() > RESTART_ABOVE;
    let mut table = Vec::new();
    for (i, event) in events.iter().enumerate() {
        if restarts && i > 0 && i % RESTART_EVERY == 0 {
            table.extend_from_slice(&(out.len() as u32).to_le_bytes());
            table.extend_from_slice(&time.to_le_bytes());
        }
        encode_record(out, event, first_seq + wide(i), &mut time, now_ms);
    }
    out.extend_from_slice(&table);
    restarts
}

fn encode_record(out: &mut Vec<u8>, event: &NewEvent<'_>, seq: Seq, time: &mut i64, now_ms: i64) {
    let code = code_of(&event.event_type);
    let mut bits = 0;
    bits |= if event.ignorable { head::IGNORABLE } else { 0 };
    bits |= match event.surface_op {
        None => 0,
        Some(SurfaceOp::Append) => head::APPEND,
        Some(SurfaceOp::Replace { .. }) => head::REPLACE,
    };
    bits |= if event.sources.is_some() { head::SOURCES } else { 0 };
    bits |= if event.surface_first { head::SURFACE_FIRST } else { 0 };
    bits |= if code.is_none() { head::TYPE_TEXT } else { 0 };
    put_varint(out, bits);
    match code {
        Some(code) => out.push(code),
        None => {
            put_varint(out, wide(event.event_type.len()));
            out.extend_from_slice(&event.event_type);
        }
    }
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
}

impl<'a> Events<'a> {
    /// Opens the payload of a frame of `count` events from `first_seq`.
    pub(crate) fn open(
        payload: &'a [u8],
        count: u16,
        restarts: bool,
        first_seq: Seq,
    ) -> Decoded<Self> {
        let count = usize::from(count);
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
        })
    }

    /// The next event, or `None` after the last. After an error, nothing more is given.
    pub(crate) fn next_event(&mut self) -> Option<Decoded<EventRef<'a>>> {
        if self.next >= self.count {
            return None;
        }
        let seq = self.first_seq + wide(self.next);
        let out = record(&mut self.walk, seq, &mut self.time);
        let out = out.filter(|e| self.next > 0 || e.time_ms == self.base_time);
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

    /// Moves before the event at `index` of the frame.
    pub(crate) fn seek(&mut self, index: usize) -> Decoded<()> {
        let entry = index / RESTART_EVERY;
        let records = self.payload.get(..self.records_end).unwrap_or(&[]);
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
            match self.next_event() {
                Some(Ok(_)) => {}
                Some(Err(fault)) => return Err(fault),
                None => return Err(Fault::Field("an event is past the end of its frame")),
            }
        }
        Ok(())
    }
}

fn record<'a>(w: &mut Walk<'a>, seq: Seq, time: &mut i64) -> Option<EventRef<'a>> {
    let bits = w.varint()?;
    if bits & !head::ALL != 0 || bits & head::APPEND != 0 && bits & head::REPLACE != 0 {
        return None;
    }
    let event_type = if bits & head::TYPE_TEXT == 0 {
        type_of(w.byte()?)?
    } else {
        let len = narrow(w.varint()?);
        w.take(len)?
    };
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

    fn owned(payload: &[u8], n: usize, restarts: bool) -> Vec<crate::event::Event> {
        let mut d = Events::open(payload, n as u16, restarts, 100).unwrap();
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
            let restarts = encode(&mut payload, &events, 100, 5);
            assert_eq!(restarts, n > RESTART_ABOVE);
            let got = owned(&payload, n, restarts);
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
                let mut d = Events::open(&payload, n as u16, restarts, 100).unwrap();
                d.seek(k).unwrap();
                assert_eq!(d.next_event().unwrap().unwrap().to_owned(), *want);
            }
        }
    }

    #[test]
    fn p2_no_cut_or_flip_panics() {
        let mut payload = Vec::new();
        encode(&mut payload, &sample(40), 100, 5);
        for cut in 0..payload.len() {
            if let Ok(mut d) = Events::open(&payload[..cut], 40, true, 100) {
                while let Some(Ok(_)) = d.next_event() {}
            }
        }
        for bit in 0..payload.len() * 8 {
            let mut p = payload.clone();
            p[bit / 8] ^= 1 << (bit % 8);
            if let Ok(mut d) = Events::open(&p, 40, true, 100) {
                while let Some(Ok(_)) = d.next_event() {}
                for k in [0, 17, 39] {
                    let _ = Events::open(&p, 40, true, 100).unwrap().seek(k);
                }
            }
        }
    }
}
