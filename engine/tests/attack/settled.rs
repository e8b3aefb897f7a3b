//! What a writer that ended or failed leaves to others: files made ahead, slots, frames that a recovery drops, locks.

use std::sync::{Arc, Mutex};

use everlog::{CheckOptions, ErrorKind, ImportOptions, Level, NewSession, StoreOptions};
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

#[test]
fn an_id_that_another_imports_names_who_does() {
    let machine = SimMachine::new(4);
    let (p, a) = create(&machine, small());
    let b = open(&process(&machine, "other"), small());
    let line = |n: u64| {
        format!("{{\"type\":\"note\",\"seq\":{n},\"time\":2,\"data\":\"{}\"}}\n", "x".repeat(9_000))
    };
    let mut log = String::from(
        "{\"type\":\"session\",\"version\":0,\"id\":\"s\",\"createdAt\":1,\"delegationDepth\":0}\n",
    );
    log.extend((0..200).map(line));
    let mut holders = Vec::new();
    let mut other = |_| {
        let err = b.create_session(&NewSession::new("s").unwrap()).map(drop);
        if let Err(e) = err {
            assert_eq!(e.kind(), ErrorKind::Locked);
            holders.push(e.holder().map(|h| (h.pid, h.lane)));
            return true;
        }
        panic!("the other made it first");
    };
    let mut begun = false;
    a.import_dsh(log.as_bytes(), &ImportOptions::default(), &mut |read| {
        // The header is read by then.
        begun |= read > 1_500_000;
        !begun || other(read)
    })
    .unwrap();
    assert!(!holders.is_empty());
    assert!(holders.iter().all(|h| *h == Some((p.id(), 0))), "{holders:?}");
}

#[test]
fn an_id_that_another_creates_names_who_does() {
    let machine = SimMachine::new(5);
    let (p, a) = create(&machine, small());
    let b = open(&process(&machine, "other"), small());
    drop(session(&a, "lane-a"));
    drop(session(&b, "lane-b"));
    let (first, seen) = (machine.ops(), Arc::new(Mutex::new(Vec::new())));
    let told = seen.clone();
    let mut at = 0;
    machine.before_op(move |op, _| {
        if op > first && at == 0 {
            // The lock is taken with the first of them; the record of who has it is there after the second.
            if op < first + 3 {
                return;
            }
            at = op;
            let err = b.create_session(&NewSession::new("same").unwrap()).map(drop).unwrap_err();
            let holder = err.holder().map(|h| (h.pid, h.lane));
            told.lock().unwrap().push((err.kind(), holder));
        }
    });
    drop(session(&a, "same"));
    machine.clear_hooks();
    assert_eq!(seen.lock().unwrap()[..], [(ErrorKind::Locked, Some((p.id(), 0)))]);
}

#[test]
fn an_id_in_a_lane_whose_writer_failed_and_lives_is_locked() {
    for pending in [false, true] {
        let machine = SimMachine::new(6);
        let (p, a) = create(&machine, small());
        drop(session(&a, "before"));
        a.sync().unwrap();
        let syncs = FaultPlan::new(&[Call::SyncData], 1, FaultError::Io).sticky().only(&p);
        let mut held = None;
        if pending {
            // All but the last of an import is durable.
            let log = b"{\"type\":\"session\",\"version\":0,\"id\":\"s\",\"createdAt\":1,\"delegationDepth\":0}\n";
            let second = FaultPlan::new(&[Call::SyncData], 2, FaultError::Io).sticky().only(&p);
            machine.fail(second);
            let failed = a.import_dsh(&log[..], &ImportOptions::default(), &mut |_| true);
            assert_eq!(failed.unwrap_err().kind(), ErrorKind::OutcomeUnknown);
        } else {
            held = Some(session(&a, "s"));
            machine.fail(syncs);
            a.sync().unwrap_err();
        }
        machine.clear_faults();
        let b = open(&process(&machine, "other"), small());
        let err = b.writer(&id("s")).map(drop).unwrap_err();
        assert_eq!(err.kind(), ErrorKind::Locked, "pending {pending}: {err:?}");
        assert_eq!(err.holder().map(|h| (h.pid, h.lane)), Some((p.id(), 0)), "{err:?}");
        let none = b.writer(&id("none")).map(drop).unwrap_err();
        assert_eq!(none.kind(), ErrorKind::NotFound);
        let own = a.writer(&id("s")).map(drop).unwrap_err();
        assert_eq!(own.kind(), ErrorKind::Poisoned, "pending {pending}: {own:?}");
        drop((held, a));
        // Now it is there or it is free.
        let taken = b.writer(&id("s")).map(drop).map_err(|e| e.kind());
        assert!(matches!(taken, Ok(()) | Err(ErrorKind::NotFound)), "{taken:?}");
    }
}
