//! The store end to end on a simulated machine: create, append, read, reopen.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, reason = "tests")]

use std::path::Path;
use std::sync::Arc;

use everlog::{
    CheckOptions, ErrorKind, Level, NewEvent, NewSession, PreparedBatch, SessionId, Store,
    StoreOptions,
};
use everlog_testkit::sim::SimMachine;

fn id(s: &str) -> SessionId {
    SessionId::new(s).unwrap()
}

fn note(n: usize) -> Vec<u8> {
    format!("{{\"n\":{n},\"pad\":\"{}\"}}", "x".repeat(n % 700)).into_bytes()
}

#[test]
fn events_come_back_through_reopen() {
    let machine = SimMachine::new(1);
    let path = Path::new("/data/store");
    let a = Arc::new(machine.process("a"));
    let store = Store::create_on(a.clone(), path, StoreOptions::default()).unwrap();
    let mut w = store.create_session(&NewSession::new("s").unwrap()).unwrap();
    let mut n = 0;
    for round in 0..60 {
        let data: Vec<Vec<u8>> = (0..100).map(|i| note(n + i)).collect();
        let events: Vec<NewEvent<'_>> = data.iter().map(|d| NewEvent::new("note", d)).collect();
        let level = [Level::Buffered, Level::Os, Level::Sync][round % 3];
        let r = w.append_batch(&events, level).unwrap();
        assert_eq!((r.first_seq(), r.last_seq()), (n as u64, n as u64 + 99));
        n += 100;
    }
    assert_eq!(w.read(17).unwrap().data[..], note(17)[..]);
    w.close().unwrap();
    store.close().unwrap();
    let b = Arc::new(machine.process("b"));
    let store = Store::open_on(b, path, StoreOptions::default()).unwrap();
    let s = store.session(&id("s")).unwrap();
    assert_eq!(s.next_seq(), n as u64);
    for (i, e) in s.iter().enumerate() {
        let e = e.unwrap();
        assert_eq!((e.seq, &e.data[..]), (i as u64, &note(i)[..]));
    }
    let back: Vec<u64> = s.iter().rev().map(|e| e.unwrap().seq).collect();
    assert_eq!(back, (0..n as u64).rev().collect::<Vec<_>>());
    let mut w = store.writer(&id("s")).unwrap();
    assert_eq!(w.append(&NewEvent::new("note", b"1")).unwrap().first_seq(), n as u64);
    let report = store.check(&CheckOptions::default(), &mut |_, _| true).unwrap();
    assert!(report.is_clean(), "{:?}", report.damage);
    assert_eq!(report.events, n as u64 + 1);
}

#[test]
fn a_killed_writer_is_taken_over_with_its_os_events() {
    let machine = SimMachine::new(2);
    let path = Path::new("/data/store");
    let a = Arc::new(machine.process("a"));
    let store = Store::create_on(a.clone(), path, StoreOptions::default()).unwrap();
    let mut w = store.create_session(&NewSession::new("s").unwrap()).unwrap();
    for n in 0..50 {
        let _receipt = w.append_batch(&[NewEvent::new("note", &note(n))], Level::Os).unwrap();
    }
    let b = Arc::new(machine.process("b"));
    let other =
        Store::open_on(b.clone(), path, StoreOptions::default().with_lock_wait_ms(5)).unwrap();
    let err = other.writer(&id("s")).unwrap_err();
    assert_eq!(err.kind(), everlog::ErrorKind::Locked);
    machine.kill(&a);
    let mut w2 = other.writer(&id("s")).unwrap();
    assert_eq!(w2.next_seq(), 50);
    let _receipt = w2.append(&NewEvent::new("note", &note(50))).unwrap();
    for n in 0..=50 {
        assert_eq!(w2.read(n as u64).unwrap().data[..], note(n)[..]);
    }
    let report = other.check(&CheckOptions::default(), &mut |_, _| true).unwrap();
    assert!(report.is_clean(), "{:?}", report.damage);
}

