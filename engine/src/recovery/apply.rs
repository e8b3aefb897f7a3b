//! Acting on a plan: keep a copy of what is dropped, make the tail durable, begin a new epoch where one is due.
//!
//! # Invariants
//! J1. Nothing that the plan keeps is changed; no byte of the old segment is cut: where frames end is said by the
//!     header of the new segment.
//! J2. A crash at any call leaves a lane that is recovered again with the same outcome: the copy is extra, the
//!     rewriting writes what is there, and the new segment counts only once its header is durable.

use std::path::PathBuf;
use std::sync::Arc;

use super::plan::Plan;
use crate::error::Result;
use crate::format::codec::{narrow, wide};
use crate::format::frame::kind;
use crate::format::name;
use crate::format::segment::{HEADER_LEN, Prev, SegmentHeader};
use crate::options::{ReadMode, StoreOptions};
use crate::segment::Segment;
use crate::segment::make::{capacity_for, make_segment_file, new_salt};
use crate::types::SegmentNo;
use crate::vfs::{OpenHow, Vfs, VfsDir};

const CHUNK: usize = 256 << 10;

/// Folders and numbers that acting needs.
#[derive(Debug)]
pub(crate) struct Site<'a> {
    pub(crate) vfs: &'a dyn Vfs,
    pub(crate) lane_dir: &'a dyn VfsDir,
    pub(crate) lane_path: &'a std::path::Path,
    pub(crate) quarantine: &'a dyn VfsDir,
    pub(crate) quarantine_path: &'a std::path::Path,
    pub(crate) options: &'a StoreOptions,
}

/// Copies `[from, upto)` of a segment into a file of its own, synced; returns its path.
pub(crate) fn keep_copy(
    site: &Site<'_>,
    segment: &Segment,
    from: u64,
    upto: u64,
) -> Result<PathBuf> {
    let h = &segment.header;
    let file_name = name::quarantine(h.lane, h.segment, from, site.vfs.random_u64());
    let file = site.quarantine.open(&file_name, OpenHow::CreateNew(site.options.access))?;
    let mut buf = vec![0; CHUNK];
    let mut at = from;
    while at < upto {
        let want = narrow((upto - at).min(wide(CHUNK)));
        let part = buf.get_mut(..want).unwrap_or(&mut []);
        let n = segment.read_at(part, at)?;
        if n == 0 {
            break;
        }
        file.write_at(part.get(..n).unwrap_or(&[]), at - from)?;
        at += wide(n);
    }
    file.sync_data()?;
    site.quarantine.sync()?;
    Ok(site.quarantine_path.join(file_name))
}

/// Writes `[from, upto)` again with what reads there now, and syncs: the page cache may hold what the disk never got.
pub(crate) fn rewrite(segment: &Segment, from: u64, upto: u64) -> Result<()> {
    let mut buf = vec![0; CHUNK];
    let mut at = from;
    while at < upto {
        let want = narrow((upto - at).min(wide(CHUNK)));
        let part = buf.get_mut(..want).unwrap_or(&mut []);
        segment.read(part, at)?;
        segment.file()?.write_at(part, at)?;
        at += wide(want);
    }
    segment.file()?.sync_data().map_err(|e| e.with_path(&segment.path))
}

/// Makes the segment that begins the next epoch, durable with its header.
pub(crate) fn begin_epoch(
    site: &Site<'_>,
    old: &Segment,
    plan: &Plan,
    no: SegmentNo,
) -> Result<Arc<Segment>> {
    let capacity = capacity_for(site.lane_dir, site.options.segment_bytes_first, 0)?;
    let file = make_segment_file(site.lane_dir, no, capacity, site.options.access)?;
    let header = SegmentHeader {
        segment: no,
        salt: new_salt(site.vfs, site.options),
        epoch: old.header.epoch.saturating_add(1),
        base_gsn: plan.next_gsn,
        next_session: plan.next_session,
        prev: Some(Prev { segment: old.no(), end: plan.end, salt: old.header.salt }),
        capacity,
        created_ms: site.vfs.now_ms(),
        ..old.header
    };
    file.write_at(&header.encode(), 0)?;
    file.sync_data()?;
    site.lane_dir.sync()?;
    let mapped = site.options.read_mode == ReadMode::Map;
    Ok(Arc::new(Segment::new(header, file, site.lane_path.join(name::segment(no)), mapped)))
}

/// Appends a line to the reports of the lane. Best effort: it is for people.
pub(crate) fn keep_report(site: &Site<'_>, line: &str) {
    let open = || -> Result<()> {
        let how = OpenHow::ReadWrite;
        let file = match site.lane_dir.open(name::RECOVERIES, how) {
            Ok(f) => f,
            Err(_) => {
                site.lane_dir.open(name::RECOVERIES, OpenHow::CreateNew(site.options.access))?
            }
        };
        let end = file.len()?;
        file.write_at(format!("{line}\n").as_bytes(), end)?;
        file.sync_data()
    };
    let _ignored = open();
}

/// The last INDEX frame of the active segment that the lane file names, when it verifies.
pub(crate) fn survey_start(segment: &Segment, hint: u64, same_boot: bool) -> super::survey::Start {
    let h = &segment.header;
    let whole =
        super::survey::Start { offset: HEADER_LEN, gsn: h.base_gsn, next_session: h.next_session };
    // After a power cut a frame may be on the disk without those before it.
    if hint < HEADER_LEN || !same_boot {
        return whole;
    }
    let mut payload = Vec::new();
    match segment.frame(hint, &mut payload) {
        Ok(f) if f.kind == kind::INDEX => {
            match crate::format::index_frame::IndexFrame::open(&payload, hint) {
                Ok(i) => super::survey::Start {
                    offset: hint + f.frame_len(),
                    gsn: f.gsn,
                    next_session: i.next_session.max(h.next_session),
                },
                Err(_) => whole,
            }
        }
        _ => whole,
    }
}
