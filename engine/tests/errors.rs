//! Every kind of error, produced through the public API, and what its message looks like.
//!
//! 1. A kind that no call gives is not in the enum: `every_kind_is_produced` counts them.
//! 2. Messages start in lower case, end without a full stop and hold no event data.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, reason = "tests")]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use everlog::vfs::Ownership;
use everlog::{
    Error, ErrorKind, ImportOptions, Level, NewEvent, NewSession, SessionId, SessionWriter, Store,
    StoreOptions,
};
use everlog_testkit::oracle::build;
use everlog_testkit::sim::{Call, FaultError, FaultPlan, SimMachine, SimProcess};

const PATH: &str = "/data/store";

fn id() -> SessionId {
    SessionId::new("s").unwrap()
}

fn options() -> StoreOptions {
    StoreOptions::default().with_lock_wait_ms(5)
}

fn open(machine: &SimMachine, options: StoreOptions) -> everlog::Result<Store> {
    Store::open_on(Arc::new(machine.process("other")), Path::new(PATH), options)
}

/// A machine, its one process, a store and a session that is being written.
fn site() -> (SimMachine, SimProcess, Store, SessionWriter) {
    let machine = SimMachine::new(5);
    let process = machine.process("p");
    let made = Store::create_on(Arc::new(process.clone()), Path::new(PATH), options()).unwrap();
    let mut writer = made.create_session(&NewSession::new("s").unwrap()).unwrap();
    append(&mut writer, Level::Sync).unwrap();
    (machine, process, made, writer)
}

fn append(writer: &mut SessionWriter, level: Level) -> everlog::Result<()> {
    writer.append_batch(&[NewEvent::new("note", b"{\"secret\":1}")], level).map(drop)
}

/// Looks at an error as a caller does.
fn expect<T>(outcome: everlog::Result<T>, kind: ErrorKind) -> Error {
    let err = outcome.map(drop).unwrap_err();
    assert_eq!(err.kind(), kind, "{err}");
    let message = err.message();
    let first = message.split(' ').next().unwrap();
    // A failed call is named as the disk names it.
    assert!(message.contains("os error") || first == first.to_lowercase(), "{message}");
    assert!(!message.ends_with('.') && !message.contains('\n'), "{message}");
    assert!(message.len() > 15, "no advice: {message}");
    assert!(!format!("{err:?} {err}").contains("secret"), "event data in {err}");
    assert!(format!("{err:?}").contains(message));
    err
}

fn store_error() -> [(ErrorKind, fn()); 19] {
    [
        (ErrorKind::Invalid, invalid),
        (ErrorKind::Limit, limit),
        (ErrorKind::NotFound, not_found),
        (ErrorKind::Exists, exists),
        (ErrorKind::Locked, locked),
        (ErrorKind::Conflict, conflict),
        (ErrorKind::Corrupt, corrupt),
        (ErrorKind::Diverged, diverged),
        (ErrorKind::Unsupported, unsupported),
        (ErrorKind::StorageFull, storage_full),
        (ErrorKind::Io, io),
        (ErrorKind::Poisoned, poisoned),
        (ErrorKind::OutcomeUnknown, outcome_unknown),
        (ErrorKind::ForkedHandle, forked_handle),
        (ErrorKind::ReadOnly, read_only),
        (ErrorKind::InsecurePermissions, insecure_permissions),
        (ErrorKind::Void, void),
        (ErrorKind::UnknownType, unknown_type),
        (ErrorKind::OpenTurn, open_turn),
    ]
}

fn invalid() {
    let (_machine, _process, _store, mut writer) = site();
    let err = expect(writer.append(&NewEvent::new("note", b"{\"secret\"")), ErrorKind::Invalid);
    assert_eq!((err.field(), err.seq(), err.session()), (Some("data"), Some(1), Some(&id())));
    expect(writer.append_json("note", &f64::NAN), ErrorKind::Invalid);
}

fn limit() {
    let err = expect(SessionId::new(&"i".repeat(1_025)), ErrorKind::Limit);
    assert_eq!(err.field(), Some("session id"));
}

fn not_found() {
    let (machine, _process, store, writer) = site();
    let err = expect(open(&SimMachine::new(1), options()), ErrorKind::NotFound);
    assert_eq!(err.path(), Some(Path::new(PATH)));
    let other = SessionId::new("other").unwrap();
    assert_eq!(expect(store.session(&other), ErrorKind::NotFound).session(), Some(&other));
    expect(store.writer(&other), ErrorKind::NotFound);
    assert_eq!(expect(writer.read(1), ErrorKind::NotFound).seq(), Some(1));
    drop(machine);
}

