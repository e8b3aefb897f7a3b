//! Imports, exports, and the room that events take.

use std::path::Path;

use everlog::{ImportOptions, Level, Store, StoreOptions};

use super::{Run, data, new_session, new_store, read};
use crate::measure::{alternate, timed};
use crate::table::{Goal, Row};

/// Imports every log into the store.
///
/// # Panics
/// When one is refused.
pub fn import_all(store: &Store, logs: &[Vec<u8>], dry_run: bool) {
    for (k, log) in logs.iter().enumerate() {
        // The name is for logs whose id is a placeholder.
        let options = ImportOptions { dry_run, name: format!("log-{k}"), ..Default::default() };
        let _report = store.import_dsh(&log[..], &options, &mut |_| true).unwrap();
    }
}

fn check_all(logs: &[Vec<u8>]) {
    for line in logs.iter().flat_map(|l| l.split(|b| *b == b'\n')).filter(|l| !l.is_empty()) {
        assert!(everlog::dsh::is_json(line));
    }
}

/// Rows of import and export; `path` holds the fleet.
pub fn run(run: &mut Run, path: &Path, logs: &[Vec<u8>]) {
    let bytes: u64 = logs.iter().map(|l| l.len() as u64).sum();
    import(run, logs, bytes);
    let store = Store::open(path, StoreOptions::default().with_read_only()).unwrap();
    let ids: Vec<_> = store.sessions().unwrap().into_iter().map(|i| i.id).collect();
    let mut out = Vec::with_capacity(64 << 20);
    for (id, packed, work) in [
        ("export", false, "export as JSONL into memory, one core (memcpy of the same bytes)"),
        (
            "export-packed",
            true,
            "export as packed rows, counted by the JSONL it stands for (memcpy)",
        ),
    ] {
        let mut copy = Vec::with_capacity(64 << 20);
        let got = alternate(
            run.config.rounds,
            || {
                timed(bytes, || {
                    for id in &ids {
                        out.clear();
                        store.export_dsh(id, packed, &mut out).unwrap();
                    }
                })
            },
            || {
                timed(bytes, || {
                    for log in logs {
                        copy.clear();
                        copy.extend_from_slice(log);
                        std::hint::black_box(&copy);
                    }
                })
            },
        );
        run.add(Row::speeds(id, work, got, Goal::AtLeast(1_000.0)));
    }
}

fn import(run: &mut Run, logs: &[Vec<u8>], bytes: u64) {
    let rounds = run.config.rounds;
    for (id, dry_run, work, goal) in [
        (
            "import",
            false,
            "import of JSONL, each log durable (one pass of the checker)",
            Goal::Share(0.6),
        ),
        (
            "import-dry",
            true,
            "import of JSONL that stores nothing (one pass of the checker)",
            Goal::Share(0.6),
        ),
    ] {
        let shared = std::cell::RefCell::new(&mut *run);
        let got = alternate(
            rounds,
            || {
                let path = shared.borrow_mut().path();
                let store = new_store(&path);
                let spent = timed(bytes, || import_all(&store, logs, dry_run));
                drop(store);
                std::fs::remove_dir_all(path).unwrap();
                spent
            },
            || timed(bytes, || check_all(logs)),
        );
        run.add(Row::speeds(id, work, got, goal));
    }
}

/// Rows of the room on disk; `path` holds the imported fleet.
pub fn disk(run: &mut Run, path: &Path, logs: &[Vec<u8>]) {
    let bytes: u64 = logs.iter().map(|l| l.len() as u64).sum();
    let events = run.config.events.max(1) as f64;
    let used = |p: &Path| read::segment_files(p).iter().map(|(_, n)| n).sum::<u64>() as f64;
    let jsonl = bytes as f64 / events;
    let row = Row::value(
        "disk-import",
        "bytes on disk an event, imported (JSONL)",
        used(path) / events,
        "B",
        Goal::RatioAtMost(0.7),
    );
    run.add(row.beside(jsonl));
    let one = run.path();
    let store = new_store(&one);
    let fleet = data::fleet(&run.config);
    let mut open = Vec::new();
    for k in 0..fleet.sessions {
        let mut w = new_session(&store, &k.to_string());
        for event in &fleet.events(k) {
            let _receipt = w.append_batch(&[data::new_event(event)], Level::Buffered).unwrap();
        }
        open.push(w);
    }
    store.sync().unwrap();
    let row = Row::value(
        "disk-single",
        "bytes on disk an event, one event a call (JSONL)",
        used(&one) / events,
        "B",
        Goal::RatioAtMost(0.7),
    );
    run.add(row.beside(jsonl));
    drop((open, store));
    std::fs::remove_dir_all(one).unwrap();
}
