//! An open segment: reads bytes and single frames, by map or by pread.
//!
//! # Invariants
//! G1. Bytes are copied out before they are verified, and verified before they are decoded.
//! G2. A length from the file is used only after the frame header verified and after it was compared with the
//!     capacity of the segment.
//!
//! # Units
//! `offset`, `capacity`: bytes from the start of the file.

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::error::{Error, Result};
use crate::format::codec::{crc, is_zero, narrow, wide};
use crate::format::frame::{FrameHeader, HEADER_BYTES};
use crate::format::segment::{SegmentHeader, TRAILER_LEN, Trailer};
use crate::format::{Fault, frame};
use crate::types::SegmentNo;
use crate::vfs::{VfsFile, VfsMap};

/// A segment whose header verified, or was rebuilt from its successor.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) header: SegmentHeader,
    pub(crate) file: Arc<dyn VfsFile>,
    /// For messages.
    pub(crate) path: PathBuf,
    map: RwLock<Option<Arc<dyn VfsMap>>>,
    mapped: bool,
}

/// Why a frame cannot be given.
#[derive(Debug)]
pub(crate) enum FrameError {
    /// The bytes are not a valid frame. With a header, its own checksum held.
    Bad(Fault, Option<FrameHeader>),
    /// They could not be read.
    Io(Error),
}

impl Segment {
    /// Wraps an open file. With `mapped`, single reads go through a map, made at the first of them.
    pub(crate) fn new(
        header: SegmentHeader,
        file: Arc<dyn VfsFile>,
        path: PathBuf,
        mapped: bool,
    ) -> Self {
        Self { header, file, path, map: RwLock::new(None), mapped }
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
        let n = self
            .file
            .read_at(buf, offset)
            .map_err(|e| e.with_path(&self.path).with_offset(offset))?;
        match buf.get_mut(n..) {
            Some(rest) if !rest.is_empty() => {
                Err(Error::corrupt("the segment ends before its frames do; run check")
                    .with_path(&self.path)
                    .with_offset(offset + wide(n)))
            }
            _ => Ok(()),
        }
    }

    fn read_mapped(&self, buf: &mut [u8], offset: u64) -> Result<bool> {
        if let Some(map) = &*self.map.read() {
            return Ok(map.copy_out(buf, offset));
        }
        let Some(map) = self.file.map().map_err(|e| e.with_path(&self.path))? else {
            return Ok(false);
        };
        let done = map.copy_out(buf, offset);
        *self.map.write() = Some(map);
        Ok(done)
    }

    /// Drops the map, if there is one; the next read makes it again.
    pub(crate) fn unmap(&self) {
        *self.map.write() = None;
    }

    /// Whether reads go through a map now.
    pub(crate) fn is_mapped(&self) -> bool {
        self.map.read().is_some()
    }

    /// Reads and verifies the header of the frame at `offset`.
    pub(crate) fn frame_header(&self, offset: u64) -> std::result::Result<FrameHeader, FrameError> {
        let mut head = [0; HEADER_BYTES];
        let room = self.frames_limit().saturating_sub(offset);
        if room < frame::HEADER_LEN || offset % 8 != 0 {
            return Err(FrameError::Bad(Fault::Short, None));
        }
        self.read(&mut head, offset).map_err(FrameError::Io)?;
        FrameHeader::decode(&head, self.header.salt, offset, room)
            .map_err(|f| FrameError::Bad(f, None))
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
            return Err(FrameError::Bad(Fault::Checksum, Some(h)));
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
            FrameError::Bad(Fault::Newer, _) => Error::new(
                crate::ErrorKind::Unsupported,
                "a frame was written by a newer version; use that version",
            )
            .with_path(&self.path)
            .with_offset(offset),
            FrameError::Bad(fault, _) => {
                Error::corrupt(format!("a stored frame is damaged ({}); run check", fault.clause()))
                    .with_path(&self.path)
                    .with_offset(offset)
            }
        }
    }

    /// The trailer, when the segment has a valid one.
    pub(crate) fn trailer(&self) -> Option<Trailer> {
        let mut b = [0; TRAILER_LEN as usize];
        let at = self.frames_limit();
        let n = self.file.read_at(&mut b, at).ok()?;
        if wide(n) != TRAILER_LEN {
            return None;
        }
        Trailer::decode(&b, self.no(), self.header.salt, self.header.capacity).ok()
    }
}
