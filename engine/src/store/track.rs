//! How far a subscription has read one lane: found from a cursor, moved frame by frame.
//!
//! # Invariants
//! Tr1. A track never passes the end of what the store has read of the lane, nor, where only durable events are
//!      wanted, the place up to which the lane is proved durable.
//! Tr2. A segment is left only when a later one is within those bounds, and after its last frame: what was written
//!      between two looks, in however many segments, is met in order.

use std::sync::Arc;

use super::cursor::At;
use super::given::each_event;
use crate::error::{Error, ErrorKind, Result};
use crate::format::frame::kind;
use crate::format::index_frame::IndexFrame;
use crate::format::segment::HEADER_LEN;
use crate::handle::StoreInner;
use crate::index::Place;
use crate::index::lane_view::LaneView;
use crate::options::planted;
use crate::segment::{Scan, Segment, Step};
use crate::types::{LaneNo, SegmentNo, Seq};

/// A position in a lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Track {
    pub(crate) lane: LaneNo,
    pub(crate) segment: SegmentNo,
    pub(crate) offset: u64,
    /// gsn of the next event.
    pub(crate) gsn: u64,
    /// Events below this gsn were given.
    pub(crate) from_gsn: u64,
    /// The import that was given last, and how many of its events were.
    pub(crate) import: Option<(Place, Seq)>,
    /// The look at which it stopped before a frame that stands on another lane.
    pub(crate) stalled: Option<u64>,
    /// The look that last found something in it.
    pub(crate) moved: u64,
}

/// A stretch of a segment to be read.
#[derive(Debug)]
pub(crate) struct Stretch {
    pub(crate) segment: Arc<Segment>,
    pub(crate) end: u64,
    /// Whether the segment holds nothing behind it.
    pub(crate) is_sealed: bool,
}

/// A cursor that does not fit the log.
fn void(lane: LaneNo, why: &str) -> Error {
    let message = format!(
        "the cursor is void: {why} (lane {lane}); begin again, or from a cursor of this store"
    );
    Error::new(ErrorKind::Void, message).with_field("cursor")
}

impl StoreInner {
    /// Segment and offset up to which a lane can be read, and the gsn of its next event. What this handle has only staged
    /// is written out.
    pub(crate) fn end_of(&self, no: LaneNo) -> Result<Option<(SegmentNo, u64, u64)>> {
        if self.is_own(no)
            && let Some(lane) = self.own_lane()
        {
            let (pos, gsn) = {
                let stage = lane.stage.lock();
                (stage.pos, stage.gsn)
            };
            lane.flush_to(pos)?;
            let (segment, offset) = lane.written_place();
            return Ok(Some((segment, offset, gsn)));
        }
        let lanes = self.lanes.read();
        let view = lanes.views.get(&no);
        Ok(view.and_then(|v| v.at.map(|(segment, offset)| (segment, offset, v.next_gsn))))
    }

    /// The position behind the last event of a lane.
    pub(crate) fn last_position(&self, no: LaneNo) -> Result<Option<At>> {
        let Some((.., gsn)) = self.end_of(no)? else { return Ok(None) };
        let Some(last) = gsn.checked_sub(1) else { return Ok(None) };
        let lanes = self.lanes.read();
        let Some(view) = lanes.views.get(&no) else { return Ok(None) };
        let Some(segment) = segment_of(view, last) else { return Ok(None) };
        let imports = lanes.index.table.iter().filter_map(|r| Some((r.published?, r.no)));
        let newest = imports.filter(|((at, _), _)| at.lane == no).max_by_key(|((at, _), _)| *at);
        let import = newest.map(|((_, seqs), session)| (session, seqs));
        let (epoch, segment) = (segment.header.epoch, segment.clone());
        let hint = view.slot.as_ref().filter(|s| s.segment == segment.no()).map(|s| s.index_offset);
        let known_end = view.known_end(segment.no());
        drop(lanes);
        let mark = find(&segment, hint, known_end, last)?.mark;
        Ok(Some(At { epoch, gsn, mark, import }))
    }

    /// The track of a lane that goes on behind a position; from the start of the lane without one.
    pub(crate) fn track(&self, no: LaneNo, at: Option<At>) -> Result<Option<Track>> {
        let end = self.end_of(no)?;
        let lanes = self.lanes.read();
        let first = lanes.views.get(&no).and_then(|v| v.segments.first_key_value());
        let Some((view, first)) = lanes.views.get(&no).zip(first) else {
            return match at {
                None => Ok(None),
                Some(_) => Err(void(no, "there is no such lane")),
            };
        };
        let mut track = Track {
            lane: no,
            segment: *first.0,
            offset: HEADER_LEN,
            gsn: first.1.header.base_gsn,
            from_gsn: 0,
            import: None,
            stalled: None,
            moved: 0,
        };
        let Some(at) = at else { return Ok(Some(track)) };
        let last = at.gsn.saturating_sub(1);
        let segment = segment_of(view, last).filter(|_| end.is_some_and(|e| last < e.2));
        let Some(segment) = segment.cloned() else {
            return Err(void(no, "the log is shorter"));
        };
        if segment.header.epoch != at.epoch {
            return Err(void(no, "a recovery dropped the events that it stands on"));
        }
        if let Some((session, seqs)) = at.import {
            let published = lanes.index.table.get(session).and_then(|r| r.published);
            let Some((place, all)) = published.filter(|(p, all)| p.lane == no && seqs <= *all)
            else {
                return Err(void(no, "the import that it stands on is not there"));
            };
            track.import = Some((place, seqs.min(all)));
        }
        let hint = view.slot.as_ref().filter(|s| s.segment == segment.no()).map(|s| s.index_offset);
        let known_end = view.known_end(segment.no());
        drop(lanes);
        let found = find(&segment, hint, known_end, last)?;
        (track.offset, track.gsn) = found.start;
        if at.mark.is_some() && found.mark.is_some() && at.mark != found.mark {
            return Err(void(no, "another event has the place of the one that it stands on"));
        }
        (track.segment, track.from_gsn) = (segment.no(), at.gsn);
        Ok(Some(track))
    }

