//! Torn tails, damage, limits and odd layouts of plain files.

use proptest::prelude::*;

use super::super::{Place, WarningKind};
use super::{Dribble, HEADER, ImportOptions, read, read_with, sample};
use crate::{Error, ErrorKind, SessionId, SurfaceOp};

fn refusal(text: &[u8]) -> Error {
    read(text).map(|(outcome, _)| outcome).expect_err("a refusal")
}

fn facts(error: &Error) -> (ErrorKind, Option<u64>, Option<u64>, Option<&str>) {
    (error.kind(), error.line(), error.seq(), error.field())
}

fn kinds(text: &[u8]) -> Vec<(WarningKind, u64, u64)> {
    read(text).unwrap().0.warnings.iter().map(|w| (w.kind, w.line, w.count)).collect()
}

const ONE: &str = r#"{"type":"x","seq":0,"time":1,"data":1}"#;
const TWO: &str = r#"{"type":"x","seq":1,"time":1,"data":1}"#;

#[test]
fn every_cut_gives_a_prefix_and_counts_the_rest() {
    let text = sample();
    let (_, whole) = read(text.as_bytes()).unwrap();
    for cut in 0..text.len() {
        let part = &text.as_bytes()[..cut];
        if cut < HEADER.len() {
            assert_eq!(refusal(part).kind(), ErrorKind::Corrupt, "{cut}");
            continue;
        }
        let (outcome, kept) = read(part).unwrap();
        let ended = part.iter().filter(|b| **b == b'\n').count() - 1;
        let last = part.rsplit(|b| *b == b'\n').next().unwrap();
        let extra = usize::from(text.as_bytes()[cut] == b'\n' && !last.is_empty());
        assert_eq!(kept.events.len(), ended + extra, "{cut}");
        assert_eq!(kept.events, whole.events[..ended + extra]);
        let torn = if extra == 1 { 0 } else { last.len() as u64 };
        assert_eq!(outcome.torn_bytes, torn, "{cut}");
        assert_eq!(outcome.warnings.len(), usize::from(torn > 0));
    }
}

#[test]
fn damage_before_a_whole_event_is_corrupt_and_names_its_line() {
    for bad in ["{\"type\":\"x\",\"se", "garbage", "\0\0\0", "[1]", "7", "{\"a\":}", "\u{FEFF}"] {
        let text = format!("{HEADER}{bad}\n\n  \n{ONE}\n");
        assert_eq!(facts(&refusal(text.as_bytes())).0, ErrorKind::Corrupt, "{bad:?}");
        assert_eq!(refusal(text.as_bytes()).line(), Some(2), "{bad:?}");
        // The same event on the same line, behind and before it.
        for text in [format!("{HEADER}{bad}{ONE}"), format!("{HEADER}{ONE}{bad}\n")] {
            assert_eq!(refusal(text.as_bytes()).line(), Some(2), "{text:?}");
        }
        let text = format!("{HEADER}{ONE}\n{bad}\n\0\0\nmore {{}}\n");
        let (outcome, kept) = read(text.as_bytes()).unwrap();
        assert_eq!(kept.events.len(), 1);
        assert_eq!(outcome.torn_bytes, (text.len() - HEADER.len() - ONE.len() - 1) as u64);
    }
}

#[test]
fn nul_at_the_end_is_a_torn_tail() {
    for (last, events) in [("", 1), ("\n", 1), (TWO, 2)] {
        let last = if last.is_empty() { "\n".to_owned() } else { format!("\n{last}") };
        let text = format!("{HEADER}{ONE}{last}");
        let mut bytes = text.clone().into_bytes();
        bytes.resize(bytes.len() + (3 << 20) + 5, 0);
        let (outcome, kept) = read(&bytes[..]).unwrap();
        assert_eq!((kept.events.len(), outcome.torn_bytes), (events, (3 << 20) + 5));
        let torn = outcome.warnings.last().unwrap().torn.unwrap();
        assert_eq!((torn.offset, torn.nul, torn.place), (text.len() as u64, true, Place::Text));
    }
    // L2: NUL costs no memory and passes no limit, but an event behind it is not dropped.
    let options = ImportOptions { line_bytes_max: 200, ..ImportOptions::default() };
    let mut bytes = format!("{HEADER}{ONE}\n").into_bytes();
    bytes.resize(bytes.len() + 4_000_000, 0);
    assert_eq!(read_with(&bytes[..], &options).unwrap().0.torn_bytes, 4_000_000);
    bytes.extend_from_slice(TWO.as_bytes());
    let error = read_with(&bytes[..], &options).map(|_| ()).unwrap_err();
    assert_eq!((error.kind(), error.line()), (ErrorKind::Corrupt, Some(3)));
}

