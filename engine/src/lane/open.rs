//! Taking a lane: its flock, its recovery, and the handle that goes on with it.
//!
//! # Invariants
//! Ta1. A lane is written only by the holder of the flock of its `lane` file.
//! Ta2. A lane with a missing segment is not written to again: another lane is taken.

use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, RwLock};

use super::stage::Stage;
use super::{Active, Counters, Lane, Writer};
use crate::error::{Error, ErrorKind, Result};
use crate::format::name;
use crate::format::segment::{HEADER_LEN, SegmentHeader, TRAILER_LEN};
use crate::format::slot::{LaneState, STRIDE, Slot};
use crate::index::lane_view::{AtBad, LaneView};
use crate::index::load::Lanes;
use crate::options::{ReadMode, StoreOptions};
use crate::recovery::apply::{self, Site};
use crate::recovery::plan::{Plan, plan};
use crate::recovery::report::{DamagedRange, RecoveryReport};
use crate::recovery::survey::{Survey, survey};
use crate::segment::Segment;
use crate::types::LaneNo;
use crate::vfs::{OpenHow, Vfs, VfsDir, VfsFile};

/// What taking a lane needs to know of the store.
#[derive(Clone, Debug)]
pub(crate) struct LaneSite {
    pub(crate) vfs: Arc<dyn Vfs>,
    pub(crate) store_id: [u8; 16],
    pub(crate) root: Arc<dyn VfsDir>,
    pub(crate) lanes_dir: Arc<dyn VfsDir>,
    pub(crate) lanes_path: PathBuf,
    pub(crate) quarantine: Arc<dyn VfsDir>,
    pub(crate) quarantine_path: PathBuf,
    pub(crate) options: StoreOptions,
    /// Rung by the lanes that are taken.
    pub(crate) bell: Arc<super::bell::Bell>,
}

/// A lane whose flock is held.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) no: LaneNo,
    pub(crate) file: Arc<dyn VfsFile>,
    pub(crate) dir: Arc<dyn VfsDir>,
    pub(crate) path: PathBuf,
}

/// A recovered lane, ready to be written.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub(crate) held: Held,
    pub(crate) segment: Arc<Segment>,
    pub(crate) offset: u64,
    pub(crate) gsn: u64,
    pub(crate) next_session: u64,
    pub(crate) next_no: u64,
    pub(crate) slot_counter: u64,
    pub(crate) index_offset: u64,
    /// Whether the lane file says that a writer failed.
    pub(crate) failed: bool,
    /// Whether a slot that names the segment is known to be on the disk.
    pub(crate) slot_is_durable: bool,
    pub(crate) report: RecoveryReport,
}

impl LaneSite {
    /// Makes a lane of that number, or opens it, and tries to take its flock. `None` when another handle has it.
    pub(crate) fn try_hold(&self, no: LaneNo, create: bool) -> Result<Option<Held>> {
        let dir_name = name::lane_dir(no);
        if create {
            self.lanes_dir.create_dir(&dir_name, self.options.access)?;
            self.lanes_dir.sync()?;
        }
        let dir = self.lanes_dir.open_dir(&dir_name)?;
        let path = self.lanes_path.join(&dir_name);
        let file = match dir.open(name::LANE, OpenHow::ReadWrite) {
            Ok(f) => f,
            Err(e) if e.kind() == ErrorKind::NotFound => {
                match dir.open(name::LANE, OpenHow::CreateNew(self.options.access)) {
                    Ok(f) => f,
                    Err(e) if e.kind() == ErrorKind::Exists => {
                        dir.open(name::LANE, OpenHow::ReadWrite)?
                    }
                    Err(e) => return Err(e),
                }
            }
            Err(e) => return Err(e),
        };
        file.close_in_child();
        if !file.try_lock()? {
            return Ok(None);
        }
        Ok(Some(Held { no, file, dir, path }))
    }

    fn site<'a>(&'a self, held: &'a Held) -> Site<'a> {
        Site {
            vfs: &*self.vfs,
            lane_dir: &*held.dir,
            lane_path: &held.path,
            quarantine: &*self.quarantine,
            quarantine_path: &self.quarantine_path,
            options: &self.options,
        }
    }

