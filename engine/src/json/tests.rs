//! Tests of the JSON module: the grammar by hand and against another parser, limits, truncation, equality.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

const DEPTH: usize = 64;

const SAMPLE: &str = concat!(
    "{\"type\":\"user/message\",\"seq\":12,\"time\":-1.5e+3,\"data\":{\"a\\\"\\ud83d\\ude00\":[1,2,{}],",
    "\"wide \u{e9}\u{20ac}\u{1f600} text\":null,\"t\":true,\"f\":false,\"\":[[],[0]],\"long\":\"0123456789abcdef\\n0123\"}}"
);

fn kind_of_fault(text: &[u8]) -> JsonFaultKind {
    check(text, DEPTH).unwrap_err().what
}

#[test]
fn j1_legal_texts_pass() {
    for text in [
        "0",
        "-0",
        "-1",
        "10",
        "1.0",
        "1e3",
        "1E+3",
        "1e-3",
        "1e999",
        "null",
        "true",
        "false",
        "\"\"",
        " [ ] ",
        "{}",
        "\t{ \"a\" : 1 , \"a\" : [ 1 , 2 ] }\r\n",
        "\"\\ud800\"",
        "\"\\uDC00x\"",
        "\"\u{7f}\u{80}\u{2028}\u{10ffff}\"",
        "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00aF\"",
        SAMPLE,
    ] {
        assert_eq!(check(text.as_bytes(), DEPTH), Ok(()), "{text}");
    }
}

#[test]
fn j1_illegal_texts_are_syntax_faults() {
    for text in [
        "01",
        "-01",
        "00",
        "1.e",
        "1.x",
        ".5",
        "+1",
        "1ex",
        "--1",
        "1 2",
        "nul1",
        "True",
        "NaN",
        "Infinity",
        "[1,]",
        "[,1]",
        "{,}",
        "{\"a\":1,}",
        "{\"a\"}",
        "{a:1}",
        "{\"a\" 1}",
        "[1 2]",
        "{\"a\":1 \"b\":2}",
        "]",
        "[}",
        "{]",
        "\"\\x\"",
        "\"\\u12g4\"",
        "'a'",
        "[1]]",
        "{\"a\":}",
        "\u{a0}1",
        "\u{feff}1",
        "\"a\u{1}\"",
        "\"0123456789\u{1f}0123456789\"",
        "\"a\nb\"",
        "1,",
        "[\"a\",\n\u{0}]",
    ] {
        assert!(matches!(kind_of_fault(text.as_bytes()), JsonFaultKind::Syntax(_)), "{text:?}");
    }
}

#[test]
fn j1_bytes_that_are_not_utf8_are_refused_where_they_stand() {
    let bad: [&[u8]; 7] = [
        b"\xed\xa0\x80",
        b"\xc0\x80",
        b"\xff",
        b"\x80",
        b"\xe2\x82",
        b"\xf4\x90\x80\x80",
        b"\xe2\x28\xa1",
    ];
    for bytes in bad {
        for pad in 0..20 {
            let mut text = vec![b'"'];
            text.extend(std::iter::repeat_n(b'x', pad));
            text.extend_from_slice(bytes);
            text.extend_from_slice(b"yz\"");
            let fault = check(&text, DEPTH).unwrap_err();
            assert_eq!((fault.what, fault.offset), (JsonFaultKind::Utf8, pad + 1), "{bytes:x?}");
        }
    }
    // Outside strings such bytes break the grammar.
    assert!(matches!(kind_of_fault(b"[\xff]"), JsonFaultKind::Syntax(_)));
}

#[test]
fn j1_every_place_in_a_word_finds_the_end_the_escape_and_the_control() {
    for pad in 0..40 {
        let plain = "p".repeat(pad);
        assert_eq!(check_prefix(format!("\"{plain}\"tail").as_bytes(), 0), Ok(pad + 2));
        assert_eq!(check_prefix(format!("\"{plain}\\\"\"tail").as_bytes(), 0), Ok(pad + 4));
        let fault = check(format!("\"{plain}\u{1f}tail tail tail\"").as_bytes(), 0).unwrap_err();
        assert_eq!(fault.offset, pad + 1);
        assert!(check(format!("\"{plain} !#[]^\u{7f}\u{a2}\u{dc}\"").as_bytes(), 0).is_ok());
    }
}

