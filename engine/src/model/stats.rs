//! Statistics of a session: turns, steps, times and tokens (dsh-spec.md section 12.3 and 12.4).
//!
//! # Invariants
//! St1. A fold: the figures after a prefix do not depend on what comes after it.
//! St2. A time never counts below 0, whatever the clocks did; sums stop at the largest value and do not wrap.
//!
//! # Units
//! Times: milliseconds. Tokens: as the provider counted them, fractions kept. Memory: an entry for each pending call.

use std::collections::HashMap;

use crate::accept::{ASSISTANT_MESSAGE, TOOL_RESULT};
use crate::json;
use crate::types::Seq;

use super::field::{Label, amount, is, is_filled, members, text_at};
use super::modern::View;
use super::tokens::{TokenTotals, Totals};

/// Figures of a session or a part of it. [`Session::stats`](crate::Session::stats) has another example.
///
/// ```
/// let none = everlog::Stats::default();
/// assert_eq!((none.turns, none.decode_tokens, none.tokens.output), (0, 0.0, 0.0));
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Stats {
    /// Turns that had a step which ended.
    pub turns: u64,
    /// Steps that ended.
    pub steps: u64,
    /// Events that are stored; closers are none of them.
    pub events: u64,
    /// Messages of the derived history.
    pub messages: u64,
    /// Events of type `tool/call`.
    pub tool_calls: u64,
    /// From the start of steps to the model's message, milliseconds.
    pub llm_ms: u64,
    /// From tool calls to their results, milliseconds.
    pub tool_ms: u64,
    /// From the start of steps to the first token, milliseconds.
    pub ttft_ms: u64,
    /// Steps that `ttft_ms` adds up.
    pub ttft_steps: u64,
    /// From the first token to the model's message, milliseconds.
    pub decode_ms: u64,
    /// Output tokens of the steps that `decode_ms` adds up.
    pub decode_tokens: f64,
    /// What the provider charged.
    pub tokens: TokenTotals,
}

impl Stats {
    /// Adds the figures of another session.
    ///
    /// ```
    /// let mut sum = everlog::Stats::default();
    /// sum.add(&everlog::Stats::default());
    /// assert_eq!(sum, everlog::Stats::default());
    /// ```
    pub fn add(&mut self, other: &Self) {
        for (sum, more) in [
            (&mut self.turns, other.turns),
            (&mut self.steps, other.steps),
            (&mut self.events, other.events),
            (&mut self.messages, other.messages),
            (&mut self.tool_calls, other.tool_calls),
            (&mut self.llm_ms, other.llm_ms),
            (&mut self.tool_ms, other.tool_ms),
            (&mut self.ttft_ms, other.ttft_ms),
            (&mut self.ttft_steps, other.ttft_steps),
            (&mut self.decode_ms, other.decode_ms),
        ] {
            *sum = sum.saturating_add(more);
        }
        self.decode_tokens += other.decode_tokens;
        self.tokens.add(&other.tokens);
    }
}

/// The step that is open.
#[derive(Clone, PartialEq, Debug)]
struct OpenStep {
    turn: Label,
    step: Label,
    start_ms: i64,
    first_token_ms: Option<i64>,
}

impl OpenStep {
    fn is(&self, turn: Option<&[u8]>, step: Option<&[u8]>) -> bool {
        self.turn == Label::of(turn) && self.step == Label::of(step)
    }
}

/// The fold behind [`Stats`].
#[derive(Clone, Default, Debug)]
pub(crate) struct StatsFold {
    stats: Stats,
    totals: Totals,
    last_turn: Option<Label>,
    open: Option<OpenStep>,
    pending: HashMap<Vec<u8>, i64>,
}

fn since(from_ms: i64, to_ms: i64) -> u64 {
    u64::try_from(to_ms.saturating_sub(from_ms)).unwrap_or(0)
}

fn grow(sum: &mut u64, from_ms: i64, to_ms: i64) {
    *sum = sum.saturating_add(since(from_ms, to_ms));
}

impl StatsFold {
    /// The figures so far; `events` and `messages` are the caller's to fill in.
    pub(crate) fn stats(&self) -> Stats {
        Stats { tokens: self.totals.sums(), ..self.stats }
    }

