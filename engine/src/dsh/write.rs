//! Events as JSONL lines.
//!
//! # Invariants
//! W1. Keys come in one order: type, seq, time, data, then sourceEventSeqs and surfaceOp (swapped when
//!     the event says so), then ignorable. Absent ones are left out.
//! W2. `data` is copied as it is, but for newlines between its tokens, which a line cannot hold.
//! W3. A line that a reader would take for a packed row is never written.

use memchr::{memchr, memchr_iter};

use super::rows::RowKind;
use crate::json::write_string;
use crate::{Error, EventRef, Result, Seq, SurfaceOp};

/// Room for everything in a line but its type, data and citations.
const ENVELOPE_BYTES: usize = 160;

/// Appends one event as a line with its newline (dsh-spec.md section 8.4). The buffer is all that is written to.
///
/// A newline between the tokens of `data`, which JSON allows and a line cannot hold, is left out.
///
/// ```
/// use everlog::{EventRef, dsh::write_event};
/// let event = EventRef {
///     seq: 3,
///     time_ms: -7,
///     event_type: b"turn/start",
///     data: br#"{"turn":1}"#,
///     surface_op: None,
///     sources: None,
///     ignorable: false,
///     surface_first: false,
/// };
/// let mut line = Vec::new();
/// write_event(&mut line, &event)?;
/// assert_eq!(line, b"{\"type\":\"turn/start\",\"seq\":3,\"time\":-7,\"data\":{\"turn\":1}}\n");
/// # Ok::<(), everlog::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for an event whose type is the tag of a packed
/// row: a reader would take it for one.
pub fn write_event(out: &mut Vec<u8>, event: &EventRef<'_>) -> Result<()> {
    if let Some(kind) = RowKind::of_tag(event.event_type) {
        let tag = kind.tag();
        return Err(Error::invalid(
            "type",
            format!("an event of type {tag} cannot be told from a packed row: export it as jsonl"),
        )
        .with_seq(event.seq));
    }
    write_line(out, event);
    Ok(())
}

/// Appends one event as a line with its newline, whatever its type.
pub(crate) fn write_line(out: &mut Vec<u8>, event: &EventRef<'_>) {
    out.reserve(event.data.len() + event.event_type.len() + ENVELOPE_BYTES);
    out.extend_from_slice(b"{\"type\":");
    write_string(out, event.event_type);
    out.extend_from_slice(b",\"seq\":");
    push_u64(out, event.seq);
    out.extend_from_slice(b",\"time\":");
    push_i64(out, event.time_ms);
    out.extend_from_slice(b",\"data\":");
    push_data(out, event.data);
    if event.surface_first {
        push_surface_op(out, event.surface_op);
        push_sources(out, event.sources.as_deref());
    } else {
        push_sources(out, event.sources.as_deref());
        push_surface_op(out, event.surface_op);
    }
    if event.ignorable {
        out.extend_from_slice(b",\"ignorable\":true");
    }
    out.extend_from_slice(b"}\n");
}

fn push_data(out: &mut Vec<u8>, data: &[u8]) {
    if memchr(b'\n', data).is_none() {
        out.extend_from_slice(data);
        return;
    }
    // Inside strings newlines are escaped, so a raw one stands between tokens and means nothing.
    let mut from = 0;
    for at in memchr_iter(b'\n', data).chain([data.len()]) {
        out.extend_from_slice(data.get(from..at).unwrap_or_default());
        from = at + 1;
    }
}

fn push_surface_op(out: &mut Vec<u8>, op: Option<SurfaceOp>) {
    match op {
        None => {}
        Some(SurfaceOp::Append) => out.extend_from_slice(b",\"surfaceOp\":\"append\""),
        Some(SurfaceOp::Replace { start, end }) => {
            out.extend_from_slice(b",\"surfaceOp\":{\"op\":\"replace\",\"start\":");
            push_u64(out, start);
            out.extend_from_slice(b",\"end\":");
            push_u64(out, end);
            out.push(b'}');
        }
    }
}