#[test]
fn j3_depth_is_refused_above_the_limit_only() {
    for max in [0, 1, 2, 63, 64, 65, 128, 129, 4096] {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(
            check(nested(max).as_bytes(), max),
            if max == 0 { check(b"", 0) } else { Ok(()) }
        );
        let fault = check(nested(max + 1).as_bytes(), max).unwrap_err();
        assert_eq!((fault.what, fault.offset), (JsonFaultKind::Depth { max }, max));
        let objects = format!("{}1{}", "{\"a\":".repeat(max), "}".repeat(max));
        assert_eq!(check(objects.as_bytes(), max), Ok(()));
        assert_eq!(split_object(objects.as_bytes(), max, |_, _, _| {}).is_ok(), max > 0);
        let deeper = format!("{{\"a\":{objects}}}");
        let fault = split_object(deeper.as_bytes(), max, |_, _, _| {}).unwrap_err();
        assert_eq!(fault.what, JsonFaultKind::Depth { max });
    }
    // Brackets of both kinds must close in the right order across a word of the stack.
    let mixed = |depth: usize| format!("{}0{}", "[{\"k\":".repeat(depth), "}]".repeat(depth));
    assert_eq!(check(mixed(200).as_bytes(), 400), Ok(()));
    let wrong = mixed(200).replacen("}]", "]}", 1);
    assert!(matches!(check(wrong.as_bytes(), 400).unwrap_err().what, JsonFaultKind::Syntax(_)));
}

#[test]
fn j3_ten_million_brackets_are_refused_at_once() {
    let text = vec![b'['; 10_000_000];
    let start = Instant::now();
    let fault = check(&text, 4096).unwrap_err();
    assert_eq!((fault.what, fault.offset), (JsonFaultKind::Depth { max: 4096 }, 4096));
    // Without a limit the end is reached, at one bit a bracket.
    assert_eq!(check(&text, usize::MAX).unwrap_err().what, JsonFaultKind::Truncated);
    assert!(Members::new(&text).next().is_none());
    assert!(Elements::new(&text).next().is_none());
    assert!(!json_equal(&text, &[]));
    assert!(start.elapsed() < Duration::from_secs(10));
}

#[test]
fn truncations_are_told_from_faults() {
    let text = SAMPLE.as_bytes();
    for end in 0..text.len() {
        let fault = check(&text[..end], DEPTH).unwrap_err();
        assert_eq!((fault.what, fault.offset), (JsonFaultKind::Truncated, end), "cut at {end}");
        let split = split_object(&text[..end], DEPTH, |_, _, _| {}).unwrap_err();
        assert_eq!(split.what, JsonFaultKind::Truncated, "cut at {end}");
    }
    for text in [
        "-", "1.", "1e", "1e-", "tru", "n", "\"", "\"\\", "\"\\u", "\"\\u00", "[1", "[1,",
        "{\"a\"", "",
    ] {
        assert_eq!(kind_of_fault(text.as_bytes()), JsonFaultKind::Truncated, "{text}");
    }
}

