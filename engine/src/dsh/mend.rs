//! Text out of Zstandard frames of which some are damaged: the whole ones, and the bytes between them.
//!
//! # Invariants
//! M1. No text of a frame is given before its checksum holds, unless the frame is larger than `FRAME_BYTES_MAX`.
//! M2. What cannot be read is a gap: its bytes up to the next frame that holds, none left out.
//! M3. A frame that is larger, and a gap that is, refuse the input: they would not fit into memory.
//! M4. What is left over at the end is a torn tail by the rules of dsh/zstd.rs.
//!
//! # Units
//! Offsets: bytes of the compressed input.

use std::io::Read;

use memchr::memmem;

use super::frame::MAGIC;
use super::lines::Source;
use super::zstd::{TornFrame, ZstdSource, read_some};
use crate::{Error, ErrorKind, Result};

/// Bytes of a frame, and of its text, that are held until its checksum is seen; also the longest gap.
const FRAME_BYTES_MAX: usize = 8 << 20;
/// Bytes on record from which those of earlier frames are dropped.
const RECORD_BYTES: usize = 1 << 20;
/// Text asked for at once.
const STEP_BYTES: usize = 128 << 10;
/// Most places in one gap at which a frame is looked for.
const TRIES_MAX: u32 = 1_000;

/// A part of the input that holds no whole frame, with frames or the end behind it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Gap {
    /// Offset of the first byte.
    pub(super) offset: u64,
    /// The bytes.
    pub(super) bytes: Vec<u8>,
    /// Why no frame could be read from them.
    pub(super) why: String,
}

/// A reader that remembers what it gave, and can give it again.
struct Recorder<R> {
    inner: R,
    front: Vec<u8>,
    front_at: usize,
    record: Vec<u8>,
    /// Offset of the first byte on record.
    record_at: u64,
    /// Whether the record was given up because it grew too long.
    lost: bool,
}

impl<R: Read> Read for Recorder<R> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let ready = self.front.get(self.front_at..).unwrap_or_default();
        let got = if ready.is_empty() {
            self.inner.read(buf)?.min(buf.len())
        } else {
            let n = ready.len().min(buf.len());
            for (to, from) in buf.iter_mut().zip(ready) {
                *to = *from;
            }
            self.front_at += n;
            n
        };
        if !self.lost {
            self.record.extend_from_slice(buf.get(..got).unwrap_or_default());
            if self.record.len() > FRAME_BYTES_MAX + RECORD_BYTES {
                self.lost = true;
                self.record = Vec::new();
            }
        }
        Ok(got)
    }
}

/// Decodes frames and steps over damaged ones.
pub(super) struct Mender<R> {
    source: ZstdSource<Recorder<R>>,
    text: Vec<u8>,
    text_at: usize,
    step: Vec<u8>,
    /// A gap that is not known to end yet.
    open: Option<Gap>,
    /// A gap to be taken before the text goes on.
    gap: Option<Gap>,
    tries: u32,
    /// Whether text of a frame was given whose checksum is still to come.
    committed: bool,
}

impl<R: Read> Mender<R> {
    pub(super) fn new(inner: R, window_log_max: u32, text_bytes_max: u64) -> Result<Self> {
        let (front, record) = (Vec::new(), Vec::new());
        let reader = Recorder { inner, front, front_at: 0, record, record_at: 0, lost: false };
        Ok(Self {
            source: ZstdSource::new(reader, window_log_max, text_bytes_max)?,
            text: Vec::new(),
            text_at: 0,
            step: vec![0; STEP_BYTES],
            open: None,
            gap: None,
            tries: 0,
            committed: false,
        })
    }

    /// The gap at which the text ended for now.
    pub(super) fn take_gap(&mut self) -> Option<Gap> {
        self.gap.take()
    }

    /// What was left over at the end.
    pub(super) fn torn(&self) -> Option<TornFrame> {
        self.source.torn()
    }

