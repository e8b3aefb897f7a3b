//! Open-file-description locks on byte ranges. They belong to the open file, not to the process, and end with its last
//! descriptor.
#![expect(unsafe_code, reason = "the call is in libc only")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::vfs::LockKind;

/// What is done with a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    Lock(LockKind),
    Unlock,
}

/// Locks or unlocks `[offset, offset + len)` without waiting; `false` when another open file holds it.
pub(crate) fn set(fd: BorrowedFd<'_>, offset: u64, len: u64, action: Action) -> io::Result<bool> {
    let kind = match action {
        Action::Lock(LockKind::Shared) => libc::F_RDLCK,
        Action::Lock(LockKind::Exclusive) => libc::F_WRLCK,
        Action::Unlock => libc::F_UNLCK,
    };
    let range = libc::flock {
        l_type: libc::c_short::try_from(kind).map_err(io::Error::other)?,
        l_whence: libc::c_short::try_from(libc::SEEK_SET).map_err(io::Error::other)?,
        l_start: i64::try_from(offset).map_err(io::Error::other)?,
        l_len: i64::try_from(len).map_err(io::Error::other)?,
        l_pid: 0,
    };
    loop {
        // SAFETY:
        // - `fd` is borrowed, so it is open during the call.
        // - `F_OFD_SETLK` reads one `struct flock` through the pointer, and `range` lives until the call returns;
        //   `l_pid` is 0, as that command requires.
        let rc = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_OFD_SETLK, &raw const range) };
        if rc == 0 {
            return Ok(true);
        }
        let e = io::Error::last_os_error();
        match e.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::EAGAIN | libc::EACCES) => return Ok(false),
            _ => return Err(e),
        }
    }
}
