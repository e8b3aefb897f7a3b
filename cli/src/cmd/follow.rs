//! Following a session: events as they are appended, until a signal, a closed pipe or the end of the range.
//!
//! # Invariants
//! F1. What was printed reaches the operating system before anything is waited for.
//! F2. Damage is told when it is met; what comes behind it is printed all the same, and the exit code is 12.

use std::io::Write;
use std::time::Duration;

use everlog::dsh::write_event;
use everlog::{Event, Follow, FollowOptions, Session};

use super::cat::{damaged, is_damage};
use crate::exit::Failure;
use crate::out::Out;
use crate::signal;
use crate::text::Style;

/// Longest wait before signals and standard output are looked at.
const PATIENCE: Duration = Duration::from_millis(50);

/// What is followed, and how.
pub(crate) struct Plan {
    /// First seq.
    pub(crate) first: u64,
    /// Last seq; without one, until a signal.
    pub(crate) last: Option<u64>,
    /// Whether events that are not there yet are waited for.
    pub(crate) wait: bool,
    /// Only what a power loss cannot undo.
    pub(crate) durable: bool,
}

/// Looks that find nothing before the end is believed: a hole is damage only when it stays.
const LAST_LOOKS: u32 = 3;

/// Prints the events of a plan.
pub(crate) fn run(session: &Session, plan: &Plan, style: Style) -> Result<(), Failure> {
    let options = FollowOptions { durable: plan.durable, ..FollowOptions::default() };
    let mut printer = Printer {
        follow: session.follow(plan.first, options)?,
        out: Out::new(),
        line: Vec::new(),
        next: plan.first,
        style,
        missing: Vec::new(),
    };
    let done = printer.print(plan);
    // A failure of the flush says nothing that the first one does not.
    let flushed = printer.out.finish();
    done.and(flushed)?;
    match printer.missing.as_slice() {
        [] => Ok(()),
        missing => Err(damaged(missing).with_session(session.id().as_bytes())),
    }
}

struct Printer {
    follow: Follow,
    out: Out,
    line: Vec<u8>,
    /// Seq that is due.
    next: u64,
    style: Style,
    missing: Vec<(u64, u64)>,
}

impl Printer {
    fn print(&mut self, plan: &Plan) -> Result<(), Failure> {
        let mut in_vain = 0;
        while plan.last.is_none_or(|last| self.next <= last) {
            signal::check()?;
            match self.follow.try_next() {
                Ok(Some(event)) => {
                    in_vain = 0;
                    self.event(&event, plan)?;
                }
                Ok(None) if plan.wait => self.wait(plan)?,
                Ok(None) if in_vain == LAST_LOOKS => return Ok(()),
                Ok(None) => in_vain += 1,
                Err(e) if is_damage(&e) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    fn wait(&mut self, plan: &Plan) -> Result<(), Failure> {
        self.out.finish()?; // F1
        if self.out.is_closed() {
            return Err(Failure::closed_pipe());
        }
        match self.follow.next_timeout(PATIENCE) {
            Ok(Some(event)) => self.event(&event, plan),
            Ok(None) => Ok(()),
            Err(e) if is_damage(&e) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    fn event(&mut self, event: &Event, plan: &Plan) -> Result<(), Failure> {
        if event.seq > self.next {
            let gap = (self.next, event.seq - 1);
            self.missing.push(gap);
            let told = damaged(&[gap]).to_line();
            // There is no other place to say that standard error is gone.
            writeln!(std::io::stderr(), "{} {told}", self.style.error("warning:")).ok();
        }
        self.next = event.seq + 1;
        if plan.last.is_some_and(|last| event.seq > last) {
            return Ok(());
        }
        self.line.clear();
        write_event(&mut self.line, &event.as_ref())?;
        self.out.put(&self.line)
    }
}
