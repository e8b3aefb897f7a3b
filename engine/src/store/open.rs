//! Opening a store: who it is, whether it may be used, and what all its lanes hold.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, RwLock};

use crate::error::{Error, ErrorKind, Result};
use crate::format::store_file::{self, StoreFile};
use crate::format::{Fault, name};
use crate::handle::StoreInner;
use crate::index::load::Lanes;
use crate::index::runs::RunCache;
use crate::lane::open::LaneSite;
use crate::locks::Locks;
use crate::options::{ReadMode, StoreOptions};
use crate::vfs::{Access, OpenHow, Vfs, VfsDir};

/// Opens the store at `path`.
pub(crate) fn open(
    vfs: Arc<dyn Vfs>,
    path: &Path,
    mut options: StoreOptions,
) -> Result<Arc<StoreInner>> {
    let root = vfs.open_root(path).map_err(|e| no_store(e, path))?;
    let file = read_store(&*root, path)?;
    if file.shared_with_group {
        options.access = Access::Group;
    }
    if !options.read_only {
        check_safety(&*root, path, &options)?;
    }
    let lanes_dir = root.open_dir(name::LANES)?;
    let lanes_path = path.join(name::LANES);
    let mapped = options.read_mode == ReadMode::Map;
    let ids = (file.store_id, vfs.boot_id());
    let mut lanes = Lanes::new(lanes_dir.clone(), lanes_path.clone(), ids, mapped);
    lanes.refresh()?;
    let site = LaneSite {
        vfs: vfs.clone(),
        store_id: file.store_id,
        lanes_dir,
        lanes_path,
        quarantine: root.open_dir(name::QUARANTINE)?,
        root: root.clone(),
        quarantine_path: path.join(name::QUARANTINE),
        options: options.clone(),
        bell: Arc::default(),
    };
    let locks = Locks::new(vfs.clone(), root.open_dir(name::LOCKS)?, options.clone());
    Ok(Arc::new(StoreInner {
        generation: vfs.fork_generation(),
        path: path.to_path_buf(),
        file,
        locks,
        site,
        lanes: Arc::new(RwLock::new(lanes)),
        lane: Mutex::new(None),
        report: Mutex::new(None),
        kept: Mutex::new(Vec::new()),
        runs: RunCache::new(options.frame_cache_bytes),
        stale: AtomicBool::new(false),
        failed: OnceLock::new(),
        look_ns: AtomicU64::new(0),
        looks: AtomicU64::new(0),
        vfs,
        options,
    }))
}

fn read_store(root: &dyn VfsDir, path: &Path) -> Result<StoreFile> {
    let store = root.open(name::STORE, OpenHow::Read).map_err(|e| no_store(e, path))?;
    let mut b = [0; store_file::LEN];
    let n = store.read_at(&mut b, 0)?;
    let at = path.join(name::STORE);
    StoreFile::decode(b.get(..n).unwrap_or(&[])).map_err(|fault| match fault {
        Fault::Newer => Error::new(
            ErrorKind::Unsupported,
            "the store was written by a newer version; use that version. Nothing was touched",
        )
        .with_path(at),
        other => Error::corrupt(format!(
            "the STORE file is damaged ({}); restore it from a copy, the lanes are not affected",
            other.clause()
        ))
        .with_path(at),
    })
}

fn no_store(e: Error, path: &Path) -> Error {
    if e.kind() == ErrorKind::NotFound {
        return Error::new(ErrorKind::NotFound, "there is no store; make one with `init`")
            .with_path(path);
    }
    e
}

/// Whether the store may be written where it stands: no other user may change it, and its locks can be trusted.
pub(super) fn check_safety(root: &dyn VfsDir, path: &Path, options: &StoreOptions) -> Result<()> {
    if !options.allow_network && root.is_network()? {
        return Err(Error::new(
            ErrorKind::Unsupported,
            "the store is on a network file system, where locks cannot be trusted; move it, or allow it by option",
        )
        .with_path(path));
    }
    let who = root.ownership()?;
    let group_ok = options.access == Access::Group || !who.group_write;
    if who.world || !group_ok || (!who.own && options.access == Access::Private) {
        return Err(Error::new(
            ErrorKind::InsecurePermissions,
            "other users may change the store; run `chmod 700` on its folder, as its owner",
        )
        .with_path(path));
    }
    Ok(())
}
