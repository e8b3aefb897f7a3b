//! The one printer of foreign text: ids, paths, types, messages of the operating system.
//!
//! # Invariants
//! T1. No output holds a control, bidirectional, separator, invisible, tag, private or unassigned character.
//! T2. Bytes that are no UTF-8, lone surrogates included, appear as `\x..`.

use std::fmt::Write;
use std::io::IsTerminal;

use crate::args::ColorChoice;

/// Whether a character may reach a terminal.
pub(crate) fn is_plain(c: char) -> bool {
    if c.is_ascii() {
        return (' '..='~').contains(&c);
    }
    match c {
        // Spaces of ordinary text, which the table below counts among separators.
        '\u{a0}' | '\u{3000}' => true,
        // Tags and variation selectors: invisible carriers of text.
        '\u{e0000}'..='\u{e0fff}' => false,
        _ => {
            // The standard library knows which characters print. After a letter a combining mark is one of them.
            let mut buf = [0_u8; 4];
            let mark: &str = c.encode_utf8(&mut buf);
            mark.chars().all(|c| !c.is_control()) && printable(mark)
        }
    }
}

fn printable(one: &str) -> bool {
    let mut after_letter = String::with_capacity(5);
    after_letter.push('x');
    after_letter.push_str(one);
    after_letter.escape_debug().count() == 2
}

/// Foreign bytes as one line of text.
pub(crate) fn line(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                c if is_plain(c) => out.push(c),
                // Writing to a string cannot fail.
                c => write!(out, "\\u{{{:x}}}", u32::from(c)).unwrap_or_default(),
            }
        }
        for b in chunk.invalid() {
            write!(out, "\\x{b:02x}").unwrap_or_default();
        }
    }
    out
}

/// Foreign bytes as one line in quotation marks.
pub(crate) fn quoted(bytes: &[u8]) -> String {
    format!("\"{}\"", line(bytes))
}

/// Bytes for people: `1.4 GiB`.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS.get(unit).unwrap_or(&"EiB"))
}

/// A count for people, with thin groups: `3 918 220`.
pub(crate) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(c);
    }
    out
}

/// Whether a stream is coloured.
#[derive(Clone, Copy)]
pub(crate) struct Style(bool);

impl Style {
    pub(crate) fn for_stderr(choice: ColorChoice) -> Self {
        Self(wanted(choice, std::io::stderr().is_terminal()))
    }

    pub(crate) fn for_stdout(choice: ColorChoice) -> Self {
        Self(wanted(choice, std::io::stdout().is_terminal()))
    }

    pub(crate) fn error(self, text: &str) -> String {
        self.wrap("1;31", text)
    }

    pub(crate) fn head(self, text: &str) -> String {
        self.wrap("1", text)
    }

    /// What stands beside the text: times, seqs.
    pub(crate) fn aside(self, text: &str) -> String {
        self.wrap("2", text)
    }

    /// The type of an event, by who speaks in it.
    pub(crate) fn event_type(self, event_type: &[u8], text: &str) -> String {
        match event_type {
            b"user/message" => self.wrap("1;32", text),
            b"assistant/message" | b"assistant/chunk" => self.wrap("34", text),
            b"tool/call" | b"tool/result" => self.wrap("33", text),
            _ => self.wrap("2", text),
        }
    }

    /// The state of a session.
    pub(crate) fn state(self, state: &str) -> String {
        match state {
            "live" => self.wrap("32", state),
            "interrupted" => self.wrap("31", state),
            _ => state.to_owned(),
        }
    }

    fn wrap(self, code: &str, text: &str) -> String {
        if self.0 { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

fn wanted(choice: ColorChoice, terminal: bool) -> bool {
    match choice {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => {
            let set = |name| std::env::var_os(name).is_some_and(|v| !v.is_empty());
            terminal && !set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|t| t != "dumb")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t1_every_listed_character_is_escaped() {
        let listed = (0..0x20_u32)
            .chain(0x7f..=0x9f)
            .chain([0x61c, 0x200b, 0x200e, 0x200f, 0x2028, 0x2029, 0xfeff, 0xad, 0xe000, 0x378])
            .chain(0x202a..=0x202e)
            .chain(0x2066..=0x2069)
            .chain(0xe0000..=0xe01ef)
            .chain([0xf0000, 0x10ffff]);
        for c in listed.filter_map(char::from_u32) {
            let shown = line(c.to_string().as_bytes());
            assert!(shown.starts_with('\\') && shown.is_ascii(), "{:x} came out raw", c as u32);
        }
    }

    #[test]
    fn text_of_many_scripts_stays_readable() {
        for s in
            ["fix \"it\" \\ 'now'", "\u{43f}\u{440}\u{438}", "e\u{301}", "\u{4f60}\u{597d}\u{3000}"]
        {
            assert_eq!(line(s.as_bytes()), s);
        }
    }

    #[test]
    fn t2_other_bytes_are_hexadecimal() {
        assert_eq!(line(b"\xed\xa0\x80\xff"), "\\xed\\xa0\\x80\\xff");
    }

    #[test]
    fn sizes_and_counts() {
        assert_eq!(size(1023), "1023 B");
        assert_eq!(size(1024 * 1024 - 1), "1.0 MiB");
        assert_eq!(size(u64::MAX), "16.0 EiB");
        assert_eq!(count(3_918_220), "3 918 220");
        assert_eq!(count(12), "12");
    }
}
