//! The scanner under every check: one forward pass, iterative, eight bytes at a time inside strings.
//!
//! # Invariants
//! S1. `pos` never passes the end of the text and only grows.
//! S2. The stack holds one bit for each open array or object, and never more than `depth_max` bits.
//!
//! # Units
//! `pos`, offsets: bytes from the start of the text.

use super::{JsonFault, JsonFaultKind, is_space};

/// Every byte of a word set to 1.
const ONES: u64 = u64::MAX / 255;
/// The top bit of every byte of a word.
const TOPS: u64 = ONES << 7;

/// The open arrays and objects: 64 in a word of their own, the outer ones on the heap.
#[derive(Default)]
struct Nest {
    depth: usize,
    word: u64,
    outer: Vec<u64>,
}

impl Nest {
    fn push(&mut self, object: bool) {
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.outer.push(self.word);
        }
        self.word = (self.word << 1) | u64::from(object);
        self.depth += 1;
    }

    fn pop(&mut self) {
        self.word >>= 1;
        self.depth = self.depth.saturating_sub(1);
        if self.depth.is_multiple_of(64) {
            self.word = self.outer.pop().unwrap_or(0);
        }
    }

    fn in_object(&self) -> bool {
        self.word & 1 == 1
    }
}

/// A fault on the way, boxed so that what comes back from each step fits in registers.
pub(super) type Step<T> = Result<T, Box<JsonFault>>;

/// A pass over one text.
pub(super) struct Scan<'a> {
    text: &'a [u8],
    /// Next byte to look at.
    pub(super) pos: usize,
    depth_max: usize,
    /// Arrays and objects that were entered and count as open.
    entered: usize,
    nest: Nest,
}

impl<'a> Scan<'a> {
    pub(super) fn new(text: &'a [u8], pos: usize, depth_max: usize) -> Self {
        Self { text, pos: pos.min(text.len()), depth_max, entered: 0, nest: Nest::default() }
    }

    pub(super) fn skip_space(&mut self) {
        self.pos = space_end(self.text, self.pos);
    }

    /// Wants nothing but whitespace up to the end.
    pub(super) fn end(&mut self) -> Step<()> {
        self.skip_space();
        match self.text.get(self.pos) {
            None => Ok(()),
            Some(_) => syntax(self.pos, "nothing may follow the JSON value"),
        }
    }

    /// Steps into the array or object that opens with `open`; its parts are read by
    /// [`Scan::next_key`] or [`Scan::next_element`] and [`Scan::value`].
    pub(super) fn enter(&mut self, open: u8, wanted: &'static str) -> Step<()> {
        match self.text.get(self.pos) {
            Some(byte) if *byte == open => {
                self.room(self.pos)?;
                self.pos += 1;
                self.entered += 1;
                Ok(())
            }
            None => truncated(self.text),
            Some(_) => syntax(self.pos, wanted),
        }
    }

