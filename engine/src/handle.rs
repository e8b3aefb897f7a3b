//! What the clones of a store handle share: who the store is, its lanes as read so far, the lane it writes, its locks.
//!
//! # Invariants
//! Hd1. Every call passes the guard first: a child of `fork(2)` is refused before any mutex is taken.
//! Hd2. After a failed write or sync, readers are shown nothing that is not durable.
//! Hd3. Dropping the last handle closes the lane, except in a child of `fork(2)`.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, RwLock};

use crate::error::{Error, ErrorKind, Result};
use crate::format::codec::crc;
use crate::format::control::Control;
use crate::format::store_file::StoreFile;
use crate::index::load::Lanes;
use crate::index::runs::RunCache;
use crate::lane::open::LaneSite;
use crate::lane::stage::FrameBody;
use crate::lane::{Frame, Lane, Ticket};
use crate::locks::{Locks, SessionLock};
use crate::options::{Level, StoreOptions};
use crate::recovery::report::RecoveryReport;
use crate::types::{Seq, SessionNo};
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
    /// When the last look at all lanes began, on the clock for durations, and how many are done.
    pub(crate) look_ns: AtomicU64,
    pub(crate) looks: AtomicU64,
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
        // What is being staged right now must not come into the new index.
        let _staging = lane.stage.lock();
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
        let is_stale = {
            let mut lanes = self.lanes.write();
            lanes.refresh()?;
            lanes.is_stale()
        };
        self.looks.fetch_add(1, Ordering::AcqRel);
        if is_stale { self.drop_stale() } else { Ok(()) }
    }

    /// Sees what other processes wrote, unless another thread of this handle looked less than `age_ns` ago; whether it
    /// looked.
    pub(crate) fn look(&self, age_ns: u64) -> Result<bool> {
        let now = self.vfs.monotonic_ns();
        let last = self.look_ns.load(Ordering::Acquire);
        if now.saturating_sub(last) < age_ns {
            return Ok(false);
        }
        // Of two at once one looks.
        let first = self.look_ns.compare_exchange(last, now, Ordering::AcqRel, Ordering::Acquire);
        if first.is_err() && age_ns > 0 {
            return Ok(false);
        }
        self.refresh().map(|()| true)
    }

    /// Sees what another process wrote to one lane.
    pub(crate) fn refresh_lane(&self, no: crate::LaneNo) -> Result<()> {
        let is_stale = {
            let mut lanes = self.lanes.write();
            lanes.refresh_lane(no)?;
            lanes.is_stale()
        };
        if is_stale { self.drop_stale() } else { Ok(()) }
    }

    /// Reads the index again: it holds what a recovery has dropped since.
    fn drop_stale(&self) -> Result<()> {
        let failed = self.own_lane().filter(|lane| lane.poison.get().is_some());
        match failed {
            Some(lane) => {
                lane.failed.store(true, Ordering::Release);
                self.hold_readers()
            }
            None => self.read_anew(),
        }
    }

    /// Stages a control frame of a session.
    pub(crate) fn stage_control(
        lane: &Lane,
        no: SessionNo,
        seq: Seq,
        control: &Control,
    ) -> Result<Ticket> {
        let mut payload = control.encode();
        let pcrc = crc(&payload);
        lane.stage(Frame {
            session: no,
            seq,
            count: 0,
            flags: 0,
            payload: &mut payload,
            pcrc,
            body: FrameBody::Control(control),
        })
    }

    pub(crate) fn close(&self) -> Result<()> {
        let Some(lane) = self.own_lane() else { return Ok(()) };
        let closed = lane.close();
        lane.let_go();
        if closed.is_ok() {
            self.read_on(&lane);
        }
        closed
    }

    /// The lane is free for others from now on: what they write to it is read like any.
    fn read_on(&self, lane: &Lane) {
        let (segment, offset) = lane.written_place();
        let (gsn, next_session) = {
            let stage = lane.stage.lock();
            (stage.gsn, stage.next_session)
        };
        let mut lanes = self.lanes.write();
        if lanes.own != Some(lane.no) {
            return;
        }
        lanes.own = None;
        if let Some(view) = lanes.views.get_mut(&lane.no) {
            view.at = Some((segment, offset));
            view.is_read = true;
            view.next_gsn = gsn;
            view.next_session = next_session;
        }
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
