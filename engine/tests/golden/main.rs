//! The golden stores: one of format 1, kept byte for byte, that every later version must read.
//!
//! `v1/image.txt` holds its files (as `everlog_testkit::golden` prints them), `v1/frames.txt` the list of its frames,
//! and one `.jsonl` a session what an export gives. They stay as they are, also when the writer comes to lay out its
//! frames in another way. `EVERLOG_GOLDEN=write` wrote them, and is for golden stores of other formats to come.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, reason = "tests")]

mod columns;
mod newer;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use everlog::{CheckOptions, NewEvent, ReadMode, SessionId, Store, StoreOptions};
use everlog_testkit::golden;
use everlog_testkit::oracle::{decode, jsonl, write_out};

pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// Sessions of the store and the files that hold what an export of them gives.
const SESSIONS: [(&[u8], &str); 4] = [
    (b"alpha", "alpha.jsonl"),
    (b"b\xED\xB0\x80", "surrogate.jsonl"),
    (b"empty", "empty.jsonl"),
    (b"imported", "imported.jsonl"),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1")
}

fn kept(name: &str) -> String {
    fs::read_to_string(folder().join(name)).unwrap()
}

pub(crate) fn image() -> Files {
    golden::parse(&kept("image.txt")).unwrap()
}

/// A copy of a store in a folder of its own.
pub(crate) fn unpack(files: &Files) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    write_out(files, &path).unwrap();
    for empty in ["quarantine", "locks", "lanes"] {
        fs::create_dir_all(path.join(empty)).unwrap();
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    (dir, path)
}

/// Lines with runs of one byte cut short: what is kept of the two large events.
fn shorten(text: &[u8]) -> String {
    String::from_utf8(text.to_vec()).unwrap().replace(&"z".repeat(99_998), "<99998 z>")
}

pub(crate) fn exported(store: &Store, id: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    store.export_dsh(&SessionId::from_wtf8(id).unwrap(), false, &mut out).unwrap();
    out
}

#[test]
fn the_same_seed_gives_the_same_store() {
    let made = golden::make().unwrap();
    assert!(golden::make().unwrap() == made, "two runs differ");
    assert_eq!(golden::parse(&golden::print(&made)).as_ref(), Some(&made));
    let store = decode(&made);
    assert_eq!(store.findings, []);
    if std::env::var("EVERLOG_GOLDEN").as_deref() == Ok("write") {
        fs::write(folder().join("image.txt"), golden::print(&made)).unwrap();
        fs::write(folder().join("frames.txt"), golden::frames(&store)).unwrap();
        for (id, name) in SESSIONS {
            let text = jsonl::session(&store.sessions[id]);
            fs::write(folder().join(name), shorten(&text)).unwrap();
        }
    }
}

#[test]
fn the_golden_store_holds_what_it_should() {
    let store = decode(&image());
    assert_eq!(store.findings, []);
    assert_eq!(golden::frames(&store), kept("frames.txt"));
    let frames: Vec<_> =
        store.lanes.iter().flat_map(|l| &l.segments).flat_map(|s| &s.frames).collect();
    // EVENTS, SYNCMARK, INDEX, CLOSE, CREATE, CONTINUE, PUBLISH.
    for kind in [1, 2, 3, 4, 16, 17, 24] {
        assert!(frames.iter().any(|f| f.kind == kind), "no frame of kind {kind}");
    }
    assert!(frames.iter().any(|f| f.kind == 1 && f.flags == 1 && f.count == 50));
    assert_eq!(store.lanes.len(), 2);
    assert!(store.lanes[0].segments[0].trailer.is_some(), "no sealed segment");
    let events: Vec<_> = store.sessions.values().flat_map(|s| &s.events).collect();
    for (what, found) in [
        ("ignorable", events.iter().any(|e| e.ignorable)),
        ("surface_first", events.iter().any(|e| e.surface_first)),
        ("no citations", events.iter().any(|e| e.sources.as_ref().is_some_and(Vec::is_empty))),
        ("citations", events.iter().any(|e| e.sources.as_ref().is_some_and(|s| s.len() == 2))),
        ("a type with a lone surrogate", events.iter().any(|e| e.ty.contains(&0xED))),
        ("a time before 1970", events.iter().any(|e| e.time < 0)),
    ] {
        assert!(found, "{what}");
    }
}

#[test]
fn the_golden_store_is_read_as_ever() {
    let (_dir, path) = unpack(&image());
    for mode in [ReadMode::Map, ReadMode::Pread] {
        let options = StoreOptions::default().with_read_only().with_read_mode(mode);
        let store = Store::open(&path, options).unwrap();
        let report = store.check(&CheckOptions::default(), &mut |_, _| true).unwrap();
        assert!(report.is_clean(), "{:?}", report.damage);
        assert_eq!(report.frames as usize, kept("frames.txt").lines().count() - 1);
        assert_eq!(store.sessions().unwrap().len(), SESSIONS.len());
        for (id, name) in SESSIONS {
            assert_eq!(shorten(&exported(&store, id)), kept(name), "{name}");
        }
    }
    assert_eq!(newer::files_below(&path), image(), "reading changed the store");
}

#[test]
fn the_golden_store_is_written_on() {
    let (_dir, path) = unpack(&image());
    let store = Store::open(&path, StoreOptions::default()).unwrap();
    for (id, name) in SESSIONS {
        let mut writer = store.writer(&SessionId::from_wtf8(id).unwrap()).unwrap();
        let event = NewEvent::new("note", b"7").with_time_ms(3);
        let seq = writer.append(&event).unwrap().first_seq();
        writer.close().unwrap();
        let line = format!("{{\"type\":\"note\",\"seq\":{seq},\"time\":3,\"data\":7}}\n");
        assert_eq!(shorten(&exported(&store, id)), kept(name) + &line);
    }
    let report = store.check(&CheckOptions::default(), &mut |_, _| true).unwrap();
    assert!(report.is_clean(), "{:?}", report.damage);
}

#[test]
fn the_reader_in_python_agrees() {
    if Command::new("python3").arg("--version").output().is_err() {
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "python3 is missing");
        eprintln!("SKIPPED: no python3, docs/everlog_reader.py is not tested");
        return;
    }
    let (_dir, path) = unpack(&image());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/everlog_reader.py");
    let out = Command::new("python3").arg(script).arg(&path).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let wanted: String = SESSIONS.iter().map(|(_, name)| kept(name)).collect();
    assert_eq!(shorten(&out.stdout), wanted);
}
