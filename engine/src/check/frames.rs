//! The check of one segment: every frame, the gaps between them, and its INDEX frames against what they list.
//!
//! # Invariants
//! Cf1. A segment is checked by itself: what an INDEX frame lists stands in its own segment.

use std::sync::Arc;

use super::{Check, CheckReport, Damage, Stretch};
use crate::error::Result;
use crate::format::frame::{FrameHeader, kind};
use crate::format::index_frame::IndexFrame;
use crate::format::segment::HEADER_LEN;
use crate::index::{Index, Place};
use crate::recovery::plan::plan;
use crate::recovery::survey::{Start, survey};
use crate::segment::{Scan, Segment, Step};
use crate::types::{LaneNo, SessionNo};

/// Checks one segment.
pub(super) fn check(check: Check<'_>, what: &Stretch) -> Result<CheckReport> {
    let mut walk = Walk { check, report: CheckReport::default(), truth: Index::default() };
    walk.segment(what.lane, &what.segment, what.end, what.durable)?;
    Ok(walk.report)
}

struct Walk<'s> {
    check: Check<'s>,
    report: CheckReport,
    /// The index as the frames themselves give it.
    truth: Index,
}

impl Walk<'_> {
    fn segment(
        &mut self,
        lane: LaneNo,
        segment: &Arc<Segment>,
        end: Option<u64>,
        durable: u64,
    ) -> Result<()> {
        self.report.segments += 1;
        let limit = end.unwrap_or_else(|| segment.frames_limit());
        let mut scan = Scan::new(segment, HEADER_LEN, limit);
        let mut gsn = segment.header.base_gsn;
        let mut gap: Option<u64> = None;
        let mut watermark = end.unwrap_or(durable);
        loop {
            let (offset, zero) = match scan.step()? {
                Step::End => break,
                Step::Frame { offset, header, payload } => {
                    if let Some(start) = gap.take() {
                        self.lost(segment, start, offset - start, (gsn, header.gsn));
                    } else if header.gsn != gsn {
                        self.lost(segment, offset, 0, (gsn, header.gsn));
                    }
                    gsn = header.gsn + u64::from(header.count);
                    if matches!(header.kind, kind::SYNCMARK | kind::CLOSE) {
                        watermark = watermark.max(header.seq);
                    }
                    self.frame(lane, segment, offset, &header, payload);
                    continue;
                }
                Step::Zero { offset } => (offset, true),
                Step::Bad { fault: crate::format::Fault::Newer, offset } => {
                    let e = crate::segment::file::FrameError::Bad(crate::format::Fault::Newer);
                    return Err(segment.explain(offset, e));
                }
                Step::Bad { offset, .. } => (offset, false),
            };
            if scan.resync(gsn)?.is_some() {
                if end.is_none() && self.is_torn_at(lane, segment, offset)? {
                    self.torn(segment, offset);
                    break;
                }
                gap = Some(offset);
                continue;
            }
            self.tail(segment, offset, zero && end.is_none(), watermark.min(limit), gsn);
            break;
        }
        Ok(())
    }

    /// Bytes that do not verify and behind which nothing does.
    fn tail(&mut self, segment: &Segment, offset: u64, zero: bool, watermark: u64, gsn: u64) {
        if offset < watermark {
            self.lost(segment, offset, watermark - offset, (gsn, gsn));
        } else if !zero {
            self.torn(segment, offset);
        }
    }

    fn torn(&mut self, segment: &Segment, offset: u64) {
        self.report.notes.push(Damage {
            path: segment.path.clone(),
            offset,
            kind: "torn-tail",
            message: "bytes behind the last frame are no frame: a torn tail, or a write in flight"
                .into(),
            sessions: Vec::new(),
            seqs: Vec::new(),
        });
    }

    /// Whether a recovery would cut the newest segment of a lane at this gap, although valid frames follow: after a
    /// power cut what was not synced may be there in part.
    fn is_torn_at(&self, lane: LaneNo, segment: &Segment, offset: u64) -> Result<bool> {
        let slot = {
            let lanes = self.check.store.inner.lanes.read();
            lanes.views.get(&lane).and_then(|v| v.slot.clone())
        };
        let boot = self.check.store.inner.vfs.boot_id();
        let same_boot = slot.as_ref().is_some_and(|s| s.boot_id == boot);
        let marked = self.check.store.inner.marked_gsn(lane, segment.header.epoch);
        let h = &segment.header;
        let start = Start { offset: HEADER_LEN, gsn: h.base_gsn, next_session: h.next_session };
        let found = survey(segment, start, slot.as_ref(), marked, same_boot)?;
        let plan = plan(&found, same_boot);
        Ok(plan.dropped.is_some_and(|(from, _)| from == offset))
    }

    /// Bytes from `offset` on that hold no valid frames, and the gsns they leave out. A frame whose header verifies is
    /// named with what its payload held.
    fn lost(&mut self, segment: &Segment, offset: u64, len: u64, gsns: (u64, u64)) {
        let (mut at, end, mut gsn) = (offset, offset + len, gsns.0);
        while at < end
            && let Ok(h) = segment.frame_header(at)
            && h.frame_len() <= end - at
        {
            let (n, bytes) = (h.count, h.frame_len());
            let message = format!("the payload of a frame of {bytes} bytes and {n} events fails");
            let found = self.about(segment, at, &h, "frame", message);
            self.report.damage.push(found);
            at += bytes;
            gsn = gsn.max(h.gsn + u64::from(n));
        }
        let message = match (end - at, gsns.1.saturating_sub(gsn)) {
            (0, _) if len > 0 => return,
            (0, n) => format!("{n} events of the lane are missing here"),
            (len, 0) => format!("{len} bytes are no valid frames"),
            (len, n) => format!("{len} bytes are no valid frames, they held {n} events"),
        };
        self.report.damage.push(Damage {
            path: segment.path.clone(),
            offset: at,
            kind: if len == 0 { "events-missing" } else { "frame" },
            message,
            sessions: Vec::new(),
            seqs: Vec::new(),
        });
    }

    /// What is wrong with a frame, with the session and the seqs that its header gives.
    fn about(
        &self,
        segment: &Segment,
        offset: u64,
        h: &FrameHeader,
        kind: &'static str,
        message: String,
    ) -> Damage {
        let lanes = self.check.store.inner.lanes.read();
        let id = lanes.index.table.get(SessionNo(h.session)).map(|r| r.id.clone());
        let seqs = (h.count > 0).then(|| (h.seq, h.seq + u64::from(h.count) - 1));
        Damage {
            path: segment.path.clone(),
            offset,
            kind,
            message,
            sessions: id.into_iter().collect(),
            seqs: seqs.into_iter().collect(),
        }
    }

    fn frame(
        &mut self,
        lane: LaneNo,
        segment: &Segment,
        offset: u64,
        h: &FrameHeader,
        payload: &[u8],
    ) {
        self.report.frames += 1;
        self.report.events += u64::from(h.count);
        self.report.bytes += h.frame_len();
        let place = Place { lane, segment: segment.no(), offset };
        if h.kind == kind::INDEX {
            self.compare_index(segment, h.seq, payload, place);
        }
        if let Err(fault) = self.truth.on_frame(place, h, payload)
            && h.kind != kind::INDEX
        {
            let why = fault.clause();
            let message = format!("the frame verifies, its payload breaks a rule ({why})");
            let found = self.about(segment, offset, h, "payload", message);
            self.report.damage.push(found);
        }
    }

    /// Compares an INDEX frame, which covers frames from offset `from`, with the frames that it lists.
    fn compare_index(&mut self, segment: &Segment, from: u64, payload: &[u8], place: Place) {
        let Some(block) = self.truth.blocks.get(&(place.lane, place.segment)) else { return };
        let wrong = match IndexFrame::open(payload, place.offset) {
            Err(fault) => Some(fault.clause()),
            Ok(index) if index.from != from => Some("it starts elsewhere than its frame says"),
            // It covers other frames than those behind the INDEX frame before it, which is damaged.
            Ok(_) if block.from != from && !block.is_empty() => None,
            Ok(index) => {
                let next = index.next_session;
                let lists =
                    block.encode(next) == payload || block.encode_without_other(next) == payload;
                (block.from == from && !lists).then_some("it does not list the frames before it")
            }
        };
        if let Some(clause) = wrong {
            self.report.damage.push(Damage {
                path: segment.path.clone(),
                offset: place.offset,
                kind: "index",
                message: format!("the index is wrong ({clause}); events are not affected"),
                sessions: Vec::new(),
                seqs: Vec::new(),
            });
        }
    }
}
