//! Payload of an INDEX frame: what the frames before it hold (docs/format.md section 7.2).
//!
//! # Invariants
//! I1. Derived: everything here can be had by scanning the frames it covers.
//! I2. Runs are sorted by session, then by first seq; a lookup reads the directory by binary search.

use super::codec::{Walk, is_safe, narrow, put_varint, put_zigzag, u32_at, u64_at, wide};
use super::control::{Control, put_row};
use super::{Decoded, Fault};
use crate::types::{Seq, SessionNo};

pub(crate) const HEADER_LEN: usize = 32;
const DIR_LEN: usize = 16;

#[cfg(test)]
pub(crate) const FIELDS: &[super::FieldRow] = &[
    (0, 8, "prev_index"),
    (8, 8, "from"),
    (16, 8, "next_session"),
    (24, 4, "runs"),
    (28, 4, "controls"),
];

/// A place of an event that structure is read from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mark {
    pub(crate) seq: Seq,
    pub(crate) class: u8,
}

/// Place of one EVENTS frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FrameAt {
    pub(crate) offset: u64,
    pub(crate) first_seq: Seq,
    pub(crate) count: u32,
}

/// EVENTS frames of one session without a gap in seq.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Run {
    pub(crate) frames: Vec<FrameAt>,
    pub(crate) marks: Vec<Mark>,
    pub(crate) last_time_ms: i64,
    /// Sum of the payload lengths of its frames.
    pub(crate) bytes: u64,
}

impl Run {
    pub(crate) fn first_seq(&self) -> Seq {
        self.frames.first().map_or(0, |f| f.first_seq)
    }

    pub(crate) fn end_seq(&self) -> Seq {
        self.frames.last().map_or(0, |f| f.first_seq + u64::from(f.count))
    }
}

/// A control frame as an INDEX frame lists it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ControlAt {
    pub(crate) offset: u64,
    pub(crate) seq: Seq,
    pub(crate) session: SessionNo,
    /// Without the header text when it comes from an INDEX frame.
    pub(crate) control: Control,
}

/// Encodes an index of `runs`, sorted by (session, first seq), and `controls`, sorted by offset.
pub(crate) fn encode(
    prev_index: u64,
    from: u64,
    next_session: u64,
    runs: &[(SessionNo, &Run)],
    controls: &[ControlAt],
) -> Vec<u8> {
    let mut out = vec![0; HEADER_LEN + runs.len() * DIR_LEN];
    super::codec::put(&mut out, 0, &prev_index.to_le_bytes());
    super::codec::put(&mut out, 8, &from.to_le_bytes());
    super::codec::put(&mut out, 16, &next_session.to_le_bytes());
    super::codec::put(&mut out, 24, &(runs.len() as u32).to_le_bytes());
    super::codec::put(&mut out, 28, &(controls.len() as u32).to_le_bytes());
    let mut before = from;
    for c in controls {
        put_row(
            &mut out,
            c.offset - before,
            c.control.kind(),
            c.seq,
            c.session,
            &c.control.summary(),
        );
        before = c.offset;
    }
    for (i, (session, run)) in runs.iter().enumerate() {
        let entry = out.len() as u32;
        let at = HEADER_LEN + i * DIR_LEN;
        super::codec::put(&mut out, at, &session.0.to_le_bytes());
        super::codec::put(&mut out, at + 8, &entry.to_le_bytes());
        let events = (run.end_seq() - run.first_seq()) as u32;
        super::codec::put(&mut out, at + 12, &events.to_le_bytes());
        encode_run(&mut out, from, run);
    }
    out
}

fn encode_run(out: &mut Vec<u8>, from: u64, run: &Run) {
    put_varint(out, run.first_seq());
    put_zigzag(out, run.last_time_ms);
    put_varint(out, run.bytes);
    put_varint(out, wide(run.frames.len()));
    let mut before = from;
    for f in &run.frames {
        put_varint(out, (f.offset - before) >> 3);
        put_varint(out, u64::from(f.count));
        before = f.offset;
    }
    put_varint(out, wide(run.marks.len()));
    let mut seq = run.first_seq();
    for m in &run.marks {
        put_varint(out, (m.seq - seq) << 3 | u64::from(m.class));
        seq = m.seq;
    }
}

