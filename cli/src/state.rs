//! The state of a session, from its lock and its turns; and what an open turn waits for.
//!
//! # Invariants
//! Sx1. A session is held or free, and a turn is open or not: four states, each told without a guess.
//! Sx2. No event is read for a state; for the calls only those after the last boundary of the open turn.

use std::collections::HashMap;

use everlog::data::{at, elements, integer, text};
use everlog::{
    Error, Event, EventRef, HeldSession, Holder, LandmarkKind, Session, SessionId, Store,
};

use crate::exit::Failure;
use crate::signal;

/// Calls that are listed of one session.
const CALLS_MAX: usize = 1_000;

/// Who holds which session, asked once.
pub(crate) struct States {
    held: HashMap<SessionId, Holder>,
}

impl States {
    pub(crate) fn of(store: &Store) -> Result<Self, Failure> {
        let pair = |h: HeldSession| (h.id, h.holder);
        Ok(Self { held: store.held_sessions()?.into_iter().map(pair).collect() })
    }

    /// `live`: held, a turn is open. `idle`: held, between turns. `interrupted`: free, a turn is open. `closed`: free,
    /// between turns.
    pub(crate) fn state(&self, session: &Session) -> Result<&'static str, Failure> {
        let open = session.open_turn()?.is_some();
        Ok(match (self.held.contains_key(session.id()), open) {
            (true, true) => "live",
            (true, false) => "idle",
            (false, true) => "interrupted",
            (false, false) => "closed",
        })
    }
}

/// What a session that somebody writes is at.
pub(crate) struct Now {
    pub(crate) last: Option<Event>,
    /// Number of the open turn, as its `turn/start` says.
    pub(crate) turn: Option<i64>,
    pub(crate) calls: Vec<Call>,
}

/// A tool call without a result.
pub(crate) struct Call {
    pub(crate) id: Vec<u8>,
    pub(crate) name: Vec<u8>,
    /// Seq of its `tool/call`; none while it was only asked for.
    pub(crate) seq: Option<u64>,
}

impl Now {
    pub(crate) fn of(session: &Session) -> Result<Self, Failure> {
        let end = session.next_seq();
        let last = end.checked_sub(1).map(|seq| session.read(seq)).transpose()?;
        let mut now = Self { last, turn: None, calls: Vec::new() };
        let Some(turn) = session.open_turn()? else { return Ok(now) };
        now.turn = session.with(turn, &mut |e| at(e.data, &["turn"]).and_then(integer))?;
        // A step's end forgets its calls, so what came before it does not count.
        let step_end = |l: &&everlog::Landmark| l.kind == LandmarkKind::StepEnd && l.seq > turn;
        let from = session.landmarks()?.iter().rev().find(step_end).map_or(turn, |l| l.seq);
        let mut stop = None;
        let read = session.for_each(from, end - 1, &mut |event| {
            if let Err(failure) = signal::check() {
                stop = Some(failure);
                return Err(Error::from_io("reading", &std::io::Error::other("stopped")));
            }
            now.see(event);
            Ok(())
        });
        match stop {
            Some(failure) => Err(failure),
            None => read.map(|()| now).map_err(Failure::from),
        }
    }

    /// The rules of dsh-spec.md section 6.3, and calls that no message asked for.
    fn see(&mut self, event: &EventRef<'_>) {
        let string = |value, path: &[&str]| at(value, path).and_then(text).map(|t| t.into_owned());
        match event.event_type {
            b"assistant/message" => {
                let blocks = at(event.data, &["message", "content"]).unwrap_or_default();
                for block in elements(blocks) {
                    if string(block, &["type"]).as_deref() == Some(b"tool-call")
                        && let Some(id) = string(block, &["id"])
                    {
                        let name = string(block, &["name"]).unwrap_or_default();
                        self.call(id, name).seq = None;
                    }
                }
            }
            b"tool/call" => {
                if let Some(id) = string(event.data, &["callId"]) {
                    let name = string(event.data, &["name"]).unwrap_or_default();
                    self.call(id, name).seq = Some(event.seq);
                }
            }
            b"tool/result" => {
                let id = string(event.data, &["message", "source", "callId"]).unwrap_or_default();
                self.calls.retain(|call| call.id != id);
            }
            _ => {}
        }
        self.calls.truncate(CALLS_MAX);
    }

    fn call(&mut self, id: Vec<u8>, name: Vec<u8>) -> &mut Call {
        let i = self.calls.iter().position(|call| call.id == id).unwrap_or(self.calls.len());
        if i == self.calls.len() {
            self.calls.push(Call { id, name, seq: None });
        }
        &mut self.calls[i]
    }
}
