//! From (session, seq) to the frame that holds it, with a bounded cache of decoded INDEX entries.
//!
//! # Invariants
//! H1. The cache holds at most its bound in bytes, counted by the places it keeps.
//! H2. Where an INDEX frame is damaged, the segment is walked instead: slower, the same answer.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::Place;
use crate::error::{Error, Result};
use crate::format::frame::kind;
use crate::format::index_frame::{FrameAt, IndexFrame, Mark, Run};
use crate::segment::{Scan, Segment, Step};
use crate::types::{LaneNo, SegmentNo, Seq, SessionNo};

type Key = (LaneNo, SegmentNo, u64, SessionNo);

/// Decoded INDEX entries, kept up to a bound.
#[derive(Debug)]
pub(crate) struct RunCache {
    entries: Mutex<Entries>,
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct Entries {
    by_key: HashMap<Key, Arc<Vec<Run>>>,
    bytes: usize,
}

impl RunCache {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { entries: Mutex::default(), bytes_max }
    }

    /// The runs of a session that the INDEX frame at `index` of a segment lists, when they are kept.
    pub(crate) fn kept(
        &self,
        lane: LaneNo,
        segment: SegmentNo,
        index: u64,
        session: SessionNo,
    ) -> Option<Arc<Vec<Run>>> {
        self.entries.lock().by_key.get(&(lane, segment, index, session)).cloned()
    }

    /// Reads those runs and keeps them. The INDEX frame and what it lists must have been written.
    pub(crate) fn load(
        &self,
        lane: LaneNo,
        segment: &Segment,
        index: u64,
        session: SessionNo,
    ) -> Result<Arc<Vec<Run>>> {
        let key = (lane, segment.no(), index, session);
        let runs = Arc::new(load(segment, index, session)?);
        let size = size_of(&runs);
        let mut guard = self.entries.lock();
        if guard.bytes + size > self.bytes_max {
            guard.by_key.clear();
            guard.bytes = 0;
        }
        if guard.by_key.insert(key, runs.clone()).is_none() {
            guard.bytes += size;
        }
        Ok(runs)
    }
}

fn size_of(runs: &[Run]) -> usize {
    let places = std::mem::size_of::<FrameAt>();
    let marks = std::mem::size_of::<Mark>();
    64 + runs.iter().map(|r| 64 + r.frames.len() * places + r.marks.len() * marks).sum::<usize>()
}

fn load(segment: &Segment, index: u64, session: SessionNo) -> Result<Vec<Run>> {
    let mut payload = Vec::new();
    let frame = segment.frame(index, &mut payload);
    if let Err(crate::segment::file::FrameError::Io(e)) = frame {
        return Err(e);
    }
    if frame.is_ok()
        && let Ok(i) = IndexFrame::open(&payload, index)
        && let Some(runs) = from_index(&i, session, payload.len())
    {
        return Ok(runs);
    }
    by_walk(segment, index, session)
}

/// `bytes`: length of the payload, in which a place takes one at least.
fn from_index(index: &IndexFrame<'_>, session: SessionNo, bytes: usize) -> Option<Vec<Run>> {
    let (mut low, mut high) = (0, index.runs);
    while low < high {
        let mid = low + (high - low) / 2;
        if index.row(mid).session < session {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    let mut out = Vec::new();
    let mut places = 0;
    while low < index.runs && index.row(low).session == session {
        let run = index.run(index.row(low)).ok()?;
        places += run.frames.len() + run.marks.len();
        if places > bytes {
            // Rows that share an entry: nobody wrote that honestly.
            return None;
        }
        out.push(run);
        low += 1;
    }
    Some(out)
}

/// All runs of a session in a segment, found by walking over its frames.
fn by_walk(segment: &Segment, index: u64, session: SessionNo) -> Result<Vec<Run>> {
    let mut block = super::Block::new(0, 0);
    let mut scan = Scan::new(segment, crate::format::segment::HEADER_LEN, segment.frames_limit());
    loop {
        match scan.step()? {
            Step::Frame { offset, header, payload } => {
                if offset > index && !block.is_empty() {
                    break;
                }
                if header.kind == kind::EVENTS
                    && header.session == session.0
                    && let Ok(digest) = super::Digest::of_payload(&header, payload)
                {
                    block.add_events(offset, &header, &digest);
                }
            }
            Step::Zero { .. } | Step::Bad { .. } => {
                if scan.resync(0)?.is_none() {
                    break;
                }
            }
            Step::End => break,
        }
    }
    Ok(block.runs_of(session).cloned().collect())
}

/// A frame of events and where it is.
#[derive(Clone, Debug)]
pub(crate) struct Located {
    pub(crate) segment: Arc<Segment>,
    pub(crate) place: Place,
    pub(crate) frame: FrameAt,
}

/// The frame of `runs` that holds `seq`.
pub(crate) fn frame_with(runs: &[Run], seq: Seq) -> Option<FrameAt> {
    let run = runs.iter().find(|r| (r.first_seq()..r.end_seq()).contains(&seq))?;
    let i = run.frames.partition_point(|f| f.first_seq <= seq).checked_sub(1)?;
    run.frames.get(i).copied()
}

/// The error for a seq that the table knows and no frame holds.
pub(crate) fn lost(segment: &Segment, session: SessionNo, seq: Seq) -> Error {
    Error::corrupt("no frame holds an event that the index names; run check")
        .with_path(&segment.path)
        .with_session_no(session)
        .with_seq(seq)
}
