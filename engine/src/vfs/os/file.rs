//! Files of the real disk.
//!
//! # Invariants
//! F1. In the process that opened a file its descriptor is open until the file is dropped.
//! F2. In a child of `fork(2)` the handler has closed each file that is marked as holding locks (sys/atfork.rs); its
//!     number may stand for another file by then. So such a file refuses every call there, and its drop does not
//!     close the number.
//! F3. The drop of a marked file lets go of its locks before it closes: a child that got hold of the descriptor
//!     (forked before the file was marked, or while the table of marked files was full) does not keep them. Only when
//!     this process dies meanwhile does such a child keep them, for as long as it lives.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::fs::{FlockOperation, Mode};
use rustix::io::Errno;

use super::dir::ownership;
use super::failed;
use crate::error::{Error, ErrorKind, Result};
use crate::sys::map::ReadMap;
use crate::sys::{atfork, ofd};
use crate::vfs::{LockKind, Ownership, VfsFile, VfsMap};

/// Values of `OsFile::mark` that are no place in the table of lock descriptors: the file holds no locks.
const PLAIN: usize = usize::MAX;
/// It is about to be put into the table.
const MARKING: usize = usize::MAX - 1;
/// The table was full.
const UNLISTED: usize = usize::MAX - 2;

/// An open regular file.
#[derive(Debug)]
pub(super) struct OsFile {
    /// `None` only while it is dropped.
    file: Option<File>,
    path: PathBuf,
    generation: u64,
    pid: u32,
    mark: AtomicUsize,
}

impl OsFile {
    pub(super) fn new(fd: OwnedFd, path: PathBuf) -> Self {
        Self {
            file: Some(File::from(fd)),
            path,
            generation: atfork::generation(),
            pid: std::process::id(),
            mark: AtomicUsize::new(PLAIN),
        }
    }

    fn in_child(&self) -> bool {
        atfork::generation() != self.generation
    }

    /// The file, unless this is a child in which the handler has closed it (F2).
    fn file(&self) -> Result<&File> {
        let closed = self.mark.load(Ordering::Relaxed) != PLAIN && self.in_child();
        match &self.file {
            Some(file) if !closed => Ok(file),
            _ => Err(Error::new(
                ErrorKind::ForkedHandle,
                "the file was opened before fork; open the store again in the child",
            )
            .with_path(&self.path)),
        }
    }

    fn io(&self, call: &str, e: &std::io::Error) -> Error {
        Error::io(call, e).with_path(&self.path)
    }

    fn range(&self, offset: u64, len: u64, ask: ofd::Ask) -> Result<bool> {
        ofd::set(self.file()?.as_fd(), offset, len, ask)
            .map_err(|e| self.io("fcntl(F_OFD_SETLK)", &e).with_offset(offset))
    }
}

impl Drop for OsFile {
    fn drop(&mut self) {
        let Some(file) = self.file.take() else { return };
        let mark = *self.mark.get_mut();
        match mark {
            PLAIN => {}
            // F2. The file was not in the table, so its descriptor is open.
            UNLISTED if self.in_child() => {}
            // F2. In the moment of MARKING the descriptor may be open still: better left open than closed twice.
            _ if self.in_child() => {
                let _left_alone = file.into_raw_fd();
            }
            _ => {
                // F3. A bare clone(2) shares the open file without a new generation: its drop lets go of nothing.
                if std::process::id() == self.pid {
                    let _closing = rustix::fs::flock(&file, FlockOperation::Unlock);
                    let _closing = ofd::release_all(file.as_fd());
                }
                atfork::forget_lock_fd(mark, file.as_raw_fd());
            }
        }
    }
}