#[test]
fn split_gives_members_with_their_places() {
    let text = br#" { "a" : [1, 2] ,"b\u0063":"x" , "a":{} } "#;
    let mut seen = Vec::new();
    split_object(text, DEPTH, |key, value, offset| {
        assert_eq!(&text[offset..offset + value.len()], value);
        seen.push((key.to_vec(), value.to_vec()));
    })
    .unwrap();
    let wanted: [(&[u8], &[u8]); 3] = [(b"a", b"[1, 2]"), (br"b\u0063", br#""x""#), (b"a", b"{}")];
    assert_eq!(seen, wanted.map(|(k, v)| (k.to_vec(), v.to_vec())));
    for bad in ["[]", "{} x", "{\"a\":1]", "1", "{\"a\":01}"] {
        assert!(split_object(bad.as_bytes(), DEPTH, |_, _, _| {}).is_err(), "{bad}");
    }
    assert_eq!(split_object(b"{}", 1, |_, _, _| panic!("no member")), Ok(()));
}

#[test]
fn iterators_give_parts_and_end_at_garbage() {
    let members: Vec<_> = Members::new(br#"{"a":1,"b":{"c":[2]}} trailing"#).collect();
    assert_eq!(members, [(&b"a"[..], &b"1"[..]), (b"b", br#"{"c":[2]}"#)]);
    let mut elements = Elements::new(b"[1, \"a\" ,[2],{}]");
    assert_eq!(elements.by_ref().collect::<Vec<_>>(), [&b"1"[..], b"\"a\"", b"[2]", b"{}"]);
    assert_eq!(elements.fault(), None);
    let mut broken = Elements::new(b"[1,2 3]");
    assert_eq!(broken.by_ref().count(), 2);
    assert!(matches!(broken.fault().unwrap().what, JsonFaultKind::Syntax(_)));
    assert_eq!(broken.next(), None);
    let mut broken = Members::new(b"{\"a\":1,\"b\"");
    assert_eq!(broken.by_ref().count(), 1);
    assert_eq!(broken.fault().unwrap().what, JsonFaultKind::Truncated);
    for garbage in ["", "x", "[", "{", "\"{}\"", "\u{0}"] {
        assert_eq!(Members::new(garbage.as_bytes()).count(), 0);
        assert_eq!(Elements::new(garbage.as_bytes()).count(), 0);
    }
}

#[test]
fn j5_the_last_of_equal_keys_counts_and_keys_are_decoded() {
    let text = br#"{"a":1,"b":2,"\u0061":3,"\ud800":4}"#;
    assert_eq!(member(text, b"a"), Some(&b"3"[..]));
    assert_eq!(member(text, b"b"), Some(&b"2"[..]));
    assert_eq!(member(text, b"\xed\xa0\x80"), Some(&b"4"[..]));
    assert_eq!(member(text, b"c"), None);
    assert_eq!(member(b"[\"a\"]", b"a"), None);
}

#[test]
fn w1_escapes_decode_to_wtf8() {
    let cases: [(&[u8], &[u8]); 8] = [
        (br"plain", b"plain"),
        (br#"\"\\\/\b\f\n\r\t"#, b"\"\\/\x08\x0c\n\r\t"),
        (br"\u00e9\u20AC\u0000", "\u{e9}\u{20ac}\u{0}".as_bytes()),
        (br"\ud83d\ude00", "\u{1f600}".as_bytes()),
        (br"\ude00\ud83d", b"\xed\xb8\x80\xed\xa0\xbd"),
        (br"\ud83d\ud83d\ude00", b"\xed\xa0\xbd\xf0\x9f\x98\x80"),
        (br"\ud83dx\n", b"\xed\xa0\xbdx\n"),
        (br"\ud83d\n", b"\xed\xa0\xbd\n"),
    ];
    for (raw, decoded) in cases {
        assert_eq!(&*unescape(raw), decoded);
    }
    for garbage in [&b"\\"[..], b"\\u", b"\\u12", b"\\ud800\\u", b"\\q", b"a\\"] {
        assert!(!unescape(garbage).is_empty());
    }
}

#[test]
fn w2_strings_are_written_as_ecmascript_writes_them() {
    let text = b"\"\\/\x00\x08\t\n\x0b\x0c\r\x1f\x7f\xed\xa0\x80z\xed\xbf\xbf\xe2\x80\xa8\xed\x9f\xbf\xf0\x9f\x98\x80";
    let mut out = Vec::new();
    write_string(&mut out, text);
    let wanted = "\"\\\"\\\\/\\u0000\\b\\t\\n\\u000b\\f\\r\\u001f\u{7f}\\ud800z\\udfff\u{2028}\u{d7ff}\u{1f600}\"";
    assert_eq!(String::from_utf8(out.clone()).unwrap(), wanted);
    assert_eq!(string_value(&out).unwrap(), text.as_slice());
    assert!(string_is(b" \"a\\u0062\" ", b"ab"));
    assert!(!string_is(b"ab", b"ab"));
    assert!(is_empty_string(b"\"\"") && !is_empty_string(b"\" \""));
}

#[test]
fn integers_are_taken_by_value() {
    let max = (1_i64 << 53) - 1;
    for (raw, value) in [
        ("0", 0),
        ("-0", 0),
        ("7", 7),
        ("-7", -7),
        ("1.0", 1),
        ("1e3", 1000),
        ("10e-1", 1),
        ("1E+2", 100),
        ("123456789012345", 123_456_789_012_345),
        ("9007199254740991", max),
        ("-9007199254740991", -max),
        ("9007199254740991.0", max),
    ] {
        assert_eq!(safe_integer(raw.as_bytes()), Some(value), "{raw}");
    }
    for raw in [
        "",
        "-",
        "01",
        "1.5",
        "1e-1",
        "9007199254740992",
        "-9007199254740992",
        "1e999",
        "1e16",
        "\"1\"",
        "null",
        "1x",
        "+1",
        "0x1",
        "inf",
        "nan",
        "[1]",
        "00000000",
        "99999999999999999999",
    ] {
        assert_eq!(safe_integer(raw.as_bytes()), None, "{raw}");
    }
}

#[test]
fn equality_is_by_value() {
    for (a, b) in [
        ("1", "1.0"),
        ("1e3", " 1000"),
        ("\"a\"", "\"\\u0061\""),
        ("{\"a\":1,\"b\":[2]}", "{ \"b\": [2], \"\\u0061\":1}"),
        ("{\"a\":1,\"a\":2}", "{\"a\":2}"),
        ("[]", "[ ]"),
        ("{}", "{ }"),
        ("0", "-0"),
        ("1e999", "2e999"),
        ("9007199254740993", "9007199254740992"),
        ("[[1,[2]],{\"x\":{}}]", "[[1,[2.0]],{\"x\":{ }}]"),
    ] {
        assert!(json_equal(a.as_bytes(), b.as_bytes()), "{a} {b}");
    }
    for (a, b) in [
        ("1", "2"),
        ("1", "\"1\""),
        ("[1,2]", "[2,1]"),
        ("[1]", "[1,1]"),
        ("{\"a\":1}", "{\"a\":2}"),
        ("{\"a\":1}", "{\"b\":1}"),
        ("{\"a\":1}", "{\"a\":1,\"b\":1}"),
        ("null", "false"),
        ("true", "false"),
        ("{}", "[]"),
        ("{\"a\":2,\"a\":1}", "{\"a\":2}"),
        ("\"\\ud800\"", "\"\\ud801\""),
        ("", "1"),
        ("x", "y"),
        ("[1", "[2"),
    ] {
        assert!(!json_equal(a.as_bytes(), b.as_bytes()), "{a} {b}");
    }
    let (a, b): (&[u8], &[u8]) = (br#"{"a":1,"c":[1],"b":2}"#, br#"{"b":2,"a":1.0,"\u0063":[3]}"#);
    assert!(members_equal_except(a, b, b"c") && !members_equal_except(a, b, b"a"));
    assert!(!members_equal_except(b"[]", b"[]", b"c"));
}

#[test]
fn q2_equality_of_deep_and_wide_texts_is_quick() {
    let wide = format!("[{}1]", "1, ".repeat(400_000));
    let deep = |tail: &str| format!("{}{tail}{}", "[".repeat(4000), "]".repeat(4000));
    let start = Instant::now();
    assert!(json_equal(deep(&wide).as_bytes(), deep(&wide.replace(' ', "")).as_bytes()));
    assert!(!json_equal(deep(&wide).as_bytes(), deep(&wide.replacen("1,", "2,", 1)).as_bytes()));
    let keys = |n: usize| (0..n).map(|k| format!("\"{}\":{k}", (k * 7919) % n)).collect::<Vec<_>>();
    let (mut one, other) = (keys(100_003), keys(100_003));
    one.reverse();
    let object = |parts: &[String]| format!("{{{}}}", parts.join(","));
    assert!(json_equal(object(&one).as_bytes(), object(&other).as_bytes()));
    assert!(start.elapsed() < Duration::from_secs(20));
}

/// JSON text of a random value, with random whitespace and key order.
fn arb_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        any::<String>().prop_map(Into::into),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
            prop::collection::btree_map(any::<String>(), inner, 0..6)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn written_values_pass_and_equal_themselves(value in arb_json(), other in arb_json()) {
        let compact = serde_json::to_vec(&value).unwrap();
        let pretty = serde_json::to_vec_pretty(&value).unwrap();
        prop_assert_eq!(check(&compact, DEPTH), Ok(()));
        prop_assert_eq!(check_prefix(&compact, DEPTH), Ok(compact.len()));
        prop_assert!(json_equal(&compact, &pretty));
        let third = serde_json::to_vec(&other).unwrap();
        prop_assert_eq!(json_equal(&compact, &third), value == other);
    }

    #[test]
    fn one_changed_byte_is_judged_as_another_parser_judges_it(
        value in arb_json(), place in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>(),
    ) {
        let mut text = serde_json::to_vec(&value).unwrap();
        let at = place.index(text.len());
        if cut { text.remove(at); } else { text[at] = byte; }
        let ours = check(&text, DEPTH).is_ok();
        let theirs = serde_json::from_slice::<&serde_json::value::RawValue>(&text);
        // The other parser refuses a text only for its UTF-8 when it is asked for a value.
        let theirs = theirs.is_ok() && std::str::from_utf8(&text).is_ok();
        prop_assert_eq!(ours, theirs, "{}", String::from_utf8_lossy(&text));
    }

    #[test]
    fn tokens_in_any_order_are_judged_as_another_parser_judges_them(
        tokens in prop::collection::vec(prop::sample::select(vec![
            "{", "}", "[", "]", ",", ":", "\"a\"", "\"b\\n\"", "1", "-0.5e2", "0", "null", "true", " ", "\n",
        ]), 0..14),
    ) {
        let text = tokens.concat();
        let theirs = serde_json::from_str::<&serde_json::value::RawValue>(&text).is_ok();
        prop_assert_eq!(check(text.as_bytes(), DEPTH).is_ok(), theirs, "{}", text);
    }

    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = check(&bytes, 8);
        prop_assert!(Members::new(&bytes).count() <= bytes.len());
        prop_assert!(Elements::new(&bytes).count() <= bytes.len());
        let _ = (unescape(&bytes), safe_integer(&bytes), json_equal(&bytes, b"[1]"), member(&bytes, b"a"));
        let mut out = Vec::new();
        write_string(&mut out, &bytes);
        prop_assert!(out.len() >= bytes.len() + 2);
    }

    #[test]
    fn strings_go_round(units in prop::collection::vec(any::<u16>(), 0..40)) {
        let mut raw = String::new();
        for unit in &units {
            raw.push_str(&format!("\\u{unit:04X}"));
        }
        let wtf8 = unescape(raw.as_bytes()).into_owned();
        prop_assert!(crate::types::is_wtf8(&wtf8));
        let mut out = Vec::new();
        write_string(&mut out, &wtf8);
        prop_assert_eq!(check(&out, 0), Ok(()));
        let back = string_value(&out).unwrap();
        prop_assert_eq!(&*back, wtf8.as_slice());
        prop_assert_eq!(back.into_owned(), wtf8);
    }

    #[test]
    fn integers_agree_with_doubles(value in any::<f64>(), int in any::<i64>()) {
        let text = format!("{value:e}");
        let safe = |v: f64| v.fract() == 0.0 && v.abs() <= 9_007_199_254_740_991.0;
        prop_assert_eq!(safe_integer(text.as_bytes()), safe(value).then_some(value as i64));
        let int = int >> 8;
        let wanted = (int.unsigned_abs() < 1 << 53).then_some(int);
        prop_assert_eq!(safe_integer(int.to_string().as_bytes()), wanted);
    }
}
