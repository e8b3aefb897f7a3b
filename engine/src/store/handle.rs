//! What the clones of a handle share, and the calls that concern the whole store.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, RwLock};

use super::Store;
use crate::error::{Error, ErrorKind, Result};
use crate::format::store_file::StoreFile;
use crate::index::load::Lanes;
use crate::index::runs::RunCache;
use crate::lane::Lane;
use crate::lane::open::LaneSite;
use crate::locks::{Locks, SessionLock};
use crate::options::{Level, StoreOptions};
use crate::recovery::report::RecoveryReport;
use crate::types::SessionId;
use crate::vfs::Vfs;

/// The open store behind its handles.
#[derive(Debug)]
pub(crate) struct StoreInner {
    pub(crate) vfs: Arc<dyn Vfs>,
    pub(crate) path: PathBuf,
    pub(crate) file: StoreFile,
    pub(crate) options: StoreOptions,
    pub(crate) generation: u64,
    pub(crate) locks: Arc<Locks>,
    pub(crate) site: LaneSite,
    pub(crate) lanes: Arc<RwLock<Lanes>>,
    pub(crate) lane: Mutex<Option<Arc<Lane>>>,
    pub(crate) report: Mutex<Option<RecoveryReport>>,
    /// Session locks of a poisoned lane: kept until the handle closes.
    pub(crate) kept: Mutex<Vec<SessionLock>>,
    pub(crate) runs: RunCache,
    /// Set by the lane when a write or sync failed, until the index was read again.
    pub(crate) failed: OnceLock<Arc<AtomicBool>>,
}

impl StoreInner {
    /// Refuses in a child of `fork(2)`.
    pub(crate) fn guard(&self) -> Result<()> {
        if self.vfs.fork_generation() == self.generation {
            return self.hold_readers();
        }
        Err(Error::new(
            ErrorKind::ForkedHandle,
            "the store was opened before fork; open it again in the child",
        )
        .with_path(&self.path))
    }

    /// After a failed write or sync: what is not durable is shown to nobody any more.
    fn hold_readers(&self) -> Result<()> {
        let Some(failed) = self.failed.get().filter(|f| f.load(Ordering::Acquire)) else {
            return Ok(());
        };
        let Some(lane) = self.own_lane() else { return Ok(()) };
        let place = lane.durable_place();
        let mut lanes = self.lanes.write();
        if !failed.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        *lanes = lanes.anew();
        lanes.add_lane(lane.no)?;
        if let Some(view) = lanes.views.get_mut(&lane.no) {
            view.held_at = Some(place);
        }
        lanes.refresh()
    }

    pub(crate) fn guard_write(&self) -> Result<()> {
        self.guard()?;
        if self.options.read_only {
            return Err(Error::new(ErrorKind::ReadOnly, "the store was opened read-only")
                .with_path(&self.path));
        }
        Ok(())
    }

    /// Level that an append reaches when its caller names none.
    pub(crate) fn default_level(&self) -> Level {
        let stored = if self.file.default_level == 2 { Level::Sync } else { Level::Os };
        self.options.level.unwrap_or(stored)
    }

    /// The lane of this handle, when it has one.
    pub(crate) fn own_lane(&self) -> Option<Arc<Lane>> {
        self.lane.lock().clone()
    }

    /// Sees what other processes wrote.
    pub(crate) fn refresh(&self) -> Result<()> {
        self.lanes.write().refresh()
    }

    fn close(&self) -> Result<()> {
        let Some(lane) = self.own_lane() else { return Ok(()) };
        lane.close()
    }
}

impl Drop for StoreInner {
    fn drop(&mut self) {
        let forked = self.vfs.fork_generation() != self.generation;
        if !forked {
            // Best effort, as documented: `close` reports errors, and recovery copes with what is missing.
            let _ignored = self.close();
        }
        self.kept.lock().clear();
    }
}

impl Store {
    /// Identity of the store.
    #[must_use]
    pub fn id(&self) -> [u8; 16] {
        self.inner.file.store_id
    }

    /// Sees what other processes wrote since the store was opened or refreshed.
    ///
    /// # Errors
    /// `ForkedHandle`, `Io`, `Unsupported` when a newer version wrote.
    pub fn refresh(&self) -> Result<()> {
        self.inner.guard()?;
        self.inner.refresh()
    }

    /// Makes everything that this handle appended survive the machine.
    ///
    /// # Errors
    /// `OutcomeUnknown` when the write or sync fails, `Poisoned`, `ForkedHandle`.
    ///
    /// # Durability
    /// All events appended through this handle before the call survive the machine.
    pub fn sync(&self) -> Result<()> {
        self.inner.guard()?;
        match self.inner.own_lane() {
            Some(lane) => lane.sync_to(lane.staged_pos()),
            None => Ok(()),
        }
    }

    /// Does the background work that is due. Machines with threads do it by themselves.
    ///
    /// # Errors
    /// As [`Store::sync`].
    pub fn upkeep(&self) -> Result<()> {
        self.inner.guard()?;
        match self.inner.own_lane() {
            Some(lane) => lane.upkeep(),
            None => Ok(()),
        }
    }

    /// Writes and syncs everything and marks the lane as closed. Handles that are left refuse to write from then on.
    /// Dropping the last handle does the same, without a word about errors.
    ///
    /// # Errors
    /// As [`Store::sync`].
    ///
    /// # Durability
    /// All events appended through this handle survive the machine.
    pub fn close(self) -> Result<()> {
        self.inner.guard()?;
        self.inner.close()
    }

    /// What opening this handle's lane found; `None` before the first write.
    #[must_use]
    pub fn recovery_report(&self) -> Option<RecoveryReport> {
        self.inner.report.lock().clone()
    }

    /// Ids of visible sessions that start with these bytes of WTF-8, sorted.
    #[must_use]
    pub fn find_sessions(&self, prefix: &[u8]) -> Vec<SessionId> {
        let lanes = self.inner.lanes.read();
        let starts = |id: &SessionId| id.as_bytes().starts_with(prefix);
        let mut out: Vec<SessionId> = lanes
            .index
            .table
            .iter()
            .filter(|r| r.is_visible() && starts(&r.id))
            .map(|r| r.id.clone())
            .collect();
        out.sort();
        out.dedup();
        out
    }

    /// How often the lane wrote and synced, for tests and figures: (`write_at` calls, `sync_data` calls).
    #[must_use]
    pub fn io_counts(&self) -> (u64, u64) {
        use std::sync::atomic::Ordering::Relaxed;
        self.inner.own_lane().map_or((0, 0), |lane| {
            (lane.counters.writes.load(Relaxed), lane.counters.syncs.load(Relaxed))
        })
    }
}
