//! `fork`: a child that shares the events of its parent.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use everlog::{Error, ErrorKind, ForkOptions, SessionId};

use crate::args::{Globals, Shape};
use crate::args_view::Fork;
use crate::exit::Failure;
use crate::json_out::Object;
use crate::naming::{self, Position};
use crate::out::Out;
use crate::{find, text};

pub(crate) fn run(globals: &Globals, args: &Fork) -> Result<(), Failure> {
    let (store, _) = find::open_write(globals, "fork")?;
    let (parent, position) = naming::target(&store, &args.target)?;
    let mut options = ForkOptions::default();
    options = match position {
        None => options,
        Some(Position::One(seq)) => options.with_boundary(seq),
        Some(_) => return Err(Failure::usage("a fork takes one event, not a range")),
    };
    if args.close {
        options = options.with_close();
    }
    let child = match &args.new {
        Some(name) => naming::new_id(name)?,
        None => fresh_id()?,
    };
    let boundary = match position {
        Some(Position::One(seq)) => Some(seq),
        _ => parent.next_seq().checked_sub(1),
    };
    let writer = store.fork(parent.id(), &child, options).map_err(refused)?;
    writer.close()?;
    let mut out = Out::new();
    match args.output {
        Some(Shape::Json | Shape::Jsonl) => out.line(
            Object::new()
                .text("session", child.as_bytes())
                .text("parentSession", parent.id().as_bytes())
                .number("seedLength", boundary.map_or(0, |b| b + 1))
                .maybe_number("boundary", boundary)
                .end(),
        )?,
        _ => out.line(text::line(child.as_bytes()))?,
    }
    out.finish()
}

fn refused(error: Error) -> Failure {
    let boundary = error.kind() == ErrorKind::Invalid && error.field() == Some("boundary");
    let hint = (error.kind() == ErrorKind::OpenTurn)
        .then_some("`--close` forks all the same, and closes the turn in the child");
    let mut failure = Failure::from(error);
    if boundary {
        failure = failure.with_kind("invalid-boundary");
    }
    match hint {
        Some(hint) => failure.with_hint(hint),
        None => failure,
    }
}

/// An id that nobody has: 128 random bits.
fn fresh_id() -> Result<SessionId, Failure> {
    // Each state has keys of its own from the operating system.
    let random = || RandomState::new().hash_one(std::process::id());
    Ok(SessionId::new(&format!("session-{:016x}{:016x}", random(), random()))?)
}
