//! JSON text from typed values: serde_json writes, what it would write wrongly is refused before.
//!
//! # Invariants
//! Ty1. A finite float is written as ECMAScript writes it: the shortest digits that read back as the same value.
//! Ty2. Integers are written whole, however large.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::Formatter;

use super::finite;
use crate::error::{Error, Result};

/// Longest text of a float with an exponent: sign, 17 digits, point, `e`, sign, 3 digits.
const FLOAT_TEXT_MAX: usize = 32;
/// From this power of ten on, and below the other, ECMAScript writes an exponent.
const PLAIN_BELOW: i32 = 21;
const PLAIN_FROM: i32 = -6;

/// Compact JSON text of a value. A float of 32 bits is written with the digits that it needs as one.
///
/// # Errors
/// `Invalid` when the value has no JSON form: a float that is NaN, infinite or -0.0, or a map with keys that are neither
/// strings nor numbers.
pub(crate) fn to_text<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>> {
    finite::check(value).map_err(|e| Error::invalid("data", e))?;
    let mut out = Vec::with_capacity(128);
    let mut serializer = serde_json::Serializer::with_formatter(&mut out, EcmaScript);
    value.serialize(&mut serializer).map_err(|e| Error::invalid("data", e))?;
    Ok(out)
}

/// Compact text with the floats of ECMAScript.
struct EcmaScript;

impl Formatter for EcmaScript {
    fn write_f64<W: Write + ?Sized>(&mut self, out: &mut W, value: f64) -> io::Result<()> {
        write_float(out, |text| write!(text, "{value:e}"))
    }

    fn write_f32<W: Write + ?Sized>(&mut self, out: &mut W, value: f32) -> io::Result<()> {
        write_float(out, |text| write!(text, "{value:e}"))
    }
}

