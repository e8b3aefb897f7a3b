//! Receipts as futures, under executors written here: no runtime, and no wake that is lost.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, reason = "tests")]

use std::future::{Future, IntoFuture};
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use everlog::{
    ErrorKind, Level, NewEvent, NewSession, Receipt, SessionWriter, Store, StoreOptions,
};
use everlog_testkit::sim::{Call, FaultError, FaultPlan, SimMachine};

/// Far beyond what a loaded machine needs.
const PATIENCE: Duration = Duration::from_secs(30);

struct Unpark {
    thread: Thread,
    wakes: AtomicU64,
}

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.wakes.fetch_add(1, Ordering::SeqCst);
        self.thread.unpark();
    }
}

fn unpark() -> Arc<Unpark> {
    Arc::new(Unpark { thread: std::thread::current(), wakes: AtomicU64::new(0) })
}

/// Polls when it is woken, and never else. `None` when no wake comes in time.
fn block_on<F: Future>(future: F, patience: Duration) -> Option<F::Output> {
    let waking = unpark();
    let waker = Waker::from(waking.clone());
    let mut future = pin!(future);
    let until = Instant::now() + patience;
    let mut seen = 0;
    loop {
        if let Poll::Ready(out) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(out);
        }
        while waking.wakes.load(Ordering::SeqCst) == seen {
            let left = until.checked_duration_since(Instant::now())?;
            std::thread::park_timeout(left);
        }
        seen = waking.wakes.load(Ordering::SeqCst);
    }
}

/// Nothing is synced but what is asked for.
fn lazy() -> StoreOptions {
    StoreOptions::default().with_sync_delay_ms(3_600_000)
}

fn site(path: &Path, options: StoreOptions) -> (Store, SessionWriter) {
    let store = Store::create(path, options).unwrap();
    let w = store.create_session(&NewSession::new("s").unwrap()).unwrap();
    (store, w)
}

fn append(w: &mut SessionWriter, level: Level) -> Receipt {
    w.append_batch(&[NewEvent::new("note", b"1")], level).unwrap()
}

#[test]
fn a_future_has_its_work_done_and_is_woken() {
    let folder = tempfile::tempdir().unwrap();
    let (_store, mut w) = site(&folder.path().join("s"), lazy());
    for _ in 0..50 {
        let receipt = append(&mut w, Level::Buffered);
        assert!(!receipt.poll(Level::Sync).unwrap());
        block_on(receipt.durable(Level::Buffered), Duration::ZERO).unwrap().unwrap();
        block_on(receipt.durable(Level::Os), PATIENCE).unwrap().unwrap();
        assert!(receipt.poll(Level::Os).unwrap());
        block_on(receipt.clone().into_future(), PATIENCE).unwrap().unwrap();
        assert!(receipt.poll(Level::Sync).unwrap());
    }
}

/// All of them, each polled again only when something was woken.
struct All(Vec<Pin<Box<dyn Future<Output = everlog::Result<()>>>>>);

impl Future for All {
    type Output = everlog::Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut failed = None;
        self.0.retain_mut(|f| match f.as_mut().poll(cx) {
            Poll::Pending => true,
            Poll::Ready(out) => {
                failed = failed.take().or(out.err());
                false
            }
        });
        match failed {
            Some(e) => Poll::Ready(Err(e)),
            None if self.0.is_empty() => Poll::Ready(Ok(())),
            None => Poll::Pending,
        }
    }
}

#[test]
fn one_sync_serves_many_futures() {
    let folder = tempfile::tempdir().unwrap();
    let (store, mut w) = site(&folder.path().join("s"), lazy());
    let receipts: Vec<Receipt> = (0..1_000).map(|_| append(&mut w, Level::Buffered)).collect();
    let before = store.io_counts().1;
    let all = All(receipts.iter().map(|r| Box::pin(r.durable(Level::Sync)) as _).collect());
    block_on(all, PATIENCE).unwrap().unwrap();
    let syncs = store.io_counts().1 - before;
    assert!((1..=20).contains(&syncs), "{syncs} syncs");
}

#[test]
fn a_sync_that_comes_while_a_future_is_polled_wakes_it() {
    let folder = tempfile::tempdir().unwrap();
    let (store, mut w) = site(&folder.path().join("s"), lazy());
    let stop = AtomicBool::new(false);
    let waits = std::thread::scope(|s| {
        s.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                store.sync().unwrap();
                std::thread::yield_now();
            }
        });
        let until = Instant::now() + Duration::from_secs(1);
        let mut waits = 0;
        while Instant::now() < until {
            let receipt = append(&mut w, Level::Buffered);
            let done = block_on(receipt.durable(Level::Sync), PATIENCE);
            if done.is_none() {
                stop.store(true, Ordering::Relaxed);
            }
            done.expect("a wake was lost").unwrap();
            waits += 1;
        }
        stop.store(true, Ordering::Relaxed);
        waits
    });
    println!("{waits} futures against a thread that syncs");
}

#[test]
fn a_future_that_is_dropped_is_not_woken_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (store, mut w) = site(&folder.path().join("s"), lazy());
    let receipt = append(&mut w, Level::Buffered);
    let waking = unpark();
    let waker = Waker::from(waking.clone());
    let mut future = receipt.durable(Level::Sync);
    let _pending = Pin::new(&mut future).poll(&mut Context::from_waker(&waker));
    drop(future);
    drop(waker);
    store.sync().unwrap();
    let until = Instant::now() + PATIENCE;
    // The lane holds no waker any more, once a wake that was under way is over.
    while Arc::strong_count(&waking) > 1 {
        assert!(Instant::now() < until, "the waker is kept");
        std::thread::yield_now();
    }
    assert!(receipt.poll(Level::Sync).unwrap());
}

#[test]
fn without_threads_polling_does_the_work_and_a_failure_is_told() {
    let machine = SimMachine::new(1);
    let process = machine.process("p");
    let store =
        Store::create_on(Arc::new(process.clone()), Path::new("/s"), StoreOptions::default());
    let store = store.unwrap();
    let mut w = store.create_session(&NewSession::new("s").unwrap()).unwrap();
    let receipt = append(&mut w, Level::Buffered);
    block_on(receipt.durable(Level::Sync), Duration::ZERO).unwrap().unwrap();
    let late = append(&mut w, Level::Os);
    machine.fail(FaultPlan::new(&[Call::SyncData], 1, FaultError::Io).only(&process));
    let failed = block_on(late.durable(Level::Sync), Duration::ZERO).unwrap().unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::OutcomeUnknown);
    let after = block_on(late.into_future(), Duration::ZERO).unwrap().unwrap_err();
    assert_eq!(after.kind(), ErrorKind::Poisoned);
    block_on(receipt.into_future(), Duration::ZERO).unwrap().unwrap();
}

#[test]
fn closing_the_store_completes_what_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let (store, mut w) = site(&folder.path().join("s"), lazy());
    let receipt = append(&mut w, Level::Buffered);
    let waiting = std::thread::spawn(move || block_on(receipt.into_future(), PATIENCE));
    w.close().unwrap();
    store.close().unwrap();
    waiting.join().unwrap().unwrap().unwrap();
}

#[cfg(feature = "planted")]
#[test]
fn planted_wake_lost_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let lying = lazy().with_planted(everlog::Planted::WakeLost);
    let (_store, mut w) = site(&folder.path().join("s"), lying);
    let lost = (0..20).any(|_| {
        let receipt = append(&mut w, Level::Buffered);
        block_on(receipt.durable(Level::Sync), Duration::from_secs(1)).is_none()
    });
    assert!(lost, "20 futures were woken all the same");
}
