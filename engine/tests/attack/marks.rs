//! SYNCMARK and CLOSE frames: how many there are, and that they keep to their segment.

use everlog::{CheckOptions, Level, StoreOptions};
use everlog_testkit::sim::{CrashPlan, SimMachine};

use crate::kit::{create, event, id, note, open, process, segment, session};

/// Small segments, so that their ends are met.
fn small() -> StoreOptions {
    StoreOptions::default().with_segment_bytes(256 << 10, 256 << 10)
}

#[test]
fn a_quiet_lane_gets_one_mark_and_is_then_left_alone() {
    let machine = SimMachine::new(1);
    let (_p, store) = create(&machine, small());
    let mut w = session(&store, "s");
    let _ = w.append_batch(&[event(b"1")], Level::Sync).unwrap();
    for _ in 0..4 {
        machine.advance_ms(1_000);
        store.upkeep().unwrap();
    }
    let settled = machine.read_file(&segment(0)).unwrap();
    let counts = store.io_counts();
    for _ in 0..50 {
        machine.advance_ms(1_000);
        store.upkeep().unwrap();
    }
    assert_eq!(store.io_counts(), counts, "an idle lane goes on writing");
    assert!(machine.read_file(&segment(0)).unwrap() == settled);
}

#[test]
fn marks_at_the_end_of_a_segment_do_not_leave_it() {
    for fill in 0..12 {
        let machine = SimMachine::new(2);
        let (p, store) = create(&machine, small());
        // Control frames may use the room that events leave.
        let mut writers = Vec::new();
        let mut n = 0;
        let segments = || {
            let names = machine.list("/data/store/lanes/0000");
            names.iter().filter(|f| f.ends_with(".seg")).count()
        };
        while segments() <= 1 {
            let name = format!("session-{n}-{}", "y".repeat(900 + fill * 5));
            let mut w = session(&store, &name);
            if n == 0 {
                let _ = w.append_batch(&[event(&note(0, 100_000))], Level::Os).unwrap();
                writers.push(w);
            }
            n += 1;
        }
        machine.kill(&p);
        let q = process(&machine, "next");
        let store = open(&q, small());
        let w = store.writer(&id(&format!("session-0-{}", "y".repeat(900 + fill * 5)))).unwrap();
        assert_eq!(w.next_seq(), 1);
        w.close().unwrap();
        store.close().unwrap();
        for no in 0..3 {
            if let Some(bytes) = machine.read_file(&segment(no)) {
                assert_eq!(bytes.len() % (256 << 10), 0, "segment {no} grew, fill {fill}");
            }
        }
        drop(writers);
    }
}

#[test]
fn killed_openings_do_not_push_marks_over_the_end() {
    let machine = SimMachine::new(3);
    let (p, store) = create(&machine, small());
    let mut w = session(&store, "s");
    // Up to the room that is kept for control frames.
    let mut n = 0;
    let data = note(0, 4_000);
    while machine.list("/data/store/lanes/0000").len() < 3 && n < 45 {
        let _ = w.append_batch(&[event(&data)], Level::Os).unwrap();
        n += 1;
    }
    machine.kill(&p);
    drop(w);
    drop(store);
    for round in 0..1_500 {
        let q = process(&machine, "again");
        let store = open(&q, small());
        let w = store.writer(&id("s")).unwrap();
        assert_eq!(w.next_seq(), n as u64, "round {round}");
        machine.kill(&q);
        drop(w);
    }
    let after = machine.power_loss(&CrashPlan::nothing());
    let q = process(&after, "last");
    let store = open(&q, small());
    let mut w = store.writer(&id("s")).unwrap();
    let _ = w.append_batch(&[event(b"2")], Level::Sync).unwrap();
    let report = store.check(&CheckOptions::default(), &mut |_, _| true).unwrap();
    assert!(report.is_clean(), "{:?}", report.damage);
    assert_eq!(report.events, n as u64 + 1);
    assert!(store.recovery_report().unwrap().damage.is_empty());
}
