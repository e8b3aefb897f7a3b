//! Waking those who wait for a lane to move: followers of its sessions, and the futures of receipts.
//!
//! # Invariants
//! Be1. Who listens, then looks, then waits, is woken by every change that the look did not see: listening comes first,
//!      and a ring counts from the moment of listening on.
//! Be2. A ring costs no system call and takes no lock while nobody listens.
//! Be3. A waker is called with no lock held, once its position is reached or never will be.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

/// Rung when a lane of this handle got a frame, was written, or became durable.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    listeners: AtomicUsize,
    rings: Mutex<u64>,
    rung: Condvar,
}

/// One who listens; stops when dropped.
#[derive(Debug)]
pub(crate) struct Listener<'b> {
    bell: &'b Bell,
    heard: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Bell {
    /// Listens from now on.
    pub(crate) fn listen(&self) -> Listener<'_> {
        self.listeners.fetch_add(1, Ordering::SeqCst);
        // Against the fence in `ring`: one of the two sees what the other did before it.
        fence(Ordering::SeqCst);
        Listener { bell: self, heard: *lock(&self.rings) }
    }

    /// Tells of a change that was made by atomics.
    pub(crate) fn ring(&self) {
        fence(Ordering::SeqCst);
        self.ring_after_lock();
    }

    /// Tells of a change that was made under a lock which the look of a listener takes as well: its unlocking orders
    /// the change and the listening, so that no fence is needed.
    pub(crate) fn ring_after_lock(&self) {
        if self.listeners.load(Ordering::SeqCst) == 0 {
            return;
        }
        *lock(&self.rings) += 1;
        self.rung.notify_all();
    }
}

impl Listener<'_> {
    /// Waits for a ring that was not heard yet, no longer than `most`; whether there was one.
    pub(crate) fn wait(&mut self, most: Duration) -> bool {
        let heard = self.heard;
        let rings = lock(&self.bell.rings);
        let waited = self.bell.rung.wait_timeout_while(rings, most, |rings| *rings == heard);
        self.heard = *waited.unwrap_or_else(PoisonError::into_inner).0;
        self.heard != heard
    }
}

impl Drop for Listener<'_> {
    fn drop(&mut self) {
        self.bell.listeners.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Positions of a lane that somebody waits for.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Reach {
    pub(crate) written: u64,
    pub(crate) durable: u64,
}

/// What a future waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Goal {
    Written(u64),
    Durable(u64),
}

/// Wakers by position and by the key of their future.
type Wakers = BTreeMap<(u64, u64), Waker>;

/// The futures that wait for a lane, and what they ask its thread to do.
#[derive(Debug, Default)]
pub(crate) struct Promises {
    count: AtomicUsize,
    /// Whether a thread does what is asked for.
    tended: AtomicBool,
    ledger: Mutex<Ledger>,
    work: Condvar,
}

#[derive(Debug, Default)]
struct Ledger {
    next_key: u64,
    written: Wakers,
    durable: Wakers,
    asked: Reach,
}

impl Ledger {
    fn wakers(&mut self, goal: Goal) -> (&mut Wakers, u64) {
        match goal {
            Goal::Written(pos) => (&mut self.written, pos),
            Goal::Durable(pos) => (&mut self.durable, pos),
        }
    }

    /// Takes out the wakers up to `pos`.
    fn take(wakers: &mut Wakers, pos: u64, out: &mut Vec<Waker>) {
        while let Some(first) = wakers.first_entry().filter(|e| e.key().0 <= pos) {
            out.push(first.remove());
        }
    }
}

impl Promises {
    /// Keeps the waker of a future; `key` is what an earlier call for the same future gave.
    pub(crate) fn register(&self, goal: Goal, key: Option<u64>, waker: &Waker) -> u64 {
        let mut ledger = lock(&self.ledger);
        let key = key.unwrap_or(ledger.next_key);
        ledger.next_key = ledger.next_key.max(key + 1);
        let (wakers, pos) = ledger.wakers(goal);
        if wakers.insert((pos, key), waker.clone()).is_none() {
            self.count.fetch_add(1, Ordering::SeqCst);
        }
        drop(ledger);
        // Against the fence in `ring`: the caller looks again, or its waker is seen there.
        fence(Ordering::SeqCst);
        key
    }

