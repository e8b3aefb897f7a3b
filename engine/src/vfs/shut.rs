//! A folder that is kept shut: each call opens it by its name from the folder above, and closes it again.
//!
//! # Invariants
//! Sh1. It holds no descriptor between calls, so a store of any number of lanes can be open.
//! Sh2. What stands under its name is opened as `open_dir` opens it: never through a symbolic link.

use std::sync::Arc;

use super::{Access, DirEntry, OpenHow, Ownership, Space, VfsDir, VfsFile};
use crate::error::Result;

/// A folder by the folder above and its name.
#[derive(Debug)]
pub(crate) struct ShutDir {
    above: Arc<dyn VfsDir>,
    name: String,
}

impl ShutDir {
    /// The folder `name` of `above`, which is looked for at each call.
    pub(crate) fn new(above: Arc<dyn VfsDir>, name: String) -> Self {
        Self { above, name }
    }

    fn dir(&self) -> Result<Arc<dyn VfsDir>> {
        self.above.open_dir(&self.name)
    }
}

impl VfsDir for ShutDir {
    fn create_dir(&self, name: &str, access: Access) -> Result<()> {
        self.dir()?.create_dir(name, access)
    }

    fn open_dir(&self, name: &str) -> Result<Arc<dyn VfsDir>> {
        self.dir()?.open_dir(name)
    }

    fn open(&self, name: &str, how: OpenHow) -> Result<Arc<dyn VfsFile>> {
        self.dir()?.open(name, how)
    }

    fn link(&self, from: &str, to: &str) -> Result<()> {
        self.dir()?.link(from, to)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.dir()?.remove(name)
    }

    fn remove_dir(&self, name: &str) -> Result<()> {
        self.dir()?.remove_dir(name)
    }

    fn list(&self) -> Result<Vec<DirEntry>> {
        self.dir()?.list()
    }

    fn sync(&self) -> Result<()> {
        self.dir()?.sync()
    }

    fn space(&self) -> Result<Space> {
        self.dir()?.space()
    }

    fn is_network(&self) -> Result<bool> {
        self.dir()?.is_network()
    }

    fn ownership(&self) -> Result<Ownership> {
        self.dir()?.ownership()
    }
}
