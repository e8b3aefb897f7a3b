//! Stores that a hostile hand made: every checksum holds, the contents lie. Nothing may panic or hang, whatever it says.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

use everlog::{CheckOptions, Level, Store, StoreOptions};
use everlog_testkit::oracle::crc32;
use everlog_testkit::rng::Rng;
use everlog_testkit::sim::{CrashPlan, SimMachine};

use crate::kit::{STORE, create, event, id, note, open, process, segment, session};

const HEADER: usize = 4_096;

fn u32_at(b: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(b[at..at + 4].try_into().unwrap())
}

/// Offsets of the frames of a segment.
fn frames(b: &[u8]) -> Vec<usize> {
    let mut out = Vec::new();
    let mut at = HEADER;
    while at + 48 <= b.len() && b[at + 12] != 0 {
        let end = at + 48 + (u32_at(b, at + 4) as usize).next_multiple_of(8);
        if end > b.len() {
            break;
        }
        out.push(at);
        at = end;
    }
    out
}

/// Makes the checksums of the frame at `at` hold.
fn seal_frame(b: &mut [u8], at: usize) {
    let len = (u32_at(b, at + 4) as usize).min(b.len() - at - 48);
    let sum = crc32(&b[at + 48..at + 48 + len]);
    b[at + 8..at + 12].copy_from_slice(&sum.to_le_bytes());
    let mut input = b[48..56].to_vec();
    input.extend_from_slice(&(at as u64).to_le_bytes());
    input.extend_from_slice(&b[at + 4..at + 48]);
    let sum = crc32(&input);
    b[at..at + 4].copy_from_slice(&sum.to_le_bytes());
}

/// A number that someone might not have thought of, of `n` bytes.
fn odd(rng: &mut Rng, n: usize) -> Vec<u8> {
    let picks = [
        u64::MAX,
        u64::MAX - 1,
        1 << 63,
        1 << 53,
        (1 << 53) - 1,
        u64::from(u32::MAX),
        1 << 20,
        4_096,
        1,
        0,
        rng.next_u64(),
    ];
    let v = picks[rng.index(picks.len())].to_le_bytes();
    v[..n].to_vec()
}

/// Lies in one frame: a field of its header, a field of its payload, or a number of unusual length in it.
fn lie_in_frame(rng: &mut Rng, b: &mut [u8]) {
    let all = frames(b);
    let Some(at) = all.get(rng.index(all.len().max(1))).copied() else { return };
    let len = u32_at(b, at + 4) as usize;
    if len < 12 || rng.chance(1, 3) {
        let (o, n) = [(4, 4), (12, 1), (14, 2), (16, 8), (24, 8), (32, 8)][rng.index(6)];
        let v = odd(rng, n);
        b[at + o..at + o + n].copy_from_slice(&v);
    } else if rng.chance(1, 2) {
        let head = rng.index(len.min(64) / 4) * 4;
        let n = [1, 4, 8][rng.index(3)].min(len - head);
        let v = odd(rng, n);
        b[at + 48 + head..at + 48 + head + n].copy_from_slice(&v);
    } else {
        let from = rng.index(len - 9);
        let varint = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        let n = 1 + rng.index(10).min(len - from - 1);
        b[at + 48 + from..at + 48 + from + n].copy_from_slice(&varint[10 - n..]);
    }
    seal_frame(b, at);
}

fn lie_in_header(rng: &mut Rng, b: &mut [u8]) {
    let fields = [(56, 4), (64, 8), (72, 8), (80, 8), (88, 8), (96, 8), (104, 8), (40, 8)];
    let (o, n) = fields[rng.index(fields.len())];
    let v = odd(rng, n);
    b[o..o + n].copy_from_slice(&v);
    let sum = crc32(&b[..124]);
    b[124..128].copy_from_slice(&sum.to_le_bytes());
}

