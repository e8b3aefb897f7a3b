//! Runs kept as columns beside the plain form of the same events: here the plain form is the bare side.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use everlog::{Level, NewEvent, PreparedBatch, Session, Store, StoreOptions};
use everlog_testkit::fleet::FleetEvent;
use everlog_testkit::rng::Rng;

use super::{Run, data, new_session, read, transfer};
use crate::measure::{Timing, alternate, timed};
use crate::table::{Goal, Row};

/// Events of one batch.
const BATCH: usize = 256;

/// All rows of this part, on these logs.
pub fn run(run: &mut Run, logs: &[Vec<u8>]) {
    if run.config.logs.is_none() {
        append_plain(run);
        append_fleet(run);
    }
    let stores = [true, false].map(|columns| imported(run, logs, columns));
    disk(run, &stores);
    reads(run, &stores);
    stores.into_iter().for_each(|path| std::fs::remove_dir_all(path).unwrap());
}

/// One segment takes all, and the write-behind waits: what is left is the work of the call.
fn options(columns: bool) -> StoreOptions {
    let one = StoreOptions::default().with_segment_bytes(2 << 30, 2 << 30);
    one.with_sync_delay_ms(60_000).with_columns(columns)
}

fn append_plain(run: &mut Run) {
    let texts = data::texts_256(BATCH);
    let mut prepared = PreparedBatch::new();
    texts.iter().for_each(|t| prepared.push(NewEvent::new("note", t.as_bytes())).unwrap());
    let batches = run.config.batch_events / BATCH as u64;
    let rounds = run.config.rounds;
    let shared = RefCell::new(&mut *run);
    let append = |columns: bool| {
        let path = shared.borrow_mut().path();
        let store = Store::create(&path, options(columns)).unwrap();
        let mut w = new_session(&store, "a");
        let spent = timed(batches * BATCH as u64, || {
            (0..batches).for_each(|_| drop(w.append_prepared(&prepared, Level::Buffered).unwrap()));
        });
        drop((w, store));
        std::fs::remove_dir_all(path).unwrap();
        spent
    };
    let got = alternate(rounds, || append(true), || append(false));
    let work = "append, columns on: prepared events of 256 B that share their keys only (the same, columns off)";
    run.add(Row::times("columns-append-plain", work, got, Goal::Share(0.9)));
}

fn append_fleet(run: &mut Run) {
    let fleet = data::fleet(&run.config);
    let sessions: Vec<Vec<FleetEvent>> = (0..fleet.sessions).map(|k| fleet.events(k)).collect();
    let n = sessions.iter().map(Vec::len).sum::<usize>() as u64;
    let rounds = run.config.rounds;
    let mut used = [0.0; 2];
    let shared = RefCell::new((&mut *run, &mut used));
    let append = |columns: bool| {
        let path = shared.borrow_mut().0.path();
        let store = Store::create(&path, options(columns)).unwrap();
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
            open.push(w);
        }
        store.sync().unwrap();
        shared.borrow_mut().1[usize::from(!columns)] = bytes_on_disk(&path) / n as f64;
        drop((open, store));
        std::fs::remove_dir_all(path).unwrap();
        spent
    };
    let got = alternate(rounds, || append(true), || append(false));
    let work = "append, columns on: raw JSON of the fleet, 256 a batch (the same, columns off)";
    run.add(Row::times("columns-append-fleet", work, got, Goal::Share(0.9)));
    let work = "bytes on disk an event of that, columns on (columns off)";
    let row = Row::value("columns-append-disk", work, used[0], "B", Goal::None);
    run.add(row.beside(used[1]));
}

fn bytes_on_disk(path: &Path) -> f64 {
    read::segment_files(path).iter().map(|(_, n)| n).sum::<u64>() as f64
}

fn imported(run: &mut Run, logs: &[Vec<u8>], columns: bool) -> PathBuf {
    let path = run.path();
    let store = Store::create(&path, StoreOptions::default().with_columns(columns)).unwrap();
    transfer::import_all(&store, logs, false);
    store.close().unwrap();
    path
}

fn sessions(path: &Path) -> Vec<Session> {
    let store = Store::open(path, StoreOptions::default().with_read_only()).unwrap();
    store.sessions().unwrap().iter().map(|i| store.session(&i.id).unwrap()).collect()
}

fn disk(run: &mut Run, stores: &[PathBuf; 2]) {
    let store = Store::open(&stores[0], StoreOptions::default().with_read_only()).unwrap();
    let (mut events, mut jsonl, mut out) = (0, 0, Vec::new());
    for info in store.sessions().unwrap() {
        out.clear();
        store.export_dsh(&info.id, false, &mut out).unwrap();
        jsonl += out.len();
        events += store.session(&info.id).unwrap().next_seq();
    }
    let per_event = |bytes: f64| bytes / events as f64;
    let jsonl = per_event(jsonl as f64);
    for (path, id, work) in [
        (&stores[0], "columns-import-disk", "bytes on disk an event, imported, columns on (JSONL)"),
        (&stores[1], "columns-import-disk-off", "the same, columns off (JSONL)"),
    ] {
        let used = per_event(bytes_on_disk(path));
        run.add(Row::value(id, work, used, "B", Goal::RatioAtMost(0.7)).beside(jsonl));
    }
}

fn reads(run: &mut Run, stores: &[PathBuf; 2]) {
    let both = [sessions(&stores[0]), sessions(&stores[1])];
    let events: u64 = both[0].iter().map(|s| s.next_seq()).sum();
    let scan = |of: &[Session]| {
        let mut seen = 0;
        let spent = timed(events, || {
            for session in of {
                let each = &mut |e: &everlog::EventRef<'_>| {
                    seen += e.data.len();
                    Ok(())
                };
                session.for_each(0, u64::MAX - 1, each).unwrap();
            }
        });
        assert!(seen > 0);
        spent
    };
    let got = alternate(run.config.rounds, || scan(&both[0]), || scan(&both[1]));
    let work = "scan by for_each of that import, an event, columns on (columns off)";
    run.add(Row::times("columns-scan", work, got, Goal::Share(0.9)));
    let n = run.config.points.min(50_000);
    let point = |of: &[Session]| {
        let mut rng = Rng::new(9);
        timed(n, || {
            for _ in 0..n {
                let session = &of[rng.below(of.len() as u64) as usize];
                let seq = rng.below(session.next_seq());
                assert!(session.with(seq, &mut |e| e.data.len()).unwrap() > 0);
            }
        })
    };
    let got = alternate(run.config.rounds, || point(&both[0]), || point(&both[1]));
    let work = "one event of it by (session, seq), random, mean, columns on (columns off)";
    run.add(Row::times("columns-point", work, got, Goal::None));
}