fn exists() {
    let (machine, _process, store, _writer) = site();
    let again = Store::create_on(Arc::new(machine.process("q")), Path::new(PATH), options());
    assert_eq!(expect(again, ErrorKind::Exists).path(), Some(Path::new(PATH)));
    let err = expect(store.create_session(&NewSession::new("s").unwrap()), ErrorKind::Exists);
    assert_eq!(err.session(), Some(&id()));
}

fn locked() {
    let (machine, process, store, _writer) = site();
    for from in [open(&machine, options()).unwrap(), store] {
        let err = expect(from.writer(&id()), ErrorKind::Locked);
        assert_eq!(err.holder().unwrap().pid, process.id());
    }
}

fn conflict() {
    let (_machine, _process, _store, mut writer) = site();
    let event = [NewEvent::new("note", b"1")];
    let err = expect(writer.append_expecting(7, &event, Level::Os), ErrorKind::Conflict);
    assert_eq!((err.expected(), err.session()), (Some(1), Some(&id())));
}

fn corrupt() {
    let (machine, _process, store, mut writer) = site();
    append(&mut writer, Level::Sync).unwrap();
    writer.close().unwrap();
    store.close().unwrap();
    let segment = format!("{PATH}/lanes/0000/0000000000000000.seg");
    let bytes = machine.read_file(&segment).unwrap();
    let at = bytes.windows(8).position(|w| w == b"{\"secret").unwrap();
    assert!(machine.damage(&segment, at as u64, 1, |b| b[0] ^= 1));
    let store = open(&machine, options().with_read_only()).unwrap();
    let session = store.session(&id()).unwrap();
    let err = expect(session.read(0), ErrorKind::Corrupt);
    assert_eq!((err.session(), err.seq()), (Some(&id()), Some(0)));
    assert!(session.read(1).is_ok(), "the rest stays readable");
    assert!(machine.damage(&format!("{PATH}/STORE"), 30, 1, |b| b[0] ^= 1));
    let err = expect(open(&machine, options()), ErrorKind::Corrupt);
    assert_eq!(err.path(), Some(&*Path::new(PATH).join("STORE")));
}

/// Two lanes that both claim seq 1 of a session.
fn diverged() {
    const SESSION: u64 = 1 << 48;
    let note = |i: i64| build::Draft::new("note", i, &i.to_string());
    let mut one = build::Segment::new(&build::SegmentSpec::default());
    let mut two =
        build::Segment::new(&build::SegmentSpec { lane: 2, salt: 9, ..Default::default() });
    one.create(
        SESSION,
        b"s",
        br#"{"type":"session","version":0,"id":"s","createdAt":1,"delegationDepth":0}"#,
    );
    one.events(SESSION, 0, &[note(0), note(1)]);
    one.mark(4);
    let before = everlog_testkit::oracle::EventId { lane: 1, epoch: 0, gsn: 0 };
    two.take_over(SESSION, 1, 1, before);
    two.events(SESSION, 1, &[note(2)]);
    two.mark(4);
    let machine = SimMachine::new(6);
    for (path, bytes) in build::store(vec![one, two]) {
        assert!(machine.write_file(&format!("{PATH}/{path}"), &bytes));
    }
    for dir in ["locks", "quarantine"] {
        machine.make_dir(&format!("{PATH}/{dir}"));
    }
    let store = open(&machine, options()).unwrap();
    let session = store.session(&id()).unwrap();
    assert_eq!(session.read(0).unwrap().data[..], b"0"[..]);
    let err = expect(session.read(1), ErrorKind::Diverged);
    assert_eq!((err.seq(), err.session()), (Some(1), Some(&id())));
    expect(store.writer(&id()), ErrorKind::Diverged);
}

fn unsupported() {
    let (machine, _process, _store, _writer) = site();
    let path = format!("{PATH}/STORE");
    let mut bytes = machine.read_file(&path).unwrap();
    bytes[8] = 2;
    let sum = everlog_testkit::oracle::crc32(&bytes[..60]);
    bytes[60..].copy_from_slice(&sum.to_le_bytes());
    machine.write_file(&path, &bytes);
    assert!(expect(open(&machine, options()), ErrorKind::Unsupported).path().is_some());
    machine.set_network(true);
    expect(open(&machine, options()), ErrorKind::Unsupported);
}

fn storage_full() {
    let (machine, _process, store, mut writer) = site();
    machine.set_capacity(1);
    let big = format!("\"{}\"", "z".repeat(5 << 20));
    let event = NewEvent::new("note", big.as_bytes());
    let err = expect(writer.append(&event), ErrorKind::StorageFull);
    assert!(err.os_code().is_some());
    // Nothing was accepted, and with room again the same call is fine.
    assert_eq!(writer.next_seq(), 1);
    machine.set_capacity(1 << 40);
    assert_eq!(writer.append(&event).unwrap().first_seq(), 1);
    drop(store);
}

