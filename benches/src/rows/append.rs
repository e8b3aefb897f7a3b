//! Appends that wait for no disk: batches, and one event a call.

use std::cell::Cell;
use std::os::unix::fs::FileExt;

use everlog::{Level, NewEvent, PreparedBatch, SessionWriter, Store, StoreOptions};
use everlog_testkit::fleet::FleetEvent;

use super::{Run, data, new_session, new_store};
use crate::bare;
use crate::measure::{Paired, Timing, alternate, timed};
use crate::table::{Goal, Row};

/// Events of one batch.
const BATCH: usize = 256;
/// Threads that append at once.
const THREADS: usize = 8;

/// All rows of this part.
pub fn run(run: &mut Run) {
    let data = data::text_256();
    batches(run, data.as_bytes());
    fleet(run);
    singles(run, data.as_bytes());
    threads(run, data.as_bytes());
}

/// Bare sum of `n` events of the same data on a new file.
fn bare_sum(run: &mut Run, stage: &mut Vec<u8>, data: &[u8], n: u64) -> Timing {
    let path = run.path();
    let file = bare::file(&path, n * data.len() as u64);
    let texts = (0..n).map(|_| data);
    let spent = bare::append_batches(&file, stage, n, texts);
    std::fs::remove_file(path).unwrap();
    spent
}

fn batches(run: &mut Run, data: &[u8]) {
    let n = run.config.batch_events / BATCH as u64 * BATCH as u64;
    let rounds = run.config.rounds;
    let mut prepared = PreparedBatch::new();
    let texts = data::texts_256(BATCH);
    texts.iter().for_each(|t| prepared.push(NewEvent::new("note", t.as_bytes())).unwrap());
    let mut append = |w: &mut SessionWriter| drop(w.append_prepared(&prepared, Level::Buffered));
    let got = pair_batches(run, StoreOptions::default(), data, n, rounds, &mut append);
    run.add(Row::times(
        "batch-prepared",
        "prepared events, 256 B, 256 a batch, buffered (crc + memcpy + pwrite 256 KiB)",
        got,
        Goal::Share(0.7),
    ));
    // One segment takes all, and the write-behind waits: what is left is the work of the call.
    let one =
        StoreOptions::default().with_segment_bytes(2 << 30, 2 << 30).with_sync_delay_ms(60_000);
    let got = pair_batches(run, one, data, n, rounds, &mut append);
    run.add(Row::times(
        "batch-prepared-one-segment",
        "the same without a sync or a change of segment inside",
        got,
        Goal::Share(0.7),
    ));
}

fn pair_batches(
    run: &mut Run,
    options: StoreOptions,
    data: &[u8],
    n: u64,
    rounds: usize,
    append: &mut dyn FnMut(&mut SessionWriter),
) -> Paired {
    let mut stage = Vec::new();
    let shared = std::cell::RefCell::new(run);
    alternate(
        rounds,
        || {
            let path = shared.borrow_mut().path();
            let store = Store::create(&path, options.clone()).unwrap();
            let mut w = new_session(&store, "a");
            let spent = timed(n, || (0..n / BATCH as u64).for_each(|_| append(&mut w)));
            assert_eq!(w.next_seq(), n / BATCH as u64 * BATCH as u64);
            drop((w, store));
            std::fs::remove_dir_all(path).unwrap();
            spent
        },
        || bare_sum(&mut shared.borrow_mut(), &mut stage, data, n),
    )
}

fn fleet(run: &mut Run) {
    let fleet = data::fleet(&run.config);
    let sessions: Vec<Vec<FleetEvent>> = (0..fleet.sessions).map(|k| fleet.events(k)).collect();
    let n = sessions.iter().map(Vec::len).sum::<usize>() as u64;
    let texts = || sessions.iter().flatten().map(|e| e.data.as_bytes());
    let bytes: u64 = texts().map(|t| t.len() as u64).sum();
    let mut stage = Vec::new();
    let rounds = run.config.rounds;
    let shared = std::cell::RefCell::new(&mut *run);
    let got = alternate(
        rounds,
        || {
            let path = shared.borrow_mut().path();
            let store = new_store(&path);
            let (mut spent, mut open) = (Timing::default(), Vec::new());
            for (k, events) in sessions.iter().enumerate() {
                let mut w = new_session(&store, &k.to_string());
                let events: Vec<NewEvent<'_>> = events.iter().map(data::new_event).collect();
                let took = timed(n, || {
                    for batch in events.chunks(BATCH) {
                        let _receipt = w.append_batch(batch, Level::Buffered).unwrap();
                    }
                });
                spent = spent.plus(took);
                // Its drop syncs, which is no part of this.
                open.push(w);
            }
            drop((open, store));
            std::fs::remove_dir_all(path).unwrap();
            spent
        },
        || {
            let checked = timed(n, || texts().for_each(|t| assert!(everlog::dsh::is_json(t))));
            let path = shared.borrow_mut().path();
            let file = bare::file(&path, bytes);
            let sum = bare::append_batches(&file, &mut stage, n, texts());
            std::fs::remove_file(path).unwrap();
            checked.plus(sum)
        },
    );
    run.add(Row::times(
        "batch-raw-fleet",
        "raw JSON of the fleet, 256 a batch, buffered, all rules on (checker + crc + memcpy + pwrite 256 KiB)",
        got,
        Goal::Share(0.7),
    ));
}

