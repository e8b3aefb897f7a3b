//! New segment files: allocated, with a zero header, their name synced.
//!
//! # Invariants
//! Mf1. A file that could not be allocated whole is removed again: nothing was accepted for it.

use std::sync::Arc;

use crate::error::Result;
use crate::format::name;
use crate::limits;
use crate::options::planted;
use crate::vfs::{Access, OpenHow, VfsFile};

/// File systems below this size, and those with less room than the reserve, get the smallest segments.
const SMALL_FS_BYTES: u64 = 64 << 20;
const RESERVE_BYTES_MAX: u64 = 2 << 30;

/// Salt of a new segment.
pub(crate) fn new_salt(vfs: &dyn crate::vfs::Vfs, options: &crate::StoreOptions) -> u64 {
    if planted!(options, NoSalt) { 0 } else { vfs.random_u64() }
}

/// Makes and allocates the file of a segment; its header is zero.
pub(crate) fn make_segment_file(
    dir: &dyn crate::vfs::VfsDir,
    no: u64,
    capacity: u64,
    access: Access,
) -> Result<Arc<dyn VfsFile>> {
    let file_name = name::segment(no);
    let file = dir.open(&file_name, OpenHow::CreateNew(access))?;
    let made = file.allocate(capacity).and_then(|()| file.sync_data()).and_then(|()| dir.sync());
    if let Err(e) = made {
        let _ignored = dir.remove(&file_name);
        return Err(e);
    }
    Ok(file)
}

/// Size of the next segment: `wanted`, or the smallest where room is short, but never below `min`.
pub(crate) fn capacity_for(dir: &dyn crate::vfs::VfsDir, wanted: u64, min: u64) -> Result<u64> {
    let space = dir.space()?;
    let reserve = RESERVE_BYTES_MAX.min(space.total_bytes / 20);
    let short =
        space.total_bytes < SMALL_FS_BYTES || space.free_bytes < reserve.saturating_add(wanted);
    let base = if short { limits::SEGMENT_BYTES_MIN } else { wanted };
    let capacity = base.max(min).next_multiple_of(4_096);
    if capacity > limits::SEGMENT_BYTES_CEILING {
        return Err(crate::Error::limit("batch", min, limits::SEGMENT_BYTES_CEILING));
    }
    Ok(capacity)
}
