//! `log` with cursors and as events come: nothing twice, nothing lost, whatever ends the reader.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::ps::Writer;
use crate::support::{Place, log, mode};

const NOTE: &str = r#"{"type":"note","data":1}"#;

fn names(rows: &[Value]) -> Vec<(String, u64)> {
    let name = |r: &Value| (r["session"].as_str().unwrap().to_owned(), r["seq"].as_u64().unwrap());
    rows.iter().map(name).collect()
}

fn jsonl(place: &Place, args: &[&str]) -> Vec<Value> {
    place.ever(&[&["log", "-o", "jsonl"], args].concat()).exits(0).jsonl()
}

/// A store whose session `moved-1` was imported, and then written in two lanes by turns.
fn moved() -> Place {
    let place = Place::new();
    place.write("in.jsonl", log("moved-1", 3));
    place.ever(&["import", "-q", "in.jsonl"]).exits(0);
    for turn in 0..4 {
        // Who holds the lane of the last turn sends the session into another one.
        let holder = Writer::start(&place, &format!("other-{turn}"), &[NOTE, NOTE]);
        place.grow("moved-1", 2);
        let second = Writer::start(&place, &format!("more-{turn}"), &[NOTE]);
        holder.end();
        place.grow("moved-1", 1);
        second.end();
    }
    place
}

#[test]
fn every_line_has_a_cursor_to_go_on_from() {
    let place = moved();
    let info = place.ever(&["info", "-o", "json"]).exits(0).json();
    assert!(info["lanes"].as_u64().unwrap() >= 2, "{info}");
    for (args, events) in [(&["moved-1"][..], 15), (&[][..], 27)] {
        let all = jsonl(&place, args);
        assert_eq!(all.len(), events);
        for (i, row) in all.iter().enumerate() {
            let from = [args, &["--cursor", row["cursor"].as_str().unwrap()]].concat();
            let got: BTreeSet<_> = names(&jsonl(&place, &from)).into_iter().collect();
            let want: BTreeSet<_> = names(&all[i + 1..]).into_iter().collect();
            assert_eq!(got, want, "{args:?} behind line {i}");
        }
    }
    // Behind the newest lines there is nothing, whatever the order they are shown in.
    for args in [&["-n", "3"][..], &["-r", "-n", "3"]] {
        let rows = jsonl(&place, args);
        let cursor = rows[2]["cursor"].as_str().unwrap();
        assert_eq!(jsonl(&place, &["--cursor", cursor]), Vec::<Value>::new(), "{args:?}");
        place.grow("fresh-1", 1);
        assert_eq!(jsonl(&place, &["--cursor", cursor]).len(), 1);
    }
}

#[test]
fn a_cursor_of_elsewhere_is_refused() {
    let (place, other) = (moved(), moved());
    let row = jsonl(&other, &["-n", "1"]).remove(0);
    let args = ["log", "--cursor", row["cursor"].as_str().unwrap(), "-o", "jsonl"];
    assert_eq!(place.ever(&args).exits(1).error()["kind"], "void");
    let bad = place.ever(&["log", "--cursor", "\u{1b}[31m1.2.3", "-o", "jsonl"]).exits(1).error();
    assert_eq!(bad["kind"], "invalid");
    place.ever(&["log", "--cursor", "x", "-r"]).exits(2);
    place.ever(&["log", "-f", "-o", "json"]).exits(2);
}

#[test]
fn a_cursor_file_gives_every_event_once() {
    let place = moved();
    let read = || jsonl(&place, &["--cursor-file", "at"]);
    assert_eq!(read().len(), 27);
    assert_eq!(mode(&place.path("at")), 0o600);
    assert_eq!(read().len(), 0);
    place.grow("moved-1", 2);
    place.write("in.jsonl", log("late-1", 3));
    place.ever(&["import", "-q", "in.jsonl"]).exits(0);
    assert_eq!(read().len(), 5);
    // A filter does not keep the cursor back, and people's lines move it too.
    place.grow("moved-1", 2);
    assert_eq!(jsonl(&place, &["--cursor-file", "at", "-t", "none"]).len(), 0);
    place.grow("moved-1", 1);
    let text = place.ever(&["log", "--cursor-file", "at", "--durable"]).exits(0).text();
    assert_eq!(text.lines().count(), 1);
    assert_eq!(read().len(), 0);
    let kept = std::fs::read(place.path("at")).unwrap();
    place.write("at", "nonsense\n");
    place.ever(&["log", "--cursor-file", "at"]).exits(1);
    assert_eq!(std::fs::read(place.path("at")).unwrap(), b"nonsense\n", "left as it was");
    place.write("at", kept);
    assert_eq!(read().len(), 0);
}

/// A `log` that runs while the test goes on.
struct Reader {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Reader {
    fn start(place: &Place, args: &[&str]) -> Self {
        let mut command = place.command(&Place::with_store(&[&["log"], args].concat()));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self { child, out }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        line
    }

