//! An open segment: reads bytes and single frames, by map or by pread.
//!
//! # Invariants
//! G1. Bytes are copied out before they are verified, and verified before they are decoded.
//! G2. A length from the file is used only after the frame header verified and after it was compared with the
//!     capacity of the segment.
//! G3. A handle keeps at most so many maps as its pool allows; files are kept as `kept` says.
//!
//! # Units
//! `offset`, `capacity`: bytes from the start of the file.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::RwLock;

use crate::error::{Error, Result};
use crate::format::codec::{crc, is_zero, narrow, wide};
use crate::format::frame::{FrameHeader, HEADER_BYTES};
use crate::format::segment::{SegmentHeader, TRAILER_LEN, Trailer};
use crate::format::{Fault, frame, name};
use crate::limits;
use crate::segment::kept::{Kept, take};
use crate::types::SegmentNo;
use crate::vfs::{VfsDir, VfsFile, VfsMap};

/// Counts the maps that the segments of a handle keep.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    maps: AtomicUsize,
}

/// Where the bytes of a segment come from.
#[derive(Debug)]
enum Source {
    /// A file that stays open: the writer's.
    Own(Arc<dyn VfsFile>),
    /// Opened when it is read.
    Lazy { pool: Arc<Pool>, kept: Kept },
}

/// A segment whose header verified, or was rebuilt from its successor.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) header: SegmentHeader,
    /// For messages.
    pub(crate) path: PathBuf,
    source: Source,
    map: RwLock<Option<Arc<dyn VfsMap>>>,
    mapped: bool,
}

/// Why a frame cannot be given.
#[derive(Debug)]
pub(crate) enum FrameError {
    /// The bytes are not a valid frame.
    Bad(Fault),
    /// They could not be read.
    Io(Error),
}

impl Segment {
    /// Wraps an open file, which stays open. With `mapped`, single reads go through a map, made at the first of them.
    pub(crate) fn new(
        header: SegmentHeader,
        file: Arc<dyn VfsFile>,
        path: PathBuf,
        mapped: bool,
    ) -> Self {
        Self { header, path, source: Source::Own(file), map: RwLock::new(None), mapped }
    }

    /// A segment of a folder, opened when it is read.
    pub(crate) fn lazy(
        header: SegmentHeader,
        dir: Arc<dyn VfsDir>,
        pool: Arc<Pool>,
        path: PathBuf,
        mapped: bool,
    ) -> Self {
        let kept = Kept::new(dir, name::segment(header.segment));
        let source = Source::Lazy { pool, kept };
        Self { header, path, source, map: RwLock::new(None), mapped }
    }

    /// The open file.
    pub(crate) fn file(&self) -> Result<Arc<dyn VfsFile>> {
        match &self.source {
            Source::Own(file) => Ok(file.clone()),
            Source::Lazy { kept, .. } => kept.file(),
        }
    }

    pub(crate) fn no(&self) -> SegmentNo {
        self.header.segment
    }

    /// Where frames must end.
    pub(crate) fn frames_limit(&self) -> u64 {
        self.header.capacity.saturating_sub(TRAILER_LEN)
    }

    /// Reads exactly `buf.len()` bytes.
    pub(crate) fn read(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        if self.mapped && self.read_mapped(buf, offset)? {
            return Ok(());
        }
        let n = self.read_at(buf, offset)?;
        match buf.get_mut(n..) {
            Some(rest) if !rest.is_empty() => {
                Err(Error::corrupt("the segment ends before its frames do; run check")
                    .with_path(&self.path)
                    .with_offset(offset + wide(n)))
            }
            _ => Ok(()),
        }
    }

