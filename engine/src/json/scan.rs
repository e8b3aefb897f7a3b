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

    pub(super) fn peek(&self) -> Option<u8> {
        self.text.get(self.pos).copied()
    }

    pub(super) fn skip_space(&mut self) {
        while let Some(byte) = self.peek()
            && byte <= b' '
            && is_space(byte)
        {
            self.pos += 1;
        }
    }

    /// Wants nothing but whitespace up to the end.
    pub(super) fn end(&mut self) -> Result<(), JsonFault> {
        self.skip_space();
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.syntax("nothing may follow the JSON value")),
        }
    }

    /// Steps into the array or object that opens with `open`; [`Scan::value`] then reads its parts.
    pub(super) fn enter(&mut self, open: u8, wanted: &'static str) -> Result<(), JsonFault> {
        match self.peek() {
            Some(byte) if byte == open => {
                self.room()?;
                self.pos += 1;
                self.entered += 1;
                Ok(())
            }
            None => Err(self.truncated()),
            Some(_) => Err(self.syntax(wanted)),
        }
    }

    /// The next key of an entered object, with the value next to read; none after the last member.
    pub(super) fn next_key(&mut self, first: bool) -> Result<Option<&'a [u8]>, JsonFault> {
        self.skip_space();
        match (self.peek(), first) {
            (Some(b'}'), _) => {
                self.pos += 1;
                return Ok(None);
            }
            (Some(b','), false) => {
                self.pos += 1;
                self.skip_space();
            }
            (Some(_), true) => {}
            (None, _) => return Err(self.truncated()),
            (Some(_), false) => return Err(self.syntax("a comma or a closing brace was expected")),
        }
        self.key().map(Some)
    }

    /// Whether an entered array has another element, which is then next to read.
    pub(super) fn next_element(&mut self, first: bool) -> Result<bool, JsonFault> {
        self.skip_space();
        match (self.peek(), first) {
            (Some(b']'), _) => {
                self.pos += 1;
                return Ok(false);
            }
            (Some(b','), false) => {
                self.pos += 1;
                self.skip_space();
            }
            (Some(_), true) => {}
            (None, _) => return Err(self.truncated()),
            (Some(_), false) => {
                return Err(self.syntax("a comma or a closing bracket was expected"));
            }
        }
        Ok(true)
    }

    /// Reads one value of any depth, which starts at `pos`.
    pub(super) fn value(&mut self) -> Result<(), JsonFault> {
        self.value_seen(&mut |_, _| {})
    }

    /// Like [`Scan::value`]; `seen` gets (offset, true) when an array or object opens and
    /// (offset after it, false) when it closes.
    pub(super) fn value_seen(
        &mut self,
        seen: &mut impl FnMut(usize, bool),
    ) -> Result<(), JsonFault> {
        loop {
            let opened = match self.peek() {
                Some(b'"') => {
                    self.pos += 1;
                    self.string()?;
                    false
                }
                Some(b'{' | b'[') => self.open(seen)?,
                Some(b'-' | b'0'..=b'9') => {
                    self.number()?;
                    false
                }
                Some(b't') => self.literal(b"true")?,
                Some(b'f') => self.literal(b"false")?,
                Some(b'n') => self.literal(b"null")?,
                Some(_) => return Err(self.syntax("a JSON value was expected")),
                None => return Err(self.truncated()),
            };
            if !opened && self.after_value(seen)? {
                return Ok(());
            }
        }
    }

    /// Opens an array or object; false when it is empty and closed again.
    fn open(&mut self, seen: &mut impl FnMut(usize, bool)) -> Result<bool, JsonFault> {
        self.room()?;
        let object = self.peek() == Some(b'{');
        seen(self.pos, true);
        self.pos += 1;
        self.skip_space();
        let close = if object { b'}' } else { b']' };
        if self.peek() == Some(close) {
            self.pos += 1;
            seen(self.pos, false);
            return Ok(false);
        }
        self.nest.push(object);
        if object {
            self.key()?;
        }
        Ok(true)
    }

    /// Steps over what may follow a value; true when the outermost value is whole.
    fn after_value(&mut self, seen: &mut impl FnMut(usize, bool)) -> Result<bool, JsonFault> {
        while self.nest.depth > 0 {
            self.skip_space();
            let object = self.nest.in_object();
            match self.peek() {
                Some(b',') => {
                    self.pos += 1;
                    self.skip_space();
                    if object {
                        self.key()?;
                    }
                    return Ok(false);
                }
                Some(b'}') if object => {}
                Some(b']') if !object => {}
                None => return Err(self.truncated()),
                Some(_) if object => {
                    return Err(self.syntax("a comma or a closing brace was expected"));
                }
                Some(_) => return Err(self.syntax("a comma or a closing bracket was expected")),
            }
            self.pos += 1;
            self.nest.pop();
            seen(self.pos, false);
        }
        Ok(true)
    }

    /// A key, its colon and the whitespace up to its value.
    fn key(&mut self) -> Result<&'a [u8], JsonFault> {
        match self.peek() {
            Some(b'"') => self.pos += 1,
            None => return Err(self.truncated()),
            Some(_) => return Err(self.syntax("a key in quotes was expected")),
        }
        let start = self.pos;
        self.string()?;
        let key = self.text.get(start..self.pos - 1).unwrap_or_default();
        self.skip_space();
        match self.peek() {
            Some(b':') => self.pos += 1,
            None => return Err(self.truncated()),
            Some(_) => return Err(self.syntax("a colon was expected after the key")),
        }
        self.skip_space();
        Ok(key)
    }

    /// The rest of a string whose opening quote was read.
    #[inline]
    fn string(&mut self) -> Result<(), JsonFault> {
        let mut at = self.pos;
        loop {
            at = skip_plain(self.text, at, TOPS);
            match self.text.get(at) {
                Some(b'"') => {
                    self.pos = at + 1;
                    return Ok(());
                }
                Some(b'\\') => at = self.escape(at)?,
                Some(0x80..) => at = self.wide(at)?,
                Some(_) => {
                    let what = "control characters in strings must be escaped";
                    return Err(self.fault(at, JsonFaultKind::Syntax(what)));
                }
                None => return Err(self.truncated()),
            }
        }
    }

    /// A run that starts with a byte above ASCII and ends before a quote, backslash or control.
    fn wide(&self, at: usize) -> Result<usize, JsonFault> {
        let end = skip_plain(self.text, at, 0);
        let run = self.text.get(at..end).unwrap_or_default();
        match std::str::from_utf8(run) {
            Ok(_) => Ok(end),
            Err(e) if e.error_len().is_none() && end == self.text.len() => Err(self.truncated()),
            Err(e) => Err(self.fault(at + e.valid_up_to(), JsonFaultKind::Utf8)),
        }
    }

    /// The escape whose backslash is at `at`.
    fn escape(&self, at: usize) -> Result<usize, JsonFault> {
        match self.text.get(at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(at + 2),
            Some(b'u') => {
                for place in at + 2..at + 6 {
                    match self.text.get(place) {
                        Some(byte) if byte.is_ascii_hexdigit() => {}
                        None => return Err(self.truncated()),
                        Some(_) => {
                            let what = "four hex digits were expected after \\u";
                            return Err(self.fault(place, JsonFaultKind::Syntax(what)));
                        }
                    }
                }
                Ok(at + 6)
            }
            None => Err(self.truncated()),
            Some(_) => Err(self.fault(at, JsonFaultKind::Syntax("this escape is not JSON"))),
        }
    }

    fn literal(&mut self, word: &'static [u8]) -> Result<bool, JsonFault> {
        let rest = self.text.get(self.pos..).unwrap_or_default();
        if rest.starts_with(word) {
            self.pos += word.len();
            return Ok(false);
        }
        if word.starts_with(rest) {
            return Err(self.truncated());
        }
        Err(self.syntax("a JSON value was expected"))
    }

    /// A number; it ends at the first byte that cannot belong to it.
    pub(super) fn number(&mut self) -> Result<(), JsonFault> {
        if self.peek() == Some(b'-') {
            self.pos += 1;
        }
        if self.peek() == Some(b'0') {
            self.pos += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.pos += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.pos += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.pos += 1;
            }
            self.digits()?;
        }
        if let Some(b'0'..=b'9') = self.peek() {
            return Err(self.syntax("a number has a leading zero"));
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), JsonFault> {
        let start = self.pos;
        while let Some(b'0'..=b'9') = self.peek() {
            self.pos += 1;
        }
        match self.peek() {
            _ if self.pos > start => Ok(()),
            None => Err(self.truncated()),
            Some(_) => Err(self.syntax("a digit was expected")),
        }
    }

    /// Wants one more level to be within the limit.
    fn room(&self) -> Result<(), JsonFault> {
        if self.entered + self.nest.depth < self.depth_max {
            return Ok(());
        }
        Err(self.fault(self.pos, JsonFaultKind::Depth { max: self.depth_max }))
    }

    fn fault(&self, offset: usize, what: JsonFaultKind) -> JsonFault {
        JsonFault { offset, what }
    }

    fn syntax(&self, what: &'static str) -> JsonFault {
        self.fault(self.pos, JsonFaultKind::Syntax(what))
    }

    fn truncated(&self) -> JsonFault {
        self.fault(self.text.len(), JsonFaultKind::Truncated)
    }
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