fn io() {
    let (machine, _process, _store, _writer) = site();
    machine.fail(FaultPlan::new(&[Call::OpenRoot], 1, FaultError::Io));
    let err = expect(open(&machine, options()), ErrorKind::Io);
    assert_eq!(err.os_code(), Some(5));
}

fn outcome_unknown() {
    let (machine, _process, _store, mut writer) = site();
    machine.fail(FaultPlan::new(&[Call::SyncData], 1, FaultError::Io));
    expect(append(&mut writer, Level::Sync), ErrorKind::OutcomeUnknown);
}

fn poisoned() {
    let (machine, _process, store, mut writer) = site();
    machine.fail(FaultPlan::new(&[Call::SyncData], 1, FaultError::Io));
    assert!(append(&mut writer, Level::Sync).is_err());
    expect(append(&mut writer, Level::Sync), ErrorKind::Poisoned);
    // What was durable is read as before.
    assert_eq!(store.session(&id()).unwrap().next_seq(), 1);
}

fn forked_handle() {
    let (machine, process, store, mut writer) = site();
    let child = machine.fork(&process);
    machine.run_as(&child, || {
        expect(append(&mut writer, Level::Os), ErrorKind::ForkedHandle);
        expect(store.session(&id()), ErrorKind::ForkedHandle);
        expect(store.sync(), ErrorKind::ForkedHandle);
    });
    append(&mut writer, Level::Os).unwrap();
}

fn read_only() {
    let (machine, _process, store, mut writer) = site();
    let reader = open(&machine, options().with_read_only()).unwrap();
    expect(reader.writer(&id()), ErrorKind::ReadOnly);
    expect(reader.create_session(&NewSession::new("t").unwrap()), ErrorKind::ReadOnly);
    let log = everlog_testkit::golden::LOG;
    let import = reader.import_dsh(log, &ImportOptions::default(), &mut |_| true);
    expect(import, ErrorKind::ReadOnly);
    store.close().unwrap();
    expect(append(&mut writer, Level::Os), ErrorKind::ReadOnly);
}

fn void() {
    let (machine, _process, store, _writer) = site();
    let elsewhere = SimMachine::new(6);
    let other = Arc::new(elsewhere.process("p"));
    let other = Store::create_on(other, Path::new(PATH), options()).unwrap();
    let foreign = other.subscribe(&store.cursor().unwrap(), Default::default());
    assert_eq!(expect(foreign, ErrorKind::Void).field(), Some("cursor"));
    drop(machine);
}

fn unknown_type() {
    // The writer of the site appends events of type note, which no view knows.
    let (_machine, _process, _store, writer) = site();
    let e = expect(writer.messages(), ErrorKind::UnknownType);
    assert_eq!((e.field(), e.seq(), e.session()), (Some("type"), Some(0), Some(&id())));
}

fn open_turn() {
    let (_machine, _process, store, mut writer) = site();
    let start = NewEvent::new("turn/start", b"{\"turn\":1}");
    drop(writer.append_batch(&[start], Level::Os).unwrap());
    let child = SessionId::new("child").unwrap();
    let e = expect(store.fork(&id(), &child, Default::default()), ErrorKind::OpenTurn);
    assert_eq!((e.field(), e.seq(), e.session()), (Some("boundary"), Some(1), Some(&id())));
}

fn insecure_permissions() {
    let (machine, _process, _store, _writer) = site();
    for ownership in [
        Ownership { own: true, group_write: false, world: true },
        Ownership { own: true, group_write: true, world: false },
        Ownership { own: false, group_write: false, world: false },
    ] {
        assert!(machine.set_ownership(PATH, ownership));
        let err = expect(open(&machine, options()), ErrorKind::InsecurePermissions);
        assert!(err.message().contains("chmod"), "{err}");
    }
}

#[test]
fn every_kind_is_produced() {
    let names: BTreeSet<&str> = store_error().iter().map(|(kind, _)| kind.name()).collect();
    assert_eq!(names.len(), 19, "a name stands for two kinds");
    let source = include_str!("../src/error.rs");
    let in_source =
        source.lines().filter(|l| l.trim_start().starts_with("Self::") && l.contains(" => \""));
    assert_eq!(in_source.count(), names.len(), "produce the new kind here");
    for (kind, produce) in store_error() {
        println!("{}", kind.name());
        produce();
    }
}
