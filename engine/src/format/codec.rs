//! Small readers and writers of bytes: fixed fields, varints, zigzags, checksums.
//!
//! # Invariants
//! C1. Every read is bounds-checked and returns `None` instead of panicking.
//! C2. A varint is refused when it is longer than needed or does not fit 64 bits.

/// Whether a seq, a gsn or a count is one that can be: what is larger would overflow where it is added to.
pub(crate) fn is_safe(v: u64) -> bool {
    v <= crate::limits::SAFE_INTEGER_MAX + 1
}

/// CRC-32 of a slice.
pub(crate) fn crc(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// `N` bytes at `at`, or zeros past the end (callers check the length of fixed structures once).
pub(crate) fn bytes_at<const N: usize>(buf: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    if let Some(src) = at.checked_add(N).and_then(|end| buf.get(at..end)) {
        out.copy_from_slice(src);
    }
    out
}

/// u16 at `at`.
pub(crate) fn u16_at(buf: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes_at(buf, at))
}

/// u32 at `at`.
pub(crate) fn u32_at(buf: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes_at(buf, at))
}

/// u64 at `at`.
pub(crate) fn u64_at(buf: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes_at(buf, at))
}

/// i64 at `at`.
pub(crate) fn i64_at(buf: &[u8], at: usize) -> i64 {
    i64::from_le_bytes(bytes_at(buf, at))
}

/// Copies `src` to `at`; bytes that do not fit are dropped (callers size their buffers by constants).
pub(crate) fn put(buf: &mut [u8], at: usize, src: &[u8]) {
    if let Some(dst) = at.checked_add(src.len()).and_then(|end| buf.get_mut(at..end)) {
        dst.copy_from_slice(src);
    }
}

/// Whether a slice holds only zero bytes.
pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    let mut chunks = bytes.chunks_exact(64);
    chunks.all(|c| c.iter().fold(0, |acc, b| acc | b) == 0)
        && bytes.chunks_exact(64).remainder().iter().all(|b| *b == 0)
}

/// `usize` as `u64`; lossless on every platform that this crate runs on.
pub(crate) const fn wide(n: usize) -> u64 {
    n as u64
}

/// `u64` as `usize`, saturating; a saturated value fails every following bounds check.
pub(crate) fn narrow(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

/// Rounds up to the next multiple of 8.
pub(crate) const fn align8(n: u64) -> u64 {
    (n + 7) & !7
}

/// Appends a varint.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut v: u64) {
    while v >= 0x80 {
        out.push((v as u8 & 0x7F) | 0x80);
        v >>= 7;
    }
    out.push(v as u8);
}

/// Appends a signed value as a zigzag varint.
pub(crate) fn put_zigzag(out: &mut Vec<u8>, v: i64) {
    put_varint(out, ((v << 1) ^ (v >> 63)) as u64);
}

/// Bytes that a varint takes.
pub(crate) const fn varint_len(v: u64) -> usize {
    (64 - (v | 1).leading_zeros()).div_ceil(7) as usize
}

/// A reader that walks over a slice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Walk<'a> {
    buf: &'a [u8],
    at: usize,
}

impl<'a> Walk<'a> {
    pub(crate) const fn new(buf: &'a [u8]) -> Self {
        Self { buf, at: 0 }
    }

    pub(crate) const fn at(buf: &'a [u8], at: usize) -> Self {
        Self { buf, at }
    }

    /// Bytes from the start of the slice to the next one.
    pub(crate) const fn pos(&self) -> usize {
        self.at
    }

    pub(crate) const fn left(&self) -> usize {
        self.buf.len().saturating_sub(self.at)
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        let b = *self.buf.get(self.at)?;
        self.at += 1;
        Some(b)
    }

    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(len)?;
        let out = self.buf.get(self.at..end)?;
        self.at = end;
        Some(out)
    }

    pub(crate) fn varint(&mut self) -> Option<u64> {
        let first = self.byte()?;
        if first < 0x80 {
            return Some(u64::from(first));
        }
        let mut v = u64::from(first & 0x7F);
        let mut shift = 7;
        loop {
            let b = self.byte()?;
            if shift == 63 && b > 1 {
                return None;
            }
            v |= u64::from(b & 0x7F) << shift;
            if b < 0x80 {
                return (b != 0).then_some(v);
            }
            shift += 7;
            if shift > 63 {
                return None;
            }
        }
    }

    pub(crate) fn zigzag(&mut self) -> Option<i64> {
        let v = self.varint()?;
        Some((v >> 1) as i64 ^ -((v & 1) as i64))
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        Some(u16_at(self.take(2)?, 0))
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        Some(u32_at(self.take(4)?, 0))
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        Some(u64_at(self.take(8)?, 0))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn c2_varints_round_trip_and_long_forms_are_refused() {
        for v in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX >> 1, u64::MAX] {
            let mut out = Vec::new();
            put_varint(&mut out, v);
            assert_eq!(out.len(), varint_len(v));
            let mut w = Walk::new(&out);
            assert_eq!((w.varint(), w.left()), (Some(v), 0));
            for cut in 0..out.len() {
                assert_eq!(Walk::new(&out[..cut]).varint(), None);
            }
        }
        assert_eq!(Walk::new(&[0x80, 0x00]).varint(), None);
        assert_eq!(Walk::new(&[0xFF; 11]).varint(), None);
        for v in [0, -1, 1, i64::MIN, i64::MAX] {
            let mut out = Vec::new();
            put_zigzag(&mut out, v);
            assert_eq!(Walk::new(&out).zigzag().unwrap(), v);
        }
    }
}
