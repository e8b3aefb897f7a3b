//! A lane as a reader sees it: its segments as a chain, and how far they were read.
//!
//! # Invariants
//! L1. Frames are handed on in the order of the lane, each once, and only when they verify.
//! L2. In a segment with a successor, frames end where the successor says; bytes behind are nothing.
//! L3. Damage never stops the reading: the walk goes on at the next valid frame, and says what it stepped over.
//! L4. After a power cut, frames behind bytes that were never proved durable are nothing: the recovery to come drops
//!     them, and a reader that had taken them would see them claimed twice.
//! L5. INDEX frames stand for the frames they cover only when they are whole and cover all from the segment's first.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use super::lane_file::LaneFile;
use super::{Index, Place};
use crate::error::{Error, Result};
use crate::format::frame::kind;
use crate::format::index_frame::{ControlAt, IndexFrame};
use crate::format::segment::{HEADER_LEN, SegmentHeader, TRAILER_LEN};
use crate::format::slot::{LaneState, Slot};
use crate::format::{Fault, name};
use crate::limits::SEGMENT_BYTES_CEILING;
use crate::segment::scan::verifies_now;
use crate::segment::{Pool, Scan, Segment, Step};
use crate::types::{LaneNo, SegmentNo};
use crate::vfs::{OpenHow, VfsDir};

/// What a reader found wrong in a lane.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) path: PathBuf,
    pub(crate) offset: u64,
    pub(crate) kind: &'static str,
    pub(crate) message: String,
}

/// How a walk treats bytes that do not verify at the end of what is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AtBad {
    /// They may be in flight: stop there and look again later.
    Stop,
    /// Look for a valid frame behind them.
    Resync,
}

/// An INDEX frame that was read whole.
struct Link {
    at: u64,
    /// Offset behind the frame.
    end: u64,
    /// Offset of the first frame that it covers.
    from: u64,
    next_gsn: u64,
    payload: Vec<u8>,
    controls: Vec<ControlAt>,
}

/// A lane as read so far.
#[derive(Debug)]
pub(crate) struct LaneView {
    pub(crate) no: LaneNo,
    pub(crate) dir: Arc<dyn VfsDir>,
    pub(crate) path: PathBuf,
    pub(crate) segments: BTreeMap<SegmentNo, Arc<Segment>>,
    pub(crate) slot: Option<Slot>,
    pub(crate) findings: Vec<Finding>,
    /// Where the walk goes on, once a segment is there.
    pub(crate) at: Option<(SegmentNo, u64)>,
    pub(crate) next_gsn: u64,
    pub(crate) next_session: u64,
    pub(crate) frames: u64,
    /// Whether a walk came to the end of what was there.
    pub(crate) is_read: bool,
    /// Segments whose header is a stand-in: where their gsns begin is not known.
    pub(crate) rebuilt: BTreeSet<SegmentNo>,
    pub(super) store_id: [u8; 16],
    boot_id: [u8; 16],
    mapped: bool,
    pool: Arc<Pool>,
    pub(super) lane_file: LaneFile,
    /// Where reading must stop: this process's own writer of the lane failed there.
    pub(crate) held_at: Option<(SegmentNo, u64)>,
    /// Whether this handle recovered the lane: what its slot said before does not count.
    pub(crate) recovered: bool,
    pub(super) proof: super::proof::Proof,
}

impl LaneView {
    /// A lane of which nothing was read yet.
    pub(crate) fn new(
        no: LaneNo,
        dir: Arc<dyn VfsDir>,
        path: PathBuf,
        (store_id, boot_id): ([u8; 16], [u8; 16]),
        mapped: bool,
        pool: Arc<Pool>,
    ) -> Self {
        Self {
            no,
            lane_file: LaneFile::new(dir.clone()),
            dir,
            path,
            segments: BTreeMap::new(),
            slot: None,
            findings: Vec::new(),
            at: None,
            next_gsn: 0,
            next_session: 0,
            frames: 0,
            is_read: false,
            rebuilt: BTreeSet::new(),
            store_id,
            boot_id,
            mapped,
            pool,
            held_at: None,
            recovered: false,
            proof: super::proof::Proof::default(),
        }
    }

    /// The same lane, of which nothing was read yet.
    pub(crate) fn anew(&self, ids: ([u8; 16], [u8; 16]), mapped: bool, pool: Arc<Pool>) -> Self {
        Self::new(self.no, self.dir.clone(), self.path.clone(), ids, mapped, pool)
    }

