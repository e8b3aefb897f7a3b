//! The values of JSON numbers.
//!
//! # Invariants
//! N1. A number has the value of the nearest double, as ECMAScript reads it; too large ones are infinite.

use super::scan::number;
use crate::limits::SAFE_INTEGER_MAX;

/// Longest run of digits that is surely below 2^53.
const PLAIN_DIGITS_MAX: usize = 15;

/// The value of a JSON number; nothing when the text is anything else.
pub(crate) fn number_value(raw: &[u8]) -> Option<f64> {
    let raw = super::trim(raw);
    if number(raw, 0).ok()? != raw.len() {
        return None;
    }
    std::str::from_utf8(raw).ok()?.parse().ok()
}

/// The value of a JSON number that is an integer of magnitude at most 2^53 - 1, however it is written:
/// `1.0`, `1e3` and `-0` give 1, 1000 and 0. Nothing for any other text.
pub(crate) fn safe_integer(raw: &[u8]) -> Option<i64> {
    if raw.len() <= PLAIN_DIGITS_MAX
        && let Some(value) = plain_digits(raw)
    {
        return Some(value);
    }
    let value = number_value(raw)?;
    if value.fract() != 0.0 || value.abs() > SAFE_INTEGER_MAX as f64 {
        return None;
    }
    Some(value as i64)
}

/// Digits without sign, leading zero, fraction and exponent.
fn plain_digits(raw: &[u8]) -> Option<i64> {
    match raw {
        [b'0'] => return Some(0),
        [b'1'..=b'9', ..] => {}
        _ => return None,
    }
    let mut value = 0_i64;
    for byte in raw {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + i64::from(digit);
    }
    Some(value)
}
