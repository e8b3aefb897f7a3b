//! A file mapped for reading, while this and other processes may write to it.
//!
//! # Invariants
//! P1. The map is read-only and as long as the file was when it was made.
//! P2. Bytes are only ever copied out, to a buffer of the caller's; no reference into the map is made.
//! P3. The file never becomes shorter. Where someone shortens it all the same, or the disk cannot read a page, the
//!     kernel ends the process by SIGBUS: that is not guarded here.
//!
//! # Units
//! `offset`, `len`: bytes.
#![expect(unsafe_code, reason = "a map is reached through a raw pointer")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{Ordering, compiler_fence};

use memmap2::{MmapOptions, MmapRaw};

/// The map; unmapped when dropped. It keeps working after its file is closed or removed.
#[derive(Debug)]
pub(crate) struct ReadMap {
    raw: MmapRaw,
}

impl ReadMap {
    /// Maps the first `len` bytes of a file, which must be that long: `None` when there is nothing to map or the
    /// length is too large for an address.
    pub(crate) fn of(fd: BorrowedFd<'_>, len: u64) -> io::Result<Option<Self>> {
        let Ok(len) = usize::try_from(len) else { return Ok(None) };
        if len == 0 || isize::try_from(len).is_err() {
            return Ok(None);
        }
        let raw = MmapOptions::new().len(len).map_raw_read_only(fd.as_raw_fd())?;
        Ok(Some(Self { raw }))
    }

    pub(crate) fn len(&self) -> u64 {
        self.raw.len() as u64
    }

    /// Copies `buf.len()` bytes from `offset`: `false`, with `buf` untouched, when they are not all inside the map.
    /// While someone writes there, any mix of old and new bytes may come out.
    #[inline(never)]
    pub(crate) fn copy_out(&self, buf: &mut [u8], offset: u64) -> bool {
        let Ok(start) = usize::try_from(offset) else { return false };
        let Some(end) = start.checked_add(buf.len()) else { return false };
        if end > self.raw.len() {
            return false;
        }
        // SAFETY: start <= end <= raw.len() was checked above, so the source lies inside the map, which lives as
        // long as `self` and is readable (made by map_raw_read_only in `of`; P3 for the file behind it). The target
        // is a live `&mut [u8]` of buf.len() bytes, which cannot overlap a map that no reference points into (P2).
        // Any bit pattern is a valid u8, whoever writes the file meanwhile.
        unsafe {
            let source = self.raw.as_ptr().add(start);
            std::ptr::copy_nonoverlapping(source, buf.as_mut_ptr(), buf.len());
        }
        // Without this the compiler might read the map again in place of the copy, and see other bytes than were
        // checked.
        compiler_fence(Ordering::SeqCst);
        true
    }
}
