//! A run of a workload on a simulated machine: every call goes through here, so that the tape knows of it.
//!
//! 1. An error of a machine that is down, or of a process that was killed, ends the process's part of the workload.
//! 2. Any other error that the workload did not ask for is a violation.

use std::path::Path;
use std::sync::Arc;

use everlog::{
    Error, ErrorKind, ForkOptions, ImportOptions, Level, NewEvent, NewSession, SessionId,
    SessionWriter, Store, StoreOptions,
};
use everlog_testkit::rng::Rng;
use everlog_testkit::sim::{SimMachine, SimProcess, is_down, is_killed};

use super::model::{Ev, Note, Spares, State, Tape};

pub const STORE: &str = "/data/store";

/// Why a workload ended early.
#[derive(Debug)]
pub enum Stop {
    /// The machine is down.
    Down,
    /// The process was killed.
    Killed,
    /// Something that must not be; read when the run is shown.
    Wrong(#[expect(dead_code, reason = "shown by Debug")] String),
}

pub type Step<T = ()> = Result<T, Stop>;

/// A store handle with its number on the tape.
pub struct Handle {
    pub store: Store,
    pub no: u32,
}

/// A session that is being written.
pub struct Writing {
    pub id: String,
    pub writer: SessionWriter,
    pub handle: u32,
}

/// One run.
pub struct Run {
    pub machine: SimMachine,
    pub tape: Tape,
    pub rng: Rng,
    pub options: StoreOptions,
    /// What was known before the run, for recoveries.
    pub before: State,
    handles: u32,
    texts: u64,
    calls: u64,
}

/// Sorts an error into an end of the run or a violation.
pub fn stop(what: &str, err: &Error) -> Stop {
    if is_down(err) {
        Stop::Down
    } else if is_killed(err) {
        Stop::Killed
    } else {
        Stop::Wrong(format!("{what} failed: {err:?}"))
    }
}

pub fn session_id(id: &str) -> SessionId {
    SessionId::new(id).unwrap()
}

impl Run {
    pub fn new(machine: SimMachine, seed: u64, options: StoreOptions) -> Self {
        Self {
            machine,
            tape: Tape::default(),
            rng: Rng::new(seed),
            options,
            before: State::default(),
            handles: 0,
            texts: seed % 1_000_000 * 1_000,
            calls: 0,
        }
    }

    /// What is known now.
    pub fn state(&self) -> State {
        let mut state = self.before.clone();
        self.tape.advance(&mut state, &mut 0, self.tape.len());
        state
    }

    pub fn process(&self, name: &str) -> SimProcess {
        self.machine.process(name)
    }

    pub fn handle(&mut self, store: Store) -> Handle {
        self.handles += 1;
        // Handles of a recovery are others than those of the run before.
        let no =
            self.handles + if self.before.store_made { (self.rng.seed() as u32) << 8 } else { 0 };
        Handle { store, no }
    }

    pub fn create(&mut self, process: &SimProcess) -> Step<Handle> {
        let vfs = Arc::new(process.clone());
        let store = Store::create_on(vfs, Path::new(STORE), self.options.clone())
            .map_err(|e| stop("create", &e))?;
        self.tape.note(Note::StoreMade);
        Ok(self.handle(store))
    }

    pub fn open(&mut self, process: &SimProcess) -> Step<Handle> {
        let vfs = Arc::new(process.clone());
        let store = Store::open_on(vfs, Path::new(STORE), self.options.clone())
            .map_err(|e| stop("open", &e))?;
        Ok(self.handle(store))
    }

    /// Data that no other event has: JSON of about `len` bytes.
    pub fn text(&mut self, len: usize) -> Vec<u8> {
        self.texts += 1;
        let mut out = format!("{{\"n\":{},\"pad\":\"", self.texts).into_bytes();
        let mut word = self.rng.next_u64();
        while out.len() + 2 < len {
            word = word.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(self.texts);
            out.extend_from_slice(format!("{:08x}", word >> 32).as_bytes());
        }
        out.extend_from_slice(b"\"}");
        out
    }

