//! Independent pieces of work on several threads, with their results in the order of the pieces.
//!
//! # Invariants
//! P1. `take` sees every result exactly once and in order, on the calling thread.
//! P2. After `take` fails or a signal came, no further piece is begun.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use crate::exit::{FAILED, Failure};
use crate::signal;

const TICK: Duration = Duration::from_millis(100);

/// Number of threads for `pieces` pieces: what was asked for, or one a core.
pub(crate) fn jobs(asked: Option<u16>, pieces: usize) -> usize {
    let cores = || thread::available_parallelism().map_or(1, usize::from);
    asked.map_or_else(cores, usize::from).clamp(1, pieces.max(1))
}

/// Does `work` on the pieces `0..pieces` and hands every result to `take`; `tick` runs about ten times a second.
pub(crate) fn run<R: Send>(
    pieces: usize,
    jobs: usize,
    work: impl Fn(usize) -> R + Sync,
    mut take: impl FnMut(usize, R) -> Result<(), Failure>,
    mut tick: impl FnMut(),
) -> Result<(), Failure> {
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (send, results) = channel();
    thread::scope(|scope| {
        for begun in 0..jobs {
            let (send, work, next, stop) = (send.clone(), &work, &next, &stop);
            let worker = move || {
                while !stop.load(Ordering::Relaxed) && signal::check().is_ok() {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    if i >= pieces || send.send((i, work(i))).is_err() {
                        return;
                    }
                }
            };
            match thread::Builder::new().spawn_scoped(scope, worker) {
                Ok(_) => {}
                // Fewer do the same, more slowly.
                Err(_) if begun > 0 => break,
                Err(e) => return Err(Failure::new(FAILED, "io", format!("start a thread: {e}"))),
            }
        }
        drop(send);
        let (mut early, mut due) = (BTreeMap::new(), 0);
        loop {
            match results.recv_timeout(TICK) {
                Ok((i, result)) => early.insert(i, result),
                Err(RecvTimeoutError::Timeout) => {
                    tick();
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => return signal::check(),
            };
            tick();
            while let Some(result) = early.remove(&due) {
                if let Err(failure) = take(due, result) {
                    stop.store(true, Ordering::Relaxed);
                    return Err(failure);
                }
                due += 1;
            }
        }
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]
    use super::*;

    #[test]
    fn p1_results_come_in_order() {
        let mut seen = Vec::new();
        let slow_first = |i: usize| {
            thread::sleep(Duration::from_millis(if i == 0 { 50 } else { 1 }));
            i * 10
        };
        run(
            20,
            4,
            slow_first,
            |i, r| {
                seen.push((i, r));
                Ok(())
            },
            || {},
        )
        .unwrap();
        assert_eq!(seen, (0..20).map(|i| (i, i * 10)).collect::<Vec<_>>());
    }

    #[test]
    fn p2_a_failure_stops_the_rest() {
        let begun = AtomicUsize::new(0);
        let work = |_| {
            begun.fetch_add(1, Ordering::Relaxed);
            thread::sleep(Duration::from_millis(5));
        };
        let stop = |_, ()| Err(Failure::usage("stop"));
        assert!(run(1_000, 2, work, stop, || {}).is_err());
        assert!(begun.load(Ordering::Relaxed) < 20);
    }
}
