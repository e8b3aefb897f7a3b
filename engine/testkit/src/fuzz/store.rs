//! Opening, reading and recovering stores whose bytes were changed.
//!
//! 1. An input is a list of changes: which file (1 byte, its highest bit: with good checksums), offset (3 bytes), how
//!    many bytes (1 byte, up to 16), the bytes. Bit 6 of the first byte of all: the store is the one with columns.
//! 2. Where no checksum was made good, what is read is what was written; elsewhere nothing may panic or hang.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use everlog::{CheckOptions, Event, Level, NewEvent, NewSession, SessionId, Store, StoreOptions};

use crate::oracle::build::Files;
use crate::oracle::{OracleStore, crc32, decode};
use crate::sim::{CrashPlan, SimMachine, Snapshot};

const PATH: &str = "/data/store";
/// The golden store of format 1.
const IMAGE: &str = include_str!("../../../tests/golden/v1/image.txt");
/// The one with columns.
const COLUMNS: &str = include_str!("../../../tests/golden/columns/image.txt");
const CHANGES_MAX: usize = 64;

/// A store and what an independent decoder reads in it.
struct Known {
    files: Files,
    store: OracleStore,
}

fn golden(columns: bool) -> &'static Known {
    static KNOWN: [OnceLock<Known>; 2] = [const { OnceLock::new() }; 2];
    let (image, sessions) = if columns { (COLUMNS, 2) } else { (IMAGE, 4) };
    KNOWN[usize::from(columns)].get_or_init(|| {
        let files = crate::golden::parse(image).unwrap_or_default();
        let store = decode(&files);
        assert!(store.findings.is_empty() && store.sessions.len() == sessions, "the golden store");
        Known { files, store }
    })
}

/// One change of one file.
struct Change<'a> {
    file: usize,
    sealed: bool,
    offset: usize,
    bytes: &'a [u8],
}

fn changes(mut data: &[u8]) -> Vec<Change<'_>> {
    let mut out = Vec::new();
    while let (Some((head, rest)), true) = (data.split_first_chunk::<5>(), out.len() < CHANGES_MAX)
    {
        let [file, o0, o1, o2, len] = *head;
        let (bytes, rest) = rest.split_at(rest.len().min(usize::from(len % 17)));
        let offset = u32::from_le_bytes([o0, o1, o2, 0]) as usize;
        out.push(Change {
            file: usize::from(file & 0x3F),
            sealed: file & 0x80 != 0,
            offset,
            bytes,
        });
        data = rest;
    }
    out
}

fn put(bytes: &mut [u8], at: usize, what: &[u8]) {
    if let Some(to) = bytes.get_mut(at..at + what.len()) {
        to.copy_from_slice(what);
    }
}

/// Makes the checksum over `start..at` good, which stands at `at`.
fn seal(bytes: &mut [u8], start: usize, at: usize) {
    let sum = bytes.get(start..at).map(crc32);
    sum.into_iter().for_each(|sum| put(bytes, at, &sum.to_le_bytes()));
}

/// Makes the checksums of the frame at `at` good, whatever its length says.
fn seal_frame(bytes: &mut [u8], at: usize) {
    let Some(head) = bytes.get(at..at + 48) else { return };
    let len = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
    let payload = bytes.get(at + 48..(at + 48).saturating_add(len)).map(crc32);
    payload.into_iter().for_each(|sum| put(bytes, at + 8, &sum.to_le_bytes()));
    let mut covered = bytes[48..56].to_vec();
    covered.extend((at as u64).to_le_bytes());
    covered.extend(&bytes[at + 4..at + 48]);
    put(bytes, at, &crc32(&covered).to_le_bytes());
}

/// Makes the checksum good that covers an offset of a file.
fn seal_around(path: &str, bytes: &mut [u8], offset: usize, frames: &[usize]) {
    match path {
        "STORE" => seal(bytes, 0, 60),
        _ if path.ends_with("/lane") => {
            let slot = offset / 4_096 * 4_096;
            seal(bytes, slot, slot + 252);
        }
        _ if !path.ends_with(".seg") => {}
        _ if offset < 4_096 => seal(bytes, 0, 124),
        _ if offset + 64 >= bytes.len() => {
            let trailer = bytes.len() - 64;
            seal(bytes, trailer, trailer + 60);
        }
        _ => {
            if let Some(at) = frames.iter().rev().find(|at| **at <= offset) {
                seal_frame(bytes, *at);
            }
        }
    }
}

