//! The line as writers lay it out, taken apart without looking for keys.
//!
//! # Invariants
//! A1. What is taken here is exactly what the general way gives for the same line. Any other layout, and
//!     any fault, gives nothing, and the general way decides.

use super::record::{Fields, plain_seqs};
use super::rows::RowKind;
use crate::json::check_prefix;

/// Most digits of a number that is taken here: any such number is a safe integer.
const DIGITS_MAX: usize = 15;

/// Takes a line apart that has its keys in the order of writers, with nothing between its tokens.
pub(super) fn split_canonical(text: &[u8], depth_max: usize) -> Option<Fields<'_>> {
    let rest = text.strip_prefix(b"{\"type\":")?;
    let (kind, rest) = take_plain_string(rest)?;
    let mut fields = Fields { kind: Some(kind), ..Fields::default() };
    let rest = if let Some(rest) = rest.strip_prefix(b",\"seq\":") {
        let (seq, rest) = take_digits(rest)?;
        let (time, rest) = take_integer(rest.strip_prefix(b",\"time\":")?)?;
        (fields.seq, fields.time) = (Some(seq), Some(time));
        rest
    } else {
        let (seq0, rest) = take_digits(rest.strip_prefix(b",\"seq0\":")?)?;
        let (time0, rest) = take_integer(rest.strip_prefix(b",\"time0\":")?)?;
        (fields.seq0, fields.time0) = (Some(seq0), Some(time0));
        rest
    };
    let rest = rest.strip_prefix(b",\"data\":")?;
    // The line itself is one level; whitespace before the data is no part of it.
    if rest.first().is_none_or(|byte| crate::json::is_space(*byte)) {
        return None;
    }
    let end = check_prefix(rest, depth_max.checked_sub(1)?).ok()?;
    let (data, rest) = rest.split_at_checked(end)?;
    fields.data = Some(data);
    if rest != b"}" {
        take_marks(&mut fields, rest)?;
    }
    Some(fields)
}

/// The marks of an event that appends to the surface, and the end of the line.
fn take_marks<'a>(fields: &mut Fields<'a>, mut rest: &'a [u8]) -> Option<()> {
    if let Some(after) = rest.strip_prefix(b",\"sourceEventSeqs\":") {
        let end = memchr::memchr(b']', after)? + 1;
        let (sources, after) = after.split_at_checked(end)?;
        fields.seqs = Some(plain_seqs(sources)?);
        fields.sources = Some(sources);
        rest = after;
    }
    let rest = rest.strip_prefix(b",\"surfaceOp\":")?;
    let (op, rest) = rest.split_at_checked(b"\"append\"".len())?;
    fields.surface_op = Some(op);
    (op == b"\"append\"" && rest == b"}").then_some(())
}

/// A string of printable ASCII without escapes, with its quotes.
fn take_plain_string(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let after = text.strip_prefix(b"\"")?;
    let end = after
        .iter()
        .position(|byte| !matches!(byte, b' '..=b'~') || matches!(byte, b'"' | b'\\'))?;
    (after.get(end) == Some(&b'"')).then(|| text.split_at_checked(end + 2))?
}

/// A number of few digits without a leading zero.
fn take_digits(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = text.iter().position(|byte| !byte.is_ascii_digit())?;
    let whole = end > 0 && end <= DIGITS_MAX && (end == 1 || text.first() != Some(&b'0'));
    whole.then(|| text.split_at_checked(end))?
}

fn take_integer(text: &[u8]) -> Option<(&[u8], &[u8])> {
    match text.strip_prefix(b"-") {
        None => take_digits(text),
        Some(digits) => {
            let (number, _) = take_digits(digits)?;
            text.split_at_checked(number.len() + 1)
        }
    }
}

/// The kind of row that plain type text with its quotes stands for.
pub(super) fn row_kind(kind: &[u8]) -> Option<RowKind> {
    RowKind::of_tag(kind.strip_prefix(b"\"")?.strip_suffix(b"\"")?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use proptest::prelude::*;

    /// Everything that the two ways must agree on.
    fn parts<'a>(f: &Fields<'a>) -> [Option<&'a [u8]>; 9] {
        [f.kind, f.seq, f.time, f.seq0, f.time0, f.data, f.surface_op, f.sources, f.ignorable]
    }

    fn agree(line: &[u8]) -> bool {
        let Some(fast) = split_canonical(line, 8) else { return false };
        let slow = Fields::split_general(line, 8).unwrap();
        assert_eq!(parts(&fast), parts(&slow));
        assert!(slow.unknown.is_none() && !(slow.surface_first && slow.sources.is_some()));
        assert_eq!(fast.seqs, slow.sources.and_then(plain_seqs));
        true
    }

    const LINES: [&str; 6] = [
        r#"{"type":"a/b","seq":0,"time":-12,"data":{"a":[1,"]}"]}}"#,
        r#"{"type":"a b","seq":10,"time":0,"data":"x","surfaceOp":"append"}"#,
        r#"{"type":"","seq":10,"time":0,"data":1,"sourceEventSeqs":[],"surfaceOp":"append"}"#,
        r#"{"type":"a","seq":10,"time":0,"data":null,"sourceEventSeqs":[3,40,0],"surfaceOp":"append"}"#,
        r#"{"type":"text-chunks","seq0":999999999999999,"time0":7,"data":[]}"#,
        r#"{"type":"a","seq":1,"time":1,"data":[[[[[[[]]]]]]]}"#,
    ];

    #[test]
    fn a1_the_layout_of_writers_is_taken() {
        for line in LINES {
            assert!(agree(line.as_bytes()), "{line}");
        }
        for line in [
            r#"{"type":"a","seq":01,"time":1,"data":1}"#,
            r#"{"type":"a","seq":1,"time":1,"data": 1}"#,
            r#"{"type":"a","seq":1,"time":1,"data":1,"ignorable":true}"#,
            r#"{"type":"a","seq":1,"time":1,"data":1,"sourceEventSeqs":[01],"surfaceOp":"append"}"#,
            r#"{"type":"a","seq":1,"time":1,"data":1,"sourceEventSeqs":[1,],"surfaceOp":"append"}"#,
            r#"{"type":"a","seq":1,"time":1,"data":[[[[[[[[]]]]]]]]}"#,
            r#"{"type":"a","seq":1,"time":1,"data":1}}"#,
        ] {
            assert!(split_canonical(line.as_bytes(), 8).is_none(), "{line}");
        }
    }

    proptest! {
        #[test]
        fn a1_changed_lines_agree_or_are_left(
            line in 0_usize..LINES.len(),
            at in any::<prop::sample::Index>(),
            with in prop::sample::select(&b"\"\\{}[],:0190-. \tea\x80\x01"[..]),
            insert in any::<bool>(),
        ) {
            let mut line = LINES[line].as_bytes().to_vec();
            let at = at.index(line.len());
            if insert { line.insert(at, with) } else { line[at] = with }
            agree(&line);
        }
    }
}
