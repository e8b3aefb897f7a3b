//! `ls`: sessions, newest first.
//!
//! # Invariants
//! Li1. What is not shown costs nothing but its header: states and messages are looked up for the rows that are printed.

use std::cmp::Reverse;

use everlog::data::elements;
use everlog::{SessionInfo, Store};

use crate::args::{Globals, Ls, Shape, SortBy};
use crate::exit::Failure;
use crate::json_out::Object;
use crate::out::Out;
use crate::state::States;
use crate::table::Table;
use crate::{find, naming, signal, summary, text, time, width};

pub(crate) fn run(globals: &Globals, args: &Ls) -> Result<(), Failure> {
    let since = time::flag("--since", args.since.as_deref())?;
    let until = time::flag("--until", args.until.as_deref())?;
    let (store, _) = find::open_read(globals)?;
    let mut sessions = store.sessions()?;
    sessions.retain(|s| {
        since.is_none_or(|t| s.updated_ms >= t)
            && until.is_none_or(|t| s.updated_ms <= t)
            && args.parent.as_ref().is_none_or(|name| {
                s.parent_session.as_ref().is_some_and(|id| naming::names_parent(name, id))
            })
    });
    sort(&mut sessions, args.sort);
    sessions.truncate(args.count.unwrap_or(usize::MAX));
    let shape = super::shape_or_default(args.output);
    let mut rows = Rows { states: States::of(&store)?, store, failure: None };
    let mut out = if shape == Shape::Table { Out::paged(globals) } else { Out::new() };
    rows.print(&mut out, globals, shape, &sessions)?;
    out.finish()?;
    if rows.store.damage_met() > 0 {
        let json = matches!(args.output, Some(Shape::Json | Shape::Jsonl));
        find::may_miss_sessions().tell("warning", json);
    }
    rows.failure.map_or(Ok(()), Err)
}

/// Newest or largest first; ids from the first on. Equal sessions stand in the order of their ids.
fn sort(sessions: &mut [SessionInfo], by: SortBy) {
    sessions.sort_by(|a, b| a.id.cmp(&b.id));
    match by {
        SortBy::Updated => sessions.sort_by_key(|s| Reverse(s.updated_ms)),
        SortBy::Created => sessions.sort_by_key(|s| Reverse(s.created_ms)),
        SortBy::Events => sessions.sort_by_key(|s| Reverse(s.events)),
        SortBy::Bytes => sessions.sort_by_key(|s| Reverse(s.bytes)),
        SortBy::Id => {}
    }
}

/// What is looked up for the rows that are shown.
struct Rows {
    store: Store,
    states: States,
    /// The last failure to read a session: the others are shown first.
    failure: Option<Failure>,
}

impl Rows {
    fn print(
        &mut self,
        out: &mut Out,
        globals: &Globals,
        shape: Shape,
        sessions: &[SessionInfo],
    ) -> Result<(), Failure> {
        if globals.quiet && matches!(shape, Shape::Table | Shape::Text) {
            return sessions.iter().try_for_each(|s| out.line(text::line(s.id.as_bytes())));
        }
        let style = text::Style::for_stdout(globals.color);
        let now = time::now_ms();
        let names = ["SESSION", "STATE", ">EVENTS", ">SIZE", "UPDATED", "CWD"];
        let mut table = Table::new(&names).with_paint(1, text::Style::state);
        for (i, s) in sessions.iter().enumerate() {
            signal::check()?;
            let state = self.state(s).unwrap_or("");
            match shape {
                Shape::Json => {
                    out.put(if i == 0 { b"[" } else { b"," })?;
                    out.put(&object(s, state, self.messages(s)))?;
                }
                Shape::Jsonl => out.line(object(s, state, self.messages(s)))?,
                Shape::Text => out.line(tabbed(s, state))?,
                Shape::Table => table.row(vec![
                    text::line(s.id.as_bytes()),
                    state.to_owned(),
                    text::count(s.events),
                    text::size(s.bytes),
                    time::relative(s.updated_ms, now),
                    s.cwd.as_ref().map(|c| text::line(c)).unwrap_or_default(),
                ]),
            }
        }
        match shape {
            Shape::Json => out.line(if sessions.is_empty() { "[]" } else { "]" }),
            Shape::Table => {
                table.lines(style, width::of_stdout()).iter().try_for_each(|line| out.line(line))
            }
            _ => Ok(()),
        }
    }

    /// The state, or nothing where damage hides it.
    fn state(&mut self, s: &SessionInfo) -> Option<&'static str> {
        let state =
            self.store.session(&s.id).map_err(Failure::from).and_then(|x| self.states.state(&x));
        state.map_err(|failure| self.failure = Some(failure)).ok()
    }

    /// Messages that the model sees: nodes of the surface, but for assistant messages without content.
    fn messages(&mut self, s: &SessionInfo) -> Option<u64> {
        let count = || {
            let session = self.store.session(&s.id)?;
            let mut empty = Vec::new();
            let surface = session.surface_steps(u64::MAX, &mut |event, _| {
                let content = summary::message_content(event.data);
                let none = content.is_some_and(|c| elements(c).next().is_none());
                if event.event_type == b"assistant/message" && none {
                    empty.push(event.seq);
                }
            })?;
            let hidden = empty.iter().filter(|seq| surface.contains(**seq)).count();
            everlog::Result::Ok((surface.len() - hidden) as u64)
        };
        count().map_err(|e| self.failure = Some(e.into())).ok()
    }
}

fn object(s: &SessionInfo, state: &str, messages: Option<u64>) -> Vec<u8> {
    Object::new()
        .text("session", s.id.as_bytes())
        .maybe_text("state", Some(state).filter(|state| !state.is_empty()))
        .time("createdAt", s.created_ms)
        .time("updatedAt", s.updated_ms)
        .number("events", s.events)
        .maybe_number("messages", messages)
        .number("bytes", s.bytes)
        .maybe_text("cwd", s.cwd.as_ref())
        .maybe_text("parentSession", s.parent_session.as_ref())
        .maybe_number("seedLength", s.seed_length)
        .end()
}

/// Session, events, bytes, update time, working folder and state.
fn tabbed(s: &SessionInfo, state: &str) -> String {
    let cwd = s.cwd.as_ref().map(|c| text::line(c)).unwrap_or_default();
    let (id, updated) = (text::line(s.id.as_bytes()), time::machine(s.updated_ms));
    format!("{id}\t{}\t{}\t{updated}\t{cwd}\t{state}", s.events, s.bytes)
}
