//! Sixteen processes on one store, and two on one session.

use std::time::{Duration, Instant};

use everlog::{ErrorKind, Level, NewSession, SessionId, Store, StoreOptions};
use everlog_testkit::rng::Rng;

use crate::acks::{Acks, append_said};
use crate::kid::{Kid, arg, hear, number, options, say, scale};

/// In a child: appends to a session of its own until the time is over.
pub fn append() {
    let store = Store::open(arg("path"), options()).unwrap();
    let name = arg("session");
    let mut rng = Rng::new(number("seed"));
    let mut w = store.create_session(&NewSession::new(&name).unwrap()).unwrap();
    say("ready");
    assert_eq!(hear(), "go");
    let until = Instant::now() + Duration::from_secs(number("seconds"));
    let mut n = 0;
    while Instant::now() < until {
        let level = [Level::Buffered, Level::Os, Level::Os, Level::Sync][rng.index(4)];
        append_said(&mut w, &name, &mut n, &mut rng, level).unwrap();
    }
    w.close().unwrap();
    store.close().unwrap();
    say("done");
}

#[test]
fn sixteen_processes_write_sixteen_sessions() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    Store::create(&path, StoreOptions::default()).unwrap();
    let seconds = scale("SECONDS", 2);
    let mut kids: Vec<Kid> = (0..16)
        .map(|k| {
            let session = format!("s{k}");
            let shown = path.display();
            Kid::start(
                "append",
                &[("path", &shown), ("session", &session), ("seed", &k), ("seconds", &seconds)],
            )
        })
        .collect();
    for kid in &kids {
        kid.expect("ready");
    }
    for kid in &mut kids {
        kid.tell("go");
    }
    let mut acks = Acks::default();
    for kid in &mut kids {
        let lines = kid.rest();
        assert_eq!(lines.last().map(String::as_str), Some("done"));
        for line in &lines[..lines.len() - 1] {
            assert!(acks.take(line), "{line}");
        }
        assert!(kid.wait().success());
    }
    assert_eq!(acks.sessions.len(), 16);
    let events = acks.verify(&path).unwrap();
    assert_eq!(events, acks.count(), "each event was acked once");
    println!("16 processes, {seconds} s: {events} events, acks by level {:?}", acks.by_level);
}

/// In a child: holds a session until it is told to let go.
pub fn hold() {
    let store = Store::open(arg("path"), options().with_label(&arg("label"))).unwrap();
    let mut w = store.create_session(&NewSession::new("s").unwrap()).unwrap();
    append_said(&mut w, "holder", &mut 0, &mut Rng::new(1), Level::Os).unwrap();
    say("held");
    while hear() == "again" {
        append_said(&mut w, "holder", &mut 100, &mut Rng::new(2), Level::Os).unwrap();
    }
    w.close().unwrap();
    say("closed");
    hear();
}

fn now_ms() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(now.as_millis()).unwrap()
}

#[test]
fn the_second_writer_is_told_who_the_first_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Store::create(&path, StoreOptions::default()).unwrap();
    let before = now_ms();
    let mut first = Kid::start("hold", &[("path", &path.display()), ("label", &"agent 7")]);
    while first.line() != "held" {}
    let after = now_ms();
    let id = SessionId::new("s").unwrap();
    store.refresh().unwrap();
    let err = store.writer(&id).unwrap_err();
    assert_eq!(err.kind(), ErrorKind::Locked);
    let holder = err.holder().unwrap();
    assert_eq!(holder.pid, first.pid());
    assert_eq!(holder.label, "agent 7");
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    assert_eq!(holder.host, host);
    assert!((before..=after).contains(&holder.since_ms), "{before} {} {after}", holder.since_ms);
    // Reading needs no lock.
    assert!(store.session(&id).unwrap().iter().count() > 0);
    let err = store.create_session(&NewSession::new("s").unwrap()).unwrap_err();
    assert_eq!(err.kind(), ErrorKind::Exists);
    first.tell("let go");
    first.expect("closed");
    // The first process lives on, with its lane; only the session is free.
    drop(store.writer(&id).unwrap());
    println!("locked by pid {} host {} label {}", first.pid(), holder.host, holder.label);
}
