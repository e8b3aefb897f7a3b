//! `stats`: turns, steps, tokens and times of a session, or of all of them with each event counted once.
//!
//! # Invariants
//! Ss1. In a sum a fork adds what it does not share with a parent that is in the store.

use std::collections::HashSet;

use everlog::{ContextFigures, SessionStats, Stats, Store};

use super::view;
use crate::args::{Globals, Shape};
use crate::args_view::Stats as StatsArgs;
use crate::exit::{Failure, PARTLY};
use crate::json_out::Object;
use crate::out::Out;
use crate::{find, naming, signal, text};

pub(crate) fn run(globals: &Globals, args: &StatsArgs) -> Result<(), Failure> {
    let (store, _) = find::open_read(globals)?;
    let session = match (&args.id, &args.session) {
        (Some(id), _) => naming::session_by_id(&store, id)?,
        (None, Some(name)) => naming::session(&store, name)?,
        (None, None) => return all(&store, args),
    };
    let of = session.view(view::options(args.how))?;
    let stats = of.stats()?;
    let mut out = Out::new();
    match args.output {
        Some(Shape::Json | Shape::Jsonl) => {
            out.line(object(session.id().as_bytes(), &stats))?;
        }
        _ => {
            print(&mut out, &stats.whole)?;
            if let Some(context) = &stats.context {
                print_context(&mut out, context)?;
            }
        }
    }
    out.finish()?;
    view::missing(&of)
}

fn all(store: &Store, args: &StatsArgs) -> Result<(), Failure> {
    let sessions = store.sessions()?;
    let ids: HashSet<&[u8]> = sessions.iter().map(|s| s.id.as_bytes()).collect();
    let (mut sum, mut refused) = (Stats::default(), Vec::new());
    for info in &sessions {
        signal::check()?;
        let shares = info.parent_session.as_deref().is_some_and(|parent| ids.contains(parent));
        let stats = store
            .session(&info.id)
            .and_then(|session| session.view(view::options(args.how)))
            .and_then(|of| of.stats());
        match stats {
            Ok(stats) => sum.add(if shares { &stats.own } else { &stats.whole }),
            Err(e) => refused.push((info.id.as_bytes().to_vec(), e)),
        }
    }
    let counted = (sessions.len() - refused.len()) as u64;
    let mut out = Out::new();
    match args.output {
        Some(Shape::Json | Shape::Jsonl) => {
            out.line(figures(Object::new().number("sessions", counted), &sum).end())?;
        }
        _ => {
            out.line(format!("sessions\t{}", text::count(counted)))?;
            print(&mut out, &sum)?;
        }
    }
    out.finish()?;
    match refused.into_iter().next() {
        None => Ok(()),
        Some((id, e)) => Err(Failure::from(e).with_code(PARTLY).with_session(&id)),
    }
}

/// A number as JSON has it: whole ones without a point.
fn number(value: f64) -> Vec<u8> {
    // Rust writes the shortest digits that read back, never an exponent.
    format!("{value}").into_bytes()
}

fn figures(object: Object, stats: &Stats) -> Object {
    let t = &stats.tokens;
    object
        .number("turns", stats.turns)
        .number("steps", stats.steps)
        .number("events", stats.events)
        .number("messages", stats.messages)
        .number("toolCalls", stats.tool_calls)
        .raw("inputTokens", &number(t.input))
        .raw("outputTokens", &number(t.output))
        .raw("cacheReadTokens", &number(t.cache_read))
        .raw("cacheWriteTokens", &number(t.cache_write))
        .number("llmMs", stats.llm_ms)
        .number("toolMs", stats.tool_ms)
        .number("ttftMs", stats.ttft_ms)
        .number("ttftSteps", stats.ttft_steps)
        .number("decodeMs", stats.decode_ms)
        .raw("decodeTokens", &number(stats.decode_tokens))
}

fn object(id: &[u8], stats: &SessionStats) -> Vec<u8> {
    let object = figures(Object::new().text("session", id), &stats.whole);
    let object = object.raw("own", &figures(Object::nested(), &stats.own).end());
    match &stats.context {
        None => object.end(),
        Some(c) => {
            let mut inner = Object::nested();
            for (key, value) in [
                ("pressureTokens", c.pressure_tokens),
                ("contextWindow", c.context_window),
                ("projectedTokens", c.projected_tokens),
                ("systemTokens", Some(c.system_tokens)),
                ("toolsTokens", Some(c.tools_tokens)),
                ("messageTokens", Some(c.message_tokens)),
            ] {
                if let Some(value) = value {
                    inner = inner.raw(key, &number(value));
                }
            }
            object.raw("context", &inner.end()).end()
        }
    }
}

fn print(out: &mut Out, stats: &Stats) -> Result<(), Failure> {
    let t = &stats.tokens;
    let tokens = |value: f64| text::count(value as u64);
    let rows = [
        ("turns", text::count(stats.turns)),
        ("steps", text::count(stats.steps)),
        ("events", text::count(stats.events)),
        ("messages", text::count(stats.messages)),
        ("tool calls", text::count(stats.tool_calls)),
        ("input tokens", tokens(t.input)),
        ("output tokens", tokens(t.output)),
        ("cache read tokens", tokens(t.cache_read)),
        ("cache write tokens", tokens(t.cache_write)),
        ("model ms", text::count(stats.llm_ms)),
        ("tool ms", text::count(stats.tool_ms)),
        ("first token ms", text::count(stats.ttft_ms)),
        ("decode ms", text::count(stats.decode_ms)),
    ];
    rows.iter().try_for_each(|(name, value)| out.line(format!("{name}\t{value}")))
}

fn print_context(out: &mut Out, context: &ContextFigures) -> Result<(), Failure> {
    let rows = [
        ("context tokens", context.pressure_tokens),
        ("context window", context.context_window),
        ("projected tokens", context.projected_tokens),
    ];
    for (name, value) in rows {
        if let Some(value) = value {
            out.line(format!("{name}\t{}", text::count(value as u64)))?;
        }
    }
    Ok(())
}