#[test]
fn a_session_that_moved_on_meanwhile_is_continued_where_it_is() {
    let machine = SimMachine::new(3);
    let path = Path::new("/data/store");
    let a =
        Store::create_on(Arc::new(machine.process("a")), path, StoreOptions::default()).unwrap();
    let mut w = a.create_session(&NewSession::new("s").unwrap()).unwrap();
    let _receipt = w.append(&NewEvent::new("note", b"0")).unwrap();
    w.close().unwrap();
    let b = Store::open_on(Arc::new(machine.process("b")), path, StoreOptions::default()).unwrap();
    for round in 0..6u64 {
        let store = if round % 2 == 0 { &b } else { &a };
        let mut w = store.writer(&id("s")).unwrap();
        assert_eq!(w.next_seq(), round + 1);
        let _receipt =
            w.append(&NewEvent::new("note", format!("{}", round + 1).as_bytes())).unwrap();
        w.close().unwrap();
    }
    let report = a.check(&CheckOptions::default(), &mut |_, _| true).unwrap();
    assert!(report.is_clean(), "{:?}", report.damage);
    assert_eq!(a.session(&id("s")).unwrap().next_seq(), 7);
}

#[test]
fn readers_are_held_at_what_is_durable_after_a_failed_sync() {
    use everlog_testkit::sim::{Call, FaultError, FaultPlan};
    let machine = SimMachine::new(4);
    let path = Path::new("/data/store");
    let store =
        Store::create_on(Arc::new(machine.process("a")), path, StoreOptions::default()).unwrap();
    let mut w = store.create_session(&NewSession::new("s").unwrap()).unwrap();
    let _receipt = w.append_batch(&[NewEvent::new("note", b"0")], Level::Sync).unwrap();
    machine.fail(FaultPlan::new(&[Call::SyncData], 1, FaultError::Io));
    let err = w.append_batch(&[NewEvent::new("note", b"1")], Level::Sync).unwrap_err();
    assert_eq!(err.kind(), everlog::ErrorKind::OutcomeUnknown);
    let err = w.append(&NewEvent::new("note", b"2")).unwrap_err();
    assert_eq!(err.kind(), everlog::ErrorKind::Poisoned);
    let s = store.session(&id("s")).unwrap();
    assert_eq!(s.next_seq(), 1);
    assert_eq!(s.read(0).unwrap().data[..], b"0"[..]);
    assert_eq!(s.read(1).unwrap_err().kind(), everlog::ErrorKind::NotFound);
    drop(w);
    let b = Store::open_on(
        Arc::new(machine.process("b")),
        path,
        StoreOptions::default().with_lock_wait_ms(5),
    )
    .unwrap();
    assert_eq!(b.writer(&id("s")).unwrap_err().kind(), everlog::ErrorKind::Locked);
    drop(s);
    drop(store);
    let mut w = b.writer(&id("s")).unwrap();
    let next = w.next_seq();
    assert!((1..=2).contains(&next));
    let _receipt = w.append_batch(&[NewEvent::new("note", b"3")], Level::Sync).unwrap();
}

#[test]
fn a_receipt_that_is_kept_holds_no_lane() {
    let machine = SimMachine::new(6);
    let path = Path::new("/data/store");
    let store =
        Store::create_on(Arc::new(machine.process("a")), path, StoreOptions::default()).unwrap();
    let mut w = store.create_session(&NewSession::new("s").unwrap()).unwrap();
    let receipt = w.append(&NewEvent::new("note", b"0")).unwrap();
    w.close().unwrap();
    store.close().unwrap();
    let b = Store::open_on(Arc::new(machine.process("b")), path, StoreOptions::default()).unwrap();
    let mut w = b.writer(&id("s")).unwrap();
    let _receipt = w.append(&NewEvent::new("note", b"1")).unwrap();
    assert_eq!(b.info().unwrap().lanes, 1);
    assert!(receipt.poll(Level::Sync).unwrap());
}

