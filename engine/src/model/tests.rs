//! The folds against twins that start anew at every prefix, over parsed values; and the shapes one by one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod cases;
mod twin;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::{Closers, History, View, modern};
use crate::event::{Event, SurfaceOp};
use crate::model::stats::StatsFold;
use crate::types::{Seq, SessionId};
use twin::Twin;

/// What the next event is to be; numbers choose among what is there.
#[derive(Clone, Copy, Debug)]
pub(super) enum Op {
    TurnStart,
    TurnEnd,
    StepStart,
    StepEnd,
    User,
    Assistant { calls: u8, usage: bool },
    Call(u8),
    Result(u8),
    Replace { a: u8, b: u8 },
    Chunk(u8),
    Note,
}

fn ops() -> impl Strategy<Value = Vec<(Op, i8)>> {
    let op = prop_oneof![
        1 => Just(Op::TurnStart),
        1 => Just(Op::TurnEnd),
        2 => Just(Op::StepStart),
        1 => Just(Op::StepEnd),
        1 => Just(Op::User),
        3 => (0..4_u8, any::<bool>()).prop_map(|(calls, usage)| Op::Assistant { calls, usage }),
        3 => (0..3_u8).prop_map(Op::Call),
        3 => (0..3_u8).prop_map(Op::Result),
        2 => any::<(u8, u8)>().prop_map(|(a, b)| Op::Replace { a, b }),
        3 => (0..7_u8).prop_map(Op::Chunk),
        1 => Just(Op::Note),
    ];
    prop::collection::vec((op, -3..9_i8), 1..60)
}

/// Makes events of the choices, which need not be in any sensible order: the folds take every log that can be stored.
#[derive(Default)]
struct Maker {
    events: Vec<Event>,
    nodes: Vec<Seq>,
    time_ms: i64,
    turn: u64,
    step: u64,
}

impl Maker {
    fn add(&mut self, event_type: &str, data: String, op: Option<SurfaceOp>) {
        let seq = self.events.len() as Seq;
        match op {
            None => {}
            Some(SurfaceOp::Append) => self.nodes.push(seq),
            Some(SurfaceOp::Replace { start, end }) => {
                let place = |seq| self.nodes.iter().position(|n| *n == seq).unwrap();
                let (from, to) = (place(start), place(end));
                self.nodes.splice(from..=to, [seq]);
            }
        }
        self.events.push(event(seq, self.time_ms, event_type, &data, op));
    }

