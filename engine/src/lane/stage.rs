//! The stage: frames get their place, their gsn and their header here, and wait to be written.
//!
//! # Invariants
//! A1. Under the stage lock no file is read or written, but when a segment must be made that was not made ahead.
//! A2. Every frame that is staged is in the index at once, in the order of offsets.
//! A3. There is always room in the segment for the INDEX frame of what was staged since the last one.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Active, Lane};
use crate::error::{Error, Result};
use crate::format::codec::{align8, crc, narrow, wide};
use crate::format::control::Control;
use crate::format::frame::{self, FrameHeader, kind};
use crate::format::segment::TRAILER_LEN;
use crate::index::{Block, Digest, Place};
use crate::limits;
use crate::types::{EventId, Seq, SessionNo};

/// Bytes that wait to be written, or a change of segment.
#[derive(Debug)]
pub(crate) enum Part {
    Bytes { active: Arc<Active>, offset: u64, buf: Vec<u8>, last_index: Option<u64> },
    Rotate { from: Arc<Active>, trailer: Option<Vec<u8>>, to: Arc<Active>, header: Vec<u8> },
}

/// What is staged, and where the next frame goes.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) parts: Vec<Part>,
    pub(crate) bytes: usize,
    /// A buffer to fill next: empty, of the size that is usual.
    pub(crate) spare: Vec<u8>,
    /// Where the open block starts and the most bytes of its INDEX frame, while that is known here.
    pub(crate) open_block: Option<(u64, u64)>,
    pub(crate) pos: u64,
    pub(crate) active: Arc<Active>,
    pub(crate) offset: u64,
    pub(crate) gsn: u64,
    pub(crate) next_session: u64,
    /// Position behind the last frame that is no mark.
    pub(crate) content: u64,
    /// Position that the last SYNCMARK vouches for, and the position behind that frame.
    pub(crate) marked: u64,
    pub(crate) mark_end: u64,
    /// A segment made ahead.
    pub(crate) next: Option<Arc<crate::segment::Segment>>,
    pub(crate) next_no: u64,
    pub(crate) next_capacity: u64,
    pub(crate) started_ns: u64,
    /// When the oldest frame that is not synced was staged.
    pub(crate) unsynced_since_ns: Option<u64>,
    pub(crate) closed: bool,
}

/// A frame to be staged.
#[derive(Debug)]
pub(crate) struct Frame<'a> {
    pub(crate) session: SessionNo,
    pub(crate) seq: Seq,
    pub(crate) count: u16,
    pub(crate) flags: u8,
    pub(crate) payload: &'a mut Vec<u8>,
    /// Checksum of the payload, made outside the lock.
    pub(crate) pcrc: u32,
    pub(crate) body: FrameBody<'a>,
}

/// What a frame tells the index.
#[derive(Debug)]
pub(crate) enum FrameBody<'a> {
    Events(&'a Digest),
    Control(&'a Control),
}

/// Where a staged frame stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ticket {
    /// Position behind the frame: it is written or durable when the lane is.
    pub(crate) pos: u64,
    pub(crate) place: Place,
    /// Identity of the first event of the frame, or of the next event for a control frame.
    pub(crate) first: EventId,
}

