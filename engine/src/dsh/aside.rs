//! What an import sets aside: bytes that are no event of their place, kept as the data of an ignorable event.
//!
//! # Invariants
//! A1. The data gives back every byte: as text where it is UTF-8 and that fits, else in base64.
//! A2. What does not fit one event goes into several, which say that they belong together.
//! A3. The list of lines is bounded; what it leaves out it counts.
//!
//! # Units
//! `line`: lines from 1. `offset`: bytes of the text, or of the compressed input where a frame is kept.

use crate::json::{Members, unescape};
use crate::json::{json_string_len, safe_integer, string_value, write_string};
use crate::{Error, NewEvent, Result};

/// Type of the events that hold what was set aside.
pub(crate) const SALVAGED_TYPE: &[u8] = b"everlog/salvaged";

/// Entries of the list of lines that name one line each, before neighbours are joined.
const SINGLES_MAX: usize = 1_000;
/// Most entries of the list.
const RANGES_MAX: usize = 10_000;
/// Room for everything in the data but the bytes.
const FRAME_BYTES: usize = 160;

/// Lines that were set aside, from the first to the last.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
/// let log = concat!(
///     r#"{"type":"session","version":0,"id":"a","createdAt":1,"delegationDepth":0}"#, "\n",
///     r#"{"type":"turn/start","seq":1,"time":2,"data":{"turn":1}}"#, "\n",
/// );
/// let options = everlog::ImportOptions { salvage: true, ..Default::default() };
/// let report = store.import_dsh(log.as_bytes(), &options, &mut |_| true)?;
/// let lines: &everlog::dsh::LineRange = &report.aside[0];
/// assert_eq!((report.salvaged, lines.first, lines.last, lines.offset), (1, 2, 2, 74));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LineRange {
    /// Number of the first line.
    pub first: u64,
    /// Number of the last line.
    pub last: u64,
    /// Offset of the first byte.
    pub offset: u64,
}

/// The lines that an import set aside.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct AsideList {
    pub(super) lines: u64,
    pub(super) ranges: Vec<LineRange>,
}

impl AsideList {
    /// Counts a line; a part of the last one is not counted again.
    pub(super) fn note(&mut self, line: u64, offset: u64) {
        let full = self.ranges.len() >= SINGLES_MAX;
        if let Some(last) = self.ranges.last_mut() {
            if last.last == line {
                return;
            }
            if full && last.last + 1 == line {
                last.last = line;
                self.lines += 1;
                return;
            }
        }
        self.lines += 1;
        if self.ranges.len() < RANGES_MAX {
            self.ranges.push(LineRange { first: line, last: line, offset });
        }
    }
}

/// Bytes to set aside.
#[derive(Clone, Copy, Debug)]
pub(super) struct Aside<'a> {
    pub(super) line: u64,
    pub(super) offset: u64,
    pub(super) bytes: &'a [u8],
    /// Whether the event before is on the same line.
    pub(super) before: bool,
    /// Whether the event after is on the same line.
    pub(super) after: bool,
    /// Whether the input ends behind the bytes, without a newline.
    pub(super) unended: bool,
    /// Whether these are bytes of the compressed input.
    pub(super) compressed: bool,
}

impl<'a> Aside<'a> {
    /// A whole line with its newline.
    pub(super) fn line(line: u64, offset: u64, bytes: &'a [u8]) -> Self {
        let (before, after, unended, compressed) = (false, false, false, false);
        Self { line, offset, bytes, before, after, unended, compressed }
    }

    /// Gives the data of one event, or of several where one would be longer than `data_bytes_max`.
    ///
    /// # Errors
    /// `Limit` when not even one byte fits, and what `f` gives.
    pub(super) fn for_each(
        &self,
        data_bytes_max: usize,
        mut f: impl FnMut(Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        let room = data_bytes_max.saturating_sub(FRAME_BYTES);
        let piece_max = room / 4 * 3;
        if piece_max == 0 {
            return Err(Error::limit("data", FRAME_BYTES as u64 + 4, data_bytes_max as u64));
        }
        let mut rest = *self;
        loop {
            let as_text =
                std::str::from_utf8(rest.bytes).is_ok_and(|_| json_string_len(rest.bytes) <= room);
            let mut piece = rest;
            if !as_text && rest.bytes.len() > piece_max {
                piece.bytes = rest.bytes.get(..piece_max).unwrap_or_default();
                (piece.after, piece.unended) = (true, false);
                rest.bytes = rest.bytes.get(piece_max..).unwrap_or_default();
                (rest.before, rest.offset) = (true, rest.offset + piece_max as u64);
                f(piece.data(room))?;
            } else {
                return f(piece.data(room));
            }
        }
    }

    fn data(&self, room: usize) -> Vec<u8> {
        let fits = |text: &&str| json_string_len(text.as_bytes()) <= room;
        let text = std::str::from_utf8(self.bytes).ok().filter(fits);
        let mut out = Vec::with_capacity(FRAME_BYTES + self.bytes.len() / 3 * 4 + 4);
        out.extend_from_slice(
            format!("{{\"line\":{},\"offset\":{},", self.line, self.offset).as_bytes(),
        );
        match text {
            Some(text) => {
                out.extend_from_slice(b"\"text\":");
                write_string(&mut out, text.as_bytes());
            }
            None => {
                out.extend_from_slice(b"\"base64\":\"");
                encode_base64(self.bytes, &mut out);
                out.push(b'"');
            }
        }
        let joined = match (self.before, self.after) {
            (true, true) => Some("both"),
            (true, false) => Some("before"),
            (false, true) => Some("after"),
            (false, false) => None,
        };
        if let Some(joined) = joined {
            out.extend_from_slice(format!(",\"joined\":\"{joined}\"").as_bytes());
        }
        if self.unended {
            out.extend_from_slice(b",\"unended\":true");
        }
        if self.compressed {
            out.extend_from_slice(b",\"compressed\":true");
        }
        out.push(b'}');
        out
    }
}

/// The event that holds what was set aside.
pub(super) fn salvaged_event(data: Vec<u8>, time_ms: i64) -> NewEvent<'static> {
    NewEvent {
        event_type: SALVAGED_TYPE.into(),
        data: data.into(),
        time_ms: Some(time_ms),
        surface_op: None,
        sources: None,
        ignorable: true,
        surface_first: false,
    }
}