    /// Recovers a held lane. `marked`: (epoch, gsn) of events of this lane that other lanes stand on.
    pub(crate) fn recover(&self, held: Held, marked: &[(u32, u64)]) -> Result<Recovered> {
        if held.file.len()? < 2 * STRIDE {
            held.file.allocate(2 * STRIDE)?;
            held.file.sync_data()?;
            held.dir.sync()?;
        }
        let mut view = LaneView::new(
            held.no,
            held.dir.clone(),
            held.path.clone(),
            (self.store_id, self.vfs.boot_id()),
            false,
            Arc::default(),
        );
        view.look()?;
        let slot = view.slot.clone();
        self.clear_leftovers(&held, &view, slot.as_ref())?;
        if view.is_broken() {
            return Err(Error::corrupt(
                "a segment of the lane is missing, so nothing is written to it; run check",
            )
            .with_path(&held.path));
        }
        let same_boot = slot.as_ref().is_some_and(|s| s.boot_id == self.vfs.boot_id());
        match view.segments.last_key_value().map(|(_, s)| s.clone()) {
            None => self.first_segment(held, slot.as_ref()),
            Some(segment) => {
                // With a stand-in for the header, where its numbers begin is in the segments before it.
                let lost_header = view.rebuilt.contains(&segment.no());
                if lost_header {
                    view.advance(&mut crate::index::Index::default(), AtBad::Resync)?;
                }
                let least = lost_header.then(|| {
                    let durable = slot.as_ref().filter(|s| s.segment == segment.no());
                    let durable = durable.map_or(0, |s| s.durable_gsn);
                    (view.next_gsn.max(durable), view.next_session)
                });
                let epoch = segment.header.epoch;
                let marked_gsn = marked
                    .iter()
                    .filter(|(e, _)| *e == epoch)
                    .map(|(_, g)| g + 1)
                    .max()
                    .unwrap_or(0);
                self.recover_active(held, (&segment, least), slot, same_boot, marked_gsn)
            }
        }
    }

    /// Removes segments made ahead, and headers that were being written when the machine went down. One that is
    /// numbered below the newest segment was overtaken by a rotation: it goes only when it is zero to its last byte.
    fn clear_leftovers(&self, held: &Held, view: &LaneView, slot: Option<&Slot>) -> Result<()> {
        let newest = view.segments.last_key_value().map(|(no, _)| *no);
        for entry in held.dir.list()? {
            let Some(no) = name::parse_segment(&entry.name) else { continue };
            if view.segments.contains_key(&no) || slot.is_some_and(|s| s.segment == no) {
                continue;
            }
            let overtaken = newest.is_some_and(|n| no < n);
            let behind = !overtaken && (newest.is_none() || slot.is_none_or(|s| s.segment < no));
            if !overtaken && !behind {
                continue;
            }
            let file = held.dir.open(&name::segment(no), OpenHow::Read)?;
            let size = file.len()?;
            let path = held.path.join(name::segment(no));
            let stand_in = SegmentHeader {
                store_id: self.store_id,
                lane: held.no,
                segment: no,
                salt: 0,
                epoch: 0,
                base_gsn: 0,
                next_session: 0,
                prev: None,
                // All of it is looked at: the place of a trailer too.
                capacity: size.saturating_add(TRAILER_LEN),
                created_ms: 0,
            };
            let raw = Segment::new(stand_in, file, path, false);
            let mut scan = crate::segment::Scan::new(&raw, 0, size);
            match scan.last_nonzero(0)? {
                Some(_) if overtaken => continue,
                Some(end) => drop(apply::keep_copy(&self.site(held), &raw, 0, end)?),
                None => {}
            }
            held.dir.remove(&name::segment(no))?;
        }
        Ok(())
    }

    /// Makes the first segment of a lane that has none.
    fn first_segment(&self, held: Held, slot: Option<&Slot>) -> Result<Recovered> {
        // Who made the store or the lane may have ended before their names were durable.
        self.root.sync()?;
        self.lanes_dir.sync()?;
        let options = &self.options;
        let capacity =
            crate::segment::make::capacity_for(&*held.dir, options.segment_bytes_first, 0)?;
        let used = held.dir.list()?.iter().filter_map(|e| name::parse_segment(&e.name)).max();
        let no = used.map_or(0, |n| n + 1);
        let file =
            crate::segment::make::make_segment_file(&*held.dir, no, capacity, options.access)?;
        let header = SegmentHeader {
            store_id: self.store_id,
            lane: held.no,
            segment: no,
            salt: crate::segment::make::new_salt(&*self.vfs, options),
            epoch: 0,
            base_gsn: 0,
            next_session: 0,
            prev: None,
            capacity,
            created_ms: self.vfs.now_ms(),
        };
        file.write_at(&header.encode(), 0)?;
        file.sync_data()?;
        let path = held.path.join(name::segment(no));
        let segment =
            Arc::new(Segment::new(header, file, path, options.read_mode == ReadMode::Map));
        let report = RecoveryReport {
            lane: held.no,
            time_ms: self.vfs.now_ms(),
            clean: true,
            ..RecoveryReport::default()
        };
        Ok(Recovered {
            held,
            segment,
            offset: HEADER_LEN,
            gsn: 0,
            next_session: 0,
            next_no: no + 1,
            slot_counter: slot.map_or(0, |s| s.counter),
            index_offset: 0,
            failed: slot.is_some_and(|s| s.state == LaneState::Poisoned),
            slot_is_durable: false,
            report,
        })
    }

