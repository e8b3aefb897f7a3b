//! Which lane this handle writes: taking a free one, recovering it, and keeping the index true to what it holds.
//!
//! # Invariants
//! Ln1. After a recovery that dropped or skipped bytes, the index is read anew: it may hold what was dropped. It is
//!      marked before, so that an error on the way leaves it to the next call.
//! Ln2. While the index is read anew nothing is staged.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::error::{Error, ErrorKind, Result};
use crate::format::frame::kind;
use crate::handle::StoreInner;
use crate::index::lane_view::LaneView;
use crate::index::load::Lanes;
use crate::lane::Lane;
use crate::lane::open::{Held, Recovered};
use crate::limits;
use crate::types::LaneNo;

impl StoreInner {
    /// The lane that this handle writes, taken now if it has none; a free lane `prefer` is taken before others.
    pub(crate) fn lane(&self, prefer: Option<LaneNo>) -> Result<Arc<Lane>> {
        let mut slot = self.lane.lock();
        if let Some(lane) = &*slot {
            return Ok(lane.clone());
        }
        let lane = self.take_lane(prefer)?;
        // Set once: a handle takes one lane.
        let _first = self.failed.set(lane.failed.clone());
        *slot = Some(lane.clone());
        Ok(lane)
    }

    fn take_lane(&self, prefer: Option<LaneNo>) -> Result<Arc<Lane>> {
        // Without a lane of its own; the lock on which one it is is held here.
        if self.stale.load(Ordering::Acquire) {
            self.read_anew(None)?;
        } else {
            self.lanes.write().refresh()?;
        }
        let mut numbers: Vec<LaneNo> = self.lanes.read().views.keys().copied().collect();
        if let Some(p) = prefer {
            numbers.sort_by_key(|n| (*n != p, *n));
        }
        for no in &numbers {
            if self.lanes.read().views.get(no).is_some_and(|v| v.is_broken()) {
                continue;
            }
            let Some(held) = self.site.try_hold(*no, false)? else { continue };
            match self.recover(held) {
                Ok(r) => return self.begin(r),
                // A lane that cannot go on stays as it is; another one is taken.
                Err(e) if e.kind() == ErrorKind::Corrupt => {}
                Err(e) => return Err(e),
            }
        }
        let mut no = numbers.iter().max().map_or(0, |n| usize::from(*n) + 1);
        loop {
            let number = LaneNo::try_from(no).ok().filter(|_| no < limits::LANES_MAX);
            let Some(number) = number else {
                return Err(Error::limit("number of lanes", no as u64, limits::LANES_MAX as u64));
            };
            match self.site.try_hold(number, true) {
                Ok(Some(held)) => return self.begin(self.recover(held)?),
                Ok(None) => no += 1,
                Err(e) if e.kind() == ErrorKind::Exists => no += 1,
                Err(e) => return Err(e),
            }
        }
    }

    /// Recovers a held lane with the marks that other lanes hold for it.
    fn recover(&self, held: Held) -> Result<Recovered> {
        let marked = self.marks_for(held.no);
        let recovered = self.site.recover(held, &marked);
        let dropped = match &recovered {
            Ok(r) => r.report.dropped_bytes > 0 || !r.report.damage.is_empty(),
            // It may have come as far as the new segment. What is refused as corrupt was left as it is.
            Err(e) => e.kind() != ErrorKind::Corrupt,
        };
        if dropped {
            self.stale.store(true, Ordering::Release);
        }
        recovered
    }

    /// Events of a lane that CONTINUE and FORK frames of other lanes stand on.
    fn marks_for(&self, lane: LaneNo) -> Vec<(u32, u64)> {
        let lanes = self.lanes.read();
        let records = || lanes.index.table.iter();
        let marks = records().flat_map(|r| r.hand_overs.iter().filter_map(|h| h.prev));
        let forks = records().filter_map(|r| r.fork.as_ref().map(|f| f.at));
        marks.chain(forks).filter(|p| p.lane == lane).map(|p| (p.epoch, p.gsn)).collect()
    }

    /// gsn below which other lanes stand on events of an epoch of a lane.
    pub(crate) fn marked_gsn(&self, lane: LaneNo, epoch: u32) -> u64 {
        let marks = self.marks_for(lane).into_iter().filter(|(e, _)| *e == epoch);
        marks.map(|(_, gsn)| gsn + 1).max().unwrap_or(0)
    }

    /// Goes on with a recovered lane as this handle's own.
    fn begin(&self, r: Recovered) -> Result<Arc<Lane>> {
        let begun = self.begin_held(r);
        if begun.is_err() {
            // The lane is let go, and may be written by another from now on.
            let mut lanes = self.lanes.write();
            lanes.own = None;
            self.stale.store(true, Ordering::Release);
        }
        begun
    }