/// One line of the directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DirRow {
    pub(crate) session: SessionNo,
    pub(crate) entry: u32,
    pub(crate) events: u32,
}

/// A decoded INDEX header over its payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IndexFrame<'a> {
    payload: &'a [u8],
    pub(crate) prev_index: u64,
    pub(crate) from: u64,
    pub(crate) next_session: u64,
    pub(crate) runs: usize,
    controls: usize,
}

impl<'a> IndexFrame<'a> {
    /// Opens the payload of the INDEX frame at `offset`.
    pub(crate) fn open(payload: &'a [u8], offset: u64) -> Decoded<Self> {
        if payload.len() < HEADER_LEN {
            return Err(Fault::Short);
        }
        let out = Self {
            payload,
            prev_index: u64_at(payload, 0),
            from: u64_at(payload, 8),
            next_session: u64_at(payload, 16),
            runs: u32_at(payload, 24) as usize,
            controls: u32_at(payload, 28) as usize,
        };
        if out.prev_index >= offset || out.from > offset || out.prev_index > out.from {
            return Err(Fault::Field("an index points forward"));
        }
        if out.next_session > crate::limits::SESSION_COUNTER_MAX + 1 {
            return Err(Fault::Field("an index has a session counter out of range"));
        }
        let left = payload.len() - HEADER_LEN;
        if out.runs > left / DIR_LEN || out.controls > left {
            return Err(Fault::Field("an index counts more than it can hold"));
        }
        Ok(out)
    }

    /// The directory row at a place below `runs`.
    pub(crate) fn row(&self, i: usize) -> DirRow {
        let at = HEADER_LEN + i * DIR_LEN;
        DirRow {
            session: SessionNo(u64_at(self.payload, at)),
            entry: u32_at(self.payload, at + 8),
            events: u32_at(self.payload, at + 12),
        }
    }

    /// The control frames listed.
    pub(crate) fn controls(&self) -> Decoded<Vec<ControlAt>> {
        let mut w = Walk::at(self.payload, HEADER_LEN + self.runs * DIR_LEN);
        let mut out = Vec::with_capacity(self.controls.min(w.left() / 20));
        let mut offset = self.from;
        for _ in 0..self.controls {
            let row =
                self.control(&mut w, offset).ok_or(Fault::Field("an index row is cut short"))?;
            offset = row.offset;
            out.push(row);
        }
        Ok(out)
    }

    fn control(&self, w: &mut Walk<'_>, before: u64) -> Option<ControlAt> {
        let offset = before.checked_add(w.varint()?.checked_mul(8)?)?;
        let kind = w.byte()?;
        let (seq, session) = (w.varint()?, SessionNo(w.varint()?));
        if !is_safe(seq) {
            return None;
        }
        let len = narrow(w.varint()?);
        let control = Control::decode(kind, w.take(len)?).ok()?;
        Some(ControlAt { offset, seq, session, control })
    }

    /// First seq, time of the last event and bytes of a row, without its frames.
    pub(crate) fn bounds(&self, row: DirRow) -> Option<(Seq, i64, u64)> {
        let mut w = Walk::at(self.payload, row.entry as usize);
        let out = (w.varint()?, w.zigzag()?, w.varint()?);
        let end = out.0.saturating_add(u64::from(row.events));
        (row.events > 0 && is_safe(end) && is_safe(out.2)).then_some(out)
    }

    /// The whole run of a row. It says what [`IndexFrame::bounds`] says of the row, or it is refused.
    pub(crate) fn run(&self, row: DirRow) -> Decoded<Run> {
        let mut w = Walk::at(self.payload, row.entry as usize);
        let run = self.walk_run(&mut w).filter(|run| self.agrees(row, run));
        run.ok_or(Fault::Field("an index entry is not well formed"))
    }

    /// Whether the frames and marks of a run fit its row of the directory.
    fn agrees(&self, row: DirRow, run: &Run) -> bool {
        let events = run.end_seq().checked_sub(run.first_seq());
        let marked = |m: &Mark| (run.first_seq()..run.end_seq()).contains(&m.seq);
        self.bounds(row).is_some()
            && events == Some(u64::from(row.events))
            && run.frames.iter().all(|f| f.count > 0)
            && run.marks.iter().all(marked)
    }