fn singles(run: &mut Run, data: &[u8]) {
    let (n, rounds) = (run.config.singles, run.config.rounds);
    let path = run.path();
    let store = new_store(&path);
    let mut w = new_session(&store, "a");
    let mut prepared = PreparedBatch::new();
    prepared.push(NewEvent::new("note", data)).unwrap();
    let value: serde_json::Value = serde_json::from_slice(data).unwrap();
    let file_path = run.path();
    let file = bare::file(&file_path, n * 320 * 3 * rounds as u64);
    let at = Cell::new(0);
    let bare = || {
        timed(n, || {
            for _ in 0..n {
                file.write_all_at(data, at.get()).unwrap();
                at.set(at.get() + data.len() as u64);
            }
        })
    };
    let got = alternate(
        rounds,
        || timed(n, || (0..n).for_each(|_| drop(w.append_prepared(&prepared, Level::Os).unwrap()))),
        bare,
    );
    run.add(Row::times(
        "os-prepared",
        "append `os`, one prepared event of 256 B a call (pwrite of 256 B)",
        got,
        Goal::Times(1.3),
    ));
    let raw = NewEvent::new("note", data);
    let got =
        alternate(rounds, || timed(n, || (0..n).for_each(|_| drop(w.append(&raw).unwrap()))), bare);
    run.add(Row::times(
        "os-raw",
        "the same with raw JSON that is checked (pwrite of 256 B)",
        got,
        Goal::None,
    ));
    let got = alternate(
        rounds,
        || timed(n, || (0..n).for_each(|_| drop(w.append_json("note", &value).unwrap()))),
        bare,
    );
    run.add(Row::times(
        "os-json",
        "the same from a serde value (pwrite of 256 B)",
        got,
        Goal::None,
    ));
    drop((w, store));
    std::fs::remove_dir_all(path).unwrap();
    std::fs::remove_file(file_path).unwrap();
}

fn threads(run: &mut Run, data: &[u8]) {
    let (n, rounds) = (run.config.singles, run.config.rounds);
    let path = run.path();
    let store = new_store(&path);
    let mut writers: Vec<_> = (0..THREADS).map(|i| new_session(&store, &i.to_string())).collect();
    let each = n / THREADS as u64;
    let file_path = run.path();
    let file = bare::file(&file_path, n * 256 * rounds as u64);
    let at = std::sync::atomic::AtomicU64::new(0);
    let calls = store.io_counts().0;
    let got = alternate(
        rounds,
        || {
            timed(each * THREADS as u64, || {
                std::thread::scope(|scope| {
                    for w in &mut writers {
                        scope.spawn(move || {
                            let one = [NewEvent::new("note", data)];
                            (0..each).for_each(|_| drop(w.append_batch(&one, Level::Os).unwrap()));
                        });
                    }
                });
            })
        },
        || {
            timed(each * THREADS as u64, || {
                std::thread::scope(|scope| {
                    for _ in 0..THREADS {
                        scope.spawn(|| {
                            for _ in 0..each {
                                let to = at.fetch_add(256, std::sync::atomic::Ordering::Relaxed);
                                file.write_all_at(data, to).unwrap();
                            }
                        });
                    }
                });
            })
        },
    );
    let calls = store.io_counts().0 - calls;
    let acks = each * THREADS as u64 * rounds as u64;
    let note = format!("{:.2} acks a pwrite", acks as f64 / calls.max(1) as f64);
    run.add(
        Row::times(
            "os-8-threads",
            "append `os`, 8 threads, a session each, raw JSON (8 threads of pwrite into one file)",
            got,
            Goal::Times(1.3),
        )
        .noting(note),
    );
    drop((writers, store));
    std::fs::remove_dir_all(path).unwrap();
    std::fs::remove_file(file_path).unwrap();
}