#[test]
fn an_open_reads_index_frames_and_not_the_events() {
    let machine = SimMachine::new(5);
    let path = Path::new("/data/store");
    let store =
        Store::create_on(Arc::new(machine.process("a")), path, StoreOptions::default()).unwrap();
    let mut w = store.create_session(&NewSession::new("s").unwrap()).unwrap();
    let data = format!("\"{}\"", "y".repeat(4_000)).into_bytes();
    let events: Vec<NewEvent<'_>> = (0..32).map(|_| NewEvent::new("note", &data)).collect();
    for _ in 0..150 {
        let _receipt = w.append_batch(&events, Level::Buffered).unwrap();
    }
    w.close().unwrap();
    store.close().unwrap();
    machine.count_reads(true);
    machine.clear_log();
    let store =
        Store::open_on(Arc::new(machine.process("b")), path, StoreOptions::default()).unwrap();
    let read: u64 = machine
        .log()
        .iter()
        .filter(|op| op.call == everlog_testkit::sim::Call::Read && op.path.ends_with(".seg"))
        .map(|op| op.len)
        .sum();
    assert_eq!(store.session(&id("s")).unwrap().next_seq(), 150 * 32);
    // 19 MB of events; one INDEX interval, the headers and the INDEX frames are read.
    assert!(read < 4 << 20, "{read} bytes read");
}

#[test]
fn prepared_events_are_the_same_as_others() {
    let process = Arc::new(SimMachine::new(1).process("a"));
    let options = StoreOptions::default().with_json_depth_max(2);
    let store = Store::create_on(process, Path::new("/data/store"), options).unwrap();
    let mut w = store.create_session(&NewSession::new("a").unwrap()).unwrap();
    let mut batch = PreparedBatch::new();
    batch.push(NewEvent::new("note", b"[1, [2]]").with_time_ms(7)).unwrap();
    batch.push_json("note", &[1.0]).unwrap();
    assert_eq!(batch.push(NewEvent::new("note", b"[")).unwrap_err().kind(), ErrorKind::Invalid);
    let deep = [b"[".repeat(4_097), b"]".repeat(4_097)].concat();
    assert_eq!(batch.push(NewEvent::new("note", &deep)).unwrap_err().kind(), ErrorKind::Limit);
    assert_eq!(w.append_prepared(&batch, Level::Os).unwrap().last_seq(), 1);
    let stored: Vec<_> = w.iter().map(|e| e.unwrap().data).collect();
    assert_eq!((&stored[0][..], &stored[1][..]), (&b"[1, [2]]"[..], &b"[1]"[..]));
    assert_eq!(w.read(0).unwrap().time_ms, 7);
    // This store allows less depth than the batch was checked for; other rules count as ever.
    batch.push(NewEvent::new("note", b"[[[]]]")).unwrap();
    assert_eq!(w.append_prepared(&batch, Level::Os).unwrap_err().kind(), ErrorKind::Limit);
    batch.clear();
    batch.push(NewEvent::new("turn/start", b"1")).unwrap();
    assert_eq!(w.append_prepared(&batch, Level::Os).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(w.next_seq(), 2);
}

#[test]
fn a_lone_append_to_a_closed_lane_syncs_the_event_and_two_marks() {
    use everlog_testkit::sim::Call;
    let machine = SimMachine::new(8);
    let path = Path::new("/data/store");
    let first =
        Store::create_on(Arc::new(machine.process("a")), path, StoreOptions::default()).unwrap();
    first.create_session(&NewSession::new("s").unwrap()).unwrap().close().unwrap();
    first.close().unwrap();
    for n in 0..3 {
        machine.set_log(true);
        machine.clear_log();
        let store =
            Store::open_on(Arc::new(machine.process("b")), path, StoreOptions::default()).unwrap();
        let mut w = store.writer(&id("s")).unwrap();
        let _receipt = w.append_batch(&[NewEvent::new("note", b"1")], Level::Sync).unwrap();
        w.close().unwrap();
        store.close().unwrap();
        let log = machine.log();
        let of = |call: Call, end: &str| {
            log.iter().filter(|op| op.call == call && op.path.ends_with(end)).count()
        };
        // The event; the SYNCMARK that lets the session go; CLOSE. The lane file is written and not synced.
        assert_eq!((of(Call::SyncData, ".seg"), of(Call::Write, ".seg")), (3, 3), "{n}: {log:#?}");
        assert_eq!(
            (of(Call::SyncData, "/lane"), of(Call::Write, "/lane")),
            (0, 2),
            "{n}: {log:#?}"
        );
        assert_eq!(of(Call::SyncData, ""), 3, "{n}: {log:#?}");
        assert_eq!(of(Call::SyncDir, ""), 0, "{n}: {log:#?}");
    }
}
