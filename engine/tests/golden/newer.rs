//! Stores of a newer format, made from the golden one: refused, and not a byte of the folder is changed.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use everlog::{
    CheckOptions, ErrorKind, ImportOptions, NewEvent, NewSession, SessionId, Store, StoreOptions,
};
use everlog_testkit::oracle::crc32;

use super::{Files, image, kept, shorten, unpack};

/// First segment of the first lane, and the first of the second.
const SEGMENTS: [&str; 2] = ["lanes/0000/0000000000000000.seg", "lanes/0001/0000000000000000.seg"];

/// All files below a folder, by their path in it.
pub(crate) fn files_below(root: &Path) -> Files {
    let mut files = BTreeMap::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                files.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    files
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// Writes the checksum of the bytes before `at` there.
fn seal(bytes: &mut [u8], at: usize) {
    let sum = crc32(&bytes[..at]);
    put(bytes, at, &sum.to_le_bytes());
}

/// Offsets of the frames of a kind in a segment, from the list of frames.
fn frames_of(segment: &str, kind: u8) -> Vec<usize> {
    let lines = kept("frames.txt");
    let rows = lines.lines().filter_map(|l| l.strip_prefix(segment)?.strip_prefix(": "));
    let rows = rows.map(|l| l.split(' ').map(str::to_owned).collect::<Vec<_>>());
    rows.filter(|r| r[1] == kind.to_string()).map(|r| r[0].parse().unwrap()).collect()
}

/// Gives the frame at an offset another kind and a good checksum.
fn set_kind(segment: &mut [u8], at: usize, kind: u8) {
    segment[at + 12] = kind;
    let mut covered = segment[48..56].to_vec();
    covered.extend((at as u64).to_le_bytes());
    covered.extend(&segment[at + 4..at + 48]);
    put(segment, at, &crc32(&covered).to_le_bytes());
}

/// Everything that a caller may try with a store; the kinds of the errors.
fn use_all(path: &Path, options: StoreOptions) -> Vec<ErrorKind> {
    let mut kinds = Vec::new();
    let store = match Store::open(path, options) {
        Ok(store) => store,
        Err(e) => return vec![e.kind()],
    };
    let id = SessionId::new("alpha").unwrap();
    let mut note = |done: everlog::Result<()>| kinds.extend(done.err().map(|e| e.kind()));
    note(store.writer(&id).and_then(|mut w| w.append(&NewEvent::new("note", b"1")).map(drop)));
    note(store.session(&id).and_then(|s| s.iter().try_for_each(|e| e.map(drop))));
    note(store.create_session(&NewSession::new("new").unwrap()).map(drop));
    let log = everlog_testkit::golden::LOG;
    note(store.import_dsh(log, &ImportOptions::default(), &mut |_| true).map(drop));
    note(store.check(&CheckOptions::default(), &mut |_, _| true).map(drop));
    note(store.close());
    kinds
}

/// Changes the golden store and sees it refused.
fn refused(what: &str, change: impl FnOnce(&mut Files)) {
    let mut files = image();
    change(&mut files);
    assert_ne!(files, image(), "{what}: nothing was changed");
    let (_dir, path) = unpack(&files);
    for read_only in [true, false] {
        let options = StoreOptions::default();
        let options = if read_only { options.with_read_only() } else { options };
        let kinds = use_all(&path, options);
        assert!(kinds.contains(&ErrorKind::Unsupported), "{what}: {kinds:?}");
        let mut rest = kinds.clone();
        rest.retain(|k| !matches!(k, ErrorKind::Unsupported | ErrorKind::ReadOnly));
        assert!(rest.is_empty(), "{what}: {kinds:?}");
        assert!(
            files_below(&path) == files,
            "{what}: the folder was changed, read_only={read_only}"
        );
    }
}

#[test]
fn a_newer_store_is_refused_and_not_touched() {
    refused("format_major 2", |files| {
        let b = files.get_mut("STORE").unwrap();
        put(b, 8, &2u16.to_le_bytes());
        seal(b, 60);
    });
    for bit in [0, 31] {
        refused("incompat_flags of STORE", |files| {
            let b = files.get_mut("STORE").unwrap();
            put(b, 12, &(1u32 << bit).to_le_bytes());
            seal(b, 60);
        });
    }
}

#[test]
fn a_newer_segment_is_refused_and_not_touched() {
    let fields: [(&str, usize, &[u8]); 3] = [
        ("format_major", 8, &[2, 0]),
        ("incompat_flags", 12, &[1, 0, 0, 0]),
        ("kind", 22, &[1, 0]),
    ];
    for segment in SEGMENTS {
        for (what, at, value) in fields {
            refused(&format!("{what} of {segment}"), |files| {
                let b = files.get_mut(segment).unwrap();
                put(b, at, value);
                seal(b, 124);
            });
        }
    }
}

#[test]
fn an_unknown_frame_is_refused_and_not_touched() {
    // A mark that no INDEX covers, and the last frame of a lane.
    for (segment, mark) in [(SEGMENTS[1], 2), ("lanes/0000/0000000000000001.seg", 4)] {
        for kind in [0, 5, 40, 127] {
            refused(&format!("kind {kind} in {segment}"), |files| {
                let at = frames_of(segment, mark)[0];
                set_kind(files.get_mut(segment).unwrap(), at, kind);
            });
        }
    }
}

#[test]
fn what_old_readers_may_ignore_is_ignored() {
    let mut files = image();
    let b = files.get_mut("STORE").unwrap();
    put(b, 10, &7u16.to_le_bytes());
    put(b, 16, &u32::MAX.to_le_bytes());
    seal(b, 60);
    for segment in SEGMENTS {
        let marks = frames_of(segment, 2);
        let b = files.get_mut(segment).unwrap();
        put(b, 10, &7u16.to_le_bytes());
        put(b, 16, &u32::MAX.to_le_bytes());
        seal(b, 124);
        for (at, kind) in marks.iter().zip([200, 128, 255].into_iter().cycle()) {
            set_kind(b, *at, kind);
        }
    }
    let (_dir, path) = unpack(&files);
    let store = Store::open(&path, StoreOptions::default()).unwrap();
    for (id, name) in super::SESSIONS {
        assert_eq!(shorten(&super::exported(&store, id)), kept(name), "{name}");
    }
    let report = store.check(&CheckOptions::default(), &mut |_, _| true).unwrap();
    assert!(report.is_clean(), "{:?}", report.damage);
}