    fn find(&mut self, path: PathBuf, offset: u64, kind: &'static str, message: impl Into<String>) {
        let f = Finding { path, offset, kind, message: message.into() };
        if !self
            .findings
            .iter()
            .any(|x| x.path == f.path && x.offset == f.offset && x.kind == f.kind)
        {
            self.findings.push(f);
        }
    }

    /// Reads the slots, opens the segments that are new, and checks that none is missing.
    pub(crate) fn look(&mut self) -> Result<()> {
        let was_broken = self.is_broken();
        self.read_slot()?;
        self.list_segments()?;
        self.check_chain();
        if self.is_broken() && !was_broken {
            // A folder that changes while it is listed may show a new name and not the one before it.
            self.list_segments()?;
            self.check_chain();
        }
        Ok(())
    }

    /// Opens the segments that appeared since the last call.
    pub(crate) fn list_segments(&mut self) -> Result<()> {
        let mut numbers: Vec<SegmentNo> =
            self.dir.list()?.iter().filter_map(|e| name::parse_segment(&e.name)).collect();
        numbers.sort_unstable();
        let newest = numbers.last().copied();
        for no in numbers {
            if self.segments.contains_key(&no) {
                continue;
            }
            if let Some(segment) = self.open_segment(no, newest == Some(no))? {
                self.segments.insert(no, Arc::new(segment));
            }
        }
        Ok(())
    }

