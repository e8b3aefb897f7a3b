//! What was issued, what was acked, and whether what a store answers can be the outcome of that.
//!
//! 1. The tape only grows; a prefix of it is what was known at one moment of the run.
//! 2. Of a session at least what was acked at a level that the crash spares is there, at most what was issued, equal
//!    byte for byte, and whole calls only (C1 to C4).
//! 3. What one writer handle issued survives as a prefix, over all its sessions (C3).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use everlog::{Event, Level, NewEvent, SurfaceOp};

/// One event as it was issued.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ev {
    pub event_type: String,
    pub data: Vec<u8>,
    /// Unix milliseconds, where the caller named it.
    pub time_ms: Option<i64>,
    pub surface_op: Option<SurfaceOp>,
    pub sources: Option<Vec<u64>>,
}

impl Ev {
    pub fn note(data: Vec<u8>, time_ms: Option<i64>) -> Arc<Self> {
        let event_type = "note".to_owned();
        Arc::new(Self { event_type, data, time_ms, surface_op: None, sources: None })
    }

    pub fn as_new(&self) -> NewEvent<'_> {
        let mut event = NewEvent::new(&self.event_type, &self.data);
        event.time_ms = self.time_ms;
        event
    }

    fn differs(&self, got: &Event) -> bool {
        got.event_type[..] != *self.event_type.as_bytes()
            || got.data[..] != self.data[..]
            || self.time_ms.is_some_and(|t| t != got.time_ms)
            || got.surface_op != self.surface_op
            || got.sources.as_deref() != self.sources.as_deref()
    }
}

/// Something that happened between the test and the store.
#[derive(Clone, Debug)]
pub enum Note {
    /// `Store::create` returned.
    StoreMade,
    /// A session is about to be created.
    Create(String),
    /// It was: it survives the process.
    Created(String),
    /// Events are about to be appended, in one call, by that handle.
    Issue(String, Vec<Arc<Ev>>, u32),
    /// All events of the session below this seq have reached the level.
    Ack(String, usize, Level),
    /// Everything that this handle appended has reached the level.
    AckHandle(u32, Level),
    /// An append failed with nothing accepted: the session ends at this seq again.
    Withdraw(String, usize),
    /// A write or sync failed: what readers see before the next recovery is what was durable.
    Failed,
    /// An import of a whole session is about to begin.
    Import(String, Vec<Arc<Ev>>),
    /// It returned.
    Imported(String),
    /// The session is not there, and need not be; its id is free.
    Gone(String),
    /// A session is about to be forked from another one, with so many of its events.
    Fork(String, String, usize),
    /// Another handle took the session: what it found is durable, and the rest is gone for good.
    Adopt(String, usize),
}

/// Which crash an image comes from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Spares {
    /// The page cache is there: `os` and `sync` survive.
    Cache,
    /// Only the disk is: `sync` survives.
    Disk,
}

#[derive(Clone, Debug)]
struct Call {
    end: usize,
    ordinal: u64,
    handle: u32,
}

/// What is known of one session.
#[derive(Clone, Debug, Default)]
pub struct Sess {
    pub events: Vec<Arc<Ev>>,
    calls: Vec<Call>,
    os: usize,
    sync: usize,
    made_os: bool,
    made_sync: bool,
    imported: bool,
}

impl Sess {
    /// Events that a crash of that kind leaves.
    pub fn need(&self, spares: Spares) -> usize {
        if spares == Spares::Cache { self.os.max(self.sync) } else { self.sync }
    }

    fn must_exist(&self, spares: Spares) -> bool {
        self.made_sync || (self.made_os && spares == Spares::Cache)
    }

    fn ack(&mut self, upto: usize, level: Level) {
        if level >= Level::Os {
            self.os = self.os.max(upto);
            self.made_os = true;
        }
        if level == Level::Sync {
            self.sync = self.sync.max(upto);
            self.made_sync = true;
        }
    }
}

/// What is known at one moment.
#[derive(Clone, Debug, Default)]
pub struct State {
    pub store_made: bool,
    /// Whether a writer failed.
    pub failed: bool,
    pub sessions: BTreeMap<String, Sess>,
    ordinal: u64,
}

/// What a store answers: the events of each session.
pub type Answers = BTreeMap<String, Vec<Event>>;

