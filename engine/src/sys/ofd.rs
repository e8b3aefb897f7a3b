//! Locks on ranges of a file that belong to the open file (open-file-description locks), not to the process.
//!
//! # Invariants
//! R1. No call waits: a range that another open file holds is reported as taken.
//! R2. Closing another handle of the same file lets go of nothing, unlike with the older process-owned locks.
//!
//! # Units
//! `offset`, `len`: bytes. A `len` of 0 is refused by [`set`] and [`held`], since the kernel takes it for "to the end"; that
//! meaning has [`release_all`].
#![cfg_attr(target_os = "linux", expect(unsafe_code, reason = "fcntl(2) takes a pointer"))]

use std::io;
use std::os::fd::BorrowedFd;

/// What becomes of a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ask {
    /// Lock it, together with others who do so. The file is open for reading.
    Shared,
    /// Lock it alone. The file is open for writing.
    Exclusive,
    /// Let go of it.
    Release,
}

/// Sets or lets go of a lock on a range: `false` when another open file holds a lock that excludes it.
pub(crate) fn set(fd: BorrowedFd<'_>, offset: u64, len: u64, ask: Ask) -> io::Result<bool> {
    let fits = offset.checked_add(len).is_some_and(|end| i64::try_from(end).is_ok());
    match (i64::try_from(offset), i64::try_from(len)) {
        (Ok(offset), Ok(len)) if fits && len > 0 => call(fd, offset, len, ask),
        _ => Err(io::Error::from(io::ErrorKind::InvalidInput)),
    }
}

/// Lets go of all range locks of this open file.
pub(crate) fn release_all(fd: BorrowedFd<'_>) -> io::Result<()> {
    call(fd, 0, 0, Ask::Release).map(|_| ())
}

/// A part of a range on which another open file holds a lock, as first byte and end: some such part, or `None`. Takes
/// no lock itself, and needs no permission to write.
pub(crate) fn held(fd: BorrowedFd<'_>, offset: u64, len: u64) -> io::Result<Option<(u64, u64)>> {
    let fits = offset.checked_add(len).is_some_and(|end| i64::try_from(end).is_ok());
    match (i64::try_from(offset), i64::try_from(len)) {
        (Ok(offset), Ok(len)) if fits && len > 0 => probe(fd, offset, len),
        _ => Err(io::Error::from(io::ErrorKind::InvalidInput)),
    }
}

#[cfg(target_os = "linux")]
fn probe(fd: BorrowedFd<'_>, offset: i64, len: i64) -> io::Result<Option<(u64, u64)>> {
    use std::os::fd::AsRawFd;

    // SAFETY: libc::flock is a C struct of integers only, for which all-zero bytes are a value. Zeroing also sets
    // l_pid to 0, which F_OFD_GETLK demands.
    let mut range: libc::flock = unsafe { std::mem::zeroed() };
    range.l_type = libc::F_WRLCK as libc::c_short;
    range.l_whence = libc::SEEK_SET as libc::c_short;
    range.l_start = offset;
    range.l_len = len;
    // SAFETY: the descriptor is open for as long as `fd` is borrowed; F_OFD_GETLK reads and writes one struct flock,
    // and `range` is one that outlives the call.
    while unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_OFD_GETLK, &raw mut range) } != 0 {
        let err = io::Error::last_os_error();
        if err.raw_os_error() != Some(libc::EINTR) {
            return Err(err);
        }
    }
    if range.l_type == libc::F_UNLCK as libc::c_short {
        return Ok(None);
    }
    let start = u64::try_from(range.l_start).unwrap_or(0);
    // A length of 0 is "to the end of all offsets".
    let len = u64::try_from(range.l_len).ok().filter(|len| *len > 0).unwrap_or(u64::MAX - start);
    Ok(Some((start, start.saturating_add(len))))
}

#[cfg(not(target_os = "linux"))]
fn probe(_fd: BorrowedFd<'_>, _offset: i64, _len: i64) -> io::Result<Option<(u64, u64)>> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

#[cfg(target_os = "linux")]
fn call(fd: BorrowedFd<'_>, offset: i64, len: i64, ask: Ask) -> io::Result<bool> {
    use std::os::fd::AsRawFd;

    const { assert!(size_of::<libc::off_t>() == 8, "the kernel reads 64-bit ranges") };
    let kind = match ask {
        Ask::Shared => libc::F_RDLCK,
        Ask::Exclusive => libc::F_WRLCK,
        Ask::Release => libc::F_UNLCK,
    };
    // SAFETY: libc::flock is a C struct of integers only, for which all-zero bytes are a value. Zeroing also sets
    // l_pid to 0, which F_OFD_SETLK demands.
    let mut range: libc::flock = unsafe { std::mem::zeroed() };
    range.l_type = kind as libc::c_short;
    range.l_whence = libc::SEEK_SET as libc::c_short;
    range.l_start = offset;
    range.l_len = len;
    loop {
        // SAFETY: the descriptor is open for as long as `fd` is borrowed; F_OFD_SETLK reads one struct flock, and
        // `range` is one that outlives the call.
        if unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_OFD_SETLK, &raw const range) } == 0 {
            return Ok(true);
        }
        let err = io::Error::last_os_error();
        match err.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::EAGAIN | libc::EACCES) if ask != Ask::Release => return Ok(false),
            _ => return Err(err),
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn call(_fd: BorrowedFd<'_>, _offset: i64, _len: i64, _ask: Ask) -> io::Result<bool> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}
