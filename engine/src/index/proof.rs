//! How far a lane that another process writes is known to be durable, and whether what was read of it still counts.
//!
//! # Invariants
//! Pf1. What lies below the proved place survives the machine: a mark, a slot or the header of the next segment says so,
//!      and each of them is written after the sync that it speaks of (docs/recovery.md, "The watermark").
//! Pf2. A lane of which more was read than a recovery has kept is stale, and stays so until it is read again.

use super::lane_view::LaneView;
use super::load::Lanes;
use crate::format::frame::{FrameHeader, kind};
use crate::format::segment::HEADER_LEN;
use crate::types::SegmentNo;

/// What a view has learned on its way.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Proof {
    /// Segment and offset that the last mark vouches for.
    marked: Option<(SegmentNo, u64)>,
    is_stale: bool,
}

impl LaneView {
    /// Takes note of a SYNCMARK or CLOSE frame at `offset`.
    pub(super) fn note_mark(&mut self, segment: SegmentNo, offset: u64, h: &FrameHeader) {
        if matches!(h.kind, kind::SYNCMARK | kind::CLOSE) {
            self.proof.marked = self.proof.marked.max(Some((segment, h.seq.min(offset))));
        }
    }

    /// Takes note of where a segment ends, when it was read up to `from` before.
    pub(super) fn note_end(&mut self, from: u64, known_end: Option<u64>) {
        if known_end.is_some_and(|end| from > end) {
            self.proof.is_stale = true;
        }
    }

    /// Segment and offset below which all that was read of the lane is durable.
    pub(crate) fn durable_place(&self) -> (SegmentNo, u64) {
        let slot = self.slot.as_ref().map(|s| (s.segment, s.durable_end));
        // The segment before is synced before the header of the next is written.
        let newest = self.segments.last_key_value().map(|(no, _)| (*no, HEADER_LEN));
        let best = self.proof.marked.max(slot).max(newest);
        best.unwrap_or((0, 0))
    }
}

impl Lanes {
    /// Whether more was read of a lane than a recovery has kept.
    pub(crate) fn is_stale(&self) -> bool {
        self.views.values().any(|v| v.proof.is_stale)
    }
}