impl Lane {
    /// Stages a frame. It is in the index when this returns; it survives nothing yet.
    pub(crate) fn stage(&self, frame: Frame<'_>) -> Result<Ticket> {
        let mut stage = self.stage.lock();
        self.alive()?;
        if stage.closed {
            return Err(Error::new(crate::ErrorKind::ReadOnly, "the store handle was closed"));
        }
        let is_events = frame.count > 0;
        let growth = match &frame.body {
            FrameBody::Events(d) => 80 + 10 * d.marks.len(),
            FrameBody::Control(c) => 40 + c.summary().len(),
        };
        let frame_len = frame::HEADER_LEN + align8(wide(frame.payload.len()));
        self.make_room(&mut stage, frame_len, wide(growth), is_events)?;
        self.put_mark_when_due(&mut stage);
        let header = FrameHeader {
            len: frame.payload.len() as u32,
            pcrc: frame.pcrc,
            kind: match &frame.body {
                FrameBody::Events(_) => kind::EVENTS,
                FrameBody::Control(c) => c.kind(),
            },
            flags: frame.flags,
            count: frame.count,
            session: frame.session.0,
            seq: frame.seq,
            gsn: stage.gsn,
        };
        let first =
            EventId { lane: self.no, epoch: stage.active.segment.header.epoch, gsn: stage.gsn };
        let offset = self.put(&mut stage, &header, frame.payload);
        let place = Place { lane: self.no, segment: stage.active.segment.no(), offset };
        let mut lanes = self.lanes.write();
        match frame.body {
            FrameBody::Events(digest) => lanes.index.on_events(place, &header, digest),
            FrameBody::Control(c) => lanes.index.on_control(place, frame.seq, frame.session, c),
        }
        let block = lanes.index.blocks.get(&(self.no, place.segment));
        stage.open_block = block.map(|b| (b.from, b.frame_bytes_max()));
        drop(lanes);
        stage.gsn += u64::from(frame.count);
        stage.content = stage.pos;
        if stage.unsynced_since_ns.is_none() {
            stage.unsynced_since_ns = Some(self.vfs.monotonic_ns());
        }
        let pos = stage.pos;
        drop(stage);
        self.bell.ring_after_lock();
        Ok(Ticket { pos, place, first })
    }

    /// Number for a new session of this lane.
    pub(crate) fn next_session_no(&self) -> Result<SessionNo> {
        let mut stage = self.stage.lock();
        let counter = stage.next_session;
        if counter > limits::SESSION_COUNTER_MAX {
            return Err(Error::limit(
                "session counter of a lane",
                counter,
                limits::SESSION_COUNTER_MAX,
            ));
        }
        stage.next_session += 1;
        Ok(SessionNo::join(self.no, counter))
    }

    /// Appends a frame to the staged bytes. There must be room for it.
    fn put(&self, stage: &mut Stage, header: &FrameHeader, payload: &mut Vec<u8>) -> u64 {
        let offset = stage.offset;
        let head = header.encode(stage.active.segment.header.salt, offset);
        let padding = narrow(align8(wide(payload.len()))) - payload.len();
        let last_index = (header.kind == kind::INDEX).then_some(offset);
        if payload.len() > limits::STAGE_BYPASS_BYTES {
            Self::push_all(stage, offset, [&head, &[], &[]], None);
            let big = std::mem::take(payload);
            let at = offset + frame::HEADER_LEN;
            let behind = at + wide(big.len());
            stage.bytes += big.len();
            let active = stage.active.clone();
            stage.parts.push(Part::Bytes { active, offset: at, buf: big, last_index });
            Self::push_all(stage, behind, [&[0; 8][..padding], &[], &[]], None);
        } else {
            Self::push_all(stage, offset, [&head, payload, &[0; 8][..padding]], last_index);
        }
        stage.offset += header.frame_len();
        stage.pos += header.frame_len();
        offset
    }

    /// Appends bytes that stand one behind the other from `offset` on.
    fn push_all(stage: &mut Stage, offset: u64, bytes: [&[u8]; 3], index: Option<u64>) {
        let total = bytes[0].len() + bytes[1].len() + bytes[2].len();
        stage.bytes += total;
        if let Some(Part::Bytes { active, offset: at, buf, last_index }) = stage.parts.last_mut()
            && *at + wide(buf.len()) == offset
            && Arc::ptr_eq(active, &stage.active)
            && buf.len() + total <= buf.capacity()
        {
            bytes.iter().for_each(|b| buf.extend_from_slice(b));
            *last_index = index.or(*last_index);
            return;
        }
        let mut buf = std::mem::take(&mut stage.spare);
        buf.clear();
        buf.reserve((limits::STAGE_BYTES + limits::STAGE_BYPASS_BYTES + 4_096).max(total));
        bytes.iter().for_each(|b| buf.extend_from_slice(b));
        let active = stage.active.clone();
        stage.parts.push(Part::Bytes { active, offset, buf, last_index: index });
    }

