//! `cat`: exact events, one canonical JSON line each, without a header.
//!
//! # Invariants
//! D1. What is whole is printed, in order; every seq that is not is named on standard error, with exit code 12.

use everlog::dsh::write_event;
use everlog::{Error, ErrorKind, Session};

use super::follow::{self, Plan};
use crate::args::{Cat, Globals};
use crate::exit::{DAMAGE, Failure};
use crate::naming::{self, Position};
use crate::out::Out;
use crate::text::Style;
use crate::{find, signal};

/// Ranges of missing seqs that a message names; the rest is counted.
const RANGES_SHOWN: usize = 100;

pub(crate) fn run(globals: &Globals, args: &Cat) -> Result<(), Failure> {
    if args.seq.is_some() && args.id.is_none() {
        return Err(Failure::usage("--seq goes with --id; write SESSION@SEQ instead"));
    }
    let (store, _) = find::open_read(globals)?;
    let (session, position) = match (&args.id, &args.target) {
        (Some(id), _) => (naming::session_by_id(&store, id)?, args.seq.map(Position::One)),
        (None, Some(target)) => naming::target(&store, target)?,
        (None, None) => return Err(Failure::usage("no session is named")),
    };
    let position = position.unwrap_or(Position::Range(0, None));
    if args.follow || args.durable {
        if !args.follow {
            // An event that is not there is an error, when it is not waited for.
            position.seqs(session.next_seq())?;
        }
        let (first, last) = position.followed(session.next_seq())?;
        let plan = Plan { first, last, wait: args.follow, durable: args.durable };
        return follow::run(&session, &plan, Style::for_stderr(globals.color));
    }
    let mut printer =
        Printer { session: &session, out: Out::new(), line: Vec::new(), missing: Vec::new() };
    if let Some((first, last)) = position.seqs(session.next_seq())? {
        let copied = printer.copy(first, last);
        printer.out.finish()?;
        copied?;
    }
    match printer.missing.as_slice() {
        [] => Ok(()),
        missing => Err(damaged(missing).with_session(session.id().as_bytes())),
    }
}

/// The failure that names what could not be read.
pub(super) fn damaged(missing: &[(u64, u64)]) -> Failure {
    let events: u64 = missing.iter().map(|(first, last)| last - first + 1).sum();
    let mut shown = Vec::new();
    for (first, last) in missing.iter().take(RANGES_SHOWN) {
        shown.push(if first == last { first.to_string() } else { format!("{first}..{last}") });
    }
    if let Some(more) = missing.len().checked_sub(RANGES_SHOWN + 1) {
        shown.push(format!("and {} ranges more", more + 1));
    }
    let message = format!("{events} events are damaged and left out: seqs {}", shown.join(", "));
    Failure::new(DAMAGE, "corrupt", message).with_hint("run `everlog check` to see all damage")
}

struct Printer<'a> {
    session: &'a Session,
    out: Out,
    line: Vec<u8>,
    missing: Vec<(u64, u64)>,
}

impl Printer<'_> {
    fn copy(&mut self, first: u64, last: u64) -> Result<(), Failure> {
        let mut next = first;
        while next <= last {
            next = self.stretch(next, last)?;
            if next <= last {
                next = self.step_over(next, last)?;
            }
        }
        Ok(())
    }

    /// Prints from `first` on and returns the seq after the last one printed; damage ends the stretch.
    fn stretch(&mut self, first: u64, last: u64) -> Result<u64, Failure> {
        let (mut next, mut stop) = (first, None);
        let (out, line) = (&mut self.out, &mut self.line);
        let read = self.session.for_each(first, last, &mut |event| {
            line.clear();
            write_event(line, event)?;
            if let Err(failure) = signal::check().and_then(|()| out.put(line)) {
                stop = Some(failure);
                return Err(Error::from_io("standard output", &std::io::Error::other("stopped")));
            }
            next = event.seq + 1;
            Ok(())
        });
        match (stop, read) {
            (Some(failure), _) => Err(failure),
            (None, Ok(())) => Ok(last + 1),
            (None, Err(e)) if is_damage(&e) => Ok(next),
            (None, Err(e)) => Err(e.into()),
        }
    }

    /// Looks at single events from `first` on, until one is whole: prints it and returns the seq after it.
    fn step_over(&mut self, first: u64, last: u64) -> Result<u64, Failure> {
        for seq in first..=last {
            signal::check()?;
            match self.session.read(seq) {
                Ok(event) => {
                    self.line.clear();
                    write_event(&mut self.line, &event.as_ref())?;
                    self.out.put(&self.line)?;
                    return Ok(seq + 1);
                }
                Err(e) if is_damage(&e) => self.miss(seq),
                Err(e) => return Err(e.into()),
            }
        }
        Ok(last + 1)
    }

    fn miss(&mut self, seq: u64) {
        match self.missing.last_mut() {
            Some((_, last)) if *last + 1 == seq => *last = seq,
            _ => self.missing.push((seq, seq)),
        }
    }
}

/// Whether an error speaks of stored events, so that others can be read all the same.
pub(crate) fn is_damage(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Diverged)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d1_missing_seqs_are_named() {
        let line = damaged(&[(3, 3), (7, 9)]).to_line();
        assert_eq!(line, "4 events are damaged and left out: seqs 3, 7..9");
    }
}