/// Applies changes; returns whether a checksum was made good.
fn apply(files: &mut Files, store: &OracleStore, changes: &[Change<'_>]) -> bool {
    let paths: Vec<String> = files.keys().cloned().collect();
    let mut sealed = false;
    for change in changes {
        let Some(path) = paths.get(change.file % paths.len()) else { continue };
        let Some(bytes) = files.get_mut(path).filter(|b| !b.is_empty()) else { continue };
        let offset = change.offset % bytes.len();
        let room = bytes.len() - offset;
        put(bytes, offset, &change.bytes[..change.bytes.len().min(room)]);
        if change.sealed {
            let of_path = store.lanes.iter().flat_map(|l| &l.segments).find(|s| s.path == *path);
            let frames = of_path.iter().flat_map(|s| &s.frames).map(|f| f.offset as usize);
            seal_around(path, bytes, offset, &frames.collect::<Vec<_>>());
            sealed = true;
        }
    }
    sealed
}

fn machine_with(files: &Files) -> SimMachine {
    let machine = SimMachine::new(2);
    machine.set_log(false);
    for (path, bytes) in files {
        assert!(machine.write_file(&format!("{PATH}/{path}"), bytes));
    }
    for dir in ["locks", "quarantine", "lanes"] {
        let _made = machine.make_dir(&format!("{PATH}/{dir}"));
    }
    machine
}

fn options() -> StoreOptions {
    StoreOptions::default().with_segment_bytes(256 << 10, 256 << 10).with_lock_wait_ms(2)
}

fn open(machine: &SimMachine, options: StoreOptions) -> Option<Store> {
    Store::open_on(Arc::new(machine.process("fuzz")), Path::new(PATH), options).ok()
}

/// Reads all that a store lists, in both directions; `seen` gets every event.
fn read_all(store: &Store, mut seen: impl FnMut(&SessionId, &Event)) {
    for info in store.sessions().unwrap_or_default() {
        let Ok(session) = store.session(&info.id) else { continue };
        session.iter().take(10_000).flatten().for_each(|e| seen(&info.id, &e));
        session.iter().rev().take(100).flatten().for_each(|e| seen(&info.id, &e));
    }
}

/// A golden store with changes: opened, read, checked, then written on.
pub(super) fn whole(data: &[u8]) {
    let known = golden(data.first().is_some_and(|first| first & 0x40 != 0));
    let mut files = known.files.clone();
    let sealed = apply(&mut files, &known.store, &changes(data));
    let _findings = decode(&files).findings;
    let machine = machine_with(&files);
    let compare = |id: &SessionId, event: &Event| {
        let real = known.store.sessions.get(id.as_bytes());
        let real = real.and_then(|s| s.events.get(event.seq as usize));
        let same = real.is_some_and(|r| {
            r.data[..] == event.data[..]
                && r.ty[..] == event.event_type[..]
                && r.time == event.time_ms
        });
        assert!(sealed || same, "{id:?} {} is not what was written", event.seq);
    };
    if let Some(store) = open(&machine, options().with_read_only()) {
        read_all(&store, compare);
        let _report = store.check(&CheckOptions::default(), &mut |_, _| true);
    }
    let Some(store) = open(&machine, options()) else { return };
    let mut added = BTreeMap::new();
    for id in known.store.sessions.keys().filter_map(|id| SessionId::from_wtf8(id).ok()) {
        let Ok(mut writer) = store.writer(&id) else { continue };
        if let Ok(receipt) = writer.append(&NewEvent::new("note", b"\"added\"")) {
            let seq = receipt.first_seq();
            let read = writer.read(seq).map(|e| e.data);
            assert_eq!(read.ok().as_deref(), Some(&b"\"added\""[..]), "{id:?} {seq}");
            added.insert(id, seq);
        }
    }
    read_all(&store, |id, event| {
        if added.get(id) != Some(&event.seq) {
            compare(id, event);
        }
    });
    let _closed = store.close();
}

/// Events that were synced, and events behind them that were not, when the power went.
const SYNCED: usize = 6;
const UNSYNCED: usize = 12;

fn note(i: usize) -> String {
    format!("{{\"n\":{i},\"pad\":\"{}\"}}", "p".repeat(i * 37 % 400))
}

/// A machine without power, what its lane had synced, and the path of its segment.
fn without_power() -> &'static (Snapshot, usize, String) {
    static MADE: OnceLock<(Snapshot, usize, String)> = OnceLock::new();
    MADE.get_or_init(|| {
        let machine = SimMachine::new(3);
        let write = || -> everlog::Result<usize> {
            let process = Arc::new(machine.process("writer"));
            let store = Store::create_on(process, Path::new(PATH), options())?;
            let mut writer = store.create_session(&NewSession::new("s")?)?;
            let mut append = |i: usize, level| {
                let text = note(i);
                writer.append_batch(&[NewEvent::new("note", text.as_bytes())], level).map(drop)
            };
            (0..SYNCED).try_for_each(|i| append(i, Level::Sync))?;
            let synced = last_byte(&machine);
            (SYNCED..UNSYNCED).try_for_each(|i| append(i, Level::Os))?;
            machine.power_off();
            Ok(synced)
        };
        let synced = write();
        let path = segment_of(&machine).map(|(path, _)| path);
        let (Ok(synced), Some(path)) = (synced, path) else {
            unreachable!("the store was not made")
        };
        (machine.power_loss(&CrashPlan::all()).snapshot(), synced, path)
    })
}

