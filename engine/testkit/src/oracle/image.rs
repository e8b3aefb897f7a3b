//! Where the bytes of a store come from: a folder, or a map of paths to bytes.
//!
//! 1. Paths are relative to the store's folder and use `/`.
//! 2. Nothing here writes or locks.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A store at rest.
pub trait Image {
    /// The whole file, or `None` where there is no such file.
    fn read(&self, path: &str) -> Option<Cow<'_, [u8]>>;
    /// Names (not paths) of the files and folders in `dir`, in any order; empty where there is no such folder.
    fn list(&self, dir: &str) -> Vec<String>;
}

/// A store in a real folder.
pub struct DirImage {
    root: PathBuf,
}

impl DirImage {
    /// Reads below `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }
}

impl Image for DirImage {
    fn read(&self, path: &str) -> Option<Cow<'_, [u8]>> {
        std::fs::read(self.root.join(path)).ok().map(Cow::Owned)
    }

    fn list(&self, dir: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.root.join(dir)) else { return Vec::new() };
        entries.flatten().filter_map(|e| e.file_name().into_string().ok()).collect()
    }
}

impl Image for BTreeMap<String, Vec<u8>> {
    fn read(&self, path: &str) -> Option<Cow<'_, [u8]>> {
        self.get(path).map(|b| Cow::Borrowed(b.as_slice()))
    }

    fn list(&self, dir: &str) -> Vec<String> {
        let prefix = format!("{}/", dir.trim_end_matches('/'));
        let mut names: Vec<String> = self
            .range(prefix.clone()..)
            .take_while(|(path, _)| path.starts_with(&prefix))
            .filter_map(|(path, _)| path[prefix.len()..].split('/').next().map(str::to_owned))
            .collect();
        names.dedup();
        names
    }
}

/// Writes every file of `files` below `root`, making the folders.
///
/// # Errors
/// What the file system says.
pub fn write_out(files: &BTreeMap<String, Vec<u8>>, root: &std::path::Path) -> std::io::Result<()> {
    for (path, bytes) in files {
        let full = root.join(path);
        if let Some(parent) = full.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(full, bytes)?;
    }
    Ok(())
}
