//! Files of the real disk.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{FallocateFlags, FlockOperation, Mode};
use rustix::io::Errno;

use super::dir::ownership;
use super::failed;
use crate::error::{Error, ErrorKind, Result};
use crate::sys::{atfork, map, ofd};
use crate::vfs::{LockKind, Ownership, VfsFile, VfsMap};

/// An open regular file. In a child of `fork(2)` a file that holds locks was closed by the handler, and its number may
/// be another file's by then: it is left alone.
#[derive(Debug)]
pub(super) struct OsFile {
    /// `None` only while it is dropped.
    file: Option<File>,
    path: PathBuf,
    generation: u64,
    registered: AtomicBool,
}

impl OsFile {
    pub(super) fn new(fd: OwnedFd, path: PathBuf) -> Self {
        Self {
            file: Some(File::from(fd)),
            path,
            generation: atfork::generation(),
            registered: AtomicBool::new(false),
        }
    }

    /// The file, unless this is a child in which the handler has closed it.
    fn file(&self) -> Result<&File> {
        match &self.file {
            Some(file) if !self.is_gone() => Ok(file),
            _ => Err(Error::new(
                ErrorKind::ForkedHandle,
                "the file was opened before fork; open the store again in the child",
            )
            .with_path(&self.path)),
        }
    }

    fn is_gone(&self) -> bool {
        self.registered.load(Ordering::Relaxed) && atfork::generation() != self.generation
    }

    fn io(&self, call: &str, e: &std::io::Error) -> Error {
        Error::io(call, e).with_path(&self.path)
    }

    fn range(&self, offset: u64, len: u64, action: ofd::Action) -> Result<bool> {
        ofd::set(self.file()?.as_fd(), offset, len, action)
            .map_err(|e| self.io("fcntl(F_OFD_SETLK)", &e))
    }
}

impl Drop for OsFile {
    fn drop(&mut self) {
        let gone = self.is_gone();
        let Some(file) = self.file.take() else { return };
        if gone {
            // The number belongs to whoever opened a file in the child since.
            let _left_alone = file.into_raw_fd();
            return;
        }
        if self.registered.load(Ordering::Relaxed) {
            atfork::forget(file.as_raw_fd());
        }
    }
}

impl VfsFile for OsFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let file = self.file()?;
        let mut done = 0;
        while let Some(rest) = buf.get_mut(done..).filter(|r| !r.is_empty()) {
            match file.read_at(rest, offset + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.io("pread", &e).with_offset(offset)),
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
        rustix::fs::fdatasync(self.file()?).map_err(|e| failed("fdatasync", &self.path, e))
    }

    fn len(&self) -> Result<u64> {
        self.file()?.metadata().map(|m| m.len()).map_err(|e| self.io("fstat", &e))
    }

    fn allocate(&self, len: u64) -> Result<()> {
        let file = self.file()?;
        loop {
            match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, len) {
                Ok(()) => return Ok(()),
                Err(Errno::INTR) => {}
                // Without support the file is sparse: a full disk is then an error of the write.
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
                    let longer = self.len()?.max(len);
                    return file.set_len(longer).map_err(|e| self.io("ftruncate", &e));
                }
                Err(e) => return Err(failed("fallocate", &self.path, e)),
            }
        }
    }

    fn punch(&self, offset: u64, len: u64) -> Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(self.file()?, flags, offset, len) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(()),
            Err(e) => Err(failed("fallocate", &self.path, e)),
        }
    }

    fn set_read_only(&self) -> Result<()> {
        let file = self.file()?;
        let stat = rustix::fs::fstat(file).map_err(|e| failed("fstat", &self.path, e))?;
        let mode = Mode::from_raw_mode(stat.st_mode) & (Mode::RUSR | Mode::RGRP);
        rustix::fs::fchmod(file, mode).map_err(|e| failed("fchmod", &self.path, e))
    }

    fn try_lock(&self) -> Result<bool> {
        match rustix::fs::flock(self.file()?, FlockOperation::NonBlockingLockExclusive) {
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
        self.range(offset, len, ofd::Action::Lock(kind))
    }

    fn unlock_range(&self, offset: u64, len: u64) -> Result<()> {
        self.range(offset, len, ofd::Action::Unlock).map(|_| ())
    }

    fn close_in_child(&self) {
        if let Some(file) = &self.file
            && !self.registered.swap(true, Ordering::Relaxed)
        {
            atfork::register(file.as_raw_fd());
        }
    }

    fn map(&self) -> Result<Option<Arc<dyn VfsMap>>> {
        map::Map::new(self.file()?).map_err(|e| self.io("mmap", &e))
    }

    fn ownership(&self) -> Result<Ownership> {
        let s = rustix::fs::fstat(self.file()?).map_err(|e| failed("fstat", &self.path, e))?;
        Ok(ownership(s.st_uid, s.st_mode))
    }
}