    /// Data of a stream chunk that no other event has, some with more behind its text.
    fn chunk(&mut self, len: usize) -> Vec<u8> {
        let text = String::from_utf8(self.text(len)).unwrap().replace('"', "\\\"");
        let more = if self.texts % 5 == 4 { ",\"last\":true" } else { "" };
        let chunk = format!("{{\"type\":\"text-delta\",\"index\":0,\"text\":\"{text}\"{more}}}");
        format!("{{\"turn\":1,\"step\":1,\"chunk\":{chunk}}}").into_bytes()
    }

    /// `count` events of up to `len` bytes; every second call makes stream chunks, which are stored in columns.
    pub fn events(&mut self, count: usize, len: usize) -> Vec<Arc<Ev>> {
        self.calls += 1;
        let stream = self.calls.is_multiple_of(2);
        (0..count)
            .map(|_| {
                let len = self.rng.index(len.max(1));
                let time = self.rng.chance(1, 3).then(|| 1_700_000_000_000 + len as i64);
                let data = if stream { self.chunk(len / 2) } else { self.text(len) };
                Ev::note(data, time)
            })
            .collect()
    }

    pub fn level(&mut self) -> Level {
        [Level::Buffered, Level::Os, Level::Sync][self.rng.index(3)]
    }

    pub fn create_session(&mut self, handle: &Handle, id: &str) -> Step<Writing> {
        self.tape.note(Note::Create(id.to_owned()));
        let new = NewSession::new(id).unwrap().with_cwd("/work");
        let writer = handle.store.create_session(&new).map_err(|e| stop("create_session", &e))?;
        self.tape.note(Note::Created(id.to_owned()));
        Ok(Writing { id: id.to_owned(), writer, handle: handle.no })
    }

    /// Takes a session from another handle.
    pub fn take(&mut self, handle: &Handle, id: &str) -> Step<Writing> {
        let writer = handle.store.writer(&session_id(id)).map_err(|e| stop("writer", &e))?;
        let count = writer.next_seq() as usize;
        self.state().judge_count(id, count, Spares::Cache).map_err(Stop::Wrong)?;
        Ok(self.adopt(handle, id, writer))
    }

    pub fn adopt(&mut self, handle: &Handle, id: &str, writer: SessionWriter) -> Writing {
        self.tape.note(Note::Adopt(id.to_owned(), writer.next_seq() as usize));
        Writing { id: id.to_owned(), writer, handle: handle.no }
    }

    /// Makes a session whose id another may have made; takes it when it is there.
    pub fn create_or_take(&mut self, handle: &Handle, id: &str) -> Step<Writing> {
        self.tape.note(Note::Create(id.to_owned()));
        match handle.store.create_session(&NewSession::new(id).unwrap()) {
            Ok(writer) => {
                self.tape.note(Note::Created(id.to_owned()));
                Ok(Writing { id: id.to_owned(), writer, handle: handle.no })
            }
            Err(e) if e.kind() == ErrorKind::Exists => self.take(handle, id),
            Err(e) => Err(stop("create_session", &e)),
        }
    }

    /// Forks a session behind an event, unless that is not to be seen or not durable yet, where that may be so.
    pub fn fork(
        &mut self,
        handle: &Handle,
        (parent, boundary): (&str, u64),
        child: &str,
        may_wait: bool,
    ) -> Step<Option<Writing>> {
        let shared = boundary as usize + 1;
        self.tape.note(Note::Fork(child.to_owned(), parent.to_owned(), shared));
        let mark = Ev {
            event_type: "session/end-seed".to_owned(),
            data: b"{}".to_vec(),
            time_ms: None,
            surface_op: None,
            sources: None,
        };
        // What ends with the mark is not marked again.
        let known = self.state().sessions[child].events.last().is_some_and(|e| **e == mark);
        if !known {
            self.tape.note(Note::Issue(child.to_owned(), vec![Arc::new(mark)], handle.no));
        }
        let all = shared + usize::from(!known);
        let options = ForkOptions::default().with_boundary(boundary);
        match handle.store.fork(&session_id(parent), &session_id(child), options) {
            Ok(writer) => {
                self.tape.note(Note::Ack(child.to_owned(), all, Level::Os));
                Ok(Some(Writing { id: child.to_owned(), writer, handle: handle.no }))
            }
            Err(e) if may_wait && matches!(e.kind(), ErrorKind::Locked | ErrorKind::Invalid) => {
                self.tape.note(Note::Gone(child.to_owned()));
                Ok(None)
            }
            Err(e) => Err(stop("fork", &e)),
        }
    }

