//! What is done with an image: read it, recover it, append to it, crash it again, and judge every answer.
//!
//! 1. Readers judge an image before any recovery: they see no less and no more than what is promised.
//! 2. A recovery is a run like any other: its acks are promises to the crash that follows.
//! 3. No image that only a crash made is damaged: `check`, the reports of recoveries and the oracle agree on that.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use everlog::{CheckOptions, ErrorKind, NewSession, Store};
use everlog_testkit::oracle::{self, FindingKind};
use everlog_testkit::sim::{SimMachine, SimProcess};

use super::model::{Answers, Note, Spares, State};
use super::run::{Handle, Run, STORE, Step, Stop, Writing, session_id, stop};

/// All that a store answers.
pub fn answers(store: &Store) -> Step<Answers> {
    store.refresh().map_err(|e| stop("refresh", &e))?;
    let mut out = Answers::new();
    for info in store.sessions().map_err(|e| stop("sessions", &e))? {
        let id = info.id.as_str().unwrap_or("?").to_owned();
        let session = store.session(&info.id).map_err(|e| stop("session", &e))?;
        let events = session.iter().collect::<everlog::Result<Vec<_>>>();
        let events = events.map_err(|e| stop("read", &e))?;
        if events.len() as u64 != info.events {
            let wrong = format!("{id:?} lists {} events, has {}", info.events, events.len());
            return Err(Stop::Wrong(wrong));
        }
        if out.insert(id.clone(), events).is_some() {
            return Err(Stop::Wrong(format!("two sessions are named {id:?}")));
        }
    }
    Ok(out)
}

fn wrong(what: &str) -> impl Fn(String) -> Stop {
    move |e| Stop::Wrong(format!("{what}: {e}"))
}

/// Whether `check` finds no damage, nor any recovery did.
pub fn undamaged(store: &Store) -> Step {
    let report =
        store.check(&CheckOptions::default(), &mut |_, _| true).map_err(|e| stop("check", &e))?;
    if let Some(damage) = report.damage.first() {
        return Err(Stop::Wrong(format!("check reports damage after a crash: {damage:?}")));
    }
    for line in store.recoveries().map_err(|e| stop("recoveries", &e))? {
        if !line.contains("\"damage\":[]") {
            return Err(Stop::Wrong(format!("a recovery reports damage after a crash: {line}")));
        }
    }
    Ok(())
}

/// Reads an image that nobody has recovered yet.
fn read_first(run: &mut Run, process: &SimProcess, spares: Spares) -> Step {
    let options = run.options.clone().with_read_only();
    let store = match Store::open_on(Arc::new(process.clone()), Path::new(STORE), options) {
        Ok(store) => store,
        Err(e) if e.kind() == ErrorKind::NotFound && !run.before.store_made => return Ok(()),
        Err(e) => return Err(stop("read-only open", &e)),
    };
    let got = answers(&store)?;
    let spares = if run.before.failed { Spares::Disk } else { spares };
    run.before.judge(&got, spares).map_err(wrong("a reader before recovery"))?;
    if run.rng.chance(1, 3) { undamaged(&store) } else { Ok(()) }
}

fn open_or_create(run: &mut Run, process: &SimProcess) -> Step<Handle> {
    if run.before.store_made {
        return run.open(process);
    }
    let vfs = Arc::new(process.clone());
    match Store::open_on(vfs, Path::new(STORE), run.options.clone()) {
        Err(e) if e.kind() == ErrorKind::NotFound => run.create(process),
        Err(e) => Err(stop("open", &e)),
        Ok(store) => {
            drop(store);
            run.open(process)
        }
    }
}