    fn recover_active(
        &self,
        held: Held,
        (segment, least): (&Arc<Segment>, Option<(u64, u64)>),
        slot: Option<Slot>,
        same_boot: bool,
        marked_gsn: u64,
    ) -> Result<Recovered> {
        let hint =
            slot.as_ref().filter(|s| s.segment == segment.no()).map_or(0, |s| s.index_offset);
        let start = apply::survey_start(segment, hint, same_boot);
        let found = survey(segment, start, slot.as_ref(), marked_gsn, same_boot)?;
        let mut p = plan(&found, same_boot);
        if let Some((gsn, session)) = least {
            // Nothing more goes into a segment without a header.
            p.new_epoch = true;
            p.next_gsn = p.next_gsn.max(gsn);
            p.next_session = p.next_session.max(session);
        }
        let named = slot.as_ref().filter(|s| s.names(&segment.header));
        if named.is_some_and(|s| s.written_end > p.end) {
            // Written, perhaps read by others, and gone without a trace: those ids must not be given again.
            p.new_epoch = true;
        }
        let used = held.dir.list()?.iter().filter_map(|e| name::parse_segment(&e.name)).max();
        let next_no = used.unwrap_or(0).max(segment.no()) + 1;
        let mut report =
            self.report(&held, segment, slot.as_ref(), (&found, &p), least.is_some(), same_boot);
        let site = self.site(&held);
        let rw = self.reopen(&held, segment)?;
        // A writer syncs the slot before it goes on, and closes after that; after another boot what reads is on the disk.
        let on_disk = |s: &Slot| !same_boot || s.state == LaneState::Closed;
        let slot_is_durable = !p.new_epoch && named.is_some_and(on_disk);
        if named.is_none() {
            // The slot names a segment once its header is durable. Until then a sync of it may have failed.
            apply::rewrite(&rw, 0, HEADER_LEN)?;
        }
        if let Some((from, upto)) = p.dropped {
            report.quarantine = Some(apply::keep_copy(&site, segment, from, upto)?);
            report.dropped_bytes = upto - from;
        }
        if !report.clean {
            if p.rewrite.1 > p.rewrite.0 || p.new_epoch {
                apply::rewrite(&rw, p.rewrite.0, p.rewrite.1)?;
            }
            report.rewritten_bytes = p.rewrite.1 - p.rewrite.0;
        }
        let (active, offset, next_no, index_offset) = if p.new_epoch {
            let fresh = apply::begin_epoch(&site, segment, &p, next_no)?;
            (fresh, HEADER_LEN, next_no + 1, 0)
        } else {
            (rw, p.end, next_no, hint)
        };
        if !report.clean {
            apply::keep_report(&site, &report.to_json());
        }
        Ok(Recovered {
            segment: active,
            offset,
            gsn: p.next_gsn,
            next_session: p.next_session,
            next_no,
            slot_counter: slot.as_ref().map_or(0, |s| s.counter),
            index_offset,
            failed: slot.is_some_and(|s| s.state == LaneState::Poisoned),
            slot_is_durable,
            report,
            held,
        })
    }

    /// What was found, for the report: whether there is nothing to do, and where damage is.
    fn report(
        &self,
        held: &Held,
        segment: &Arc<Segment>,
        slot: Option<&Slot>,
        (found, p): (&Survey, &Plan),
        lost_header: bool,
        same_boot: bool,
    ) -> RecoveryReport {
        // In the same boot a CLOSE that reads well may not be on the disk; the slot says so once it is.
        let closed_for_good = slot.is_some_and(|s| {
            let here = s.names(&segment.header);
            here && s.state == LaneState::Closed && s.durable_end >= found.valid_end
        });
        let closed = found.closed && found.gaps.is_empty();
        let mut report = RecoveryReport {
            lane: held.no,
            time_ms: self.vfs.now_ms(),
            clean: !lost_header && closed && (!same_boot || closed_for_good),
            frames: found.frames,
            epoch: segment.header.epoch + u32::from(p.new_epoch),
            ..RecoveryReport::default()
        };
        let mut damaged = |offset, len| {
            let path = segment.path.clone();
            report.damage.push(DamagedRange { path, offset, len });
        };
        if lost_header {
            damaged(0, HEADER_LEN);
        }
        for gap in &p.damage {
            let upto = gap.next.unwrap_or(found.watermark.max(gap.start));
            damaged(gap.start, upto.saturating_sub(gap.start));
        }
        report
    }

