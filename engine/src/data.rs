//! Reading `data` without parsing it into a tree: members, elements, strings and integers of exact JSON text.
//!
//! Strings are given as WTF-8, where a lone surrogate is its three bytes. Nothing here fails: what is not there, or is
//! of another kind, is `None`. Nesting is as deep as the store takes it; no call recurses.
//!
//! ```
//! let data = br#"{"turn":2,"message":{"content":[{"type":"text","text":"hi \ud83d\ude00"}]}}"#;
//! use everlog::data::{at, elements, integer, text};
//! assert_eq!(at(data, &["turn"]).and_then(integer), Some(2));
//! let block = at(data, &["message", "content"]).and_then(|c| elements(c).next()).unwrap();
//! let said = at(block, &["text"]).and_then(text).unwrap();
//! assert_eq!(&*said, "hi \u{1f600}".as_bytes());
//! ```
//!
//! # Invariants
//! Da1. The last of several members of one name counts, as in ECMAScript.

use std::borrow::Cow;

use crate::json;

/// The value at a path of member names; the value itself for an empty path.
///
/// ```
/// use everlog::data::at;
/// assert_eq!(at(br#"{"a":{"b": [1] }}"#, &["a", "b"]), Some(&b"[1]"[..]));
/// assert_eq!(at(br#"{"a":1}"#, &["b"]), None);
/// ```
#[must_use]
pub fn at<'a>(value: &'a [u8], path: &[&str]) -> Option<&'a [u8]> {
    path.iter().try_fold(value, |value, name| json::member(value, name.as_bytes()))
}

/// The members of an object in the order of the text: decoded name and value. None for any other value.
///
/// ```
/// let names: Vec<_> = everlog::data::members(br#"{"a":1,"\u0062":2}"#).map(|(name, _)| name).collect();
/// assert_eq!(names, [&b"a"[..], b"b"]);
/// ```
pub fn members(value: &[u8]) -> impl Iterator<Item = (Cow<'_, [u8]>, &[u8])> {
    json::Members::new(value).map(|(name, value)| (json::unescape(name), value))
}

/// The elements of an array. None for any other value.
///
/// ```
/// assert_eq!(everlog::data::elements(b"[1, [2]]").collect::<Vec<_>>(), [&b"1"[..], b"[2]"]);
/// ```
pub fn elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    json::Elements::new(value)
}

/// The decoded contents of a string.
///
/// ```
/// use everlog::data::text;
/// assert_eq!(text(br#""a\n\ud800""#).as_deref(), Some(&b"a\n\xed\xa0\x80"[..]));
/// assert_eq!(text(b"1"), None);
/// ```
#[must_use]
pub fn text(value: &[u8]) -> Option<Cow<'_, [u8]>> {
    json::string_value(value)
}

/// A number that is an integer of magnitude at most 2^53 - 1, however it is written.
///
/// ```
/// use everlog::data::integer;
/// assert_eq!((integer(b"-7"), integer(b"1e3"), integer(b"1.5")), (Some(-7), Some(1000), None));
/// ```
#[must_use]
pub fn integer(value: &[u8]) -> Option<i64> {
    json::safe_integer(value)
}
