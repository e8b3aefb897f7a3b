//! Where the events of every session are: derived from the frames of all lanes, held in memory.
//!
//! # Invariants
//! X1. Derived: dropping it and reading the lanes again gives the same answers.
//! X2. A frame is added once, in the order of its lane.
//! X3. Cold events cost no memory: an extent a session and INDEX frame, frame places only for what no INDEX covers.

pub(crate) mod block;
pub(crate) mod hash;
pub(crate) mod lane_file;
pub(crate) mod lane_view;
pub(crate) mod load;
pub(crate) mod proof;
pub(crate) mod runs;
pub(crate) mod table;

use std::collections::BTreeMap;

use crate::format::Fault;
use crate::format::control::Control;
use crate::format::event_types::{mark, mark_of};
use crate::format::events::Events;
use crate::format::frame::{FrameHeader, kind};
use crate::format::index_frame::{ControlAt, IndexFrame, Mark};
use crate::format::segment::HEADER_LEN;
use crate::types::{LaneNo, SegmentNo, Seq, SessionNo};

pub(crate) use block::Block;
pub(crate) use table::{Extent, Place, Record, Table};

/// The index of a whole store.
#[derive(Debug, Default)]
pub(crate) struct Index {
    pub(crate) table: Table,
    /// Frames that no INDEX frame covers, by the segment that holds them.
    pub(crate) blocks: BTreeMap<(LaneNo, SegmentNo), Block>,
    /// Sessions that this process hides from itself while it imports them are in the table like all others.
    pub(crate) events: u64,
    pub(crate) bytes: u64,
}

/// What an EVENTS frame tells the index.
#[derive(Clone, Debug, Default)]
pub(crate) struct Digest {
    pub(crate) marks: Vec<Mark>,
    pub(crate) last_time_ms: i64,
    /// Whether one of class OTHER is there: the first of a frame is enough.
    has_other: bool,
}

impl Digest {
    /// Takes note of the next event of a frame.
    pub(crate) fn add(
        &mut self,
        seq: Seq,
        event_type: &[u8],
        has_surface_op: bool,
        ignorable: bool,
    ) {
        let Some(class) = mark_of(event_type, has_surface_op, ignorable) else { return };
        if class != mark::OTHER || !std::mem::replace(&mut self.has_other, true) {
            self.marks.push(Mark { seq, class });
        }
    }

    /// Reads the marks of an EVENTS payload.
    pub(crate) fn of_payload(h: &FrameHeader, payload: &[u8]) -> Result<Self, Fault> {
        let mut events = Events::open(payload, h.count, h.flags, h.seq)?;
        let mut out = Self::default();
        while let Some(event) = events.next_outline() {
            let e = event?;
            out.last_time_ms = e.time_ms;
            out.add(e.seq, e.event_type, e.surface_op.is_some(), e.ignorable);
        }
        Ok(out)
    }
}

impl Index {
    fn block(&mut self, lane: LaneNo, segment: SegmentNo) -> &mut Block {
        self.blocks.entry((lane, segment)).or_insert_with(|| Block::new(HEADER_LEN, 0))
    }

    /// Adds an EVENTS frame.
    pub(crate) fn on_events(&mut self, at: Place, h: &FrameHeader, digest: &Digest) {
        let session = SessionNo(h.session);
        self.block(at.lane, at.segment).add_events(at.offset, h, digest);
        self.events += u64::from(h.count);
        self.bytes += u64::from(h.len);
        self.table.add_events(
            session,
            Extent {
                first_seq: h.seq,
                count: u32::from(h.count),
                lane: at.lane,
                segment: at.segment,
                index: 0,
            },
            digest.last_time_ms,
            u64::from(h.len),
        );
    }

    /// Adds a control frame.
    pub(crate) fn on_control(
        &mut self,
        at: Place,
        seq: Seq,
        session: SessionNo,
        control: &Control,
    ) {
        let row = ControlAt { offset: at.offset, seq, session, control: control.clone() };
        self.block(at.lane, at.segment).add_control(row);
        self.table.add_control(at, seq, session, control);
    }

    /// Takes note that the INDEX frame from `at` to offset `end` covers the open block of its segment.
    pub(crate) fn on_index(&mut self, at: Place, end: u64) {
        if let Some(block) = self.blocks.remove(&(at.lane, at.segment)) {
            for session in block.sessions() {
                self.table.set_index(session, at);
            }
        }
        self.blocks.insert((at.lane, at.segment), Block::new(end, at.offset));
    }

    /// Adds any valid frame that a walk met, in order.
    pub(crate) fn on_frame(
        &mut self,
        at: Place,
        h: &FrameHeader,
        payload: &[u8],
    ) -> Result<(), Fault> {
        match h.kind {
            kind::EVENTS => {
                let digest = Digest::of_payload(h, payload)?;
                self.on_events(at, h, &digest);
            }
            kind::INDEX => {
                let from = IndexFrame::open(payload, at.offset)?.from;
                let open = self.blocks.get(&(at.lane, at.segment)).map(|b| b.from);
                if open.is_none_or(|f| f >= from) {
                    self.on_index(at, at.offset + h.frame_len());
                }
            }
            _ if h.is_control() => {
                let control = Control::decode(h.kind, payload)?;
                self.on_control(at, h.seq, SessionNo(h.session), &control);
            }
            _ => {}
        }
        Ok(())
    }

    /// Adds all that an INDEX frame lists, without looking at the frames. `controls` are those of `index`, which ends at
    /// offset `end`. Rows that cannot be read are left out: the caller looks first.
    pub(crate) fn on_indexed(
        &mut self,
        at: Place,
        end: u64,
        index: &IndexFrame<'_>,
        controls: Vec<ControlAt>,
    ) {
        for row in controls {
            self.table.take_control(Place { offset: row.offset, ..at }, row);
        }
        for i in 0..index.runs {
            let row = index.row(i);
            let Some((first_seq, time, bytes)) = index.bounds(row) else { continue };
            let extent = Extent {
                first_seq,
                count: row.events,
                lane: at.lane,
                segment: at.segment,
                index: at.offset,
            };
            self.events += u64::from(row.events);
            self.bytes += bytes;
            self.table.add_events(row.session, extent, time, bytes);
        }
        self.blocks.insert((at.lane, at.segment), Block::new(end, at.offset));
    }
}
