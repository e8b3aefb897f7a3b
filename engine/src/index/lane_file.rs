//! The lane file as a reader sees it, and what it tells of whether the lane has news.
//!
//! # Invariants
//! Lf1. A lane is passed over only when nothing that was acknowledged can have come since it was read:
//!      every handle writes a slot with a higher counter before its first frame, and before the first frame in a new
//!      segment; frames of a segment are written in order. So with the same slots all news would begin where the last
//!      walk ended, in the same segment; and with a slot that says `closed`, there is none.
//! Lf2. The slots compared are those read before the last walk: what came during the walk is seen by the next.

use std::sync::Arc;

use super::Index;
use super::lane_view::{AtBad, LaneView};
use crate::error::{ErrorKind, Result};
use crate::format::codec::is_zero;
use crate::format::frame::{HEADER_BYTES, HEADER_LEN};
use crate::format::name;
use crate::format::slot::{LEN, LaneState, STRIDE, Slot};
use crate::segment::Kept;
use crate::vfs::VfsDir;

/// Bytes up to the end of the second slot.
const BYTES: usize = STRIDE as usize + LEN;

/// The file of a lane and its two slots as they were last read.
#[derive(Debug)]
pub(crate) struct LaneFile {
    file: Kept,
    /// Both slots, one behind the other; empty when the file was not there, or was short.
    seen: Vec<u8>,
}

/// What a look at the slots tells.
enum News {
    /// Nothing was written.
    None,
    /// Frames may follow where the last walk ended.
    Frames,
    /// Anything.
    Lane,
}

impl LaneFile {
    pub(super) fn new(dir: Arc<dyn VfsDir>) -> Self {
        Self { file: Kept::new(dir, name::LANE.to_owned()), seen: Vec::new() }
    }

    /// Reads up to the second slot; `None` when there is no file.
    fn read(&self, b: &mut [u8; BYTES]) -> Result<Option<usize>> {
        match self.file.file() {
            Ok(file) => file.read_at(b, 0).map(Some),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }
}

fn slots_of(b: &[u8; BYTES]) -> [&[u8]; 2] {
    let (first, rest) = b.split_at(LEN);
    [first, rest.get(STRIDE as usize - LEN..).unwrap_or(&[])]
}

impl LaneView {
    /// Reads what the lane got since the last call.
    pub(crate) fn refresh(&mut self, index: &mut Index) -> Result<()> {
        let at_bad = if self.is_read { AtBad::Stop } else { AtBad::Resync };
        match self.news()? {
            News::None => return Ok(()),
            News::Frames => {}
            News::Lane => self.look()?,
        }
        self.advance(index, at_bad)
    }

    /// Reads the slots of the lane file.
    pub(crate) fn read_slot(&mut self) -> Result<()> {
        let mut b = [0; BYTES];
        let Some(n) = self.lane_file.read(&mut b)? else { return Ok(()) };
        let whole = if n == BYTES { slots_of(&b).concat() } else { Vec::new() };
        self.lane_file.seen = whole;
        self.slot = Slot::newest(b.get(..n).unwrap_or(&[]), &self.store_id, self.no);
        Ok(())
    }

    fn news(&self) -> Result<News> {
        let Some(slot) = self.slot.as_ref().filter(|_| self.is_read) else { return Ok(News::Lane) };
        let Some((no, end)) = self.at else { return Ok(News::Lane) };
        if self.is_broken() || self.held_at.is_some() || slot.segment != no {
            return Ok(News::Lane);
        }
        let mut b = [0; BYTES];
        let n = self.lane_file.read(&mut b)?;
        if n != Some(BYTES) || self.lane_file.seen != slots_of(&b).concat() {
            return Ok(News::Lane);
        }
        match slot.state {
            LaneState::Closed => return Ok(News::None),
            LaneState::Poisoned => return Ok(News::Lane),
            LaneState::Open => {}
        }
        let Some(segment) = self.segments.get(&no) else { return Ok(News::Lane) };
        if segment.frames_limit().saturating_sub(end) < HEADER_LEN {
            return Ok(News::None);
        }
        let mut head = [0; HEADER_BYTES];
        let n = segment.read_at(&mut head, end)?;
        let silent = n == HEADER_BYTES && is_zero(&head);
        Ok(if silent { News::None } else { News::Frames })
    }
}