    /// Stages a SYNCMARK when more became durable since the last. There is room for it.
    fn put_mark_when_due(&self, stage: &mut Stage) {
        // That a mark became durable is worth no other mark.
        if self.durable.load(Ordering::Acquire).min(stage.content) > stage.marked {
            self.put_mark_here(stage, kind::SYNCMARK);
        }
    }

    /// Stages a SYNCMARK or CLOSE with what is durable now, in a new segment where this one has no room left.
    pub(crate) fn put_mark(&self, stage: &mut Stage, kind: u8) -> Result<()> {
        let roomy = self.make_room(stage, frame::HEADER_LEN, 0, false);
        if stage.offset + frame::HEADER_LEN > stage.active.segment.frames_limit() {
            roomy?;
        }
        // On a full disk the mark takes the room of the INDEX frame, which can be had by scanning.
        self.put_mark_here(stage, kind);
        Ok(())
    }

    fn put_mark_here(&self, stage: &mut Stage, kind: u8) {
        let durable = self.durable.load(Ordering::Acquire);
        let header = FrameHeader {
            kind,
            seq: stage.active.durable_offset(durable),
            gsn: stage.gsn,
            pcrc: crc(&[]),
            ..FrameHeader::default()
        };
        self.put(stage, &header, &mut Vec::new());
        stage.marked = durable;
        stage.mark_end = stage.pos;
    }

    /// Stages the INDEX frame of the open block, when there is something in it.
    pub(crate) fn put_index(&self, stage: &mut Stage) {
        stage.open_block = None;
        let mut lanes = self.lanes.write();
        let key = (self.no, stage.active.segment.no());
        let Some(block) = lanes.index.blocks.get(&key).filter(|b| !b.is_empty()) else { return };
        let mut payload = block.encode(stage.next_session);
        let header = FrameHeader {
            len: payload.len() as u32,
            pcrc: crc(&payload),
            kind: kind::INDEX,
            seq: block.from,
            gsn: stage.gsn,
            ..FrameHeader::default()
        };
        if stage.offset + header.frame_len() > stage.active.segment.frames_limit() {
            return;
        }
        let offset = self.put(stage, &header, &mut payload);
        let at = Place { lane: key.0, segment: key.1, offset };
        lanes.index.on_index(at, offset + header.frame_len());
    }

    /// Sees to it that a frame of `frame_len` bytes fits, with all that must still fit behind it.
    fn make_room(
        &self,
        stage: &mut Stage,
        frame_len: u64,
        growth: u64,
        is_events: bool,
    ) -> Result<()> {
        let (from, index_len) = self.open_block(stage);
        if stage.offset - from >= limits::INDEX_INTERVAL_BYTES {
            self.put_index(stage);
        }
        let reserve = if is_events { limits::SEGMENT_CONTROL_RESERVE_BYTES } else { 0 };
        // Behind the frame: the index with this frame in it, a mark before and a mark at the end.
        let behind = align8(growth) + 2 * frame::HEADER_LEN + reserve;
        let limit = stage.active.segment.frames_limit();
        if stage.offset + frame_len + index_len + behind <= limit {
            return Ok(());
        }
        let fresh = crate::format::segment::HEADER_LEN + frame_len + behind;
        let fresh = fresh + frame::HEADER_LEN + limits::SEGMENT_CONTROL_RESERVE_BYTES + TRAILER_LEN;
        self.rotate(stage, fresh)
    }

    /// Offset where the open block starts, and the most bytes that its INDEX frame takes.
    fn open_block(&self, stage: &Stage) -> (u64, u64) {
        if let Some(known) = stage.open_block {
            return known;
        }
        let lanes = self.lanes.read();
        let block = lanes.index.blocks.get(&(self.no, stage.active.segment.no()));
        match block {
            Some(b) if !b.is_empty() => (b.from, b.frame_bytes_max()),
            _ => (stage.offset, Block::new(0, 0).frame_bytes_max()),
        }
    }
}
