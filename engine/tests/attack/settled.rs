//! What a writer that ended or failed leaves to others: files made ahead, slots, frames that a recovery drops, locks.

use std::sync::{Arc, Mutex};

use everlog::{CheckOptions, ErrorKind, Level, StoreOptions};
use everlog_testkit::sim::{Call, CrashPlan, FaultError, FaultPlan, SimMachine};

use crate::kit::{create, event, id, note, open, process, segment, session};

fn small() -> StoreOptions {
    StoreOptions::default().with_segment_bytes(256 << 10, 256 << 10).with_lock_wait_ms(5)
}

/// Segments in which events reach the place where the next one is made ahead.
fn larger() -> StoreOptions {
    small().with_segment_bytes(1 << 20, 1 << 20)
}

/// A lane whose writer was killed after a rotation overtook the making of segment 1: segment 2 is the active one.
fn overtaken() -> SimMachine {
    let machine = SimMachine::new(1);
    let (p, store) = create(&machine, larger());
    let mut w = session(&store, "s");
    for n in 0..8 {
        let _ = w.append_batch(&[event(&note(n, 100_000))], Level::Os).unwrap();
    }
    machine.fail(FaultPlan::new(&[Call::Remove], 1, FaultError::Io).sticky().only(&p));
    let writer = Arc::new(Mutex::new(Some(w)));
    let (inside, kept) = (writer.clone(), Arc::new(Mutex::new(None)));
    let keep = kept.clone();
    machine.before_op(move |_, _| {
        let taken = inside.lock().unwrap().take();
        if let Some(mut w) = taken {
            let _ = w.append_batch(&[event(&note(8, 300_000))], Level::Sync).unwrap();
            *keep.lock().unwrap() = Some(w);
        }
    });
    store.upkeep().unwrap();
    machine.clear_hooks();
    machine.clear_faults();
    machine.kill(&p);
    drop((store, kept, writer));
    assert!(machine.read_file(&segment(1)).unwrap().iter().all(|b| *b == 0));
    assert!(machine.read_file(&segment(2)).unwrap().iter().any(|b| *b != 0));
    machine
}

#[test]
fn a_file_made_ahead_that_a_rotation_overtook_is_removed() {
    for used in [None, Some(0), Some(5_000), Some((1 << 20) - 1)] {
        let machine = overtaken();
        if let Some(at) = used {
            machine.damage(&segment(1), at, 1, |b| b[0] = 7);
        }
        let store = open(&process(&machine, "next"), larger());
        let clean = |what| {
            let report = store.check(&CheckOptions::default(), &mut |_, _| true).unwrap();
            assert!(report.is_clean(), "{what}: {:?}", report.damage);
        };
        clean("reader");
        let w = store.writer(&id("s")).unwrap();
        // What holds anything is left where it is.
        assert_eq!(machine.read_file(&segment(1)).is_some(), used.is_some(), "{used:?}");
        for n in 0..9 {
            let len = if n == 8 { 300_000 } else { 100_000 };
            assert_eq!(w.read(n as u64).unwrap().data[..], note(n, len)[..]);
        }
        clean("writer");
    }
}

#[test]
fn a_header_that_rots_after_a_power_cut_loses_nothing() {
    for new_epoch in [false, true] {
        let machine = SimMachine::new(2);
        let (p, store) = create(&machine, small());
        let mut w = session(&store, "s");
        for n in 0..3 {
            let _ = w.append_batch(&[event(&note(n, 500))], Level::Sync).unwrap();
        }
        let mut last = segment(0);
        if new_epoch {
            // A tail that is no frame, so that the lane goes on in a segment of its own.
            machine.kill(&p);
            let bytes = machine.read_file(&segment(0)).unwrap();
            let end = bytes.iter().rposition(|b| *b != 0).unwrap() as u64 + 1;
            machine.damage(&segment(0), end.next_multiple_of(8), 8, |b| b.fill(7));
            let next = open(&process(&machine, "next"), small());
            w = next.writer(&id("s")).unwrap();
            last = segment(1);
        }
        let _ = w.append_batch(&[event(&note(3, 500))], Level::Sync).unwrap();
        let machine = machine.power_loss(&CrashPlan::nothing());
        assert!(machine.damage(&last, 70, 1, |b| b[0] ^= 1));
        let store = open(&process(&machine, "after"), small());
        let mut w = store.writer(&id("s")).unwrap_or_else(|e| panic!("{new_epoch}: {e:?}"));
        assert_eq!(w.next_seq(), 4, "new epoch {new_epoch}");
        for n in 0..4 {
            assert_eq!(w.read(n as u64).unwrap().data[..], note(n, 500)[..]);
        }
        let _ = w.append_batch(&[event(b"4")], Level::Sync).unwrap();
    }
}

#[test]
fn what_a_recovery_dropped_is_not_read_after_a_refresh_that_failed() {
    let mut settled = 0;
    for kth in 1..80 {
        let machine = SimMachine::new(3);
        let (p, a) = create(&machine, small());
        let mut w = session(&a, "s");
        let _ = w.append_batch(&[event(b"0")], Level::Sync).unwrap();
        let q = process(&machine, "other");
        let b = open(&q, small());
        let _t = session(&b, "t");
        let _ = w.append_batch(&[event(&note(1, 64))], Level::Os).unwrap();
        b.refresh().unwrap();
        assert_eq!(b.session(&id("s")).unwrap().next_seq(), 2);
        machine.kill(&p);
        let end = machine.read_file(&segment(0)).unwrap().iter().rposition(|b| *b != 0).unwrap();
        machine.damage(&segment(0), end as u64 - 8, 1, |b| b[0] ^= 1);
        let calls = [Call::List, Call::Open, Call::Read, Call::OpenDir];
        let fault = machine.fail(FaultPlan::new(&calls, kth, FaultError::Io).only(&q));
        let failed = b.writer(&id("s")).map(drop);
        let hit = machine.fault_hits(fault) > 0;
        machine.clear_faults();
        if failed.is_err() && machine.read_file(&segment(1)).is_some() {
            settled += 1;
            let s = b.session(&id("s")).unwrap();
            assert_eq!(s.next_seq(), 1, "call {kth}");
            assert_eq!(s.read(1).unwrap_err().kind(), ErrorKind::NotFound, "call {kth}");
        }
        let mut w = b.writer(&id("s")).unwrap_or_else(|e| panic!("call {kth}: {e:?}"));
        assert_eq!(w.append_batch(&[event(b"1")], Level::Sync).unwrap().first_seq(), 1);
        if !hit {
            break;
        }
    }
    assert!(settled > 0, "no call failed behind the recovery");
}
