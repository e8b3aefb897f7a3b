//! What an event says, as text for people: the words of messages and tools, the facts of boundaries, else its JSON.
//!
//! # Invariants
//! Y1. The text is foreign: whoever prints it escapes it. It is whole, so that a search sees all of it.
//! Y2. Data of another shape than its type promises is given as its JSON text.

use everlog::Event;
use everlog::data::{at, elements, integer, text};

/// The text of an event.
pub(crate) fn of(event_type: &[u8], data: &[u8]) -> Vec<u8> {
    let said = match event_type {
        b"turn/start" => numbered(data, &["turn"]),
        b"turn/end" => turn_end(data),
        b"step/start" | b"step/end" => numbered(data, &["turn", "step"]),
        b"user/message" => user_message(data),
        b"assistant/message" => message_content(data).map(content),
        b"tool/result" => tool_result(data),
        b"tool/call" => named(data, &["name"], &["arguments"]),
        b"request/header" => request_header(data),
        b"request/context" => pair(data, &["provider"], b"/", &["model"]),
        b"session/title" => string(data, &["title"]),
        b"assistant/chunk" => {
            let mut joined = Joined::default();
            joined.add(data);
            Some(joined.or_kind(data))
        }
        _ => None,
    };
    said.unwrap_or_else(|| data.to_vec())
}

/// The joined text of a run of chunks.
pub(crate) fn of_chunks(events: &[Event]) -> Vec<u8> {
    let mut joined = Joined::default();
    for event in events {
        joined.add(&event.data);
    }
    joined.or_kind(events.last().map_or(b"", |e| &e.data))
}

/// Texts of chunks, one after the other, with a label where another kind or block begins.
#[derive(Default)]
struct Joined {
    text: Vec<u8>,
    last: Option<(Vec<u8>, Option<i64>)>,
}

impl Joined {
    fn add(&mut self, data: &[u8]) {
        let Some(chunk) = at(data, &["chunk"]) else { return };
        let kind = string(chunk, &["type"]).unwrap_or_default();
        let (label, piece): (&[u8], _) = match &*kind {
            b"text-delta" => (b"", at(chunk, &["text"])),
            b"reasoning-delta" => (b"reasoning", at(chunk, &["text"])),
            b"tool-call-delta" => (b"tool-call", at(chunk, &["argumentsDelta"])),
            _ => return,
        };
        let Some(piece) = piece.and_then(text) else { return };
        let part = Some((kind, at(chunk, &["index"]).and_then(integer)));
        if self.last != part {
            self.begin(label, at(chunk, &["name"]).and_then(text).as_deref());
            self.last = part;
        }
        self.text.extend_from_slice(&piece);
    }

    /// The text, or the kind of a chunk where none had text.
    fn or_kind(self, data: &[u8]) -> Vec<u8> {
        if !self.text.is_empty() {
            return self.text;
        }
        let kind = string(data, &["chunk", "type"]).unwrap_or_default();
        [b"[", &kind[..], b"]"].concat()
    }

    fn begin(&mut self, label: &[u8], name: Option<&[u8]>) {
        if !self.text.is_empty() {
            self.text.push(b' ');
        }
        if !label.is_empty() {
            let name = name.map(|n| [b" ", n].concat()).unwrap_or_default();
            self.text.extend_from_slice(&[b"[", label, &name, b"] "].concat());
        }
    }
}

fn string(value: &[u8], path: &[&str]) -> Option<Vec<u8>> {
    at(value, path).and_then(text).map(|t| t.into_owned())
}

fn pair(data: &[u8], first: &[&str], between: &[u8], second: &[&str]) -> Option<Vec<u8>> {
    Some([&string(data, first)?, between, &string(data, second)?].concat())
}

/// `name arguments`
fn named(data: &[u8], name: &[&str], arguments: &[&str]) -> Option<Vec<u8>> {
    pair(data, name, b" ", arguments)
}

/// `turn 1 step 2`
fn numbered(data: &[u8], names: &[&str]) -> Option<Vec<u8>> {
    let mut parts = Vec::new();
    for name in names {
        parts.push(format!("{name} {}", at(data, &[name]).and_then(integer)?));
    }
    Some(parts.join(" ").into_bytes())
}

fn turn_end(data: &[u8]) -> Option<Vec<u8>> {
    let mut out = numbered(data, &["turn"])?;
    let reason = at(data, &["reason"])?;
    let more = match &*string(reason, &["kind"])? {
        b"aborted" => string(reason, &["reason", "kind"]).map(|by| [b" by ", &by[..]].concat()),
        b"error" => string(reason, &["error", "message"]).map(|m| [b": ", &m[..]].concat()),
        _ => None,
    };
    out.push(b' ');
    out.extend(string(reason, &["kind"])?);
    out.extend(more.unwrap_or_default());
    Some(out)
}

fn user_message(data: &[u8]) -> Option<Vec<u8>> {
    let said = content(at(data, &["content"])?);
    match string(data, &["source", "kind"]) {
        Some(kind) if kind != b"user" && kind != b"human" => {
            Some([b"[", &kind[..], b"] ", &said].concat())
        }
        _ => Some(said),
    }
}

