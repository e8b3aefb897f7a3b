//! Packed rows: decoding, encoding, and that one undoes the other.

use proptest::prelude::*;

use super::{HEADER, PackWriter, read, write_event};
use crate::{ErrorKind, Event};

fn row(data: &str) -> String {
    format!("{HEADER}{{\"type\":\"text-chunks\",\"seq0\":0,\"time0\":5,\"data\":{data}}}\n")
}

#[test]
fn members_keep_the_text_of_the_row() {
    let data =
        r#"{"texts":["\u0041","","a]\\\"b"] , "turn":1.0,"step":1e0,"index":-0,"dt":[ 3 ,-2.0]}"#;
    let (_, kept) = read(row(data).as_bytes()).unwrap();
    let member = |text: &str| {
        format!(
            r#"{{"turn":1.0,"step":1e0,"chunk":{{"type":"text-delta","index":-0,"text":"{text}"}}}}"#
        )
    };
    let found: Vec<(i64, String)> = kept
        .events
        .iter()
        .map(|e| (e.time_ms, String::from_utf8(e.data.to_vec()).unwrap()))
        .collect();
    assert_eq!(found, [(5, member("\\u0041")), (8, member("")), (6, member(r#"a]\\\"b"#))]);
}

#[test]
fn tool_calls_carry_id_and_name() {
    let text = format!(
        "{HEADER}{}\n",
        r#"{"type":"tool-call-chunks","seq0":0,"time0":5,"data":{"turn":1,"step":1,"index":0,"dt":[],"id":"c","name":"","args":["x"]}}"#
    );
    let (_, kept) = read(text.as_bytes()).unwrap();
    let want = r#"{"turn":1,"step":1,"chunk":{"type":"tool-call-delta","index":0,"id":"c","name":"","argumentsDelta":"x"}}"#;
    assert_eq!(&*kept.events[0].data, want.as_bytes());
}

#[test]
fn r2_a_malformed_row_is_refused_whole() {
    for data in [
        "null",
        r#"{"turn":1,"step":1,"index":0,"dt":[],"texts":[]}"#,
        r#"{"turn":1,"step":1,"index":0,"dt":[1],"texts":["a","b","c"]}"#,
        r#"{"turn":1,"step":1,"index":0,"dt":[1,2,3],"texts":["a","b","c"]}"#,
        r#"{"turn":1,"step":1,"index":0,"dt":[1,0.5],"texts":["a","b","c"]}"#,
        r#"{"turn":1,"step":1,"index":0,"dt":[1,[1]],"texts":["a","b","c"]}"#,
        r#"{"turn":1,"step":1,"index":0,"dt":[9007199254740991,1],"texts":["a","b","c"]}"#,
        r#"{"turn":1,"step":1,"index":0,"dt":[1,1],"texts":["a","b",3]}"#,
        r#"{"turn":1,"step":1,"index":0,"dt":[1,1],"texts":["a","b",["c"]]}"#,
        r#"{"turn":"1","step":1,"index":0,"dt":[1,1],"texts":["a","b","c"]}"#,
        r#"{"turn":1,"step":1,"dt":[1,1],"texts":["a","b","c"]}"#,
        r#"{"turn":1,"step":1,"index":0,"dt":[1,1],"texts":["a","b","c"],"id":"x"}"#,
        r#"{"turn":1,"step":1,"index":0,"dt":[1,1],"args":["a","b","c"]}"#,
        r#"{"turn":1,"step":1,"index":0,"dt":"","texts":["a"]}"#,
    ] {
        let error = read(row(data).as_bytes()).map(|_| ()).expect_err(data);
        assert_eq!((error.kind(), error.line()), (ErrorKind::Corrupt, Some(2)), "{data}");
    }
    let last = row(r#"{"turn":1,"step":1,"index":0,"dt":[1],"texts":["a","b"]}"#);
    let last = last.replace("\"seq0\":0", "\"seq0\":9007199254740991");
    assert_eq!(read(last.as_bytes()).map(|_| ()).unwrap_err().kind(), ErrorKind::Corrupt);
}

/// Parts of a chunk event; what a test changes of them.
#[derive(Clone, Debug)]
struct Chunk {
    kind: u8,
    turn: &'static str,
    name: Option<&'static str>,
    text: String,
    gap: i64,
    odd: u8,
}

fn chunk() -> impl Strategy<Value = Chunk> {
    let kind = prop_oneof![8 => Just(0_u8), 2 => Just(1), 3 => Just(2)];
    let turn = prop_oneof![9 => Just("1"), 1 => Just("1.0"), 1 => Just("2")];
    let name = prop_oneof![3 => Just(None), 1 => Just(Some("")), 1 => Just(Some("n"))];
    let text = prop_oneof![Just(String::new()), "[a-z\"\\\\\u{e9}]{0,5}"];
    let gap = prop_oneof![9 => -3_i64..9, 1 => Just(1 << 53), 1 => Just(-(1_i64 << 52))];
    let odd = prop_oneof![12 => Just(0_u8), 1 => 1_u8..7];
    (kind, turn, name, text, gap, odd).prop_map(|(kind, turn, name, text, gap, odd)| Chunk {
        kind,
        turn,
        name,
        text,
        gap,
        odd,
    })
}

fn event(seq: u64, time: &mut i64, chunk: &Chunk) -> Event {
    let max = (1_i64 << 53) - 1;
    *time = (*time + chunk.gap).clamp(-max, max);
    let text = serde_json::to_string(&chunk.text).unwrap();
    let body = match chunk.kind {
        0 => format!(r#""type":"text-delta","index":0,"text":{text}"#),
        1 => format!(r#""type":"reasoning-delta","index":0,"text":{text}"#),
        _ => {
            let name = chunk.name.map(|n| format!("\"name\":\"{n}\",")).unwrap_or_default();
            format!(r#""type":"tool-call-delta","index":0,"id":"c",{name}"argumentsDelta":{text}"#)
        }
    };
    let turn = chunk.turn;
    let data = match chunk.odd {
        1 => format!(r#"{{"turn":{turn},"step":1, "chunk":{{{body}}}}}"#),
        2 => format!(r#"{{"turn":{turn},"step":1,"chunk":{{{body},"more":1}}}}"#),
        3 => format!(r#"{{"step":1,"turn":{turn},"chunk":{{{body}}}}}"#),
        4 => format!(r#"{{"turn":"{turn}","step":1,"chunk":{{{body}}}}}"#),
        _ => format!(r#"{{"turn":{turn},"step":1,"chunk":{{{body}}}}}"#),
    };
    let event_type = if chunk.odd == 5 { &b"other/type"[..] } else { b"assistant/chunk" };
    Event {
        seq,
        time_ms: *time,
        event_type: event_type.into(),
        data: data.into_bytes().into(),
        surface_op: None,
        sources: None,
        ignorable: chunk.odd == 6,
        surface_first: false,
    }
}

/// The lengths of the runs that must be packed, by the rule and not by the text.
fn runs(chunks: &[Chunk], events: &[Event]) -> Vec<usize> {
    let mut runs = Vec::new();
    let mut length = 0;
    for (at, chunk) in chunks.iter().enumerate() {
        let packs = chunk.odd == 0;
        let goes_on = at > 0 && packs && length > 0 && {
            let (before, own) = (&chunks[at - 1], chunk);
            let name = own.kind != 2 || before.name == own.name;
            let gap = events[at].time_ms.abs_diff(events[at - 1].time_ms) < 1 << 53;
            before.kind == own.kind && before.turn == own.turn && name && gap
        };
        if !goes_on {
            runs.push(length);
            length = 0;
        }
        length += usize::from(packs);
    }
    runs.push(length);
    runs.retain(|length| *length >= 3);
    runs
}

proptest! {
    /// P1, P2 and P3, and X2 for lines that are not packed.
    #[test]
    fn packed_lines_read_back_as_the_same_events(chunks in prop::collection::vec(chunk(), 0..60)) {
        let mut time = 0;
        let events: Vec<Event> =
            (0..).zip(&chunks).map(|(seq, chunk)| event(seq, &mut time, chunk)).collect();
        let mut packed = HEADER.as_bytes().to_vec();
        let mut plain = packed.clone();
        let mut pack = PackWriter::new();
        for event in &events {
            pack.push(&event.as_ref(), &mut packed).unwrap();
            write_event(&mut plain, &event.as_ref()).unwrap();
        }
        pack.finish(&mut packed);
        let (_, from_plain) = read(&plain[..]).unwrap();
        prop_assert_eq!(&from_plain.events, &events);
        let (_, from_packed) = read(&packed[..]).unwrap();
        prop_assert_eq!(&from_packed.events, &events);
        prop_assert_eq!(from_packed.export(true), packed.clone());
        let mut found = Vec::new();
        for line in String::from_utf8(packed).unwrap().lines() {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            let data = &line["data"];
            let strings = data["texts"].as_array().or(data["args"].as_array());
            found.extend(strings.map(Vec::len));
        }
        prop_assert_eq!(found, runs(&chunks, &events));
    }
}
