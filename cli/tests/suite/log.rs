//! `log`: exact lines on samples, filters, order, all sessions, damage.

use crate::support::{Place, log};

const SAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../samples/edge/");

/// A store with some samples.
pub(crate) fn samples(names: &[&str]) -> Place {
    let place = Place::new();
    for name in names {
        place.ever(&["import", "-q", &format!("{SAMPLES}{name}")]).exits(0);
    }
    place
}

/// The columns of tab-separated lines that are asked for.
fn columns(text: &str, wanted: &[usize]) -> Vec<String> {
    let pick = |l: &str| {
        let cells: Vec<_> = l.split('\t').collect();
        wanted.iter().map(|i| cells[*i]).collect::<Vec<_>>().join(" ")
    };
    text.lines().map(pick).collect()
}

fn seqs(place: &Place, args: &[&str]) -> Vec<String> {
    let args = [&["log"], args].concat();
    columns(&place.ever(&args).exits(0).text(), &[2])
}

#[test]
fn lines_of_a_session_exactly() {
    let place = samples(&["10-packed-few.jsonl", "14-replace-of-replace.jsonl"]);
    let want = "\
2026-09-21T14:13:20.007Z\tedge-packed-few\t0\tturn/start\tturn 1
2026-09-21T14:13:20.014Z\tedge-packed-few\t1\tstep/start\tturn 1 step 1
2026-09-21T14:13:20.020Z\tedge-packed-few\t2..6\tassistant/chunk\talone [reasoning] twomembers [tool-call run] {}
2026-09-21T14:13:20.047Z\tedge-packed-few\t7\tstep/end\tturn 1 step 1
2026-09-21T14:13:20.054Z\tedge-packed-few\t8\tturn/end\tturn 1 completed
";
    assert_eq!(place.ever(&["log", "edge-packed-few"]).exits(0).text(), want);
    let mut lines: Vec<&str> = want.lines().collect();
    lines.reverse();
    let back = place.ever(&["log", "edge-packed-few", "-r"]).exits(0).text();
    assert_eq!(back.lines().collect::<Vec<_>>(), lines, "a run is joined in its own order");
    let mut command = place.command(&["-s", "store", "log", "edge-packed-few", "-o", "table"]);
    let output = command.env("COLUMNS", "70").output().unwrap();
    let want = "\
2026-09-21 14:13:20  0        turn/start            turn 1
2026-09-21 14:13:20  1        step/start            turn 1 step 1
2026-09-21 14:13:20  2..6     assistant/chunk x5    alone [reasoning] t\u{2026}
2026-09-21 14:13:20  7        step/end              turn 1 step 1
2026-09-21 14:13:20  8        turn/end              turn 1 completed
";
    assert_eq!(String::from_utf8(output.stdout).unwrap(), want);
}

#[test]
fn machines_get_every_event() {
    let place = samples(&["10-packed-few.jsonl", "14-replace-of-replace.jsonl"]);
    let lines = place.ever(&["log", "edge-packed-few", "-o", "jsonl"]).exits(0).jsonl();
    assert_eq!(lines.len(), 9);
    let six = serde_json::json!({"v": 1, "session": "edge-packed-few", "seq": 2,
        "time": "2026-09-21T14:13:20.020Z", "type": "assistant/chunk",
        "data": {"turn": 1, "step": 1, "chunk": {"type": "text-delta", "index": 0, "text": "alone"}}});
    for (key, value) in six.as_object().unwrap() {
        assert_eq!(&lines[2][key], value, "{key}");
    }
    let array = place.ever(&["log", "edge-replace-of-replace", "-o", "json"]).exits(0).json();
    let array = array.as_array().unwrap();
    assert_eq!(array.len(), 14);
    assert_eq!(array[1]["surfaceOp"], "append");
    assert_eq!(array[7]["surfaceOp"], serde_json::json!({"op": "replace", "start": 2, "end": 4}));
    assert_eq!(array[7]["sourceEventSeqs"], serde_json::json!([2, 3, 4]));
    let none = place.ever(&["log", "edge-packed-few", "-t", "none", "-o", "json"]).exits(0).json();
    assert_eq!(none, serde_json::json!([]));
}