fn push_sources(out: &mut Vec<u8>, sources: Option<&[Seq]>) {
    let Some(sources) = sources else { return };
    out.extend_from_slice(b",\"sourceEventSeqs\":[");
    for (at, seq) in sources.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        push_u64(out, *seq);
    }
    out.push(b']');
}

/// Every two-digit number, one after the other.
const PAIRS: [u8; 200] = {
    let mut pairs = [0; 200];
    let mut n = 0;
    while n < 100 {
        pairs[2 * n] = b'0' + (n / 10) as u8;
        pairs[2 * n + 1] = b'0' + (n % 10) as u8;
        n += 1;
    }
    pairs
};

/// Appends a number in decimal digits.
pub(super) fn push_u64(out: &mut Vec<u8>, mut n: u64) {
    let mut digits = [0_u8; 20];
    let mut at = digits.len();
    while n >= 100 {
        let pair = (n % 100) as usize * 2;
        n /= 100;
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
    }
    if n >= 10 {
        let pair = n as usize * 2;
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
    } else {
        at -= 1;
        digits[at] = b'0' + n as u8;
    }
    out.extend_from_slice(&digits[at..]);
}

/// Appends a number with its sign, in decimal digits.
pub(super) fn push_i64(out: &mut Vec<u8>, n: i64) {
    if n < 0 {
        out.push(b'-');
    }
    push_u64(out, n.unsigned_abs());
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use std::borrow::Cow;

    fn event<'a>(data: &'a [u8], sources: Option<&'a [Seq]>) -> EventRef<'a> {
        EventRef {
            seq: 12,
            time_ms: i64::MIN,
            event_type: b"a\"\xed\xa0\x80",
            data,
            surface_op: Some(SurfaceOp::Replace { start: 7, end: 100 }),
            sources: sources.map(Cow::Borrowed),
            ignorable: true,
            surface_first: false,
        }
    }

    #[test]
    fn w1_keys_come_in_one_order() {
        let mut out = Vec::new();
        let mut e = event(b"[1]", Some(&[0, 10, 123]));
        write_event(&mut out, &e).unwrap();
        e.surface_first = true;
        e.ignorable = false;
        write_event(&mut out, &e).unwrap();
        let head = r#"{"type":"a\"\ud800","seq":12,"time":-9223372036854775808,"data":[1],"#;
        let (op, cited) = (
            r#""surfaceOp":{"op":"replace","start":7,"end":100}"#,
            r#""sourceEventSeqs":[0,10,123]"#,
        );
        let want = format!("{head}{cited},{op},\"ignorable\":true}}\n{head}{op},{cited}}}\n");
        assert_eq!(String::from_utf8(out).unwrap(), want);
    }

    #[test]
    fn w2_newlines_between_tokens_are_left_out() {
        let mut out = Vec::new();
        push_data(&mut out, b"\n{\"a\":\n [1,\n\n\r2]}\n");
        assert_eq!(out, b"{\"a\": [1,\r2]}");
    }

    #[test]
    fn w3_a_type_named_like_a_row_is_refused() {
        let mut e = event(b"{}", None);
        e.event_type = b"text-chunks";
        let err = write_event(&mut Vec::new(), &e).unwrap_err();
        assert_eq!((err.kind(), err.seq()), (crate::ErrorKind::Invalid, Some(12)));
    }

    #[test]
    fn numbers_are_written_as_the_standard_library_writes_them() {
        let mut n = 1_u64;
        for step in 0..64 {
            for value in [n, n.wrapping_sub(1), n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> step] {
                let mut out = Vec::new();
                push_u64(&mut out, value);
                assert_eq!(String::from_utf8(out).unwrap(), value.to_string());
                let mut out = Vec::new();
                push_i64(&mut out, value as i64);
                assert_eq!(String::from_utf8(out).unwrap(), (value as i64).to_string());
            }
            n = n.wrapping_mul(2);
        }
    }
}
