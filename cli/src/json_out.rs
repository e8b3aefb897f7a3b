//! JSON of machine-readable output, from bytes that may hold lone surrogates.
//!
//! # Invariants
//! J1. A string decodes to the same UTF-16 units that the WTF-8 bytes stand for; other bytes become U+FFFD.
//! J2. Strings are escaped as `JSON.stringify` does, and what must not reach a terminal is escaped as well.
//! J3. Every top-level object begins with `"v":1`.

use crate::text::is_plain;

/// One JSON object, built member by member.
pub(crate) struct Object {
    bytes: Vec<u8>,
}

impl Object {
    /// A top-level object.
    pub(crate) fn new() -> Self {
        Self { bytes: b"{\"v\":1".to_vec() }
    }

    /// An object inside another.
    pub(crate) fn nested() -> Self {
        Self { bytes: b"{".to_vec() }
    }

    fn key(&mut self, key: &str) {
        if self.bytes.len() > 1 {
            self.bytes.push(b',');
        }
        push_string(&mut self.bytes, key.as_bytes());
        self.bytes.push(b':');
    }

    pub(crate) fn text(mut self, key: &str, value: impl AsRef<[u8]>) -> Self {
        self.key(key);
        push_string(&mut self.bytes, value.as_ref());
        self
    }

    pub(crate) fn maybe_text(self, key: &str, value: Option<impl AsRef<[u8]>>) -> Self {
        match value {
            Some(value) => self.text(key, value),
            None => self,
        }
    }

    pub(crate) fn number(self, key: &str, value: u64) -> Self {
        self.raw(key, value.to_string().as_bytes())
    }

    pub(crate) fn maybe_number(self, key: &str, value: Option<u64>) -> Self {
        match value {
            Some(value) => self.number(key, value),
            None => self,
        }
    }

    pub(crate) fn flag(self, key: &str, value: bool) -> Self {
        self.raw(key, if value { b"true" } else { b"false" })
    }

    /// A time in RFC 3339, or as Unix milliseconds where the calendar ends.
    pub(crate) fn time(self, key: &str, ms: i64) -> Self {
        match crate::time::rfc3339(ms) {
            Some(text) => self.text(key, text),
            None => self.raw(key, ms.to_string().as_bytes()),
        }
    }

    /// A member whose value is JSON text already.
    pub(crate) fn raw(mut self, key: &str, json: &[u8]) -> Self {
        self.key(key);
        self.bytes.extend_from_slice(json);
        self
    }

    pub(crate) fn texts<T: AsRef<[u8]>>(self, key: &str, values: &[T]) -> Self {
        let items = values.iter().map(|v| string(v.as_ref()));
        let json = array(items);
        self.raw(key, &json)
    }

    pub(crate) fn end(mut self) -> Vec<u8> {
        self.bytes.push(b'}');
        self.bytes
    }
}

/// A JSON array of JSON texts.
pub(crate) fn array(items: impl IntoIterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut bytes = b"[".to_vec();
    for item in items {
        if bytes.len() > 1 {
            bytes.push(b',');
        }
        bytes.extend_from_slice(&item);
    }
    bytes.push(b']');
    bytes
}

/// A JSON string.
pub(crate) fn string(wtf8: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(wtf8.len() + 2);
    push_string(&mut bytes, wtf8);
    bytes
}

fn push_string(out: &mut Vec<u8>, wtf8: &[u8]) {
    out.push(b'"');
    push_text(out, wtf8, push_char);
    out.push(b'"');
}

/// The inside of a JSON string that is escaped already, with what must not reach a terminal escaped as well.
pub(crate) fn push_escaped(out: &mut Vec<u8>, inner: &[u8]) {
    push_text(out, inner, |out, c| match c {
        '"' | '\\' => out.push(c as u8),
        c => push_char(out, c),
    });
}

fn push_text(out: &mut Vec<u8>, wtf8: &[u8], push: impl Fn(&mut Vec<u8>, char)) {
    let mut rest = wtf8;
    while let Some(chunk) = rest.utf8_chunks().next() {
        chunk.valid().chars().for_each(|c| push(out, c));
        let after = rest.get(chunk.valid().len()..).unwrap_or_default();
        rest = match after {
            [0xed, second @ 0xa0..=0xbf, third @ 0x80..=0xbf, tail @ ..] => {
                push_unit(out, 0xd000 | u16::from(second & 0x3f) << 6 | u16::from(third & 0x3f));
                tail
            }
            _ => {
                if !chunk.invalid().is_empty() {
                    out.extend_from_slice("\u{fffd}".as_bytes());
                }
                after.get(chunk.invalid().len()..).unwrap_or_default()
            }
        };
    }
}

/// One UTF-16 unit as an escape.
fn push_unit(out: &mut Vec<u8>, unit: u16) {
    out.extend_from_slice(format!("\\u{unit:04x}").as_bytes());
}

fn push_char(out: &mut Vec<u8>, c: char) {
    match c {
        '"' => out.extend_from_slice(b"\\\""),
        '\\' => out.extend_from_slice(b"\\\\"),
        '\u{8}' => out.extend_from_slice(b"\\b"),
        '\u{c}' => out.extend_from_slice(b"\\f"),
        '\n' => out.extend_from_slice(b"\\n"),
        '\r' => out.extend_from_slice(b"\\r"),
        '\t' => out.extend_from_slice(b"\\t"),
        c if is_plain(c) => {
            let mut buf = [0; 4];
            out.extend_from_slice(c.encode_utf8(&mut buf).as_bytes());
        }
        c => {
            let mut buf = [0; 2];
            for unit in c.encode_utf16(&mut buf) {
                push_unit(out, *unit);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]
    use super::*;

    #[test]
    fn j1_lone_surrogates_are_escapes() {
        assert_eq!(string(b"a\xed\xa0\x80b"), b"\"a\\ud800b\"");
        assert_eq!(string(b"\xed\xbf\xbf"), b"\"\\udfff\"");
        assert_eq!(string(b"\xff\xc3"), "\"\u{fffd}\u{fffd}\"".as_bytes());
    }

    #[test]
    fn j2_every_character_decodes_to_itself() {
        for c in (0..=0x10_ffff_u32).filter_map(char::from_u32) {
            let text = format!("x{c}y");
            let json = string(text.as_bytes());
            let back: String = serde_json::from_slice(&json).expect("a JSON string");
            assert_eq!(back, text);
            assert!(!json.iter().any(|b| *b < 0x20 || *b == 0x7f));
        }
    }

    #[test]
    fn j3_objects_carry_the_version() {
        let object = Object::new().text("a", "b\n").number("n", 7).flag("f", true);
        let object = object.texts("l", &["x", "y"]).raw("o", &Object::nested().end()).end();
        let want = br#"{"v":1,"a":"b\n","n":7,"f":true,"l":["x","y"],"o":{}}"#;
        assert_eq!(object, want);
    }
}
