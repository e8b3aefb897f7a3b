//! New segments: made ahead or at need, and the change to them.
//!
//! # Invariants
//! Z1. A segment file is allocated and its name synced before the stage turns to it: a full disk is an error before
//!     any event is accepted, and poisons nothing.
//! Z2. A file made ahead is zero to its last byte; whoever takes the lane removes it, also where the segment that was
//!     begun instead has a higher number. One that holds anything is never removed without a copy.

use std::sync::Arc;

use super::stage::{Part, Stage};
use super::{Active, Lane};
use crate::error::Result;
use crate::format::name;
use crate::format::segment::{HEADER_LEN, Prev, SegmentHeader, Trailer};
use crate::index::Block;
use crate::options::ReadMode;
use crate::segment::Segment;
use crate::segment::make::{capacity_for, make_segment_file, new_salt};
use crate::vfs::VfsFile;

/// A segment that filled faster than this makes the next one twice as large.
const FILL_FAST_NS: u64 = 60_000_000_000;

impl Lane {
    /// Turns the stage to a new segment of at least `capacity_min` bytes.
    pub(crate) fn rotate(&self, stage: &mut Stage, capacity_min: u64) -> Result<()> {
        let now = self.vfs.monotonic_ns();
        if now.saturating_sub(stage.started_ns) < FILL_FAST_NS {
            let largest = self.options.segment_bytes_max.max(stage.next_capacity);
            stage.next_capacity = (stage.next_capacity * 2).min(largest);
        }
        let fits = stage.next.as_ref().is_some_and(|s| s.header.capacity >= capacity_min);
        if !fits {
            self.drop_next(stage);
            self.make_next(stage, capacity_min)?;
        }
        let Some(segment) = stage.next.take() else { return Ok(()) };
        self.put_index(stage);
        let from = stage.active.clone();
        let trailer = Self::trailer_of(stage, &self.last_index_of(&from.segment));
        // The stand-in from the making gets its real header now that the end before it is known.
        let header = SegmentHeader {
            epoch: from.segment.header.epoch,
            base_gsn: stage.gsn,
            next_session: stage.next_session,
            prev: Some(Prev {
                segment: from.segment.no(),
                end: stage.offset,
                salt: from.segment.header.salt,
            }),
            created_ms: self.vfs.now_ms(),
            ..segment.header
        };
        let mapped = self.options.read_mode == ReadMode::Map;
        let segment = Arc::new(Segment::new(header, segment.file()?, segment.path.clone(), mapped));
        let to = Arc::new(Active {
            segment: segment.clone(),
            base_pos: stage.pos,
            base_offset: HEADER_LEN,
        });
        let mut lanes = self.lanes.write();
        let pool = lanes.pool.clone();
        if let Some(view) = lanes.views.get_mut(&self.no) {
            // Readers open the old segment again when they need it, so that its descriptor can go.
            let old = &from.segment;
            let lazy = Segment::lazy(old.header, self.dir.clone(), pool, old.path.clone(), mapped);
            view.segments.insert(old.no(), Arc::new(lazy));
            view.segments.insert(segment.no(), segment);
        }
        drop(lanes);
        stage.parts.push(Part::Rotate { from, trailer, to: to.clone(), header: header.encode() });
        stage.active = to;
        stage.open_block = None;
        stage.offset = HEADER_LEN;
        stage.started_ns = now;
        Ok(())
    }

    fn last_index_of(&self, segment: &Segment) -> Option<u64> {
        let lanes = self.lanes.read();
        lanes.index.blocks.get(&(self.no, segment.no())).and_then(Block::last_index)
    }

    fn trailer_of(stage: &Stage, index: &Option<u64>) -> Option<Vec<u8>> {
        let index_offset = (*index)?;
        let trailer = Trailer {
            index_offset,
            frames_end: stage.offset,
            next_gsn: stage.gsn,
            salt: stage.active.segment.header.salt,
            next_session: stage.next_session,
            segment: stage.active.segment.no(),
        };
        Some(trailer.encode().to_vec())
    }

    /// Makes the next segment, when there is none.
    fn make_next(&self, stage: &mut Stage, capacity_min: u64) -> Result<()> {
        if stage.next.is_none() {
            // A number whose file could not be made is not tried again: its name may be left.
            stage.next_no += 1;
            let no = stage.next_no - 1;
            stage.next = Some(self.make_segment(no, stage.next_capacity, capacity_min)?);
        }
        Ok(())
    }

    /// Makes a segment file of that number; its header stands in until the segment is begun.
    pub(crate) fn make_segment(&self, no: u64, wanted: u64, min: u64) -> Result<Arc<Segment>> {
        let capacity = capacity_for(&*self.dir, wanted, min)?;
        let (file, path) = self.make_file(no, capacity)?;
        let header = SegmentHeader {
            store_id: self.store_id,
            lane: self.no,
            segment: no,
            salt: new_salt(&*self.vfs, &self.options),
            epoch: 0,
            base_gsn: 0,
            next_session: 0,
            prev: None,
            capacity,
            created_ms: 0,
        };
        Ok(Arc::new(Segment::new(header, file, path, false)))
    }

    /// Removes the segment made ahead. A name left behind is removed by the next who opens the lane.
    pub(crate) fn drop_next(&self, stage: &mut Stage) {
        if let Some(segment) = stage.next.take() {
            let _ignored = self.dir.remove(&name::segment(segment.no()));
        }
    }

    fn make_file(&self, no: u64, capacity: u64) -> Result<(Arc<dyn VfsFile>, std::path::PathBuf)> {
        make_segment_file(&*self.dir, no, capacity, self.options.access)
            .map(|f| (f, self.path.join(name::segment(no))))
            .map_err(|e| e.with_path(self.path.join(name::segment(no))))
    }
}