#[test]
fn layout_is_stepped_over_with_a_warning() {
    use WarningKind::{BlankLine, ByteOrderMark, CarriageReturn, TornTail};
    let text = format!("\u{FEFF}{HEADER}{ONE}\n{TWO}");
    assert_eq!(kinds(text.as_bytes()), [(ByteOrderMark, 1, 1)]);
    let text = format!("\n{HEADER}  \t\n{ONE}\r\n\r\n{TWO}\r\n \n");
    assert_eq!(kinds(text.as_bytes()), [(BlankLine, 1, 4), (CarriageReturn, 4, 2)]);
    let text = format!("{HEADER}\t {ONE} \n{TWO}\n{{\"ty");
    assert_eq!(kinds(text.as_bytes()), [(TornTail, 4, 4)]);
    assert_eq!(kinds(HEADER.as_bytes()), []);
}

#[test]
fn a_file_without_a_whole_header_is_refused() {
    let cut = HEADER.trim_end();
    for text in
        ["", "\n", "\0\0", "\u{FEFF}", cut, "x\n", "7\n", "{}\n", ONE, &cut.replace('\n', "\r")]
    {
        let error = refusal(text.as_bytes());
        assert_eq!((error.kind(), error.line()), (ErrorKind::Corrupt, Some(1)), "{text:?}");
        assert!(error.to_string().contains("header"), "{error}");
    }
    let newer = HEADER.replace("\"version\":0", "\"version\":9");
    assert_eq!(refusal(newer.as_bytes()).kind(), ErrorKind::Unsupported);
    let relative = HEADER.replace("\"/w\"", "\"{{cwd}}\"");
    let text = format!("{relative}{ONE}\n");
    assert_eq!(facts(&refusal(text.as_bytes())), (ErrorKind::Invalid, Some(1), None, Some("cwd")));
}

