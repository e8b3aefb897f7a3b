//! The record that the holder of a session lock leaves for people (docs/format.md section 8).

use super::codec::{i64_at, put, u16_at, u32_at};
use crate::types::LaneNo;

/// Bytes of a record; also the bytes of the range that is the lock.
pub(crate) const LEN: usize = 16;

#[cfg(test)]
pub(crate) const FIELDS: &[super::FieldRow] =
    &[(0, 4, "pid"), (4, 2, "lane"), (6, 2, "reserved"), (8, 8, "since_ms")];

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

    /// Reads a record. Any bytes are one: nothing depends on it.
    pub(crate) fn decode(b: &[u8; LEN]) -> Self {
        Self { pid: u32_at(b, 0), lane: u16_at(b, 4), since_ms: i64_at(b, 8) }
    }
}