    fn walk_run(&self, w: &mut Walk<'_>) -> Option<Run> {
        let (first_seq, last_time_ms, bytes) = (w.varint()?, w.zigzag()?, w.varint()?);
        let n = narrow(w.varint()?);
        // Each takes two varints.
        if n > w.left() / 2 {
            return None;
        }
        let mut frames = Vec::with_capacity(n);
        let (mut offset, mut seq) = (self.from, first_seq);
        for _ in 0..n {
            offset = offset.checked_add(w.varint()?.checked_mul(8)?)?;
            let count = u32::try_from(w.varint()?).ok()?;
            frames.push(FrameAt { offset, first_seq: seq, count });
            seq = seq.checked_add(u64::from(count))?;
        }
        let n = narrow(w.varint()?);
        if n > w.left() {
            return None;
        }
        let mut marks = Vec::with_capacity(n);
        let mut at = first_seq;
        for _ in 0..n {
            let v = w.varint()?;
            at = at.checked_add(v >> 3)?;
            marks.push(Mark { seq: at, class: (v & 7) as u8 });
        }
        Some(Run { frames, marks, last_time_ms, bytes })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::format::control::Body;

    #[test]
    fn i2_a_run_that_its_row_does_not_describe_is_refused() {
        let run = Run {
            frames: vec![FrameAt { offset: 4_160, first_seq: 5, count: 3 }],
            marks: vec![Mark { seq: 6, class: 0 }],
            last_time_ms: 1,
            bytes: 7,
        };
        let good = encode(0, 4_096, 1, &[(SessionNo(9), &run)], &[]);
        let of = |bytes: &[u8]| {
            let index = IndexFrame::open(bytes, 9_000).unwrap();
            let row = index.row(0);
            (index.bounds(row).is_some(), index.run(row).is_ok())
        };
        assert_eq!(of(&good), (true, true));
        for (events, bounds) in [(0u32, false), (2, true), (4, true), (u32::MAX, true)] {
            let mut lie = good.clone();
            lie[HEADER_LEN + 12..HEADER_LEN + 16].copy_from_slice(&events.to_le_bytes());
            assert_eq!(of(&lie), (bounds, false), "{events} events");
        }
        let mut far = run.clone();
        far.marks[0].seq = 8;
        assert_eq!(of(&encode(0, 4_096, 1, &[(SessionNo(9), &far)], &[])), (true, false));
    }

    #[test]
    fn i1_an_index_round_trips() {
        let run = Run {
            frames: vec![
                FrameAt { offset: 4_160, first_seq: 5, count: 3 },
                FrameAt { offset: 4_800, first_seq: 8, count: 65_535 },
            ],
            marks: vec![Mark { seq: 5, class: 0 }, Mark { seq: 900, class: 6 }],
            last_time_ms: -4,
            bytes: 77,
        };
        let create = Control {
            session_epoch: 0,
            flags: 0,
            time_ms: 1,
            body: Body::Create { id: b"a"[..].into(), header: b"{}"[..].into() },
        };
        let controls =
            vec![ControlAt { offset: 4_096, seq: 0, session: SessionNo(9), control: create }];
        let bytes = encode(0, 4_096, 10, &[(SessionNo(9), &run)], &controls);
        let index = IndexFrame::open(&bytes, 9_000).unwrap();
        assert_eq!(
            (index.prev_index, index.from, index.next_session, index.runs),
            (0, 4_096, 10, 1)
        );
        let row = index.row(0);
        assert_eq!((row.session, row.events), (SessionNo(9), 65_538));
        assert_eq!(index.run(row).unwrap(), run);
        assert_eq!(index.bounds(row), Some((5, -4, 77)));
        let got = index.controls().unwrap();
        assert_eq!((got[0].offset, got[0].session), (4_096, SessionNo(9)));
        for cut in 0..bytes.len() {
            if let Ok(i) = IndexFrame::open(&bytes[..cut], 9_000) {
                let _ = i.controls();
                (0..i.runs).for_each(|k| drop(i.run(i.row(k))));
            }
        }
    }
}