    /// The active segment, opened to be written.
    fn reopen(&self, held: &Held, segment: &Arc<Segment>) -> Result<Arc<Segment>> {
        let file = held.dir.open(&name::segment(segment.no()), OpenHow::ReadWrite)?;
        let mapped = self.options.read_mode == ReadMode::Map;
        Ok(Arc::new(Segment::new(segment.header, file, segment.path.clone(), mapped)))
    }

    /// The handle that goes on with a recovered lane. Its slot is written, and synced where none that names the segment
    /// is known to be on the disk, or where a writer had failed.
    pub(crate) fn go_on(&self, r: Recovered, lanes: Arc<RwLock<Lanes>>) -> Result<Arc<Lane>> {
        let active =
            Arc::new(Active { segment: r.segment.clone(), base_pos: 0, base_offset: r.offset });
        let slot = Slot {
            counter: r.slot_counter,
            store_id: self.store_id,
            lane: r.held.no,
            state: LaneState::Open,
            epoch: r.segment.header.epoch,
            segment: r.segment.no(),
            salt: r.segment.header.salt,
            written_end: r.offset,
            durable_end: r.offset,
            durable_gsn: r.gsn,
            index_offset: r.index_offset,
            boot_id: self.vfs.boot_id(),
            pid: self.vfs.pid(),
            since_ms: self.vfs.now_ms(),
            host: self.vfs.host(),
            label: self.options.label.clone(),
        };
        let stage = Stage {
            parts: Vec::new(),
            bytes: 0,
            spare: Vec::new(),
            open_block: None,
            pos: 0,
            active: active.clone(),
            offset: r.offset,
            gsn: r.gsn,
            next_session: r.next_session,
            content: 0,
            marked: 0,
            mark_end: 0,
            next: None,
            next_no: r.next_no,
            next_capacity: r.segment.header.capacity.max(self.options.segment_bytes_first),
            started_ns: self.vfs.monotonic_ns(),
            unsynced_since_ns: None,
            closed: false,
        };
        let lane = Lane {
            no: r.held.no,
            store_id: self.store_id,
            vfs: self.vfs.clone(),
            dir: r.held.dir,
            path: r.held.path,
            file: r.held.file,
            options: self.options.clone(),
            lanes,
            stage: Mutex::new(stage),
            write: Mutex::new(Writer::new(active, r.gsn, slot)),
            sync: super::gate::Gate::default(),
            sync_failed: Mutex::new(false),
            written: AtomicU64::new(0),
            durable: AtomicU64::new(0),
            durable_gsn: AtomicU64::new(r.gsn),
            poison: OnceLock::new(),
            failed: Arc::default(),
            counters: Counters::default(),
            bell: self.bell.clone(),
            promises: Arc::default(),
        };
        lane.show_open(r.failed, r.slot_is_durable)?;
        let lane = Arc::new(lane);
        super::upkeep::start(&lane);
        Ok(lane)
    }
}

impl Lane {
    /// Writes the slot of a lane that was just opened; `failed` when its last writer had failed, `is_durable` when a slot
    /// that names the segment is on the disk already.
    fn show_open(&self, failed: bool, is_durable: bool) -> Result<()> {
        let mut writer = self.write.lock();
        self.write_slot(&mut writer)?;
        if failed {
            // Both slots, and synced: else a power cut may bring the failure back, which hides from readers what is
            // durable by then.
            self.write_slot(&mut writer)?;
        }
        if is_durable && !failed {
            return Ok(());
        }
        // Without it the salt stands in the header alone: should that rot, acked frames could not be told from noise.
        let synced = self.file.sync_data().map_err(|e| e.with_path(&self.path));
        if synced.is_err() {
            // What reads now may not be on the disk: whoever comes next must not trust it.
            writer.slot.state = LaneState::Poisoned;
            let _ignored = self.write_slot(&mut writer);
        }
        synced
    }
}
