//! Header and trailer of a segment (docs/format.md section 5).

use super::codec::{bytes_at, crc, i64_at, is_safe, is_zero, put, u16_at, u32_at, u64_at, wide};
use super::{Decoded, FORMAT_MAJOR, FORMAT_MINOR, Fault};
use crate::limits::{SEGMENT_BYTES_CEILING, SESSION_COUNTER_MAX};
use crate::types::{LaneNo, SegmentNo};

/// Bytes that the header takes, frames follow.
pub(crate) const HEADER_LEN: u64 = 4_096;
pub(crate) const USED: usize = 128;
pub(crate) const MAGIC: [u8; 8] = [0x89, b'E', b'V', b'L', b'S', b'G', 0x0D, 0x0A];
/// Bytes of the trailer at the very end of a sealed segment.
pub(crate) const TRAILER_LEN: u64 = 64;
pub(crate) const TRAILER_MAGIC: [u8; 8] = [0x89, b'E', b'V', b'L', b'T', b'R', 0x0D, 0x0A];

#[cfg(test)]
pub(crate) const FIELDS: &[super::FieldRow] = &[
    (0, 8, "magic"),
    (8, 2, "format_major"),
    (10, 2, "format_minor"),
    (12, 4, "incompat_flags"),
    (16, 4, "compat_flags"),
    (20, 2, "lane"),
    (22, 2, "kind"),
    (24, 16, "store_id"),
    (40, 8, "segment"),
    (48, 8, "salt"),
    (56, 4, "epoch"),
    (60, 4, "reserved"),
    (64, 8, "base_gsn"),
    (72, 8, "next_session"),
    (80, 8, "prev_segment"),
    (88, 8, "prev_end"),
    (96, 8, "prev_salt"),
    (104, 8, "capacity"),
    (112, 8, "created_ms"),
    (120, 4, "reserved2"),
    (124, 4, "crc"),
];

#[cfg(test)]
pub(crate) const TRAILER_FIELDS: &[super::FieldRow] = &[
    (0, 8, "magic"),
    (8, 8, "index_offset"),
    (16, 8, "frames_end"),
    (24, 8, "next_gsn"),
    (32, 8, "salt"),
    (40, 8, "next_session"),
    (48, 8, "segment"),
    (56, 4, "reserved"),
    (60, 4, "crc"),
];

/// Where the frames of the segment before end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Prev {
    pub(crate) segment: SegmentNo,
    pub(crate) end: u64,
    pub(crate) salt: u64,
}

/// Contents of a segment header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SegmentHeader {
    pub(crate) store_id: [u8; 16],
    pub(crate) lane: LaneNo,
    pub(crate) segment: SegmentNo,
    pub(crate) salt: u64,
    pub(crate) epoch: u32,
    pub(crate) base_gsn: u64,
    pub(crate) next_session: u64,
    pub(crate) prev: Option<Prev>,
    pub(crate) capacity: u64,
    pub(crate) created_ms: i64,
}

