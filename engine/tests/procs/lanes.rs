//! A store of more lanes than the process may have open files.

use std::fs::File;

use everlog::{
    CheckOptions, Error, ErrorKind, Level, NewEvent, NewSession, SessionId, Store, StoreOptions,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::kid::{Kid, arg, number, say};

/// Descriptors of the child that reads and appends.
const FILES_MAX: u64 = 128;

fn options() -> StoreOptions {
    StoreOptions::default().with_segment_bytes(256 << 10, 256 << 10)
}

fn id(k: u64) -> SessionId {
    SessionId::new(&k.to_string()).unwrap()
}

fn limit(files: u64) {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(files), maximum }).unwrap();
}

/// Makes a store whose lane `k` holds the session `k` with one event.
fn make(path: &str, lanes: u64) {
    limit(lanes * 8);
    drop(Store::create(path, options()).unwrap());
    let mut flocks = Vec::new();
    for k in 0..lanes {
        if k % 100 == 0 {
            say("making");
        }
        let store = Store::open(path, options()).unwrap();
        let mut w = store.create_session(&NewSession::new(&k.to_string()).unwrap()).unwrap();
        let _receipt = w.append(&NewEvent::new("note", b"1")).unwrap();
        w.close().unwrap();
        // Every third writer is killed, as far as the store can see: no CLOSE, a slot that says open.
        if k % 3 == 0 {
            std::mem::forget(store);
            continue;
        }
        store.close().unwrap();
        let file = File::open(format!("{path}/lanes/{k:04x}/lane")).unwrap();
        file.try_lock().unwrap();
        flocks.push(file);
    }
}

/// What stands in the way is said, and is not taken for damage.
fn says_too_many(e: &Error) {
    assert_eq!(e.kind(), ErrorKind::Io, "{e}");
    assert!(e.to_string().contains("too many open files"), "{e}");
}

/// In a child: first makes the store, then opens it with few descriptors.
pub fn lanes() {
    let (path, lanes) = (arg("path"), number("lanes"));
    if arg("do") == "make" {
        make(&path, lanes);
        return say("made");
    }
    limit(FILES_MAX);
    let reader = Store::open(&path, options().with_read_only()).unwrap();
    let store = Store::open(&path, options()).unwrap();
    assert!(reader.info().unwrap().lanes == lanes && lanes > 2 * FILES_MAX);
    for k in 0..lanes {
        let session = reader.session(&id(k)).unwrap();
        assert_eq!(session.read(0).unwrap().data[..], *b"1");
    }
    // Of one lane each, of every kind of end.
    for k in (0..lanes).step_by(7) {
        let mut w = store.writer(&id(k)).unwrap();
        let _receipt = w.append_batch(&[NewEvent::new("note", b"2")], Level::Sync).unwrap();
    }
    reader.refresh().unwrap();
    for k in 0..lanes {
        let events = 1 + u64::from(k % 7 == 0);
        assert_eq!(reader.session(&id(k)).unwrap().next_seq(), events, "session {k}");
    }
    say("used");

    let mut all = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        all.push(file);
    }
    says_too_many(&Store::open(&path, options().with_read_only()).unwrap_err());
    says_too_many(&reader.refresh().unwrap_err());
    for spare in 1..12 {
        all.pop();
        if let Err(e) = Store::open(&path, options().with_read_only()) {
            says_too_many(&e);
            assert!(spare < 11, "{e}");
        }
        if let Err(e) = reader.refresh() {
            says_too_many(&e);
        }
    }
    drop(all);
    reader.refresh().unwrap();
    assert_eq!(reader.sessions().unwrap().len() as u64, lanes);
    let report = reader.check(&CheckOptions::default(), &mut |_, _| true).unwrap();
    assert!(report.is_clean(), "{report:?}");
    say("checked");
}

#[test]
fn a_store_of_more_lanes_than_descriptors() {
    // In memory, where there is room: thousands of syncs are not what is tested.
    let memory = std::path::Path::new("/dev/shm");
    let room = rustix::fs::statvfs(memory).is_ok_and(|s| s.f_bavail * s.f_frsize > 1 << 30);
    let folder = if room { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
    let path = folder.path().join("store");
    let making = ["making", "making", "making", "making", "made"];
    for (work, says) in [("make", &making[..]), ("use", &["used", "checked"])] {
        let args: [(&str, &dyn std::fmt::Display); 3] =
            [("path", &path.display()), ("lanes", &320), ("do", &work)];
        let mut kid = Kid::start("lanes", &args);
        for word in says {
            kid.expect(word);
        }
        assert!(kid.wait().success());
    }
}