/// Recovers an image by writing to it: takes every session, makes what is not there, appends at every level.
pub fn recover(run: &mut Run, spares: Spares) -> Step {
    if run.rng.chance(1, 2) {
        let process = run.process("reader");
        read_first(run, &process, spares)?;
    }
    let process = run.process("recovery");
    let handle = open_or_create(run, &process)?;
    let mut ids: Vec<String> = run.before.sessions.keys().cloned().collect();
    run.rng.shuffle(&mut ids);
    let probe = format!("probe-{:x}", run.rng.next_u64());
    ids.insert(run.rng.index(ids.len() + 1), probe);
    let mut writing: Vec<Writing> = Vec::new();
    for id in &ids {
        match handle.store.writer(&session_id(id)) {
            Ok(writer) => {
                let count = writer.next_seq() as usize;
                run.before.judge_count(id, count, spares).map_err(wrong("after recovery"))?;
                writing.push(run.adopt(&handle, id, writer));
            }
            Err(e) if e.kind() == ErrorKind::NotFound => {
                let none = Answers::new();
                let known = run.before.sessions.get(id).cloned();
                let mut state = State::default();
                state.sessions.extend(known.map(|s| (id.clone(), s)));
                state.judge(&none, spares).map_err(wrong("after recovery"))?;
                run.tape.note(Note::Gone(id.clone()));
                writing.push(run.create_session(&handle, id)?);
            }
            Err(e) => return Err(stop(&format!("writer of {id:?}"), &e)),
        }
    }
    let got = answers(&handle.store)?;
    run.state().judge(&got, Spares::Cache).map_err(wrong("after recovery"))?;
    for w in &mut writing {
        let count = 1 + run.rng.index(3);
        let events = run.events(count, 300);
        let level = run.level();
        run.append(w, events, level)?;
    }
    run.sync(&handle)?;
    let got = answers(&handle.store)?;
    run.state().judge(&got, Spares::Disk).map_err(wrong("after appends"))?;
    if run.rng.chance(1, 2) {
        for w in writing {
            run.let_go(w)?;
        }
        run.close(handle)?;
    }
    Ok(())
}

/// Opens a recovered image again, after one more end, and compares it with the state.
pub fn settle(machine: &SimMachine, run: &Run, spares: Spares) -> Step {
    let process = machine.process("after");
    let vfs = Arc::new(process.clone());
    let store = Store::open_on(vfs, Path::new(STORE), run.options.clone())
        .map_err(|e| stop("open again", &e))?;
    let got = answers(&store)?;
    run.state().judge(&got, spares).map_err(wrong("opened again"))?;
    undamaged(&store)
}

/// What a crash leaves in a recovered lane: the trailer of a change of segment that did not come to its end.
const MAY_BE: [FindingKind; 1] = [FindingKind::Trailer];

/// Recovers every lane of what a run left, and compares what the store answers then with the oracle.
pub fn compare(run: &Run) -> Step {
    let machine = run.machine.process_crash_image();
    let lanes = machine.list(&format!("{STORE}/lanes")).len();
    let mut stores = Vec::new();
    for i in 0..lanes {
        // A handle takes the first lane that is free, so that these have them all.
        let process = machine.process("reader");
        let store = Store::open_on(Arc::new(process), Path::new(STORE), run.options.clone())
            .map_err(|e| stop("open to compare", &e))?;
        let new = NewSession::new(&format!("compare-{i}")).unwrap();
        drop(store.create_session(&new).map_err(|e| stop("create to compare", &e))?);
        stores.push(store);
    }
    match stores.last() {
        Some(store) => compare_with_oracle(&machine, &answers(store)?),
        None => Ok(()),
    }
}

/// The files of the store, by path inside it.
pub fn files_of(machine: &SimMachine) -> BTreeMap<String, Vec<u8>> {
    let inside = |(path, pages): (String, everlog_testkit::sim::Pages)| {
        let path = path.strip_prefix(STORE)?.strip_prefix('/')?.to_owned();
        (!path.starts_with("quarantine/")).then(|| (path, pages.to_vec()))
    };
    machine.files().into_iter().filter_map(inside).collect()
}

/// Whether the independent decoder reads the same.
pub fn compare_with_oracle(machine: &SimMachine, got: &Answers) -> Step {
    let seen = oracle::decode(&files_of(machine));
    if let Some(finding) = seen.findings_but(&MAY_BE).first() {
        return Err(Stop::Wrong(format!("the oracle finds {finding:?}")));
    }
    let mut named = 0;
    for session in seen.listed() {
        let id = String::from_utf8_lossy(&session.id).into_owned();
        let Some(events) = got.get(&id) else {
            return Err(Stop::Wrong(format!("only the oracle sees session {id:?}")));
        };
        named += 1;
        let same = events.len() == session.events.len()
            && events.iter().zip(&session.events).all(|(a, b)| {
                a.seq == b.seq
                    && a.time_ms == b.time
                    && a.event_type[..] == b.ty[..]
                    && a.data[..] == b.data[..]
                    && a.sources.as_deref() == b.sources.as_deref()
            });
        if !same {
            return Err(Stop::Wrong(format!(
                "session {id:?}: the engine reads {} events, the oracle {}, or others",
                events.len(),
                session.events.len()
            )));
        }
    }
    if named != got.len() {
        return Err(Stop::Wrong("the engine sees sessions that the oracle does not".into()));
    }
    Ok(())
}
