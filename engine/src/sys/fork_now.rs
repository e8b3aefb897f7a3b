//! `fork(2)`, for tests.
#![expect(unsafe_code, reason = "fork(2)")]

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Forks. The child runs `child` and ends with the code that it returns, 101 when it panics; the parent gets the
/// child's process id.
pub(crate) fn fork(child: impl FnOnce() -> i32) -> rustix::process::Pid {
    // SAFETY: the callers are helper processes whose other thread (the test runner's) waits in a channel, so no lock
    // of the allocator or of the standard library is held by a thread that the child lacks.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let code = catch_unwind(AssertUnwindSafe(child)).unwrap_or(101);
        // SAFETY: _exit(2) has no demand on memory, and runs no destructors of objects shared with the parent.
        unsafe { libc::_exit(code) };
    }
    rustix::process::Pid::from_raw(pid).unwrap_or_else(|| std::process::abort())
}
