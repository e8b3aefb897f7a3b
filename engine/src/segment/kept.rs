//! A file of a folder that is opened when it is read, and stays open while the process has room for it.
//!
//! # Invariants
//! K1. All handles of the process together keep at most a quarter of the descriptors that it may have, 256 at most: a
//!     store of any number of lanes and segments can be read. Beyond that a file is opened for the one read.
//! K2. A file that cannot be opened for want of descriptors is an error of that read; it never counts as missing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::RwLock;

use crate::error::Result;
use crate::vfs::{OpenHow, VfsDir, VfsFile, os};

/// Files that this process keeps open for reading.
static KEPT: AtomicUsize = AtomicUsize::new(0);

/// Most of them, whatever the limit of the process.
const KEPT_MAX: u64 = 256;

/// Asked each time that a file is opened: a process may lower its limit.
fn kept_max() -> usize {
    os::files_max().map_or(KEPT_MAX, |n| n / 4).min(KEPT_MAX) as usize
}

/// Takes one of `max`, unless all are taken.
pub(super) fn take(counter: &AtomicUsize, max: usize) -> bool {
    let more = |n: usize| (n < max).then_some(n + 1);
    counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
}

/// A file by its folder and name.
#[derive(Debug)]
pub(crate) struct Kept {
    dir: Arc<dyn VfsDir>,
    name: String,
    file: RwLock<Option<Arc<dyn VfsFile>>>,
}

impl Kept {
    /// Opens nothing yet.
    pub(crate) fn new(dir: Arc<dyn VfsDir>, name: String) -> Self {
        Self { dir, name, file: RwLock::new(None) }
    }

    /// The open file. What is opened once stays the file of that name: no file of a lane is ever replaced.
    pub(crate) fn file(&self) -> Result<Arc<dyn VfsFile>> {
        if let Some(file) = &*self.file.read() {
            return Ok(file.clone());
        }
        let file = self.dir.open(&self.name, OpenHow::Read)?;
        let mut slot = self.file.write();
        if slot.is_none() && take(&KEPT, kept_max()) {
            *slot = Some(file.clone());
        }
        Ok(file)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if self.file.get_mut().is_some() {
            KEPT.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
