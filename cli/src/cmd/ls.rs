//! `ls`: sessions, newest first.

use std::cmp::Reverse;

use everlog::SessionInfo;

use crate::args::{Globals, Ls, Shape, SortBy};
use crate::exit::Failure;
use crate::json_out::{Object, array};
use crate::out::Out;
use crate::table::Table;
use crate::{find, naming, text, time};

pub(crate) fn run(globals: &Globals, args: &Ls) -> Result<(), Failure> {
    let since = args.since.as_deref().map(|t| when("--since", t)).transpose()?;
    let until = args.until.as_deref().map(|t| when("--until", t)).transpose()?;
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
    let mut out = Out::new();
    print(&mut out, globals, args, &sessions)?;
    out.finish()?;
    if store.damage_met() > 0 {
        let json = matches!(args.output, Some(Shape::Json | Shape::Jsonl));
        find::may_miss_sessions().tell("warning", json);
    }
    Ok(())
}

fn when(flag: &str, text: &str) -> Result<i64, Failure> {
    time::parse(text).map_err(|why| Failure::usage(format!("{flag} {text}: {why}")))
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

fn print(
    out: &mut Out,
    globals: &Globals,
    args: &Ls,
    sessions: &[SessionInfo],
) -> Result<(), Failure> {
    match super::shape_or_default(args.output) {
        Shape::Json => out.line(array(sessions.iter().map(object))),
        Shape::Jsonl => sessions.iter().try_for_each(|s| out.line(object(s))),
        _ if globals.quiet => {
            sessions.iter().try_for_each(|s| out.line(text::line(s.id.as_bytes())))
        }
        Shape::Text => sessions.iter().try_for_each(|s| out.line(tabbed(s))),
        Shape::Table => {
            let now = time::now_ms();
            let mut table = Table::new(&["SESSION", ">EVENTS", ">SIZE", "UPDATED", "CWD"]);
            for s in sessions {
                table.row(vec![
                    text::line(s.id.as_bytes()),
                    text::count(s.events),
                    text::size(s.bytes),
                    time::relative(s.updated_ms, now),
                    s.cwd.as_ref().map(|c| text::line(c)).unwrap_or_default(),
                ]);
            }
            let style = text::Style::for_stdout(globals.color);
            table.lines(style).iter().try_for_each(|line| out.line(line))
        }
    }
}

fn object(s: &SessionInfo) -> Vec<u8> {
    Object::new()
        .text("session", s.id.as_bytes())
        .time("createdAt", s.created_ms)
        .time("updatedAt", s.updated_ms)
        .number("events", s.events)
        .number("bytes", s.bytes)
        .maybe_text("cwd", s.cwd.as_ref())
        .maybe_text("parentSession", s.parent_session.as_ref())
        .maybe_number("seedLength", s.seed_length)
        .end()
}

/// Session, events, bytes, update time and working folder.
fn tabbed(s: &SessionInfo) -> String {
    let updated = time::rfc3339(s.updated_ms).unwrap_or_else(|| s.updated_ms.to_string());
    let cwd = s.cwd.as_ref().map(|c| text::line(c)).unwrap_or_default();
    format!("{}\t{}\t{}\t{updated}\t{cwd}", text::line(s.id.as_bytes()), s.events, s.bytes)
}
