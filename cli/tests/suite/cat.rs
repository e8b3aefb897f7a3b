//! `cat`: exact lines, names of sessions, ranges, closed pipes.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::support::{Place, log, os};

fn seqs(text: &str) -> Vec<u64> {
    let seq =
        |l: &str| serde_json::from_str::<serde_json::Value>(l).unwrap()["seq"].as_u64().unwrap();
    text.lines().map(seq).collect()
}

#[test]
fn ranges_are_inclusive() {
    let place = Place::new();
    place.write("in.jsonl", log("s-777", 12));
    place.ever(&["import", "in.jsonl"]).exits(0);
    let events: String = log("s-777", 12).split_inclusive('\n').skip(1).collect();
    assert_eq!(place.ever(&["cat", "s-777"]).exits(0).text(), events);
    let cases: [(&str, Vec<u64>); 7] = [
        ("s-777@7", vec![7]),
        ("s-777@3..5", vec![3, 4, 5]),
        ("s-777@10..", vec![10, 11]),
        ("s-777@..1", vec![0, 1]),
        ("s-777@-2..", vec![10, 11]),
        ("s-777@11..99", vec![11]),
        ("s-777@12..", vec![]),
    ];
    for (target, want) in cases {
        assert_eq!(seqs(&place.ever(&["cat", target]).exits(0).text()), want, "{target}");
    }
    assert_eq!(seqs(&place.ever(&["cat", "--id", "s-777", "--seq", "4"]).exits(0).text()), [4]);
    let past = place.ever(&["cat", "s-777@12", "-o", "json"]).exits(1).error();
    assert_eq!((past["kind"].as_str(), past["seq"].as_u64()), (Some("not-found"), Some(12)));
    place.ever(&["cat", "s-777@5..3"]).exits(2);
    place.ever(&["cat"]).exits(2);
    place.ever(&["cat", "s-777", "--seq", "1"]).exits(2);
}

#[test]
fn sessions_are_named_by_id_or_unique_prefix() {
    let place = Place::new();
    for id in ["abcd-1", "abcd-2", "abcd", "wxyz-1", "odd@7", "ab"] {
        place.grow(id, id.len());
    }
    let count = |name: &str| seqs(&place.ever(&["cat", name]).exits(0).text()).len();
    assert_eq!(count("abcd"), 4, "an exact id wins over the prefix");
    assert_eq!(count("abcd-2"), 6);
    assert_eq!(count("wxyz"), 6);
    assert_eq!(count("wxyz@0..1"), 2);
    assert_eq!(count("odd@7"), 5, "an exact id wins over a position");
    assert_eq!(count("odd@7@1"), 1);
    assert_eq!(count("ab"), 2);
    let many = place.ever(&["cat", "abcd-", "-o", "json"]).exits(2).error();
    assert_eq!(many["kind"], "ambiguous");
    assert_eq!(many["candidates"], serde_json::json!(["abcd-1", "abcd-2"]));
    let told = place.ever(&["cat", "abcd-"]).exits(2);
    assert!(told.err.contains("abcd-1") && told.err.contains("abcd-2"));
    for unknown in ["wxy", "zzzz", "--id=wxyz"] {
        place.ever(&["cat", unknown]).exits(1);
    }
}

#[test]
fn ids_are_bytes_and_never_reach_the_terminal_raw() {
    let place = Place::new();
    let hostile: [&[u8]; 5] = [
        b"\x1b]0;owned\x07",
        b"\xed\xa0\x80lone",
        "x\u{202e}y\u{e0041}".as_bytes(),
        b"../../etc/passwd",
        b"-rf\nx",
    ];
    for id in hostile {
        place.grow(os(id), 1);
        let read = place.ever(&[os(b"cat"), os(b"--id"), os(id)]).exits(0);
        assert_eq!(read.text().lines().count(), 1);
    }
    let listed = place.ever(&["ls", "-o", "jsonl"]).exits(0).text();
    assert!(listed.contains("\"session\":\"\\ud800lone\""), "{listed}");
    assert!(listed.contains("\\u001b]0;owned\\u0007"), "{listed}");
    for args in [vec!["ls"], vec!["ls", "-q"], vec!["ls", "-o", "table"], vec!["cat", "\x1b[2Jno"]]
    {
        let done = place.ever(&args);
        for shown in [done.text(), done.err] {
            let raw = |c: char| {
                c != '\n' && c != '\t' && (c.is_control() || matches!(c, '\u{202e}' | '\u{e0041}'))
            };
            assert!(!shown.contains(raw), "{args:?}: {shown:?}");
        }
    }
    let nonsense = place.ever(&[
        os(b"append"),
        os(b"\xff\xfe"),
        os(b"--create"),
        os(b"-t"),
        os(b"x"),
        os(b"-d"),
        os(b"1"),
    ]);
    assert!(nonsense.exits(2).err.contains("WTF-8"));
}

#[test]
fn a_closed_pipe_ends_quietly() {
    let place = Place::new();
    let lines = format!("{{\"type\":\"x\",\"data\":\"{}\"}}\n", "y".repeat(1_000)).repeat(2_000);
    place.feed(&["append", "s-777", "--create", "-q"], lines).exits(0);
    for args in [["cat", "s-777"], ["export", "s-777"]] {
        let mut command = place.command(&Place::with_store(&args));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(141), "{args:?}");
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_full_disk_is_said() {
    let place = Place::new();
    place.grow("s-777", 1);
    for args in [["cat", "s-777"], ["export", "s-777"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output = place.command(&Place::with_store(&args)).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&output.stderr).contains("write to standard output"));
    }
}

/// A `cat -f` that runs, its lines, and its end.
struct Following {
    child: std::process::Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Following {
    fn start(place: &Place, args: &[&str]) -> Self {
        let mut command = place.command(&Place::with_store(args));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    fn seq(&mut self) -> u64 {
        seqs(&self.lines.next().unwrap().unwrap())[0]
    }

    fn interrupt(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    }

    fn code(mut self) -> Option<i32> {
        drop(self.lines);
        self.child.wait().unwrap().code()
    }
}

#[test]
fn a_session_is_followed_across_processes() {
    let place = Place::new();
    place.grow("s-777", 3);
    let mut all = Following::start(&place, &["cat", "-f", "s-777"]);
    let mut last = Following::start(&place, &["cat", "--follow", "--durable", "s-777@-1.."]);
    let mut until = Following::start(&place, &["cat", "-f", "s-777@1..6"]);
    assert_eq!([all.seq(), all.seq(), all.seq(), last.seq()], [0, 1, 2, 2]);
    for more in [1, 3] {
        // A process of its own each time, in the lane that the one before left.
        place.grow("s-777", more);
    }
    assert_eq!([all.seq(), all.seq(), all.seq(), all.seq()], [3, 4, 5, 6]);
    assert_eq!([last.seq(), last.seq(), last.seq(), last.seq()], [3, 4, 5, 6]);
    assert_eq!((1..=6).map(|_| until.seq()).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
    // The range is at its end.
    assert_eq!(until.child.wait().unwrap().code(), Some(0));
    all.interrupt();
    assert_eq!(all.child.wait().unwrap().code(), Some(130));
    assert_eq!(last.code(), Some(141), "the reader of a quiet follower went away");
    let safe = place.ever(&["cat", "--durable", "s-777@4.."]).exits(0).text();
    assert_eq!(seqs(&safe), [4, 5, 6]);
    place.ever(&["cat", "--durable", "s-777@7"]).exits(1);
    place.ever(&["cat", "-f", "s-777@5..3"]).exits(2);
}