#[test]
fn filters() {
    let place = samples(&["10-packed-few.jsonl", "14-replace-of-replace.jsonl"]);
    let few = "edge-packed-few";
    let replaced = "edge-replace-of-replace";
    assert_eq!(seqs(&place, &[few, "-t", "turn/*"]), ["0", "8"]);
    assert_eq!(seqs(&place, &[few, "-t", "turn/*", "-t", "*/end"]), ["0", "7", "8"]);
    assert_eq!(seqs(&place, &[few, "-t", "turn/*", "-r"]), ["8", "0"]);
    assert_eq!(seqs(&place, &[few, "-g", "twomem"]), ["2..6"], "over the seam of two chunks");
    assert_eq!(seqs(&place, &[few, "-g", "two.*run"]), ["2..6"]);
    assert_eq!(seqs(&place, &[replaced, "-g", "\"m1[13]\""]), ["11", "13"], "in the JSON");
    let both = ["--since", "2026-09-21T14:13:20.014Z", "--until", "2026-09-21T14:13:20.021Z"];
    assert_eq!(seqs(&place, &[&[replaced], &both[..]].concat()), ["1", "2"]);
    assert_eq!(seqs(&place, &[replaced, "--surface", "current"]), ["13"]);
    let shadowed = ["1", "2", "3", "4", "5", "7", "8", "9", "11"];
    assert_eq!(seqs(&place, &[replaced, "--surface", "shadowed"]), shadowed);
    assert_eq!(seqs(&place, &[replaced, "--surface", "log-only"]), ["0", "6", "10", "12"]);
    assert_eq!(seqs(&place, &["edge-replace-of-replace@4..6"]), ["4", "5", "6"]);
    assert_eq!(seqs(&place, &["--id", few, "-n", "1"]), ["8"]);
    let found = place.ever(&["log", few, "-g", "twomem", "-o", "jsonl"]).exits(0).jsonl();
    assert_eq!(found.len(), 5, "a run that holds the pattern comes whole");
    let nothing = place.ever(&["log", few, "-g", "nowhere"]).exits(4);
    assert_eq!((nothing.text(), nothing.err.lines().count()), (String::new(), 1));
    let error = place.ever(&["log", "-g", "nowhere", "-o", "jsonl"]).exits(4).error();
    assert_eq!(error["kind"], "nothing-found");
    place.ever(&["log", few, "-g", "("]).exits(2);
    place.ever(&["log", few, "-g", "(a{9999}){9999}"]).exits(2);
    place.ever(&["log", few, "--since", "soon"]).exits(2);
    place.ever(&["log", "nothing-here"]).exits(1);
}

#[test]
fn the_newest_lines() {
    let place = samples(&["10-packed-few.jsonl"]);
    let few = "edge-packed-few";
    assert_eq!(seqs(&place, &[few, "-n", "3"]), ["2..6", "7", "8"], "a run counts once");
    assert_eq!(seqs(&place, &[few, "-n", "3", "-r"]), ["8", "7", "2..6"]);
    assert_eq!(seqs(&place, &[few, "-n", "99"]).len(), 5);
    assert_eq!(seqs(&place, &[few, "-n", "0"]).len(), 0);
    assert_eq!(seqs(&place, &[few, "-n", "1", "-t", "step/*"]), ["7"]);
    let machine = place.ever(&["log", few, "-n", "3", "-o", "jsonl"]).exits(0).jsonl();
    let got: Vec<_> = machine.iter().map(|e| e["seq"].as_u64().unwrap()).collect();
    assert_eq!(got, [6, 7, 8], "for machines a line is an event");
}

/// Three sessions whose times interleave: the event n of session k is at 10 n + k milliseconds.
fn interleaved(events: usize) -> Place {
    let place = Place::new();
    for k in 0..3 {
        let id = format!("session-{k}");
        let mut text = log(&id, 0);
        for n in 0..events {
            let time = 1_700_000_000_000 + 10 * n + k;
            text += &format!(
                "{{\"type\":\"todo/write\",\"seq\":{n},\"time\":{time},\"data\":{{\"n\":{n}}}}}\n"
            );
        }
        place.write("in.jsonl", text);
        place.ever(&["import", "-q", "in.jsonl"]).exits(0);
    }
    place
}