    /// The next key of an entered object, with the value next to read; none after the last member.
    #[inline]
    pub(super) fn next_key(&mut self, first: bool) -> Step<Option<&'a [u8]>> {
        if !self.next_part(b'}', first)? {
            return Ok(None);
        }
        let (start, end, next) = key(self.text, self.pos)?;
        self.pos = next;
        Ok(Some(self.text.get(start..end).unwrap_or_default()))
    }

    /// Whether an entered array has another element, which is then next to read.
    pub(super) fn next_element(&mut self, first: bool) -> Step<bool> {
        self.next_part(b']', first)
    }

    /// Steps over the comma before a part; false once `close` was read.
    #[inline]
    fn next_part(&mut self, close: u8, first: bool) -> Step<bool> {
        let at = space_end(self.text, self.pos);
        self.pos = match self.text.get(at) {
            Some(b',') if !first => space_end(self.text, at + 1),
            Some(byte) if *byte == close => {
                self.pos = at + 1;
                return Ok(false);
            }
            Some(_) if first => at,
            None => return truncated(self.text),
            Some(_) => return syntax(at, separator(close == b'}')),
        };
        Ok(true)
    }

    /// Reads one value of any depth, which starts at `pos`.
    #[inline]
    pub(super) fn value(&mut self) -> Step<()> {
        self.value_seen(&mut |_, _| {})
    }

    /// Like [`Scan::value`]; `seen` gets (offset, true) when an array or object opens and
    /// (offset after it, false) when it closes.
    #[inline]
    pub(super) fn value_seen(&mut self, seen: &mut impl FnMut(usize, bool)) -> Step<()> {
        let text = self.text;
        let mut at = self.pos;
        loop {
            at = match text.get(at) {
                Some(b'"') => string(text, at + 1)?,
                Some(b'{' | b'[') => match self.open(at, seen)? {
                    (next, true) => {
                        at = next;
                        continue;
                    }
                    (next, false) => next,
                },
                Some(b'-' | b'0'..=b'9') => number(text, at)?,
                Some(b't') => literal(text, at, b"true")?,
                Some(b'f') => literal(text, at, b"false")?,
                Some(b'n') => literal(text, at, b"null")?,
                Some(_) => return syntax(at, "a JSON value was expected"),
                None => return truncated(text),
            };
            match self.after_value(at, seen)? {
                (next, true) => at = next,
                (next, false) => {
                    self.pos = next;
                    return Ok(());
                }
            }
        }
    }

    /// Opens an array or object: (its first value, true), or (its end, false) when it is empty.
    #[inline(always)]
    fn open(&mut self, at: usize, seen: &mut impl FnMut(usize, bool)) -> Step<(usize, bool)> {
        self.room(at)?;
        let object = self.text.get(at) == Some(&b'{');
        seen(at, true);
        let at = space_end(self.text, at + 1);
        let close = if object { b'}' } else { b']' };
        if self.text.get(at) == Some(&close) {
            seen(at + 1, false);
            return Ok((at + 1, false));
        }
        self.nest.push(object);
        if object {
            return key(self.text, at).map(|(_, _, next)| (next, true));
        }
        Ok((at, true))
    }

    /// Steps over what may follow a value: (the next value, true), or (the end, false) when the
    /// outermost value is whole.
    #[inline(always)]
    fn after_value(
        &mut self,
        from: usize,
        seen: &mut impl FnMut(usize, bool),
    ) -> Step<(usize, bool)> {
        let mut at = from;
        while self.nest.depth > 0 {
            at = space_end(self.text, at);
            let object = self.nest.in_object();
            match self.text.get(at) {
                Some(b',') => {
                    at = space_end(self.text, at + 1);
                    if object {
                        at = key(self.text, at)?.2;
                    }
                    return Ok((at, true));
                }
                Some(b'}') if object => {}
                Some(b']') if !object => {}
                None => return truncated(self.text),
                Some(_) => return syntax(at, separator(object)),
            }
            at += 1;
            self.nest.pop();
            seen(at, false);
        }
        Ok((at, false))
    }

    /// Wants one more level to be within the limit.
    #[inline]
    fn room(&self, at: usize) -> Step<()> {
        if self.entered + self.nest.depth < self.depth_max {
            return Ok(());
        }
        fault(at, JsonFaultKind::Depth { max: self.depth_max })
    }
}

#[cold]
fn fault<T>(offset: usize, what: JsonFaultKind) -> Step<T> {
    Err(Box::new(JsonFault { offset, what }))
}

#[cold]
fn syntax<T>(at: usize, what: &'static str) -> Step<T> {
    fault(at, JsonFaultKind::Syntax(what))
}

#[cold]
fn truncated<T>(text: &[u8]) -> Step<T> {
    fault(text.len(), JsonFaultKind::Truncated)
}

fn separator(object: bool) -> &'static str {
    if object {
        "a comma or a closing brace was expected"
    } else {
        "a comma or a closing bracket was expected"
    }
}

/// First place from `at` on that holds no whitespace.
#[inline(always)]
fn space_end(text: &[u8], mut at: usize) -> usize {
    while let Some(byte) = text.get(at)
        && *byte <= b' '
        && is_space(*byte)
    {
        at += 1;
    }
    at
}

/// A key, its colon and the whitespace around it: start and end of the contents, start of the value.
#[inline(always)]
fn key(text: &[u8], at: usize) -> Step<(usize, usize, usize)> {
    match text.get(at) {
        Some(b'"') => {}
        None => return truncated(text),
        Some(_) => return syntax(at, "a key in quotes was expected"),
    }
    let after = string(text, at + 1)?;
    let colon = space_end(text, after);
    match text.get(colon) {
        Some(b':') => Ok((at + 1, after - 1, space_end(text, colon + 1))),
        None => truncated(text),
        Some(_) => syntax(colon, "a colon was expected after the key"),
    }
}

/// The end of the string whose contents start at `at`, its closing quote included.
#[inline(always)]
fn string(text: &[u8], at: usize) -> Step<usize> {
    let at = skip_plain(text, at, TOPS);
    match text.get(at) {
        Some(b'"') => Ok(at + 1),
        _ => string_rest(text, at),
    }
}

