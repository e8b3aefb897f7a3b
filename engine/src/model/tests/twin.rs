//! The same answers from parsed values, each from the start and by another way.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::event::{Event, SurfaceOp};
use crate::model::{Closers, History, Stats};
use crate::types::Seq;

pub(super) struct Twin {
    log: Vec<(Event, Value)>,
}

fn place(data: &Value) -> (Value, Value) {
    (data["turn"].clone(), data["step"].clone())
}

fn late(from: i64, to: i64) -> u64 {
    (to - from).max(0) as u64
}

impl Twin {
    pub(super) fn of(events: &[Event]) -> Self {
        let parsed = |e: &Event| (e.clone(), serde_json::from_slice(&e.data).unwrap());
        Self { log: events.iter().map(parsed).collect() }
    }

    fn is(&self, i: usize, event_type: &str) -> bool {
        *self.log[i].0.event_type == *event_type.as_bytes()
    }

    fn all(&self, event_type: &str) -> Vec<usize> {
        (0..self.log.len()).filter(|i| self.is(*i, event_type)).collect()
    }

    fn nodes(&self) -> Vec<Seq> {
        let mut nodes: Vec<Seq> = Vec::new();
        for (event, _) in &self.log {
            match event.surface_op {
                None => {}
                Some(SurfaceOp::Append) => nodes.push(event.seq),
                Some(SurfaceOp::Replace { start, end }) => {
                    let at = nodes.iter().position(|n| *n == start).unwrap();
                    let to = nodes.iter().position(|n| *n == end).unwrap();
                    nodes.splice(at..=to, [event.seq]);
                }
            }
        }
        nodes
    }

    fn messages(&self) -> Vec<Value> {
        let of = |seq: &Seq| {
            let (event, data) = &self.log[*seq as usize];
            match &*event.event_type {
                b"user/message" => Some(data.clone()),
                _ if data["message"]["content"] == json!([]) => None,
                _ => Some(data["message"].clone()),
            }
        };
        self.nodes().iter().filter_map(of).collect()
    }

    /// Type, seq and data of each closer, without the texts for the model.
    fn closers(&self) -> Vec<(String, Seq, Value)> {
        let start = self.all("turn/start").last().copied();
        let Some(start) = start.filter(|s| self.all("turn/end").iter().all(|e| e < s)) else {
            return Vec::new();
        };
        let turn = self.log[start].1["turn"].clone();
        let step_end = self.all("step/end").last().copied().filter(|e| *e > start);
        let step = self.all("step/start").last().copied();
        let step = step.filter(|s| *s > start && step_end.is_none_or(|e| e < *s));
        let mut calls: Vec<(String, Value, Option<Seq>)> = Vec::new();
        for (event, data) in self.log.iter().skip(step_end.unwrap_or(start)) {
            match &*event.event_type {
                b"assistant/message" => {
                    for block in data["message"]["content"].as_array().unwrap() {
                        let id = block["id"].as_str().unwrap().to_owned();
                        let new = (id, data["step"].clone(), None);
                        match calls.iter_mut().find(|c| c.0 == new.0) {
                            Some(call) => *call = new,
                            None => calls.push(new),
                        }
                    }
                }
                b"tool/call" => {
                    if let Some(c) = calls.iter_mut().find(|c| data["callId"] == *c.0) {
                        c.2 = Some(event.seq);
                    }
                }
                b"tool/result" => calls.retain(|c| data["message"]["source"]["callId"] != *c.0),
                _ => {}
            }
        }
        let mut seq = self.log.len() as Seq;
        let mut out = Vec::new();
        for (id, step, begun) in calls {
            let error = match begun {
                None => json!({"name": "ToolNotStartedError", "code": "TOOL_NOT_STARTED"}),
                Some(_) => {
                    json!({"name": "ToolOutcomeUnknownError", "code": "TOOL_OUTCOME_UNKNOWN"})
                }
            };
            let block = json!({"type": "tool-result", "toolCallId": id, "isError": true,
                "content": [{"type": "text", "text": ""}]});
            let message = json!({"id": format!("interrupted-tool-result-{id}-{seq}"),
                "role": "user", "source": {"kind": "tool", "callId": id}, "content": [block]});
            let data = json!({"turn": turn, "step": step, "message": message, "error": error});
            out.push((format!("tool/result {begun:?}"), seq, data));
            seq += 1;
        }
        if let Some(step) = step {
            let data = json!({"turn": turn, "step": self.log[step].1["step"]});
            out.push(("step/end None".to_owned(), seq, data));
            seq += 1;
        }
        let data = json!({"turn": turn, "reason": {"kind": "interrupted"}});
        out.push(("turn/end None".to_owned(), seq, data));
        out
    }

