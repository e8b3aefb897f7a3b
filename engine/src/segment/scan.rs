//! The walk over the frames of a segment, forward, in windows read by pread.
//!
//! # Invariants
//! S1. A frame is given only when both its checksums hold and its padding is zero.
//! S2. The walk never stops by itself at bad bytes: it says where they start, and `resync` finds the next valid frame.
//! S3. `resync` takes a frame only when both checksums hold and its gsn is not below the one expected, so bytes inside
//!     a payload are not taken for frames (the offset is under the checksum).
//! S4. Memory: one window, or one frame where that is larger; a frame is no larger than its segment.

use crate::error::Result;
use crate::format::Fault;
use crate::format::codec::{crc, is_zero, narrow, wide};
use crate::format::frame::{self, FrameHeader, HEADER_BYTES};
use crate::segment::file::Segment;

const WINDOW: usize = 256 << 10;
/// The first window: a follower looks for a few new frames, a thousand times a second.
const WINDOW_FIRST: usize = 16 << 10;

/// What the walk met.
#[derive(Debug)]
pub(crate) enum Step<'a> {
    /// A valid frame.
    Frame { offset: u64, header: FrameHeader, payload: &'a [u8] },
    /// Zero bytes where a frame would start: the end, unless a valid frame follows.
    Zero { offset: u64 },
    /// Bytes that are no valid frame.
    Bad { offset: u64, fault: Fault },
    /// The end of the range.
    End,
}

/// A walk from an offset up to `limit`.
#[derive(Debug)]
pub(crate) struct Scan<'s> {
    segment: &'s Segment,
    at: u64,
    limit: u64,
    window: Vec<u8>,
    window_at: u64,
    window_len: usize,
    /// Bytes of the next window.
    window_next: usize,
}

impl<'s> Scan<'s> {
    /// Starts at `from`, a frame boundary, and goes no further than `limit`.
    pub(crate) fn new(segment: &'s Segment, from: u64, limit: u64) -> Self {
        let limit = limit.min(segment.frames_limit());
        Self {
            segment,
            at: from,
            limit,
            window: Vec::new(),
            window_at: 0,
            window_len: 0,
            window_next: WINDOW_FIRST,
        }
    }

