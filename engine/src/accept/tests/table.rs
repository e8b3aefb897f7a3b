//! The table of append calls that the reference implementation was asked, against our rules.
//!
//! Each call is tried on a log that holds the table's base events.

use super::*;
use crate::json::{Elements, member, string_value};

const TABLE: &[u8] = include_bytes!("../../../tests/data/900-append-api/ops.json");

/// Calls of the table that we answer otherwise also where message shapes are not checked.
const DIFFER_RAW: [&str; 3] = [
    // No reader of a log may rely on a type that is empty.
    "empty event type",
    // A number of the host language that JSON text cannot lose: the text is kept as it is.
    "JS value: -0",
    // Over the limit on depth.
    "JS value: 100k deep array (accepted in memory; cannot be persisted)",
];

/// Calls that are refused besides when message shapes are checked.
const DIFFER_SHAPES: [&str; 4] = [
    "user/message with garbage data (append does not check message shape!)",
    "user/message data null",
    "assistant/message without model source",
    "request/header without provider (append does not check)",
];

/// Values of the host language that have a text to try.
fn text_of_value(name: &str) -> Option<String> {
    let nested = || format!("{{\"a\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
    match name.strip_prefix("JS value: ")? {
        "-0" => Some("{\"n\":-0}".into()),
        "NaN" => Some("{\"n\":NaN}".into()),
        "Infinity" => Some("{\"n\":Infinity}".into()),
        "BigInt" => Some("{\"n\":1n}".into()),
        "undefined data" => Some("undefined".into()),
        "undefined property" => Some("{\"a\":undefined}".into()),
        "undefined in array" => Some("{\"a\":[undefined]}".into()),
        "sparse array" => Some("{\"a\":[1,,2]}".into()),
        name if name.starts_with("100k deep array") => Some(nested()),
        _ => None,
    }
}

/// Tries `[type, data, marks?]` given as JSON text.
fn try_call(log: &mut Log, call: &[u8]) -> Result<(), Refusal> {
    let parts: Vec<&[u8]> = Elements::new(call).collect();
    let event_type = string_value(parts[0]).unwrap();
    let marks = parts.get(2).copied().unwrap_or(b"{}");
    let op = member(marks, b"surfaceOp").map(parse_surface_op).transpose()?;
    let sources = member(marks, b"sourceEventSeqs").map(parse_sources).transpose()?;
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    log.add(&text(&event_type), &text(parts[1]), op, sources.as_deref())
}

/// Names of the calls that we answer otherwise than the table, and how many were tried.
fn differing(shapes: bool) -> (Vec<String>, usize) {
    let mut differ = Vec::new();
    let mut tried = 0;
    for row in Elements::new(member(TABLE, b"ops").unwrap()) {
        let name =
            String::from_utf8(string_value(member(row, b"name").unwrap()).unwrap().into()).unwrap();
        let call = match (member(row, b"op"), text_of_value(&name), member(row, b"event")) {
            (Some(call), _, _) => call.to_vec(),
            (None, Some(text), _) => format!("[\"todo/write\",{text}]").into_bytes(),
            (None, None, Some(event)) => {
                let data = member(event, b"data").unwrap();
                [b"[\"todo/write\",", data, b"]"].concat()
            }
            (None, None, None) => continue,
        };
        let mut log = Log { rules: Rules { shapes, ..Rules::default() }, ..Log::default() };
        for base in Elements::new(member(TABLE, b"base").unwrap()) {
            try_call(&mut log, base).unwrap();
        }
        tried += 1;
        // A call whose value is no JSON cannot be split; its data is tried as it stands.
        let outcome = match text_of_value(&name) {
            Some(text) => log.add("todo/write", &text, None, None),
            None => try_call(&mut log, &call),
        };
        if outcome.is_ok() != (member(row, b"accepted") == Some(b"true")) {
            differ.push(name);
        } else if outcome.is_ok() {
            let wanted = parse_sources(member(row, b"surface").unwrap()).unwrap();
            assert_eq!(log.nodes(), wanted, "{name}");
        } else {
            assert_eq!((log.events.len(), log.nodes()), (4, vec![0, 1, 3]), "{name}");
        }
    }
    (differ, tried)
}

#[test]
fn without_shapes_the_table_is_answered_as_the_reference_does() {
    let (differ, tried) = differing(false);
    assert_eq!(differ, DIFFER_RAW);
    // The rest are values that no JSON text can stand for.
    assert_eq!(tried, 45);
}

#[test]
fn with_shapes_malformed_messages_are_refused_besides() {
    let (differ, _) = differing(true);
    let (raw, shapes): (Vec<_>, Vec<_>) =
        differ.into_iter().partition(|name| DIFFER_RAW.contains(&name.as_str()));
    assert_eq!(raw, DIFFER_RAW);
    assert_eq!(shapes, DIFFER_SHAPES);
}
