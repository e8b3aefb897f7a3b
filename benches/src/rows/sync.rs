//! Appends that wait for the disk.

use std::os::unix::fs::FileExt;
use std::time::Instant;

use everlog::{Level, NewEvent};

use super::{Run, new_session, new_store};
use crate::bare;
use crate::measure::{alternate, median, quantile, timed};
use crate::table::{Goal, Row};

/// All rows of this part.
pub fn run(run: &mut Run) {
    let lone = lone(run);
    for threads in [32, 64] {
        grouped(run, threads, lone);
    }
}

/// One thread; returns how long one bare sync takes.
fn lone(run: &mut Run) -> f64 {
    let (n, rounds) = (run.config.syncs, run.config.rounds);
    let path = run.path();
    let store = new_store(&path);
    let mut w = new_session(&store, "a");
    let one = [NewEvent::new("note", b"{\"a\":1}")];
    let file_path = run.path();
    let file = bare::file(&file_path, (1 << 20) + n * 104 * rounds as u64);
    let mut at = 0;
    let before = store.io_counts();
    let got = alternate(
        rounds,
        || timed(n, || (0..n).for_each(|_| drop(w.append_batch(&one, Level::Sync).unwrap()))),
        || {
            timed(n, || {
                for _ in 0..n {
                    file.write_all_at(&[7; 104], at).unwrap();
                    file.sync_data().unwrap();
                    at += 104;
                }
            })
        },
    );
    let after = store.io_counts();
    let acks = (n * rounds as u64) as f64;
    let (writes, syncs) = (after.0 - before.0, after.1 - before.1);
    let note = format!(
        "{:.2} pwrite and {:.2} fdatasync an ack",
        writes as f64 / acks,
        syncs as f64 / acks
    );
    let row =
        Row::times("sync-1", "append `sync`, alone (pwrite + fdatasync)", got, Goal::Times(1.15));
    run.add(row.noting(note));
    drop((w, store));
    std::fs::remove_dir_all(path).unwrap();
    std::fs::remove_file(file_path).unwrap();
    got.bare.wall
}

fn grouped(run: &mut Run, threads: usize, lone_ns: f64) {
    let load = crate::measure::load();
    let path = run.path();
    let store = new_store(&path);
    let mut writers: Vec<_> = (0..threads).map(|i| new_session(&store, &i.to_string())).collect();
    let each = run.config.syncs;
    let (mut rates, mut waits) = (Vec::new(), Vec::new());
    let before = store.io_counts().1;
    for _ in 0..run.config.rounds {
        let begun = Instant::now();
        std::thread::scope(|scope| {
            let running: Vec<_> =
                writers.iter_mut().map(|w| scope.spawn(move || appends(w, each))).collect();
            for thread in running {
                waits.extend(thread.join().unwrap());
            }
        });
        rates.push((each * threads as u64) as f64 / begun.elapsed().as_secs_f64());
    }
    let syncs = store.io_counts().1 - before;
    let acks = each * threads as u64 * run.config.rounds as u64;
    let per_sync = acks as f64 / syncs.max(1) as f64;
    let note = format!(
        "{:.0} acks/s; bare alone {:.0}/s; wait p50 {:.2} ms, p99 {:.2} ms",
        median(rates),
        1e9 / lone_ns,
        quantile(&mut waits, 0.5) / 1e6,
        quantile(&mut waits, 0.99) / 1e6
    );
    let (id, work, goal) = if threads == 32 {
        (
            "sync-32",
            "append `sync`, 32 threads, a session each: acks a fdatasync",
            Goal::AtLeast(16.0),
        )
    } else {
        ("sync-64", "append `sync`, 64 threads, a session each: acks a fdatasync", Goal::None)
    };
    let mut row = Row::value(id, work, per_sync, "acks", goal).noting(note);
    row.load = load;
    run.add(row);
    drop((writers, store));
    std::fs::remove_dir_all(path).unwrap();
}

/// Appends one by one; gives how long each took.
fn appends(w: &mut everlog::SessionWriter, n: u64) -> Vec<f64> {
    let one = [NewEvent::new("note", b"1")];
    (0..n)
        .map(|_| {
            let begun = Instant::now();
            let _receipt = w.append_batch(&one, Level::Sync).unwrap();
            begun.elapsed().as_nanos() as f64
        })
        .collect()
}
