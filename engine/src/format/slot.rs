//! A slot of the lane file: a lower bound of how far the lane's log goes (docs/format.md section 4).

use super::codec::{bytes_at, crc, i64_at, is_safe, is_zero, put, u16_at, u32_at, u64_at};
use super::segment::SegmentHeader;
use super::{Decoded, Fault};
use crate::types::{LaneNo, SegmentNo};

pub(crate) const LEN: usize = 256;
/// Distance of the two slots; the file is twice as long.
pub(crate) const STRIDE: u64 = 4_096;
pub(crate) const MAGIC: [u8; 8] = [0x89, b'E', b'V', b'L', b'L', b'N', 0x0D, 0x0A];

#[cfg(test)]
pub(crate) const FIELDS: &[super::FieldRow] = &[
    (0, 8, "magic"),
    (8, 8, "counter"),
    (16, 16, "store_id"),
    (32, 2, "lane"),
    (34, 2, "state"),
    (36, 4, "epoch"),
    (40, 8, "segment"),
    (48, 8, "salt"),
    (56, 8, "written_end"),
    (64, 8, "durable_end"),
    (72, 8, "durable_gsn"),
    (80, 8, "index_offset"),
    (88, 16, "boot_id"),
    (104, 4, "pid"),
    (108, 4, "reserved"),
    (112, 8, "since_ms"),
    (120, 64, "host"),
    (184, 64, "label"),
    (248, 4, "reserved2"),
    (252, 4, "crc"),
];

/// What the writer of a lane is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LaneState {
    Open,
    Closed,
    Poisoned,
}

/// Contents of one slot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Slot {
    pub(crate) counter: u64,
    pub(crate) store_id: [u8; 16],
    pub(crate) lane: LaneNo,
    pub(crate) state: LaneState,
    pub(crate) epoch: u32,
    pub(crate) segment: SegmentNo,
    pub(crate) salt: u64,
    pub(crate) written_end: u64,
    pub(crate) durable_end: u64,
    pub(crate) durable_gsn: u64,
    pub(crate) index_offset: u64,
    pub(crate) boot_id: [u8; 16],
    pub(crate) pid: u32,
    pub(crate) since_ms: i64,
    pub(crate) host: String,
    pub(crate) label: String,
}

impl Slot {
    /// Whether it speaks of the segment with this header.
    pub(crate) fn names(&self, header: &SegmentHeader) -> bool {
        self.segment == header.segment && self.salt == header.salt
    }

    pub(crate) fn encode(&self) -> [u8; LEN] {
        let mut b = [0; LEN];
        let state: u16 = match self.state {
            LaneState::Open => 0,
            LaneState::Closed => 1,
            LaneState::Poisoned => 2,
        };
        put(&mut b, 0, &MAGIC);
        put(&mut b, 8, &self.counter.to_le_bytes());
        put(&mut b, 16, &self.store_id);
        put(&mut b, 32, &self.lane.to_le_bytes());
        put(&mut b, 34, &state.to_le_bytes());
        put(&mut b, 36, &self.epoch.to_le_bytes());
        for (i, v) in [
            self.segment,
            self.salt,
            self.written_end,
            self.durable_end,
            self.durable_gsn,
            self.index_offset,
        ]
        .into_iter()
        .enumerate()
        {
            put(&mut b, 40 + 8 * i, &v.to_le_bytes());
        }
        put(&mut b, 88, &self.boot_id);
        put(&mut b, 104, &self.pid.to_le_bytes());
        put(&mut b, 112, &self.since_ms.to_le_bytes());
        put(&mut b, 120, cut(&self.host, 64).as_bytes());
        put(&mut b, 184, cut(&self.label, 64).as_bytes());
        let sum = crc(&b[..252]);
        put(&mut b, 252, &sum.to_le_bytes());
        b
    }

    pub(crate) fn decode(b: &[u8]) -> Decoded<Self> {
        if b.len() < LEN {
            return Err(Fault::Short);
        }
        let b = &b[..LEN];
        if bytes_at::<8>(b, 0) != MAGIC {
            return Err(if is_zero(b) { Fault::Zero } else { Fault::Magic });
        }
        if u32_at(b, 252) != crc(&b[..252]) {
            return Err(Fault::Checksum);
        }
        let sizes = [u64_at(b, 56), u64_at(b, 64), u64_at(b, 80)];
        let counts = [u64_at(b, 8), u64_at(b, 72)];
        if sizes.iter().any(|s| *s > crate::limits::SEGMENT_BYTES_CEILING)
            || !counts.iter().all(|c| is_safe(*c))
        {
            return Err(Fault::Field("a number of the slot is out of range"));
        }
        let state = match u16_at(b, 34) {
            0 => LaneState::Open,
            1 => LaneState::Closed,
            2 => LaneState::Poisoned,
            _ => return Err(Fault::Field("the state of the lane is unknown")),
        };
        Ok(Self {
            counter: u64_at(b, 8),
            store_id: bytes_at(b, 16),
            lane: u16_at(b, 32),
            state,
            epoch: u32_at(b, 36),
            segment: u64_at(b, 40),
            salt: u64_at(b, 48),
            written_end: u64_at(b, 56),
            durable_end: u64_at(b, 64),
            durable_gsn: u64_at(b, 72),
            index_offset: u64_at(b, 80),
            boot_id: bytes_at(b, 88),
            pid: u32_at(b, 104),
            since_ms: i64_at(b, 112),
            host: text(&b[120..184]),
            label: text(&b[184..248]),
        })
    }

    /// The newer of the two slots of a lane file that belong to this store and lane.
    pub(crate) fn newest(file: &[u8], store_id: &[u8; 16], lane: LaneNo) -> Option<Self> {
        let second = usize::try_from(STRIDE).ok().and_then(|s| file.get(s..)).unwrap_or(&[]);
        [file, second]
            .into_iter()
            .filter_map(|b| Self::decode(b).ok())
            .filter(|s| s.store_id == *store_id && s.lane == lane)
            .max_by_key(|s| s.counter)
    }
}

/// The longest prefix of whole characters that fits.
pub(crate) fn cut(s: &str, max: usize) -> &str {
    let end = (0..=max.min(s.len())).rev().find(|i| s.is_char_boundary(*i)).unwrap_or(0);
    s.get(..end).unwrap_or(s)
}

fn text(b: &[u8]) -> String {
    let end = b.iter().position(|c| *c == 0).unwrap_or(b.len());
    String::from_utf8_lossy(&b[..end]).into_owned()
}