impl SegmentHeader {
    /// The whole header page.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut b = vec![0; HEADER_LEN as usize];
        put(&mut b, 0, &MAGIC);
        put(&mut b, 8, &FORMAT_MAJOR.to_le_bytes());
        put(&mut b, 10, &FORMAT_MINOR.to_le_bytes());
        put(&mut b, 20, &self.lane.to_le_bytes());
        put(&mut b, 24, &self.store_id);
        put(&mut b, 40, &self.segment.to_le_bytes());
        put(&mut b, 48, &self.salt.to_le_bytes());
        put(&mut b, 56, &self.epoch.to_le_bytes());
        put(&mut b, 64, &self.base_gsn.to_le_bytes());
        put(&mut b, 72, &self.next_session.to_le_bytes());
        let prev = self.prev.unwrap_or(Prev { segment: u64::MAX, end: 0, salt: 0 });
        put(&mut b, 80, &prev.segment.to_le_bytes());
        put(&mut b, 88, &prev.end.to_le_bytes());
        put(&mut b, 96, &prev.salt.to_le_bytes());
        put(&mut b, 104, &self.capacity.to_le_bytes());
        put(&mut b, 112, &self.created_ms.to_le_bytes());
        let sum = crc(&b[..124]);
        put(&mut b, 124, &sum.to_le_bytes());
        b
    }

    pub(crate) fn decode(b: &[u8]) -> Decoded<Self> {
        if b.len() < USED {
            return Err(Fault::Short);
        }
        if bytes_at::<8>(b, 0) != MAGIC {
            return Err(if is_zero(b) { Fault::Zero } else { Fault::Magic });
        }
        if u32_at(b, 124) != crc(&b[..124]) {
            return Err(Fault::Checksum);
        }
        if u16_at(b, 8) != FORMAT_MAJOR || u32_at(b, 12) != 0 || u16_at(b, 22) != 0 {
            return Err(Fault::Newer);
        }
        if u32_at(b, 60) != 0 || u32_at(b, 120) != 0 {
            return Err(Fault::Field("reserved bytes are not zero"));
        }
        let prev = Prev { segment: u64_at(b, 80), end: u64_at(b, 88), salt: u64_at(b, 96) };
        let (epoch, next_session, capacity) = (u32_at(b, 56), u64_at(b, 72), u64_at(b, 104));
        if !is_safe(u64_at(b, 64)) || epoch == u32::MAX || next_session > SESSION_COUNTER_MAX + 1 {
            return Err(Fault::Field("a number of the header is out of range"));
        }
        if capacity > SEGMENT_BYTES_CEILING || prev.end > SEGMENT_BYTES_CEILING {
            return Err(Fault::Field("a size in the header is out of range"));
        }
        Ok(Self {
            store_id: bytes_at(b, 24),
            lane: u16_at(b, 20),
            segment: u64_at(b, 40),
            salt: u64_at(b, 48),
            epoch: u32_at(b, 56),
            base_gsn: u64_at(b, 64),
            next_session: u64_at(b, 72),
            prev: (prev.segment != u64::MAX).then_some(prev),
            capacity: u64_at(b, 104),
            created_ms: i64_at(b, 112),
        })
    }
}

/// Contents of a trailer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Trailer {
    pub(crate) index_offset: u64,
    pub(crate) frames_end: u64,
    pub(crate) next_gsn: u64,
    pub(crate) salt: u64,
    pub(crate) next_session: u64,
    pub(crate) segment: SegmentNo,
}

impl Trailer {
    pub(crate) fn encode(&self) -> [u8; TRAILER_LEN as usize] {
        let mut b = [0; TRAILER_LEN as usize];
        put(&mut b, 0, &TRAILER_MAGIC);
        for (i, v) in [
            self.index_offset,
            self.frames_end,
            self.next_gsn,
            self.salt,
            self.next_session,
            self.segment,
        ]
        .into_iter()
        .enumerate()
        {
            put(&mut b, 8 + 8 * i, &v.to_le_bytes());
        }
        let sum = crc(&b[..60]);
        put(&mut b, 60, &sum.to_le_bytes());
        b
    }

    /// Decodes a trailer of the segment `no` with salt `salt`, whose file has `capacity` bytes.
    pub(crate) fn decode(b: &[u8], no: SegmentNo, salt: u64, capacity: u64) -> Decoded<Self> {
        if wide(b.len()) < TRAILER_LEN {
            return Err(Fault::Short);
        }
        if bytes_at::<8>(b, 0) != TRAILER_MAGIC {
            return Err(if is_zero(b) { Fault::Zero } else { Fault::Magic });
        }
        if u32_at(b, 60) != crc(&b[..60]) {
            return Err(Fault::Checksum);
        }
        let t = Self {
            index_offset: u64_at(b, 8),
            frames_end: u64_at(b, 16),
            next_gsn: u64_at(b, 24),
            salt: u64_at(b, 32),
            next_session: u64_at(b, 40),
            segment: u64_at(b, 48),
        };
        if t.segment != no || t.salt != salt {
            return Err(Fault::Foreign);
        }
        let end_max = capacity.saturating_sub(TRAILER_LEN);
        if t.frames_end > end_max || t.index_offset >= t.frames_end || t.index_offset < HEADER_LEN {
            return Err(Fault::Field("an offset of the trailer is out of range"));
        }
        Ok(t)
    }
}
