//! Reading the fields of `data` that the folds look at, without values for what they do not.

use std::borrow::Cow;

use crate::json;

/// A value that is compared by identity of numbers and strings, such as `turn`.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Label {
    /// The member is not there.
    Absent,
    /// A number, by value.
    Number(f64),
    /// Anything else, by its text.
    Other(Box<[u8]>),
}

impl Label {
    pub(crate) fn of(value: Option<&[u8]>) -> Self {
        match value {
            None => Self::Absent,
            Some(text) => match json::number_value(text) {
                Some(number) => Self::Number(number),
                None => Self::Other(text.into()),
            },
        }
    }
}

/// The value at a path of keys.
pub(crate) fn at<'a>(value: &'a [u8], path: &[&[u8]]) -> Option<&'a [u8]> {
    path.iter().try_fold(value, |value, key| json::member(value, key))
}

/// The decoded string at a path of keys.
pub(crate) fn text_at<'a>(value: &'a [u8], path: &[&[u8]]) -> Option<Cow<'a, [u8]>> {
    at(value, path).and_then(json::string_value)
}

/// Several members of one object, found in one pass; of equal keys the last.
pub(crate) fn members<'a, const N: usize>(
    value: &'a [u8],
    keys: [&[u8]; N],
) -> [Option<&'a [u8]>; N] {
    let mut found = [None; N];
    for (raw, text) in json::Members::new(value) {
        let key = json::unescape(raw);
        if let Some(place) = keys.iter().position(|k| **k == *key)
            && let Some(slot) = found.get_mut(place)
        {
            *slot = Some(text);
        }
    }
    found
}

/// Whether the value is a string of these contents.
pub(crate) fn is(value: Option<&[u8]>, wanted: &[u8]) -> bool {
    value.is_some_and(|v| json::string_is(v, wanted))
}

/// Whether the value is a string with contents.
pub(crate) fn is_filled(value: Option<&[u8]>) -> bool {
    value.is_some_and(|v| json::is_string(v) && !json::is_empty_string(v))
}

/// A count of tokens: a finite number from 0 on.
pub(crate) fn amount(value: Option<&[u8]>) -> Option<f64> {
    value.and_then(json::number_value).filter(|n| n.is_finite() && *n >= 0.0)
}
