//! The committed samples: `samples/fleet` is made from one seed, `samples/edge` by hand.
//!
//! # Invariants
//! S1. What [`fleet_files`] gives is what is committed, byte for byte.
//! S2. Every tenth file is packed; each holds 30 to 80 events.

use crate::fleet::Fleet;
use std::io;
use std::path::{Path, PathBuf};

/// Number of files in `samples/fleet`.
pub const FLEET_FILES: usize = 100;

/// Seed of `samples/fleet`.
pub const FLEET_SEED: u64 = 20_261_201;

/// `samples/fleet` of this repository.
#[must_use]
pub fn fleet_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/fleet")
}

/// Name and bytes of every file of `samples/fleet`, in order of the names.
pub fn fleet_files() -> impl Iterator<Item = (String, Vec<u8>)> {
    (0..FLEET_FILES).map(|k| {
        let events_per_session = 30 + (k * 37) % 51;
        let fleet = Fleet { seed: FLEET_SEED, sessions: FLEET_FILES, events_per_session };
        let packed = k % 10 == 9;
        let bytes = if packed { fleet.packed_session(k) } else { fleet.session(k) };
        (format!("{k:03}{}.jsonl", if packed { "-packed" } else { "" }), bytes)
    })
}

/// Writes `samples/fleet` to a folder, which is made if it is not there; gives the number of bytes.
///
/// # Errors
/// What the file system says.
pub fn write_fleet(folder: &Path) -> io::Result<usize> {
    std::fs::create_dir_all(folder)?;
    let mut bytes_written = 0;
    for (name, bytes) in fleet_files() {
        std::fs::write(folder.join(name), &bytes)?;
        bytes_written += bytes.len();
    }
    Ok(bytes_written)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn read_folder(folder: &Path) -> BTreeMap<String, Vec<u8>> {
        let mut files = BTreeMap::new();
        for entry in std::fs::read_dir(folder).expect("the folder is there") {
            let entry = entry.expect("an entry");
            let name = entry.file_name().into_string().expect("an ASCII name");
            files.insert(name, std::fs::read(entry.path()).expect("a file"));
        }
        files
    }

    #[test]
    fn s1_regenerating_gives_the_committed_bytes() {
        let committed = read_folder(&fleet_folder());
        let made: BTreeMap<_, _> = fleet_files().collect();
        assert_eq!(
            committed.keys().collect::<Vec<_>>(),
            made.keys().collect::<Vec<_>>(),
            "run make-samples and commit"
        );
        for (name, bytes) in &made {
            assert!(committed[name] == *bytes, "{name} differs: run make-samples and commit");
        }
        assert!(made.values().map(Vec::len).sum::<usize>() < 3 << 20);
    }

    #[test]
    fn s2_sizes_and_packing_are_as_documented() {
        for (name, bytes) in fleet_files() {
            let text = String::from_utf8(bytes).expect("a log is UTF-8");
            assert_eq!(
                text.contains("-chunks\",\"seq0\":"),
                name.ends_with("-packed.jsonl"),
                "{name}"
            );
            if !name.ends_with("-packed.jsonl") {
                assert!((31..=81).contains(&text.lines().count()), "{name}");
            }
        }
    }

    #[test]
    fn every_edge_file_is_explained() {
        let folder = fleet_folder().join("../edge");
        let page = std::fs::read_to_string(fleet_folder().join("../README.md")).expect("a page");
        let files = read_folder(&folder);
        let rows =
            page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| file"));
        let named: Vec<String> = rows
            .filter_map(|row| row.split(' ').nth(1))
            .map(|name| format!("{name}.jsonl"))
            .collect();
        assert_eq!(named, files.keys().cloned().collect::<Vec<_>>());
    }

    #[test]
    fn written_files_are_the_files_made() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let bytes = write_fleet(folder.path()).expect("room for 3 MB");
        let written = read_folder(folder.path());
        assert_eq!(written, fleet_files().collect());
        assert_eq!(bytes, written.values().map(Vec::len).sum::<usize>());
    }
}
