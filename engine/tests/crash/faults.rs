//! Calls that fail, once or for ever, and disks that are full.
//!
//! 1. A failure is an error of a kind that says what holds: nothing was accepted, or the outcome is unknown.
//! 2. After an unknown outcome the handle acks nothing more; what was durable still reads; the next handle recovers.
//! 3. A disk that was full when a segment was to be made is no poison: with room, the same handle goes on.

use std::path::Path;
use std::sync::Arc;

use everlog::{Error, ErrorKind, Level, NewEvent, NewSession, Store};
use everlog_testkit::rng::{Rng, seed_from_env};
use everlog_testkit::sim::{FaultError, FaultPlan};

use super::matrix::{Report, Round, Workload, env};
use super::model::{Ev, Note, Spares};
use super::run::{Handle, Run, STORE, Writing};
use super::verify::recover;

const SEED: u64 = 0xFA17_0001;

fn base_seed() -> u64 {
    seed_from_env(SEED).unwrap_or_else(|text| panic!("SEED={text} is no number"))
}

/// What a handle has shown of itself under faults.
struct Under<'r> {
    run: &'r mut Run,
    unknown: bool,
    failures: u64,
}

impl Under<'_> {
    fn failed(&mut self, what: &str, e: &Error) -> Result<(), String> {
        self.failures += 1;
        match e.kind() {
            ErrorKind::OutcomeUnknown => {
                self.unknown = true;
                self.run.tape.note(Note::Failed);
            }
            ErrorKind::Poisoned if self.unknown => {}
            ErrorKind::Io | ErrorKind::StorageFull if !e.message().is_empty() => {}
            other => return Err(format!("{what}: {other:?} under an I/O fault: {e:?}")),
        }
        Ok(())
    }

    fn create(&mut self) -> Result<Option<Handle>, String> {
        let process = Arc::new(self.run.process("a"));
        let options = self.run.options.clone();
        match Store::create_on(process, Path::new(STORE), options) {
            Ok(store) => {
                self.run.tape.note(Note::StoreMade);
                Ok(Some(self.run.handle(store)))
            }
            Err(e) => self.failed("create", &e).map(|()| None),
        }
    }

    fn create_session(&mut self, handle: &Handle, id: &str) -> Result<Option<Writing>, String> {
        self.run.tape.note(Note::Create(id.to_owned()));
        match handle.store.create_session(&NewSession::new(id).unwrap()) {
            Ok(_) if self.unknown => Err("a session was made after an unknown outcome".into()),
            Ok(writer) => {
                self.run.tape.note(Note::Created(id.to_owned()));
                Ok(Some(Writing { id: id.to_owned(), writer, handle: handle.no }))
            }
            Err(e) => self.failed("create_session", &e).map(|()| None),
        }
    }

    fn append(
        &mut self,
        w: &mut Writing,
        events: Vec<Arc<Ev>>,
        level: Level,
    ) -> Result<(), String> {
        let first = w.writer.next_seq() as usize;
        let end = first + events.len();
        self.run.tape.note(Note::Issue(w.id.clone(), events.clone(), w.handle));
        let new: Vec<NewEvent<'_>> = events.iter().map(|e| e.as_new()).collect();
        match w.writer.append_batch(&new, level) {
            Ok(_) if self.unknown => Err("an append was acked after an unknown outcome".into()),
            Ok(_) => {
                self.run.tape.note(Note::Ack(w.id.clone(), end, level));
                Ok(())
            }
            Err(e) => {
                if e.kind() != ErrorKind::OutcomeUnknown {
                    self.run.tape.note(Note::Withdraw(w.id.clone(), first));
                    if w.writer.next_seq() as usize != first {
                        return Err(format!("a refused append moved the next seq: {e:?}"));
                    }
                }
                self.failed("append", &e)
            }
        }
    }

    /// What was acked as durable reads as it was written.
    fn read_durable(&mut self, handle: &Handle) -> Result<(), String> {
        for (id, s) in &self.run.state().sessions {
            let need = s.need(Spares::Disk);
            if need == 0 {
                continue;
            }
            let session = handle.store.session(&super::run::session_id(id));
            let session = session.map_err(|e| format!("{id:?} cannot be opened to read: {e:?}"))?;
            for (i, want) in s.events[..need].iter().enumerate() {
                let got = session.read(i as u64).map_err(|e| format!("{id:?} {i}: {e:?}"))?;
                if got.data[..] != want.data[..] {
                    return Err(format!("{id:?} {i} reads as something else"));
                }
            }
        }
        Ok(())
    }

    /// The append workload with a change of segment in it, through any failure.
    fn life(&mut self) -> Result<(), String> {
        let Some(handle) = self.create()? else { return Ok(()) };
        let mut writing = Vec::new();
        for id in ["s0", "s1"] {
            writing.extend(self.create_session(&handle, id)?);
        }
        for step in 0..18 {
            if writing.is_empty() {
                break;
            }
            let at = step % writing.len();
            let level = [Level::Os, Level::Sync, Level::Buffered][step % 3];
            let events = if step % 2 == 0 {
                let len = 40_000 + self.run.rng.index(20_000);
                vec![Ev::note(self.run.text(len), None)]
            } else {
                self.run.events(3, 400)
            };
            self.append(&mut writing[at], events, level)?;
            if step % 5 == 4
                && let Err(e) = handle.store.upkeep()
            {
                self.failed("upkeep", &e)?;
            }
        }
        if self.failures > 0 || self.unknown {
            self.read_durable(&handle)?;
        }
        for w in writing {
            let (id, end) = (w.id.clone(), w.writer.next_seq() as usize);
            match w.writer.close() {
                Ok(()) => self.run.tape.note(Note::Ack(id, end, Level::Sync)),
                Err(e) => self.failed("close of a session", &e)?,
            }
        }
        if let Err(e) = handle.store.close() {
            self.failed("close", &e)?;
        }
        Ok(())
    }
}