impl VfsFile for OsFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let file = self.file()?;
        let mut done = 0;
        while let Some(rest) = buf.get_mut(done..).filter(|r| !r.is_empty()) {
            let at = offset.saturating_add(done as u64);
            if i64::try_from(at).is_err() {
                // No file is that long.
                break;
            }
            match file.read_at(rest, at) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.io("pread", &e).with_offset(at)),
            }
        }
        Ok(done)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        self.file()?
            .write_all_at(buf, offset)
            .map_err(|e| self.io("pwrite", &e).with_offset(offset))
    }

    fn sync_data(&self) -> Result<()> {
        // Not called again after EINTR or any error: that would prove nothing (D5).
        #[cfg(target_os = "linux")]
        let done = rustix::fs::fdatasync(self.file()?);
        #[cfg(not(target_os = "linux"))]
        let done = rustix::fs::fsync(self.file()?);
        done.map_err(|e| failed("fdatasync", &self.path, e))
    }

    #[cfg(target_os = "linux")]
    fn next_data(&self, offset: u64) -> Result<Option<u64>> {
        // The place of the descriptor, which this moves, is used by nobody.
        match rustix::fs::seek(self.file()?, rustix::fs::SeekFrom::Data(offset)) {
            Ok(at) => Ok(Some(at)),
            Err(Errno::NXIO) => Ok(None),
            Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(Some(offset)),
            Err(e) => Err(failed("lseek(SEEK_DATA)", &self.path, e)),
        }
    }

    fn len(&self) -> Result<u64> {
        self.file()?.metadata().map(|m| m.len()).map_err(|e| self.io("fstat", &e))
    }

    #[cfg(target_os = "linux")]
    fn allocate(&self, len: u64) -> Result<()> {
        use rustix::fs::FallocateFlags;

        let file = self.file()?;
        let size = self.len()?;
        let call = |flags| rustix::io::retry_on_intr(|| rustix::fs::fallocate(file, flags, 0, len));
        if len == 0 {
            return Ok(());
        }
        // Room first, then the size: on a full disk some file systems make the file longer by what they found.
        match call(FallocateFlags::KEEP_SIZE).and_then(|()| call(FallocateFlags::empty())) {
            Ok(()) => Ok(()),
            // Without support the file is sparse: a full disk is then an error of the write.
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
                file.set_len(size.max(len)).map_err(|e| self.io("ftruncate", &e))
            }
            Err(e) => {
                // Gives back the room behind the end, and an end that moved. Only the file's one writer allocates, so
                // nothing was added meanwhile.
                let _kept = file.set_len(size);
                Err(failed("fallocate", &self.path, e))
            }
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn allocate(&self, _len: u64) -> Result<()> {
        Err(failed("fallocate", &self.path, Errno::OPNOTSUPP))
    }

    #[cfg(target_os = "linux")]
    fn punch(&self, offset: u64, len: u64) -> Result<()> {
        use rustix::fs::FallocateFlags;

        let file = self.file()?;
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let call = || rustix::fs::fallocate(file, flags, offset, len);
        match rustix::io::retry_on_intr(call) {
            // The code for a range of no bytes, too.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(()),
            Err(e) => Err(failed("fallocate", &self.path, e).with_offset(offset)),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn punch(&self, _offset: u64, _len: u64) -> Result<()> {
        Ok(())
    }

    fn set_read_only(&self) -> Result<()> {
        let file = self.file()?;
        let stat = rustix::fs::fstat(file).map_err(|e| failed("fstat", &self.path, e))?;
        let mode = Mode::from_raw_mode(stat.st_mode) & (Mode::RUSR | Mode::RGRP);
        rustix::fs::fchmod(file, mode).map_err(|e| failed("fchmod", &self.path, e))
    }

    fn try_lock(&self) -> Result<bool> {
        let file = self.file()?;
        let call = || rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive);
        match rustix::io::retry_on_intr(call) {
            Ok(()) => Ok(true),
            Err(Errno::WOULDBLOCK) => Ok(false),
            Err(e) => Err(failed("flock", &self.path, e)),
        }
    }

    fn unlock(&self) -> Result<()> {
        rustix::fs::flock(self.file()?, FlockOperation::Unlock)
            .map_err(|e| failed("flock", &self.path, e))
    }

    fn try_lock_range(&self, offset: u64, len: u64, kind: LockKind) -> Result<bool> {
        let ask = match kind {
            LockKind::Shared => ofd::Ask::Shared,
            LockKind::Exclusive => ofd::Ask::Exclusive,
        };
        self.range(offset, len, ask)
    }

    fn unlock_range(&self, offset: u64, len: u64) -> Result<()> {
        self.range(offset, len, ofd::Ask::Release).map(|_| ())
    }

    fn range_held(&self, offset: u64, len: u64) -> Result<Option<(u64, u64)>> {
        ofd::held(self.file()?.as_fd(), offset, len)
            .map_err(|e| self.io("fcntl(F_OFD_GETLK)", &e).with_offset(offset))
    }

    fn close_in_child(&self) {
        let Ok(file) = self.file() else { return };
        let (new, old) = (Ordering::AcqRel, Ordering::Relaxed);
        // Marked before it is in the table: whatever a child sees, it does not close a number twice.
        if self.mark.compare_exchange(PLAIN, MARKING, new, old).is_ok() {
            let place = atfork::register_lock_fd(file.as_raw_fd()).unwrap_or(UNLISTED);
            self.mark.store(place, Ordering::Release);
        }
    }

    fn map(&self) -> Result<Option<Arc<dyn VfsMap>>> {
        let file = self.file()?;
        let len = self.len()?;
        if cfg!(not(target_os = "linux")) {
            return Ok(None);
        }
        match ReadMap::of(file.as_fd(), len) {
            Ok(Some(map)) => Ok(Some(Arc::new(OsMap(map)))),
            Ok(None) => Ok(None),
            Err(e) => match Errno::from_io_error(&e) {
                // A file system without maps, too many maps, or no address room: reading does without.
                Some(Errno::NODEV | Errno::NOMEM | Errno::AGAIN | Errno::ACCESS | Errno::PERM) => {
                    Ok(None)
                }
                _ => Err(self.io("mmap", &e)),
            },
        }
    }

    fn ownership(&self) -> Result<Ownership> {
        let s = rustix::fs::fstat(self.file()?).map_err(|e| failed("fstat", &self.path, e))?;
        Ok(ownership(s.st_uid, s.st_mode))
    }
}

/// A map of a file of the real disk.
#[derive(Debug)]
struct OsMap(ReadMap);

impl VfsMap for OsMap {
    fn map_len(&self) -> u64 {
        self.0.len()
    }

    fn copy_out(&self, buf: &mut [u8], offset: u64) -> bool {
        self.0.copy_out(buf, offset)
    }
}
