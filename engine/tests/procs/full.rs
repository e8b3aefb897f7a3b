//! A disk that is really full: a small file system of its own, filled by threads that append.

use std::path::{Path, PathBuf};
use std::process::Command;

use everlog::{
    ErrorKind, Level, NewEvent, NewSession, SessionId, SessionWriter, Store, StoreOptions,
};
use everlog_testkit::rng::Rng;

use crate::acks::{Acks, append_said};
use crate::kid::{Kid, arg, hear, options, say};

const THREADS: u64 = 3;

/// In a child: three threads append until the disk is full, read on, and go on once there is room.
pub fn fill() {
    let options = options().with_segment_bytes(256 << 10, 1 << 20);
    let store = Store::open(arg("path"), options).unwrap();
    let mut writers: Vec<(SessionWriter, u64)> = (0..THREADS)
        .map(|k| {
            let new = NewSession::new(&format!("f{k}")).unwrap();
            (store.create_session(&new).unwrap(), 0)
        })
        .collect();
    std::thread::scope(|scope| {
        for (k, (w, n)) in writers.iter_mut().enumerate() {
            scope.spawn(move || fill_up(w, k, n));
        }
    });
    for (w, _) in &writers {
        let read = w.iter().filter(|e| e.as_ref().is_ok_and(|e| !e.data.is_empty())).count() as u64;
        say(format_args!("reads {} {read} {}", w.id().as_str().unwrap(), w.next_seq()));
    }
    // A mark has its room, so a session can be let go of on a full disk.
    let (last, _) = writers.pop().unwrap();
    say(format_args!("let go {:?}", last.close()));
    say("full");
    assert_eq!(hear(), "freed");
    for (k, (w, n)) in writers.iter_mut().enumerate() {
        let mut rng = Rng::new(100 + k as u64);
        for _ in 0..30 {
            if let Err(e) = append_said(w, &format!("f{k}"), n, &mut rng, Level::Sync) {
                say(format_args!("again {:?}", e.kind()));
                return;
            }
        }
    }
    drop(writers);
    store.close().unwrap();
    say("done");
}

fn fill_up(w: &mut SessionWriter, k: usize, n: &mut u64) {
    let mut rng = Rng::new(k as u64);
    let who = format!("f{k}");
    // A small batch may still fit where a large one did not, so each thread goes on to its second error.
    let mut errors = 0;
    while errors < 2 {
        let level = [Level::Buffered, Level::Os, Level::Sync][rng.index(3)];
        let seq = w.next_seq();
        if let Err(e) = append_said(w, &who, n, &mut rng, level) {
            say(format_args!("error {k} {} {}", e.kind().name(), w.next_seq() == seq));
            errors += 1;
        }
    }
}

/// A small file system; gone when dropped.
struct Disk {
    at: PathBuf,
}

impl Disk {
    fn mount(kind: &str, folder: &Path) -> Option<Self> {
        let at = folder.join("disk");
        std::fs::create_dir(&at).unwrap();
        let mut mount = Command::new("mount");
        if kind == "tmpfs" {
            mount.args(["-t", "tmpfs", "-o", "size=16m,mode=700", "everlog-test"]).arg(&at);
        } else {
            let image = folder.join("image");
            std::fs::File::create(&image).unwrap().set_len(32 << 20).unwrap();
            let made = Command::new("mkfs.ext4").args(["-q", "-F", "-m", "0"]).arg(&image).status();
            if !made.is_ok_and(|s| s.success()) {
                return None;
            }
            mount.args(["-t", "ext4", "-o", "loop"]).arg(&image).arg(&at);
        }
        mount.status().is_ok_and(|s| s.success()).then_some(Self { at })
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _gone = Command::new("umount").arg("-l").arg(&self.at).status();
    }
}

fn full_disk(kind: &str) {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = Disk::mount(kind, folder.path()) else {
        eprintln!("SKIPPED: no {kind} could be mounted here; a full disk was NOT tested on it");
        return;
    };
    let ballast = disk.at.join("ballast");
    std::fs::write(&ballast, vec![7; 5 << 20]).unwrap();
    let path = disk.at.join("store");
    drop(Store::create(&path, StoreOptions::default()).unwrap());
    let mut kid = Kid::start("fill", &[("path", &path.display())]);
    let mut acks = Acks::default();
    let (mut errors, mut reads) = (0, 0);
    loop {
        let line = kid.line();
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["full"] => break,
            ["error", _, kind, nothing_taken] => {
                assert_eq!((kind, nothing_taken), ("storage-full", "true"), "{line}");
                errors += 1;
            }
            ["reads", _, read, held] => {
                assert_eq!(read, held, "{line}");
                reads += 1;
            }
            ["let", "go", how] => assert_eq!(how, "Ok(())", "{line}"),
            _ => assert!(acks.take(&line), "{line}"),
        }
    }
    assert_eq!((errors, reads), (2 * THREADS, THREADS));
    let before = acks.count();
    others_meet_a_full_disk(&path);
    std::fs::remove_file(&ballast).unwrap();
    kid.tell("freed");
    let lines = kid.rest();
    assert_eq!(lines.last().map(String::as_str), Some("done"), "{:?}", lines.last());
    for line in &lines[..lines.len() - 1] {
        assert!(acks.take(line), "{line}");
    }
    // No signal: it ended by itself.
    assert!(kid.wait().success());
    assert!(acks.count() > before);
    assert_eq!(acks.verify(&path).unwrap(), acks.count());
    let store = Store::open(&path, StoreOptions::default()).unwrap();
    for name in acks.sessions.keys() {
        let mut w = store.writer(&SessionId::new(name).unwrap()).unwrap();
        let _receipt = w.append(&NewEvent::new("note", b"1")).unwrap();
    }
    println!("full {kind}: {before} acked until it was full, {} in all", acks.count());
}

/// Another process reads on, and is told the same when it wants to write.
fn others_meet_a_full_disk(path: &Path) {
    let store = Store::open(path, StoreOptions::default()).unwrap();
    let sessions = store.sessions().unwrap();
    assert_eq!(sessions.len() as u64, THREADS);
    for info in &sessions {
        let session = store.session(&info.id).unwrap();
        assert!(session.iter().all(|e| e.is_ok()));
    }
    let err = store.create_session(&NewSession::new("late").unwrap()).unwrap_err();
    assert_eq!(err.kind(), ErrorKind::StorageFull, "{err:?}");
}

#[test]
fn a_full_tmpfs_is_an_error_and_nothing_more() {
    full_disk("tmpfs");
}

#[test]
fn a_full_ext4_is_an_error_and_nothing_more() {
    full_disk("ext4");
}
