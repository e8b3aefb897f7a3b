//! What stands on a damaged line: whole objects, and the bytes around them.
//!
//! # Invariants
//! P1. The pieces are the line, in order and without a gap.
//! P2. Objects count that follow one another from the start of the line, with nothing but whitespace and NUL between,
//!     and one that reaches to its end and has a type. Objects inside others, and inside a line that was cut, do not.
//! P3. Work is bounded by a multiple of the length.

use memchr::memchr_iter;

use super::super::record::Fields;
use crate::json::{JsonFaultKind, check, check_prefix, is_space, is_string, member};

/// Bytes scanned for one byte of text, at most.
const WORK_FACTOR: usize = 32;
/// Bytes that may be scanned whatever the length.
const WORK_FREE_BYTES: usize = 16 << 10;

/// A part of a line, from its first byte to before its last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Piece {
    /// One JSON object, with whitespace around it.
    Event(usize, usize),
    /// Anything else.
    Other(usize, usize),
}

/// Takes a line apart.
pub(super) fn pieces(text: &[u8], depth_max: usize) -> Vec<Piece> {
    let mut out = Vec::new();
    let mut at = 0;
    loop {
        let rest = text.get(at..).unwrap_or_default();
        let Some(lead) = rest.iter().position(|byte| !is_space(*byte) && *byte != 0) else {
            trail(text, at, &mut out);
            return out;
        };
        let object = rest.get(lead..).unwrap_or_default();
        let end =
            if object.first() == Some(&b'{') { check_prefix(object, depth_max).ok() } else { None };
        let Some(end) = end else { break };
        if rest.iter().take(lead).any(|byte| *byte == 0) {
            out.push(Piece::Other(at, at + lead));
            at += lead;
        }
        let start = at;
        at = text.len() - object.len() + end;
        out.push(Piece::Event(start, at));
    }
    let rest = text.get(at..).unwrap_or_default();
    let Some((start, end)) = at_end(rest, depth_max) else {
        out.push(Piece::Other(at, text.len()));
        return out;
    };
    out.push(Piece::Other(at, at + start));
    out.push(Piece::Event(at + start, at + end));
    trail(text, at + end, &mut out);
    out
}

/// Whitespace and NUL at the end of a line: whitespace belongs to the object before it.
fn trail(text: &[u8], at: usize, out: &mut Vec<Piece>) {
    if at >= text.len() {
        return;
    }
    let blank = text.iter().skip(at).all(|byte| is_space(*byte));
    match out.last_mut() {
        Some(Piece::Event(_, end)) if blank => *end = text.len(),
        _ => out.push(Piece::Other(at, text.len())),
    }
}

/// A whole object with a type that reaches to the end of damaged text.
fn at_end(text: &[u8], depth_max: usize) -> Option<(usize, usize)> {
    let cut = match check(text, depth_max) {
        Ok(()) => return None,
        Err(fault) => fault.what == JsonFaultKind::Truncated,
    };
    let mut work = text.len().saturating_mul(WORK_FACTOR).saturating_add(WORK_FREE_BYTES);
    for start in memchr_iter(b'{', text) {
        let object = text.get(start..)?;
        let (spent, end) = match check_prefix(object, depth_max) {
            Ok(end) => (end, Some(end)),
            Err(fault) => (fault.offset, None),
        };
        work = work.checked_sub(spent.saturating_add(1))?;
        let Some(end) = end else { continue };
        let behind = object.get(end..)?;
        if behind.iter().any(|byte| !is_space(*byte) && *byte != 0) {
            continue;
        }
        let object = object.get(..end)?;
        // Text that is the start of something whole was cut there; an object in it is a part of that,
        // unless it says that it is an event.
        let counts = if cut {
            Fields::split(object, depth_max).is_ok_and(|fields| fields.is_event(true))
        } else {
            member(object, b"type").is_some_and(is_string)
        };
        return counts.then_some((start, start + end));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::Piece::{Event, Other};
    use super::*;

    #[test]
    fn p2_whole_objects_are_found_beside_damage() {
        let cases: [(&[u8], &[Piece]); 13] = [
            (b"{\"a\":1}{\"b\":2}", &[Event(0, 7), Event(7, 14)]),
            (b"{\"a\":1} {\"b\":2} ", &[Event(0, 7), Event(7, 16)]),
            (b"\0\0{\"a\":1}\0", &[Other(0, 2), Event(2, 9), Other(9, 10)]),
            (b"{\"a\":\"x{\"type\":\"y\"}", &[Other(0, 7), Event(7, 19)]),
            (b"{\"a\":\"x{\"type\":1}", &[Other(0, 17)]),
            (b"{\"a\":{\"type\":\"y\"}", &[Other(0, 17)]),
            (b"{\"a\":1}xx{\"type\":\"y\"}", &[Event(0, 7), Other(7, 9), Event(9, 21)]),
            (b"[{\"type\":\"y\"}]", &[Other(0, 14)]),
            (b"12", &[Other(0, 2)]),
            (b"{\"type\":\"m\",\"d\":\x01{\"type\":\"x\"}}", &[Other(0, 30)]),
            (b"", &[]),
            (b" \0", &[Other(0, 2)]),
            (
                b"{\"t\":{\"type\":\"m\",\"seq\":0,\"time\":1,\"data\":1}",
                &[Other(0, 5), Event(5, 43)],
            ),
        ];
        for (text, want) in cases {
            let got = pieces(text, 64);
            assert_eq!(got, want, "{}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn p3_work_is_bounded() {
        let nested = "{\"a\":".repeat(100_000);
        assert_eq!(pieces(nested.as_bytes(), usize::MAX), [Other(0, nested.len())]);
    }
}
