//! A file mapped for reading, from which bytes are copied out.
//!
//! # Invariants
//! M1. The map covers `len` bytes from `ptr` and lives as long as this value.
//! M2. A copy is made only after its range was compared with `len`, with checked arithmetic.
//! M3. No slice into the map is made: another process may be writing the bytes at the same time, so what was copied
//!     means nothing before its checksum held.
#![expect(unsafe_code, reason = "maps need raw pointers")]

use std::fs::File;
use std::sync::Arc;

use memmap2::{MmapOptions, MmapRaw};

use crate::vfs::VfsMap;

/// A read-only map of a whole file. A file that is shortened under it kills the process with SIGBUS when the missing
/// part is read; the engine shortens none of its files.
#[derive(Debug)]
pub(crate) struct Map {
    raw: MmapRaw,
}

impl Map {
    /// Maps a file of at least one byte; `None` for an empty one.
    pub(crate) fn new(file: &File) -> std::io::Result<Option<Arc<dyn VfsMap>>> {
        let len = usize::try_from(file.metadata()?.len()).map_err(std::io::Error::other)?;
        if len == 0 {
            return Ok(None);
        }
        let raw = MmapOptions::new().len(len).map_raw_read_only(file)?;
        Ok(Some(Arc::new(Self { raw })))
    }
}

impl VfsMap for Map {
    fn map_len(&self) -> u64 {
        self.raw.len() as u64
    }

    fn copy_out(&self, buf: &mut [u8], offset: u64) -> bool {
        let Ok(at) = usize::try_from(offset) else { return false };
        if at.checked_add(buf.len()).is_none_or(|end| end > self.raw.len()) {
            return false;
        }
        // SAFETY:
        // - `as_ptr` is the start of a map of `raw.len()` bytes that lives while `self` does (M1).
        // - `at + buf.len() <= raw.len()`: compared just above (M2).
        // - `buf` is an exclusive borrow of memory of this process, so it does not overlap the read-only map.
        // - the bytes may change during the copy: they are taken as plain bytes and verified afterwards (M3).
        unsafe {
            std::ptr::copy_nonoverlapping(self.raw.as_ptr().add(at), buf.as_mut_ptr(), buf.len());
        }
        true
    }
}
