//! `append`: events from standard input, or one from the command line.
//!
//! # Invariants
//! N1. A receipt is printed after its event reached the level, never before.
//! N2. Lines that wait together share one write and one sync. When one of them is refused, those before it stay, and
//!     nothing after it is looked at.
//! N3. With `--atomic` everything is one batch.

use everlog::{
    Error, ErrorKind, Level, NewEvent, NewSession, Receipt, SessionId, SessionWriter, Store, limits,
};

use crate::append_line::{Line, Lines, parse_event_line};
use crate::args::{Append, AppendLevel, Globals};
use crate::exit::{CONFLICT, FAILED, Failure};
use crate::json_out::Object;
use crate::out::Out;
use crate::stdin::Blocks;
use crate::{find, naming, signal};

/// Events of one frame where nobody asks for more: what damage or a single read concerns stays small.
const BATCH_EVENTS: usize = 256;
/// Most bytes of the lines of an atomic batch; the store judges the events themselves.
const ATOMIC_BYTES_MAX: usize = 2 * limits::BATCH_BYTES_MAX;

pub(crate) fn run(globals: &Globals, args: &Append) -> Result<(), Failure> {
    let (store, _) = find::open_write(globals, "everlog append")?;
    let done = with_store(&store, globals, args);
    let closed = store.close().map_err(Failure::from);
    done.and(closed)
}

fn with_store(store: &Store, globals: &Globals, args: &Append) -> Result<(), Failure> {
    let writer = open_session(store, args)?;
    let level = match args.level {
        AppendLevel::Buffered => Level::Buffered,
        AppendLevel::Os => Level::Os,
        AppendLevel::Sync => Level::Sync,
    };
    let id = writer.id().clone();
    let mut appender =
        Appender { writer, id, level, quiet: globals.quiet, out: Out::new(), last: None };
    let mut done = appender.check_next(args.expect_seq);
    if done.is_ok() {
        done = appender.feed(args);
    }
    if let Err(failure) = &done {
        appender.refuse(failure)?;
    }
    appender.show_last()?;
    appender.out.finish()?;
    let closed = appender.writer.close().map_err(Failure::from);
    done.and(closed)
}

fn open_session(store: &Store, args: &Append) -> Result<SessionWriter, Failure> {
    let Some(name) = args.id.as_ref().or(args.session.as_ref()) else {
        return Err(Failure::usage("no session is named"));
    };
    if !args.create {
        let id = match &args.id {
            Some(id) => naming::session_by_id(store, id)?.id().clone(),
            None => naming::session(store, name)?.id().clone(),
        };
        return Ok(store.writer(&id)?);
    }
    let id = naming::new_id(name)?;
    match store.writer(&id) {
        Err(e) if e.kind() == ErrorKind::NotFound => {}
        found => return Ok(found?),
    }
    match store.create_session(&NewSession::with_id(id.clone())) {
        // Somebody else was faster.
        Err(e) if e.kind() == ErrorKind::Exists => {
            store.refresh()?;
            Ok(store.writer(&id)?)
        }
        created => Ok(created?),
    }
}

struct Appender {
    writer: SessionWriter,
    id: SessionId,
    level: Level,
    quiet: bool,
    out: Out,
    last: Option<Vec<u8>>,
}

impl Appender {
    /// Refuses when the next seq is not `seq`. The session lock is held, so it stays so until the first append.
    fn check_next(&self, seq: Option<u64>) -> Result<(), Failure> {
        let next = self.writer.next_seq();
        match seq {
            Some(seq) if seq != next => {
                let message = format!("--expect-seq {seq} is not the next seq");
                let failure = Failure::new(CONFLICT, "conflict", message).with_expected(next);
                Err(failure.with_session(self.id.as_bytes()))
            }
            _ => Ok(()),
        }
    }

    fn feed(&mut self, args: &Append) -> Result<(), Failure> {
        if let (Some(event_type), Some(data)) = (&args.event_type, &args.data) {
            let mut event = NewEvent::new("", data.as_encoded_bytes());
            event.event_type = event_type.as_encoded_bytes().into();
            let receipt = self.writer.append_batch(&[event], self.level)?;
            return self.show(&receipt);
        }
        let blocks = Blocks::start().map_err(|e| {
            Failure::new(FAILED, "io", format!("start to read standard input: {e}"))
        })?;
        let mut lines = Lines::new(blocks);
        if args.atomic {
            return self.atomic(&mut lines);
        }
        loop {
            let group = lines.group()?;
            if group.is_empty() {
                return Ok(());
            }
            self.append(&group)?;
            self.out.finish()?;
            signal::check()?;
        }
    }

