//! Failed syncs, then the same lane opened again in the same boot, then a power cut: what was acked must be there.

use everlog::{CheckOptions, Level, Store, StoreOptions};
use everlog_testkit::sim::{Call, CrashPlan, FaultError, FaultPlan, Names, SimMachine, Survival};

use crate::kit::{create, event, id, note, open, process, session};

/// Everything below `acked` reads back after a power cut of any kind, and nothing is called damaged.
fn verify(machine: &SimMachine, acked: u64, what: &str) {
    let mut plans = vec![CrashPlan::nothing(), CrashPlan::all()];
    plans.extend((0..6).map(|s| CrashPlan::new(s, Survival::Subset, Names::Subset)));
    for plan in plans {
        let after = machine.power_loss(&plan);
        let p = process(&after, "after");
        let store = open(&p, StoreOptions::default());
        let w = store.writer(&id("s")).unwrap_or_else(|e| panic!("{what} {plan:?}: {e:?}"));
        assert!(w.next_seq() >= acked, "{what} {plan:?}: {} of {acked}", w.next_seq());
        for n in 0..acked {
            w.read(n).unwrap_or_else(|e| panic!("{what} {plan:?}: event {n}: {e:?}"));
        }
        let report = store.check(&CheckOptions::default(), &mut |_, _| true).unwrap();
        assert!(report.is_clean(), "{what} {plan:?}: {:?}", report.damage);
    }
}

/// Opens the store again in the same boot, appends one event at `sync`, and cuts the power.
fn go_on(machine: &SimMachine, at_least: u64, what: &str) {
    let p = process(machine, "second");
    let store = open(&p, StoreOptions::default());
    let mut w = match store.writer(&id("s")) {
        Ok(w) => w,
        Err(e) if e.kind() == everlog::ErrorKind::NotFound => session(&store, "s"),
        Err(e) => panic!("{what}: {e:?}"),
    };
    assert!(w.next_seq() >= at_least, "{what}");
    let _ = w.append_batch(&[event(b"9")], Level::Sync).unwrap();
    let acked = w.next_seq();
    verify(machine, acked, what);
    drop(w);
    Store::close(store).unwrap();
    verify(machine, acked, what);
}

#[test]
fn what_an_index_lists_is_written_again_after_a_failed_sync() {
    let machine = SimMachine::new(1);
    let (p, store) = create(&machine, StoreOptions::default());
    let mut w = session(&store, "s");
    let _ = w.append_batch(&[event(b"0")], Level::Sync).unwrap();
    for n in 0..1_300 {
        let _ = w.append_batch(&[event(&note(n, 900))], Level::Os).unwrap();
    }
    machine.fail(FaultPlan::new(&[Call::SyncData], 1, FaultError::Io).only(&p));
    store.sync().unwrap_err();
    machine.clear_faults();
    machine.kill(&p);
    drop(w);
    drop(store);
    go_on(&machine, 1_301, "index");
}

#[test]
fn every_sync_may_fail_once() {
    for kth in 1..60 {
        let machine = SimMachine::new(2);
        let options = StoreOptions::default().with_segment_bytes(256 << 10, 256 << 10);
        let (p, store) = create(&machine, options);
        let calls = [Call::SyncData, Call::SyncDir];
        let fault = machine.fail(FaultPlan::new(&calls, kth, FaultError::Io).only(&p));
        let mut acked = 0;
        let mut run = || -> everlog::Result<()> {
            let mut w = store.create_session(&everlog::NewSession::new("s")?)?;
            for n in 0..30 {
                let level = if n % 4 == 0 { Level::Sync } else { Level::Os };
                let _ = w.append_batch(&[event(&note(n, 30_000))], level)?;
                if level == Level::Sync {
                    acked = w.next_seq();
                }
            }
            w.close()
        };
        let done = run();
        machine.clear_faults();
        machine.kill(&p);
        drop(store);
        go_on(&machine, acked, &format!("sync {kth}"));
        if machine.fault_hits(fault) == 0 {
            assert!(done.is_ok());
            break;
        }
    }
}

#[test]
fn recoveries_whose_syncs_fail_can_be_repeated() {
    for kth in 1..20 {
        let machine = SimMachine::new(3);
        let (_p, store) = create(&machine, StoreOptions::default());
        let mut w = session(&store, "s");
        for n in 0..20 {
            let _ = w.append_batch(&[event(&note(n, 700))], Level::Sync).unwrap();
        }
        for n in 0..20 {
            let _ = w.append_batch(&[event(&note(n, 700))], Level::Os).unwrap();
        }
        let mut machine = machine.power_loss(&CrashPlan::new(7, Survival::Torn, Names::All));
        if kth % 2 == 0 {
            machine = machine.process_crash_image();
        }
        let p = process(&machine, "recoverer");
        let store = open(&p, StoreOptions::default());
        let calls = [Call::SyncData, Call::SyncDir];
        let fault = machine.fail(FaultPlan::new(&calls, kth, FaultError::Io).only(&p));
        let taken = store.writer(&id("s"));
        let hit = machine.fault_hits(fault) > 0;
        machine.clear_faults();
        machine.kill(&p);
        drop(taken);
        drop(store);
        go_on(&machine, 20, &format!("recovery sync {kth}"));
        if !hit {
            break;
        }
    }
}

#[test]
fn a_full_disk_in_a_rotation_changes_nothing() {
    for kth in 1..8 {
        let machine = SimMachine::new(4);
        let options = StoreOptions::default().with_segment_bytes(256 << 10, 256 << 10);
        let (p, store) = create(&machine, options);
        let mut w = session(&store, "s");
        let calls = [Call::Allocate, Call::Create];
        machine.fail(FaultPlan::new(&calls, kth, FaultError::NoSpace).only(&p));
        let mut stored = Vec::new();
        for n in 0..40 {
            let data = note(n, 30_000);
            match w.append_batch(&[event(&data)], Level::Os) {
                Ok(_) => stored.push(data),
                Err(e) => assert_eq!(e.kind(), everlog::ErrorKind::StorageFull, "kth {kth}"),
            }
        }
        assert!(stored.len() >= 39, "kth {kth}: {}", stored.len());
        for (n, data) in stored.iter().enumerate() {
            assert_eq!(w.read(n as u64).unwrap().data[..], data[..]);
        }
        w.close().unwrap();
        store.close().unwrap();
        verify(&machine, stored.len() as u64, &format!("full {kth}"));
    }
}

#[test]
fn a_failed_lane_that_is_left_is_opened_before_an_id_counts_as_free() {
    let machine = SimMachine::new(5);
    let (p, store) = create(&machine, StoreOptions::default());
    let mut w = session(&store, "s");
    let _ = w.append_batch(&[event(b"0")], Level::Os).unwrap();
    let q = process(&machine, "other");
    let other = open(&q, StoreOptions::default());
    let o = session(&other, "t");
    machine.fail(FaultPlan::new(&[Call::SyncData], 1, FaultError::Io).only(&p));
    store.sync().unwrap_err();
    machine.kill(&p);
    let r = process(&machine, "third");
    let third = open(&r, StoreOptions::default());
    assert_eq!(third.writer(&id("s")).unwrap().next_seq(), 1);
    let again = other.create_session(&everlog::NewSession::new("s").unwrap());
    assert_eq!(again.map(|_| ()).map_err(|e| e.kind()), Err(everlog::ErrorKind::Exists));
    drop((w, o));
}
