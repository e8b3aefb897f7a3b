//! The gate before the sync: one leader at a time, and all who came while it was busy wake at once.
//!
//! # Invariants
//! Ga1. At most one thread leads.
//! Ga2. Who finds the gate busy sleeps until the leader is done; all sleepers are woken then, none hands a lock to the
//!      next, so that they can stage their next events while one of them leads.
//! Ga3. A leader waits for others only when others shared the sync before, never longer than the bound it is given,
//!      and not at all once as many have come as shared that sync. Who is alone never waits.
//!
//! A mutex would not do: its waiters get it one after the other, and each that has nothing left to do in its turn is
//! replaced by one that syncs a single event.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The gate.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    busy: Mutex<bool>,
    done: Condvar,
    /// Threads that came while the present leader leads. Those of the round before are still waking up meanwhile.
    came: AtomicUsize,
    /// Counts the leaders; changed under the lock.
    round: AtomicUsize,
    /// Threads that shared the last sync, the leader counted.
    shared: AtomicUsize,
}

/// The right to lead; given back when dropped.
#[derive(Debug)]
pub(crate) struct Lead<'g> {
    gate: &'g Gate,
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, bool> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leads, or waits for the leader and then returns `None`: the caller looks again whether it still needs one.
    pub(crate) fn enter(&self) -> Option<Lead<'_>> {
        let mut busy = self.lock();
        if !*busy {
            *busy = true;
            return Some(Lead { gate: self });
        }
        self.came.fetch_add(1, Ordering::Relaxed);
        let round = self.round.load(Ordering::Relaxed);
        while *busy && self.round.load(Ordering::Relaxed) == round {
            busy = self.done.wait(busy).unwrap_or_else(PoisonError::into_inner);
        }
        None
    }
}

impl Lead<'_> {
    /// Gives those who shared the last sync the chance to come again (Ga3). `now_ns` is a clock.
    pub(crate) fn gather(&self, bound_ns: u64, now_ns: &dyn Fn() -> u64) {
        let wanted = self.gate.shared.load(Ordering::Relaxed).saturating_sub(1);
        if wanted == 0 {
            return;
        }
        let begun = now_ns();
        let (mut seen, mut seen_at) = (self.gate.came.load(Ordering::Relaxed), begun);
        while seen < wanted {
            std::thread::yield_now();
            let (here, now) = (self.gate.came.load(Ordering::Relaxed), now_ns());
            if here > seen {
                seen_at = now;
            }
            seen = here;
            // Nobody came for a while: those who shared the last sync have stopped.
            if now.saturating_sub(begun) > bound_ns || now.saturating_sub(seen_at) > bound_ns / 4 {
                return;
            }
        }
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        let mut busy = self.gate.lock();
        let came = self.gate.came.swap(0, Ordering::Relaxed);
        self.gate.shared.store(came + 1, Ordering::Relaxed);
        self.gate.round.fetch_add(1, Ordering::Relaxed);
        *busy = false;
        drop(busy);
        self.gate.done.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn ga1_one_leads_and_the_others_wake() {
        let (gate, leading, led) = (Gate::default(), AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|s| {
            for _ in 0..8 {
                s.spawn(|| {
                    for _ in 0..200 {
                        if let Some(lead) = gate.enter() {
                            assert_eq!(leading.fetch_add(1, Ordering::SeqCst), 0);
                            led.fetch_add(1, Ordering::SeqCst);
                            std::thread::yield_now();
                            leading.fetch_sub(1, Ordering::SeqCst);
                            drop(lead);
                        }
                    }
                });
            }
        });
        assert!(led.load(Ordering::SeqCst) >= 200);
    }

    #[test]
    fn ga3_who_is_alone_does_not_wait() {
        let gate = Gate::default();
        for _ in 0..3 {
            let lead = gate.enter();
            let clock = || -> u64 { unreachable!("nobody else came") };
            if let Some(lead) = &lead {
                lead.gather(1_000_000_000, &clock);
            }
            assert!(lead.is_some());
        }
    }
}
