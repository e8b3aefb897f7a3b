//! The log of one write handle: staging, writing, syncing, rotating, poison.
//!
//! # Invariants
//! W1. Bytes go to the disk in the order in which they were staged, by one writer at a time.
//! W2. A position of the lane counts the bytes staged since the handle opened. `durable <= written <= staged`, always.
//! W3. The segment before is synced before the header of the next is written.
//! W4. After a failed write or sync nothing more is written: the lane is poisoned, and says so in its slot.
//! W5. A batch never spans segments; a segment is allocated before a byte for it is accepted.
//! W6. No lock is held over a wait for another writer; order of locks: session, stage, index; write; sync.
//!
//! # Units
//! `pos`: bytes staged since the handle opened. `offset`: bytes from the start of a segment file.

pub(crate) mod bell;
pub(crate) mod commit;
pub(crate) mod gate;
pub(crate) mod open;
pub(crate) mod rotate;
pub(crate) mod stage;
pub(crate) mod upkeep;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, RwLock};

use crate::error::{Error, ErrorKind, Result};
use crate::format::slot::{LaneState, STRIDE, Slot};
use crate::index::load::Lanes;
use crate::options::StoreOptions;
use crate::segment::Segment;
use crate::types::LaneNo;
use crate::vfs::{Vfs, VfsDir, VfsFile};

pub(crate) use stage::{Frame, Ticket};

/// Counters of what a lane did, for tests and figures.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) writes: AtomicU64,
    pub(crate) syncs: AtomicU64,
    pub(crate) sync_ns: AtomicU64,
}

/// A segment that is written, and how positions map to its offsets.
#[derive(Debug)]
pub(crate) struct Active {
    pub(crate) segment: Arc<Segment>,
    /// Position of the lane at `base_offset`.
    pub(crate) base_pos: u64,
    pub(crate) base_offset: u64,
}

impl Active {
    /// Offset in this segment below which all is durable.
    fn durable_offset(&self, durable_pos: u64) -> u64 {
        self.base_offset + durable_pos.saturating_sub(self.base_pos)
    }
}

/// What the one who writes holds.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) active: Arc<Active>,
    pub(crate) written_gsn: u64,
    pub(crate) slot: Slot,
    /// Empty: takes the place of the parts of the stage while those are written.
    pub(crate) parts: Vec<stage::Part>,
    /// A buffer for the stage to fill.
    pub(crate) spare: Vec<u8>,
}

impl Writer {
    /// One who has written up to `written_gsn` and goes on in `active`.
    pub(crate) fn new(active: Arc<Active>, written_gsn: u64, slot: Slot) -> Self {
        Self { active, written_gsn, slot, parts: Vec::new(), spare: Vec::new() }
    }
}

/// The log of one write handle.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) no: LaneNo,
    pub(crate) store_id: [u8; 16],
    pub(crate) vfs: Arc<dyn Vfs>,
    pub(crate) dir: Arc<dyn VfsDir>,
    pub(crate) path: PathBuf,
    pub(crate) file: Arc<dyn VfsFile>,
    pub(crate) options: StoreOptions,
    pub(crate) lanes: Arc<RwLock<Lanes>>,
    pub(crate) stage: Mutex<stage::Stage>,
    pub(crate) write: Mutex<Writer>,
    pub(crate) sync: gate::Gate,
    /// Held over each `sync_data` of a segment; whether one failed.
    pub(crate) sync_failed: Mutex<bool>,
    pub(crate) written: AtomicU64,
    pub(crate) durable: AtomicU64,
    pub(crate) durable_gsn: AtomicU64,
    pub(crate) poison: OnceLock<Error>,
    /// Tells the handle that the index must be read again, no further than what is durable.
    pub(crate) failed: Arc<AtomicBool>,
    pub(crate) counters: Counters,
    /// Rung when the index got a frame of this lane, and when it was written or became durable.
    pub(crate) bell: Arc<bell::Bell>,
    /// Futures that wait for this lane.
    pub(crate) promises: Arc<bell::Promises>,
}

impl Lane {
    /// Refuses when the lane is poisoned.
    pub(crate) fn alive(&self) -> Result<()> {
        match self.poison.get() {
            None => Ok(()),
            Some(cause) => Err(Error::new(
                ErrorKind::Poisoned,
                format!("an earlier write failed ({}); open the store again", cause.message()),
            )
            .with_path(&self.path)),
        }
    }

    /// Takes no more from now on: what was written may or may not be there.
    pub(crate) fn poison(&self, writer: Option<&mut Writer>, cause: &Error) -> Error {
        let first = self.poison.set(cause.clone()).is_ok();
        self.failed.store(true, Ordering::Release);
        if let Some(w) = writer
            && first
        {
            w.slot.state = LaneState::Poisoned;
            // Best effort: without it readers go by the checksums.
            let _ignored = self.write_slot(w);
        }
        let message = format!(
            "{}; the events may or may not be stored: open the store again",
            cause.message()
        );
        let mut err = cause.clone().with_kind(ErrorKind::OutcomeUnknown);
        if cause.kind() != ErrorKind::OutcomeUnknown {
            err = Error::new(ErrorKind::OutcomeUnknown, message).with_path(&self.path);
        }
        err
    }

    /// Tells those who wait that the lane was written, became durable, or failed. Called with no lock held.
    fn tell(&self) {
        let reached = || bell::Reach {
            written: self.written.load(Ordering::Acquire),
            durable: self.durable.load(Ordering::Acquire),
        };
        self.bell.ring();
        self.promises.settle(&reached, &|| self.poison.get().is_some());
    }

    /// Writes the slot with what is known now; not synced.
    pub(crate) fn write_slot(&self, w: &mut Writer) -> Result<()> {
        let written = self.written.load(Ordering::Acquire);
        let durable = self.durable.load(Ordering::Acquire);
        w.slot.segment = w.active.segment.no();
        w.slot.salt = w.active.segment.header.salt;
        w.slot.epoch = w.active.segment.header.epoch;
        w.slot.written_end = w.active.durable_offset(written);
        w.slot.durable_end = w.active.durable_offset(durable);
        w.slot.durable_gsn = self.durable_gsn.load(Ordering::Acquire);
        w.slot.counter += 1;
        let at = (w.slot.counter % 2) * STRIDE;
        self.file.write_at(&w.slot.encode(), at).map_err(|e| e.with_path(&self.path))
    }

    /// Segment and offset up to which everything is durable.
    pub(crate) fn durable_place(&self) -> (crate::SegmentNo, u64) {
        let writer = self.write.lock();
        let durable = self.durable.load(Ordering::Acquire);
        (writer.active.segment.no(), writer.active.durable_offset(durable))
    }

    /// Segment and offset up to which everything was written.
    pub(crate) fn written_place(&self) -> (crate::SegmentNo, u64) {
        let writer = self.write.lock();
        let written = self.written.load(Ordering::Acquire);
        (writer.active.segment.no(), writer.active.durable_offset(written))
    }

    /// Position up to which the log is staged.
    pub(crate) fn staged_pos(&self) -> u64 {
        self.stage.lock().pos
    }

    /// Whether everything up to `pos` is durable.
    pub(crate) fn is_durable(&self, pos: u64) -> bool {
        self.durable.load(Ordering::Acquire) >= pos
    }

    /// Whether everything up to `pos` was written.
    pub(crate) fn is_written(&self, pos: u64) -> bool {
        self.written.load(Ordering::Acquire) >= pos
    }
}
