//! The golden store whose frames hold columns, kept in `columns/` as the first one is in `v1/`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use everlog::{CheckOptions, NewEvent, ReadMode, SessionId, Store, StoreOptions};
use everlog_testkit::golden;
use everlog_testkit::oracle::{decode, jsonl};

use super::{Files, exported, unpack};

const SESSIONS: [(&[u8], &str); 2] = [(b"packed", "packed.jsonl"), (b"stream", "stream.jsonl")];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/columns")
}

fn kept(name: &str) -> String {
    fs::read_to_string(folder().join(name)).unwrap()
}

fn image() -> Files {
    golden::parse(&kept("image.txt")).unwrap()
}

#[test]
fn the_same_seed_gives_the_same_columns() {
    let made = golden::make_columns().unwrap();
    assert!(golden::make_columns().unwrap() == made, "two runs differ");
    let store = decode(&made);
    assert_eq!(store.findings, []);
    if std::env::var("EVERLOG_GOLDEN").as_deref() == Ok("write-columns") {
        fs::create_dir_all(folder()).unwrap();
        fs::write(folder().join("image.txt"), golden::print(&made)).unwrap();
        fs::write(folder().join("frames.txt"), golden::frames(&store)).unwrap();
        for (id, name) in SESSIONS {
            fs::write(folder().join(name), jsonl::session(&store.sessions[id])).unwrap();
        }
    }
}

#[test]
fn the_store_with_columns_holds_what_it_should() {
    let store = decode(&image());
    assert_eq!(store.findings, []);
    assert_eq!(golden::frames(&store), kept("frames.txt"));
    let frames: Vec<_> =
        store.lanes.iter().flat_map(|l| &l.segments).flat_map(|s| &s.frames).collect();
    for (flags, count) in [(4, 3), (5, 90), (4, 6)] {
        let has = |f: &&_| {
            let f: &everlog_testkit::oracle::OracleFrame = f;
            f.kind == 1 && f.flags == flags && f.count == count
        };
        assert!(frames.iter().any(has), "no frame of {count} events with flags {flags}");
    }
    for (id, name) in SESSIONS {
        assert_eq!(jsonl::session(&store.sessions[id]), kept(name).into_bytes(), "{name}");
    }
}

#[test]
fn columns_are_read_and_written_on_as_ever() {
    let (_dir, path) = unpack(&image());
    for mode in [ReadMode::Map, ReadMode::Pread] {
        let options = StoreOptions::default().with_read_only().with_read_mode(mode);
        let store = Store::open(&path, options).unwrap();
        let report = store.check(&CheckOptions::default(), &mut |_, _| true).unwrap();
        assert!(report.is_clean(), "{:?}", report.damage);
        for (id, name) in SESSIONS {
            assert_eq!(exported(&store, id), kept(name).into_bytes(), "{name}");
            let session = store.session(&SessionId::from_wtf8(id).unwrap()).unwrap();
            let forward: Vec<_> = session.iter().map(Result::unwrap).collect();
            let mut back: Vec<_> = session.iter().rev().map(Result::unwrap).collect();
            back.reverse();
            assert_eq!(forward, back);
            for event in &forward {
                assert_eq!(session.read(event.seq).unwrap(), *event);
            }
        }
    }
    for columns in [true, false] {
        let options = StoreOptions::default().with_columns(columns);
        let store = Store::open(&path, options).unwrap();
        let mut writer = store.writer(&SessionId::new("stream").unwrap()).unwrap();
        let old = writer.read(10).unwrap().data;
        let more: Vec<_> = (0..3).map(|_| NewEvent::new("assistant/chunk", &old)).collect();
        let first = writer.append_batch(&more, everlog::Level::Sync).unwrap().first_seq();
        assert!(writer.range(first, first + 2).all(|e| e.unwrap().data == old));
    }
}

#[test]
fn the_reader_in_python_reads_columns() {
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
    assert_eq!(String::from_utf8(out.stdout).unwrap(), wanted);
}