fn plan(k: u64, variant: u64) -> FaultPlan {
    let error = [FaultError::Io, FaultError::NoSpace, FaultError::Quota][(variant % 3) as usize];
    let mut plan = FaultPlan::new(&[], k, error);
    if variant / 3 % 2 == 1 {
        plan = plan.sticky();
    }
    if variant / 6 % 2 == 1 {
        plan = plan.partial();
    }
    plan
}

/// Every mutating call of the workload fails once, or from there on, with each error, wholly or in part.
#[test]
fn the_kth_call_fails() {
    let rounds = env("ROUNDS").unwrap_or(1);
    let each = if rounds >= 10 { 12 } else { 1 };
    let workload = Workload { name: "fault", run: |_| Ok(()) };
    let (mut runs, mut report) = (0, Report::default());
    for k in env("CALL").unwrap_or(1).. {
        let mut hits = 0;
        for i in 0..each {
            let variant = if each == 1 { k * 5 % 12 } else { i };
            let seed = base_seed();
            let mut round = Round::new(workload, seed, &mut report);
            let mut run = round.start();
            let fault = run.machine.fail(plan(k, variant));
            run.machine.set_log(env("CALL").is_some());
            let mut under = Under { run: &mut run, unknown: false, failures: 0 };
            let lived = under.life();
            if env("CALL").is_some() {
                println!("{:#?}", run.machine.log());
            }
            hits += run.machine.fault_hits(fault);
            run.machine.clear_faults();
            let outcome = lived.and_then(|()| round.aftermath(&run, 3, seed ^ k << 8 ^ variant));
            if let Err(e) = outcome {
                panic!("{e}\n  call {k} failed: {:?}\n  replay: SEED={seed:#x}", plan(k, variant));
            }
            runs += 1;
        }
        if hits == 0 {
            assert!(k > 60, "the workload had only {k} calls");
            println!("faults: {} calls, {runs} runs", k - 1);
            report.print("after faults");
            return;
        }
    }
}