    /// What can be read of a lane from where a track stands; moves it to the next segment where one is at its end.
    pub(crate) fn stretch(&self, track: &mut Track, durable: bool) -> Result<Option<Stretch>> {
        let Some((segment, offset, _)) = self.end_of(track.lane)? else { return Ok(None) };
        let mut limit = (segment, offset);
        if durable {
            limit = limit.min(self.durable_place(track.lane).unwrap_or((0, 0)));
        }
        let lanes = self.lanes.read();
        let Some(view) = lanes.views.get(&track.lane) else { return Ok(None) };
        loop {
            let here = view.segments.get(&track.segment).filter(|_| track.segment <= limit.0);
            let Some(segment) = here else { return Ok(None) };
            let is_sealed = track.segment < limit.0;
            let end = match (is_sealed, view.known_end(track.segment)) {
                (false, _) => limit.1,
                (true, Some(end)) => end,
                (true, None) => segment.frames_limit(),
            };
            let skips = planted!(self.options, FollowSkipsRotation) && track.moved > 1;
            if track.offset < end && !(skips && is_sealed) {
                return Ok(Some(Stretch { segment: segment.clone(), end, is_sealed }));
            }
            let next = view.segments.range(track.segment + 1..).next().filter(|_| is_sealed);
            let Some((no, next)) = next else { return Ok(None) };
            (track.segment, track.offset) = (*no, HEADER_LEN);
            if !view.rebuilt.contains(no) {
                track.gsn = next.header.base_gsn;
            }
        }
    }
}

/// The segment that holds an event of a lane.
fn segment_of(view: &LaneView, gsn: u64) -> Option<&Arc<Segment>> {
    let known = view.segments.values().filter(|s| !view.rebuilt.contains(&s.no()));
    known.rev().find(|s| s.header.base_gsn <= gsn)
}

/// Where an event is.
struct Found {
    /// Offset and gsn of its frame, or of a place before it where the frame cannot be read.
    start: (u64, u64),
    mark: Option<u32>,
}

/// Looks for the event `gsn` in its segment. `hint`: an INDEX frame of a segment whose end is not known.
fn find(segment: &Segment, hint: Option<u64>, known_end: Option<u64>, gsn: u64) -> Result<Found> {
    let trailer = known_end.and_then(|_| segment.trailer()).map(|t| t.index_offset);
    let start = behind_index(segment, trailer.or(hint).unwrap_or(0), gsn);
    let mut scan = Scan::new(segment, start.0, known_end.unwrap_or(segment.frames_limit()));
    loop {
        match scan.step()? {
            Step::Frame { offset, header: h, payload } if h.kind == kind::EVENTS => {
                if h.gsn > gsn {
                    return Ok(Found { start, mark: None });
                }
                if gsn < h.gsn + u64::from(h.count) {
                    let mut mark = None;
                    // Damage is told when the walk comes by.
                    let _told_later = each_event(&h, payload, &mut |event| {
                        if event.seq == h.seq + (gsn - h.gsn) {
                            mark = Some(event.as_ref().mark());
                        }
                    });
                    return Ok(Found { start: (offset, h.gsn), mark });
                }
                continue;
            }
            Step::Frame { .. } => continue,
            Step::End => return Ok(Found { start, mark: None }),
            Step::Zero { .. } | Step::Bad { .. } => {}
        }
        if scan.resync(gsn)?.is_none() {
            return Ok(Found { start, mark: None });
        }
    }
}

/// The last place known by an INDEX frame from which a walk meets the event `gsn`, and the gsn that is due there.
fn behind_index(segment: &Segment, hint: u64, gsn: u64) -> (u64, u64) {
    let start = (HEADER_LEN, segment.header.base_gsn);
    let (mut at, mut payload) = (hint, Vec::new());
    while at != 0 {
        let Ok(h) = segment.frame(at, &mut payload) else { return start };
        if h.kind != kind::INDEX {
            return start;
        }
        if h.gsn <= gsn {
            return (at, h.gsn);
        }
        match IndexFrame::open(&payload, at) {
            // Each stands before the one that names it.
            Ok(index) if index.prev_index < at => at = index.prev_index,
            _ => return start,
        }
    }
    start
}
