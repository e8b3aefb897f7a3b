//! What `import` reads: files, folders and standard input.
//!
//! # Invariants
//! U1. Links inside folders are not followed; only a path that the user wrote may be one.
//! U2. Only regular files are read, and opening one never waits: no FIFO, no device.
//! U3. Folders are walked in the order of names, so the same tree gives the same list.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::OFlags;

use crate::exit::{FAILED, Failure};
use crate::signal;
use crate::stdin::Blocks;

/// Deepest folder below one that the user named.
const FOLDER_DEPTH_MAX: usize = 128;
const ENDINGS: [&str; 3] = [".jsonl", ".zst", ".zstd"];

/// One input, or why it cannot be one.
pub(crate) enum Input {
    /// Standard input.
    Stdin,
    /// A regular file and its size in bytes.
    File(PathBuf, u64),
    /// A path that cannot be read.
    Refused(PathBuf, Failure),
}

impl Input {
    /// The path as reports print it.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Stdin => Path::new("-"),
            Self::File(path, _) | Self::Refused(path, _) => path,
        }
    }

    /// Size in bytes, where it is known.
    pub(crate) fn bytes(&self) -> u64 {
        if let Self::File(_, bytes) = self { *bytes } else { 0 }
    }

    /// Name that an unnamed session gets: the file name without its endings.
    pub(crate) fn name(&self) -> String {
        let Self::File(path, _) = self else { return "stdin".to_owned() };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let bare =
            name.strip_suffix(".zstd").or_else(|| name.strip_suffix(".zst")).unwrap_or(&name);
        bare.strip_suffix(".jsonl").unwrap_or(bare).to_owned()
    }

    /// The file name without its last ending, and without that of compression.
    pub(crate) fn stem(&self) -> String {
        let Self::File(path, _) = self else { return "stdin".to_owned() };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let bare =
            name.strip_suffix(".zstd").or_else(|| name.strip_suffix(".zst")).unwrap_or(&name);
        match bare.rsplit_once('.') {
            Some((stem, _)) if !stem.is_empty() => stem.to_owned(),
            _ => bare.to_owned(),
        }
    }

    /// Opens the input; `counter` rises by the bytes that are read.
    pub(crate) fn open<'a>(&self, counter: &'a AtomicU64) -> Result<Watched<'a>, Failure> {
        let inner: Box<dyn Read + Send> = match self {
            Self::Stdin => {
                let blocks = Blocks::start();
                Box::new(blocks.map_err(|e| Failure::io("start to read", self.path(), &e))?)
            }
            Self::File(path, _) => Box::new(open_regular(path)?),
            Self::Refused(_, failure) => return Err(failure.clone()),
        };
        Ok(Watched { inner, counter })
    }
}

/// A reader that counts what it read and ends with an error after a signal.
pub(crate) struct Watched<'a> {
    inner: Box<dyn Read + Send>,
    counter: &'a AtomicU64,
}

impl Read for Watched<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(out)?;
        if signal::check().is_err() {
            return Err(io::Error::other("interrupted"));
        }
        self.counter.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

/// Every input that the paths name, in order.
pub(crate) fn collect(paths: &[PathBuf]) -> Vec<Input> {
    let mut inputs = Vec::new();
    for path in paths {
        if path.as_os_str() == "-" {
            inputs.push(Input::Stdin);
            continue;
        }
        match path.metadata() {
            Ok(m) if m.is_dir() => walk(path, &mut inputs),
            Ok(m) if m.is_file() => inputs.push(Input::File(path.clone(), m.len())),
            Ok(_) => inputs.push(Input::Refused(path.clone(), not_regular(path))),
            Err(e) => inputs
                .push(Input::Refused(path.clone(), Failure::io("look at the input", path, &e))),
        }
    }
    inputs
}

fn not_regular(path: &Path) -> Failure {
    Failure::new(FAILED, "io", "the input is no regular file")
        .with_path(path)
        .with_hint("pipe it in and name it `-`")
}

/// The logs below `root`. The stack holds folders still to be listed, the next one last.
fn walk(root: &Path, inputs: &mut Vec<Input>) {
    let mut stack = vec![(root.to_path_buf(), 0)];
    while let Some((folder, depth)) = stack.pop() {
        let mut below = Vec::new();
        let listed = list(&folder);
        match listed {
            Ok(entries) => {
                for (path, is_folder, bytes) in entries {
                    if is_folder && depth < FOLDER_DEPTH_MAX {
                        below.push((path, depth + 1));
                    } else if !is_folder && is_log(&path) {
                        inputs.push(Input::File(path, bytes));
                    }
                }
            }
            Err(e) => inputs
                .push(Input::Refused(folder.clone(), Failure::io("list the folder", &folder, &e))),
        }
        stack.extend(below.into_iter().rev());
    }
}

/// Regular files and folders of a folder, by name; links and special files are left out (U1, U2).
fn list(folder: &Path) -> io::Result<Vec<(PathBuf, bool, u64)>> {
    let mut entries = Vec::new();
    for entry in folder.read_dir()? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_file() {
            let bytes = entry.metadata().map_or(0, |m| m.len());
            entries.push((entry.path(), false, bytes));
        } else if kind.is_dir() {
            entries.push((entry.path(), true, 0));
        }
    }
    entries.sort();
    Ok(entries)
}

fn is_log(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    ENDINGS.iter().any(|end| name.ends_with(end.as_bytes()))
}

fn open_regular(path: &Path) -> Result<File, Failure> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = File::options().read(true).custom_flags(flags).open(path);
    let file = file.map_err(|e| Failure::io("open the input", path, &e))?;
    match file.metadata() {
        Ok(m) if m.is_file() => Ok(file),
        Ok(_) => Err(not_regular(path)),
        Err(e) => Err(Failure::io("look at the input", path, &e)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]
    use super::*;

    #[test]
    fn u1_u3_folders_are_walked_in_order_without_links() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        std::fs::create_dir_all(root.join("b/c")).unwrap();
        for name in ["b/c/2.jsonl.zstd", "b/1.jsonl", "a.jsonl", "z.zst", "note.txt"] {
            std::fs::write(root.join(name), name).unwrap();
        }
        std::os::unix::fs::symlink(root.join("a.jsonl"), root.join("link.jsonl")).unwrap();
        std::os::unix::fs::symlink(root, root.join("b/loop")).unwrap();
        let inputs = collect(&[root.to_path_buf()]);
        let names: Vec<_> =
            inputs.iter().map(|i| i.path().strip_prefix(root).unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["a.jsonl", "z.zst", "b/1.jsonl", "b/c/2.jsonl.zstd"]);
        assert_eq!(inputs[3].name(), "2");
        assert_eq!(inputs[1].name(), "z");
        assert_eq!((inputs[0].stem(), inputs[3].stem()), ("a".to_owned(), "2".to_owned()));
    }

    #[test]
    fn u2_special_files_are_refused() {
        let inputs = collect(&[PathBuf::from("/dev/null"), PathBuf::from("/nonexistent")]);
        assert!(inputs.iter().all(|i| matches!(i, Input::Refused(..))));
        assert!(open_regular(Path::new("/dev/null")).is_err());
    }
}