    fn is_token(&self, i: usize) -> bool {
        let chunk = &self.log[i].1["chunk"];
        let filled = |key: &str| chunk[key].as_str().is_some_and(|s| !s.is_empty());
        match chunk["type"].as_str() {
            Some("text-delta" | "reasoning-delta") => filled("text"),
            Some("tool-call-delta") => filled("argumentsDelta") || !chunk["name"].is_null(),
            _ => false,
        }
    }

    fn stats(&self) -> Stats {
        let mut s = Stats::default();
        let ends = self.all("step/end");
        s.steps = ends.len() as u64;
        let turns: Vec<&Value> = ends.iter().map(|e| &self.log[*e].1["turn"]).collect();
        s.turns = turns.chunk_by(|a, b| a == b).count() as u64;
        s.tool_calls = self.all("tool/call").len() as u64;
        for start in self.all("step/start") {
            self.step_times(start, &mut s);
        }
        for result in self.all("tool/result") {
            let id = &self.log[result].1["message"]["source"]["callId"];
            let before = (0..result).rev().find(|i| {
                self.is(*i, "turn/end")
                    || self.is(*i, "tool/call") && self.log[*i].1["callId"] == *id
                    || self.is(*i, "tool/result")
                        && self.log[*i].1["message"]["source"]["callId"] == *id
            });
            if let Some(call) = before.filter(|i| self.is(*i, "tool/call")) {
                s.tool_ms += late(self.log[call].0.time_ms, self.log[result].0.time_ms);
            }
        }
        let mut samples: Vec<((Value, Value), f64, f64, f64)> = Vec::new();
        for (_, data) in &self.log {
            for usage in [&data["chunk"]["usage"], &data["usage"]] {
                let n = |key: &str| usage[key].as_f64().unwrap_or(0.0);
                if usage.is_object() {
                    let sample =
                        (place(data), n("inputTokens"), n("outputTokens"), n("cacheReadTokens"));
                    if samples.last().is_some_and(|last| last.0 == sample.0) {
                        samples.pop();
                    }
                    samples.push(sample);
                }
            }
        }
        s.tokens.input = samples.iter().map(|s| s.1).sum();
        s.tokens.output = samples.iter().map(|s| s.2).sum();
        s.tokens.cache_read = samples.iter().map(|s| s.3).sum();
        s
    }

    /// Times of the step that starts at `start`: up to its message, if that comes before another step's start or an end.
    fn step_times(&self, start: usize, s: &mut Stats) {
        let at = place(&self.log[start].1);
        let here = |i: &usize| place(&self.log[*i].1) == at;
        let end = (start + 1..self.log.len())
            .find(|i| self.is(*i, "step/start") || self.is(*i, "step/end"))
            .unwrap_or(self.log.len());
        let message = (start..end).find(|i| self.is(*i, "assistant/message") && here(i));
        let Some(message) = message else { return };
        let time = |i: usize| self.log[i].0.time_ms;
        s.llm_ms += late(time(start), time(message));
        let first = (start..message)
            .find(|i| self.is(*i, "assistant/chunk") && here(i) && self.is_token(*i));
        let Some(first) = first else { return };
        s.ttft_ms += late(time(start), time(first));
        s.ttft_steps += 1;
        if let Some(output) = self.log[message].1["usage"]["outputTokens"].as_f64() {
            s.decode_ms += late(time(first), time(message));
            s.decode_tokens += output;
        }
    }

    /// Says where the folds give something else.
    pub(super) fn agrees(
        &self,
        history: &History,
        closers: &Closers,
        stats: &Stats,
    ) -> Result<(), String> {
        let nodes: Vec<Seq> = history.surface().iter().collect();
        same("nodes", &self.nodes(), &nodes)?;
        let parsed = |text: &[u8]| serde_json::from_slice::<Value>(text).unwrap();
        let messages: Vec<Value> = history.messages().iter().map(|m| parsed(m)).collect();
        same("messages", &self.messages(), &messages)?;
        let made: Vec<(String, Seq, Value)> = closers
            .events()
            .iter()
            .map(|e| {
                let mut data = parsed(&e.data);
                if let Some(text) = data.pointer_mut("/message/content/0/content/0/text") {
                    assert!(text.as_str().is_some_and(|t| !t.is_empty()));
                    *text = json!("");
                }
                let cited = e.sources.as_ref().map(|s| s[0]);
                (format!("{} {cited:?}", String::from_utf8_lossy(&e.event_type)), e.seq, data)
            })
            .collect();
        same("closers", &self.closers(), &made)?;
        same("stats", &self.stats(), stats)
    }
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, want: &T, got: &T) -> Result<(), String> {
    if want == got { Ok(()) } else { Err(format!("{what}: want {want:?} got {got:?}")) }
}

/// Counts by key, for tests that look at several closers.
pub(super) fn counted(events: &[Event]) -> BTreeMap<String, usize> {
    let mut out = BTreeMap::new();
    for e in events {
        *out.entry(String::from_utf8_lossy(&e.event_type).into_owned()).or_insert(0) += 1;
    }
    out
}
