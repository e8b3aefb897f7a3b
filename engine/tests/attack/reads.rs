//! Reads of what is staged, listed by an index that is not written yet, or gone.

use everlog::{ErrorKind, Level, StoreOptions};
use everlog_testkit::sim::{Call, FaultError, FaultPlan, SimMachine};

use crate::kit::{create, event, id, note, open, process, session};

#[test]
fn events_that_a_staged_index_lists_are_read() {
    let machine = SimMachine::new(1);
    let (_p, store) = create(&machine, StoreOptions::default());
    let mut w = session(&store, "s");
    for n in 0..2_400 {
        let data = note(n, 900);
        let _ = w.append_batch(&[event(&data)], Level::Buffered).unwrap();
        let got = w.read(n as u64).unwrap_or_else(|e| panic!("event {n}: {e:?}"));
        assert_eq!(got.data[..], data[..]);
    }
}

#[test]
fn a_large_staged_batch_with_its_index_is_read() {
    let machine = SimMachine::new(2);
    let (_p, store) = create(&machine, StoreOptions::default());
    let mut w = session(&store, "s");
    let mut v = session(&store, "t");
    for n in 0..40 {
        let data = note(n, 100_000 + 7 * n);
        let _ = w.append_batch(&[event(&data)], Level::Buffered).unwrap();
        let _ = v
            .append_batch(&[event(&data[..1].repeat(0)), event(b"1")][1..], Level::Buffered)
            .unwrap();
        for back in [0, 1, 7] {
            let Some(seq) = n.checked_sub(back) else { continue };
            assert_eq!(w.read(seq as u64).unwrap().data[..], note(seq, 100_000 + 7 * seq)[..]);
            assert_eq!(v.read(seq as u64).unwrap().data[..], b"1"[..]);
        }
    }
}

#[test]
fn a_read_that_fails_in_the_midst_of_a_refresh_leaves_no_conflict() {
    for kth in 1..40 {
        let machine = SimMachine::new(3);
        let (_p, store) = create(&machine, StoreOptions::default());
        let mut w = session(&store, "s");
        let q = process(&machine, "reader");
        let reader = open(&q, StoreOptions::default());
        for n in 0..700 {
            let _ = w.append_batch(&[event(&note(n, 2_000))], Level::Os).unwrap();
        }
        machine.fail(FaultPlan::new(&[Call::Read, Call::Open], kth, FaultError::Io).only(&q));
        let _first = reader.refresh();
        machine.clear_faults();
        reader.refresh().unwrap();
        let s = reader.session(&id("s")).unwrap();
        assert_eq!(s.next_seq(), 700, "kth {kth}");
        for n in [0, 1, 350, 699] {
            assert_eq!(s.read(n).map(|e| e.seq).map_err(|e| e.kind()), Ok(n), "kth {kth}");
        }
        let info = reader.info().unwrap();
        assert_eq!(info.events, 700);
        drop(w);
    }
}

#[test]
fn nothing_that_is_not_durable_is_shown_after_a_failed_sync() {
    let machine = SimMachine::new(4);
    let (p, store) = create(&machine, StoreOptions::default());
    let mut w = session(&store, "s");
    let mut n = 0;
    let _ = w.append_batch(&[event(b"0")], Level::Sync).unwrap();
    while n < 1_300 {
        n += 1;
        let _ = w.append_batch(&[event(&note(n, 900))], Level::Os).unwrap();
    }
    let s = store.session(&id("s")).unwrap();
    // The place of the last read is kept.
    assert_eq!(s.read(600).unwrap().seq, 600);
    machine.fail(FaultPlan::new(&[Call::SyncData], 1, FaultError::Io).only(&p));
    assert_eq!(store.sync().unwrap_err().kind(), ErrorKind::OutcomeUnknown);
    assert_eq!(s.next_seq(), 1);
    assert_eq!(s.read(600).map(|e| e.seq).map_err(|e| e.kind()), Err(ErrorKind::NotFound));
}

#[test]
fn the_far_end_of_an_iteration_is_cheap() {
    let machine = SimMachine::new(5);
    let (_p, store) = create(&machine, StoreOptions::default());
    let mut w = session(&store, "s");
    let events: Vec<_> = (0..65_535).map(|_| event(b"1")).collect();
    let _ = w.append_batch(&events, Level::Os).unwrap();
    let mut iter = w.iter();
    assert_eq!(iter.next_back().unwrap().unwrap().seq, 65_534);
    let begun = std::time::Instant::now();
    for seq in 0..65_534 {
        assert_eq!(iter.next().unwrap().unwrap().seq, seq);
    }
    assert!(iter.next().is_none());
    assert!(begun.elapsed().as_secs() < 2, "{:?}", begun.elapsed());
}