    pub fn upkeep(&mut self, handle: &Handle) -> Step {
        handle.store.upkeep().map_err(|e| stop("upkeep", &e))
    }

    /// Lets the write-behind bound pass: what was appended is durable then.
    pub fn quiet(&mut self, handle: &Handle) -> Step {
        self.machine.advance_ms(10_000);
        self.upkeep(handle)?;
        self.tape.note(Note::AckHandle(handle.no, Level::Sync));
        Ok(())
    }

    /// Goes on when the process was killed, as the others on the machine do.
    pub fn outlive(&mut self, step: Step) -> Step {
        match step {
            Err(Stop::Killed) => Ok(()),
            other => other,
        }
    }

    pub fn append(&mut self, w: &mut Writing, events: Vec<Arc<Ev>>, level: Level) -> Step {
        let first = w.writer.next_seq();
        let count = events.len() as u64;
        self.tape.note(Note::Issue(w.id.clone(), events.clone(), w.handle));
        let new: Vec<NewEvent<'_>> = events.iter().map(|e| e.as_new()).collect();
        let receipt = w.writer.append_batch(&new, level).map_err(|e| stop("append", &e))?;
        self.tape.note(Note::Ack(w.id.clone(), (first + count) as usize, level));
        if (receipt.first_seq(), receipt.last_seq()) != (first, first + count - 1) {
            return Err(Stop::Wrong(format!(
                "the receipt says {}..={}, {first} + {count} were due",
                receipt.first_seq(),
                receipt.last_seq()
            )));
        }
        if level == Level::Buffered && self.rng.chance(1, 4) {
            receipt.wait(Level::Os).map_err(|e| stop("wait", &e))?;
            self.tape.note(Note::Ack(w.id.clone(), (first + count) as usize, Level::Os));
        }
        if level == Level::Os && self.rng.chance(1, 6) {
            receipt.wait(Level::Sync).map_err(|e| stop("wait", &e))?;
            self.tape.note(Note::Ack(w.id.clone(), (first + count) as usize, Level::Sync));
        }
        Ok(())
    }

    pub fn sync(&mut self, handle: &Handle) -> Step {
        handle.store.sync().map_err(|e| stop("sync", &e))?;
        self.tape.note(Note::AckHandle(handle.no, Level::Sync));
        Ok(())
    }

    pub fn let_go(&mut self, w: Writing) -> Step {
        let (id, upto) = (w.id, w.writer.next_seq() as usize);
        w.writer.close().map_err(|e| stop("close of a session", &e))?;
        self.tape.note(Note::Ack(id, upto, Level::Sync));
        Ok(())
    }

    pub fn close(&mut self, handle: Handle) -> Step {
        let no = handle.no;
        handle.store.close().map_err(|e| stop("close", &e))?;
        self.tape.note(Note::AckHandle(no, Level::Sync));
        Ok(())
    }

    pub fn import(&mut self, handle: &Handle, id: &str, log: &[u8], events: &[Arc<Ev>]) -> Step {
        self.tape.note(Note::Import(id.to_owned(), events.to_vec()));
        let report = handle
            .store
            .import_dsh(log, &ImportOptions::default(), &mut |_| true)
            .map_err(|e| stop("import", &e))?;
        self.tape.note(Note::Imported(id.to_owned()));
        if (report.session.as_str(), report.stored) != (Some(id), events.len() as u64) {
            return Err(Stop::Wrong(format!("the import reports {report:?}")));
        }
        Ok(())
    }
}
