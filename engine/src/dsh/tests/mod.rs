//! Tests of the whole reader and writer: the shared corpus, torn and damaged files, compressed ones, packing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod conformance;
mod container;
mod damage;
mod jsonl;
mod packing;
mod salvage;
mod sha256;

use std::io::Read;

use super::{FrameWriter, write_event};
use super::{ImportHeader, ImportOptions, ImportOutcome, ImportSink, PackWriter, read_log};
use crate::{Event, NewEvent, Result, Seq, SessionId};

/// Keeps everything it is given.
#[derive(Default)]
struct Kept {
    header: Option<ImportHeader>,
    events: Vec<Event>,
    lines: Vec<u64>,
}

impl ImportSink for Kept {
    fn header(&mut self, header: &ImportHeader) -> Result<()> {
        assert!(self.header.is_none() && self.events.is_empty(), "the header comes once and first");
        self.header = Some(header.clone());
        Ok(())
    }

    fn event(&mut self, event: NewEvent<'_>, seq: Seq, line: u64) -> Result<()> {
        assert!(self.header.is_some());
        assert_eq!(seq, self.events.len() as u64);
        self.lines.push(line);
        self.events.push(Event {
            seq,
            time_ms: event.time_ms.expect("an imported event has a time"),
            event_type: event.event_type.into(),
            data: event.data.into(),
            surface_op: event.surface_op,
            sources: event.sources.map(Into::into),
            ignorable: event.ignorable,
            surface_first: event.surface_first,
        });
        Ok(())
    }

    fn tool_result_data(&mut self, seq: Seq) -> Result<Option<Vec<u8>>> {
        let event = &self.events[seq as usize];
        Ok((*event.event_type == *b"tool/result").then(|| event.data.to_vec()))
    }
}

impl Kept {
    /// The log as it is exported.
    fn export(&self, packed: bool) -> Vec<u8> {
        let mut out = self.header.as_ref().expect("a header").text.clone();
        out.push(b'\n');
        if packed {
            let mut pack = PackWriter::new();
            for event in &self.events {
                pack.push(&event.as_ref(), &mut out).unwrap();
            }
            pack.finish(&mut out);
        } else {
            for event in &self.events {
                write_event(&mut out, &event.as_ref()).unwrap();
            }
        }
        out
    }
}

fn read(text: impl Read) -> Result<(ImportOutcome, Kept)> {
    read_with(text, &ImportOptions::default())
}

fn read_with(text: impl Read, options: &ImportOptions) -> Result<(ImportOutcome, Kept)> {
    let mut kept = Kept::default();
    let outcome = read_log(text, options, &mut kept)?;
    assert_eq!(outcome.events, kept.events.len() as u64);
    Ok((outcome, kept))
}

/// A reader that gives its bytes in pieces of changing length.
struct Dribble<'a> {
    rest: &'a [u8],
    sizes: std::iter::Cycle<std::vec::IntoIter<usize>>,
}

impl<'a> Dribble<'a> {
    fn new(rest: &'a [u8], sizes: Vec<usize>) -> Self {
        Self { rest, sizes: sizes.into_iter().cycle() }
    }
}

impl Read for Dribble<'_> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let size = self.sizes.next().unwrap_or(1).max(1).min(buf.len()).min(self.rest.len());
        buf[..size].copy_from_slice(&self.rest[..size]);
        self.rest = &self.rest[size..];
        Ok(size)
    }
}

/// A header line with its newline.
const HEADER: &str = concat!(
    r#"{"type":"session","version":0,"id":"s","createdAt":1,"cwd":"/w","delegationDepth":0}"#,
    "\n"
);

/// A log of a few turns with messages, a tool call, a replaced result and chunks.
fn sample() -> String {
    let mut text = HEADER.to_owned();
    let mut seq = 0;
    let mut push = |kind: &str, data: &str, rest: &str| {
        text +=
            &format!(r#"{{"type":"{kind}","seq":{seq},"time":{},"data":{data}{rest}}}"#, 50 - seq);
        text.push('\n');
        seq += 1;
    };
    push("turn/start", r#"{"turn":1}"#, "");
    let message = r#"{"id":"m","role":"user","content":[{"type":"text","text":"h\u00e9 \ud800 {\"type\":"}],"source":{"kind":"user"}}"#;
    push("user/message", message, r#","surfaceOp":"append""#);
    for word in ["a", "", "b \\n", "\u{1F600}"] {
        let chunk = format!(
            r#"{{"turn":1,"step":1,"chunk":{{"type":"text-delta","index":0,"text":"{word}"}}}}"#
        );
        push("assistant/chunk", &chunk, "");
    }
    let result = |text: &str| {
        format!(
            r#"{{"turn":1,"step":1,"message":{{"id":"r","role":"user","source":{{"kind":"tool","callId":"c"}},"content":[{{"type":"tool-result","toolCallId":"c","content":[{text}]}}]}}}}"#
        )
    };
    push("tool/result", &result("1"), r#","surfaceOp":"append""#);
    let op = r#","sourceEventSeqs":[6],"surfaceOp":{"op":"replace","start":6,"end":6}"#;
    push("tool/result", &result("[]"), op);
    push("future/x", "[1e3, -0, {\"a\" : null}]", r#","ignorable":true"#);
    push("turn/end", r#"{"turn":1,"reason":{"kind":"completed"}}"#, "");
    text
}

/// The text in frames: the header alone, then `lines` lines each.
fn compress(text: &str, lines: usize) -> Vec<u8> {
    let all: Vec<&str> = text.split_inclusive('\n').collect();
    let mut writer = FrameWriter::new().unwrap();
    let mut out = Vec::new();
    writer.frame(all[0].as_bytes(), &mut out).unwrap();
    for batch in all[1..].chunks(lines) {
        writer.frame(batch.concat().as_bytes(), &mut out).unwrap();
    }
    out
}

#[test]
fn a_log_goes_through_as_it_is() {
    let text = sample();
    let (outcome, kept) = read(text.as_bytes()).unwrap();
    assert_eq!((outcome.events, outcome.torn_bytes, outcome.lines), (10, 0, 11));
    assert_eq!(outcome.warnings, []);
    assert_eq!(outcome.text_bytes, text.len() as u64);
    assert_eq!(kept.export(false), text.as_bytes());
    assert_eq!(kept.header.unwrap().view.id, SessionId::new("s").unwrap());
    assert_eq!(kept.lines, (2..12).collect::<Vec<_>>());
}
