//! Frames: the header, its two checksums, kinds and flags (docs/format.md sections 6 and 7).
//!
//! # Invariants
//! R1. The header checksum covers the salt and the file offset, so a stale, moved or embedded frame never verifies.
//! R2. `len` is read only after the header checksum held, and is bounded by what is left of the segment and by the
//!     largest frame that can be written: it becomes a buffer.

use super::codec::{align8, bytes_at, is_safe, is_zero, put, u16_at, u32_at, u64_at};
use super::{Decoded, Fault};
use crate::limits::{FRAME_PAYLOAD_BYTES_MAX, INDEX_PAYLOAD_BYTES_MAX};

pub(crate) const HEADER_LEN: u64 = 48;
/// The same as a slice length.
pub(crate) const HEADER_BYTES: usize = 48;

#[cfg(test)]
pub(crate) const FIELDS: &[super::FieldRow] = &[
    (0, 4, "hcrc"),
    (4, 4, "len"),
    (8, 4, "pcrc"),
    (12, 1, "kind"),
    (13, 1, "flags"),
    (14, 2, "count"),
    (16, 8, "session"),
    (24, 8, "seq"),
    (32, 8, "gsn"),
    (40, 4, "raw_len"),
    (44, 4, "key"),
];

/// Frame kinds by number.
pub(crate) mod kind {
    pub(crate) const EVENTS: u8 = 1;
    pub(crate) const SYNCMARK: u8 = 2;
    pub(crate) const INDEX: u8 = 3;
    pub(crate) const CLOSE: u8 = 4;
    pub(crate) const CREATE: u8 = 16;
    pub(crate) const CONTINUE: u8 = 17;
    pub(crate) const FORK: u8 = 18;
    pub(crate) const RM: u8 = 19;
    pub(crate) const RESTORE: u8 = 20;
    pub(crate) const PURGE: u8 = 21;
    pub(crate) const REDACT: u8 = 22;
    /// Reserved: events of this session that another session holds.
    pub(crate) const JOIN: u8 = 23;
    pub(crate) const PUBLISH: u8 = 24;
    pub(crate) const TAG: u8 = 25;
    /// Kinds from here up may be stepped over by readers that do not know them.
    pub(crate) const OPTIONAL_FROM: u8 = 128;
    /// All kinds that the page gives a number, for the specification test.
    #[cfg(test)]
    pub(crate) const ALL: [(u8, &str); 17] = [
        (EVENTS, "EVENTS"),
        (SYNCMARK, "SYNCMARK"),
        (INDEX, "INDEX"),
        (CLOSE, "CLOSE"),
        (CREATE, "CREATE"),
        (CONTINUE, "CONTINUE"),
        (FORK, "FORK"),
        (RM, "RM"),
        (RESTORE, "RESTORE"),
        (PURGE, "PURGE"),
        (REDACT, "REDACT"),
        (JOIN, "JOIN"),
        (PUBLISH, "PUBLISH"),
        (TAG, "TAG"),
        (32, "VALUE"),
        (33, "CHAIN"),
        (34, "KEY"),
    ];
}

/// Frame flags.
pub(crate) mod flag {
    pub(crate) const RESTARTS: u8 = 1;
    pub(crate) const COLUMNS: u8 = 4;
    /// All flags that the page gives a bit, for the specification test.
    #[cfg(test)]
    pub(crate) const ALL: [(u8, &str); 5] = [
        (RESTARTS, "RESTARTS"),
        (2, "ZSTD"),
        (COLUMNS, "COLUMNS"),
        (8, "ENCRYPTED"),
        (16, "GROUPS"),
    ];
}

/// A frame header without its checksums' inputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct FrameHeader {
    pub(crate) len: u32,
    pub(crate) pcrc: u32,
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) count: u16,
    pub(crate) session: u64,
    pub(crate) seq: u64,
    pub(crate) gsn: u64,
}

impl FrameHeader {
    /// Bytes that the frame takes, padding included.
    pub(crate) fn frame_len(&self) -> u64 {
        HEADER_LEN + align8(u64::from(self.len))
    }

    /// Whether this is a control frame of a session.
    pub(crate) fn is_control(&self) -> bool {
        (kind::CREATE..=kind::TAG).contains(&self.kind)
    }