fn segment_of(machine: &SimMachine) -> Option<(String, Vec<u8>)> {
    let files = machine.files();
    let (path, pages) = files.iter().find(|(path, _)| path.ends_with(".seg"))?;
    Some((path.clone(), pages.to_vec()))
}

/// Offset behind the last byte of the segment that is not zero, up to the next frame.
fn last_byte(machine: &SimMachine) -> usize {
    let bytes = segment_of(machine).map(|(_, bytes)| bytes).unwrap_or_default();
    bytes.iter().rposition(|b| *b != 0).map_or(0, |at| at + 1).next_multiple_of(8)
}

/// The active segment changed behind what was synced: recovery keeps that, and goes on.
pub(super) fn recovery(data: &[u8]) {
    let (snapshot, synced, path) = without_power();
    let machine = snapshot.power_loss(&CrashPlan::all());
    machine.set_log(false);
    let mut sealed = false;
    for change in changes(data) {
        let at = synced + change.offset % (16 << 10);
        machine.damage(path, 0, usize::MAX, |bytes| {
            put(bytes, at, change.bytes);
            if change.sealed {
                seal_frame(bytes, at & !7);
                sealed = true;
            }
        });
    }
    let Some(store) = open(&machine, options()) else {
        assert!(sealed, "the store cannot be opened");
        return;
    };
    let id = store.find_sessions(b"s").pop();
    let Some(Ok(mut writer)) = id.map(|id| store.writer(&id)) else {
        assert!(sealed, "the session cannot be written");
        return;
    };
    let next = writer.next_seq();
    assert!(next >= SYNCED as u64, "{next} events are left of {SYNCED} that were synced");
    for seq in 0..next.min(1_000) {
        let read = writer.read(seq).map(|e| e.data);
        let wanted = note(seq as usize);
        let same = read.as_ref().is_ok_and(|data| data[..] == *wanted.as_bytes());
        assert!(same || (sealed && seq >= SYNCED as u64), "event {seq} reads {read:?}");
    }
    let receipt = writer.append_batch(&[NewEvent::new("note", b"1")], Level::Sync);
    assert_eq!(receipt.map(|r| r.first_seq()).ok(), Some(next));
    drop(writer);
    assert!(store.close().is_ok());
    let Some(store) = open(&machine, options()) else {
        unreachable!("closed, and cannot be opened")
    };
    let report = store.check(&CheckOptions::default(), &mut |_, _| true);
    assert!(sealed || report.as_ref().is_ok_and(everlog::CheckReport::is_clean), "{report:?}");
}
