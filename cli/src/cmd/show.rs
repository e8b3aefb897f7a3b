//! `show`: one event with what it cites, what it shadows, and what shadows it.
//!
//! # Invariants
//! Sh1. Whether an event is on the surface is told as of now, by the fold of all surface events.

use everlog::{Event, Session, SurfaceOp};

use super::log_line::{numbers, object};
use crate::args::{Globals, Shape};
use crate::args_read::Show;
use crate::exit::Failure;
use crate::naming::{self, Position};
use crate::out::Out;
use crate::text::{self, Style};
use crate::{find, json_text, summary, time, width};

/// Cited and shadowed events that are described; the rest is counted.
const DESCRIBED_MAX: usize = 20;
const PIPE_COLUMNS: usize = 200;

/// What the surface says of an event.
struct Relations {
    class: &'static str,
    shadows: Vec<u64>,
    shadowed_by: Option<u64>,
}

pub(crate) fn run(globals: &Globals, args: &Show) -> Result<(), Failure> {
    let (store, _) = find::open_read(globals)?;
    let (session, position) = match (&args.id, &args.target) {
        (Some(id), _) => (naming::session_by_id(&store, id)?, args.seq.map(Position::One)),
        (None, Some(target)) => naming::target(&store, target)?,
        (None, None) => return Err(Failure::usage("no event is named")),
    };
    let one = match position {
        Some(position @ Position::One(_)) => position.seqs(session.next_seq())?,
        _ => return Err(Failure::usage("one event is shown at a time: write SESSION@SEQ")),
    };
    let (seq, _) = one.ok_or_else(|| Failure::usage("no event is named"))?;
    let event = session.read(seq)?;
    let relations = relations(&session, &event)?;
    let shape = super::shape_or_default(args.output);
    if matches!(shape, Shape::Json | Shape::Jsonl) {
        let mut out = Out::new();
        out.line(as_json(&session, &event, &relations))?;
        return out.finish();
    }
    let style = Style::for_stdout(globals.color);
    let mut page = Page { out: Out::paged(globals), style, aligned: shape == Shape::Table };
    page.print(&session, &event, &relations)?;
    page.out.finish()
}

fn relations(session: &Session, event: &Event) -> Result<Relations, Failure> {
    let (mut shadows, mut shadowed_by) = (Vec::new(), None);
    if event.surface_op.is_none() {
        return Ok(Relations { class: "log-only", shadows, shadowed_by });
    }
    session.surface_steps(u64::MAX, &mut |step, plan| {
        if step.seq == event.seq {
            shadows.extend_from_slice(plan.shadowed());
        } else if plan.shadowed().contains(&event.seq) {
            shadowed_by = Some(step.seq);
        }
    })?;
    let class = if shadowed_by.is_some() { "shadowed" } else { "current" };
    Ok(Relations { class, shadows, shadowed_by })
}

fn as_json(session: &Session, event: &Event, relations: &Relations) -> Vec<u8> {
    object(session.id().as_bytes(), event)
        .text("surface", relations.class)
        .raw("cites", &numbers(event.sources.as_deref().unwrap_or_default()))
        .raw("shadows", &numbers(&relations.shadows))
        .maybe_number("shadowedBy", relations.shadowed_by)
        .end()
}

/// The page for people.
struct Page {
    out: Out,
    style: Style,
    /// Columns and lines of data, not tabs and one line.
    aligned: bool,
}

impl Page {
    fn print(
        &mut self,
        session: &Session,
        event: &Event,
        relations: &Relations,
    ) -> Result<(), Failure> {
        let mut when = time::machine(event.time_ms);
        if self.aligned {
            when = format!("{} ({when})", time::local(event.time_ms));
        }
        self.fact("session", &text::line(session.id().as_bytes()))?;
        self.fact("seq", &event.seq.to_string())?;
        self.fact("time", &when)?;
        let event_type = text::line(&event.event_type);
        let event_type = self.style.event_type(&event.event_type, &event_type);
        self.fact("type", &event_type)?;
        if event.ignorable {
            self.fact("ignorable", "true")?;
        }
        self.fact("surface", relations.class)?;
        if let Some(op) = event.surface_op {
            let shown = match op {
                SurfaceOp::Append => "append".to_owned(),
                SurfaceOp::Replace { start, end } => format!("replace {start}..{end}"),
            };
            self.fact("op", &shown)?;
        }
        self.events("cites", session, event.sources.as_deref().unwrap_or_default())?;
        self.events("shadows", session, &relations.shadows)?;
        self.events("shadowed by", session, relations.shadowed_by.as_slice())?;
        self.data(event)
    }

    fn fact(&mut self, name: &str, value: &str) -> Result<(), Failure> {
        let line = if self.aligned {
            format!("{} {value}", self.style.head(&format!("{name:<11}")))
        } else {
            format!("{name}\t{value}")
        };
        self.out.line(line)
    }

    /// Other events, one a line: seq, type and what they say.
    fn events(&mut self, name: &str, session: &Session, seqs: &[u64]) -> Result<(), Failure> {
        let columns = width::of_stdout().unwrap_or(PIPE_COLUMNS).saturating_sub(44).max(20);
        for seq in seqs.iter().take(DESCRIBED_MAX) {
            // An event that is damaged does not hide the one that was asked for.
            let said = match session.read(*seq) {
                Ok(e) => {
                    let event_type = width::cut(&e.event_type, 24);
                    let said = width::cut(&summary::of(&e.event_type, &e.data), columns);
                    (event_type, said)
                }
                Err(e) => ("unreadable".to_owned(), Failure::from(e).to_line()),
            };
            let line = if self.aligned {
                format!("{seq:<7} {:<24} {}", said.0, said.1)
            } else {
                format!("{seq}\t{}\t{}", said.0, said.1)
            };
            self.fact(name, line.trim_end())?;
        }
        match seqs.len().checked_sub(DESCRIBED_MAX + 1) {
            Some(more) => self.fact(name, &format!("and {} more (-o json has all)", more + 1)),
            None => Ok(()),
        }
    }

    fn data(&mut self, event: &Event) -> Result<(), Failure> {
        if !self.aligned {
            self.out.put(b"data\t")?;
            return self.out.line(json_text::compact(&event.data));
        }
        let head = self.style.head("data");
        self.out.line(head)?;
        for line in json_text::pretty(&event.data).split(|b| *b == b'\n') {
            self.out.put(b"  ")?;
            self.out.line(line)?;
        }
        Ok(())
    }
}