/// A disk without room for the next segment refuses, and poisons nothing.
#[test]
fn a_full_disk_refuses_and_goes_on() {
    let workload = Workload { name: "full", run: |_| Ok(()) };
    let mut report = Report::default();
    let (mut refused, mut turns) = (0, 0);
    for step in 0..12 {
        let seed = base_seed() + step;
        let mut round = Round::new(workload, seed, &mut report);
        let mut run = round.start();
        let used = run.machine.free_bytes();
        let handle = run.create(&run.process("a")).unwrap();
        let mut w = run.create_session(&handle, "s0").unwrap();
        let used = used - run.machine.free_bytes();
        run.machine.set_capacity(used + step * 70_000);
        let mut under = Under { run: &mut run, unknown: false, failures: 0 };
        for i in 0..30 {
            let event = Ev::note(under.run.text(50_000), None);
            let before = under.failures;
            under.append(&mut w, vec![event], [Level::Os, Level::Sync][i % 2]).unwrap();
            assert!(!under.unknown, "a full disk poisoned the lane");
            if under.failures > before {
                under.read_durable(&handle).unwrap();
            }
        }
        refused += under.failures;
        run.machine.set_capacity(1 << 40);
        let events = run.events(3, 50_000);
        run.append(&mut w, events, Level::Sync).unwrap();
        turns += 1;
        if let Err(e) = round.aftermath(&run, 3, seed) {
            panic!("{e}\n  replay: SEED={seed:#x}");
        }
    }
    assert!(refused > turns, "the disk was never full");
    println!("full disk: {turns} sizes, {refused} appends refused, each handle went on");
}

/// After a failed sync the next handle writes the tail again and syncs it, though the page cache reads well.
#[test]
fn a_tail_that_a_failed_sync_left_is_written_again() {
    use everlog_testkit::sim::Call;
    for seed in 0..20 {
        let workload = Workload { name: "fsync", run: |_| Ok(()) };
        let mut report = Report::default();
        let mut round = Round::new(workload, Rng::new(seed).next_u64(), &mut report);
        let mut run = round.start();
        let handle = run.create(&run.process("a")).unwrap();
        let mut w = run.create_session(&handle, "s0").unwrap();
        let events = run.events(3, 900);
        run.tape.note(Note::Issue("s0".into(), events.clone(), handle.no));
        let new: Vec<NewEvent<'_>> = events.iter().map(|e| e.as_new()).collect();
        let receipt = w.writer.append_batch(&new, Level::Os).unwrap();
        run.tape.note(Note::Ack("s0".into(), 3, Level::Os));
        run.machine.fail(FaultPlan::new(&[Call::SyncData], 1, FaultError::Io));
        assert_eq!(handle.store.sync().unwrap_err().kind(), ErrorKind::OutcomeUnknown);
        run.machine.clear_faults();
        run.tape.note(Note::Failed);
        let refused = w.writer.append(&NewEvent::new("note", b"1")).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Poisoned);
        drop(w);
        // The handle keeps the lane: whether the session is there is not known to others, so they must not make it.
        let process = Arc::new(run.process("b"));
        let other = Store::open_on(process, Path::new(STORE), run.options.clone()).unwrap();
        let taken = other.create_session(&NewSession::new("s0").unwrap()).unwrap_err();
        assert_eq!(taken.kind(), ErrorKind::Locked, "{taken:?}");
        drop((receipt, other, handle));
        run.machine.set_log(true);
        let mut next = Run::new(run.machine.clone(), seed, run.options.clone());
        next.before = run.state();
        recover(&mut next, Spares::Cache)
            .unwrap_or_else(|e| panic!("{e:?} seed {seed} {:#?}", run.machine.log()));
        let log = run.machine.log();
        // The header first, whose own sync may have failed, then the tail.
        let mut segment = log.iter().filter(|c| c.path.ends_with(".seg")).skip(2);
        let (written, synced) = (segment.next().unwrap(), segment.next().unwrap());
        let behind_header = 4_096;
        assert_eq!((written.call, written.offset), (Call::Write, behind_header), "{log:#?}");
        assert!(written.len > 100 && synced.call == Call::SyncData, "{log:#?}");
        if let Err(e) = round.aftermath(&next, 4, seed) {
            panic!("{e}\n  seed {seed} {log:#?}");
        }
    }
}