    fn apply(&mut self, op: Op, gap: i8) {
        self.time_ms += i64::from(gap);
        let place = format!("\"turn\":{},\"step\":{}", self.turn, self.step);
        let usage = r#"{"inputTokens":3,"outputTokens":5,"cacheReadTokens":2}"#;
        let append = Some(SurfaceOp::Append);
        match op {
            Op::TurnStart => {
                (self.turn, self.step) = (self.turn + 1, 0);
                self.add("turn/start", format!("{{\"turn\":{}}}", self.turn), None);
            }
            Op::TurnEnd => {
                let reason = r#""reason":{"kind":"completed"}"#;
                self.add("turn/end", format!("{{\"turn\":{},{reason}}}", self.turn), None);
            }
            Op::StepStart => {
                self.step += 1;
                let data = format!("{{\"turn\":{},\"step\":{}}}", self.turn, self.step);
                self.add("step/start", data, None);
            }
            Op::StepEnd => self.add("step/end", format!("{{{place}}}"), None),
            Op::User => self.add("user/message", user(self.events.len()), append),
            Op::Assistant { calls, usage: used } => {
                let blocks: Vec<String> = (0..calls)
                    .map(|c| {
                        format!(r#"{{"type":"tool-call","id":"c{c}","name":"n","arguments":""}}"#)
                    })
                    .collect();
                let used = if used { format!(",\"usage\":{usage}") } else { String::new() };
                let data = format!(
                    r#"{{{place},"message":{{"id":"a","role":"assistant","content":[{}],"source":{{"kind":"model","provider":"p","model":"m"}}}}{used}}}"#,
                    blocks.join(",")
                );
                self.add("assistant/message", data, append);
            }
            Op::Call(c) => {
                let data = format!(r#"{{{place},"callId":"c{c}","name":"n","arguments":""}}"#);
                self.add("tool/call", data, None);
            }
            Op::Result(c) => {
                let data = format!(
                    r#"{{{place},"message":{{"id":"r","role":"user","source":{{"kind":"tool","callId":"c{c}"}},"content":[{{"type":"tool-result","toolCallId":"c{c}","content":[]}}]}}}}"#
                );
                self.add("tool/result", data, append);
            }
            Op::Replace { a, b } => self.replace(a, b),
            Op::Chunk(kind) => self.add("assistant/chunk", chunk(&place, kind, usage), None),
            Op::Note => self.add("session/title", "{\"title\":\"t\"}".to_owned(), None),
        }
    }

    fn replace(&mut self, a: u8, b: u8) {
        let Some(last) = self.nodes.len().checked_sub(1) else { return };
        let (a, b) = (usize::from(a) % (last + 1), usize::from(b) % (last + 1));
        let (start, end) = (self.nodes[a.min(b)], self.nodes[a.max(b)]);
        let op = SurfaceOp::Replace { start, end };
        self.add("user/message", user(self.events.len()), Some(op));
    }
}

fn user(n: usize) -> String {
    let text = r#""content":[{"type":"text","text":"t"}],"source":{"kind":"user"}"#;
    format!(r#"{{"id":"u{n}","role":"user",{text}}}"#)
}

fn chunk(place: &str, kind: u8, usage: &str) -> String {
    let chunk = match kind {
        0 => r#"{"type":"text-delta","index":0,"text":"x"}"#.to_owned(),
        1 => r#"{"type":"text-delta","index":0,"text":""}"#.to_owned(),
        2 => r#"{"type":"reasoning-delta","index":0,"text":"x"}"#.to_owned(),
        3 => r#"{"type":"tool-call-delta","index":0,"id":"c","argumentsDelta":""}"#.to_owned(),
        4 => r#"{"type":"tool-call-delta","index":0,"id":"c","name":"n","argumentsDelta":""}"#
            .to_owned(),
        5 => format!(r#"{{"type":"usage","usage":{usage}}}"#),
        _ => r#"{"type":"finish","reason":{"kind":"stop"}}"#.to_owned(),
    };
    format!("{{{place},\"chunk\":{chunk}}}")
}

pub(super) fn event(
    seq: Seq,
    time_ms: i64,
    event_type: &str,
    data: &str,
    surface_op: Option<SurfaceOp>,
) -> Event {
    Event {
        seq,
        time_ms,
        event_type: event_type.as_bytes().into(),
        data: data.as_bytes().into(),
        surface_op,
        sources: None,
        ignorable: false,
        surface_first: false,
    }
}

fn log_of(ops: &[(Op, i8)]) -> Vec<Event> {
    let mut maker = Maker::default();
    for (op, gap) in ops {
        maker.apply(*op, *gap);
    }
    maker.events
}

/// A fault that a fold could have, made by what it is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    None,
    /// A replacement is taken for an append.
    ReplaceAppends,
    /// The end of a step does not forget its calls.
    StepEndKeepsCalls,
    /// The message of a step counts twice.
    MessageCountsTwice,
    /// Chunks are not looked at.
    ChunksUnseen,
}

impl Fault {
    /// How often a fold is told of an event.
    fn times(self, event_type: &[u8]) -> usize {
        match (self, event_type) {
            (Self::StepEndKeepsCalls, b"step/end") => 0,
            (Self::MessageCountsTwice, b"step/end") => 2,
            (Self::ChunksUnseen, b"assistant/chunk") => 0,
            _ => 1,
        }
    }
}

/// Compares the folds with their twins after every prefix; says where they part.
fn compare(events: &[Event], fault: Fault) -> Result<(), String> {
    let id = SessionId::new("s").unwrap();
    let mut history = History::new(&id);
    let (mut closers, mut stats) = (Closers::default(), StatsFold::default());
    for (n, event) in events.iter().enumerate() {
        let mut told = event.clone();
        if fault == Fault::ReplaceAppends {
            told.surface_op = told.surface_op.map(|_| SurfaceOp::Append);
        }
        let mut none = |_| panic!("nothing here is of an older shape");
        history.apply(&told.as_ref(), &mut none).map_err(|e| e.to_string())?;
        let view = modern(&event.as_ref(), b"s", &mut none).unwrap();
        for _ in 0..fault.times(&event.event_type) {
            closers.apply(event.seq, event.time_ms, &view);
            stats.apply(event.time_ms, &view);
        }
        let twin = Twin::of(events.get(..=n).unwrap());
        twin.agrees(&history, &closers, &stats.stats()).map_err(|e| format!("after {n}: {e}"))?;
    }
    Ok(())
}

#[test]
fn folds_equal_their_twins_after_every_prefix() {
    let cases = std::env::var("ROUNDS").ok().and_then(|r| r.parse().ok()).unwrap_or(256);
    let config = Config { cases, ..Config::default() };
    TestRunner::new(config)
        .run(&ops(), |ops| compare(&log_of(&ops), Fault::None).map_err(TestCaseError::fail))
        .unwrap();
}

#[test]
fn planted_faults_are_found() {
    for fault in [
        Fault::ReplaceAppends,
        Fault::StepEndKeepsCalls,
        Fault::MessageCountsTwice,
        Fault::ChunksUnseen,
    ] {
        let mut runner = TestRunner::deterministic();
        let found = runner.run(&ops(), |ops| {
            compare(&log_of(&ops), fault).map_err(|_| TestCaseError::fail("found"))
        });
        assert!(found.is_err(), "{fault:?} was not found");
    }
}

#[test]
fn cl3_closers_leave_nothing_open_and_are_the_same_again() {
    let config = Config { cases: 128, ..Config::default() };
    TestRunner::new(config)
        .run(&ops(), |ops| {
            let mut closers = Closers::default();
            for event in log_of(&ops) {
                closers.apply(event.seq, event.time_ms, &View::plain(&event));
            }
            let made = closers.events();
            prop_assert_eq!(&closers.clone().events(), &made);
            for event in &made {
                prop_assert!(crate::json::check(&event.data, 8).is_ok());
                closers.apply(event.seq, event.time_ms, &View::plain(event));
            }
            prop_assert!(closers.events().is_empty());
            Ok(())
        })
        .unwrap();
}

/// Events that no message comes from, put anywhere, change no message.
#[test]
fn other_events_change_no_message() {
    let config = Config { cases: 64, ..Config::default() };
    TestRunner::new(config)
        .run(&ops(), |ops| {
            let id = SessionId::new("s").unwrap();
            let (mut bare, mut mixed) = (History::new(&id), History::new(&id));
            for event in log_of(&ops) {
                let mut none = |_| panic!("nothing here is of an older shape");
                mixed.apply(&event.as_ref(), &mut none).unwrap();
                if event.surface_op.is_some() {
                    bare.apply(&event.as_ref(), &mut none).unwrap();
                }
            }
            prop_assert_eq!(bare.messages(), mixed.messages());
            Ok(())
        })
        .unwrap();
}