    fn begin_held(&self, r: Recovered) -> Result<Arc<Lane>> {
        let no = r.held.no;
        let report = r.report.clone();
        let segment = r.segment.clone();
        let clean = report.clean;
        // The slot first: that of a failed writer holds readers at what was durable then.
        let lane = self.site.go_on(r, self.lanes.clone())?;
        {
            let mut lanes = self.lanes.write();
            // Kept apart until it is whole.
            let mut fresh = self.stale.load(Ordering::Acquire).then(|| lanes.anew());
            let into = fresh.as_mut().unwrap_or(&mut *lanes);
            into.add_lane(no)?;
            if let Some(view) = into.views.get_mut(&no) {
                view.recovered = true;
            }
            into.refresh()?;
            into.own = Some(no);
            if let Some(view) = into.views.get_mut(&no) {
                view.segments.insert(segment.no(), segment);
            }
            if let Some(fresh) = fresh {
                *lanes = fresh;
                self.stale.store(false, Ordering::Release);
            }
        }
        *self.report.lock() = Some(report);
        if !clean {
            let mut stage = lane.stage.lock();
            lane.put_mark(&mut stage, kind::SYNCMARK)?;
            let pos = stage.pos;
            drop(stage);
            lane.sync_to(pos)?;
        }
        Ok(lane)
    }

    /// Recovers the lane of a dead writer and closes it, so that its events can be stood on. `false` when its flock
    /// is held.
    pub(crate) fn settle_lane(&self, no: LaneNo) -> Result<bool> {
        let Some(held) = self.site.try_hold(no, false)? else { return Ok(false) };
        let r = self.recover(held)?;
        if !r.report.clean {
            // The frames go to this handle's index by the next refresh, so the lane writes into one of its own.
            let apart = Arc::new(parking_lot::RwLock::new(self.lanes.read().anew()));
            let lane = self.site.go_on(r, apart)?;
            let mut stage = lane.stage.lock();
            lane.put_mark(&mut stage, kind::SYNCMARK)?;
            drop(stage);
            lane.close()?;
        }
        if self.stale.load(Ordering::Acquire) {
            self.read_again()?;
        } else {
            self.lanes.write().refresh_lane(no)?;
        }
        Ok(true)
    }

    /// Recovers lanes whose writers failed and are gone. Readers see nothing of such a lane behind what was durable, so
    /// that a session may seem not to be there. Returns the lanes whose writers failed and are still there.
    pub(crate) fn settle_failed(&self) -> Result<Vec<LaneNo>> {
        let failed: Vec<LaneNo> = {
            let lanes = self.lanes.read();
            let views =
                lanes.views.iter().filter(|(no, v)| lanes.own != Some(**no) && v.is_failed());
            views.map(|(no, _)| *no).collect()
        };
        let mut held = Vec::new();
        for no in failed {
            match self.settle_lane(no) {
                // It stays as it is: what can be read of it is read.
                Err(e) if e.kind() == ErrorKind::Corrupt => {}
                Ok(true) => {}
                Ok(false) => held.push(no),
                Err(e) => return Err(e),
            }
        }
        Ok(held)
    }

    /// Reads the whole index again (Ln1, Ln2). `own`: the lane of this handle, which has not failed.
    pub(crate) fn read_anew(&self, own: Option<Arc<Lane>>) -> Result<()> {
        let Some(lane) = own else {
            let mut lanes = self.lanes.write();
            let mut fresh = lanes.anew();
            fresh.refresh()?;
            *lanes = fresh;
            self.stale.store(false, Ordering::Release);
            return Ok(());
        };
        loop {
            lane.flush_to(lane.staged_pos())?;
            let stage = lane.stage.lock();
            if lane.written.load(Ordering::Acquire) != stage.pos {
                continue;
            }
            let mut lanes = self.lanes.write();
            let segments =
                lanes.views.get(&lane.no).map(|v| v.segments.clone()).unwrap_or_default();
            // Kept apart until it is whole: appends go on with what is there.
            let mut fresh = lanes.anew();
            fresh.refresh()?;
            fresh.own = Some(lane.no);
            if let Some(view) = fresh.views.get_mut(&lane.no) {
                view.segments.extend(segments);
            }
            *lanes = fresh;
            self.stale.store(false, Ordering::Release);
            return Ok(());
        }
    }
}

impl Lanes {
    /// An index of the same store of which nothing was read yet. It shares the open folders.
    pub(crate) fn anew(&self) -> Self {
        let ids = (self.store_id, self.boot_id);
        let mut fresh = Self::new(self.dir.clone(), self.path.clone(), ids, self.mapped);
        fresh.pool = self.pool.clone();
        fresh.readings = self.readings + 1;
        let again = |v: &LaneView| v.anew(ids, self.mapped, self.pool.clone());
        fresh.views = self.views.iter().map(|(no, v)| (*no, again(v))).collect();
        fresh
    }
}
