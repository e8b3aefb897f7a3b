//! Children of `fork(2)`: they can use nothing of what their parent opened, and take nothing from it.
#![expect(unsafe_code, reason = "fork(2)")]

use std::time::{Duration, Instant};

use everlog::{
    CheckOptions, ErrorKind, ImportOptions, Level, NewEvent, NewSession, Receipt, SessionId,
    SessionWriter, Store, StoreOptions,
};
use rustix::process::{Pid, Signal, WaitOptions};

use crate::acks::{Acks, append_said, data, digest};
use crate::kid::{Kid, arg, hear, options, pause, say, signal};

/// Forks: `None` in the child, which must end by [`end`].
fn fork() -> Option<Pid> {
    // SAFETY: the process has two threads beside this one: the test runner's, which waits in a channel, and that of a
    // store, which may hold locks of that store; what takes those is refused in the child before. The allocator and
    // the output are the C library's and this thread's.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork: {}", std::io::Error::last_os_error());
    Pid::from_raw(pid)
}

/// Ends a child of [`fork`] without the destructors of what it shares with its parent.
fn end(child: impl FnOnce() -> bool) -> ! {
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child));
    let code = match done {
        Ok(true) => 0,
        Ok(false) => 1,
        Err(_) => 101,
    };
    // SAFETY: _exit(2) has no demands.
    unsafe { libc::_exit(code) }
}

/// Names of calls that gave something else than the refusal that is due, with what they gave.
struct Refusals(Vec<String>);

impl Refusals {
    fn want<T>(&mut self, call: &str, got: everlog::Result<T>) {
        match got {
            Err(e) if e.kind() == ErrorKind::ForkedHandle => {}
            Err(e) => self.0.push(format!("{call}: {e:?}")),
            Ok(_) => self.0.push(format!("{call}: ok")),
        }
    }
}

/// Every call on a handle, in a child.
fn refused_calls(store: Store, mut w: SessionWriter, receipt: Receipt) -> Vec<String> {
    let mut no = Refusals(Vec::new());
    let id = SessionId::new("s").unwrap();
    let event = NewEvent::new("note", b"1");
    let one = std::slice::from_ref(&event);
    no.want("refresh", store.refresh());
    no.want("sync", store.sync());
    no.want("upkeep", store.upkeep());
    no.want("sessions", store.sessions());
    no.want("info", store.info());
    no.want("recoveries", store.recoveries());
    no.want("check", store.check(&CheckOptions::default(), &mut |_, _| true));
    no.want("session", store.session(&id));
    no.want("writer", store.writer(&id));
    no.want("create_session", store.create_session(&NewSession::new("t").unwrap()));
    no.want("import", store.import_dsh(&b""[..], &ImportOptions::default(), &mut |_| true));
    no.want("export", store.export_dsh(&id, false, &mut Vec::new()));
    no.want("append", w.append(&event));
    no.want("append_batch", w.append_batch(one, Level::Buffered));
    no.want("append_expecting", w.append_expecting(w.next_seq(), one, Level::Sync));
    no.want("append_json", w.append_json("note", &1));
    no.want("read", w.read(0));
    no.want("header", w.header());
    no.want("session refresh", w.refresh());
    no.want("event_id", w.event_id(0));
    no.want("iter", w.iter().next().unwrap_or_else(|| w.read(0)));
    no.want("for_each", w.for_each(0, 0, &mut |_| Ok(())));
    no.want("wait", receipt.wait(Level::Sync));
    no.want("poll", receipt.poll(Level::Sync));
    no.want("close of a clone", store.clone().close());
    no.want("close of the writer", w.close());
    drop(receipt);
    drop(store);
    no.0
}

/// In a child process: forks with an open session.
pub fn forker() {
    let options = options().with_sync_delay_ms(3_600_000).with_label("parent");
    let store = Store::open(arg("path"), options).unwrap();
    let mut w = store.create_session(&NewSession::new("s").unwrap()).unwrap();
    let mut rng = everlog_testkit::rng::Rng::new(9);
    append_said(&mut w, "parent", &mut 0, &mut rng, Level::Sync).unwrap();
    // The quiet lane marks what is durable. From then on only the lock keeps others out of the session.
    pause(200);
    let text = data("parent", 1_000, 10);
    let staged = NewEvent::new("note", &text);
    let receipt = w.append_batch(std::slice::from_ref(&staged), Level::Buffered).unwrap();
    if arg("mode") == "orphan" {
        let Some(pid) = fork() else {
            pause(30_000);
            end(|| true)
        };
        say(format_args!("orphan {}", pid.as_raw_nonzero()));
        pause(60_000);
        return;
    }
    let Some(child) = fork() else { end(|| in_child(store, w, receipt)) };
    let (_, status) = rustix::process::waitpid(Some(child), WaitOptions::empty()).unwrap().unwrap();
    say(format_args!("forked {:?}", status.exit_status()));
    assert_eq!(hear(), "go");
    receipt.wait(Level::Os).unwrap();
    let seq = receipt.first_seq();
    say(format_args!("ack s {seq} os {}", digest(b"note", &text)));
    append_said(&mut w, "parent", &mut 2_000, &mut rng, Level::Sync).unwrap();
    w.close().unwrap();
    store.close().unwrap();
    say("done");
}