    /// Appends the lines up to the first that is refused, and prints their receipts.
    fn append(&mut self, group: &[Line]) -> Result<(), Failure> {
        let (mut events, mut refused) = (Vec::with_capacity(group.len()), None);
        for line in group {
            match parse_event_line(line) {
                Ok(event) => events.push(event),
                Err(failure) => {
                    refused = Some(failure);
                    break;
                }
            }
        }
        let (mut receipts, mut earlier) = (Vec::new(), None);
        for (lines, events) in group.chunks(BATCH_EVENTS).zip(events.chunks(BATCH_EVENTS)) {
            if let Err(failure) = self.stage(lines, events, &mut receipts) {
                earlier = Some(failure);
                break;
            }
        }
        if let Some(last) = receipts.last() {
            last.wait(self.level)?; // N1
        }
        receipts.iter().try_for_each(|receipt| self.show(receipt))?;
        earlier.or(refused).map_or(Ok(()), Err)
    }

    /// Hands events to the store, as one batch or, when that is refused, one by one (N2).
    fn stage(
        &mut self,
        lines: &[Line],
        events: &[NewEvent],
        receipts: &mut Vec<Receipt>,
    ) -> Result<(), Failure> {
        match self.writer.append_batch(events, Level::Buffered) {
            Ok(receipt) => {
                receipts.push(receipt);
                return Ok(());
            }
            Err(e) if is_refusal(&e) && events.len() > 1 => {}
            Err(e) => return Err(at_line(e, lines, self.writer.next_seq())),
        }
        for (line, event) in lines.iter().zip(events) {
            let receipt = self.writer.append_batch(std::slice::from_ref(event), Level::Buffered);
            receipts.push(receipt.map_err(|e| Failure::from(e).with_line(line.number))?);
        }
        Ok(())
    }

    fn atomic(&mut self, lines: &mut Lines) -> Result<(), Failure> {
        let (mut events, mut numbers, mut held) = (Vec::new(), Vec::new(), 0);
        loop {
            let group = lines.group()?;
            if group.is_empty() {
                break;
            }
            for line in &group {
                held += line.bytes.len();
                if held > ATOMIC_BYTES_MAX || events.len() == limits::BATCH_EVENTS_MAX {
                    let message = format!(
                        "an atomic batch holds at most {} events and {ATOMIC_BYTES_MAX} bytes",
                        limits::BATCH_EVENTS_MAX
                    );
                    return Err(Failure::new(FAILED, "limit", message).with_line(line.number));
                }
                events.push(parse_event_line(line)?);
                numbers.push(Line { number: line.number, bytes: Vec::new() });
            }
        }
        if events.is_empty() {
            return Ok(());
        }
        let next = self.writer.next_seq();
        let receipt = self.writer.append_batch(&events, self.level);
        let receipt = receipt.map_err(|e| at_line(e, &numbers, next))?;
        let (first, last) = (receipt.first_seq(), receipt.last_seq());
        let object = Object::new().text("session", self.id.as_bytes()).number("seq", last);
        let object = object.number("first", first).number("last", last);
        self.out.line(object.text("level", self.level.name()).end())
    }

    fn show(&mut self, receipt: &Receipt) -> Result<(), Failure> {
        for seq in receipt.first_seq()..=receipt.last_seq() {
            let object = Object::new().text("session", self.id.as_bytes()).number("seq", seq);
            let line = object.text("level", self.level.name()).end();
            if self.quiet {
                self.last = Some(line);
            } else {
                self.out.line(line)?;
            }
        }
        Ok(())
    }

    fn show_last(&mut self) -> Result<(), Failure> {
        self.last.take().map_or(Ok(()), |line| self.out.line(line))
    }

    /// Says on standard output that nothing more was appended, and why.
    fn refuse(&mut self, failure: &Failure) -> Result<(), Failure> {
        if failure.is_stop() {
            return Ok(());
        }
        self.show_last()?;
        let object = Object::new().flag("ok", false).maybe_number("line", failure.line());
        self.out.line(object.raw("error", &failure.to_json()).end())
    }
}

/// Whether a batch was refused for what it holds, so that a part of it may still be good.
fn is_refusal(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Limit)
}

/// Names the line of a refused batch: the error's seq counts from the batch's first, `next`.
fn at_line(error: Error, lines: &[Line], next: u64) -> Failure {
    let index = match (error.seq(), lines) {
        (_, [_]) => Some(0),
        (Some(seq), _) => seq.checked_sub(next).and_then(|i| usize::try_from(i).ok()),
        (None, _) => None,
    };
    let line = index.and_then(|i| lines.get(i)).map(|l| l.number);
    let failure = Failure::from(error);
    line.map_or_else(|| failure.clone(), |n| failure.clone().with_line(n))
}
