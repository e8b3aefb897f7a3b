//! Runs against the plain form: any events give the same bytes back, and no bytes from outside do harm.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::borrow::Cow;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

use super::codec::{put_varint, wide};
use super::columns::{Columns, last_quote};
use super::events::{Events, encode};
use super::frame::flag;
use crate::event::{Event, NewEvent, SurfaceOp};
use crate::limits::TEMPLATE_BYTES_MAX as TEMPLATE_MAX;

fn decoded(payload: &[u8], count: usize, flags: u8) -> Result<Vec<Event>, super::Fault> {
    let mut events = Events::open(payload, count as u16, flags, 7)?;
    let mut out = Vec::new();
    while let Some(event) = events.next_event() {
        out.push(event?.to_owned());
    }
    Ok(out)
}

/// Events encoded in both forms give the same, in order and by seeking, and the columns take no more bytes.
fn same_in_both(events: &[NewEvent<'_>], columns: Columns) -> Result<(), TestCaseError> {
    let (mut plain, mut packed) = (Vec::new(), Vec::new());
    let plain_flags = encode(&mut plain, events, 7, 3, Columns::Off);
    let flags = encode(&mut packed, events, 7, 3, columns);
    prop_assert_eq!(plain_flags, flags & !flag::COLUMNS);
    prop_assert!(packed.len() <= plain.len());
    prop_assert!(flags & flag::COLUMNS != 0 || packed == plain);
    let wanted = decoded(&plain, events.len(), plain_flags).unwrap();
    for (e, w) in events.iter().zip(&wanted) {
        prop_assert_eq!(&e.data[..], &w.data[..]);
    }
    prop_assert_eq!(decoded(&packed, events.len(), flags).ok(), Some(wanted.clone()));
    for (i, want) in wanted.iter().enumerate() {
        let mut d = Events::open(&packed, events.len() as u16, flags, 7).unwrap();
        d.seek(i).unwrap();
        prop_assert_eq!(d.next_event().unwrap().unwrap().to_owned(), want.clone());
        let mut outline = d.clone();
        outline.seek(i).unwrap();
        let outline = outline.next_outline().unwrap().unwrap();
        prop_assert_eq!((outline.seq, outline.time_ms), (want.seq, want.time_ms));
    }
    Ok(())
}

/// Data that shares what stream chunks share, with all that may confuse the search for their ends.
fn data() -> impl Strategy<Value = String> {
    let head = prop_oneof![
        5 => Just(r#"{"turn":1,"step":2,"chunk":{"type":"text-delta","index":0,"text":""#),
        2 => Just(r#"{"turn":1,"step":2,"chunk":{"type":"reasoning-delta","index":0,"text":""#),
        1 => Just(r#"{"turn":1,"step":2,"chunk":{"type":"block-start","index":0,"blockType":""#),
        1 => Just(r#"{"turn":12,"step":2}"#),
        1 => Just(""),
        1 => Just("[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1"),
    ];
    let text = prop_oneof![
        4 => "[a-c ]{0,6}",
        1 => r#"(\\"|\\\\|a){0,5}"#,
        1 => "[\"\\\\}{\u{e9}]{0,30}",
        1 => "x{0,40}",
        1 => proptest::num::u16::ANY.prop_map(|n| "y".repeat(usize::from(n) % 2_500)),
    ];
    let tail = prop_oneof![
        6 => Just(r#""}}"#),
        1 => Just(r#""},"end":true}"#),
        1 => Just("}}"),
        1 => Just(""),
    ];
    (head, text, tail).prop_map(|(head, text, tail)| format!("{head}{text}{tail}"))
}

fn event() -> impl Strategy<Value = NewEvent<'static>> {
    let event_type =
        prop_oneof![6 => Just("assistant/chunk"), 1 => Just("note"), 1 => Just("turn/start")];
    let time = proptest::option::weighted(0.8, prop_oneof![6 => 0..50i64, 1 => any::<i64>()]);
    (event_type, data(), time, 0..24u8).prop_map(|(event_type, data, time_ms, odd)| {
        let mut e = NewEvent::new(event_type, data.as_bytes()).into_owned();
        e.time_ms = time_ms;
        match odd {
            0 => e.ignorable = true,
            1 => e.surface_op = Some(SurfaceOp::Append),
            2 => e.sources = Some(Cow::Borrowed(&[1, 0])),
            3 => e.surface_first = true,
            _ => {}
        }
        e
    })
}

fn search(columns: Columns, cases: u32) -> Result<(), String> {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    // Runs are long where an event comes several times.
    let some = proptest::collection::vec((event(), 1..20usize), 1..12);
    let events = some.prop_map(|parts| {
        let all = parts.into_iter().flat_map(|(e, n)| {
            (0..n).map(move |k| {
                let mut e = e.clone();
                if let (true, Some(at)) = (k % 3 > 0, last_quote(&e.data)) {
                    e.data.to_mut().splice(at..at, k.to_string().into_bytes());
                }
                e
            })
        });
        all.collect::<Vec<_>>()
    });
    let outcome = TestRunner::new(config).run(&events, |events| same_in_both(&events, columns));
    outcome.map_err(|e| e.to_string())
}

#[test]
fn k1_any_events_come_back_byte_for_byte() {
    search(Columns::On, 600).unwrap();
}

#[cfg(feature = "planted")]
#[test]
fn an_encoder_that_does_not_look_at_the_end_of_the_data_is_found() {
    let found = search(Columns::Unchecked, 600).unwrap_err();
    assert!(found.contains("minimal failing input"), "{found}");
}

/// A stream as an agent writes it: blocks of deltas between other events.
fn stream(n: usize) -> Vec<NewEvent<'static>> {
    let texts = ["The", " user", " wants\\n", "", " \\\"M", "ARM", "\u{e9}", "\\\\"];
    (0..n)
        .map(|i| {
            let (block, place) = (i / 20, i % 20);
            let kind = ["text", "reasoning"][block % 2];
            let data = match place {
                0 => format!(r#"{{"type":"block-start","index":{block},"blockType":"{kind}"}}"#),
                19 => format!(r#"{{"type":"block-end","index":{block},"block":{{"text":"all"}}}}"#),
                _ => format!(
                    r#"{{"type":"{kind}-delta","index":{block},"text":"{}"}}"#,
                    texts[i % texts.len()]
                ),
            };
            let data = format!(r#"{{"turn":3,"step":1,"chunk":{data}}}"#);
            let mut e = NewEvent::new("assistant/chunk", data.as_bytes()).into_owned();
            e.time_ms = Some(1_000 + (i as i64 * 37) % 90);
            e
        })
        .collect()
}

#[test]
fn a_stream_takes_few_bytes() {
    let events = stream(200);
    same_in_both(&events, Columns::On).unwrap();
    let (mut plain, mut packed) = (Vec::new(), Vec::new());
    encode(&mut plain, &events, 7, 3, Columns::Off);
    let flags = encode(&mut packed, &events, 7, 3, Columns::On);
    assert_eq!(flags, flag::RESTARTS | flag::COLUMNS);
    // 2 bytes an event, its text, some 10 bytes a series; a template and two odd events a block of 20.
    assert!(packed.len() < 200 * 25 && plain.len() > 200 * 75, "{} {}", packed.len(), plain.len());
}

#[test]
fn one_event_and_strangers_are_records_as_before() {
    let (mut plain, mut packed) = (Vec::new(), Vec::new());
    for events in [&stream(1)[..], &[]] {
        encode(&mut plain, events, 7, 3, Columns::Off);
        assert_eq!(encode(&mut packed, events, 7, 3, Columns::On), 0);
        assert_eq!(plain, packed);
    }
    let events: Vec<_> = (0..40)
        .map(|i| {
            NewEvent::new(["note", "hook/invoked"][i % 2], b"{\"one\":\"of many that are equal\"}")
        })
        .collect();
    encode(&mut plain, &events, 7, 3, Columns::Off);
    assert_eq!(encode(&mut packed, &events, 7, 3, Columns::On), flag::RESTARTS);
    assert_eq!(plain, packed);
}

/// Time 0, then a series of `n` events of type turn/start, code 46.
fn by_hand(n: u8, rest: &[&[u8]]) -> Vec<u8> {
    let mut out = vec![0, 0x80, 1, 46, n];
    rest.iter().for_each(|part| out.extend_from_slice(part));
    out
}

/// Prefix `[1`, suffix `]`.
const TEMPLATE: &[u8] = b"\x02[1\x01]";
/// Times 0, +2, -1; lengths 0, 2, 1; texts.
const REST: &[u8] = b"\0\x04\x01\0\x02\x01023";

fn refused(payload: &[u8], count: usize) -> bool {
    decoded(payload, count, flag::COLUMNS).is_err()
}

#[test]
fn what_is_not_well_formed_is_refused() {
    let good = by_hand(3, &[&[0], TEMPLATE, REST]);
    let read = decoded(&good, 3, flag::COLUMNS).unwrap();
    let read: Vec<_> = read.iter().map(|e| (e.time_ms, &e.data[..])).collect();
    assert_eq!(read, [(0, &b"[1]"[..]), (2, b"[102]"), (1, b"[13]")]);
    assert!(decoded(&good, 3, 0).is_err(), "no flag");
    for count in [1, 2, 4] {
        assert!(refused(&good, count), "{count} events");
    }
    for n in [0, 2, 4, 17, 255] {
        assert!(refused(&by_hand(n, &[&[0], TEMPLATE, REST]), 3), "n {n}");
    }
    for bit in [1, 2, 3, 4, 6] {
        let mut bad = good.clone();
        bad[1] |= 1 << bit;
        assert!(refused(&bad, 3), "head bit {bit}");
    }
    for back in
        [&[1][..], &[2], &[0xFF; 9], &[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1]]
    {
        assert!(refused(&by_hand(3, &[back, REST]), 3), "back {back:?}");
    }
    for rest in [
        &b"\x02\x04\x01\0\x02\x01023"[..],
        b"\0\x04\x01\0\x02\x0202",
        b"\0\x04\x01\0\x02\x010234",
        b"\0\x04\x01\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01\x01\x01",
        b"\0\x04\x80\0\0\x02\x01023",
        b"",
    ] {
        assert!(refused(&by_hand(3, &[&[0], TEMPLATE, rest]), 3), "{rest:?}");
    }
}

#[test]
fn a_template_has_its_most_bytes_and_its_place() {
    let of = |prefix: usize| {
        let mut t = Vec::new();
        put_varint(&mut t, wide(prefix));
        t.extend(vec![b' '; prefix]);
        t.extend(b"\x014");
        by_hand(3, &[&[0], &t, REST])
    };
    assert!(!refused(&of(TEMPLATE_MAX - 1), 3) && refused(&of(TEMPLATE_MAX), 3));
    let first = by_hand(3, &[&[0], TEMPLATE, REST]);
    let at = first.len();
    let second = |back: usize| {
        let head = [0x80, 1, 46, 1, back as u8, 0, 0];
        [&first[..], &head].concat()
    };
    let read = decoded(&second(at - 6), 4, flag::COLUMNS).unwrap();
    assert_eq!((read[3].time_ms, &read[3].data[..]), (1, &b"[1]"[..]));
    // At the head of the series, and where a template would reach into it.
    assert!(refused(&second(at + 1), 4) && refused(&second(1), 4));
    // The last byte before the series is the text 3: a prefix of three bytes.
    assert!(refused(&second(2), 4));
}

#[test]
fn a_run_does_not_cross_a_multiple_of_16() {
    let records = |n: usize| [0, 46, 0, 1, b'7'].repeat(n);
    let series = |n: usize| {
        let mut series = vec![0x80, 1, 46, n as u8, 0, 1, b'1', 0];
        series.extend(vec![0; 2 * n]);
        series
    };
    for (before, n, holds) in [
        (0, 16, true),
        (0, 17, false),
        (5, 11, true),
        (5, 12, false),
        (16, 16, true),
        (15, 2, false),
    ] {
        let payload = [&[0][..], &records(before), &series(n), &records(20)].concat();
        let all = before + n + 20;
        assert_eq!(!refused(&payload, all), holds, "{before} events, then {n}");
    }
}

#[test]
fn k3_no_cut_or_flip_panics_or_takes_more_than_the_frame_says() {
    let mut payload = Vec::new();
    let flags = encode(&mut payload, &stream(70), 7, 3, Columns::On);
    for cut in 0..payload.len() {
        let _any = decoded(&payload[..cut], 70, flags);
    }
    for bit in 0..payload.len() * 8 {
        let mut p = payload.clone();
        p[bit / 8] ^= 1 << (bit % 8);
        if let Ok(read) = decoded(&p, 70, flags) {
            let bytes: usize = read.iter().map(|e| e.data.len()).sum();
            assert!(bytes <= p.len() + 70 * TEMPLATE_MAX);
        }
        for k in [0, 17, 33, 69] {
            let Ok(mut d) = Events::open(&p, 70, flags, 7) else { continue };
            if d.seek(k).is_ok() {
                let _any = d.next_event();
            }
        }
    }
}