/// The blocks of a message, in today's place or where older logs have them.
pub(crate) fn message_content(data: &[u8]) -> Option<&[u8]> {
    at(data, &["message", "content"]).or_else(|| at(data, &["content"]))
}

fn tool_result(data: &[u8]) -> Option<Vec<u8>> {
    let Some(message) = at(data, &["message", "content"]) else {
        return at(data, &["content"]).map(content);
    };
    let block = elements(message).next()?;
    let said = content(at(block, &["content"])?);
    let failed = at(block, &["isError"]) == Some(b"true");
    Some(if failed { [b"error: ", &said[..]].concat() } else { said })
}

fn request_header(data: &[u8]) -> Option<Vec<u8>> {
    let header = at(data, &["header"])?;
    let mut out = pair(header, &["config", "provider"], b"/", &["config", "model"])?;
    if let Some(reason) = string(data, &["reason"]) {
        out.push(b' ');
        out.extend(reason);
    }
    let tools = at(header, &["tools"]).map_or(0, |t| elements(t).count());
    out.extend(format!(", {tools} tools").bytes());
    Some(out)
}

/// The blocks of a message, one after the other.
fn content(blocks: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for block in elements(blocks) {
        let kind = string(block, &["type"]).unwrap_or_default();
        let said = match &*kind {
            b"text" => string(block, &["text"]),
            b"reasoning" => string(block, &["text"]).map(|t| [b"[reasoning] ", &t[..]].concat()),
            b"tool-call" => named(block, &["name"], &["arguments"])
                .map(|call| [b"[tool-call] ", &call[..]].concat()),
            _ => None,
        };
        if !out.is_empty() {
            out.push(b' ');
        }
        out.extend(said.unwrap_or_else(|| [b"[", &kind[..], b"]"].concat()));
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]
    use super::*;

    fn said(event_type: &str, data: &str) -> String {
        String::from_utf8(of(event_type.as_bytes(), data.as_bytes())).unwrap()
    }

    #[test]
    fn events_say_what_matters() {
        let cases = [
            ("turn/start", r#"{"turn":3}"#, "turn 3"),
            ("turn/end", r#"{"turn":3,"reason":{"kind":"completed"}}"#, "turn 3 completed"),
            (
                "turn/end",
                r#"{"turn":3,"reason":{"kind":"aborted","reason":{"kind":"user"}}}"#,
                "turn 3 aborted by user",
            ),
            (
                "turn/end",
                r#"{"turn":3,"reason":{"kind":"error","error":{"message":"no","code":"X"}}}"#,
                "turn 3 error: no",
            ),
            ("step/end", r#"{"turn":3,"step":1}"#, "turn 3 step 1"),
            (
                "user/message",
                r#"{"source":{"kind":"plugin"},"content":[{"type":"text","text":"hi"},{"type":"image"}]}"#,
                "[plugin] hi [image]",
            ),
            (
                "assistant/message",
                r#"{"message":{"content":[{"type":"reasoning","text":"a"},{"type":"tool-call","name":"ls","arguments":"{}"}]}}"#,
                "[reasoning] a [tool-call] ls {}",
            ),
            ("tool/call", r#"{"name":"ls","arguments":"{\"a\":1}"}"#, "ls {\"a\":1}"),
            (
                "tool/result",
                r#"{"message":{"content":[{"isError":true,"content":[{"type":"text","text":"x"}]}]}}"#,
                "error: x",
            ),
            (
                "request/header",
                r#"{"header":{"config":{"provider":"p","model":"m"},"tools":[{},{}]},"reason":"initial"}"#,
                "p/m initial, 2 tools",
            ),
            ("session/title", r#"{"title":"t"}"#, "t"),
            ("todo/write", r#"{"todos":[]}"#, r#"{"todos":[]}"#),
            ("turn/start", r#"{"turn":"x"}"#, r#"{"turn":"x"}"#),
            ("user/message", "null", "null"),
        ];
        for (event_type, data, want) in cases {
            assert_eq!(said(event_type, data), want, "{event_type} {data}");
        }
    }

    #[test]
    fn chunks_join_with_labels_between_kinds() {
        let mut joined = Joined::default();
        for data in [
            r#"{"chunk":{"type":"block-start","index":0}}"#,
            r#"{"chunk":{"type":"reasoning-delta","index":0,"text":"so"}}"#,
            r#"{"chunk":{"type":"text-delta","index":1,"text":"he"}}"#,
            r#"{"chunk":{"type":"text-delta","index":1,"text":"llo"}}"#,
            r#"{"chunk":{"type":"tool-call-delta","index":2,"id":"c","name":"ls","argumentsDelta":"{"}}"#,
            r#"{"chunk":{"type":"tool-call-delta","index":2,"id":"c","argumentsDelta":"}"}}"#,
            r#"{"chunk":{"type":"finish"}}"#,
        ] {
            joined.add(data.as_bytes());
        }
        assert_eq!(joined.text, b"[reasoning] so hello [tool-call ls] {}");
    }
}