/// Writes a float that `scientific` writes as `d.ddde-x`, the shortest digits first.
fn write_float<W: Write + ?Sized>(
    out: &mut W,
    scientific: impl FnOnce(&mut &mut [u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut buf = [0; FLOAT_TEXT_MAX];
    let mut free = &mut buf[..];
    scientific(&mut free)?;
    let left = free.len();
    let text = buf.get(..FLOAT_TEXT_MAX - left).and_then(|b| std::str::from_utf8(b).ok());
    let parts = text.and_then(|t| t.split_once('e'));
    let Some((mantissa, Ok(exponent))) = parts.map(|(m, e)| (m, e.parse::<i32>())) else {
        return Err(io::Error::other("a float was not written as expected"));
    };
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |m| ("-", m));
    let (whole, rest) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    out.write_all(sign.as_bytes())?;
    if (0..PLAIN_BELOW).contains(&exponent) {
        let before = usize::try_from(exponent).unwrap_or(0);
        let (high, low) = rest.split_at_checked(before).unwrap_or((rest, ""));
        write!(out, "{whole}{high}{:0<1$}", "", before - high.len())?;
        return if low.is_empty() { Ok(()) } else { write!(out, ".{low}") };
    }
    if (PLAIN_FROM - 1..0).contains(&exponent) && exponent > PLAIN_FROM - 1 {
        let zeros = usize::try_from(-exponent - 1).unwrap_or(0);
        return write!(out, "0.{:0<1$}{whole}{rest}", "", zeros);
    }
    out.write_all(whole.as_bytes())?;
    if !rest.is_empty() {
        write!(out, ".{rest}")?;
    }
    write!(out, "e{exponent:+}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::collections::{BTreeMap, HashMap};

    use super::*;
    use crate::error::ErrorKind;

    fn text<T: Serialize + ?Sized>(value: &T) -> String {
        String::from_utf8(to_text(value).unwrap()).unwrap()
    }

    #[derive(Serialize)]
    enum Shape {
        Unit,
        New(f64),
        Tuple(u8, f64),
        Struct { x: f64 },
    }

    #[derive(Serialize)]
    struct Deep {
        list: Vec<Option<Shape>>,
        map: BTreeMap<String, (f32, f64)>,
    }

    fn deep(at: usize, bad: f64) -> Deep {
        let v = |i: usize| if i == at { bad } else { 1.5 };
        let shapes =
            [Shape::Unit, Shape::New(v(0)), Shape::Tuple(1, v(1)), Shape::Struct { x: v(2) }];
        let map = BTreeMap::from([("k".to_owned(), (v(3) as f32, v(4)))]);
        Deep { list: shapes.into_iter().map(Some).chain([None]).collect(), map }
    }

    #[test]
    fn fi1_what_json_cannot_hold_is_refused_wherever_it_stands() {
        let fine = r#"{"list":["Unit",{"New":1.5},{"Tuple":[1,1.5]},{"Struct":{"x":1.5}},null],"map":{"k":[1.5,1.5]}}"#;
        assert_eq!(text(&deep(9, 0.0)), fine);
        for bad in [f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0] {
            assert_eq!(to_text(&bad).unwrap_err().kind(), ErrorKind::Invalid);
            assert_eq!(to_text(&(bad as f32)).unwrap_err().field(), Some("data"));
            for at in 0..5 {
                let err = to_text(&deep(at, bad)).unwrap_err();
                assert!(err.message().contains("has no JSON form"), "{err}");
            }
        }
    }

    #[test]
    fn keys_are_strings_or_written_as_such() {
        assert_eq!(text(&HashMap::from([(7, true)])), r#"{"7":true}"#);
        let err = to_text(&HashMap::from([(vec![1], 1)])).unwrap_err();
        assert_eq!((err.kind(), err.field()), (ErrorKind::Invalid, Some("data")));
        assert_eq!(
            text(&BTreeMap::from([("__proto__", 1), ("a\u{0}\"", 2)])),
            "{\"__proto__\":1,\"a\\u0000\\\"\":2}"
        );
    }

    #[test]
    fn ty1_floats_are_written_as_ecmascript_writes_them() {
        let cases: [(f64, &str); 24] = [
            (0.0, "0"),
            (1.0, "1"),
            (-1.0, "-1"),
            (0.1, "0.1"),
            (-12.5, "-12.5"),
            (100.0, "100"),
            (123456789.125, "123456789.125"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (1.5e21, "1.5e+21"),
            (123456789012345680000.0, "123456789012345680000"),
            (1.2345678901234568e21, "1.2345678901234568e+21"),
            (0.000001, "0.000001"),
            (0.0000012, "0.0000012"),
            (0.0000001, "1e-7"),
            (1.25e-7, "1.25e-7"),
            (5e-324, "5e-324"),
            (2.2250738585072014e-308, "2.2250738585072014e-308"),
            (f64::MAX, "1.7976931348623157e+308"),
            (9007199254740991.0, "9007199254740991"),
            (9007199254740993.0, "9007199254740992"),
            (0.1 + 0.2, "0.30000000000000004"),
            (1.0 / 3.0, "0.3333333333333333"),
            (4.35, "4.35"),
        ];
        for (value, wanted) in cases {
            assert_eq!(text(&value), wanted);
            assert_eq!(super::super::number_value(wanted.as_bytes()), Some(value));
        }
        assert_eq!((text(&0.1_f32), text(&16777216_f32)), ("0.1".into(), "16777216".into()));
    }

    #[test]
    fn ty1_every_float_reads_back_as_itself() {
        let mut bits = 0x0123_4567_89AB_CDEF_u64;
        for _ in 0..20_000 {
            bits = bits.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            let value = f64::from_bits(bits);
            if value.is_finite() && value != 0.0 {
                let text = text(&value);
                assert_eq!(text.parse::<f64>().map(f64::to_bits), Ok(bits), "{text}");
                assert!(super::super::check(text.as_bytes(), 0).is_ok(), "{text}");
            }
        }
    }

    #[test]
    fn ty2_integers_are_whole() {
        assert_eq!(text(&u64::MAX), "18446744073709551615");
        assert_eq!(text(&i128::MIN), "-170141183460469231731687303715884105728");
        assert_eq!(text(&u128::MAX), "340282366920938463463374607431768211455");
    }
}
