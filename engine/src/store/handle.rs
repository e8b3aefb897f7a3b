//! The calls of a handle that concern the whole store.

use super::Store;
use crate::error::Result;
use crate::recovery::report::RecoveryReport;
use crate::types::SessionId;

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