    /// Forgets a future.
    pub(crate) fn forget(&self, goal: Goal, key: u64) {
        let mut ledger = lock(&self.ledger);
        let (wakers, pos) = ledger.wakers(goal);
        if wakers.remove(&(pos, key)).is_some() {
            self.count.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Asks the thread of the lane for what a future waits for; `false` when there is none.
    pub(crate) fn ask(&self, goal: Goal) -> bool {
        if !self.tended.load(Ordering::Acquire) {
            return false;
        }
        let mut ledger = lock(&self.ledger);
        match goal {
            Goal::Written(pos) => ledger.asked.written = ledger.asked.written.max(pos),
            Goal::Durable(pos) => ledger.asked.durable = ledger.asked.durable.max(pos),
        }
        drop(ledger);
        self.work.notify_one();
        true
    }

    /// Takes what was asked for.
    pub(crate) fn asked(&self) -> Reach {
        std::mem::take(&mut lock(&self.ledger).asked)
    }

    /// Waits until something is asked for, no longer than `most`.
    pub(crate) fn wait_for_work(&self, most: Duration) {
        let none = |l: &mut Ledger| l.asked == Reach::default();
        let waited = self.work.wait_timeout_while(lock(&self.ledger), most, none);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Says whether a thread does what is asked for.
    pub(crate) fn tend(&self, tended: bool) {
        self.tended.store(tended, Ordering::Release);
    }

    /// Wakes those whose position is reached; all of them when the lane `failed`. The bell was rung before: its fence
    /// stands between the change and this.
    pub(crate) fn settle(&self, reached: &dyn Fn() -> Reach, failed: &dyn Fn() -> bool) {
        if self.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        let end = Reach { written: u64::MAX, durable: u64::MAX };
        let reached = if failed() { end } else { reached() };
        let mut woken = Vec::new();
        let mut ledger = lock(&self.ledger);
        Ledger::take(&mut ledger.written, reached.written, &mut woken);
        Ledger::take(&mut ledger.durable, reached.durable, &mut woken);
        self.count.fetch_sub(woken.len(), Ordering::SeqCst);
        drop(ledger);
        for waker in woken {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;

    /// A reader that listens, looks and waits, against a writer that changes and rings: a change that is not seen within
    /// the patience of the reader was lost.
    #[test]
    fn be1_no_ring_is_lost() {
        let (bell, value) = (Arc::new(Bell::default()), Arc::new(AtomicU64::new(0)));
        let rounds = 20_000;
        let (theirs, written) = (bell.clone(), value.clone());
        let seen = Arc::new(AtomicU64::new(0));
        let told = seen.clone();
        let writer = std::thread::spawn(move || {
            for n in 1..=rounds {
                written.store(n, Ordering::Relaxed);
                theirs.ring();
                while told.load(Ordering::Acquire) < n {
                    std::thread::yield_now();
                }
            }
        });
        let patience = Duration::from_secs(20);
        for n in 1..=rounds {
            let mut listener = bell.listen();
            while value.load(Ordering::Relaxed) < n {
                assert!(listener.wait(patience), "ring {n} was lost");
            }
            drop(listener);
            seen.store(n, Ordering::Release);
        }
        assert!(writer.join().is_ok());
        assert_eq!(bell.listeners.load(Ordering::SeqCst), 0);
    }

    struct Count(AtomicUsize);

    impl std::task::Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn be3_wakers_are_called_once_their_position_is_reached() {
        let (promises, counts) = (Promises::default(), Arc::new(Count(AtomicUsize::new(0))));
        let waker = Waker::from(counts.clone());
        let woken = || counts.0.load(Ordering::SeqCst);
        let settle = |written, durable, failed| {
            promises.settle(&|| Reach { written, durable }, &|| failed);
        };
        let first = promises.register(Goal::Written(10), None, &waker);
        let second = promises.register(Goal::Durable(10), None, &waker);
        assert_ne!(first, second);
        assert_eq!(promises.register(Goal::Durable(10), Some(second), &waker), second);
        settle(9, 0, false);
        assert_eq!(woken(), 0);
        settle(10, 9, false);
        assert_eq!(woken(), 1);
        settle(10, 9, true);
        assert_eq!(woken(), 2);
        let third = promises.register(Goal::Durable(20), None, &waker);
        promises.forget(Goal::Durable(20), third);
        promises.forget(Goal::Written(10), first);
        settle(99, 99, false);
        assert_eq!((woken(), promises.count.load(Ordering::SeqCst)), (2, 0));
        assert!(!promises.ask(Goal::Durable(1)), "nobody tends it");
        promises.tend(true);
        assert!(promises.ask(Goal::Durable(1)) && promises.ask(Goal::Written(3)));
        promises.wait_for_work(Duration::from_secs(20));
        assert_eq!(promises.asked(), Reach { written: 3, durable: 1 });
        assert_eq!(promises.asked(), Reach::default());
    }
}
