//! All lanes of a store and the index over them, kept up to date by `refresh`.
//!
//! # Invariants
//! O1. A refresh reads each lane from where the last one stopped, never twice.
//! O2. The lane that this handle writes is not read: its appends go into the index directly.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::Index;
use super::lane_view::{AtBad, Finding, LaneView};
use crate::error::Result;
use crate::format::name;
use crate::segment::{Pool, Segment};
use crate::types::{LaneNo, SegmentNo};
use crate::vfs::{EntryKind, VfsDir};

/// The lanes of a store as read so far.
#[derive(Debug)]
pub(crate) struct Lanes {
    pub(crate) dir: Arc<dyn VfsDir>,
    pub(crate) path: PathBuf,
    pub(crate) store_id: [u8; 16],
    /// Boot id of the machine that reads.
    pub(crate) boot_id: [u8; 16],
    pub(crate) mapped: bool,
    pub(crate) views: BTreeMap<LaneNo, LaneView>,
    /// The lane that this handle writes.
    pub(crate) own: Option<LaneNo>,
    pub(crate) index: Index,
    pub(crate) pool: Arc<Pool>,
    /// Counts how often all was read again: what was read before may be gone.
    pub(crate) readings: u64,
}

impl Lanes {
    /// No lane read yet; `dir` is the folder of the lanes.
    pub(crate) fn new(
        dir: Arc<dyn VfsDir>,
        path: PathBuf,
        (store_id, boot_id): ([u8; 16], [u8; 16]),
        mapped: bool,
    ) -> Self {
        Self {
            dir,
            path,
            store_id,
            boot_id,
            mapped,
            views: BTreeMap::new(),
            own: None,
            index: Index::default(),
            pool: Arc::default(),
            readings: 0,
        }
    }

    /// Reads what all lanes but the own one got since the last call, and lanes that are new.
    pub(crate) fn refresh(&mut self) -> Result<()> {
        for entry in self.dir.list()? {
            if entry.kind == EntryKind::Other {
                continue;
            }
            if let Some(no) = name::parse_lane_dir(&entry.name) {
                self.add_lane(no)?;
            }
        }
        let numbers: Vec<LaneNo> = self.views.keys().copied().collect();
        for no in &numbers {
            self.refresh_lane(*no)?;
        }
        if self.index.table.has_holes() {
            // A session may have moved on from a lane just after that lane was read: its end is there now.
            for no in &numbers {
                self.refresh_lane(*no)?;
            }
        }
        Ok(())
    }

    /// Takes note of a lane; reads nothing of it.
    pub(crate) fn add_lane(&mut self, no: LaneNo) -> Result<()> {
        if self.views.contains_key(&no) {
            return Ok(());
        }
        let dir = self.dir.open_dir(&name::lane_dir(no))?;
        let path = self.path.join(name::lane_dir(no));
        let ids = (self.store_id, self.boot_id);
        let view = LaneView::new(no, dir, path, ids, self.mapped, self.pool.clone());
        self.views.insert(no, view);
        Ok(())
    }

    /// Reads what one lane got since the last call.
    pub(crate) fn refresh_lane(&mut self, no: LaneNo) -> Result<()> {
        if self.own == Some(no) {
            return Ok(());
        }
        let Some(view) = self.views.get_mut(&no) else { return Ok(()) };
        let first = !view.is_read;
        view.look()?;
        view.advance(&mut self.index, if first { AtBad::Resync } else { AtBad::Stop })
    }

    pub(crate) fn segment(&self, lane: LaneNo, no: SegmentNo) -> Option<Arc<Segment>> {
        self.views.get(&lane)?.segments.get(&no).cloned()
    }

    /// What is wrong in any lane.
    pub(crate) fn findings(&self) -> impl Iterator<Item = &Finding> + '_ {
        self.views.values().flat_map(|v| v.findings.iter())
    }
}
