//! Canonical JSONL of a session: the header line, then one line an event, `data` verbatim.
//!
//! 1. Keys: `type`, `seq`, `time`, `data`, then `sourceEventSeqs` and `surfaceOp` (swapped where the line
//!    had them so), then `ignorable`.
//! 2. A type is written as ECMAScript's JSON.stringify writes it: a lone surrogate as an escape.

use super::bytes::code_point;
use super::{OracleEvent, OracleSession, SurfaceOp};
use std::fmt::Write as _;

/// Appends `s` (WTF-8) as a JSON string.
pub fn string(out: &mut Vec<u8>, s: &[u8]) {
    out.push(b'"');
    let mut at = 0;
    while let Some((v, n)) = s.get(at..).and_then(code_point) {
        let short = match v {
            8 => Some(b'b'),
            9 => Some(b't'),
            10 => Some(b'n'),
            12 => Some(b'f'),
            13 => Some(b'r'),
            0x22 | 0x5C => Some(v as u8),
            _ => None,
        };
        match short {
            Some(c) => out.extend([b'\\', c]),
            None if v < 0x20 || (0xD800..0xE000).contains(&v) => {
                out.extend(format!("\\u{v:04x}").bytes());
            }
            None => out.extend(&s[at..at + n]),
        }
        at += n;
    }
    out.push(b'"');
}

/// Appends the line of an event, with its newline.
pub fn event(out: &mut Vec<u8>, e: &OracleEvent) {
    out.extend(b"{\"type\":");
    string(out, &e.ty);
    out.extend(format!(",\"seq\":{},\"time\":{},\"data\":", e.seq, e.time).bytes());
    out.extend(&e.data);
    let mut sources = String::new();
    if let Some(list) = &e.sources {
        let list: Vec<String> = list.iter().map(u64::to_string).collect();
        let _ = write!(sources, ",\"sourceEventSeqs\":[{}]", list.join(","));
    }
    let surface = match e.surface_op {
        None => String::new(),
        Some(SurfaceOp::Append) => ",\"surfaceOp\":\"append\"".to_owned(),
        Some(SurfaceOp::Replace { start, end }) => {
            format!(",\"surfaceOp\":{{\"op\":\"replace\",\"start\":{start},\"end\":{end}}}")
        }
    };
    let order = if e.surface_first { [surface, sources] } else { [sources, surface] };
    out.extend(order.concat().bytes());
    out.extend(if e.ignorable { &b",\"ignorable\":true}\n"[..] } else { b"}\n" });
}

/// The whole session.
#[must_use]
pub fn session(s: &OracleSession) -> Vec<u8> {
    let mut out = s.header_text.clone();
    out.push(b'\n');
    for e in &s.events {
        event(&mut out, e);
    }
    out
}