    /// Opens one segment; `None` when it holds nothing, or nothing that can be read.
    fn open_segment(&mut self, no: SegmentNo, is_newest: bool) -> Result<Option<Segment>> {
        let path = self.path.join(name::segment(no));
        let file = match self.dir.open(&name::segment(no), OpenHow::Read) {
            Ok(f) => f,
            Err(e) if e.kind() == crate::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e),
        };
        let mut b = vec![0; HEADER_LEN as usize];
        let n = file.read_at(&mut b, 0).map_err(|e| e.with_path(&path))?;
        let size = file.len()?;
        let decoded = SegmentHeader::decode(b.get(..n).unwrap_or(&[])).and_then(|h| {
            if h.store_id != self.store_id || h.lane != self.no || h.segment != no {
                return Err(Fault::Foreign);
            }
            Ok(h)
        });
        let header = match decoded {
            Ok(h) => h,
            // Made ahead, unless something names it.
            Err(Fault::Zero) if is_newest && self.slot.as_ref().is_none_or(|s| s.segment != no) => {
                return Ok(None);
            }
            Err(Fault::Short) if n == 0 => return Ok(None),
            Err(Fault::Newer) => {
                return Err(Error::new(
                    crate::ErrorKind::Unsupported,
                    "the segment was written by a newer version; use that version",
                )
                .with_path(path));
            }
            Err(fault) => match self.rebuild_header(no, size)? {
                Some(h) => {
                    let message = format!(
                        "the header is damaged ({}); its salt was found elsewhere",
                        fault.clause()
                    );
                    self.find(path.clone(), 0, "segment-header", message);
                    self.rebuilt.insert(no);
                    h
                }
                None if fault == Fault::Zero => return Ok(None),
                None if fault == Fault::Foreign => {
                    // Whole, so it was written elsewhere: what it holds is not the lane's to read or to clear.
                    let message = "the segment belongs to another lane, place or store";
                    self.find(path, 0, "segment-foreign", message);
                    return Ok(None);
                }
                None => {
                    // Nothing names it: it was being made when the machine went down.
                    let message = format!("the header cannot be read ({})", fault.clause());
                    self.find(path, 0, "segment-torn", message);
                    return Ok(None);
                }
            },
        };
        let mut header = header;
        if size < header.capacity {
            self.find(
                path.clone(),
                size,
                "segment-short",
                "the file is shorter than its header says",
            );
            // Lengths are bounded by what is there. There is no trailer, so frames may reach the last byte.
            header.capacity = header.capacity.min(size.saturating_add(TRAILER_LEN));
        }
        let (dir, pool) = (self.dir.clone(), self.pool.clone());
        Ok(Some(Segment::lazy(header, dir, pool, path, self.mapped)))
    }

    /// A stand-in for a damaged header, from the successor's or the lane file's copy of the salt.
    fn rebuild_header(&self, no: SegmentNo, size: u64) -> Result<Option<SegmentHeader>> {
        let mut next = None;
        for e in self.dir.list()? {
            let Some(n) = name::parse_segment(&e.name).filter(|n| *n > no) else { continue };
            let file = match self.dir.open(&name::segment(n), OpenHow::Read) {
                Ok(f) => f,
                Err(e) if e.kind() == crate::ErrorKind::NotFound => continue,
                Err(e) => return Err(e),
            };
            let mut b = vec![0; HEADER_LEN as usize];
            file.read_at(&mut b, 0)?;
            if let Ok(h) = SegmentHeader::decode(&b)
                && h.store_id == self.store_id
                && h.prev.is_some_and(|p| p.segment == no)
            {
                next = Some(h);
            }
        }
        let before = self.segments.range(..no).next_back();
        let prev = before.map(|(n, s)| crate::format::segment::Prev {
            segment: *n,
            end: 0,
            salt: s.header.salt,
        });
        let slot = self.slot.as_ref().filter(|s| s.segment == no);
        let salt = next.and_then(|h| h.prev).map(|p| p.salt).or(slot.map(|s| s.salt));
        let Some(salt) = salt else { return Ok(None) };
        let epoch = slot.map(|s| s.epoch).or(next.map(|h| h.epoch)).unwrap_or(0);
        Ok(Some(SegmentHeader {
            store_id: self.store_id,
            lane: self.no,
            segment: no,
            salt,
            epoch,
            base_gsn: self.next_gsn,
            next_session: self.next_session,
            prev,
            capacity: size.min(SEGMENT_BYTES_CEILING),
            created_ms: 0,
        }))
    }

    /// The segment that comes after `no` in the chain.
    fn successor(&self, no: SegmentNo) -> Option<&Arc<Segment>> {
        self.segments.range(no + 1..).next().map(|(_, s)| s)
    }

    /// Where the frames of a segment end, when a successor says so.
    pub(crate) fn known_end(&self, no: SegmentNo) -> Option<u64> {
        let next = self.successor(no)?;
        let prev = next.header.prev.filter(|p| p.segment == no && p.end >= HEADER_LEN)?;
        Some(prev.end)
    }

    /// Whether the chain of segments is whole; what is missing is found.
    pub(crate) fn check_chain(&mut self) {
        self.findings.retain(|f| f.kind != "segment-missing");
        let mut missing = Vec::new();
        let mut before = None;
        for (no, s) in &self.segments {
            if let Some(p) = s.header.prev
                && before != Some(p.segment)
            {
                missing.push(p.segment);
            }
            before = Some(*no);
        }
        if let Some(slot) = &self.slot
            && before.is_none_or(|b| b < slot.segment)
        {
            missing.push(slot.segment);
        }
        for no in missing {
            let path = self.path.join(name::segment(no));
            self.find(
                path,
                0,
                "segment-missing",
                "the chain of segments names a file that is not there or cannot be read",
            );
        }
    }

    /// Whether a segment of the lane is lost or not its own, so that it must not be written to.
    pub(crate) fn is_broken(&self) -> bool {
        self.findings.iter().any(|f| matches!(f.kind, "segment-missing" | "segment-foreign"))
    }

    /// Reads on from where the last call stopped, into `index`.
    pub(crate) fn advance(&mut self, index: &mut Index, at_bad: AtBad) -> Result<()> {
        loop {
            let (no, from) = match self.at {
                Some(at) => at,
                None => match self.segments.first_key_value() {
                    Some((no, _)) => (*no, 0),
                    None => return Ok(()),
                },
            };
            let Some(segment) = self.segments.get(&no).cloned() else { return Ok(()) };
            let known_end = self.known_end(no);
            self.note_end(from, known_end);
            let held = self.held_at.filter(|h| h.0 == no);
            let limit = known_end.unwrap_or_else(|| self.limit_of(&segment));
            let limit = held.map_or(limit, |h| limit.min(h.1));
            let from =
                if from == 0 { self.enter(&segment, index, (known_end, limit))? } else { from };
            let next = self.successor(no).map(|s| (s.no(), s.header.epoch));
            let at_bad = match (known_end, next) {
                // In a segment with a successor nothing can be in flight.
                (Some(_), _) => AtBad::Resync,
                // The end is not known, and a recovery may have dropped what follows bad bytes: an epoch began since.
                (None, Some((_, epoch))) if epoch != segment.header.epoch => AtBad::Stop,
                (None, Some(_)) => AtBad::Resync,
                (None, None) => at_bad,
            };
            let end = self.walk(&segment, from, limit, index, at_bad)?;
            match next.filter(|_| held.is_none()) {
                Some((next, _)) => self.at = Some((next, 0)),
                None => {
                    self.at = Some((no, end));
                    self.is_read = true;
                    return Ok(());
                }
            }
        }
    }

    /// Where reading of an unfinished segment stops at the latest: a poisoned writer vouches only for what is durable.
    fn limit_of(&self, segment: &Segment) -> u64 {
        match &self.slot {
            Some(s)
                if s.state == LaneState::Poisoned
                    && s.segment == segment.no()
                    && !self.recovered =>
            {
                s.durable_end
            }
            _ => segment.frames_limit(),
        }
    }

    /// Offset below which frames are known to have been durable.
    fn known_written(&self, no: SegmentNo, limit: u64) -> u64 {
        let by_slot = self.slot.as_ref().filter(|s| s.segment == no).map_or(0, |s| s.durable_end);
        if self.known_end(no).is_some() { limit } else { by_slot }
    }

    /// Starts a segment: takes its INDEX chain where there is one. Returns where the walk begins.
    fn enter(
        &mut self,
        segment: &Arc<Segment>,
        index: &mut Index,
        (known_end, limit): (Option<u64>, u64),
    ) -> Result<u64> {
        let h = &segment.header;
        self.next_session = self.next_session.max(h.next_session);
        let known = !self.rebuilt.contains(&h.segment);
        if known && h.base_gsn > self.next_gsn && self.segments.range(..h.segment).next().is_some()
        {
            let message = format!(
                "events {} to {} of the lane are missing before it",
                self.next_gsn,
                h.base_gsn - 1
            );
            self.find(segment.path.clone(), 0, "events-missing", message);
        }
        if known {
            self.next_gsn = h.base_gsn;
        }
        let hint = match (known_end.and_then(|_| segment.trailer()), &self.slot) {
            (Some(t), _) => t.index_offset,
            // After a power cut an INDEX may be on the disk without the frames that it lists.
            (None, Some(s))
                if s.segment == h.segment
                    && s.salt == h.salt
                    && (self.is_same_boot() || s.index_offset < s.durable_end) =>
            {
                s.index_offset
            }
            _ => 0,
        };
        Ok(match self.index_chain(segment, hint, limit) {
            Some(chain) if !chain.is_empty() => self.take_chain(segment, chain, index),
            _ => HEADER_LEN,
        })
    }

    /// INDEX frames of a segment that end below `limit`, first to last; `None` when they do not cover all frames before the last of them, or
    /// when one cannot be read whole. Then the frames themselves are walked.
    fn index_chain(&self, segment: &Segment, hint: u64, limit: u64) -> Option<Vec<Link>> {
        let mut chain: Vec<Link> = Vec::new();
        let mut at = hint;
        while at != 0 {
            let mut payload = Vec::new();
            let h = segment.frame(at, &mut payload).ok()?;
            let end = at + h.frame_len();
            if h.kind != kind::INDEX || chain.last().is_some_and(|next| next.from != end) {
                return None;
            }
            let index = IndexFrame::open(&payload, at).ok()?;
            if !(0..index.runs).all(|i| index.bounds(index.row(i)).is_some()) {
                return None;
            }
            let (from, before, controls) = (index.from, index.prev_index, index.controls().ok()?);
            chain.push(Link { at, end, from, next_gsn: h.gsn, payload, controls });
            at = before;
        }
        if chain.last().is_some_and(|first| first.from != HEADER_LEN) {
            return None;
        }
        chain.retain(|link| link.end <= limit);
        chain.reverse();
        Some(chain)
    }

    /// Adds what a chain lists; returns the offset behind it.
    fn take_chain(&mut self, segment: &Segment, chain: Vec<Link>, index: &mut Index) -> u64 {
        let mut end = HEADER_LEN;
        for link in chain {
            let Ok(frame) = IndexFrame::open(&link.payload, link.at) else { return end };
            let place = Place { lane: self.no, segment: segment.no(), offset: link.at };
            index.on_indexed(place, link.end, &frame, link.controls);
            self.next_session = self.next_session.max(frame.next_session);
            self.next_gsn = link.next_gsn;
            end = link.end;
            self.at = Some((segment.no(), end));
        }
        end
    }

    /// Walks frames up to `limit`; returns the offset behind the last valid one.
    fn walk(
        &mut self,
        segment: &Arc<Segment>,
        from: u64,
        limit: u64,
        index: &mut Index,
        at_bad: AtBad,
    ) -> Result<u64> {
        let mut scan = Scan::new(segment, from, limit);
        let mut end = from;
        loop {
            let (offset, clause) = match scan.step()? {
                Step::End => return Ok(end),
                Step::Frame { offset, header, payload } => {
                    end = offset + header.frame_len();
                    self.take_frame(segment, offset, header, payload, index);
                    // A walk that an error ends goes on from here: a frame is taken once.
                    self.at = Some((segment.no(), end));
                    continue;
                }
                Step::Zero { offset } => (offset, Fault::Zero.clause()),
                Step::Bad { fault: Fault::Newer, offset } => {
                    return Err(segment
                        .explain(offset, crate::segment::file::FrameError::Bad(Fault::Newer)));
                }
                Step::Bad { offset, fault } => (offset, fault.clause()),
            };
            // Zero bytes are the end, unless it is known that there was more.
            let at_end =
                clause == Fault::Zero.clause() && offset >= self.known_written(segment.no(), limit);
            if at_bad == AtBad::Stop || at_end {
                return Ok(end);
            }
            match scan.resync(self.next_gsn)? {
                Some(_) if verifies_now(segment, offset, limit)? => {
                    // It was being written a moment ago.
                    scan = Scan::new(segment, offset, limit);
                }
                Some(next) if self.is_torn_at(segment, offset, next, limit)? => return Ok(end),
                Some(next) => {
                    let message = format!("{} bytes are no valid frames ({clause})", next - offset);
                    self.find(segment.path.clone(), offset, "frame", message);
                }
                None => {
                    if self.known_end(segment.no()).is_some() {
                        let message =
                            format!("{} bytes are no valid frames ({clause})", limit - offset);
                        self.find(segment.path.clone(), offset, "frame", message);
                    }
                    return Ok(end);
                }
            }
        }
    }

    /// Whether the last writer of the lane failed, and nobody has recovered it since.
    pub(crate) fn is_failed(&self) -> bool {
        self.slot.as_ref().is_some_and(|s| s.state == LaneState::Poisoned)
    }

    fn is_same_boot(&self) -> bool {
        self.slot.as_ref().is_some_and(|s| s.boot_id == self.boot_id)
    }

    /// Whether a gap with valid frames behind it is the torn tail of a power cut: no proof covers it.
    fn is_torn_at(&self, segment: &Segment, gap: u64, next: u64, limit: u64) -> Result<bool> {
        if self.known_end(segment.no()).is_some() || self.is_same_boot() {
            return Ok(false);
        }
        let here = |s: &Slot| s.names(&segment.header);
        if self.slot.as_ref().is_some_and(|s| here(s) && s.durable_end > gap) {
            return Ok(false);
        }
        let mut scan = Scan::new(segment, next, limit);
        loop {
            match scan.step()? {
                Step::Frame { offset, header, .. } => {
                    let marks = matches!(header.kind, kind::SYNCMARK | kind::CLOSE);
                    if marks && header.seq.min(offset) > gap {
                        return Ok(false);
                    }
                }
                Step::End => return Ok(true),
                Step::Zero { .. } | Step::Bad { .. } => {
                    if scan.resync(self.next_gsn)?.is_none() {
                        return Ok(true);
                    }
                }
            }
        }
    }

    fn take_frame(
        &mut self,
        segment: &Arc<Segment>,
        offset: u64,
        h: crate::format::frame::FrameHeader,
        payload: &[u8],
        index: &mut Index,
    ) {
        if h.gsn != self.next_gsn {
            let message = format!("the frame has gsn {}, {} was due", h.gsn, self.next_gsn);
            self.find(segment.path.clone(), offset, "events-missing", message);
        }
        self.next_gsn = h.gsn + u64::from(h.count);
        self.frames += 1;
        self.note_mark(segment.no(), offset, &h);
        if matches!(h.kind, kind::CREATE | kind::FORK) {
            let counter = crate::SessionNo(h.session).counter();
            if crate::SessionNo(h.session).home_lane() == self.no {
                self.next_session = self.next_session.max(counter + 1);
            }
        }
        let place = Place { lane: self.no, segment: segment.no(), offset };
        if let Err(fault) = index.on_frame(place, &h, payload) {
            self.find(segment.path.clone(), offset, "payload", fault.clause());
        }
    }

    /// Bytes that the segments of the lane take on disk.
    pub(crate) fn reserved_bytes(&self) -> u64 {
        self.segments.values().map(|s| s.header.capacity).sum()
    }
}
