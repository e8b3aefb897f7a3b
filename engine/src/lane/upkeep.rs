//! What a lane does when nobody asks: write-behind, marks in quiet times, the segment ahead, closing.
//!
//! # Invariants
//! U1. An event that nobody waits for is synced after the write-behind bound: `sync_delay_ms`, or 20 times the smoothed
//!     time of a sync where that is more, so that many processes on one disk do not starve each other.
//! U2. What the future of a receipt asks for is done at once.
//! U3. The thread holds no strong reference while it sleeps: dropping the store ends it.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::Lane;
use crate::error::Result;
use crate::format::frame::kind;
use crate::format::slot::LaneState;

/// Frames without an INDEX that are still worth one at close.
const INDEX_AT_CLOSE_BYTES: u64 = 64 << 10;

impl Lane {
    /// Does what is due. Called by the thread of the lane, or by a simulated machine.
    pub(crate) fn upkeep(&self) -> Result<()> {
        let asked = self.promises.asked();
        if self.poison.get().is_some() {
            return Ok(());
        }
        if asked.written > 0 {
            self.flush_to(asked.written)?;
        }
        if asked.durable > 0 {
            self.sync_to(asked.durable)?;
        }
        let now = self.vfs.monotonic_ns();
        let bound = self.sync_delay_ns();
        let (due, pos, quiet_mark) = {
            let stage = self.stage.lock();
            let age = stage.unsynced_since_ns.map(|t| now.saturating_sub(t));
            let unmarked = self.durable.load(Ordering::Acquire).min(stage.content) > stage.marked;
            (age.is_some_and(|a| a >= bound), stage.pos, age.is_none() && unmarked && !stage.closed)
        };
        if due {
            self.sync_to(pos)?;
        } else if quiet_mark {
            self.prove(pos)?;
        }
        self.prepare_next()
    }

    /// The write-behind bound now, in nanoseconds.
    fn sync_delay_ns(&self) -> u64 {
        let smoothed = self.counters.sync_ns.load(Ordering::Relaxed);
        (self.options.sync_delay_ms * 1_000_000).max(20 * smoothed)
    }

    /// Makes the next segment while nobody waits for it. The stage is not locked meanwhile.
    fn prepare_next(&self) -> Result<()> {
        let (no, wanted) = {
            let mut stage = self.stage.lock();
            let capacity = stage.active.segment.header.capacity;
            if stage.offset < capacity / 4 * 3 || stage.next.is_some() || stage.closed {
                return Ok(());
            }
            stage.next_no += 1;
            (stage.next_no - 1, stage.next_capacity)
        };
        // A full disk is reported to the append that needs the room, not here.
        let Ok(made) = self.make_segment(no, wanted, 0) else { return Ok(()) };
        let mut stage = self.stage.lock();
        if stage.next.is_none() && !stage.closed && no > stage.active.segment.no() {
            stage.next = Some(made);
            return Ok(());
        }
        drop(stage);
        // A name left behind is removed by the next who opens the lane.
        let _ignored = self.dir.remove(&crate::format::name::segment(no));
        Ok(())
    }

    /// Writes and syncs all, ends with a CLOSE frame, and marks the slot closed.
    pub(crate) fn close(&self) -> Result<()> {
        if self.poison.get().is_some() {
            return self.alive();
        }
        let pos = {
            let mut stage = self.stage.lock();
            if stage.closed {
                return Ok(());
            }
            self.drop_next(&mut stage);
            self.index_at_close(&mut stage);
            stage.pos
        };
        self.sync_to(pos)?;
        let end = {
            let mut stage = self.stage.lock();
            if stage.pos > 0 {
                // Without a CLOSE the lane is as whole: who opens it next only looks closer.
                let _no_room = self.put_mark(&mut stage, kind::CLOSE);
            }
            stage.closed = true;
            stage.pos
        };
        self.sync_to(end)?;
        let mut writer = self.write.lock();
        writer.slot.state = LaneState::Closed;
        self.write_slot(&mut writer)
    }

    /// Takes nothing more and lets go of the flock: receipts may keep the lane in memory for long.
    pub(crate) fn let_go(&self) {
        self.stage.lock().closed = true;
        // Closing the file lets go as well.
        let _ignored = self.file.unlock();
    }

    fn index_at_close(&self, stage: &mut super::stage::Stage) {
        let from = {
            let lanes = self.lanes.read();
            let block = lanes.index.blocks.get(&(self.no, stage.active.segment.no()));
            block.filter(|b| !b.is_empty()).map(|b| b.from)
        };
        if from.is_some_and(|f| stage.offset - f >= INDEX_AT_CLOSE_BYTES) {
            self.put_index(stage);
        }
    }
}

/// Starts the thread of a lane, where the machine has threads.
pub(crate) fn start(lane: &Arc<Lane>) {
    if !lane.vfs.has_threads() {
        return;
    }
    let weak: Weak<Lane> = Arc::downgrade(lane);
    let generation = lane.vfs.fork_generation();
    let jitter = lane.vfs.random_u64() % 64;
    let tick = Duration::from_millis((lane.options.sync_delay_ms / 4).clamp(1, 50) + jitter / 16);
    let promises = lane.promises.clone();
    let tended = lane.promises.clone();
    let spawned = std::thread::Builder::new().name("everlog-upkeep".into()).spawn(move || {
        loop {
            promises.wait_for_work(tick);
            let Some(lane) = weak.upgrade() else { return };
            if lane.vfs.fork_generation() != generation || lane.stage.lock().closed {
                return;
            }
            if lane.upkeep().is_err() {
                // The lane is poisoned now; those who wait on it hear of it.
                return;
            }
        }
    });
    // Without a thread the bound is kept only by those who call, and futures do their work themselves.
    tended.tend(spawned.is_ok());
}