impl State {
    pub fn apply(&mut self, note: &Note) {
        match note {
            Note::StoreMade => self.store_made = true,
            Note::Create(id) => {
                self.sessions.entry(id.clone()).or_default();
            }
            Note::Created(id) => self.session(id).ack(0, Level::Os),
            Note::Issue(id, events, handle) => {
                self.ordinal += 1;
                let (ordinal, handle) = (self.ordinal, *handle);
                let s = self.session(id);
                s.events.extend(events.iter().cloned());
                s.calls.push(Call { end: s.events.len(), ordinal, handle });
            }
            Note::Ack(id, upto, level) => self.session(id).ack(*upto, *level),
            Note::AckHandle(handle, level) => {
                for s in self.sessions.values_mut() {
                    let mine = s.calls.iter().rev().find(|c| c.handle == *handle).map(|c| c.end);
                    if let Some(end) = mine {
                        s.ack(end, *level);
                    }
                }
            }
            Note::Failed => self.failed = true,
            Note::Withdraw(id, end) => {
                let s = self.session(id);
                s.events.truncate(*end);
                s.calls.retain(|c| c.end <= *end);
            }
            Note::Import(id, events) => {
                let s = self.session(id);
                s.events = events.clone();
                s.imported = true;
            }
            Note::Imported(id) => {
                let s = self.session(id);
                let end = s.events.len();
                s.ack(end, Level::Sync);
            }
            Note::Gone(id) => {
                self.sessions.remove(id);
            }
            Note::Fork(child, parent, upto) => {
                let mut shared = self.session(parent).events.clone();
                shared.truncate(*upto);
                let s = self.session(child);
                s.calls.push(Call { end: shared.len(), ordinal: 0, handle: u32::MAX });
                s.events = shared;
            }
            Note::Adopt(id, count) => {
                let s = self.session(id);
                s.events.truncate(*count);
                s.calls.retain(|c| c.end <= *count);
                s.ack(*count, Level::Sync);
                s.imported = false;
                s.calls.push(Call { end: *count, ordinal: 0, handle: u32::MAX });
            }
        }
    }

    /// The state after a crash: what it does not spare is promised no longer.
    pub fn after(mut self, spares: Spares) -> Self {
        if spares == Spares::Disk {
            for s in self.sessions.values_mut() {
                (s.os, s.made_os) = (s.sync, s.made_sync);
            }
        }
        self
    }

    fn session(&mut self, id: &str) -> &mut Sess {
        self.sessions.entry(id.to_owned()).or_default()
    }

    /// Whether `count` events of a session can be what a crash left.
    pub fn judge_count(&self, id: &str, count: usize, spares: Spares) -> Result<(), String> {
        let Some(s) = self.sessions.get(id) else {
            return Err(format!("C2: session {id:?} was never created"));
        };
        let need = s.need(spares);
        if count < need {
            return Err(format!(
                "C1: session {id:?} has {count} events, {need} were acked ({spares:?} survives)"
            ));
        }
        if count > s.events.len() {
            return Err(format!(
                "C2: session {id:?} has {count} events, only {} were issued",
                s.events.len()
            ));
        }
        let whole = (count == 0 && !s.imported)
            || s.calls.iter().any(|c| c.end == count)
            || (s.imported && count == s.events.len());
        if !whole {
            return Err(format!("C4: session {id:?} ends at {count}, inside a batch or import"));
        }
        Ok(())
    }

    /// Whether the answers of a store can be what a crash left.
    pub fn judge(&self, answers: &Answers, spares: Spares) -> Result<(), String> {
        for (id, got) in answers {
            self.judge_count(id, got.len(), spares)?;
            let s = &self.sessions[id];
            for (i, (want, got)) in s.events.iter().zip(got).enumerate() {
                if got.seq != i as u64 {
                    return Err(format!("C3: session {id:?} has seq {} at place {i}", got.seq));
                }
                if want.differs(got) {
                    return Err(format!(
                        "C2: session {id:?} event {i} is not what was issued: {} bytes {:?}.., \
                         issued {} bytes {:?}..",
                        got.data.len(),
                        String::from_utf8_lossy(&got.data[..got.data.len().min(60)]),
                        want.data.len(),
                        String::from_utf8_lossy(&want.data[..want.data.len().min(60)]),
                    ));
                }
            }
        }
        for (id, s) in &self.sessions {
            if !answers.contains_key(id) && s.must_exist(spares) {
                return Err(format!("C1: session {id:?} is gone ({spares:?} survives)"));
            }
        }
        self.judge_order(answers)
    }

    /// What a handle issued later is not there without what it issued before.
    fn judge_order(&self, answers: &Answers) -> Result<(), String> {
        let count = |id: &str| answers.get(id).map_or(0, Vec::len);
        let mut last: BTreeMap<u32, u64> = BTreeMap::new();
        for (id, s) in &self.sessions {
            for c in s.calls.iter().filter(|c| c.end <= count(id)) {
                let newest = last.entry(c.handle).or_default();
                *newest = (*newest).max(c.ordinal);
            }
        }
        for (id, s) in &self.sessions {
            for c in s.calls.iter().filter(|c| c.end > count(id)) {
                if last.get(&c.handle).is_some_and(|l| *l > c.ordinal) {
                    return Err(format!(
                        "C3: events of {id:?} up to {} are gone, later ones of the same writer are there",
                        c.end
                    ));
                }
            }
        }
        Ok(())
    }
}

/// The notes of a run, shared with the hooks that look at it.
#[derive(Clone, Debug, Default)]
pub struct Tape(Arc<Mutex<Vec<Note>>>);

impl Tape {
    pub fn note(&self, note: Note) {
        self.0.lock().unwrap().push(note);
    }

    pub fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// Brings a state that knows `*from` notes up to `upto` notes.
    pub fn advance(&self, state: &mut State, from: &mut usize, upto: usize) {
        let notes = self.0.lock().unwrap();
        for note in &notes[*from..upto] {
            state.apply(note);
        }
        *from = upto;
    }
}
