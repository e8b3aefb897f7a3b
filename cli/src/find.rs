//! Which store is meant, and opening it.
//!
//! # Invariants
//! L1. A store that the user named is used or fails; nothing else is tried instead.
//! L2. Only a `.everlog` folder of the same user is picked up from the folders above.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use everlog::{ErrorKind, ReadMode, Store, StoreOptions};

use crate::args::Globals;
use crate::exit::{DAMAGE, FAILED, Failure, NO_STORE};

const HINT: &str = "name it with --store or EVERLOG_STORE, or make one with `everlog init`";

/// Opens the store to read: without a lock, and without maps that another program could pull away.
pub(crate) fn open_read(globals: &Globals) -> Result<(Store, PathBuf), Failure> {
    open(globals, StoreOptions::default().with_read_only().with_read_mode(ReadMode::Pread))
}

/// Opens the store to write; `label` is what others see who find a session locked.
pub(crate) fn open_write(globals: &Globals, label: &str) -> Result<(Store, PathBuf), Failure> {
    open(globals, StoreOptions::default().with_label(label))
}

fn open(globals: &Globals, options: StoreOptions) -> Result<(Store, PathBuf), Failure> {
    let path = store_path(globals)?;
    match Store::open(&path, options) {
        Ok(store) => Ok((store, path)),
        Err(e) if e.kind() == ErrorKind::NotFound => {
            Err(no_store("there is no store").with_path(&path))
        }
        Err(e) => Err(e.into()),
    }
}

/// Damage hides what a list or a search would have found.
pub(crate) fn may_miss_sessions() -> Failure {
    let message = "the store is damaged: sessions may be missing";
    Failure::new(DAMAGE, "corrupt", message)
        .with_hint("run `everlog check` to see all damage; what was found is whole")
}

fn no_store(message: &str) -> Failure {
    Failure::new(NO_STORE, "no-store", message).with_hint(HINT)
}

/// The store that the user named, by flag or environment.
pub(crate) fn named(globals: &Globals) -> Option<PathBuf> {
    let from_env =
        || std::env::var_os("EVERLOG_STORE").filter(|v| !v.is_empty()).map(PathBuf::from);
    globals.store.clone().or_else(from_env)
}

fn store_path(globals: &Globals) -> Result<PathBuf, Failure> {
    if let Some(path) = named(globals) {
        return Ok(path);
    }
    let here = std::env::current_dir()
        .map_err(|e| Failure::new(FAILED, "io", format!("find the current folder: {e}")))?;
    if let Some(path) = upwards(&here) {
        return Ok(path);
    }
    match data_folder() {
        Some(path) if path.is_dir() => Ok(path),
        _ => Err(no_store("there is no store here, above, or in the user's data folder")),
    }
}

fn upwards(here: &Path) -> Option<PathBuf> {
    let user = rustix::process::geteuid().as_raw();
    here.ancestors().map(|folder| folder.join(".everlog")).find(|path| {
        // L2: neither the folder nor a link to it may be another user's.
        let own = |m: std::fs::Metadata| m.uid() == user;
        path.is_dir() && path.metadata().is_ok_and(own) && path.symlink_metadata().is_ok_and(own)
    })
}

fn data_folder() -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let base =
        absolute("XDG_DATA_HOME").or_else(|| absolute("HOME").map(|h| h.join(".local/share")))?;
    Some(base.join("everlog"))
}