#[test]
fn rules_of_the_envelope_name_their_field() {
    let cases = [
        (r#""seq":0,"time":1,"data":1"#, "type", ErrorKind::Invalid),
        (r#""type":"","seq":0,"time":1,"data":1"#, "type", ErrorKind::Invalid),
        (r#""type":5,"seq":0,"time":1,"data":1"#, "type", ErrorKind::Invalid),
        (r#""type":"x","time":1,"data":1"#, "seq", ErrorKind::Invalid),
        (r#""type":"x","seq":"0","time":1,"data":1"#, "seq", ErrorKind::Invalid),
        (r#""type":"x","seq":0.5,"time":1,"data":1"#, "seq", ErrorKind::Invalid),
        (r#""type":"x","seq":1,"time":1,"data":1"#, "seq", ErrorKind::Corrupt),
        (r#""type":"x","seq":-1,"time":1,"data":1"#, "seq", ErrorKind::Corrupt),
        (r#""type":"x","seq":0,"data":1"#, "time", ErrorKind::Invalid),
        (r#""type":"x","seq":0,"time":9007199254740992,"data":1"#, "time", ErrorKind::Invalid),
        (r#""type":"x","seq":0,"time":1"#, "data", ErrorKind::Invalid),
        (
            r#""type":"x","seq":0,"time":1,"data":1,"ignorable":false"#,
            "ignorable",
            ErrorKind::Invalid,
        ),
        (r#""type":"x","seq":0,"time":1,"data":1,"seq0":0"#, "seq0", ErrorKind::Invalid),
        (r#""type":"x","seq":0,"time":1,"data":1,"a\u001b":0"#, r"a\u001b", ErrorKind::Invalid),
        (
            r#""type":"x","seq":0,"time":1,"data":1,"surfaceOp":null"#,
            "surfaceOp",
            ErrorKind::Invalid,
        ),
        (r#""type":"turn/end","seq":0,"time":1,"data":1"#, "data", ErrorKind::Invalid),
        (r#""type":"user/message","seq":0,"time":1,"data":{}"#, "surfaceOp", ErrorKind::Invalid),
        (r#""type":"text-chunks","seq0":0,"time0":1,"data":{}"#, "text-chunks", ErrorKind::Corrupt),
        (r#""type":"x","data":1},"#, "seq", ErrorKind::Corrupt),
    ];
    for (members, field, kind) in cases {
        let text = format!("{HEADER}{{{members}}}\n{TWO}\n");
        let error = refusal(text.as_bytes());
        if members.ends_with(',') {
            assert_eq!((error.kind(), error.line()), (kind, Some(2)));
        } else {
            assert_eq!(facts(&error), (kind, Some(2), Some(0), Some(field)), "{members}: {error}");
        }
    }
}

#[test]
fn equal_keys_and_escaped_keys_count_as_their_last() {
    let line = r#"{"type":"a","seq":9,"\u0074ype":"b","se\u0071":0,"time":7,"time":-0,"data":1,"data": [2] }"#;
    let (_, kept) = read(format!("{HEADER}{line}\n").as_bytes()).unwrap();
    let event = &kept.events[0];
    assert_eq!((&*event.event_type, event.time_ms, &*event.data), (&b"b"[..], 0, &b"[2]"[..]));
}

#[test]
fn marks_are_kept_with_their_order() {
    let message = r#"{"id":"m","role":"user","content":[],"source":{"kind":"u"}}"#;
    let line = |seq, rest: &str| {
        format!(
            "{{\"type\":\"user/message\",\"seq\":{seq},\"time\":0,\"data\":{message},{rest}}}\n"
        )
    };
    let replace = r#""surfaceOp":{"end":0,"op":"replace","start":0},"sourceEventSeqs":[ 0.0 ]"#;
    let text = format!("{HEADER}{}{}", line(0, r#""surfaceOp":"append""#), line(1, replace));
    let (_, kept) = read(text.as_bytes()).unwrap();
    let [first, second] = &kept.events[..] else { panic!("two events") };
    assert_eq!((first.surface_op, first.surface_first), (Some(SurfaceOp::Append), false));
    assert_eq!(second.surface_op, Some(SurfaceOp::Replace { start: 0, end: 0 }));
    assert_eq!((second.sources.as_deref(), second.surface_first), (Some(&[0][..]), true));
}

#[test]
fn bytes_that_are_not_utf8_are_refused_also_in_the_last_line() {
    let mut text = HEADER.as_bytes().to_vec();
    text.extend_from_slice(b"{\"type\":\"x\",\"seq\":0,\"time\":1,\"data\":\"\xff\"}\n");
    assert_eq!(facts(&refusal(&text)).0, ErrorKind::Corrupt);
    // Cut inside a character, or followed by noise, it is a tail like any other.
    for tail in [&b"{\"type\":\"\xf0\x9f"[..], b"\xff\xfe\x00\x01", b"{\"a\":\"\xff"] {
        let mut text = format!("{HEADER}{ONE}\n").into_bytes();
        text.extend_from_slice(tail);
        assert_eq!(read(&text[..]).unwrap().0.torn_bytes, tail.len() as u64);
    }
}

#[test]
fn limits_are_typed() {
    let deep = format!(
        "{HEADER}{{\"type\":\"x\",\"seq\":0,\"time\":1,\"data\":{}{}}}\n",
        "[".repeat(9),
        "]".repeat(9)
    );
    let with = |depth_max, event_bytes_max, line_bytes_max| {
        let options = ImportOptions {
            depth_max,
            event_bytes_max,
            line_bytes_max,
            ..ImportOptions::default()
        };
        read_with(deep.as_bytes(), &options).map(|_| ())
    };
    assert!(with(9, 18, 100).is_ok());
    for (result, field) in [
        (with(8, 18, 100), "depth_max"),
        (with(9, 17, 100), "data"),
        (with(9, 18, 40), "line_bytes_max"),
    ] {
        let error = result.unwrap_err();
        assert_eq!((error.kind(), error.field()), (ErrorKind::Limit, Some(field)), "{error}");
        assert!(error.line().is_some() && error.offset().is_some());
    }
    let long =
        format!("{HEADER}{{\"type\":\"{}\",\"seq\":0,\"time\":1,\"data\":1}}\n", "x".repeat(1025));
    assert_eq!(refusal(long.as_bytes()).kind(), ErrorKind::Limit);
}

#[test]
fn projections_get_seq_and_time_by_place() {
    let header = HEADER.replace("\"/w\"", "\"{{cwd}}/a\"").replace("\"s\"", "\"{{sessionId}}\"");
    let row = r#"{"type":"text-chunks","data":{"turn":1,"step":1,"index":0,"dt":[4,-1],"texts":["a","b","c"]}}"#;
    let end = r#"{"type":"x","data":0}"#;
    let text = format!("{header}{end}\n{row}\n{end}\n");
    let options =
        ImportOptions { name: SessionId::new("file \"1\"").ok(), ..ImportOptions::default() };
    let (outcome, kept) = read_with(text.as_bytes(), &options).unwrap();
    assert!(outcome.projection);
    let times: Vec<i64> = kept.events.iter().map(|e| e.time_ms).collect();
    assert_eq!(times, [0, 0, 4, 3, 0]);
    let kept_header = kept.header.as_ref().unwrap();
    assert_eq!(kept_header.view.id.as_bytes(), b"file \"1\"");
    let renamed = header.trim_end().replace("\"{{sessionId}}\"", r#""file \"1\"""#);
    assert_eq!(kept_header.text, renamed.as_bytes());
    let names: Vec<&str> = outcome.warnings.iter().map(|w| w.kind.name()).collect();
    assert_eq!(names, ["projection", "placeholder-cwd", "placeholder-id"]);
    for mixed in [format!("{text}{ONE}\n"), format!("{HEADER}{ONE}\n{end}\n")] {
        let error = refusal(mixed.as_bytes());
        assert_eq!((error.kind(), error.field()), (ErrorKind::Invalid, Some("seq")));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// L3: how reads are cut changes nothing, not even an error.
    #[test]
    fn pieces_of_any_size_give_the_same(
        sizes in prop::collection::vec(1_usize..40, 1..9),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        nuls in 0_usize..30,
    ) {
        let mut text = sample().into_bytes();
        text.resize(text.len() + nuls, 0);
        let at = at.index(text.len());
        text[at] = byte;
        let whole = read(&text[..]);
        let pieces = read(Dribble::new(&text, sizes));
        match (whole, pieces) {
            (Ok((a, b)), Ok((c, d))) => {
                prop_assert_eq!(a, c);
                prop_assert_eq!(b.events, d.events);
            }
            (Err(a), Err(b)) => prop_assert_eq!(format!("{a:?}"), format!("{b:?}")),
            (a, b) => prop_assert!(false, "{} {}", a.is_ok(), b.is_ok()),
        }
    }

    /// I1: damage inside the file never loses an event without a refusal.
    #[test]
    fn a_flipped_byte_drops_nothing_silently(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let text = sample();
        let last = text.trim_end().rfind('\n').unwrap();
        let mut bytes = text.clone().into_bytes();
        let at = at.index(last);
        bytes[at] = byte;
        if let Ok((outcome, _)) = read(&bytes[..]) {
            prop_assert_eq!((outcome.events, outcome.torn_bytes), (10, 0));
        }
    }

    #[test]
    fn any_bytes_are_answered(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        cut in any::<prop::sample::Index>(),
    ) {
        let text = sample();
        let mut all = text.as_bytes()[..cut.index(text.len())].to_vec();
        all.extend_from_slice(&bytes);
        let _ = read(&all[..]);
        let _ = read(&bytes[..]);
    }
}
