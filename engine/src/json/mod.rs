//! JSON over bytes: checks, splits and compares text without building values or changing a byte.
//!
//! # Invariants
//! J1. Accepted text follows the grammar of RFC 8259 exactly; bytes inside strings are valid UTF-8.
//! J2. Escaped lone surrogates are legal; decoded strings are WTF-8.
//! J3. Nothing recurses. Open arrays and objects cost one bit each, at most `depth_max` of them.
//! J4. No input panics. On text that was never checked, iterators end early and lookups find nothing.
//! J5. Of equal keys in one object the last one counts; keys are compared decoded.
//!
//! # Units
//! `offset`: bytes from the start of the text given. `depth`: open arrays and objects, the outermost
//! included, so a scalar has depth 0 and `[]` has depth 1.

mod equal;
mod finite;
mod members;
mod number;
mod scan;
mod string;
#[cfg(test)]
mod tests;
mod typed;

use std::fmt;

pub(crate) use equal::{json_equal, members_equal_except};
pub(crate) use members::{Elements, Members, member};
pub(crate) use number::{number_value, safe_integer};
pub(crate) use string::{
    is_empty_string, json_string_len, string_is, string_value, unescape, write_string,
};
pub(crate) use typed::to_text;

use scan::{Scan, Step};

/// Why text is not the JSON that was asked for, and where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct JsonFault {
    /// Byte at which it shows, from the start of the text.
    pub(crate) offset: usize,
    /// What is wrong there.
    pub(crate) what: JsonFaultKind,
}

/// Kinds of [`JsonFault`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum JsonFaultKind {
    /// The grammar is broken; the text says what was wanted.
    Syntax(&'static str),
    /// A string holds bytes that are not UTF-8.
    Utf8,
    /// More than `max` arrays and objects are open at once.
    Depth {
        /// Largest depth allowed.
        max: usize,
    },
    /// The text ends inside a value: it is a prefix of something valid.
    Truncated,
}

impl fmt::Display for JsonFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.what {
            JsonFaultKind::Syntax(what) => write!(f, "{what}")?,
            JsonFaultKind::Utf8 => f.write_str("a string is not valid UTF-8")?,
            JsonFaultKind::Depth { max } => write!(f, "nesting is deeper than {max}")?,
            JsonFaultKind::Truncated => f.write_str("the text ends inside a JSON value")?,
        }
        write!(f, " (byte {})", self.offset)
    }
}

/// Kind of a JSON value, told by its first byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// `{`
    Object,
    /// `[`
    Array,
    /// `"`
    String,
    /// `-` or a digit
    Number,
    /// `t` or `f`
    Bool,
    /// `n`
    Null,
}

/// Kind of the value that starts with `first`; none when no value starts so.
pub(crate) fn kind_of(first: u8) -> Option<Kind> {
    match first {
        b'{' => Some(Kind::Object),
        b'[' => Some(Kind::Array),
        b'"' => Some(Kind::String),
        b'-' | b'0'..=b'9' => Some(Kind::Number),
        b't' | b'f' => Some(Kind::Bool),
        b'n' => Some(Kind::Null),
        _ => None,
    }
}

/// Kind of a value from its text, which may have whitespace around it.
pub(crate) fn kind(text: &[u8]) -> Option<Kind> {
    trim(text).first().and_then(|first| kind_of(*first))
}

/// Whether the value is an object.
pub(crate) fn is_object(text: &[u8]) -> bool {
    kind(text) == Some(Kind::Object)
}

/// Whether the value is an array.
pub(crate) fn is_array(text: &[u8]) -> bool {
    kind(text) == Some(Kind::Array)
}

/// Whether the value is a string.
pub(crate) fn is_string(text: &[u8]) -> bool {
    kind(text) == Some(Kind::String)
}

/// Whether a byte is JSON whitespace.
pub(crate) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// The text without JSON whitespace around it.
pub(crate) fn trim(mut text: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = text
        && is_space(*first)
    {
        text = rest;
    }
    while let [rest @ .., last] = text
        && is_space(*last)
    {
        text = rest;
    }
    text
}

/// Checks that `text` is exactly one JSON value, with optional whitespace around it.
pub(crate) fn check(text: &[u8], depth_max: usize) -> Result<(), JsonFault> {
    let mut scan = Scan::new(text, 0, depth_max);
    scan.skip_space();
    scan.value().map_err(|fault| *fault)?;
    scan.end().map_err(|fault| *fault)
}

/// Checks the value at the start of `text`, after optional whitespace, and gives the offset of its end.
///
/// A number that ends with the text counts as whole.
pub(crate) fn check_prefix(text: &[u8], depth_max: usize) -> Result<usize, JsonFault> {
    let mut scan = Scan::new(text, 0, depth_max);
    scan.skip_space();
    scan.value().map_err(|fault| *fault)?;
    Ok(scan.pos)
}

/// Checks that `text` is exactly one JSON object and gives its members to `f` in the same pass:
/// the key between its quotes with escapes kept, the text of the value, and the offset of that text.
///
/// Members are given as they are met: when the text turns out faulty, `f` has seen those before.
pub(crate) fn split_object<'a, F>(
    text: &'a [u8],
    depth_max: usize,
    mut f: F,
) -> Result<(), JsonFault>
where
    F: FnMut(&'a [u8], &'a [u8], usize),
{
    split(text, depth_max, &mut f).map_err(|fault| *fault)
}

#[inline]
fn split<'a>(
    text: &'a [u8],
    depth_max: usize,
    f: &mut impl FnMut(&'a [u8], &'a [u8], usize),
) -> Step<()> {
    let mut scan = Scan::new(text, 0, depth_max);
    scan.skip_space();
    scan.enter(b'{', "a JSON object was expected")?;
    let mut first = true;
    while let Some(key) = scan.next_key(first)? {
        first = false;
        let start = scan.pos;
        scan.value()?;
        f(key, text.get(start..scan.pos).unwrap_or_default(), start);
    }
    scan.end()
}
