//! A small lexer of Rust: enough to see code without its strings, characters and comments.
//!
//! # Invariants
//! X1. Total: any text gives tokens; an unfinished literal or comment ends with the text.
//! X2. Nothing inside a string, character or comment becomes a code token.
//!
//! # Units
//! `line`: lines of the file, from 1. Offsets are bytes.

/// What a token is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A name or a keyword; a raw one without its `r#`.
    Ident,
    /// `::`, or one character of any other punctuation.
    Punct,
    /// A string, a character, or a number.
    Literal,
    /// A lifetime or a label.
    Lifetime,
    /// A comment of any kind, doc comments included.
    Comment,
}

/// A token and where it begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Token<'a> {
    pub(crate) kind: Kind,
    pub(crate) text: &'a str,
    pub(crate) line: usize,
}

impl Token<'_> {
    /// Whether it is code that reads so.
    pub(crate) fn is(&self, text: &str) -> bool {
        matches!(self.kind, Kind::Ident | Kind::Punct) && self.text == text
    }
}

/// Splits a source into tokens, comments among them.
pub(crate) fn lex(source: &str) -> Vec<Token<'_>> {
    let bytes = source.as_bytes();
    let (mut tokens, mut at, mut line) = (Vec::new(), 0, 1);
    while at < bytes.len() {
        if bytes[at].is_ascii_whitespace() {
            line += usize::from(bytes[at] == b'\n');
            at += 1;
            continue;
        }
        let (kind, end) = token_at(bytes, at);
        let text = source.get(at..end).unwrap_or("");
        let shown =
            if kind == Kind::Ident { text.strip_prefix("r#").unwrap_or(text) } else { text };
        tokens.push(Token { kind, text: shown, line });
        line += bytes[at..end].iter().filter(|byte| **byte == b'\n').count();
        at = end;
    }
    tokens
}

/// Kind and end of the token that begins at `at`.
fn token_at(bytes: &[u8], at: usize) -> (Kind, usize) {
    let rest = &bytes[at..];
    if rest.starts_with(b"//") {
        return (Kind::Comment, at + rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len()));
    }
    if rest.starts_with(b"/*") {
        return (Kind::Comment, block_comment_end(bytes, at));
    }
    if let Some(end) = string_end(bytes, at) {
        return (Kind::Literal, end);
    }
    match rest[0] {
        b'\'' => quote_end(bytes, at),
        b if is_word_start(b) => {
            let raw = rest.starts_with(b"r#") && rest.get(2).is_some_and(|b| is_word_start(*b));
            (Kind::Ident, word_end(bytes, if raw { at + 2 } else { at }))
        }
        b if b.is_ascii_digit() => (Kind::Literal, number_end(bytes, at)),
        _ if rest.starts_with(b"::") => (Kind::Punct, at + 2),
        _ => (Kind::Punct, at + 1),
    }
}

fn is_word_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

fn word_end(bytes: &[u8], at: usize) -> usize {
    let len = bytes[at..].iter().take_while(|b| is_word_start(**b) || b.is_ascii_digit()).count();
    at + len
}

fn number_end(bytes: &[u8], at: usize) -> usize {
    let end = word_end(bytes, at);
    // `0..10` and `1.max(2)` end before the dot, `1.5` does not.
    if bytes.get(end) == Some(&b'.') && bytes.get(end + 1).is_some_and(u8::is_ascii_digit) {
        return word_end(bytes, end + 1);
    }
    end
}

fn block_comment_end(bytes: &[u8], at: usize) -> usize {
    let (mut depth, mut end) = (0_usize, at);
    while end < bytes.len() {
        if bytes[end..].starts_with(b"/*") {
            depth += 1;
            end += 2;
        } else if bytes[end..].starts_with(b"*/") {
            depth -= 1;
            end += 2;
            if depth == 0 {
                return end;
            }
        } else {
            end += 1;
        }
    }
    bytes.len()
}