    /// Takes the next event in.
    pub(crate) fn apply(&mut self, time_ms: i64, view: &View<'_>) {
        let data = &*view.data;
        match view.event_type {
            b"assistant/chunk" => self.chunk(time_ms, data),
            b"step/start" => {
                let [turn, step] = members(data, [b"turn", b"step"]);
                self.open = Some(OpenStep {
                    turn: Label::of(turn),
                    step: Label::of(step),
                    start_ms: time_ms,
                    first_token_ms: None,
                });
            }
            ASSISTANT_MESSAGE => self.message(time_ms, data),
            b"tool/call" => {
                self.stats.tool_calls += 1;
                if let Some(id) = text_at(data, &[b"callId"]) {
                    self.pending.insert(id.into_owned(), time_ms);
                }
            }
            TOOL_RESULT => {
                let id = text_at(data, &[b"message", b"source", b"callId"]);
                if let Some(call_ms) = id.and_then(|id| self.pending.remove(&*id)) {
                    grow(&mut self.stats.tool_ms, call_ms, time_ms);
                }
            }
            b"step/end" => {
                let turn = Label::of(json::member(data, b"turn"));
                self.stats.steps += 1;
                self.stats.turns += u64::from(self.last_turn.as_ref() != Some(&turn));
                self.last_turn = Some(turn);
                self.open = None;
            }
            b"turn/end" => self.pending.clear(),
            _ => {}
        }
    }

    fn chunk(&mut self, time_ms: i64, data: &[u8]) {
        let [turn, step, chunk] = members(data, [b"turn", b"step", b"chunk"]);
        let Some(chunk) = chunk else { return };
        let [kind, text, args, name, usage] =
            members(chunk, [b"type", b"text", b"argumentsDelta", b"name", b"usage"]);
        if is(kind, b"usage") {
            self.totals.sample(turn, step, usage);
            return;
        }
        let Some(open) = self.open.as_mut().filter(|open| open.first_token_ms.is_none()) else {
            return;
        };
        let is_token = match kind.and_then(json::string_value).as_deref() {
            Some(b"text-delta" | b"reasoning-delta") => is_filled(text),
            Some(b"tool-call-delta") => is_filled(args) || name.is_some(),
            _ => false,
        };
        if is_token && open.is(turn, step) {
            open.first_token_ms = Some(time_ms);
        }
    }

    fn message(&mut self, time_ms: i64, data: &[u8]) {
        let [turn, step, usage] = members(data, [b"turn", b"step", b"usage"]);
        if usage.is_some() {
            self.totals.sample(turn, step, usage);
        }
        let Some(open) = self.open.take_if(|open| open.is(turn, step)) else { return };
        grow(&mut self.stats.llm_ms, open.start_ms, time_ms);
        let Some(first_ms) = open.first_token_ms else { return };
        grow(&mut self.stats.ttft_ms, open.start_ms, first_ms);
        self.stats.ttft_steps += 1;
        let output = usage.and_then(|usage| amount(json::member(usage, b"outputTokens")));
        if let Some(output) = output {
            grow(&mut self.stats.decode_ms, first_ms, time_ms);
            self.stats.decode_tokens += output;
        }
    }
}

/// The figures of a whole log and of what stands in it from a seq on.
#[derive(Clone, Default, Debug)]
pub(crate) struct SplitStats {
    pub(crate) whole: StatsFold,
    pub(crate) own: StatsFold,
    own_from: Seq,
}

impl SplitStats {
    pub(crate) fn new(own_from: Seq) -> Self {
        Self { own_from, ..Self::default() }
    }

    /// Takes the next event in.
    pub(crate) fn apply(&mut self, seq: Seq, time_ms: i64, view: &View<'_>) {
        self.whole.apply(time_ms, view);
        if self.own_from > 0 && seq >= self.own_from {
            self.own.apply(time_ms, view);
        }
    }

    /// The figures of the whole log, and of the own part.
    pub(crate) fn stats(&self) -> (Stats, Stats) {
        let whole = self.whole.stats();
        (whole, if self.own_from > 0 { self.own.stats() } else { whole })
    }
}
