//! Token figures: what was charged, and how full the model's context is (dsh-spec.md section 12.4).
//!
//! # Invariants
//! Tk1. A later sample of the step that was sampled last replaces that sample; another step adds.
//! Tk2. A replacement moves the estimate only by the claim of the compaction event right before it.

use crate::error::{Error, Result};
use crate::event::SurfaceOp;
use crate::json;
use crate::types::Seq;

use super::estimate;
use super::field::{Label, amount, at, is, members};
use super::message::message_in;
use super::modern::View;

/// Tokens as the provider counted them. The three kinds of input exclude each other; reasoning is part of the output.
///
/// ```
/// let none = everlog::TokenTotals::default();
/// assert_eq!((none.input, none.output, none.cache_read, none.cache_write), (0.0, 0.0, 0.0, 0.0));
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct TokenTotals {
    /// Input that no cache had.
    pub input: f64,
    /// Output.
    pub output: f64,
    /// Input read from a cache.
    pub cache_read: f64,
    /// Input written to a cache.
    pub cache_write: f64,
}

impl TokenTotals {
    fn of(usage: &[u8]) -> Self {
        let keys: [&[u8]; 4] =
            [b"inputTokens", b"outputTokens", b"cacheReadTokens", b"cacheWriteTokens"];
        let [input, output, cache_read, cache_write] =
            members(usage, keys).map(|value| amount(value).unwrap_or(0.0));
        Self { input, output, cache_read, cache_write }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.input += other.input;
        self.output += other.output;
        self.cache_read += other.cache_read;
        self.cache_write += other.cache_write;
    }
}

/// Sums of samples.
#[derive(Clone, Default, Debug)]
pub(crate) struct Totals {
    /// Without the newest sample.
    settled: TokenTotals,
    newest: Option<(Label, Label, TokenTotals)>,
}

impl Totals {
    /// Takes a sample of a step in.
    pub(crate) fn sample(
        &mut self,
        turn: Option<&[u8]>,
        step: Option<&[u8]>,
        usage: Option<&[u8]>,
    ) {
        let Some(usage) = usage.filter(|usage| json::is_object(usage)) else { return };
        let (turn, step) = (Label::of(turn), Label::of(step));
        let same = |(t, s, _): &(Label, Label, TokenTotals)| *t == turn && *s == step;
        if !self.newest.as_ref().is_some_and(same) {
            self.settled = self.sums();
        }
        self.newest = Some((turn, step, TokenTotals::of(usage)));
    }

    pub(crate) fn sums(&self) -> TokenTotals {
        let mut sums = self.settled;
        if let Some((_, _, newest)) = &self.newest {
            sums.add(newest);
        }
        sums
    }
}

/// How full the context of the model is, by its own samples and by an estimate of four characters a token.
///
/// ```
/// let empty = everlog::ContextFigures::default();
/// assert_eq!((empty.pressure_tokens, empty.context_window, empty.message_tokens), (None, None, 0.0));
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct ContextFigures {
    /// All input of the latest sample.
    pub pressure_tokens: Option<f64>,
    /// Size of the window, as the latest `request/context` has it.
    pub context_window: Option<f64>,
    /// Input that the next request will have, from that sample and what was added since.
    pub projected_tokens: Option<f64>,
    /// Estimate of the system prompt of the latest header.
    pub system_tokens: f64,
    /// Estimate of the tools of the latest header.
    pub tools_tokens: f64,
    /// Estimate of the messages on the surface.
    pub message_tokens: f64,
}

/// What a compaction event says that the next replacement takes away.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Claim {
    start: Option<i64>,
    end: Option<i64>,
    tokens: f64,
}

/// The fold behind [`ContextFigures`].
#[derive(Clone, Default, Debug)]
pub(crate) struct ContextFold {
    figures: ContextFigures,
    /// `message_tokens` when the latest sample was taken, without the event that carried it.
    at_sample: f64,
    claim: Option<Claim>,
}

impl ContextFold {
    /// The figures so far.
    pub(crate) fn figures(&self) -> ContextFigures {
        let grown = self.figures.message_tokens - self.at_sample;
        let projected_tokens = self.figures.pressure_tokens.map(|p| (p + grown).max(0.0));
        ContextFigures { projected_tokens, ..self.figures }
    }

    /// Takes the next event in.
    ///
    /// # Errors
    /// `Invalid` when a replacement covers another range than the compaction event before it says.
    pub(crate) fn apply(&mut self, seq: Seq, op: Option<SurfaceOp>, view: &View<'_>) -> Result<()> {
        let claim = self.claim.take();
        let data = &*view.data;
        match view.event_type {
            b"request/header" => {
                let header = json::member(data, b"header").unwrap_or_default();
                let [system, tools] = members(header, [b"system", b"tools"]);
                self.figures.system_tokens = estimate::system(system);
                self.figures.tools_tokens = estimate::tools(tools);
            }
            b"request/context" => {
                self.figures.context_window = amount(json::member(data, b"contextWindow"));
            }
            b"assistant/chunk" => {
                let chunk = json::member(data, b"chunk").unwrap_or_default();
                let [kind, usage] = members(chunk, [b"type", b"usage"]);
                self.sample(usage.filter(|_| is(kind, b"usage")));
            }
            b"compaction/summary" | b"compaction/prune" => {
                let [range, tokens] = members(data, [b"shadowedRange", b"shadowedTokenCount"]);
                let [start, end] = members(range.unwrap_or_default(), [b"start", b"end"]);
                let seq = |value: Option<&[u8]>| value.and_then(json::safe_integer);
                let tokens = amount(tokens).unwrap_or(0.0);
                self.claim = Some(Claim { start: seq(start), end: seq(end), tokens });
            }
            _ => {}
        }
        let Some(op) = op else { return Ok(()) };
        self.sample(at(data, &[b"usage"]).filter(|_| view.event_type.starts_with(b"assistant/")));
        let price = || message_in(view.event_type, data).map_or(0.0, estimate::message);
        match (op, claim) {
            (SurfaceOp::Append, _) => self.figures.message_tokens += price(),
            (SurfaceOp::Replace { .. }, None) => {}
            (SurfaceOp::Replace { start, end }, Some(claim)) => {
                let bound = |n: Option<i64>| n.and_then(|n| Seq::try_from(n).ok());
                if (bound(claim.start), bound(claim.end)) != (Some(start), Some(end)) {
                    let what = "it covers another range than the compaction event before it says";
                    return Err(Error::invalid("surfaceOp", what).with_seq(seq));
                }
                self.figures.message_tokens += price() - claim.tokens;
            }
        }
        Ok(())
    }

    fn sample(&mut self, usage: Option<&[u8]>) {
        let Some(usage) = usage.filter(|usage| json::is_object(usage)) else { return };
        let t = TokenTotals::of(usage);
        self.figures.pressure_tokens = Some(t.input + t.cache_read + t.cache_write);
        self.at_sample = self.figures.message_tokens;
    }
}
