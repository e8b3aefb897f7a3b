//! Faults planted into the engine, each of which the matrix must find within a bounded number of images.

use std::path::Path;
use std::sync::{Arc, Mutex};

use everlog::{ErrorKind, Level, NewEvent, NewSession, Planted, Store, StoreOptions};
use everlog_testkit::sim::SimMachine;

use super::matrix::{Report, Round, Workload, seed_of};
use super::model::Answers;
use super::run::{Run, STORE, Step};
use super::verify::answers;
use super::workloads;

/// Images a round of a search.
const IMAGES: usize = 120;

/// Runs a workload with a fault planted until the matrix finds it.
fn finds(bug: Planted, name: &'static str, run: fn(&mut Run) -> Step, rounds: u64) {
    let mut report = Report::default();
    for round in 0..rounds {
        let workload = Workload { name, run };
        let mut one = Round::new(workload, seed_of(0x0BAD_5EED, round), &mut report);
        one.options = one.options.with_planted(bug);
        if let Err(violation) = one.run(IMAGES) {
            println!("planted {bug:?}: found after {} images: {violation}", report.images);
            return;
        }
    }
    panic!("{bug:?} was not found in {} images of {name}", report.images);
}

#[test]
fn a_sync_that_does_nothing_is_found() {
    finds(Planted::NoSync, "append", workloads::append, 5);
}

#[test]
fn an_ack_before_the_write_is_found() {
    finds(Planted::AckBeforeWrite, "append", workloads::append, 5);
}

#[test]
fn a_seal_before_the_sync_is_found() {
    finds(Planted::SealBeforeSync, "rotate", workloads::rotate, 10);
}

#[test]
fn frames_without_a_salt_are_found() {
    finds(Planted::NoSalt, "rotate", workloads::rotate, 40);
}

#[test]
fn a_hand_over_before_the_sync_is_found() {
    finds(Planted::ContinueBeforeSync, "hand_over", workloads::hand_over, 10);
}

#[test]
fn the_end_of_data_that_is_not_compared_is_found() {
    finds(Planted::SuffixUnchecked, "append", workloads::append, 5);
}

#[test]
fn a_fork_before_the_sync_is_found() {
    finds(Planted::ContinueBeforeSync, "fork", workloads::fork, 20);
}

#[test]
fn a_dead_lane_that_is_not_recovered_is_found() {
    finds(Planted::DeadLaneNotRecovered, "take_over", workloads::take_over, 10);
}

fn open(machine: &SimMachine, name: &str, options: &StoreOptions) -> Store {
    let vfs = Arc::new(machine.process(name));
    Store::open_on(vfs, Path::new(STORE), options.clone()).unwrap()
}

/// Two processes make one id, the second in the midst of the first, at every call of it.
fn race(options: &StoreOptions) -> Result<u64, String> {
    let quick = options.clone().with_lock_wait_ms(5);
    for at in 1.. {
        let machine = SimMachine::new(at);
        let a = Arc::new(machine.process("a"));
        let one = Store::create_on(a, Path::new(STORE), quick.clone()).unwrap();
        let two = open(&machine, "b", &quick);
        // Both have their lanes, so that what follows is the creation alone.
        drop(one.create_session(&NewSession::new("lane-a").unwrap()).unwrap());
        drop(two.create_session(&NewSession::new("lane-b").unwrap()).unwrap());
        let first = machine.ops();
        let second = Arc::new(Mutex::new(None));
        let (result, other) = (second.clone(), two.clone());
        machine.before_op(move |op, _| {
            if op == first + at {
                let made = other.create_session(&NewSession::new("same").unwrap());
                *result.lock().unwrap() = Some(made.map(drop).map_err(|e| e.kind()));
            }
        });
        let made = one.create_session(&NewSession::new("same").unwrap()).map(drop);
        machine.clear_hooks();
        let Some(second) = second.lock().unwrap().take() else { return Ok(at - 1) };
        let reader = open(&machine, "c", &quick);
        let seen: Result<Answers, _> = answers(&reader);
        let seen = seen.map_err(|e| format!("call {at}: {e:?}"))?;
        let made = made.map_err(|e| e.kind());
        match (made, second) {
            (Ok(()), Ok(())) => return Err(format!("call {at}: both made the session")),
            (Err(e), _) | (_, Err(e)) if !matches!(e, ErrorKind::Exists | ErrorKind::Locked) => {
                return Err(format!("call {at}: {e:?}"));
            }
            _ if !seen.contains_key("same") => return Err(format!("call {at}: it is not there")),
            _ => {}
        }
    }
    unreachable!("the loop ends when the creation has fewer calls")
}

#[test]
fn one_of_two_creators_wins_at_every_call() {
    let calls = race(&StoreOptions::default()).unwrap();
    assert!(calls >= 4, "only {calls} calls were raced");
    println!("race: a second creator before each of {calls} calls");
}

#[test]
fn a_creation_without_the_lock_is_found() {
    let found = race(&StoreOptions::default().with_planted(Planted::CreateWithoutLock));
    println!("planted CreateWithoutLock: {}", found.unwrap_err());
}

/// A child is forked while its parent writes; it drops the parent's handles. Whether another process can then take
/// the parent's session.
fn forked_drop_lets_go(options: &StoreOptions) -> bool {
    let machine = SimMachine::new(1);
    let parent = machine.process("parent");
    let store =
        Store::create_on(Arc::new(parent.clone()), Path::new(STORE), options.clone()).unwrap();
    let mut writer = store.create_session(&NewSession::new("s").unwrap()).unwrap();
    let _receipt = writer.append_batch(&[NewEvent::new("note", b"1")], Level::Sync).unwrap();
    // A quiet lane says by itself that its events are durable: only the lock keeps others away.
    store.upkeep().unwrap();
    let child = machine.fork(&parent);
    machine.run_as(&child, || {
        drop(writer);
        drop(store);
    });
    machine.kill(&child);
    assert!(machine.is_alive(&parent));
    let other = open(&machine, "other", &options.clone().with_lock_wait_ms(5));
    match other.writer(&super::run::session_id("s")) {
        Ok(_) => true,
        Err(e) => {
            assert_eq!(e.kind(), ErrorKind::Locked, "{e:?}");
            false
        }
    }
}

#[test]
fn a_forked_child_lets_go_of_nothing() {
    assert!(!forked_drop_lets_go(&StoreOptions::default()));
}

#[test]
fn a_forked_child_that_lets_go_is_found() {
    assert!(forked_drop_lets_go(&StoreOptions::default().with_planted(Planted::ForkedDropUnlocks)));
}
