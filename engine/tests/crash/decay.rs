//! Disks that rot: bits that flip, files that are cut. And the smallest workload with every subset of what was unsynced.
//!
//! 1. No damage makes a wrong event: each reads as it was written, or not at all.
//! 2. Only events of the frame that was hit are lost; every other event reads, from every session.
//! 3. `check` reports every hit below the durable end.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use everlog::{CheckOptions, Level, NewEvent, NewSession, Store};
use everlog_testkit::oracle::{self, FrameBody, OracleSegment, OracleStore};
use everlog_testkit::rng::{Rng, seed_from_env};
use everlog_testkit::sim::{SimMachine, Snapshot};

use super::matrix::{Report, Round, Workload, env};
use super::model::{Answers, Spares};
use super::run::{Run, STORE, Step, session_id};
use super::verify::{answers, files_of, recover};

fn base_seed() -> u64 {
    seed_from_env(0xDECA_0001).unwrap_or_else(|text| panic!("SEED={text} is no number"))
}

/// Three sessions over several segments, closed.
fn closed_store(run: &mut Run) -> Step {
    let handle = run.create(&run.process("a"))?;
    let mut writing = Vec::new();
    for id in ["s0", "s1", "s2"] {
        writing.push(run.create_session(&handle, id)?);
    }
    for step in 0..60 {
        let at = run.rng.index(writing.len());
        let count = 1 + run.rng.index(40);
        let events = run.events(count, if step % 9 == 0 { 6_000 } else { 500 });
        run.append(&mut writing[at], events, Level::Sync)?;
    }
    for w in writing {
        run.let_go(w)?;
    }
    run.close(handle)
}

/// A store, what it answers, and what an independent reader knows of its bytes.
struct Sound {
    snapshot: Snapshot,
    answers: Answers,
    oracle: OracleStore,
    run: Run,
}

impl Sound {
    fn make(seed: u64) -> Self {
        let workload = Workload { name: "decay", run: closed_store };
        let mut report = Report::default();
        let mut run = Round::new(workload, seed, &mut report).start();
        closed_store(&mut run).unwrap();
        let snapshot = run.machine.snapshot();
        let machine = snapshot.process_crash_image();
        let store = open(&machine, &run);
        let answers = answers(&store).unwrap();
        let oracle = oracle::decode(&files_of(&machine));
        assert!(oracle.findings.is_empty(), "{:?}", oracle.findings);
        Self { snapshot, answers, oracle, run }
    }

    fn segments(&self) -> &[OracleSegment] {
        &self.oracle.lanes[0].segments
    }

    fn id_of(&self, session: u64) -> String {
        let found = self.oracle.sessions.values().find(|s| s.no == session);
        String::from_utf8_lossy(&found.unwrap().id).into_owned()
    }

    /// Sessions and ranges of seqs that frames touching these bytes hold; a creation loses its whole session.
    fn may_lose(
        &self,
        segment: &OracleSegment,
        from: u64,
        upto: u64,
    ) -> BTreeMap<String, (u64, u64)> {
        let mut lost = BTreeMap::new();
        for f in &segment.frames {
            let end = f.offset + 48 + u64::from(f.len).next_multiple_of(8);
            if f.offset >= upto || end <= from {
                continue;
            }
            let (first, last) = match &f.body {
                FrameBody::Events(events) => (f.seq, f.seq + events.len() as u64 - 1),
                FrameBody::Control(_) => (0, u64::MAX),
                _ => continue,
            };
            let range = lost.entry(self.id_of(f.session)).or_insert((first, last));
            *range = (range.0.min(first), range.1.max(last));
        }
        lost
    }

    /// Reads every event of a damaged copy. Returns how many are lost, all of which had to be expected.
    fn read_all(&self, store: &Store, lost: &BTreeMap<String, (u64, u64)>) -> Result<u64, String> {
        let mut missing = 0;
        for (id, want) in &self.answers {
            let expected = |seq: u64| lost.get(id).is_some_and(|(a, b)| (*a..=*b).contains(&seq));
            let session = match store.session(&session_id(id)) {
                Ok(session) => session,
                Err(_) if expected(u64::MAX) => continue,
                Err(e) => return Err(format!("session {id:?} is gone: {e:?}")),
            };
            for event in want {
                match session.read(event.seq) {
                    Ok(got) if got == *event => {}
                    Ok(got) => return Err(format!("{id:?} {} reads as {got:?}", event.seq)),
                    Err(_) if expected(event.seq) => missing += 1,
                    Err(e) => return Err(format!("{id:?} {} is lost: {e:?}", event.seq)),
                }
            }
        }
        Ok(missing)
    }
}

fn open(machine: &SimMachine, run: &Run) -> Store {
    let vfs = Arc::new(machine.process("reader"));
    Store::open_on(vfs, Path::new(STORE), run.options.clone()).unwrap()
}

fn damage_of(store: &Store) -> usize {
    let report = store.check(&CheckOptions::default(), &mut |_, _| true).unwrap();
    report.damage.len()
}

