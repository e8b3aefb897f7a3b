//! String contents: from escaped JSON to WTF-8 and back.
//!
//! # Invariants
//! W1. Decoding joins an escaped surrogate pair to one character and keeps a lone one as three bytes.
//! W2. Encoding writes what `JSON.stringify` of ECMAScript writes: short escapes where they exist, other
//!     controls and lone surrogates as lower-case `\u` escapes, everything else raw.
//! W3. Text that breaks the grammar decodes to some bytes, never to a panic.

use std::borrow::Cow;

use memchr::memchr;

/// Decodes what stands between the quotes of a JSON string, as WTF-8.
pub(crate) fn unescape(raw: &[u8]) -> Cow<'_, [u8]> {
    let Some(first) = memchr(b'\\', raw) else { return Cow::Borrowed(raw) };
    let mut out = Vec::with_capacity(raw.len());
    let (plain, mut rest) = raw.split_at(first);
    out.extend_from_slice(plain);
    while !rest.is_empty() {
        rest = take_escape(rest, &mut out);
        let plain_end = memchr(b'\\', rest).unwrap_or(rest.len());
        let (plain, after) = rest.split_at(plain_end);
        out.extend_from_slice(plain);
        rest = after;
    }
    Cow::Owned(out)
}

/// Decodes the escape at the start of `rest` and gives what follows it.
fn take_escape<'a>(rest: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
    let [b'\\', letter, after @ ..] = rest else {
        // A backslash without a letter breaks the grammar; it stays as it is (W3).
        out.extend_from_slice(rest);
        return &[];
    };
    let byte = match letter {
        b'b' => 0x08,
        b't' => b'\t',
        b'n' => b'\n',
        b'f' => 0x0C,
        b'r' => b'\r',
        b'u' => return take_unit(after, out),
        other => *other,
    };
    out.push(byte);
    after
}

/// Decodes the hex digits of a `\u` escape, with the low half of a pair when it follows.
fn take_unit<'a>(after: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
    let Some((unit, rest)) = hex_unit(after) else {
        out.extend_from_slice(b"\\u");
        return after;
    };
    if (0xD800..0xDC00).contains(&unit)
        && let [b'\\', b'u', tail @ ..] = rest
        && let Some((low @ 0xDC00..0xE000, tail)) = hex_unit(tail)
    {
        push_code(out, 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00));
        return tail;
    }
    push_code(out, unit);
    rest
}

fn hex_unit(text: &[u8]) -> Option<(u32, &[u8])> {
    let (digits, rest) = text.split_first_chunk::<4>()?;
    let mut unit = 0;
    for digit in digits {
        unit = unit * 16 + (*digit as char).to_digit(16)?;
    }
    Some((unit, rest))
}

/// Appends a code point below 0x110000 in generalised UTF-8, surrogates as three bytes.
fn push_code(out: &mut Vec<u8>, code: u32) {
    match char::from_u32(code) {
        Some(c) => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        None => out.extend_from_slice(&[
            0xE0 | (code >> 12 & 0x0F) as u8,
            0x80 | (code >> 6 & 0x3F) as u8,
            0x80 | (code & 0x3F) as u8,
        ]),
    }
}

/// Appends a string given as WTF-8, in quotes and escaped.
pub(crate) fn write_string(out: &mut Vec<u8>, wtf8: &[u8]) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let hex = |nibble: u32| HEX[(nibble & 15) as usize];
    out.reserve(wtf8.len() + 2);
    out.push(b'"');
    let mut from = 0;
    let mut at = 0;
    while let Some(byte) = wtf8.get(at) {
        let short = match byte {
            b'"' | b'\\' => Some(*byte),
            0x08 => Some(b'b'),
            b'\t' => Some(b't'),
            b'\n' => Some(b'n'),
            0x0C => Some(b'f'),
            b'\r' => Some(b'r'),
            _ => None,
        };
        let (unit, len) = match (byte, wtf8.get(at + 1), wtf8.get(at + 2)) {
            (..=0x1F, _, _) => (u32::from(*byte), 1),
            (0xED, Some(mid @ 0xA0..=0xBF), Some(low)) => {
                (0xD000 | u32::from(mid & 0x3F) << 6 | u32::from(low & 0x3F), 3)
            }
            _ if short.is_some() => (0, 1),
            _ => {
                at += 1;
                continue;
            }
        };
        out.extend_from_slice(wtf8.get(from..at).unwrap_or_default());
        match short {
            Some(letter) => out.extend_from_slice(&[b'\\', letter]),
            None => {
                let digits = [hex(unit >> 12), hex(unit >> 8), hex(unit >> 4), hex(unit)];
                out.extend_from_slice(b"\\u");
                out.extend_from_slice(&digits);
            }
        }
        at += len;
        from = at;
    }
    out.extend_from_slice(wtf8.get(from..).unwrap_or_default());
    out.push(b'"');
}

/// Bytes that [`write_string`] writes for a string.
pub(crate) fn json_string_len(wtf8: &[u8]) -> usize {
    let escaped = |byte: &u8| match byte {
        b'"' | b'\\' | 0x08 | b'\t' | b'\n' | 0x0C | b'\r' => 1,
        ..=0x1F => 5,
        0xED => 3, // a lone surrogate, at most
        _ => 0,
    };
    wtf8.iter().map(escaped).sum::<usize>() + wtf8.len() + 2
}

/// The decoded contents of a JSON string; nothing when the value is not one.
pub(crate) fn string_value(value: &[u8]) -> Option<Cow<'_, [u8]>> {
    match super::trim(value) {
        [b'"', raw @ .., b'"'] => Some(unescape(raw)),
        _ => None,
    }
}

/// Whether the value is the string with these decoded contents (WTF-8).
pub(crate) fn string_is(value: &[u8], wanted: &[u8]) -> bool {
    string_value(value).is_some_and(|found| *found == *wanted)
}

/// Whether the value is the string without contents.
pub(crate) fn is_empty_string(value: &[u8]) -> bool {
    super::trim(value) == b"\"\""
}
