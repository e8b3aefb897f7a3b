//! INDEX frames: what they list is what the page says, opening reads them and not the frames before them, and one that
//! makes no sense costs time, never an event. One that makes sense and lies is found by a check, not by reading.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, reason = "tests")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use everlog::{
    CheckOptions, Level, NewEvent, NewSession, ReadMode, SessionId, Store, StoreOptions,
};
use everlog_testkit::oracle::{crc32, decode, index};
use everlog_testkit::sim::SimMachine;

const PATH: &str = "/data/store";
const SEGMENT: &str = "lanes/0000/0000000000000000.seg";
const SESSIONS: usize = 3;
const ROUNDS: usize = 45;

fn options() -> StoreOptions {
    StoreOptions::default().with_segment_bytes(8 << 20, 8 << 20).with_read_mode(ReadMode::Pread)
}

fn id(i: usize) -> SessionId {
    SessionId::new(&format!("s{i}")).unwrap()
}

fn data(session: usize, round: usize) -> Vec<u8> {
    format!("[{session},{round},\"{}\"]", "x".repeat(30_000)).into_bytes()
}

/// A closed store of 4 MiB in one segment, with several INDEX frames.
fn written() -> SimMachine {
    let machine = SimMachine::new(9);
    let process = Arc::new(machine.process("writer"));
    let store = Store::create_on(process, Path::new(PATH), options()).unwrap();
    let mut writers: Vec<_> =
        (0..SESSIONS).map(|i| store.create_session(&NewSession::with_id(id(i))).unwrap()).collect();
    for round in 0..ROUNDS {
        for (i, writer) in writers.iter_mut().enumerate() {
            let text = data(i, round);
            let receipt = writer.append_batch(&[NewEvent::new("note", &text)], Level::Os).unwrap();
            assert_eq!(receipt.first_seq(), round as u64);
        }
    }
    writers.into_iter().for_each(|w| w.close().unwrap());
    store.close().unwrap();
    machine
}

fn files(machine: &SimMachine) -> BTreeMap<String, Vec<u8>> {
    let prefix = format!("{PATH}/");
    let files = machine.files();
    let below = |(path, pages): (&String, &everlog_testkit::sim::Pages)| {
        path.strip_prefix(&prefix).map(|path| (path.to_owned(), pages.to_vec()))
    };
    files.iter().filter_map(below).collect()
}

/// Opens the store and reads every event; returns the bytes that the opening read.
fn read_all(machine: &SimMachine) -> u64 {
    machine.count_reads(true);
    machine.clear_log();
    let process = Arc::new(machine.process("reader"));
    let store = Store::open_on(process, Path::new(PATH), options().with_read_only()).unwrap();
    machine.count_reads(false);
    let read = machine
        .log()
        .iter()
        .filter(|op| op.call == everlog_testkit::sim::Call::Read)
        .map(|op| op.len)
        .sum();
    for i in 0..SESSIONS {
        let events: Vec<_> = store.session(&id(i)).unwrap().iter().map(Result::unwrap).collect();
        assert_eq!(events.len(), ROUNDS);
        for (round, event) in events.iter().enumerate() {
            assert_eq!((event.seq, &event.data[..]), (round as u64, &data(i, round)[..]));
        }
    }
    read
}

/// Offsets of the INDEX frames.
fn index_frames(machine: &SimMachine) -> Vec<u64> {
    let store = decode(&files(machine));
    store.lanes[0].segments[0].frames.iter().filter(|f| f.kind == 3).map(|f| f.offset).collect()
}

#[test]
fn an_index_lists_what_the_page_says_and_opening_reads_no_more() {
    let machine = written();
    let files = files(&machine);
    let store = decode(&files);
    assert_eq!(store.findings, []);
    assert_eq!(index::check(&files, &store), []);
    assert!(index_frames(&machine).len() >= 4, "{:?}", index_frames(&machine));
    let read = read_all(&machine);
    assert!(read < 600_000, "opening read {read} bytes of a store of 4 MiB");
}

#[test]
fn a_bad_index_costs_no_event() {
    let machine = written();
    let frames = index_frames(&machine);
    for (what, at) in [("first", frames[0]), ("middle", frames[2]), ("last", frames[3])] {
        for field in [0, 8, 16, 24, 28, 40] {
            let machine = machine.snapshot().process_crash_image();
            let path = format!("{PATH}/{SEGMENT}");
            let bytes = machine.read_file(&path).unwrap();
            let (at, salt) = (at as usize, &bytes[48..56]);
            let len = u32::from_le_bytes(bytes[at + 4..at + 8].try_into().unwrap()) as usize;
            let mut frame = bytes[at..at + 48 + len].to_vec();
            // A senseless number with good checksums.
            frame[48 + field + 2] ^= 0x7F;
            let sum = crc32(&frame[48..]);
            frame[8..12].copy_from_slice(&sum.to_le_bytes());
            let mut covered = salt.to_vec();
            covered.extend((at as u64).to_le_bytes());
            covered.extend(&frame[4..48]);
            let sum = crc32(&covered);
            frame[..4].copy_from_slice(&sum.to_le_bytes());
            assert!(machine.damage(&path, at as u64, frame.len(), |b| b.copy_from_slice(&frame)));
            let _read = read_all(&machine);
            let process = Arc::new(machine.process("checker"));
            let store = Store::open_on(process, Path::new(PATH), options()).unwrap();
            let report = store.check(&CheckOptions::default(), &mut |_, _| true).unwrap();
            // Only what an INDEX says is wrong, and it is found; `next_session` is a bound, which may be any.
            let kinds: Vec<_> = report.damage.iter().map(|d| d.kind).collect();
            assert!(kinds.iter().all(|k| *k == "index"), "{what} field {field}: {kinds:?}");
            assert!(!kinds.is_empty() || field == 16, "{what} field {field} was not found");
        }
    }
}
