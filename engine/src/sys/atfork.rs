//! What happens in a child of `fork(2)`: it learns that it is one, and gives up the descriptors that carry locks.
//!
//! A lock that belongs to an open file lasts until the last descriptor of it is closed, in whatever process. So a
//! child that keeps one would keep the lock of a parent that died.
//!
//! # Invariants
//! A1. The child's handler only touches atomics and calls `close(2)`: both are safe between `fork` and `exec` in a
//!     process that had more threads.
//! A2. A number is in the table only while this process has that descriptor open: it is taken out before it is
//!     closed, so the handler never closes a descriptor that belongs to someone else.
//! A3. The generation only grows. It is read without a call of the system.
//!
//! Children made by a bare `clone(2)` or `vfork(2)` run no handlers; those that call `exec` at once lose the
//! descriptors there (`O_CLOEXEC`).
#![cfg_attr(target_os = "linux", expect(unsafe_code, reason = "pthread_atfork(3) and close(2)"))]

#[cfg(target_os = "linux")]
pub(crate) use linux::{forget_lock_fd, generation, install, register_lock_fd};
#[cfg(not(target_os = "linux"))]
pub(crate) use other::{forget_lock_fd, generation, install, register_lock_fd};

#[cfg(target_os = "linux")]
mod linux {
    use std::io;
    use std::os::fd::RawFd;
    use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

    /// Most lock descriptors that are known at once.
    const SLOTS: usize = 4096;
    const FREE: i32 = -1;

    static GENERATION: AtomicU64 = AtomicU64::new(0);
    static INSTALLED: AtomicBool = AtomicBool::new(false);
    static LOCK_FDS: [AtomicI32; SLOTS] = [const { AtomicI32::new(FREE) }; SLOTS];

    /// Makes children of `fork` run the handler. No `Once`: a child of a fork amid it would wait for ever. Threads
    /// that race here install the handler twice, and it then counts a fork twice, which is as good.
    ///
    /// Must have returned `Ok` before the first descriptor is registered.
    pub(crate) fn install() -> io::Result<()> {
        if INSTALLED.load(Ordering::Relaxed) {
            return Ok(());
        }
        // SAFETY: `in_child` is a function of this program with the C calling convention; it does not unwind (no
        // indexing, no arithmetic that can overflow in practice) and is safe to run in a child (A1).
        match unsafe { libc::pthread_atfork(None, None, Some(in_child)) } {
            0 => INSTALLED.store(true, Ordering::Relaxed),
            code => return Err(io::Error::from_raw_os_error(code)),
        }
        Ok(())
    }

    extern "C" fn in_child() {
        GENERATION.fetch_add(1, Ordering::Relaxed);
        for slot in &LOCK_FDS {
            let fd = slot.swap(FREE, Ordering::Relaxed);
            if fd != FREE {
                // SAFETY: close(2) has no demand on memory. The number stands for a descriptor of the child's own
                // table (A2), whose owner object knows by the generation that it is closed and neither uses nor
                // closes it again (vfs/os/file.rs, F2).
                unsafe { libc::close(fd) };
            }
        }
    }

    /// Number that is another one in each child.
    pub(crate) fn generation() -> u64 {
        GENERATION.load(Ordering::Relaxed)
    }

    /// Has children close `fd`. Returns its place in the table, or `None` when the table is full: children then keep
    /// the descriptor.
    pub(crate) fn register_lock_fd(fd: RawFd) -> Option<usize> {
        LOCK_FDS.iter().position(|slot| {
            slot.load(Ordering::Relaxed) == FREE
                && slot.compare_exchange(FREE, fd, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        })
    }

    /// Takes `fd` out of its place, before it is closed.
    pub(crate) fn forget_lock_fd(place: usize, fd: RawFd) {
        if let Some(slot) = LOCK_FDS.get(place) {
            let _gone = slot.compare_exchange(fd, FREE, Ordering::AcqRel, Ordering::Relaxed);
        }
    }
}

/// Elsewhere nothing is opened for writing and nothing locked, so there is nothing to give up.
#[cfg(not(target_os = "linux"))]
mod other {
    use std::io;
    use std::os::fd::RawFd;

    pub(crate) fn install() -> io::Result<()> {
        Ok(())
    }

    pub(crate) fn generation() -> u64 {
        u64::from(std::process::id())
    }

    pub(crate) fn register_lock_fd(_fd: RawFd) -> Option<usize> {
        None
    }

    pub(crate) fn forget_lock_fd(_place: usize, _fd: RawFd) {}
}
