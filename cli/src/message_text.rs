//! Messages for output: as JSON that fits a line and a terminal, for people, and as OpenAI's chat messages.
//!
//! # Invariants
//! Mt1. JSON keeps its value: whitespace becomes spaces, characters that must not reach a terminal their `\u` escapes.
//! Mt2. Content is walked with a list, not by recursion.

use everlog::data;

use crate::json_out::{Object, array, string};
use crate::text;

/// Valid JSON text as one line that may reach a terminal.
pub(crate) fn one_line(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len());
    for chunk in json.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                // Raw, they stand between tokens only.
                '\n' | '\r' | '\t' => out.push(b' '),
                c if text::is_plain(c) => {
                    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                }
                c => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        out.extend_from_slice(format!("\\u{unit:04x}").as_bytes());
                    }
                }
            }
        }
        if !chunk.invalid().is_empty() {
            out.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
    out
}

/// A part of a message's content.
enum Part<'a> {
    Text(Vec<u8>),
    Reasoning(Vec<u8>),
    Call { id: Vec<u8>, name: Vec<u8>, arguments: Vec<u8> },
    Result { call: Vec<u8>, is_error: bool },
    Other { kind: Vec<u8>, json: &'a [u8] },
}

fn text_of(value: &[u8], key: &str) -> Vec<u8> {
    data::at(value, &[key]).and_then(data::text).map(|t| t.into_owned()).unwrap_or_default()
}

/// The parts of a message in order; the content of a tool result follows it.
fn parts(message: &[u8]) -> Vec<Part<'_>> {
    let mut out = Vec::new();
    let content = |value| data::at(value, &["content"]).unwrap_or_default();
    let mut open: Vec<Box<dyn Iterator<Item = &[u8]> + '_>> =
        vec![Box::new(data::elements(content(message)))];
    while let Some(blocks) = open.last_mut() {
        let Some(block) = blocks.next() else {
            open.pop();
            continue;
        };
        let kind = text_of(block, "type");
        out.push(match &*kind {
            b"text" => Part::Text(text_of(block, "text")),
            b"reasoning" => Part::Reasoning(text_of(block, "text")),
            b"tool-call" => Part::Call {
                id: text_of(block, "id"),
                name: text_of(block, "name"),
                arguments: text_of(block, "arguments"),
            },
            b"tool-result" => {
                open.push(Box::new(data::elements(content(block))));
                let is_error = data::at(block, &["isError"]) == Some(b"true");
                Part::Result { call: text_of(block, "toolCallId"), is_error }
            }
            _ => Part::Other { kind, json: block },
        });
    }
    out
}

/// Who speaks: the role, and the kind of source where that is not the same.
pub(crate) fn speaker(message: &[u8]) -> String {
    let role = text_of(message, "role");
    let kind = data::at(message, &["source", "kind"]).and_then(data::text).unwrap_or_default();
    match (&*role, &*kind) {
        (role, kind) if role == kind || kind.is_empty() || kind == b"model" => text::line(role),
        (role, kind) => format!("{} ({})", text::line(role), text::line(kind)),
    }
}

/// Foreign text as lines, each fit for a terminal.
fn push_lines(out: &mut String, before: &str, said: &[u8]) {
    for line in said.split(|b| *b == b'\n') {
        out.push_str(before);
        out.push_str(&text::line(line));
        out.push('\n');
    }
}

/// The content of a message for people, in lines.
pub(crate) fn readable(message: &[u8]) -> String {
    let mut out = String::new();
    for part in parts(message) {
        match part {
            Part::Text(said) => push_lines(&mut out, "", &said),
            Part::Reasoning(said) => push_lines(&mut out, "~ ", &said),
            Part::Call { id, name, arguments } => out.push_str(&format!(
                "> {} {} [{}]\n",
                text::line(&name),
                text::line(&arguments),
                text::line(&id)
            )),
            Part::Result { call, is_error } => {
                let what = if is_error { "error" } else { "result" };
                out.push_str(&format!("< {what} [{}]\n", text::line(&call)));
            }
            Part::Other { kind, .. } => out.push_str(&format!("[{}]\n", text::line(&kind))),
        }
    }
    out
}

