//! `append`: receipts, refusals, locks, signals.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{Place, event};

#[test]
fn every_event_has_a_receipt() {
    let place = Place::new();
    let one = place
        .ever(&["append", "s-77", "--create", "-t", "todo/write", "-d", "{\"todos\": [1]}"])
        .exits(0);
    assert_eq!(one.text(), "{\"v\":1,\"session\":\"s-77\",\"seq\":0,\"level\":\"sync\"}\n");
    let lines = format!("{}\n  \n{}", event("{\"todos\":[]}"), event("null").trim_end());
    let two = place.feed(&["append", "s-77", "--level", "os"], lines).exits(0).jsonl();
    assert_eq!(two.iter().map(|r| r["seq"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2]);
    assert!(two.iter().all(|r| r["level"] == "os" && r["v"] == 1 && r["session"] == "s-77"));
    let quiet = place.feed(&["append", "s-77", "-q"], event("1").repeat(3)).exits(0).jsonl();
    assert_eq!(quiet.len(), 1);
    assert_eq!(quiet[0]["seq"], 5);
    assert_eq!(
        place
            .ever(&["append", "s-77", "--level", "buffered", "-t", "x", "-d", "1"])
            .exits(0)
            .jsonl()[0]["seq"],
        6
    );
    place.ever(&["append", "nobody", "-t", "x", "-d", "1"]).exits(1);
    place.ever(&["append", "s-77", "-t", "x"]).exits(2);
    place.ever(&["append"]).exits(2);
}

#[test]
fn data_is_kept_byte_for_byte() {
    let place = Place::new();
    let data = r#"{ "a" : 1.0e+2, "b":"\ud800\u0041\/", "a": [ ] }"#;
    let line = format!("{{\"type\":\"x/y\",\"time\":5,\"ignorable\":true,\"data\":{data}}}\n");
    place.feed(&["append", "s-77", "--create"], line).exits(0);
    let stored = place.ever(&["cat", "s-77"]).exits(0).text();
    assert!(stored.contains(&format!("\"data\":{data}")), "{stored}");
    assert!(stored.contains("\"seq\":0,\"time\":5"), "{stored}");
    assert!(stored.contains("\"ignorable\":true"), "{stored}");
}

#[test]
fn a_refused_line_stops_but_those_before_it_stay() {
    let place = Place::new();
    let surface = "{\"type\":\"user/message\",\"data\":{}}\n"; // needs a surfaceOp
    for (bad, seqs) in [("{not json\n", [0, 1]), (surface, [2, 3]), ("{\"data\":1}\n", [4, 5])] {
        let input = format!("{0}{0}{bad}{0}", event("1"));
        let done = place.feed(&["append", "s-77", "--create"], input).exits(1);
        let lines = done.jsonl();
        assert_eq!(lines.len(), 3, "{bad}");
        assert_eq!([lines[0]["seq"].as_u64(), lines[1]["seq"].as_u64()], seqs.map(Some));
        assert_eq!(
            (lines[2]["ok"].clone(), lines[2]["line"].clone()),
            (Value::Bool(false), 3.into())
        );
        assert!(!lines[2]["error"]["message"].as_str().unwrap().is_empty());
        assert_eq!(lines[2]["error"]["kind"], "invalid", "{bad}");
    }
    assert_eq!(place.ever(&["cat", "s-77"]).exits(0).text().lines().count(), 6);
}

#[test]
fn atomic_is_all_or_none() {
    let place = Place::new();
    let all = place
        .feed(&["append", "s-77", "--create", "--atomic"], event("1").repeat(4))
        .exits(0)
        .jsonl();
    assert_eq!(all.len(), 1);
    assert_eq!((all[0]["first"].as_u64(), all[0]["last"].as_u64()), (Some(0), Some(3)));
    let surface = "{\"type\":\"user/message\",\"data\":{}}\n";
    for bad in ["nonsense\n", surface] {
        let input = format!("{}{bad}", event("2"));
        let none = place.feed(&["append", "s-77", "--atomic"], input).exits(1).jsonl();
        assert_eq!(none.len(), 1);
        assert_eq!(
            (none[0]["ok"].as_bool(), none[0]["line"].as_u64()),
            (Some(false), Some(2)),
            "{bad}"
        );
    }
    assert_eq!(place.ever(&["cat", "s-77"]).exits(0).text().lines().count(), 4);
}

#[test]
fn many_lines_at_once() {
    let place = Place::new();
    let surface = "{\"type\":\"user/message\",\"data\":{}}\n";
    let input = format!("{}{surface}{}", event("1").repeat(3_000), event("2").repeat(3_000));
    let done = place.feed(&["append", "s-77", "--create"], input).exits(1).jsonl();
    assert_eq!(done.len(), 3_001);
    assert!(done.iter().take(3_000).enumerate().all(|(i, r)| r["seq"] == i));
    assert_eq!(
        (done[3_000]["ok"].as_bool(), done[3_000]["line"].as_u64()),
        (Some(false), Some(3_001))
    );
    assert_eq!(place.ever(&["cat", "s-77"]).exits(0).text().lines().count(), 3_000);
    let long = format!("{{\"type\":\"x\",\"data\":\"{}\"}}\n", "y".repeat(65 << 20));
    let refused =
        place.feed(&["append", "s-77", "--level", "os"], event("3") + &long).exits(1).jsonl();
    assert_eq!((refused[0]["seq"].as_u64(), refused[1]["line"].as_u64()), (Some(3_000), Some(2)));
    assert_eq!(refused[1]["error"]["kind"], "limit");
}

#[test]
fn an_expected_seq_guards_against_others() {
    let place = Place::new();
    place.grow("s-77", 3);
    place.ever(&["append", "s-77", "--expect-seq", "3", "-t", "x", "-d", "1"]).exits(0);
    let late = place
        .ever(&["append", "s-77", "--expect-seq", "3", "-t", "x", "-d", "1", "-o", "json"])
        .exits(14);
    assert_eq!(
        (late.error()["kind"].as_str(), late.error()["expected"].as_u64()),
        (Some("conflict"), Some(4))
    );
    assert_eq!(place.ever(&["cat", "s-77"]).exits(0).text().lines().count(), 4);
}

/// An `append` whose standard input stays open, after its first receipt.
fn holder(place: &Place, id: &str) -> Child {
    let args = Place::with_store(&["append", id, "--create"]);
    let mut child =
        place.command(&args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.as_mut().unwrap().write_all(event("1").as_bytes()).unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("\"seq\":0"), "{line}");
    child
}

#[test]
fn a_held_session_names_its_holder() {
    let place = Place::new();
    let mut child = holder(&place, "s-77");
    let refused = place.ever(&["append", "s-77", "-t", "x", "-d", "1", "-o", "json"]).exits(11);
    let error = refused.error();
    assert_eq!(error["kind"], "locked");
    assert_eq!(error["holder"]["pid"].as_u64(), Some(u64::from(child.id())));
    assert_eq!(error["holder"]["label"], "everlog append");
    assert!(!error["holder"]["host"].as_str().unwrap().is_empty());
    assert!(error["holder"]["since"].as_str().unwrap().ends_with('Z'));
    let told = place.ever(&["append", "s-77", "-t", "x", "-d", "1"]).exits(11);
    assert!(told.err.contains(&format!("pid {}", child.id())), "{}", told.err);
    // Reading and other sessions go on.
    assert_eq!(place.ever(&["cat", "s-77"]).exits(0).text().lines().count(), 1);
    place.ever(&["append", "other", "--create", "-t", "x", "-d", "1"]).exits(0);
    drop(child.stdin.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    place.ever(&["append", "s-77", "-t", "x", "-d", "1"]).exits(0);
}

#[test]
fn ctrl_c_leaves_a_valid_store() {
    let place = Place::new();
    let mut child = holder(&place, "s-77");
    // Waiting would close it, and the end of the input would race with the signal.
    let stdin = child.stdin.take();
    let begun = Instant::now();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(begun.elapsed() < Duration::from_secs(5));
    drop(stdin);
    place.ever(&["check"]).exits(0);
    assert_eq!(place.ever(&["append", "s-77", "-t", "x", "-d", "1"]).exits(0).jsonl()[0]["seq"], 1);
}