    /// Reads on to the end of a frame, or as far as text may be given.
    fn advance(&mut self) -> Result<()> {
        self.text.clear();
        self.text_at = 0;
        if self.source.is_between() && !self.committed {
            self.forget();
        }
        loop {
            let was_in_frame = self.source.is_in_frame();
            match self.source.step(&mut self.step) {
                Ok(made) => self.text.extend_from_slice(self.step.get(..made).unwrap_or_default()),
                Err(e) if self.is_mendable(&e) => {
                    self.text.clear();
                    self.step_over(e)?;
                    continue;
                }
                Err(e) => return Err(e),
            }
            if self.source.is_at_end() || (was_in_frame && self.source.is_between()) {
                self.committed = false;
                self.close_gap();
                return Ok(());
            }
            let long = self.text.len() > FRAME_BYTES_MAX || self.source.reader().lost;
            if self.source.is_in_frame() && long {
                self.committed = true;
                self.close_gap();
            }
            if self.committed && !self.text.is_empty() {
                return Ok(());
            }
            if self.source.is_between() && !self.committed {
                self.forget();
            }
        }
    }

    fn is_mendable(&mut self, error: &Error) -> bool {
        let damaged = error.kind() == ErrorKind::Corrupt
            || (error.kind() == ErrorKind::Limit && error.field() == Some("window_log_max"));
        damaged && !self.committed && !self.source.reader().lost
    }

    fn close_gap(&mut self) {
        self.gap = self.open.take();
        self.tries = 0;
    }

    /// Drops what is on record of frames that are done.
    fn forget(&mut self) {
        let reader = self.source.reader();
        if !reader.lost && reader.record.len() < RECORD_BYTES {
            return;
        }
        let (offset, rest) = self.source.unused();
        let rest = rest.to_vec();
        let reader = self.source.reader();
        (reader.record, reader.record_at, reader.lost) = (rest, offset, false);
    }

    /// Puts the damaged frame into the gap, up to where another frame may start.
    fn step_over(&mut self, error: Error) -> Result<()> {
        self.tries += 1;
        let start = self.source.frame_offset();
        let reader = self.source.reader();
        let skip = usize::try_from(start - reader.record_at).unwrap_or(usize::MAX);
        let mut ahead = reader.record.split_off(skip.min(reader.record.len()));
        ahead.extend_from_slice(reader.front.get(reader.front_at..).unwrap_or_default());
        let mut from = 1;
        let split = loop {
            let rest = ahead.get(from..).unwrap_or_default();
            if let Some(at) = memmem::find(rest, &MAGIC) {
                break from + at;
            }
            // The end of what was read may cut a magic in two.
            from = (ahead.len() + 1).saturating_sub(MAGIC.len()).max(1);
            let mut more = vec![0; STEP_BYTES];
            let got = read_some(&mut reader.inner, &mut more)?;
            ahead.extend_from_slice(more.get(..got).unwrap_or_default());
            if got == 0 || ahead.len() > FRAME_BYTES_MAX {
                break ahead.len();
            }
        };
        let again = ahead.split_off(split);
        self.grow_gap(start, &ahead, &error)?;
        let reader = self.source.restart(start + split as u64);
        (reader.front, reader.front_at) = (again, 0);
        (reader.record, reader.record_at) = (Vec::new(), start + split as u64);
        Ok(())
    }

    fn grow_gap(&mut self, offset: u64, bytes: &[u8], error: &Error) -> Result<()> {
        let why = error.message().to_owned();
        let gap = self.open.get_or_insert_with(|| Gap { offset, bytes: Vec::new(), why });
        gap.bytes.extend_from_slice(bytes);
        if gap.bytes.len() > FRAME_BYTES_MAX || self.tries > TRIES_MAX {
            let what = format!(
                "zstd frames are damaged over more than {FRAME_BYTES_MAX} bytes: {}",
                error.message()
            );
            return Err(Error::corrupt(what).with_offset(gap.offset));
        }
        Ok(())
    }
}

impl<R: Read> Source for Mender<R> {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        loop {
            if self.gap.is_some() {
                return Ok(0);
            }
            let ready = self.text.get(self.text_at..).unwrap_or_default();
            if !ready.is_empty() {
                let n = ready.len().min(buf.len());
                for (to, from) in buf.iter_mut().zip(ready) {
                    *to = *from;
                }
                self.text_at += n;
                return Ok(n);
            }
            if self.source.is_at_end() {
                return Ok(0);
            }
            self.advance()?;
        }
    }
}
