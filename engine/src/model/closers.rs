//! Closers: the events that balance a turn that was cut off (dsh-spec.md section 6.3).
//!
//! # Invariants
//! Cl1. The same events give the same closers, on every run; a balanced log gives none.
//! Cl2. Closers go on with the seq after the last event and carry its time.
//! Cl3. Appended to the log they leave nothing open: folded again, it gives none.
//!
//! # Units
//! Memory: one entry for each tool call of the open step that has no result.

use std::collections::HashMap;

use crate::accept::{ASSISTANT_MESSAGE, TOOL_RESULT};
use crate::event::{Event, SurfaceOp};
use crate::json;
use crate::types::Seq;

use super::field::{at, is, members, text_at};
use super::modern::View;

/// What a model is told of a call that never began.
const NOT_STARTED: &str = "The run was interrupted before this tool call began, so it had no effect. \
    Make the call again if it is still needed.";
/// What a model is told of a call that began and has no result.
const OUTCOME_UNKNOWN: &str = "The run was interrupted after this tool call began and before its \
    result was recorded: whether it took effect is not known. Repeat it only if it has no side \
    effects. Otherwise look at the state of the outside world first, or ask the user.";

/// A tool call that a model's message announced.
#[derive(Clone, Debug)]
struct Call {
    /// Decoded id, WTF-8.
    id: Vec<u8>,
    /// The step of the message, as text.
    step: Option<Box<[u8]>>,
    /// The `tool/call` event, when one was recorded.
    begun: Option<Seq>,
}

/// Calls in the order of their announcement, by id.
#[derive(Clone, Default, Debug)]
struct Calls {
    list: Vec<Option<Call>>,
    places: HashMap<Vec<u8>, usize>,
}

impl Calls {
    fn clear(&mut self) {
        self.list.clear();
        self.places.clear();
    }

    /// An id that is there keeps its place and forgets that its call began.
    fn announce(&mut self, id: &[u8], step: Option<&[u8]>) {
        let place = *self.places.entry(id.to_vec()).or_insert_with(|| {
            self.list.push(None);
            self.list.len() - 1
        });
        if let Some(slot) = self.list.get_mut(place) {
            *slot = Some(Call { id: id.to_vec(), step: step.map(Into::into), begun: None });
        }
    }

    fn begin(&mut self, id: &[u8], seq: Seq) {
        let slot = self.places.get(id).and_then(|place| self.list.get_mut(*place));
        if let Some(call) = slot.and_then(Option::as_mut) {
            call.begun = Some(seq);
        }
    }

    fn answer(&mut self, id: &[u8]) {
        if let Some(slot) = self.places.remove(id).and_then(|place| self.list.get_mut(place)) {
            *slot = None;
        }
    }
}

/// The fold that knows what is open. Feed it the events from the start of the last turn on, or from any place before.
#[derive(Clone, Default, Debug)]
pub(crate) struct Closers {
    /// Text of the number of the open turn.
    turn: Option<Box<[u8]>>,
    /// Text of the number of the open step.
    step: Option<Box<[u8]>>,
    calls: Calls,
    next_seq: Seq,
    time_ms: i64,
}

impl Closers {
    /// Takes the next event in.
    pub(crate) fn apply(&mut self, seq: Seq, time_ms: i64, view: &View<'_>) {
        (self.next_seq, self.time_ms) = (seq + 1, time_ms);
        let data = &*view.data;
        let text = |key: &[u8]| json::member(data, key).map(Into::into);
        match view.event_type {
            b"turn/start" => {
                (self.turn, self.step) = (text(b"turn"), None);
                self.calls.clear();
            }
            b"turn/end" => {
                (self.turn, self.step) = (None, None);
                self.calls.clear();
            }
            b"step/start" => self.step = text(b"step"),
            b"step/end" => {
                self.step = None;
                self.calls.clear();
            }
            ASSISTANT_MESSAGE => self.announce(data),
            b"tool/call" => {
                if let Some(id) = text_at(data, &[b"callId"]) {
                    self.calls.begin(&id, seq);
                }
            }
            TOOL_RESULT => {
                if let Some(id) = text_at(data, &[b"message", b"source", b"callId"]) {
                    self.calls.answer(&id);
                }
            }
            _ => {}
        }
    }

    fn announce(&mut self, data: &[u8]) {
        let step = json::member(data, b"step");
        let Some(content) = at(data, &[b"message", b"content"]) else { return };
        for block in json::Elements::new(content) {
            let [kind, id] = members(block, [b"type", b"id"]);
            if let (true, Some(id)) = (is(kind, b"tool-call"), id.and_then(json::string_value)) {
                self.calls.announce(&id, step);
            }
        }
    }

    /// The closers, in order; none when no turn is open.
    pub(crate) fn events(&self) -> Vec<Event> {
        let Some(turn) = &self.turn else { return Vec::new() };
        let mut out = Vec::new();
        for call in self.calls.list.iter().flatten() {
            let seq = self.next_seq + out.len() as u64;
            let data = result_data(turn, call, seq);
            let mut event = self.event(seq, b"tool/result", data);
            event.surface_op = Some(SurfaceOp::Append);
            event.sources = call.begun.map(|begun| Box::from([begun]));
            out.push(event);
        }
        if let Some(step) = &self.step {
            let data = [b"{\"turn\":", &**turn, b",\"step\":", &**step, b"}"].concat();
            out.push(self.event(self.next_seq + out.len() as u64, b"step/end", data));
        }
        let data = [b"{\"turn\":", &**turn, b",\"reason\":{\"kind\":\"interrupted\"}}"].concat();
        out.push(self.event(self.next_seq + out.len() as u64, b"turn/end", data));
        out
    }

    fn event(&self, seq: Seq, event_type: &[u8], data: Vec<u8>) -> Event {
        Event {
            seq,
            time_ms: self.time_ms,
            event_type: event_type.into(),
            data: data.into(),
            surface_op: None,
            sources: None,
            ignorable: false,
            surface_first: true,
        }
    }
}

/// Data of the result that says how a call ended.
fn result_data(turn: &[u8], call: &Call, seq: Seq) -> Vec<u8> {
    let (name, code, text) = match call.begun {
        None => ("ToolNotStartedError", "TOOL_NOT_STARTED", NOT_STARTED),
        Some(_) => ("ToolOutcomeUnknownError", "TOOL_OUTCOME_UNKNOWN", OUTCOME_UNKNOWN),
    };
    let id = [b"interrupted-tool-result-", &*call.id, b"-", seq.to_string().as_bytes()].concat();
    let mut out = [b"{\"turn\":", turn].concat();
    if let Some(step) = &call.step {
        out.extend_from_slice(b",\"step\":");
        out.extend_from_slice(step);
    }
    let parts: [(&[u8], &[u8]); 6] = [
        (b",\"message\":{\"id\":", &id),
        (b",\"role\":\"user\",\"source\":{\"kind\":\"tool\",\"callId\":", &call.id),
        (b"},\"content\":[{\"type\":\"tool-result\",\"toolCallId\":", &call.id),
        (b",\"isError\":true,\"content\":[{\"type\":\"text\",\"text\":", text.as_bytes()),
        (b"}]}]},\"error\":{\"name\":", name.as_bytes()),
        (b",\"code\":", code.as_bytes()),
    ];
    for (before, string) in parts {
        out.extend_from_slice(before);
        json::write_string(&mut out, string);
    }
    out.extend_from_slice(b"}}");
    out
}