#[test]
fn all_sessions_are_merged_by_time() {
    let place = interleaved(50);
    let text = place.ever(&["log", "-n", "4"]).exits(0).text();
    let want = ["session-2 48", "session-0 49", "session-1 49", "session-2 49"];
    assert_eq!(columns(&text, &[1, 2]), want);
    let mut back = want;
    back.reverse();
    let text = place.ever(&["log", "-n", "4", "-r"]).exits(0).text();
    assert_eq!(columns(&text, &[1, 2]), back);
    let text = place.ever(&["log"]).exits(0).text();
    assert_eq!(text.lines().count(), 100, "people get the newest hundred");
    assert_eq!(columns(&text, &[1, 2])[96..], want);
    let all = place.ever(&["log", "-o", "jsonl"]).exits(0).jsonl();
    assert_eq!(all.len(), 150, "machines get all");
    let newest = place.ever(&["log", "-n", "120", "-o", "jsonl"]).exits(0).jsonl();
    let times: Vec<_> = newest.iter().map(|e| e["time"].as_str().unwrap().to_owned()).collect();
    assert!(times.is_sorted() && times.len() == 120);
    let until = place.ever(&["log", "--until", "2023-11-14T22:13:20.011Z"]).exits(0).text();
    assert_eq!(columns(&until, &[1, 2])[3..], ["session-0 1", "session-1 1"]);
    let found = place.ever(&["log", "-g", "\"n\":7}"]).exits(0).text();
    assert_eq!(columns(&found, &[1, 2]), ["session-0 7", "session-1 7", "session-2 7"]);
}

#[test]
fn a_clock_that_went_back_changes_no_order_inside_a_session() {
    let place = Place::new();
    let mut text = log("back-1", 0);
    for (seq, ms) in [(0, 50), (1, 90), (2, 10), (3, 60)] {
        text += &format!(
            "{{\"type\":\"todo/write\",\"seq\":{seq},\"time\":{ms},\"data\":{{\"todos\":[]}}}}\n"
        );
    }
    place.write("in.jsonl", text);
    place.ever(&["import", "-q", "in.jsonl"]).exits(0);
    for args in [&["log", "back-1"][..], &["log"], &["log", "-n", "4"]] {
        let shown = place.ever(args).exits(0).text();
        assert_eq!(columns(&shown, &[2]), ["0", "1", "2", "3"], "{args:?}");
    }
}

#[test]
fn damage_is_stepped_over_and_named() {
    let place = Place::new();
    for n in 0..3 {
        let line = format!("{{\"type\":\"x\",\"data\":\"marker-{n}\"}}\n");
        place.feed(&["append", "s-777", "--create", "-q"], line).exits(0);
    }
    for path in place.store_files() {
        let mut bytes = std::fs::read(&path).unwrap();
        if let Some(at) = bytes.windows(8).position(|w| w == b"marker-1") {
            bytes[at] ^= 1;
            let _ignored = std::fs::remove_file(&path);
            std::fs::write(&path, bytes).unwrap();
        }
    }
    for (args, want) in [
        (&["log", "s-777"][..], vec!["0", "2"]),
        (&["log", "s-777", "-r"], vec!["2", "0"]),
        (&["log"], vec!["0", "2"]),
        (&["log", "s-777", "-n", "2"], vec!["0", "2"]),
    ] {
        let done = place.ever(args).exits(12);
        assert_eq!(columns(&done.text(), &[2]), want, "{args:?}");
        assert!(done.err.contains("seqs 1,"), "{args:?}: {}", done.err);
    }
    // One line that is whole is all that was asked for.
    assert_eq!(columns(&place.ever(&["log", "s-777", "-n", "1"]).exits(0).text(), &[2]), ["2"]);
}

#[test]
fn a_session_of_any_length_takes_little_memory() {
    let place = Place::new();
    let chunk = |text: &str| {
        format!(
            "{{\"type\":\"assistant/chunk\",\"data\":{{\"turn\":1,\"step\":1,\"chunk\":{{\"type\":\"text-delta\",\"index\":0,\"text\":\"{text}\"}}}}}}\n"
        )
    };
    let big = chunk(&"z".repeat(1 << 20));
    place.feed(&["append", "s-777", "--create", "-q", "--level", "os"], big.repeat(40)).exits(0);
    // 40 MiB of one run: it is cut at 16 MiB, which is said in the docs.
    let lines = place.ever(&["log", "s-777"]).exits(0).text();
    assert_eq!(columns(&lines, &[2]), ["0..15", "16..31", "32..39"]);
    assert!(lines.lines().all(|l| l.len() < 1_000));
}
