//! Reads: scans, single events, the last ones.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

use everlog::{CheckOptions, ReadMode, Session, Store, StoreOptions};
use everlog_testkit::rng::Rng;

use super::Run;
use crate::bare;
use crate::measure::{alternate, quantile, repeat, timed};
use crate::table::{Goal, Row};

/// Bytes under one checksum of the bare scan.
const PART: usize = 4_096;

/// All rows of this part, on the fleet's store at `path`.
pub fn run(run: &mut Run, path: &Path) {
    let store = Store::open(path, StoreOptions::default().with_read_only()).unwrap();
    let files = segment_files(path);
    scans(run, &store, &files);
    points(run, path, &files);
    let sessions = sessions(&store);
    let n = run.config.points.min(4_000);
    let spent = repeat(run.config.rounds, || {
        timed(n, || {
            for session in sessions.iter().cycle().take(n as usize) {
                assert!(session.last(50).map(Result::unwrap).count() > 0);
            }
        })
    });
    let row = Row::value(
        "last-50",
        "the last 50 events of a session",
        spent.wall / 1e3,
        "us",
        Goal::AtMost(100.0),
    );
    run.add(row);
}

fn sessions(store: &Store) -> Vec<Session> {
    store.sessions().unwrap().iter().map(|i| store.session(&i.id).unwrap()).collect()
}

/// The segment files of a store with the bytes of each that hold anything.
///
/// # Panics
/// When one cannot be read.
#[must_use]
pub fn segment_files(store: &Path) -> Vec<(File, u64)> {
    let mut out = Vec::new();
    let mut folders = vec![store.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            } else if entry.metadata().unwrap().len() >= 256 << 10 {
                let bytes = std::fs::read(entry.path()).unwrap();
                // What stands at the very end is a trailer; before it lies room that was given back.
                let frames = &bytes[..bytes.len() - 4_096];
                let used = frames.iter().rposition(|b| *b != 0).map_or(0, |i| i + 1);
                out.push((File::open(entry.path()).unwrap(), used as u64));
            }
        }
    }
    out
}

fn scans(run: &mut Run, store: &Store, files: &[(File, u64)]) {
    let rounds = run.config.rounds;
    let sessions = sessions(store);
    let bytes: u64 = files.iter().map(|(_, n)| n).sum();
    let mut buf = vec![0; bare::BLOCK_BYTES];
    let got = alternate(
        rounds,
        || {
            let mut seen = 0;
            let spent = timed(bytes, || {
                for session in &sessions {
                    let each = &mut |e: &everlog::EventRef<'_>| {
                        seen += e.data.len();
                        Ok(())
                    };
                    session.for_each(0, u64::MAX - 1, each).unwrap();
                }
            });
            assert!(seen > 0);
            spent
        },
        || bare::scan(files, PART, &mut buf),
    );
    run.add(Row::speeds(
        "scan-sessions",
        "scan of every session by for_each (pread 256 KiB + crc of the same files)",
        got,
        Goal::Share(0.7),
    ));
    let quick = CheckOptions { quick: true, ..CheckOptions::default() };
    let got = alternate(
        rounds,
        || timed(bytes, || assert!(store.check(&quick, &mut |_, _| true).unwrap().is_clean())),
        || bare::scan(files, PART, &mut buf),
    );
    run.add(Row::speeds(
        "scan-check-quick",
        "quick check: every frame of the lane in order (pread 256 KiB + crc)",
        got,
        Goal::Share(0.7),
    ));
    let whole = CheckOptions::default();
    let spent = repeat(rounds.min(3), || {
        timed(bytes, || assert!(store.check(&whole, &mut |_, _| true).unwrap().is_clean()))
    });
    run.add(Row::value("check", "whole check", 1e3 / spent.wall, "MB/s", Goal::None));
}

fn points(run: &mut Run, path: &Path, files: &[(File, u64)]) {
    for (id, mode, work, goal) in [
        (
            "point-map",
            ReadMode::Map,
            "one event by (session, seq), random, by map: p50 (pread of 256 B)",
            Goal::AtMost(1_000.0),
        ),
        ("point-pread", ReadMode::Pread, "the same by pread: p50 (pread of 256 B)", Goal::None),
    ] {
        let options = StoreOptions::default().with_read_only().with_read_mode(mode);
        let store = Store::open(path, options).unwrap();
        let sessions = sessions(&store);
        let mut rng = Rng::new(run.config.seed);
        let (mut ours, mut bare) = (Vec::new(), Vec::new());
        let mut small = [0; 256];
        let load = crate::measure::load();
        for i in 0..run.config.points + run.config.points / 10 {
            let session = &sessions[rng.index(sessions.len())];
            let seq = rng.below(session.next_seq());
            let begun = Instant::now();
            assert!(session.with(seq, &mut |e| e.data.len()).unwrap() > 0);
            let o = begun.elapsed().as_nanos() as f64;
            let (file, used) = &files[rng.index(files.len())];
            let at = rng.below(used.saturating_sub(256).max(1));
            let begun = Instant::now();
            file.read_exact_at(&mut small, at).unwrap();
            let b = begun.elapsed().as_nanos() as f64;
            // The first tenth warms up.
            if i >= run.config.points / 10 {
                ours.push(o);
                bare.push(b);
            }
        }
        let mut row = Row::value(id, work, quantile(&mut ours, 0.5), "ns", goal);
        row = row.beside(quantile(&mut bare, 0.5)).noting(format!(
            "p99 {:.0} / {:.0} ns",
            quantile(&mut ours, 0.99),
            quantile(&mut bare, 0.99)
        ));
        row.load = load;
        run.add(row);
    }
}