    fn row(&mut self) -> (String, u64) {
        let line = self.line();
        names(&[serde_json::from_str(&line).unwrap()]).remove(0)
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    /// Waits for the end; the rest of the output and the exit code.
    fn end(mut self) -> (String, Option<i32>) {
        let mut rest = String::new();
        while self.out.read_line(&mut rest).unwrap() > 0 {}
        (rest, self.child.wait().unwrap().code())
    }
}

#[test]
fn follow_shows_what_comes_and_saves_where_it_was() {
    let place = Place::new();
    place.grow("first-1", 2);
    let mut reader = Reader::start(&place, &["-f", "-o", "jsonl", "--cursor-file", "at"]);
    let row = |id: &str, seq| (id.to_owned(), seq);
    assert_eq!([reader.row(), reader.row()], [row("first-1", 0), row("first-1", 1)]);
    place.grow("second-1", 1);
    assert_eq!(reader.row(), row("second-1", 0));
    place.grow("first-1", 1);
    assert_eq!(reader.row(), row("first-1", 2));
    reader.signal("-INT");
    assert_eq!(reader.end(), (String::new(), Some(130)));
    place.grow("first-1", 1);
    let rest = names(&jsonl(&place, &["--cursor-file", "at"]));
    assert_eq!(rest, [row("first-1", 3)], "nothing twice, nothing lost");
}

#[test]
fn follow_begins_with_the_newest_lines() {
    let place = Place::new();
    place.grow("first-1", 9);
    let mut reader = Reader::start(&place, &["-f", "-n", "2", "first-1", "-o", "jsonl"]);
    assert_eq!((reader.row().1, reader.row().1), (7, 8));
    place.grow("other-1", 3);
    place.grow("first-1", 2);
    assert_eq!((reader.row().1, reader.row().1), (9, 10), "of this session only");
    reader.signal("-TERM");
    assert_eq!(reader.end().1, Some(143));
    let mut reader = Reader::start(&place, &["-f", "first-1@9..12", "-o", "jsonl"]);
    assert_eq!((reader.row().1, reader.row().1), (9, 10));
    place.grow("first-1", 3);
    let (rest, code) = reader.end();
    assert_eq!((rest.lines().count(), code), (2, Some(0)), "the range ends it");
    let whole = Reader::start(&place, &["-f", "first-1@..3", "-o", "jsonl"]).end();
    assert_eq!((whole.0.lines().count(), whole.1), (4, Some(0)));
}

#[test]
fn a_run_of_chunks_that_comes_slowly_is_one_line() {
    let place = Place::new();
    let chunk = |text: &str| {
        format!(
            r#"{{"type":"assistant/chunk","data":{{"turn":1,"step":1,"chunk":{{"type":"text-delta","index":0,"text":"{text}"}}}}}}"#
        )
    };
    let mut reader = Reader::start(&place, &["-f"]);
    let lines = [chunk("he"), chunk("ll"), chunk("o"), NOTE.to_owned()];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    Writer::start(&place, "first-1", &lines).end();
    let line = reader.line();
    assert!(line.ends_with("\tfirst-1\t0..2\tassistant/chunk\thello\n"), "{line}");
    assert!(reader.line().contains("\t3\tnote\t"));
    // A run that nothing follows is shown when it has been quiet for a while.
    Writer::start(&place, "first-1", &[&chunk("end")]).end();
    assert!(reader.line().ends_with("\t4\tassistant/chunk\tend\n"));
    // A reader who goes away is noticed without a line to write.
    drop(reader.out);
    let until = Instant::now() + Duration::from_secs(60);
    let code = loop {
        if let Some(status) = reader.child.try_wait().unwrap() {
            break status.code();
        }
        assert!(Instant::now() < until, "it runs on");
        std::thread::sleep(Duration::from_millis(10));
    };
    assert_eq!(code, Some(141));
}

#[test]
fn wait_ends_with_the_first_events() {
    let place = Place::new();
    let reader = Reader::start(&place, &["--wait", "late-1", "-o", "jsonl", "-t", "todo/*"]);
    place.grow("other-1", 1);
    let held = Writer::start(&place, "late-1", &[NOTE]);
    held.end();
    std::thread::sleep(Duration::from_millis(200));
    place.grow("late-1", 1);
    let (out, code) = reader.end();
    let rows: Vec<Value> = out.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!((names(&rows), code), (vec![("late-1".to_owned(), 1)], Some(0)));
    let at_once = Reader::start(&place, &["--wait"]).end();
    assert_eq!((at_once.0.lines().count(), at_once.1), (3, Some(0)));
}

#[test]
fn durable_holds_back_what_was_not_synced() {
    let place = Place::new();
    let args = ["append", "first-1", "--create", "-q", "--level", "sync"];
    place.feed(&args, format!("{NOTE}\n")).exits(0);
    let mut reader = Reader::start(&place, &["-f", "--durable", "-o", "jsonl"]);
    assert_eq!(reader.row().1, 0);
    place.feed(&args, format!("{NOTE}\n")).exits(0);
    assert_eq!(reader.row().1, 1);
    reader.signal("-INT");
    assert_eq!(reader.end().1, Some(130));
}
