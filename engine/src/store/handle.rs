//! The calls of a handle that concern the whole store.

use super::Store;
use crate::error::Result;
use crate::recovery::report::RecoveryReport;
use crate::types::SessionId;

impl Store {
    /// Identity of the store: 16 random bytes, given when it was made (format.md section 3).
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
    /// let again = everlog::Store::open(folder.path().join("s"), Default::default())?;
    /// assert_eq!(store.id(), again.id());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn id(&self) -> [u8; 16] {
        self.inner.file.store_id
    }

    /// Sees what other processes wrote since the store was opened or refreshed.
    ///
    /// # Errors
    /// `ForkedHandle`, `Io`, `Unsupported` when a newer version wrote.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
    /// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
    /// let other = everlog::Store::open(folder.path().join("s"), Default::default())?;
    /// store.create_session(&everlog::NewSession::new("b")?)?;
    /// other.refresh()?;
    /// assert_eq!(other.find_sessions(b"").len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
    /// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
    /// use everlog::{Level, NewEvent};
    /// let receipt = writer.append_batch(&[NewEvent::new("note", b"1")], Level::Buffered)?;
    /// store.sync()?;
    /// assert!(receipt.poll(Level::Sync)?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sync(&self) -> Result<()> {
        self.inner.guard()?;
        match self.inner.own_lane() {
            Some(lane) => lane.sync_to(lane.staged_pos()),
            None => Ok(()),
        }
    }

    /// Does the background work that is due: syncs what has waited long enough, makes segments ahead. Machines with threads
    /// ([`Vfs::has_threads`](crate::vfs::Vfs::has_threads)) do it by themselves.
    ///
    /// # Errors
    /// As [`Store::sync`].
    ///
    /// # Durability
    /// None that can be counted on: what is due depends on the clock.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
    /// store.upkeep()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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
    /// All events appended through this handle and its clones survive the machine.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
    /// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
    /// use everlog::{ErrorKind, NewEvent};
    /// store.close()?;
    /// let late = writer.append(&NewEvent::new("note", b"1")).map(|_| ()).map_err(|e| e.kind());
    /// assert_eq!(late, Err(ErrorKind::ReadOnly));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn close(self) -> Result<()> {
        self.inner.guard()?;
        self.inner.close()
    }

    /// What opening this handle's lane found; `None` before the first write.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
    /// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
    /// assert!(store.recovery_report().is_some_and(|report| report.damage.is_empty()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn recovery_report(&self) -> Option<RecoveryReport> {
        self.inner.report.lock().clone()
    }

    /// Ids of visible sessions that start with these bytes of WTF-8, sorted.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
    /// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
    /// let ids = store.find_sessions(b"a");
    /// assert_eq!((ids.len(), &ids[0]), (1, writer.id()));
    /// assert!(store.find_sessions(b"b").is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn find_sessions(&self, prefix: &[u8]) -> Vec<SessionId> {
        // The index may have to be read again; errors show at the first read.
        let _checked = self.inner.guard();
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

    /// How often the lane wrote and synced, for tests and figures: (`write_at` calls, `sync_data` calls), from 0 when the lane
    /// was opened.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
    /// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
    /// let before = store.io_counts().1;
    /// writer.append_batch(&[everlog::NewEvent::new("note", b"1")], everlog::Level::Sync)?;
    /// assert!(store.io_counts().1 > before);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn io_counts(&self) -> (u64, u64) {
        use std::sync::atomic::Ordering::Relaxed;
        self.inner.own_lane().map_or((0, 0), |lane| {
            (lane.counters.writes.load(Relaxed), lane.counters.syncs.load(Relaxed))
        })
    }
}