    /// Reads up to `buf.len()` bytes by pread.
    pub(crate) fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let read = self.file().and_then(|f| f.read_at(buf, offset));
        read.map_err(|e| e.with_path(&self.path).with_offset(offset))
    }

    /// Where written bytes begin, at `offset` or behind it.
    pub(crate) fn next_data(&self, offset: u64) -> Result<Option<u64>> {
        let found = self.file().and_then(|f| f.next_data(offset));
        found.map_err(|e| e.with_path(&self.path).with_offset(offset))
    }

    fn read_mapped(&self, buf: &mut [u8], offset: u64) -> Result<bool> {
        if let Some(map) = &*self.map.read() {
            return Ok(map.copy_out(buf, offset));
        }
        if let Source::Lazy { pool, .. } = &self.source
            && !take(&pool.maps, limits::MAPS_MAX)
        {
            return Ok(false);
        }
        let made = self.file().and_then(|f| f.map()).map_err(|e| e.with_path(&self.path));
        let done = matches!(&made, Ok(Some(map)) if map.copy_out(buf, offset));
        let mut slot = self.map.write();
        if let (Ok(Some(map)), None) = (&made, &*slot) {
            *slot = Some(map.clone());
        } else if let Source::Lazy { pool, .. } = &self.source {
            // None was made, or another thread was first.
            pool.maps.fetch_sub(1, Ordering::Relaxed);
        }
        made.map(|_| done)
    }

    /// Reads and verifies the header of the frame at `offset`.
    pub(crate) fn frame_header(&self, offset: u64) -> std::result::Result<FrameHeader, FrameError> {
        let mut head = [0; HEADER_BYTES];
        let room = self.frames_limit().saturating_sub(offset);
        if room < frame::HEADER_LEN || !offset.is_multiple_of(8) {
            return Err(FrameError::Bad(Fault::Short));
        }
        self.read(&mut head, offset).map_err(FrameError::Io)?;
        FrameHeader::decode(&head, self.header.salt, offset, room).map_err(FrameError::Bad)
    }

    /// Reads and verifies the frame at `offset`; its payload replaces what is in `payload`.
    pub(crate) fn frame(
        &self,
        offset: u64,
        payload: &mut Vec<u8>,
    ) -> std::result::Result<FrameHeader, FrameError> {
        let h = self.frame_header(offset)?;
        let (len, padded) = (h.len as usize, narrow(h.frame_len() - frame::HEADER_LEN));
        payload.resize(padded, 0);
        self.read(payload, offset + frame::HEADER_LEN).map_err(FrameError::Io)?;
        let sum = crc(payload.get(..len).unwrap_or(&[]));
        if sum != h.pcrc || !is_zero(payload.get(len..).unwrap_or(&[])) {
            return Err(FrameError::Bad(Fault::Checksum));
        }
        payload.truncate(len);
        Ok(h)
    }

    /// Reads and verifies a frame that must be there: an acked frame, or one that an index names.
    pub(crate) fn frame_expected(&self, offset: u64, payload: &mut Vec<u8>) -> Result<FrameHeader> {
        self.frame(offset, payload).map_err(|e| self.explain(offset, e))
    }

    /// An error for a frame that should have been valid.
    pub(crate) fn explain(&self, offset: u64, e: FrameError) -> Error {
        match e {
            FrameError::Io(e) => e,
            FrameError::Bad(Fault::Newer) => Error::new(
                crate::ErrorKind::Unsupported,
                "a frame was written by a newer version; use that version",
            )
            .with_path(&self.path)
            .with_offset(offset),
            FrameError::Bad(fault) => {
                Error::corrupt(format!("a stored frame is damaged ({}); run check", fault.clause()))
                    .with_path(&self.path)
                    .with_offset(offset)
            }
        }
    }

    /// The trailer, when the segment has a valid one.
    pub(crate) fn trailer(&self) -> Option<Trailer> {
        let mut b = [0; TRAILER_LEN as usize];
        let n = self.read_at(&mut b, self.frames_limit()).ok()?;
        if wide(n) != TRAILER_LEN {
            return None;
        }
        Trailer::decode(&b, self.no(), self.header.salt, self.header.capacity).ok()
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        if let Source::Lazy { pool, .. } = &self.source
            && self.map.get_mut().is_some()
        {
            pool.maps.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
