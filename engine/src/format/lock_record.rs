//! The record that the holder of a session lock leaves for people (docs/format.md section 8).

use super::codec::{bytes_at, i64_at, put, u16_at, u32_at};
use crate::types::LaneNo;

/// Bytes of a record; also the bytes of the range that is the lock.
pub(crate) const LEN: usize = 16;

#[cfg(test)]
pub(crate) const FIELDS: &[super::FieldRow] =
    &[(0, 4, "pid"), (4, 2, "lane"), (6, 2, "reserved"), (8, 8, "since_ms")];

/// Bytes of the record of who creates an id: that of a session lock, the checksum of the id, reserved.
pub(crate) const CREATOR_LEN: usize = 24;

#[cfg(test)]
pub(crate) const CREATOR_FIELDS: &[super::FieldRow] =
    &[(0, 16, "record"), (16, 4, "id_crc"), (20, 4, "reserved")];

/// Who holds a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LockRecord {
    pub(crate) pid: u32,
    pub(crate) lane: LaneNo,
    pub(crate) since_ms: i64,
}

impl LockRecord {
    pub(crate) fn encode(&self) -> [u8; LEN] {
        let mut b = [0; LEN];
        put(&mut b, 0, &self.pid.to_le_bytes());
        put(&mut b, 4, &self.lane.to_le_bytes());
        put(&mut b, 8, &self.since_ms.to_le_bytes());
        b
    }

    /// The record of one who creates the id with that checksum.
    pub(crate) fn encode_creator(&self, id_crc: u32) -> [u8; CREATOR_LEN] {
        let mut b = [0; CREATOR_LEN];
        put(&mut b, 0, &self.encode());
        put(&mut b, 16, &id_crc.to_le_bytes());
        b
    }

    /// Reads the record of one who creates the id with that checksum; `None` when it is that of another id.
    pub(crate) fn decode_creator(b: &[u8; CREATOR_LEN], id_crc: u32) -> Option<Self> {
        let record = Self::decode(&bytes_at(b, 0));
        (u32_at(b, 16) == id_crc && record.pid != 0).then_some(record)
    }

    /// Reads a record. Any bytes are one: nothing depends on it.
    pub(crate) fn decode(b: &[u8; LEN]) -> Self {
        Self { pid: u32_at(b, 0), lane: u16_at(b, 4), since_ms: i64_at(b, 8) }
    }
}
