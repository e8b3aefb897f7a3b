//! The estimate of tokens from text: four characters a token (dsh-spec.md section 12.4).
//!
//! # Invariants
//! Es1. Lengths are UTF-16 units; the length of JSON is that of its compact text, as ECMAScript writes it.
//! Es2. Nested tool results are walked with a list, not by recursion.

use crate::json;

use super::field::members;

/// What every block, message, system prompt and list of tools costs besides its text.
const FRAME_TOKENS: f64 = 4.0;
const UNITS_A_TOKEN: usize = 4;

/// UTF-16 units of WTF-8 text.
fn units(wtf8: &[u8]) -> usize {
    let lead = |b: &u8| usize::from(*b & 0xC0 != 0x80) + usize::from(*b >= 0xF0);
    wtf8.iter().map(lead).sum()
}

fn quarter(units: usize) -> f64 {
    units.div_ceil(UNITS_A_TOKEN) as f64
}

/// UTF-16 units of a string value, 0 for anything else.
fn string_units(value: Option<&[u8]>) -> usize {
    value.and_then(json::string_value).map_or(0, |text| units(&text))
}

/// UTF-16 units of the compact text of a JSON value.
fn json_units(text: &[u8]) -> usize {
    let mut total = 0;
    let mut rest = text;
    let mut scratch = Vec::new();
    while let Some(first) = rest.first() {
        let len = match first {
            b'"' => {
                let len = string_len(rest);
                let inner = rest.get(1..len.saturating_sub(1)).unwrap_or_default();
                scratch.clear();
                json::write_string(&mut scratch, &json::unescape(inner));
                total += units(&scratch);
                len
            }
            b'-' | b'0'..=b'9' => {
                let number = |b: &u8| matches!(b, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9');
                let len = rest.iter().take_while(|b| number(b)).count();
                total += number_units(rest.get(..len).unwrap_or_default());
                len
            }
            _ => {
                total += usize::from(!json::is_space(*first));
                1
            }
        };
        rest = rest.get(len..).unwrap_or_default();
    }
    total
}

/// Bytes of the string that the text starts with, quotes included.
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

fn number_units(text: &[u8]) -> usize {
    match json::number_value(text) {
        // ECMAScript writes -0 as 0, and what is no number as null.
        Some(0.0) => 1,
        Some(value) if value.is_finite() => json::to_text(&value).map_or(text.len(), |t| t.len()),
        _ => 4,
    }
}

/// Tokens of a message.
pub(crate) fn message(message: &[u8]) -> f64 {
    let mut total = FRAME_TOKENS;
    let mut open = vec![json::Elements::new(json::member(message, b"content").unwrap_or_default())];
    while let Some(blocks) = open.last_mut() {
        let Some(block) = blocks.next() else {
            open.pop();
            continue;
        };
        let keys: [&[u8]; 5] = [b"type", b"text", b"name", b"arguments", b"content"];
        let [kind, text, name, args, content] = members(block, keys);
        total += FRAME_TOKENS;
        total += match kind.and_then(json::string_value).as_deref() {
            Some(b"text" | b"reasoning") => quarter(string_units(text)),
            Some(b"tool-call") => quarter(string_units(name)) + quarter(string_units(args)),
            Some(b"tool-result") => {
                open.push(json::Elements::new(content.unwrap_or_default()));
                0.0
            }
            _ => quarter(json_units(block)),
        };
    }
    total
}

/// Tokens of a system prompt; an empty one is none.
pub(crate) fn system(text: Option<&[u8]>) -> f64 {
    match string_units(text) {
        0 => 0.0,
        units => quarter(units) + FRAME_TOKENS,
    }
}

/// Tokens of the list of tools; an empty one is none.
pub(crate) fn tools(list: Option<&[u8]>) -> f64 {
    match list.filter(|list| json::Elements::new(list).next().is_some()) {
        None => 0.0,
        Some(list) => quarter(json_units(list)) + FRAME_TOKENS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn es1_lengths_are_those_of_ecmascript() {
        for (text, want) in [
            ("\"a\\u0062\\n\"", 6),
            ("\"\\ud83d\\ude00\"", 4),
            ("\"\\ud83d\"", 8),
            (" { \"a\" : [ 1.0 , -0 , 1e999, true ] } ", 21),
            ("\"\u{e9}\u{1f600}\"", 5),
        ] {
            assert_eq!(json_units(text.as_bytes()), want, "{text}");
        }
    }

    #[test]
    fn blocks_are_priced_by_kind() {
        let text = |content: &str| message(format!("{{\"content\":{content}}}").as_bytes());
        assert_eq!(text("[]"), 4.0);
        assert_eq!(text(r#"[{"type":"text","text":"12345"}]"#), 10.0);
        assert_eq!(text(r#"[{"type":"tool-call","name":"abc","arguments":"{}"}]"#), 10.0);
        let nested = r#"[{"type":"tool-result","content":[{"type":"text","text":""}]}]"#;
        assert_eq!(text(nested), 12.0);
        assert_eq!(text(r#"[{"type":"image"}]"#), 12.0);
        assert_eq!((system(Some(b"\"\"")), system(Some(b"\"x\""))), (0.0, 5.0));
        assert_eq!((tools(Some(b"[]")), tools(Some(b"[{}]"))), (0.0, 5.0));
    }
}
