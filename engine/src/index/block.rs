//! The frames of a segment that no INDEX frame covers yet: what the next INDEX frame will list.
//!
//! # Invariants
//! B1. `bytes_max` is never below the size of the encoded payload, so that room can be kept for it.

use std::collections::HashMap;

use super::Digest;
use super::hash::ByNumber;
use crate::format::codec::{align8, wide};
use crate::format::event_types::mark;
use crate::format::frame::{self, FrameHeader};
use crate::format::index_frame::{self, ControlAt, FrameAt, Run};
use crate::types::SessionNo;

/// An INDEX frame in the making.
#[derive(Debug)]
pub(crate) struct Block {
    /// Offset of the first frame it covers.
    pub(crate) from: u64,
    /// Offset of the INDEX frame before it, 0 for none.
    pub(crate) prev_index: u64,
    runs: Vec<(SessionNo, Run)>,
    current: HashMap<SessionNo, usize, ByNumber>,
    controls: Vec<ControlAt>,
    bytes_max: usize,
}

impl Block {
    /// An empty block of frames from `from` on, behind the INDEX frame at `prev_index`.
    pub(crate) fn new(from: u64, prev_index: u64) -> Self {
        Self {
            from,
            prev_index,
            runs: Vec::new(),
            current: HashMap::default(),
            controls: Vec::new(),
            bytes_max: index_frame::HEADER_LEN,
        }
    }

    /// Offset of the INDEX frame before it in the segment.
    pub(crate) fn last_index(&self) -> Option<u64> {
        (self.prev_index > 0).then_some(self.prev_index)
    }

    /// Whether nothing is in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.controls.is_empty()
    }

    pub(crate) fn add_events(&mut self, offset: u64, h: &FrameHeader, digest: &Digest) {
        let session = SessionNo(h.session);
        let fits = self
            .current
            .get(&session)
            .and_then(|i| self.runs.get(*i))
            .is_some_and(|(_, run)| run.end_seq() == h.seq);
        if !fits {
            self.current.insert(session, self.runs.len());
            self.runs.push((session, Run::default()));
            self.bytes_max += 16 + 50;
        }
        self.bytes_max += 14 + 10 * digest.marks.len();
        let run = self.current.get(&session).and_then(|i| self.runs.get_mut(*i));
        if let Some((_, run)) = run {
            run.frames.push(FrameAt { offset, first_seq: h.seq, count: u32::from(h.count) });
            run.marks.extend_from_slice(&digest.marks);
            run.last_time_ms = digest.last_time_ms;
            run.bytes += u64::from(h.len);
        }
    }

    pub(crate) fn add_control(&mut self, row: ControlAt) {
        self.bytes_max += 40 + row.control.summary().len();
        self.controls.push(row);
    }

    /// Sessions with events in it; one may come more than once.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = SessionNo> + '_ {
        self.runs.iter().map(|(s, _)| *s)
    }

    /// Runs of one session.
    pub(crate) fn runs_of(&self, session: SessionNo) -> impl Iterator<Item = &Run> + '_ {
        // Most sessions have one run, and it is the current one.
        let newest = self.current.get(&session).copied();
        let upto = newest.map_or(0, |n| n + 1);
        self.runs.iter().take(upto).filter(move |(s, _)| *s == session).map(|(_, r)| r)
    }

    /// The run of a session that holds a seq.
    pub(crate) fn run_with(&self, session: SessionNo, seq: u64) -> Option<&Run> {
        let holds = |r: &Run| (r.first_seq()..r.end_seq()).contains(&seq);
        let newest = self.current.get(&session).and_then(|i| self.runs.get(*i)).map(|(_, r)| r);
        newest.filter(|r| holds(r)).or_else(|| self.runs_of(session).find(|r| holds(r)))
    }

    /// Bytes that an INDEX frame for it takes at most, header and padding included.
    pub(crate) fn frame_bytes_max(&self) -> u64 {
        frame::HEADER_LEN + align8(wide(self.bytes_max))
    }

    /// Payload of the INDEX frame.
    pub(crate) fn encode(&self, next_session: u64) -> Vec<u8> {
        self.encode_runs(&self.runs, next_session)
    }

    /// The payload that the first writers of the format made, who knew no marks of class OTHER.
    pub(crate) fn encode_without_other(&self, next_session: u64) -> Vec<u8> {
        let mut runs = self.runs.clone();
        runs.iter_mut().for_each(|(_, r)| r.marks.retain(|m| m.class != mark::OTHER));
        self.encode_runs(&runs, next_session)
    }

    fn encode_runs(&self, runs: &[(SessionNo, Run)], next_session: u64) -> Vec<u8> {
        let mut runs: Vec<(SessionNo, &Run)> = runs.iter().map(|(s, r)| (*s, r)).collect();
        runs.sort_by_key(|(s, r)| (*s, r.first_seq()));
        index_frame::encode(self.prev_index, self.from, next_session, &runs, &self.controls)
    }
}
