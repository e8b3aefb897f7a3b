//! What happens in a child of `fork(2)`: a number changes, and descriptors that hold locks are closed.
//!
//! # Invariants
//! K1. The handler does only what is allowed after fork in a process with threads: atomic operations and `close`.
//! K2. A descriptor stands in the table while its file is open in the process that registered it; whoever takes it out,
//!     the owner or the handler in the child, is the only one to close it.
#![expect(unsafe_code, reason = "the handler is called by the C library")]

use std::os::fd::RawFd;
use std::sync::Once;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

const SLOTS: usize = 4_096;
const FREE: i32 = -1;

static GENERATION: AtomicU64 = AtomicU64::new(0);
static TABLE: [AtomicI32; SLOTS] = [const { AtomicI32::new(FREE) }; SLOTS];
static ONCE: Once = Once::new();

extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    for slot in &TABLE {
        let fd = slot.swap(FREE, Ordering::Relaxed);
        if fd != FREE {
            // SAFETY: the descriptor was open in the parent when it forked (K2), so it is open here, and its owner in
            // this child leaves it alone because the generation has changed. `close` is async-signal-safe (K1).
            unsafe {
                libc::close(fd);
            }
        }
    }
}

/// Number that differs in a child of `fork(2)`. One relaxed load, no system call.
pub(crate) fn generation() -> u64 {
    ONCE.call_once(|| {
        // SAFETY: `in_child` is a plain function that lives for ever and keeps to K1; no other handler is passed.
        unsafe {
            libc::pthread_atfork(None, None, Some(in_child));
        }
    });
    GENERATION.load(Ordering::Relaxed)
}

/// Has a descriptor closed in children. With a full table it is kept there: then an orphan holds the lock as long as
/// it lives.
pub(crate) fn register(fd: RawFd) {
    generation();
    for slot in &TABLE {
        if slot.compare_exchange(FREE, fd, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            return;
        }
    }
}

/// Takes a descriptor out again, before it is closed.
pub(crate) fn forget(fd: RawFd) {
    for slot in &TABLE {
        if slot.compare_exchange(fd, FREE, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            return;
        }
    }
}