fn lie_in_trailer(rng: &mut Rng, b: &mut [u8]) {
    let at = b.len() - 64;
    let o = [8, 16, 24, 40][rng.index(4)];
    let v = odd(rng, 8);
    b[at + o..at + o + 8].copy_from_slice(&v);
    let sum = crc32(&b[at..at + 60]);
    b[at + 60..at + 64].copy_from_slice(&sum.to_le_bytes());
}

fn lie_in_slots(rng: &mut Rng, b: &mut [u8]) {
    let (o, n) =
        [(8, 8), (34, 2), (36, 4), (40, 8), (56, 8), (64, 8), (72, 8), (80, 8)][rng.index(8)];
    let v = odd(rng, n);
    for at in [0, 4_096] {
        b[at + o..at + o + n].copy_from_slice(&v);
        let sum = crc32(&b[at..at + 252]);
        b[at + 252..at + 256].copy_from_slice(&sum.to_le_bytes());
    }
}

/// Uses everything of a store; errors are fine.
fn use_all(machine: &SimMachine, options: &StoreOptions) {
    let p = process(machine, "victim");
    let Ok(store) = Store::open_on(p.clone(), Path::new(STORE), options.clone()) else { return };
    let _ = store.sessions();
    let _ = store.info();
    let _ = store.check(&CheckOptions::default(), &mut |_, _| true);
    for name in ["s0", "s1", "s2", "new"] {
        if let Ok(s) = store.session(&id(name)) {
            let _ = s.header();
            let end = s.next_seq();
            for seq in (0..end.min(300)).chain(end.saturating_sub(3)..end) {
                let _ = s.read(seq);
                let _ = s.event_id(seq);
            }
            assert!(s.iter().take(2_000).count() <= 2_000);
            let _ = s.last(5).rev().take(20).count();
        }
        let _ = store.refresh();
        if let Ok(mut w) = store.writer(&id(name)) {
            for level in [Level::Buffered, Level::Sync] {
                let _ = w.append_batch(&[event(&note(1, 3_000))], level);
            }
            let _ = w.close();
        }
    }
    if let Ok(mut w) = store.create_session(&everlog::NewSession::new("new").unwrap()) {
        let _ = w.append_batch(&[event(&note(1, 150_000))], Level::Os);
        let _ = w.append_batch(&[event(&note(1, 150_000))], Level::Os);
    }
    let _ = store.upkeep();
    let _ = store.close();
}

fn honest(options: &StoreOptions) -> SimMachine {
    let machine = SimMachine::new(9);
    let (p, store) = create(&machine, options.clone());
    let mut writers: Vec<_> = (0..3).map(|n| session(&store, &format!("s{n}"))).collect();
    for n in 0..260 {
        let data = note(n, 900);
        let events = vec![event(&data); 1 + n % 40 / 38 * 39];
        let _ = writers[n % 3].append_batch(&events, Level::Os).unwrap();
    }
    let q = process(&machine, "other");
    let other = open(&q, options.clone());
    let mut t = session(&other, "t");
    let _ = t.append_batch(&[event(b"1")], Level::Sync).unwrap();
    drop(writers.pop());
    let mut taken = other.writer(&id("s2")).unwrap();
    let _ = taken.append_batch(&[event(b"2")], Level::Sync).unwrap();
    store.sync().unwrap();
    machine.kill(&p);
    machine.kill(&q);
    machine
}

