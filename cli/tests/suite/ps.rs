//! `ps`, and the states that `ls` shows: who holds a session, and what its turn waits for.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};

use crate::support::Place;

/// A process that writes a session and stays.
pub(crate) struct Writer {
    child: Child,
    stdin: Option<ChildStdin>,
}

impl Writer {
    /// Appends lines and waits until all are acknowledged.
    pub(crate) fn start(place: &Place, id: &str, lines: &[&str]) -> Self {
        let args = Place::with_store(&["append", "--create", "--id", id]);
        let mut command = place.command(&args);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let mut receipts = BufReader::new(child.stdout.take().unwrap());
        for line in lines {
            writeln!(stdin, "{line}").unwrap();
            let mut receipt = String::new();
            receipts.read_line(&mut receipt).unwrap();
            assert!(receipt.contains("\"seq\""), "{receipt}");
        }
        Self { child, stdin: Some(stdin) }
    }

    pub(crate) fn end(mut self) {
        drop(self.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

const TURN: &str = r#"{"type":"turn/start","data":{"turn":1}}"#;
const STEP: &str = r#"{"type":"step/start","data":{"turn":1,"step":1}}"#;
const ASKED: &str = r#"{"type":"assistant/message","data":{"turn":1,"step":1,"message":{"id":"m","role":"assistant","source":{"kind":"model","provider":"p","model":"m"},"content":[{"type":"tool-call","id":"c1","name":"ls","arguments":"{}"},{"type":"tool-call","id":"c2","name":"run","arguments":"{}"},{"type":"tool-call","id":"c3","name":"read","arguments":"{}"}]}},"surfaceOp":"append"}"#;
const CALL_1: &str =
    r#"{"type":"tool/call","data":{"turn":1,"step":1,"callId":"c1","name":"ls","arguments":"{}"}}"#;
const CALL_2: &str = r#"{"type":"tool/call","data":{"turn":1,"step":1,"callId":"c2","name":"run","arguments":"{}"}}"#;
const DONE_1: &str = r#"{"type":"tool/result","data":{"turn":1,"step":1,"message":{"id":"r","role":"user","source":{"kind":"tool","callId":"c1"},"content":[{"type":"tool-result","toolCallId":"c1","content":[]}]}},"surfaceOp":"append"}"#;
const TURN_END: &str = r#"{"type":"turn/end","data":{"turn":1,"reason":{"kind":"completed"}}}"#;

fn states(place: &Place) -> Vec<(String, String)> {
    let rows = place.ever(&["ls", "-o", "jsonl", "--sort", "id"]).exits(0).jsonl();
    let text = |v: &serde_json::Value| v.as_str().unwrap().to_owned();
    rows.iter().map(|r| (text(&r["session"]), text(&r["state"]))).collect()
}

#[test]
fn who_writes_now_and_what_it_waits_for() {
    let place = Place::new();
    place.grow("free-1", 3);
    assert!(place.ever(&["ps", "-o", "jsonl"]).exits(0).jsonl().is_empty());
    let busy = Writer::start(&place, "busy-1", &[TURN, STEP, ASKED, CALL_1, CALL_2, DONE_1]);
    let rest = Writer::start(&place, "rest-1", &[TURN, TURN_END]);
    let rows = place.ever(&["ps", "-o", "jsonl"]).exits(0).jsonl();
    assert_eq!(rows.len(), 2);
    let row = &rows[0];
    assert_eq!((&row["v"], &row["session"]), (&1.into(), &"busy-1".into()));
    assert_eq!(row["pid"], busy.child.id());
    assert_eq!(row["label"], "everlog append");
    assert!(!row["host"].as_str().unwrap().is_empty());
    assert!(row["since"].as_str().unwrap().ends_with('Z'));
    assert_eq!(
        (&row["lastEvent"]["seq"], &row["lastEvent"]["type"]),
        (&5.into(), &"tool/result".into())
    );
    assert_eq!(row["openTurn"], 1);
    let calls = serde_json::json!([
        {"callId": "c2", "name": "run", "seq": 4},
        {"callId": "c3", "name": "read"}
    ]);
    assert_eq!(row["pendingToolCalls"], calls);
    assert_eq!(rows[1]["session"], "rest-1");
    assert_eq!(
        (rows[1].get("openTurn"), &rows[1]["pendingToolCalls"]),
        (None, &serde_json::json!([]))
    );
    let text = place.ever(&["ps"]).exits(0).text();
    let cells: Vec<_> = text.lines().next().unwrap().split('\t').collect();
    assert_eq!((cells[0], cells[5], cells[6], cells[7]), ("busy-1", "5", "tool/result", "1"));
    assert_eq!(cells[8], "run, read");
    assert_eq!(place.ever(&["ps", "-q"]).exits(0).text(), "busy-1\nrest-1\n");
    let table = place.ever(&["ps", "-o", "table"]).exits(0).text();
    assert!(table.starts_with("SESSION") && table.contains("run, read"), "{table}");
    rest.end();
    assert_eq!(place.ever(&["ps", "-q"]).exits(0).text(), "busy-1\n");
    busy.kill();
    assert_eq!(place.ever(&["ps", "-q"]).exits(0).text(), "");
}

#[test]
fn four_states() {
    let place = Place::new();
    place.grow("plain-1", 2);
    let live = Writer::start(&place, "live-1", &[TURN, STEP]);
    let idle = Writer::start(&place, "idle-1", &[TURN, TURN_END]);
    let row = |id: &str, state: &str| (id.to_owned(), state.to_owned());
    let want = [row("idle-1", "idle"), row("live-1", "live"), row("plain-1", "closed")];
    assert_eq!(states(&place), want);
    live.kill();
    idle.end();
    let want = [row("idle-1", "closed"), row("live-1", "interrupted"), row("plain-1", "closed")];
    assert_eq!(states(&place), want);
    let text = place.ever(&["ls", "--sort", "id"]).exits(0).text();
    let last: Vec<_> = text.lines().map(|l| l.rsplit('\t').next().unwrap()).collect();
    assert_eq!(last, ["closed", "interrupted", "closed"]);
}

#[test]
fn a_question_is_met_by_no_writer() {
    let place = Place::new();
    place.grow("s-777", 1);
    // Readers ask all the time while the session is taken and let go: nobody is told that it is locked.
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| (0..30).for_each(|_| drop(place.ever(&["ps"]).exits(0))));
        for n in 0..10 {
            place.grow("s-777", 1);
            let rows = place.ever(&["ls", "-o", "jsonl"]).exits(0).jsonl();
            assert_eq!(rows[0]["events"], n + 2);
        }
        asking.join().unwrap();
    });
}

#[test]
fn messages_are_counted_on_the_surface() {
    let place = crate::log::samples(&["14-replace-of-replace.jsonl", "10-packed-few.jsonl"]);
    let rows = place.ever(&["ls", "-o", "jsonl", "--sort", "id"]).exits(0).jsonl();
    assert_eq!((&rows[0]["messages"], &rows[1]["messages"]), (&0.into(), &1.into()));
}