/// What the data of such an event holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Kept {
    pub(super) bytes: Vec<u8>,
    pub(super) before: bool,
    pub(super) after: bool,
    pub(super) unended: bool,
    pub(super) compressed: bool,
}

/// Reads the data of an event that holds what was set aside; nothing when it is none.
pub(super) fn read_aside(data: &[u8]) -> Option<Kept> {
    if !crate::json::is_object(data) {
        return None;
    }
    let (mut line, mut bytes, mut joined) = (None, None, None);
    let (mut unended, mut compressed) = (false, false);
    for (key, value) in Members::new(data) {
        match &*unescape(key) {
            b"line" => line = safe_integer(value),
            b"text" => bytes = string_value(value).map(|text| text.into_owned()),
            b"base64" => bytes = string_value(value).and_then(|text| decode_base64(&text)),
            b"joined" => joined = string_value(value).map(|text| text.into_owned()),
            b"unended" => unended = value == b"true",
            b"compressed" => compressed = value == b"true",
            _ => {}
        }
    }
    line?;
    let joined = joined.unwrap_or_default();
    Some(Kept {
        bytes: bytes?,
        before: joined == b"before" || joined == b"both",
        after: joined == b"after" || joined == b"both",
        unended,
        compressed,
    })
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Appends bytes in base64 (RFC 4648) with padding.
fn encode_base64(bytes: &[u8], out: &mut Vec<u8>) {
    let digit = |bits: u32| DIGITS.get((bits & 63) as usize).copied().unwrap_or(b'A');
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let word = byte(0) << 16 | byte(1) << 8 | byte(2);
        let all = [digit(word >> 18), digit(word >> 12), digit(word >> 6), digit(word)];
        let used = all.get(..chunk.len() + 1).unwrap_or_default();
        out.extend_from_slice(used);
        out.extend_from_slice(b"==".get(..3 - chunk.len()).unwrap_or_default());
    }
}

/// Reads base64 with padding; nothing for other text.
fn decode_base64(text: &[u8]) -> Option<Vec<u8>> {
    let value = |digit: u8| DIGITS.iter().position(|d| *d == digit).map(|at| at as u32);
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    for chunk in text.chunks(4) {
        let pad = chunk.iter().rev().take_while(|digit| **digit == b'=').count();
        if chunk.len() != 4 || pad > 2 {
            return None;
        }
        let mut word = 0;
        for digit in chunk.get(..4 - pad)? {
            word = word << 6 | value(*digit)?;
        }
        word <<= 6 * pad as u32;
        let bytes = [(word >> 16) as u8, (word >> 8) as u8, word as u8];
        out.extend_from_slice(bytes.get(..3 - pad)?);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn base64_comes_back() {
        let all: Vec<u8> = (0..=255).collect();
        for end in 0..all.len() {
            let mut text = Vec::new();
            encode_base64(&all[..end], &mut text);
            assert_eq!(decode_base64(&text).unwrap(), &all[..end]);
        }
        let mut text = Vec::new();
        encode_base64(b"any carnal pleas", &mut text);
        assert_eq!(text, b"YW55IGNhcm5hbCBwbGVhcw==");
        for bad in [&b"A"[..], b"A===", b"AB=C", b"!!!!"] {
            assert_eq!(decode_base64(bad), None);
        }
    }

    #[test]
    fn a1_a2_every_byte_comes_back_in_pieces_too() {
        let noise: Vec<u8> = (0..=255_u8).cycle().take(999).collect();
        let texts: [&[u8]; 5] =
            [b"", b"{\"a\":1", "\u{2028}\0\u{1f600}".as_bytes(), b"\xff", &noise];
        for bytes in texts {
            for max in [200, 1_000, 1 << 20] {
                let (mut back, mut parts) = (Vec::new(), Vec::new());
                let aside = Aside { unended: true, ..Aside::line(7, 70, bytes) };
                aside
                    .for_each(max, |data| {
                        assert!(data.len() <= max && crate::json::check(&data, 8).is_ok());
                        parts.push(read_aside(&data).unwrap());
                        Ok(())
                    })
                    .unwrap();
                let last = parts.len() - 1;
                for (at, part) in parts.iter().enumerate() {
                    back.extend_from_slice(&part.bytes);
                    assert_eq!((part.before, part.after), (at > 0, at < last));
                    assert_eq!(part.unended, at == last);
                }
                assert_eq!(back, bytes);
            }
        }
        let none = Aside::line(1, 0, b"x").for_each(100, |_| Ok(()));
        assert_eq!(none.unwrap_err().kind(), crate::ErrorKind::Limit);
    }

    #[test]
    fn a3_the_list_is_bounded_and_counts_all() {
        let mut list = AsideList::default();
        for line in 0..5_000 {
            list.note(line, line);
            list.note(line, line + 1);
        }
        assert_eq!((list.lines, list.ranges.len()), (5_000, SINGLES_MAX));
        assert_eq!(list.ranges.last().map(|r| r.last), Some(4_999));
        for line in 0..50_000 {
            list.note(10_000 + 2 * line, 0);
        }
        assert_eq!((list.lines, list.ranges.len()), (55_000, RANGES_MAX));
    }
}