/// Whether the child of a fork was refused in all that it tried with its parent's handles, and could do the same with
/// its own.
fn in_child(store: Store, w: SessionWriter, receipt: Receipt) -> bool {
    let wrong = refused_calls(store, w, receipt);
    for line in &wrong {
        say(format_args!("wrong {line}"));
    }
    let store = Store::open(arg("path"), StoreOptions::default()).unwrap();
    let mut own = store.create_session(&NewSession::new("c").unwrap()).unwrap();
    let mut rng = everlog_testkit::rng::Rng::new(10);
    append_said(&mut own, "child", &mut 0, &mut rng, Level::Os).unwrap();
    own.close().unwrap();
    store.close().unwrap();
    wrong.is_empty()
}

/// What a child does with handles from before the fork is refused and changes nothing: neither locks, nor events.
fn forked_child(plant: Option<&str>) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Store::create(&path, StoreOptions::default()).unwrap();
    let args: [(&str, &dyn std::fmt::Display); 2] = [("path", &path.display()), ("mode", &"calls")];
    let mut kid = Kid::start_planted("fork", plant, &args);
    let mut acks = Acks::default();
    let status = loop {
        let line = kid.line();
        if let Some(status) = line.strip_prefix("forked ") {
            break status.to_owned();
        }
        if !acks.take(&line) {
            return Err(line);
        }
    };
    if status != "Some(0)" {
        return Err(format!("the child of the fork ended with {status}"));
    }
    store.refresh().unwrap();
    let id = SessionId::new("s").unwrap();
    match store.writer(&id) {
        Err(e) if e.kind() == ErrorKind::Locked => {
            assert_eq!(e.holder().unwrap().pid, kid.pid());
            assert_eq!(e.holder().unwrap().label, "parent");
        }
        Err(e) => return Err(format!("writer: {e:?}")),
        Ok(_) => return Err("the child let go of the session".to_owned()),
    }
    let seen = store.session(&id).unwrap().next_seq();
    let acked = acks.sessions["s"].len() as u64;
    if seen != acked {
        return Err(format!("the child wrote: {seen} events, {acked} acked"));
    }
    kid.tell("go");
    for line in kid.rest() {
        assert!(line == "done" || acks.take(&line), "{line}");
    }
    if !kid.wait().success() {
        return Err("the parent could not go on".to_owned());
    }
    drop(store.writer(&id).map_err(|e| format!("after the end: {e:?}"))?);
    store.close().unwrap();
    if acks.verify(&path)? != acks.count() {
        return Err("an event is there that nobody acked".to_owned());
    }
    Ok(())
}

#[test]
fn a_forked_child_is_refused_and_changes_nothing() {
    forked_child(None).unwrap();
}

#[cfg(feature = "planted")]
#[test]
fn planted_forked_drop_unlocks_is_found() {
    let why = forked_child(Some("ForkedDropUnlocks")).unwrap_err();
    assert!(why.contains("let go"), "{why}");
}

#[test]
fn an_orphaned_child_does_not_keep_the_session() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Store::create(&path, StoreOptions::default()).unwrap();
    let mut kid = Kid::start("fork", &[("path", &path.display()), ("mode", &"orphan")]);
    let mut acks = Acks::default();
    let orphan: u32 = loop {
        let line = kid.line();
        if let Some(pid) = line.strip_prefix("orphan ") {
            break pid.parse().unwrap();
        }
        assert!(acks.take(&line), "{line}");
    };
    kid.kill();
    store.refresh().unwrap();
    let begun = Instant::now();
    let taken = store.writer(&SessionId::new("s").unwrap());
    let took = begun.elapsed();
    let lives =
        rustix::process::test_kill_process(Pid::from_raw(i32::try_from(orphan).unwrap()).unwrap());
    signal(orphan, Signal::KILL);
    lives.expect("the orphan lived on");
    let w = taken.unwrap();
    // What was only buffered died with the parent.
    assert_eq!(w.next_seq(), acks.count());
    assert!(took < Duration::from_secs(2), "{took:?}");
    drop(w);
    store.close().unwrap();
    acks.verify(&path).unwrap();
    println!("taken from a dead parent of a living child in {:.1} ms", took.as_secs_f64() * 1e3);
}