    /// The next step. After `Zero` or `Bad` the walk stays where it is until `resync` or `skip_to`.
    pub(crate) fn step(&mut self) -> Result<Step<'_>> {
        let offset = self.at;
        let room = self.limit.saturating_sub(offset);
        if room < frame::HEADER_LEN {
            return Ok(Step::End);
        }
        let salt = self.segment.header.salt;
        if !self.fill(offset, HEADER_BYTES)? {
            return Ok(Step::Bad { offset, fault: Fault::Short });
        }
        let header = match FrameHeader::decode(self.bytes(offset, HEADER_BYTES), salt, offset, room)
        {
            Ok(h) => h,
            Err(Fault::Zero) => return Ok(Step::Zero { offset }),
            Err(fault) => return Ok(Step::Bad { offset, fault }),
        };
        let total = narrow(header.frame_len());
        if !self.fill(offset, total)? {
            return Ok(Step::Bad { offset, fault: Fault::Short });
        }
        let body = self.bytes(offset, total).get(HEADER_BYTES..).unwrap_or(&[]);
        let (payload, padding) = body.split_at(body.len().min(header.len as usize));
        if crc(payload) != header.pcrc || !is_zero(padding) {
            return Ok(Step::Bad { offset, fault: Fault::Checksum });
        }
        self.at = offset + header.frame_len();
        // Borrowed again because the walk has moved on.
        let payload = self.window_slice(offset + frame::HEADER_LEN, header.len as usize);
        Ok(Step::Frame { offset, header, payload })
    }

    /// Looks for the next valid frame behind the current offset, with a gsn of at least `gsn_min`. Moves there and
    /// returns its offset, or `None` when there is none up to the limit.
    pub(crate) fn resync(&mut self, gsn_min: u64) -> Result<Option<u64>> {
        let mut at = self.at + 8;
        while at + frame::HEADER_LEN <= self.limit {
            if !self.fill(at, HEADER_BYTES)? {
                return Ok(None);
            }
            let have = self.window_at + wide(self.window_len);
            let zeros = leading_zero_words(self.window_slice(at, narrow(have - at)));
            if zeros > 0 {
                at += zeros * 8;
                continue;
            }
            if self.is_frame(at, gsn_min)? {
                self.at = at;
                return Ok(Some(at));
            }
            at += 8;
        }
        Ok(None)
    }

    /// Whether all bytes from `from` to the limit are zero; else the offset behind the last that is not.
    pub(crate) fn last_nonzero(&mut self, from: u64) -> Result<Option<u64>> {
        let mut last = None;
        let mut at = from;
        // What was never written is not read: most of a segment made ahead.
        while let Some(data) = self.segment.next_data(at)?.filter(|d| *d < self.limit) {
            at = at.max(data);
            let want = narrow((self.limit - at).min(wide(WINDOW)));
            if !self.fill(at, want)? {
                break;
            }
            let slice = self.bytes(at, want);
            if !is_zero(slice)
                && let Some(i) = slice.iter().rposition(|b| *b != 0)
            {
                last = Some(at + wide(i) + 1);
            }
            at += wide(want);
        }
        Ok(last)
    }

    fn is_frame(&mut self, at: u64, gsn_min: u64) -> Result<bool> {
        let (salt, room) = (self.segment.header.salt, self.limit - at);
        let Ok(h) = FrameHeader::decode(self.bytes(at, HEADER_BYTES), salt, at, room) else {
            return Ok(false);
        };
        if h.gsn < gsn_min || !self.fill(at, narrow(h.frame_len()))? {
            return Ok(false);
        }
        let payload = self.window_slice(at + frame::HEADER_LEN, h.len as usize);
        Ok(crc(payload) == h.pcrc)
    }

    /// Makes `[offset, offset + len)` available in the window; `false` when the file ends before.
    fn fill(&mut self, offset: u64, len: usize) -> Result<bool> {
        let end = offset + wide(len);
        if offset >= self.window_at && end <= self.window_at + wide(self.window_len) {
            return Ok(true);
        }
        let room = narrow(self.limit.saturating_sub(offset));
        let want = len.max(self.window_next).min(room).max(len);
        self.window_next = (self.window_next * 4).min(WINDOW);
        if self.window.len() < want {
            self.window.resize(want, 0);
        }
        self.window_at = offset;
        let buf = self.window.get_mut(..want).unwrap_or(&mut []);
        self.window_len = self.segment.read_at(buf, offset)?;
        Ok(self.window_len >= len)
    }

    fn bytes(&self, offset: u64, len: usize) -> &[u8] {
        self.window_slice(offset, len)
    }

    fn window_slice(&self, offset: u64, len: usize) -> &[u8] {
        let at = narrow(offset - self.window_at);
        self.window.get(at..at + len).unwrap_or(&[])
    }
}

fn leading_zero_words(bytes: &[u8]) -> u64 {
    let mut words = 0;
    for page in bytes.chunks(4_096) {
        if page.len() == 4_096 && is_zero(page) {
            words += 512;
            continue;
        }
        for w in page.chunks_exact(8) {
            if !is_zero(w) {
                return words;
            }
            words += 1;
        }
    }
    words
}

/// Whether the frame at `offset` verifies when it is read again a little later: a writer may have been in the midst
/// of it, for microseconds.
pub(crate) fn verifies_now(segment: &Segment, offset: u64, limit: u64) -> Result<bool> {
    for attempt in 0..4 {
        if attempt > 0 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        if let Step::Frame { .. } = Scan::new(segment, offset, limit).step()? {
            return Ok(true);
        }
    }
    Ok(false)
}
