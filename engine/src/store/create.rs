//! Making a store: its folders, then STORE, linked into place so that one maker wins.
//!
//! # Invariants
//! Mk1. STORE appears whole or not at all, after everything else of the store is durable.
//! Mk2. A folder that is there already and could not be written afterwards stays as it is.

use std::path::Path;

use super::open::check_safety;
use crate::error::{Error, ErrorKind, Result};
use crate::format::codec::put;
use crate::format::name;
use crate::format::store_file::StoreFile;
use crate::options::{Level, StoreOptions};
use crate::vfs::{Access, OpenHow, Vfs, VfsDir};

/// Makes a store at `path`.
pub(crate) fn make(vfs: &dyn Vfs, path: &Path, options: &StoreOptions) -> Result<()> {
    if options.read_only {
        return Err(Error::invalid("read_only", "a store cannot be made read-only"));
    }
    let root = vfs.create_root(path, options.access)?;
    if root.list()?.iter().any(|e| e.name == name::STORE.as_bytes()) {
        return Err(exists(path));
    }
    check_safety(&*root, path, options)?; // Mk2
    for dir in [name::LOCKS, name::LANES, name::QUARANTINE] {
        ensure_dir(&*root, dir, options.access)?;
    }
    let locks = root.open_dir(name::LOCKS)?;
    if let Err(e) = locks.open(name::STORE_LOCK, OpenHow::CreateNew(options.access))
        && e.kind() != ErrorKind::Exists
    {
        return Err(e);
    }
    locks.sync()?;
    let mut store_id = [0; 16];
    put(&mut store_id, 0, &vfs.random_u64().to_le_bytes());
    put(&mut store_id, 8, &vfs.random_u64().to_le_bytes());
    let contents = StoreFile {
        store_id,
        created_ms: vfs.now_ms(),
        shared_with_group: options.access == Access::Group,
        default_level: if options.level == Some(Level::Sync) { 2 } else { 1 },
    };
    let tmp = format!("{}.{:016x}{}", name::STORE, vfs.random_u64(), name::TMP_SUFFIX);
    let file = root.open(&tmp, OpenHow::CreateNew(options.access))?;
    let placed = file
        .write_at(&contents.encode(), 0)
        .and_then(|()| file.sync_data())
        .and_then(|()| root.sync())
        .and_then(|()| root.link(&tmp, name::STORE));
    let removed = root.remove(&tmp);
    match placed {
        Err(e) if e.kind() == ErrorKind::Exists => return Err(exists(path)),
        other => other?,
    }
    removed?;
    root.sync()
}

fn exists(path: &Path) -> Error {
    Error::new(ErrorKind::Exists, "there is a store already; open it, or choose another path")
        .with_path(path)
}

fn ensure_dir(root: &dyn VfsDir, dir: &str, access: Access) -> Result<()> {
    match root.create_dir(dir, access) {
        Err(e) if e.kind() == ErrorKind::Exists => Ok(()),
        other => other,
    }
}