#[test]
fn lies_under_valid_checksums_neither_panic_nor_hang() {
    let options = StoreOptions::default()
        .with_segment_bytes(256 << 10, 256 << 10)
        .with_lock_wait_ms(0)
        .with_event_bytes_max(1 << 20);
    let honest = honest(&options);
    let rounds = std::env::var("ROUNDS").ok().and_then(|r| r.parse().ok()).unwrap_or(200);
    let only: Option<u64> = std::env::var("SEED").ok().and_then(|r| r.parse().ok());
    for seed in 0..rounds {
        if only.is_some_and(|s| s != seed) {
            continue;
        }
        let machine = if seed % 2 == 0 {
            honest.process_crash_image()
        } else {
            honest.power_loss(&CrashPlan::all())
        };
        let mut rng = Rng::new(seed);
        for _ in 0..=rng.index(3) {
            let file = [segment(0), segment(1), format!("{STORE}/lanes/0001/{:016x}.seg", 0)];
            let file = &file[rng.index(3)];
            let whole = usize::MAX;
            let lie = [lie_in_frame, lie_in_frame, lie_in_frame, lie_in_header, lie_in_trailer];
            let lie = lie[rng.index(5)];
            machine.damage(file, 0, whole, |b| lie(&mut rng, b));
            if rng.chance(1, 5) {
                machine.damage(&format!("{STORE}/lanes/0000/lane"), 0, whole, |b| {
                    lie_in_slots(&mut rng, b);
                });
            }
        }
        let begun = Instant::now();
        let done = catch_unwind(AssertUnwindSafe(|| use_all(&machine, &options)));
        assert!(done.is_ok(), "SEED={seed} panics");
        assert!(begun.elapsed() < Duration::from_secs(10), "SEED={seed}: {:?}", begun.elapsed());
    }
}

/// A closed store of one session with an INDEX frame; `lie` changes that frame, given its offset.
fn with_index(lie: impl FnOnce(&mut [u8], usize)) -> SimMachine {
    let machine = SimMachine::new(10);
    let (_p, store) = create(&machine, StoreOptions::default());
    let mut w = session(&store, "s");
    for n in 0..40 {
        let _ = w.append_batch(&[event(&note(n, 3_000))], Level::Os).unwrap();
    }
    w.close().unwrap();
    store.close().unwrap();
    machine.damage(&segment(0), 0, usize::MAX, |b| {
        let index = frames(b).into_iter().find(|at| b[at + 12] == 3).unwrap();
        lie(b, index);
        seal_frame(b, index);
    });
    machine
}

#[test]
fn an_index_that_counts_billions_of_events_costs_a_check_no_time() {
    let machine = with_index(|b, at| b[at + 48 + 32 + 12..at + 48 + 32 + 16].fill(0xff));
    let store = open(&process(&machine, "reader"), StoreOptions::default());
    let begun = Instant::now();
    let report = store.check(&CheckOptions::default(), &mut |_, _| true).unwrap();
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert!(!report.is_clean());
    assert!(report.damage.iter().all(|d| d.seqs.len() < 100));
}

#[test]
fn a_sparse_segment_cannot_ask_for_a_buffer_of_its_size() {
    let machine = SimMachine::new(11);
    let (p, store) = create(&machine, StoreOptions::default());
    let mut w = session(&store, "s");
    let _ = w.append_batch(&[event(b"0")], Level::Sync).unwrap();
    machine.kill(&p);
    let end = frames(&machine.read_file(&segment(0)).unwrap()).len();
    assert!(end >= 2);
    let size: u64 = 4 << 30;
    assert!(machine.truncate(&segment(0), size));
    machine.damage(&segment(0), 0, 1 << 20, |b| {
        b[104..112].copy_from_slice(&size.to_le_bytes());
        let sum = crc32(&b[..124]);
        b[124..128].copy_from_slice(&sum.to_le_bytes());
        let last = *frames(b).last().unwrap();
        let at = last + 48 + (u32_at(b, last + 4) as usize).next_multiple_of(8);
        // The largest batch is a little more than 1 GiB.
        b.copy_within(last..last + 48, at);
        b[at + 4..at + 8].copy_from_slice(&(3u32 << 30).to_le_bytes());
        let mut input = b[48..56].to_vec();
        input.extend_from_slice(&(at as u64).to_le_bytes());
        input.extend_from_slice(&b[at + 4..at + 48]);
        let sum = crc32(&input);
        b[at..at + 4].copy_from_slice(&sum.to_le_bytes());
    });
    machine.count_reads(true);
    machine.clear_log();
    let store = open(&process(&machine, "reader"), StoreOptions::default());
    assert_eq!(store.session(&id("s")).unwrap().next_seq(), 1);
    let largest = machine.log().iter().map(|op| op.len).max().unwrap();
    assert!(largest < 2 << 30, "a read of {largest} bytes");
}
