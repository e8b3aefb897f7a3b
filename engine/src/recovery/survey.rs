//! Reading the active segment of a lane: which frames verify, where they do not, and how far the log is proved durable.
//!
//! # Invariants
//! Y1. Reads only.
//! Y2. The watermark counts only proofs: marks in frames that verify, the lane file, marks that other lanes hold.

use crate::error::Result;
use crate::format::frame::{FrameHeader, kind};
use crate::format::segment::HEADER_LEN;
use crate::format::slot::Slot;
use crate::segment::{Scan, Segment, Step};

/// Bytes that are no valid frame, between valid ones or behind the last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Gap {
    pub(crate) start: u64,
    /// The next valid frame, or `None` when none follows.
    pub(crate) next: Option<u64>,
    /// gsn that the frame at `start` would have.
    pub(crate) gsn: u64,
    /// Next session counter as known before the gap.
    pub(crate) next_session: u64,
}

/// What the active segment of a lane holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Survey {
    pub(crate) gaps: Vec<Gap>,
    /// End of the last valid frame.
    pub(crate) valid_end: u64,
    /// Offset below which all is proved durable.
    pub(crate) watermark: u64,
    pub(crate) next_gsn: u64,
    pub(crate) next_session: u64,
    /// Whether the last frame is a CLOSE and only zero bytes follow.
    pub(crate) closed: bool,
    /// End of the last byte that is not zero, where that is behind `valid_end`.
    pub(crate) last_nonzero: Option<u64>,
    /// Frames that verified.
    pub(crate) frames: u64,
    /// gsn below which all is proved durable by other lanes.
    pub(crate) marked_gsn: u64,
}

/// Surveys a segment from `from`, where gsn `gsn` is due, to its end. `marked_gsn`: other lanes stand on events below it.
pub(crate) fn survey(
    segment: &Segment,
    from: Start,
    slot: Option<&Slot>,
    marked_gsn: u64,
    same_boot: bool,
) -> Result<Survey> {
    let mut scan = Scan::new(segment, from.offset, segment.frames_limit());
    let mut s = Survey {
        gaps: Vec::new(),
        valid_end: from.offset,
        // Where the reading starts proves nothing: an INDEX that reads well may not be on the disk.
        watermark: HEADER_LEN,
        next_gsn: from.gsn,
        next_session: from.next_session,
        closed: false,
        last_nonzero: None,
        frames: 0,
        marked_gsn,
    };
    if let Some(slot) = slot.filter(|x| x.names(&segment.header)) {
        s.watermark = s.watermark.max(slot.durable_end);
    }
    loop {
        let (start, zero) = match scan.step()? {
            Step::Frame { offset, header, .. } => {
                s.take(segment, offset, &header, marked_gsn);
                continue;
            }
            Step::End => return Ok(s),
            Step::Zero { offset } => (offset, true),
            Step::Bad { fault: crate::format::Fault::Newer, offset } => {
                let e = crate::segment::file::FrameError::Bad(crate::format::Fault::Newer);
                return Err(segment.explain(offset, e));
            }
            Step::Bad { offset, .. } => (offset, false),
        };
        // In the boot that wrote them, bytes appear in order: behind zeros there is nothing.
        let whole = start >= s.watermark && s.next_gsn >= marked_gsn;
        if zero && same_boot && whole {
            return Ok(s);
        }
        let next = scan.resync(s.next_gsn)?;
        if next.is_none() {
            s.last_nonzero = scan.last_nonzero(start)?;
            if zero && whole && s.last_nonzero.is_none() {
                return Ok(s);
            }
        }
        s.closed = false;
        s.gaps.push(Gap { start, next, gsn: s.next_gsn, next_session: s.next_session });
        if next.is_none() {
            return Ok(s);
        }
    }
}

/// Where a survey begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Start {
    pub(crate) offset: u64,
    pub(crate) gsn: u64,
    pub(crate) next_session: u64,
}

impl Survey {
    fn take(&mut self, segment: &Segment, offset: u64, h: &FrameHeader, marked_gsn: u64) {
        self.valid_end = offset + h.frame_len();
        self.next_gsn = h.gsn + u64::from(h.count);
        self.frames += 1;
        self.closed = h.kind == kind::CLOSE;
        if matches!(h.kind, kind::SYNCMARK | kind::CLOSE) {
            self.watermark = self.watermark.max(h.seq.min(offset));
        }
        if h.count > 0 && h.gsn < marked_gsn {
            self.watermark = self.watermark.max(self.valid_end);
        }
        let no = crate::SessionNo(h.session);
        if matches!(h.kind, kind::CREATE | kind::FORK) && no.home_lane() == segment.header.lane {
            self.next_session = self.next_session.max(no.counter() + 1);
        }
    }

    /// Bytes that would be dropped by cutting at `at`.
    pub(crate) fn bytes_behind(&self, at: u64) -> u64 {
        self.last_nonzero.unwrap_or(self.valid_end).max(self.valid_end).saturating_sub(at)
    }
}
