//! A receipt as a future: no runtime, no thread of its own.
//!
//! # Invariants
//! Pm1. A future that gave `Pending` has its waker kept, and it looked again after that: no wake is lost.
//! Pm2. The thread of the lane does what a future waits for, at once; where there is no thread, polling does it.
//! Pm3. In a child of `fork(2)` neither polling nor dropping takes a lock.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll};

use super::receipt::Receipt;
use crate::error::Result;
use crate::lane::bell::Goal;
use crate::options::{Level, planted};

/// Waits, as a future, until an append has reached a level. [`Receipt::durable`] and `receipt.await` make one.
///
/// Any executor will do: the waker is called by whoever writes or syncs the lane. The background thread of the lane
/// starts on that work when the future is polled first, so that nothing has to be called; one sync serves all who wait.
/// Dropping the future changes nothing about the append.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
/// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
/// use std::future::{Future, IntoFuture};
/// use std::{pin::pin, sync::Arc, task, thread};
///
/// /// The smallest executor: sleeps until it is woken.
/// fn block_on<F: Future>(future: F) -> F::Output {
///     struct Unpark(thread::Thread);
///     impl task::Wake for Unpark {
///         fn wake(self: Arc<Self>) {
///             self.0.unpark();
///         }
///     }
///     let waker = task::Waker::from(Arc::new(Unpark(thread::current())));
///     let mut future = pin!(future);
///     loop {
///         match future.as_mut().poll(&mut task::Context::from_waker(&waker)) {
///             task::Poll::Ready(out) => return out,
///             task::Poll::Pending => thread::park(),
///         }
///     }
/// }
///
/// use everlog::{Level, NewEvent};
/// let receipt = writer.append_batch(&[NewEvent::new("note", b"1")], Level::Buffered)?;
/// block_on(receipt.durable(Level::Os))?;
/// block_on(receipt.into_future())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "a future does nothing unless it is polled"]
pub struct ReceiptFuture {
    receipt: Receipt,
    goal: Option<Goal>,
    level: Level,
    key: Option<u64>,
}

impl Receipt {
    /// A future that is ready when the events have reached a level.
    ///
    /// # Errors
    /// The future gives `Poisoned` or `OutcomeUnknown` when the events have not reached the level and never will,
    /// `ForkedHandle`.
    ///
    /// # Durability
    /// With [`Level::Sync`] the events survive the machine when the future is ready.
    pub fn durable(&self, level: Level) -> ReceiptFuture {
        let goal = match level {
            Level::Buffered => None,
            Level::Os => Some(Goal::Written(self.pos)),
            Level::Sync => Some(Goal::Durable(self.pos)),
        };
        ReceiptFuture { receipt: self.clone(), goal, level, key: None }
    }
}

impl IntoFuture for Receipt {
    type Output = Result<()>;
    type IntoFuture = ReceiptFuture;

    /// As [`Receipt::durable`] with [`Level::Sync`].
    fn into_future(self) -> ReceiptFuture {
        self.durable(Level::Sync)
    }
}

impl Future for ReceiptFuture {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let (level, Some(goal)) = (self.level, self.goal) else {
            return Poll::Ready(self.receipt.guard());
        };
        match self.receipt.poll(level) {
            Ok(false) => {}
            done => return Poll::Ready(done.map(drop)),
        }
        let lane = self.receipt.lane.clone();
        if planted!(lane.options, WakeLost) {
            lane.promises.ask(goal);
            // Long enough for the sync to be over.
            std::thread::sleep(std::time::Duration::from_millis(20));
            self.key = Some(lane.promises.register(goal, self.key, cx.waker()));
            return Poll::Pending;
        }
        self.key = Some(lane.promises.register(goal, self.key, cx.waker()));
        // What came in between rang before the waker was there.
        match self.receipt.poll(level) {
            Ok(false) => {}
            done => return Poll::Ready(done.map(drop)),
        }
        if lane.promises.ask(goal) {
            return Poll::Pending;
        }
        Poll::Ready(self.receipt.wait(level))
    }
}

impl Drop for ReceiptFuture {
    fn drop(&mut self) {
        if let (Some(goal), Some(key)) = (self.goal, self.key)
            && self.receipt.guard().is_ok()
        {
            self.receipt.lane.promises.forget(goal, key);
        }
    }
}