/// The content of a message as Markdown.
pub(crate) fn markdown(message: &[u8]) -> String {
    let mut out = String::new();
    let mut in_result = false;
    for part in parts(message) {
        match part {
            Part::Text(said) if in_result => push_fenced(&mut out, &said),
            Part::Text(said) => {
                push_lines(&mut out, "", &said);
                out.push('\n');
            }
            Part::Reasoning(said) => {
                push_lines(&mut out, "> ", &said);
                out.push('\n');
            }
            Part::Call { name, arguments, .. } => {
                out.push_str(&format!("Tool call: {}\n\n", text::line(&name)));
                push_fenced(&mut out, &arguments);
            }
            Part::Result { is_error, .. } => {
                in_result = true;
                let what = if is_error { "Tool error:" } else { "Tool result:" };
                out.push_str(&format!("{what}\n\n"));
            }
            Part::Other { kind, .. } => out.push_str(&format!("({})\n\n", text::line(&kind))),
        }
    }
    out
}

/// A fence is longer than any run of backticks inside it.
fn push_fenced(out: &mut String, said: &[u8]) {
    let runs = said.split(|b| *b != b'`').map(<[u8]>::len).max().unwrap_or(0);
    let fence = "`".repeat(runs.max(2) + 1);
    out.push_str(&format!("{fence}\n"));
    push_lines(out, "", said);
    out.push_str(&format!("{fence}\n\n"));
}

/// The message as OpenAI's chat completions take it. Reasoning, which they do not take, is left out; what else they do
/// not know becomes its JSON as text.
pub(crate) fn openai(message: &[u8]) -> Vec<u8> {
    let role = text_of(message, "role");
    let (mut said, mut calls, mut result) = (Vec::new(), Vec::new(), None);
    for part in parts(message) {
        match part {
            Part::Text(text) => said.push(text),
            Part::Reasoning(_) => {}
            Part::Call { id, name, arguments } => {
                let function =
                    Object::nested().text("name", &name).text("arguments", &arguments).end();
                let call = Object::nested().text("id", &id).text("type", "function");
                calls.push(call.raw("function", &function).end());
            }
            Part::Result { call, .. } => result = Some(call),
            Part::Other { json, .. } => said.push(json.to_vec()),
        }
    }
    let content = said.join(&b'\n');
    let mut out = match &result {
        Some(call) => Object::nested().text("role", "tool").text("tool_call_id", call),
        None => Object::nested().text("role", &role),
    };
    out = match (content.is_empty(), calls.is_empty()) {
        (true, false) => out.raw("content", b"null"),
        _ => out.raw("content", &string(&content)),
    };
    if !calls.is_empty() {
        out = out.raw("tool_calls", &array(calls));
    }
    out.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mt1_json_stays_one_line_of_the_same_value() {
        let line = one_line("{\"a\":\n\t\"\u{202e}\u{1f600}\u{e0041}\"}".as_bytes());
        assert_eq!(String::from_utf8_lossy(&line), "{\"a\":  \"\\u202e\u{1f600}\\udb40\\udc41\"}");
    }

    const CALLING: &[u8] = br#"{"role":"assistant","source":{"kind":"model"},"content":[
        {"type":"reasoning","text":"hm"},{"type":"text","text":"a\nb\u001b"},
        {"type":"tool-call","id":"c","name":"ls","arguments":"{}"}]}"#;
    const ANSWER: &[u8] = br#"{"role":"user","source":{"kind":"tool","callId":"c"},"content":[
        {"type":"tool-result","toolCallId":"c","isError":true,"content":[{"type":"text","text":"``` no"}]}]}"#;

    #[test]
    fn people_see_who_said_what() {
        assert_eq!((speaker(CALLING), speaker(ANSWER)), ("assistant".into(), "user (tool)".into()));
        assert_eq!(readable(CALLING), "~ hm\na\nb\\u{1b}\n> ls {} [c]\n");
        assert_eq!(readable(ANSWER), "< error [c]\n``` no\n");
        assert_eq!(markdown(ANSWER), "Tool error:\n\n````\n``` no\n````\n\n");
    }

    #[test]
    fn openai_has_calls_and_answers_of_its_own() {
        assert_eq!(
            String::from_utf8_lossy(&openai(CALLING)),
            r#"{"role":"assistant","content":"a\nb\u001b","tool_calls":[{"id":"c","type":"function","function":{"name":"ls","arguments":"{}"}}]}"#
        );
        assert_eq!(
            String::from_utf8_lossy(&openai(ANSWER)),
            r#"{"role":"tool","tool_call_id":"c","content":"``` no"}"#
        );
    }
}
