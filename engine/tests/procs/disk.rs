//! Modes of what a store makes, and what it does when something else stands in a file's place.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::Duration;

use everlog::vfs::Access;
use everlog::{ErrorKind, Level, NewEvent, NewSession, SessionId, Store, StoreOptions};

use crate::acks::data;
use crate::kid::{Kid, arg, number, options, say};

/// In a child, since the umask is the process's: makes a store with sealed segments.
pub fn modes() {
    let umask = u32::try_from(number("umask")).unwrap();
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(umask));
    let access = if arg("group") == "true" { Access::Group } else { Access::Private };
    let options = options().with_access(access).with_segment_bytes(256 << 10, 256 << 10);
    let store = Store::create(arg("path"), options).unwrap();
    let mut w = store.create_session(&NewSession::new("s").unwrap()).unwrap();
    for n in 0..20 {
        let text = data("m", n, 50_000);
        let event = NewEvent::new("note", &text);
        let _receipt = w.append_batch(std::slice::from_ref(&event), Level::Os).unwrap();
    }
    w.close().unwrap();
    store.close().unwrap();
    say("done");
}

fn walk(path: &Path, found: &mut Vec<(PathBuf, u32, bool)>) {
    let meta = fs::symlink_metadata(path).unwrap();
    found.push((path.to_path_buf(), meta.permissions().mode() & 0o7777, meta.is_dir()));
    if meta.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            walk(&entry.unwrap().path(), found);
        }
    }
}

/// The umask of the one who makes a store may narrow what the group may do (docs/cli.md), never what the owner may.
#[test]
fn what_a_store_makes_is_open_to_whom_it_should_be() {
    for group in [false, true] {
        for umask in [0o000, 0o022, 0o077] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("store");
            let shown = path.display();
            let kid =
                Kid::start("modes", &[("path", &shown), ("umask", &umask), ("group", &group)]);
            kid.expect("done");
            let mut found = Vec::new();
            walk(&path, &mut found);
            let (dir, file, sealed) =
                if group { (0o770, 0o660, 0o440) } else { (0o700, 0o600, 0o400) };
            let mut sealed_found = 0;
            for (at, mode, is_dir) in &found {
                let want = if *is_dir { dir } else { file } & !umask;
                let is_sealed = !is_dir && *mode == sealed & !umask;
                sealed_found += u32::from(is_sealed);
                let is_segment = at.extension().is_some_and(|e| e == "seg");
                assert!(
                    *mode == want || is_sealed && is_segment,
                    "{} {mode:o} with umask {umask:o}, group {group}",
                    at.display()
                );
            }
            assert!(sealed_found >= 2, "{sealed_found} sealed");
            assert!(found.len() > 10);
        }
    }
}

fn in_time<T: Send + 'static>(what: &str, f: impl FnOnce() -> T + Send + 'static) -> T {
    let (send, done) = channel();
    std::thread::spawn(move || send.send(f()));
    done.recv_timeout(Duration::from_secs(20)).unwrap_or_else(|e| panic!("{what} hangs: {e}"))
}

const OBSTACLES: [&str; 5] = ["symlink", "dangling symlink", "fifo", "folder", "hard link"];

/// Puts something else in the place of a file.
fn obstruct(at: &Path, with: &str, aside: &Path) {
    match with {
        "symlink" => {
            fs::rename(at, aside).unwrap();
            symlink(aside, at).unwrap();
        }
        "dangling symlink" => {
            fs::remove_file(at).unwrap();
            symlink(aside, at).unwrap();
        }
        "fifo" => {
            fs::remove_file(at).unwrap();
            let mode = rustix::fs::Mode::from_raw_mode(0o600);
            let kind = rustix::fs::FileType::Fifo;
            rustix::fs::mknodat(rustix::fs::CWD, at, kind, mode, 0).unwrap();
        }
        "folder" => {
            fs::remove_file(at).unwrap();
            fs::create_dir(at).unwrap();
        }
        _ => fs::hard_link(at, aside).unwrap(),
    }
}

fn write_to(path: &Path) -> everlog::Result<()> {
    let store = Store::open(path, StoreOptions::default())?;
    let mut w = store.writer(&SessionId::new("s").unwrap())?;
    drop(w.append(&NewEvent::new("note", b"2"))?);
    w.close()
}

#[test]
fn what_stands_in_a_files_place_is_refused_and_left_alone() {
    let mut wrong = Vec::new();
    for file in ["lane", "segment"] {
        for with in OBSTACLES {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("store");
            let store = Store::create(&path, StoreOptions::default()).unwrap();
            let mut w = store.create_session(&NewSession::new("s").unwrap()).unwrap();
            // A receipt that is kept would keep the lane.
            drop(w.append(&NewEvent::new("note", b"1")).unwrap());
            w.close().unwrap();
            store.close().unwrap();
            let mut found = Vec::new();
            walk(&path, &mut found);
            let is_it = |p: &Path| match file {
                "lane" => p.file_name().is_some_and(|n| n == "lane"),
                _ => p.extension().is_some_and(|e| e == "seg"),
            };
            let at = found.iter().map(|f| &f.0).find(|p| is_it(p)).unwrap().clone();
            let aside = folder.path().join("aside");
            obstruct(&at, with, &aside);
            let before = fs::read(&aside).ok();
            let to = path.clone();
            let what = format!("{with} for {file}");
            let got = in_time(&what, move || write_to(&to));
            match got {
                Err(e) if e.kind() == ErrorKind::InsecurePermissions => {
                    if e.path().is_none_or(|p| p != at) {
                        wrong.push(format!("{what}: path of {e:?}"));
                    }
                }
                Err(e) => wrong.push(format!("{what}: {e:?}")),
                Ok(()) => wrong.push(format!("{what}: accepted")),
            }
            assert_eq!(fs::read(&aside).ok(), before, "{what}: written through");
            let there = fs::symlink_metadata(&at).unwrap();
            assert!(!there.is_file() || there.nlink() == 2, "{what}: replaced");
            // Readers do not hang either, whatever they make of it.
            in_time(&what, move || {
                Store::open(&path, StoreOptions::default().with_read_only())
                    .and_then(|s| s.sessions().map(drop))
                    .map_err(|e| assert_ne!(e.kind(), ErrorKind::Io, "{e:?}"))
            })
            .ok();
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