/// End of the string or byte character that begins here, if one does: `"`, `b"`, `c"`, `r"`, `br##"`, `b'`.
fn string_end(bytes: &[u8], at: usize) -> Option<usize> {
    let prefix = bytes[at..].iter().take_while(|b| matches!(b, b'b' | b'c' | b'r')).take(2).count();
    let raw = bytes[at..at + prefix].contains(&b'r');
    let mut open = at + prefix;
    if raw {
        let hashes = bytes[open..].iter().take_while(|b| **b == b'#').count();
        open += hashes;
        return (bytes.get(open) == Some(&b'"')).then(|| raw_string_end(bytes, open + 1, hashes));
    }
    match bytes.get(open) {
        Some(b'"') => Some(escaped_end(bytes, open + 1, b'"')),
        Some(b'\'') if prefix == 1 && bytes[at] == b'b' => {
            Some(escaped_end(bytes, open + 1, b'\''))
        }
        _ => None,
    }
}

fn raw_string_end(bytes: &[u8], start: usize, hashes: usize) -> usize {
    let mut end = start;
    while end < bytes.len() {
        let closed = bytes[end] == b'"'
            && bytes[end + 1..].iter().take(hashes).filter(|b| **b == b'#').count() == hashes;
        if closed {
            return end + 1 + hashes;
        }
        end += 1;
    }
    bytes.len()
}

fn escaped_end(bytes: &[u8], start: usize, close: u8) -> usize {
    let mut end = start;
    while end < bytes.len() {
        match bytes[end] {
            b'\\' => end += 2,
            b if b == close => return end + 1,
            _ => end += 1,
        }
    }
    bytes.len()
}

/// A character ends with its quote; anything else that begins with one is a lifetime.
fn quote_end(bytes: &[u8], at: usize) -> (Kind, usize) {
    let Some(first) = bytes.get(at + 1) else { return (Kind::Punct, at + 1) };
    if *first == b'\\' {
        return (Kind::Literal, escaped_end(bytes, at + 1, b'\''));
    }
    let continued = bytes[at + 2..].iter().take_while(|b| (0x80..0xC0).contains(*b)).count();
    if bytes.get(at + 2 + continued) == Some(&b'\'') {
        return (Kind::Literal, at + 3 + continued);
    }
    (Kind::Lifetime, word_end(bytes, at + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(source: &str) -> Vec<&str> {
        lex(source)
            .into_iter()
            .filter(|t| matches!(t.kind, Kind::Ident | Kind::Punct))
            .map(|t| t.text)
            .collect()
    }

    #[test]
    fn x2_strings_characters_and_comments_are_no_code() {
        assert_eq!(code("a // b\n/* c /* d */ e */ f"), ["a", "f"]);
        assert_eq!(code(r##"a "b \" c" r#"d " e"# br"f\" g"##), ["a", "g"]);
        assert_eq!(code(r"a '}' '\'' '\u{7d}' b'{' b'\'' g"), ["a", "g"]);
        assert_eq!(code("b\"{\" c\"{\" \"a\nb\" x"), ["x"]);
        assert_eq!(code("'\u{e9}' x"), ["x"]);
    }

    #[test]
    fn lifetimes_numbers_and_raw_names_are_told_apart() {
        let tokens = lex("&'a str 'b' 0..1.5 r#fn 'outer: loop {}");
        let kinds: Vec<(Kind, &str)> = tokens.iter().map(|t| (t.kind, t.text)).collect();
        assert_eq!(kinds[1], (Kind::Lifetime, "'a"));
        assert_eq!(kinds[3], (Kind::Literal, "'b'"));
        assert_eq!(kinds[4..8].iter().map(|k| k.1).collect::<Vec<_>>(), ["0", ".", ".", "1.5"]);
        assert_eq!(kinds[8], (Kind::Ident, "fn"));
        assert_eq!(kinds[9], (Kind::Lifetime, "'outer"));
    }

    #[test]
    fn lines_count_through_literals_of_many_lines() {
        let tokens = lex("a\n\"x\ny\"\n/* \n */ b::c");
        let lines: Vec<(&str, usize)> = tokens.iter().map(|t| (t.text, t.line)).collect();
        assert_eq!((lines[0], lines[3], lines[4]), (("a", 1), ("b", 5), ("::", 5)));
    }

    #[test]
    fn x1_every_cut_of_a_source_gives_tokens() {
        let source = "fn f<'a>() { r##\"x\"## b'\\n' /* /* */ 'c' 1.5 \"\\u{41}\" } // end";
        for end in 0..=source.len() {
            let cut = &source[..end];
            let bytes: usize = lex(cut).iter().map(|t| t.text.len()).sum();
            assert!(bytes <= end);
        }
    }
}
