//! JSON text of the store, made fit for a terminal and for one line.
//!
//! # Invariants
//! Q1. The value stays the same: whitespace between tokens goes, characters in strings become their `\u` escapes.
//! Q2. The result is one line (`compact`), or lines (`pretty`), of characters that may reach a terminal.
//! Q3. Depth costs no stack, and no more than `INDENT_MAX` steps of indentation.

use crate::json_out::push_escaped;

const INDENT_MAX: usize = 24;

/// Valid JSON text on one line, without whitespace, with every character escaped that must not reach a terminal.
pub(crate) fn compact(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len());
    for token in Tokens(json) {
        put(&mut out, token);
    }
    out
}

/// Valid JSON text over several lines, two spaces a level.
pub(crate) fn pretty(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len() * 2);
    let (mut depth, mut opened) = (0_usize, false);
    for token in Tokens(json) {
        match token {
            b"{" | b"[" => {
                open_line(&mut out, depth, opened);
                depth += 1;
                out.extend_from_slice(token);
                opened = true;
                continue;
            }
            b"}" | b"]" => {
                depth = depth.saturating_sub(1);
                if !opened {
                    new_line(&mut out, depth);
                }
                out.extend_from_slice(token);
            }
            b"," => {
                out.push(b',');
                new_line(&mut out, depth);
            }
            b":" => out.extend_from_slice(b": "),
            _ => {
                open_line(&mut out, depth, opened);
                put(&mut out, token);
            }
        }
        opened = false;
    }
    out
}

/// A line for the first thing inside a bracket.
fn open_line(out: &mut Vec<u8>, depth: usize, opened: bool) {
    if opened {
        new_line(out, depth);
    }
}

fn new_line(out: &mut Vec<u8>, depth: usize) {
    out.push(b'\n');
    out.resize(out.len() + 2 * depth.min(INDENT_MAX), b' ');
}

fn put(out: &mut Vec<u8>, token: &[u8]) {
    match token {
        [b'"', inner @ .., b'"'] => {
            out.push(b'"');
            push_escaped(out, inner);
            out.push(b'"');
        }
        other => out.extend_from_slice(other),
    }
}

/// Brackets, commas, colons, strings with their quotes, and other scalars.
struct Tokens<'a>(&'a [u8]);

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let space = self.0.iter().take_while(|b| b.is_ascii_whitespace()).count();
        let rest = self.0.get(space..)?;
        let len = match rest.first()? {
            b'"' => string_len(rest),
            b'{' | b'}' | b'[' | b']' | b',' | b':' => 1,
            _ => {
                let ends = |b: &u8| b" \t\r\n{}[],:\"".contains(b);
                rest.iter().position(ends).unwrap_or(rest.len())
            }
        };
        let (token, after) = rest.split_at(len.min(rest.len()));
        self.0 = after;
        Some(token)
    }
}

/// Bytes of the string at the start, quotes included.
fn string_len(text: &[u8]) -> usize {
    let mut at = 1;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]
    use super::*;

    fn shown(bytes: Vec<u8>) -> String {
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn q1_values_stay() {
        let text = "{ \"a\\\"\u{202e}\u{7f}\" :\n [1 , -2.5e+3, true,{ },[\t]], \"b\":\"\\ud800 \u{e0041}\\\\\"}";
        let want =
            "{\"a\\\"\\u202e\\u007f\":[1,-2.5e+3,true,{},[]],\"b\":\"\\ud800 \\udb40\\udc41\\\\\"}";
        assert_eq!(shown(compact(text.as_bytes())), want);
        assert_eq!(shown(compact(b" \"x\" ")), "\"x\"");
        assert_eq!(shown(compact(b"7")), "7");
    }

    #[test]
    fn q2_pretty_lines() {
        let lines = shown(pretty(b"{\"a\":[1,{\"b\":[]}],\"c\":{}}"));
        let want = "{\n  \"a\": [\n    1,\n    {\n      \"b\": []\n    }\n  ],\n  \"c\": {}\n}";
        assert_eq!(lines, want);
        assert_eq!(shown(pretty(b"[]")), "[]");
    }

    #[test]
    fn q3_depth_is_cheap() {
        let deep = format!("{}{}", "[".repeat(4_096), "]".repeat(4_096));
        assert!(pretty(deep.as_bytes()).len() < 4_096 * 2 * (2 * INDENT_MAX + 2));
    }
}
