//! Lists and figures of a store.

use super::Store;
use crate::error::{ErrorKind, Result};
use crate::format::name;
use crate::index::Record;
use crate::options::Level;
use crate::session::SessionInfo;
use crate::vfs::OpenHow;

/// Figures of a store, as far as this handle has read it.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
/// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
/// writer.append(&everlog::NewEvent::new("note", b"1"))?;
/// let info = store.info()?;
/// assert_eq!((info.format, info.sessions, info.events), (1, 1, 1));
/// assert_eq!((info.lanes, info.segments, info.default_level), (1, 1, everlog::Level::Os));
/// assert!(info.bytes < info.reserved_bytes && info.store_id == store.id());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[non_exhaustive]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoreInfo {
    /// Identity of the store.
    pub store_id: [u8; 16],
    /// Major number of its format.
    pub format: u16,
    /// When it was made, in Unix milliseconds.
    pub created_ms: i64,
    /// Level of writers that name none.
    pub default_level: Level,
    /// Visible sessions.
    pub sessions: u64,
    /// Events of visible sessions.
    pub events: u64,
    /// Bytes of their frames' payloads.
    pub bytes: u64,
    /// Bytes that the segment files reserve.
    pub reserved_bytes: u64,
    /// Segments with frames.
    pub segments: u64,
    /// Lanes.
    pub lanes: u64,
}

impl Store {
    /// Visible sessions: their headers and figures, in no order. Reads no event. Imports that were not finished are not
    /// visible.
    ///
    /// # Errors
    /// `Corrupt` when a create frame is damaged, `Io`, `ForkedHandle`.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
    /// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
    /// let ids: Vec<_> = store.sessions()?.into_iter().map(|info| info.id).collect();
    /// assert_eq!(ids, [writer.id().clone()]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sessions(&self) -> Result<Vec<SessionInfo>> {
        self.inner.guard()?;
        let records: Vec<Record> = {
            let lanes = self.inner.lanes.read();
            lanes.index.table.iter().filter(|r| r.is_visible()).cloned().collect()
        };
        let mut out = Vec::with_capacity(records.len());
        for r in records {
            if self.inner.visible(&r.id)?.no == r.no {
                out.push(SessionInfo::read(&self.inner, &r)?);
            }
        }
        Ok(out)
    }

    /// Figures of the store. [`StoreInfo`] has an example.
    ///
    /// # Errors
    /// `ForkedHandle`, and what re-reading the index gives after a failed write: `Io`, `Unsupported`.
    pub fn info(&self) -> Result<StoreInfo> {
        self.inner.guard()?;
        let lanes = self.inner.lanes.read();
        let visible = || lanes.index.table.iter().filter(|r| r.is_visible());
        Ok(StoreInfo {
            store_id: self.inner.file.store_id,
            format: crate::format::FORMAT_MAJOR,
            created_ms: self.inner.file.created_ms,
            default_level: self.inner.default_level(),
            sessions: visible().count() as u64,
            events: visible().map(|r| r.end_seq() - r.base()).sum(),
            bytes: visible().map(|r| r.bytes).sum(),
            reserved_bytes: lanes.views.values().map(|v| v.reserved_bytes()).sum(),
            segments: lanes.views.values().map(|v| v.segments.len() as u64).sum(),
            lanes: lanes.views.len() as u64,
        })
    }

    /// Places where this handle met damage that may hide sessions from every list: segments that are lost or cut or
    /// whose header is damaged, and frames that are gone. [`check`](Store::check) reads everything and names what it cost.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
    /// assert_eq!(store.damage_met(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn damage_met(&self) -> u64 {
        let lanes = self.inner.lanes.read();
        // A header that is being made hides nothing.
        lanes.findings().filter(|f| f.kind != "segment-torn").count() as u64
    }

    /// Reports of past recoveries of all lanes, one JSON object each, oldest first in each lane, as
    /// [`RecoveryReport::to_json`](crate::RecoveryReport::to_json) made them. Of each lane the last MiB is read.
    ///
    /// # Errors
    /// `Io`, `ForkedHandle`.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
    /// assert!(store.recoveries()?.iter().all(|line| line.starts_with('{')));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn recoveries(&self) -> Result<Vec<String>> {
        const BYTES_MAX: u64 = 1 << 20;
        self.inner.guard()?;
        let lanes = self.inner.lanes.read();
        let mut out = Vec::new();
        for view in lanes.views.values() {
            let file = match view.dir.open(name::RECOVERIES, OpenHow::Read) {
                Ok(file) => file,
                Err(e) if e.kind() == ErrorKind::NotFound => continue,
                Err(e) => return Err(e),
            };
            let len = file.len()?;
            let from = len.saturating_sub(BYTES_MAX);
            let mut b = vec![0; crate::format::codec::narrow(len - from)];
            let n = file.read_at(&mut b, from)?;
            b.truncate(n);
            let text = String::from_utf8_lossy(&b);
            out.extend(
                text.lines().filter(|l| l.starts_with('{') && l.ends_with('}')).map(str::to_owned),
            );
        }
        Ok(out)
    }
}