/// A new session can be made, written and read in a store that is damaged.
fn still_writable(store: &Store) {
    let mut w = store.create_session(&NewSession::new("after").unwrap()).unwrap();
    let _receipt = w.append_batch(&[NewEvent::new("note", b"1")], Level::Sync).unwrap();
    assert_eq!(w.read(0).unwrap().data[..], b"1"[..]);
}

#[test]
fn a_flipped_bit_is_found_and_harms_one_frame_at_most() {
    let seed = base_seed();
    let sound = Sound::make(seed);
    let mut rng = Rng::new(seed);
    let flips = 100 + 50 * env("ROUNDS").unwrap_or(1);
    let mut lost = 0;
    for flip in 0..flips {
        let segments = sound.segments();
        let segment = &segments[rng.index(segments.len())];
        let at = if flip % 8 == 0 { rng.below(128) } else { rng.range(4_096, segment.end - 1) };
        let bit = 1 << rng.below(8);
        let machine = sound.snapshot.process_crash_image();
        let path = format!("{STORE}/{}", segment.path);
        assert!(machine.damage(&path, at, 1, |b| b[0] ^= bit));
        let what = format!("SEED={seed:#x} flip {flip}: {} byte {at} bit {bit:#x}", segment.path);
        let store = open(&machine, &sound.run);
        let may = sound.may_lose(segment, at, at + 1);
        lost += sound.read_all(&store, &may).unwrap_or_else(|e| panic!("{what}: {e}"));
        assert!(damage_of(&store) > 0, "{what}: check finds nothing");
        if flip % 4 == 0 {
            still_writable(&store);
            sound.read_all(&store, &may).unwrap_or_else(|e| panic!("{what}, written: {e}"));
        }
    }
    println!("bit flips: {flips}, all found by check, {lost} events unreadable, none wrong");
}

#[test]
fn a_cut_segment_loses_what_was_cut_and_no_more() {
    let seed = base_seed();
    let sound = Sound::make(seed);
    let mut rng = Rng::new(seed ^ 1);
    let cuts = 40 * env("ROUNDS").unwrap_or(1);
    let newest = sound.segments().last().unwrap();
    for cut in 0..cuts {
        let at = rng.range(4_096, newest.end - 1);
        let machine = sound.snapshot.process_crash_image();
        assert!(machine.truncate(&format!("{STORE}/{}", newest.path), at));
        let what = format!("SEED={seed:#x} cut {cut}: {} at {at}", newest.path);
        let store = open(&machine, &sound.run);
        let may = sound.may_lose(newest, at, newest.end);
        sound.read_all(&store, &may).unwrap_or_else(|e| panic!("{what}: {e}"));
        assert!(damage_of(&store) > 0, "{what}: check finds nothing");
        still_writable(&store);
        sound.read_all(&store, &may).unwrap_or_else(|e| panic!("{what}, written: {e}"));
    }
    println!("cuts: {cuts}, all found by check, no event wrong");
}

#[test]
fn a_tail_of_zeros_is_damage_where_it_was_durable() {
    let sound = Sound::make(base_seed());
    let newest = sound.segments().last().unwrap();
    let mut rng = Rng::new(base_seed() ^ 2);
    for _ in 0..20 {
        let at = rng.range(4_096, newest.end - 48) / 8 * 8;
        let machine = sound.snapshot.process_crash_image();
        machine.damage(&format!("{STORE}/{}", newest.path), at, usize::MAX, |b| b.fill(0));
        let store = open(&machine, &sound.run);
        let may = sound.may_lose(newest, at, newest.end);
        sound.read_all(&store, &may).unwrap();
        assert!(damage_of(&store) > 0, "zeros from {at} are not found");
    }
}

/// Few calls, so that every subset of what is unsynced can be tried.
fn small(run: &mut Run) -> Step {
    let handle = run.create(&run.process("a"))?;
    let mut w = run.create_session(&handle, "s0")?;
    for level in [Level::Os, Level::Sync, Level::Os, Level::Os, Level::Sync] {
        let events = run.events(2, 90);
        run.append(&mut w, events, level)?;
    }
    run.let_go(w)?;
    let mut w = run.create_session(&handle, "s1")?;
    let events = run.events(1, 900);
    run.append(&mut w, events, Level::Os)?;
    run.close(handle)
}

#[test]
fn every_subset_of_few_unsynced_things_recovers() {
    let seed = base_seed();
    let workload = Workload { name: "small", run: small };
    let mut report = Report::default();
    let round = Round::new(workload, seed, &mut report);
    let points = round.points().unwrap();
    let (mut images, mut tried) = (0, 0);
    let bits_max = if env("ROUNDS").is_some() { 12 } else { 6 };
    for (state, op, snapshot) in &points {
        if snapshot.unsynced() > bits_max {
            continue;
        }
        tried += 1;
        for machine in snapshot.crash_subsets().unwrap() {
            images += 1;
            let mut run = Run::new(machine, seed ^ images, round.options.clone());
            run.before = state.clone().after(Spares::Disk);
            if let Err(e) = recover(&mut run, Spares::Disk) {
                panic!("SEED={seed:#x} call {op}, subset {images}: {e:?}");
            }
        }
    }
    assert!(tried * 2 > points.len(), "only {tried} of {} moments were small", points.len());
    println!("subsets: {tried} moments of {}, {images} images", points.len());
}
