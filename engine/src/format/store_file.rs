//! The STORE file: who a store is (docs/format.md section 3).

use super::codec::{bytes_at, crc, i64_at, is_zero, put, u16_at, u32_at};
use super::{Decoded, FORMAT_MAJOR, FORMAT_MINOR, Fault};

pub(crate) const LEN: usize = 64;
pub(crate) const MAGIC: [u8; 8] = [0x89, b'E', b'V', b'L', 0x0D, 0x0A, 0x1A, 0x0A];

#[cfg(test)]
pub(crate) const FIELDS: &[super::FieldRow] = &[
    (0, 8, "magic"),
    (8, 2, "format_major"),
    (10, 2, "format_minor"),
    (12, 4, "incompat_flags"),
    (16, 4, "compat_flags"),
    (20, 4, "access"),
    (24, 16, "store_id"),
    (40, 8, "created_ms"),
    (48, 4, "default_level"),
    (52, 8, "reserved"),
    (60, 4, "crc"),
];

/// Contents of STORE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct StoreFile {
    pub(crate) store_id: [u8; 16],
    pub(crate) created_ms: i64,
    pub(crate) shared_with_group: bool,
    /// 1 `os`, 2 `sync`.
    pub(crate) default_level: u32,
}

impl StoreFile {
    pub(crate) fn encode(&self) -> [u8; LEN] {
        let mut b = [0; LEN];
        put(&mut b, 0, &MAGIC);
        put(&mut b, 8, &FORMAT_MAJOR.to_le_bytes());
        put(&mut b, 10, &FORMAT_MINOR.to_le_bytes());
        put(&mut b, 20, &u32::from(self.shared_with_group).to_le_bytes());
        put(&mut b, 24, &self.store_id);
        put(&mut b, 40, &self.created_ms.to_le_bytes());
        put(&mut b, 48, &self.default_level.to_le_bytes());
        let sum = crc(&b[..60]);
        put(&mut b, 60, &sum.to_le_bytes());
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
        if u32_at(b, 60) != crc(&b[..60]) {
            return Err(Fault::Checksum);
        }
        if u16_at(b, 8) != FORMAT_MAJOR || u32_at(b, 12) != 0 {
            return Err(Fault::Newer);
        }
        if !is_zero(&b[52..60]) {
            return Err(Fault::Field("reserved bytes are not zero"));
        }
        let (access, default_level) = (u32_at(b, 20), u32_at(b, 48));
        if access > 1 || !(1..=2).contains(&default_level) {
            return Err(Fault::Field("access or default level is out of range"));
        }
        Ok(Self {
            store_id: bytes_at(b, 24),
            created_ms: i64_at(b, 40),
            shared_with_group: access == 1,
            default_level,
        })
    }
}
