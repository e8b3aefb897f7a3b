//! Tests of the fleet: the same bytes again, whole JSON, dense seqs, and the rules of the surface.

use super::*;
use serde_json::Value;

const FLEET: Fleet = Fleet { seed: 42, sessions: 36, events_per_session: 60 };

fn rows(log: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(log).expect("a log is UTF-8");
    assert!(text.ends_with('\n'));
    // serde_json refuses lone surrogates, so they are replaced here; escapes() looks at them.
    let text = text.replace("\\ud83d", "?").replace("\\ude80", "?");
    text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
}

fn u(value: &Value) -> u64 {
    value.as_u64().expect("a whole number")
}

#[test]
fn g1_same_seed_same_bytes() {
    assert_eq!(FLEET.session(3), FLEET.session(3));
    assert_eq!(FLEET.logs().count(), 36);
    let other = Fleet { seed: 43, ..FLEET };
    assert_ne!(FLEET.session(3), other.session(3));
    assert_ne!(FLEET.session_id(3), FLEET.session_id(4));
}

#[test]
fn g2_lines_parse_and_seqs_are_dense_and_counted() {
    for events in [0, 24, 25, 47, 80, 300, 1_000] {
        let fleet = Fleet { events_per_session: events, ..FLEET };
        for k in 0..14 {
            let rows = rows(&fleet.session(k));
            assert_eq!(rows.len(), 1 + events.max(EVENTS_MIN), "k={k} events={events}");
            assert_eq!(rows[0]["id"], fleet.session_id(k));
            for (seq, row) in rows[1..].iter().enumerate() {
                assert_eq!(u(&row["seq"]), seq as u64);
                assert!(row["time"].is_i64() && row["data"].is_object());
            }
        }
    }
}

/// Folds the surface by the rules of dsh and checks every citation.
fn fold(rows: &[Value]) -> (Vec<u64>, usize) {
    let (mut surface, mut replaced): (Vec<u64>, usize) = (Vec::new(), 0);
    for row in rows {
        let seq = u(&row["seq"]);
        let sources: Vec<u64> =
            row["sourceEventSeqs"].as_array().into_iter().flatten().map(u).collect();
        assert!(sources.iter().all(|cited| *cited < seq));
        let mut unique = sources.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), sources.len());
        let op = &row["surfaceOp"];
        if op == "append" {
            surface.push(seq);
        } else if op.is_object() {
            let place = |seq| surface.iter().position(|node| *node == seq).expect("on the surface");
            let (start, end) = (place(u(&op["start"])), place(u(&op["end"])));
            for node in surface.splice(start..=end, [seq]) {
                assert!(sources.contains(&node));
            }
            replaced += 1;
        }
    }
    (surface, replaced)
}

#[test]
fn g2_surfaces_fold_and_every_fifth_session_is_compacted() {
    let fleet = Fleet { events_per_session: 900, ..FLEET };
    for k in 0..11 {
        let (surface, replaced) = fold(&rows(&fleet.session(k))[1..]);
        assert!(surface.len() >= 2);
        assert_eq!(replaced > 0, k % 5 == 0, "k={k}");
    }
}

#[test]
fn g2_turns_and_steps_are_nested_and_killed_sessions_stay_open() {
    let fleet = Fleet { events_per_session: 500, ..FLEET };
    for k in 0..14 {
        let (mut turns, mut steps) = (0_i32, 0_i32);
        for row in &rows(&fleet.session(k))[1..] {
            match row["type"].as_str() {
                Some("turn/start") => turns += 1,
                Some("turn/end") => turns -= 1,
                Some("step/start") => steps += 1,
                Some("step/end") => steps -= 1,
                Some("assistant/message" | "assistant/chunk" | "tool/result") => {
                    assert_eq!((turns, steps), (1, 1));
                }
                _ => {}
            }
            assert!((0..=1).contains(&turns) && (0..=turns).contains(&steps));
        }
        assert_eq!(turns == 1, k % 7 == 6, "k={k}");
    }
}

#[test]
fn g2_a_message_repeats_and_cites_its_stream() {
    let rows = rows(&Fleet { events_per_session: 400, ..FLEET }.session(1));
    let mut messages = 0;
    for row in rows.iter().filter(|row| row["type"] == "assistant/message") {
        let cited: Vec<&Value> = row["sourceEventSeqs"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|seq| &rows[1 + u(seq) as usize]["data"]["chunk"])
            .collect();
        let blocks: Vec<&Value> =
            cited.iter().filter(|c| c["type"] == "block-end").map(|c| &c["block"]).collect();
        let content = row["data"]["message"]["content"].as_array().expect("content");
        assert_eq!(blocks, content.iter().collect::<Vec<_>>());
        messages += 1;
    }
    assert!(messages > 3);
}

/// Expands packed rows, knowing nothing of how they were made.
fn unpack(rows: Vec<Value>) -> Vec<(u64, i64, Value)> {
    let mut events = Vec::new();
    for row in rows {
        let Some(seq0) = row["seq0"].as_u64() else {
            let time = row["time"].as_i64().expect("a time");
            events.push((u(&row["seq"]), time, row["data"].clone()));
            continue;
        };
        let data = &row["data"];
        let tag = row["type"].as_str().expect("a type").trim_end_matches("-chunks");
        let list = if tag == "tool-call" { "args" } else { "texts" };
        let mut time = row["time0"].as_i64().expect("a time");
        for (n, text) in data[list].as_array().expect("a list").iter().enumerate() {
            if n > 0 {
                time += data["dt"][n - 1].as_i64().expect("a gap");
            }
            let mut chunk =
                serde_json::json!({"type": format!("{tag}-delta"), "index": data["index"]});
            if tag == "tool-call" {
                chunk["id"] = data["id"].clone();
                if !data["name"].is_null() {
                    chunk["name"] = data["name"].clone();
                }
                chunk["argumentsDelta"] = text.clone();
            } else {
                chunk["text"] = text.clone();
            }
            let whole =
                serde_json::json!({"turn": data["turn"], "step": data["step"], "chunk": chunk});
            events.push((seq0 + n as u64, time, whole));
        }
    }
    events
}

#[test]
fn packed_rows_hold_the_same_events_in_fewer_lines() {
    let fleet = Fleet { events_per_session: 700, ..FLEET };
    for k in [0, 6, 8] {
        let (plain, packed) = (fleet.session(k), fleet.packed_session(k));
        assert!(packed.len() < plain.len());
        assert!(rows(&packed).len() < rows(&plain).len() * 2 / 3);
        assert_eq!(unpack(rows(&plain)[1..].to_vec()), unpack(rows(&packed)[1..].to_vec()));
    }
}

#[test]
fn g3_escapes_surrogates_and_steps_back_occur() {
    let log = Fleet { events_per_session: 3_000, ..FLEET }.session(0);
    let text = String::from_utf8(log.clone()).expect("a log is UTF-8");
    for wanted in
        ["\\ud83d\"", "\"\\ude80", "\\u001b", "\\\\", "\u{1f680}", "\u{2028}", "\"text\":\"\""]
    {
        assert!(text.contains(wanted), "{wanted:?}");
    }
    let times: Vec<i64> = rows(&log)[1..].iter().filter_map(|row| row["time"].as_i64()).collect();
    assert!(times.windows(2).any(|pair| pair[1] < pair[0]));
}
