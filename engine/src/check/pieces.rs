//! Independent pieces of a check on several threads, with their results in the order of the pieces.
//!
//! # Invariants
//! Cp1. `take` sees the results in order, on the calling thread; the first error in that order is the one returned.
//! Cp2. After an error no further piece is begun, but those that threads have begun already.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;

use crate::error::Result;

/// Does `work` on the pieces `0..pieces` with up to `jobs` threads, and hands each result to `take`.
pub(super) fn in_order<T: Send>(
    jobs: usize,
    pieces: usize,
    work: &(dyn Fn(usize) -> Result<T> + Sync),
    take: &mut dyn FnMut(usize, T) -> Result<()>,
) -> Result<()> {
    let jobs = jobs.min(pieces);
    if jobs <= 1 {
        return (0..pieces).try_for_each(|i| take(i, work(i)?));
    }
    let next = AtomicUsize::new(0);
    let (send, results) = channel();
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            let (send, next) = (send.clone(), &next);
            scope.spawn(move || {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    // Nobody listens any more after an error.
                    if i >= pieces || send.send((i, work(i))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(send);
        let (mut early, mut due) = (BTreeMap::new(), 0);
        // Owned here, so that it is gone before the threads are waited for.
        for (i, result) in results {
            early.insert(i, result);
            while let Some(result) = early.remove(&due) {
                take(due, result?)?;
                due += 1;
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::sync::Barrier;

    use super::*;
    use crate::error::Error;

    #[test]
    fn cp1_pieces_run_at_the_same_time_and_come_in_order() {
        // Each waits for another one: with one thread this would not end.
        let pair = Barrier::new(2);
        let work = |i: usize| {
            pair.wait();
            Ok(i * 10)
        };
        let mut seen = Vec::new();
        let mut take = |i, r| {
            seen.push((i, r));
            Ok(())
        };
        in_order(2, 20, &work, &mut take).unwrap();
        assert_eq!(seen, (0..20).map(|i| (i, i * 10)).collect::<Vec<_>>());
    }

    #[test]
    fn cp2_the_first_error_in_order_ends_it() {
        for jobs in [1, 4] {
            let begun = AtomicUsize::new(0);
            let work = |i: usize| {
                begun.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(std::time::Duration::from_millis(if i == 3 { 20 } else { 1 }));
                if i == 3 || i == 4 {
                    return Err(Error::invalid("piece", i));
                }
                Ok(i)
            };
            let mut taken = 0;
            let err = in_order(jobs, 10_000, &work, &mut |_, _| {
                taken += 1;
                Ok(())
            });
            assert!(err.unwrap_err().to_string().contains('3'));
            assert_eq!(taken, 3);
            assert!(begun.load(Ordering::Relaxed) < 1_000);
        }
    }
}
