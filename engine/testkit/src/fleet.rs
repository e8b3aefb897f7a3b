//! A fleet of agent sessions: dsh session logs, made from a seed, in the shapes that agents leave behind.
//!
//! A session has turns of steps. A step streams reasoning, text and a tool call as deltas, then repeats the whole in one
//! message that cites them, then runs the tool. Some differ: every 5th is compacted (a replace over its oldest
//! nodes), every 7th was killed in the middle of a stream, every 9th is the child of the one before it.
//!
//! # Invariants
//! G1. The same seed, number and length give the same bytes, on every machine and in every release (rng N1).
//! G2. A session has exactly the events asked for (at least [`EVENTS_MIN`]), and breaks no rule of dsh.
//! G3. Clocks step back now and then; texts hold lone surrogates, escapes and characters of every plane.
//!
//! # Units
//! `k`: number of a session in its fleet, from 0. Times are Unix milliseconds.

mod lines;
mod session;
mod text;

use crate::rng::Rng;
use std::ops::Range;

/// Fewest events of a session: what one turn with one step needs.
pub const EVENTS_MIN: usize = 24;

/// A fleet: `sessions` logs of `events_per_session` events each.
///
/// ```
/// let fleet = everlog_testkit::fleet::Fleet { seed: 1, sessions: 2, events_per_session: 50 };
/// let log = fleet.session(0);
/// assert_eq!(log.iter().filter(|byte| **byte == b'\n').count(), 1 + 50);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fleet {
    /// Seed of all its bytes.
    pub seed: u64,
    /// How many sessions [`Fleet::logs`] goes over; `session(k)` takes any `k`.
    pub sessions: usize,
    /// Events in each session; less than [`EVENTS_MIN`] counts as that.
    pub events_per_session: usize,
}

/// One event of a session, before it becomes a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetEvent {
    /// Event type.
    pub event_type: &'static str,
    /// Unix milliseconds.
    pub time_ms: i64,
    /// JSON text of the data.
    pub data: String,
    /// Seqs that the event cites.
    pub sources: Option<Vec<u64>>,
    /// How it changes the surface.
    pub surface_op: Option<FleetOp>,
    delta: Option<DeltaPlace>,
}

/// How an event of the fleet changes the surface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FleetOp {
    /// At the tail.
    Append,
    /// In the place of the nodes from `start` to `end`, both inclusive.
    Replace {
        /// Seq of the first node.
        start: u64,
        /// Seq of the last node.
        end: u64,
    },
}

/// What a delta has in common with the deltas of its run, and where its text stands in `data`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct DeltaPlace {
    kind: &'static str,
    turn: u64,
    step: u64,
    index: usize,
    /// Call id and, where the delta has one, the name of the tool.
    call: Option<(String, Option<&'static str>)>,
    text: Range<usize>,
}

impl Fleet {
    /// The log of session `k` as one event a line: the whole file.
    #[must_use]
    pub fn session(&self, k: usize) -> Vec<u8> {
        let mut out = self.header(k);
        lines::write_plain(&self.events(k), &mut out);
        out.into_bytes()
    }

    /// The same session with its runs of deltas packed, as a writer with one batch leaves it.
    #[must_use]
    pub fn packed_session(&self, k: usize) -> Vec<u8> {
        let mut out = self.header(k);
        lines::write_packed(&self.events(k), &mut out);
        out.into_bytes()
    }

    /// All logs of the fleet in order, one event a line.
    pub fn logs(&self) -> impl Iterator<Item = Vec<u8>> {
        (0..self.sessions).map(|k| self.session(k))
    }

    /// Id of session `k`, in the shape of a UUID.
    #[must_use]
    pub fn session_id(&self, k: usize) -> String {
        text::uuid(&mut self.rng(k).fork(1))
    }

    /// The events of session `k`; the seq of an event is its place.
    #[must_use]
    pub fn events(&self, k: usize) -> Vec<FleetEvent> {
        let events = self.events_per_session.max(EVENTS_MIN);
        session::Builder::new(self.rng(k).fork(2), created_ms(k), k, events).run()
    }

    fn rng(&self, k: usize) -> Rng {
        Rng::new(self.seed).fork(k as u64)
    }

    fn header(&self, k: usize) -> String {
        let mut line = format!(
            "{{\"type\":\"session\",\"version\":0,\"id\":\"{}\",\"createdAt\":{},\"cwd\":\"/work/project-{}\"",
            self.session_id(k),
            created_ms(k),
            k % 8
        );
        if k % 9 == 8 {
            let parent = self.session_id(k - 1);
            line.push_str(&format!(
                ",\"parentSession\":\"{parent}\",\"origin\":\"subagent\",\"delegationDepth\":1}}\n"
            ));
        } else {
            line.push_str(",\"delegationDepth\":0}\n");
        }
        line
    }
}

fn created_ms(k: usize) -> i64 {
    1_790_000_000_000 + k as i64 * 2_220_000
}

#[cfg(test)]
mod tests;