/// Like [`string`], from the first byte that is not plain.
fn string_rest(text: &[u8], mut at: usize) -> Step<usize> {
    loop {
        match text.get(at) {
            Some(b'"') => return Ok(at + 1),
            Some(b'\\') => at = escape(text, at)?,
            Some(0x80..) => at = wide(text, at)?,
            Some(_) => return syntax(at, "control characters in strings must be escaped"),
            None => return truncated(text),
        }
        at = skip_plain(text, at, TOPS);
    }
}

/// The end of a run that starts with a byte above ASCII and ends before a quote, backslash or control.
fn wide(text: &[u8], at: usize) -> Step<usize> {
    let end = skip_plain(text, at, 0);
    match std::str::from_utf8(text.get(at..end).unwrap_or_default()) {
        Ok(_) => Ok(end),
        Err(e) if e.error_len().is_none() && end == text.len() => truncated(text),
        Err(e) => fault(at + e.valid_up_to(), JsonFaultKind::Utf8),
    }
}

/// The end of the escape whose backslash is at `at`.
#[inline]
fn escape(text: &[u8], at: usize) -> Step<usize> {
    match text.get(at + 1) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => return Ok(at + 2),
        Some(b'u') => {}
        None => return truncated(text),
        Some(_) => return syntax(at, "this escape is not JSON"),
    }
    for place in at + 2..at + 6 {
        match text.get(place) {
            Some(byte) if byte.is_ascii_hexdigit() => {}
            None => return truncated(text),
            Some(_) => return syntax(place, "four hex digits were expected after \\u"),
        }
    }
    Ok(at + 6)
}

#[inline]
fn literal(text: &[u8], at: usize, word: &'static [u8]) -> Step<usize> {
    let rest = text.get(at..).unwrap_or_default();
    if rest.starts_with(word) {
        return Ok(at + word.len());
    }
    if word.starts_with(rest) {
        return truncated(text);
    }
    syntax(at, "a JSON value was expected")
}

/// The end of the number at `at`: the first byte that cannot belong to it.
#[inline(always)]
pub(super) fn number(text: &[u8], at: usize) -> Step<usize> {
    let start = if text.get(at) == Some(&b'-') { at + 1 } else { at };
    let end = digits_end(text, start);
    if end == start {
        return no_digit(text, end);
    }
    if text.get(start) == Some(&b'0') && end > start + 1 {
        return syntax(start, "a number has a leading zero");
    }
    match text.get(end) {
        Some(b'.' | b'e' | b'E') => number_rest(text, end),
        _ => Ok(end),
    }
}

/// The end of a number from its point or exponent on.
fn number_rest(text: &[u8], mut at: usize) -> Step<usize> {
    if text.get(at) == Some(&b'.') {
        let end = digits_end(text, at + 1);
        if end == at + 1 {
            return no_digit(text, end);
        }
        at = end;
    }
    if let Some(b'e' | b'E') = text.get(at) {
        at += 1;
        if let Some(b'+' | b'-') = text.get(at) {
            at += 1;
        }
        let end = digits_end(text, at);
        if end == at {
            return no_digit(text, end);
        }
        at = end;
    }
    Ok(at)
}

#[cold]
fn no_digit<T>(text: &[u8], at: usize) -> Step<T> {
    if at >= text.len() {
        return truncated(text);
    }
    syntax(at, "a digit was expected")
}

#[inline(always)]
fn digits_end(text: &[u8], mut at: usize) -> usize {
    while let Some(b'0'..=b'9') = text.get(at) {
        at += 1;
    }
    at
}

/// First place from `at` on that holds a quote, a backslash, a control character or, when `tops` asks
/// for it, a byte above ASCII; the length of the text when there is none.
#[inline]
fn skip_plain(text: &[u8], mut at: usize, tops: u64) -> usize {
    while let Some(chunk) = text.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(*chunk);
        let quote = word ^ (ONES * b'"' as u64);
        let slash = word ^ (ONES * b'\\' as u64);
        let hit = ((quote.wrapping_sub(ONES) & !quote)
            | (slash.wrapping_sub(ONES) & !slash)
            | (word.wrapping_sub(ONES * 0x20) & !word))
            & TOPS
            | (word & tops);
        // A borrow can only mark bytes above the lowest true mark, so the lowest one is exact.
        if hit != 0 {
            return at + (hit.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    while let Some(byte) = text.get(at) {
        if matches!(byte, b'"' | b'\\' | ..=0x1F) || (*byte >= 0x80 && tops != 0) {
            break;
        }
        at += 1;
    }
    at
}
