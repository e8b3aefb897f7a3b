//! `ps`: who writes now, and what they wait for.

use everlog::HeldSession;

use crate::args::{Globals, Shape};
use crate::args_read::Ps;
use crate::exit::Failure;
use crate::json_out::{Object, array};
use crate::out::Out;
use crate::state::{Call, Now};
use crate::table::Table;
use crate::text::{self, Style};
use crate::{find, time, width};

pub(crate) fn run(globals: &Globals, args: &Ps) -> Result<(), Failure> {
    let (store, _) = find::open_read(globals)?;
    let mut rows = Vec::new();
    let mut damaged = None;
    for held in store.held_sessions()? {
        let now = store.session(&held.id).map_err(Failure::from).and_then(|s| Now::of(&s));
        match now {
            Ok(now) => rows.push((held, now)),
            // Who holds it is known all the same.
            Err(failure) if !failure.is_stop() => {
                let now = Now { last: None, turn: None, calls: Vec::new() };
                damaged = Some(failure);
                rows.push((held, now));
            }
            Err(stop) => return Err(stop),
        }
    }
    let shape = super::shape_or_default(args.output);
    let mut out = if shape == Shape::Table { Out::paged(globals) } else { Out::new() };
    match shape {
        Shape::Json => out.line(array(rows.iter().map(|(h, n)| object(h, n))))?,
        Shape::Jsonl => rows.iter().try_for_each(|(h, n)| out.line(object(h, n)))?,
        _ if globals.quiet => {
            rows.iter().try_for_each(|(h, _)| out.line(text::line(h.id.as_bytes())))?;
        }
        Shape::Text => rows.iter().try_for_each(|(h, n)| out.line(cells(h, n, None).join("\t")))?,
        Shape::Table => table(&rows, Style::for_stdout(globals.color))
            .iter()
            .try_for_each(|line| out.line(line))?,
    }
    out.finish()?;
    damaged.map_or(Ok(()), Err)
}

fn table(rows: &[(HeldSession, Now)], style: Style) -> Vec<String> {
    let clock = time::now_ms();
    let names =
        ["SESSION", ">PID", "HOST", "LABEL", "SINCE", ">LAST", "TYPE", ">TURN", "WAITS FOR"];
    let mut table = Table::new(&names);
    for (held, now) in rows {
        table.row(cells(held, now, Some(clock)));
    }
    table.lines(style, width::of_stdout())
}

/// Session, pid, host, label, since, seq and type of the last event, open turn, names of pending calls.
fn cells(held: &HeldSession, now: &Now, clock_ms: Option<i64>) -> Vec<String> {
    let h = &held.holder;
    let since = match clock_ms {
        Some(clock) => time::relative(h.since_ms, clock),
        None => time::machine(h.since_ms),
    };
    let calls: Vec<String> = now.calls.iter().map(|c| text::line(&c.name)).collect();
    vec![
        text::line(held.id.as_bytes()),
        if h.pid == 0 { String::new() } else { h.pid.to_string() },
        text::line(h.host.as_bytes()),
        text::line(h.label.as_bytes()),
        since,
        now.last.as_ref().map(|e| e.seq.to_string()).unwrap_or_default(),
        now.last.as_ref().map(|e| text::line(&e.event_type)).unwrap_or_default(),
        now.turn.map(|t| t.to_string()).unwrap_or_default(),
        calls.join(", "),
    ]
}

fn object(held: &HeldSession, now: &Now) -> Vec<u8> {
    let h = &held.holder;
    let mut object = Object::new()
        .text("session", held.id.as_bytes())
        .number("pid", u64::from(h.pid))
        .text("host", &h.host)
        .text("label", &h.label)
        .time("since", h.since_ms);
    if let Some(e) = &now.last {
        let last = Object::nested()
            .number("seq", e.seq)
            .text("type", &e.event_type)
            .time("time", e.time_ms);
        object = object.raw("lastEvent", &last.end());
    }
    if let Some(turn) = now.turn {
        object = object.raw("openTurn", turn.to_string().as_bytes());
    }
    object.raw("pendingToolCalls", &array(now.calls.iter().map(call))).end()
}

fn call(call: &Call) -> Vec<u8> {
    Object::nested()
        .text("callId", &call.id)
        .text("name", &call.name)
        .maybe_number("seq", call.seq)
        .end()
}