    /// The header as it stands at `offset` of a segment with `salt`.
    pub(crate) fn encode(&self, salt: u64, offset: u64) -> [u8; HEADER_BYTES] {
        let mut b = [0; HEADER_BYTES];
        put(&mut b, 4, &self.len.to_le_bytes());
        put(&mut b, 8, &self.pcrc.to_le_bytes());
        b[12] = self.kind;
        b[13] = self.flags;
        put(&mut b, 14, &self.count.to_le_bytes());
        put(&mut b, 16, &self.session.to_le_bytes());
        put(&mut b, 24, &self.seq.to_le_bytes());
        put(&mut b, 32, &self.gsn.to_le_bytes());
        let sum = hcrc(salt, offset, &b);
        put(&mut b, 0, &sum.to_le_bytes());
        b
    }

    /// Decodes the header at `offset`, from which `room` bytes are left in the segment.
    pub(crate) fn decode(b: &[u8], salt: u64, offset: u64, room: u64) -> Decoded<Self> {
        if b.len() < HEADER_BYTES || room < HEADER_LEN {
            return Err(Fault::Short);
        }
        let b = &b[..HEADER_BYTES];
        if u32_at(b, 0) != hcrc(salt, offset, b) {
            return Err(if is_zero(b) { Fault::Zero } else { Fault::Checksum });
        }
        let h = Self {
            len: u32_at(b, 4),
            pcrc: u32_at(b, 8),
            kind: b[12],
            flags: b[13],
            count: u16_at(b, 14),
            session: u64_at(b, 16),
            seq: u64_at(b, 24),
            gsn: u64_at(b, 32),
        };
        if h.frame_len() > room {
            return Err(Fault::Field("the length passes the end of the segment"));
        }
        let index = h.kind == kind::INDEX;
        if h.len as usize > if index { INDEX_PAYLOAD_BYTES_MAX } else { FRAME_PAYLOAD_BYTES_MAX } {
            return Err(Fault::Field("the length is above that of the largest frame"));
        }
        let count = u64::from(h.count);
        if !is_safe(h.seq.saturating_add(count)) || !is_safe(h.gsn.saturating_add(count)) {
            return Err(Fault::Field("a seq or gsn is out of range"));
        }
        h.check_kind(u32_at(b, 40), u32_at(b, 44))?;
        Ok(h)
    }

    fn check_kind(&self, raw_len: u32, key: u32) -> Decoded<()> {
        match self.kind {
            kind::JOIN => return Err(Fault::Newer),
            kind::EVENTS => {
                if self.flags & !(flag::RESTARTS | flag::COLUMNS) != 0 {
                    return Err(Fault::Newer);
                }
                if self.count == 0 {
                    return Err(Fault::Field("a frame of events counts none"));
                }
            }
            kind::SYNCMARK | kind::INDEX | kind::CLOSE | kind::CREATE..=kind::TAG => {
                if self.flags != 0 {
                    return Err(Fault::Newer);
                }
                if self.count != 0 {
                    return Err(Fault::Field("a frame without events counts some"));
                }
            }
            kind::OPTIONAL_FROM.. => return Ok(()),
            _ => return Err(Fault::Newer),
        }
        if raw_len != 0 || key != 0 {
            return Err(Fault::Field("reserved bytes are not zero"));
        }
        Ok(())
    }
}

/// Checksum of a header at its place.
fn hcrc(salt: u64, offset: u64, header: &[u8]) -> u32 {
    let mut input = [0; 16 + HEADER_BYTES - 4];
    put(&mut input, 0, &salt.to_le_bytes());
    put(&mut input, 8, &offset.to_le_bytes());
    put(&mut input, 16, &bytes_at::<44>(header, 4));
    crc32fast::hash(&input)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn r2_a_length_above_the_largest_frame_is_refused() {
        let long = |kind: u8, len: usize| {
            let count = u16::from(kind == kind::EVENTS);
            let h = FrameHeader { len: len as u32, kind, count, ..FrameHeader::default() };
            FrameHeader::decode(&h.encode(7, 4_096), 7, 4_096, 4 << 30)
        };
        for kind in [kind::EVENTS, kind::CREATE, kind::SYNCMARK, kind::OPTIONAL_FROM] {
            assert!(long(kind, FRAME_PAYLOAD_BYTES_MAX).is_ok());
            assert!(matches!(long(kind, FRAME_PAYLOAD_BYTES_MAX + 1), Err(Fault::Field(_))));
        }
        assert!(long(kind::INDEX, INDEX_PAYLOAD_BYTES_MAX).is_ok());
        assert!(matches!(long(kind::INDEX, INDEX_PAYLOAD_BYTES_MAX + 1), Err(Fault::Field(_))));
    }
}
