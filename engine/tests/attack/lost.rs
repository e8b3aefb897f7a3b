//! Segments that are gone or lost their header: what is whole is read, and nothing is given out twice.

use everlog::{Level, StoreOptions};
use everlog_testkit::sim::SimMachine;

use crate::kit::{create, event, id, note, open, process, segment, session};

fn small() -> StoreOptions {
    StoreOptions::default().with_segment_bytes(256 << 10, 256 << 10)
}

/// A closed store with one session a segment, each of five large events; returns the names.
fn filled(machine: &SimMachine) -> Vec<String> {
    let (_p, store) = create(machine, small());
    let names: Vec<String> = (0..5).map(|n| format!("s{n}")).collect();
    for (i, name) in names.iter().enumerate() {
        let mut w = session(&store, name);
        for n in 0..5 {
            let _ = w.append_batch(&[event(&note(i * 10 + n, 35_000))], Level::Sync).unwrap();
        }
    }
    store.close().unwrap();
    names
}

#[test]
fn sessions_behind_a_missing_segment_are_read() {
    let machine = SimMachine::new(1);
    let names = filled(&machine);
    assert!(machine.remove_path(&segment(1)));
    let store = open(&process(&machine, "reader"), small());
    let readable =
        names.iter().filter(|n| store.session(&id(n)).is_ok_and(|s| s.read(4).is_ok())).count();
    assert!(readable >= 2, "{readable} of 5 sessions are readable");
    let mut w = session(&store, "new");
    let _ = w.append_batch(&[event(b"1")], Level::Sync).unwrap();
    assert_ne!(w.event_id(0).unwrap().lane, 0);
}

#[test]
fn a_lost_header_of_the_active_segment_gives_no_number_twice() {
    for zero in [false, true] {
        let machine = SimMachine::new(2);
        let names = filled(&machine);
        let last = (0..9).rev().find(|n| machine.read_file(&segment(*n)).is_some()).unwrap();
        machine.damage(&segment(last), 0, 4_096, |b| {
            if zero {
                b.fill(0);
            } else {
                b[70] ^= 1;
            }
        });
        let store = open(&process(&machine, "next"), small());
        let mut w = session(&store, "new");
        let _ = w.append_batch(&[event(b"1")], Level::Sync).unwrap();
        drop(w);
        store.close().unwrap();
        let store = open(&process(&machine, "reader"), small());
        assert_eq!(store.session(&id("new")).unwrap().read(0).unwrap().data[..], b"1"[..]);
        for (i, name) in names.iter().enumerate() {
            let s = store.session(&id(name)).unwrap_or_else(|e| panic!("zero {zero}: {e:?}"));
            for n in 0..5 {
                let got = s.read(n as u64).unwrap_or_else(|e| panic!("zero {zero}: {e:?}"));
                assert_eq!(got.data[..], note(i * 10 + n, 35_000)[..]);
            }
        }
    }
}

#[test]
fn an_empty_active_segment_that_lost_its_header_gives_no_number_twice() {
    let machine = SimMachine::new(3);
    let (p, store) = create(&machine, small());
    let mut w = session(&store, "s");
    let _ = w.append_batch(&[event(&note(0, 100_000))], Level::Sync).unwrap();
    // Turns to a segment that is then cut down to its header, as if nothing had come.
    let _ = w.append_batch(&[event(&note(1, 100_000))], Level::Sync).unwrap();
    machine.kill(&p);
    assert!(machine.read_file(&segment(1)).is_some());
    machine.damage(&segment(1), 0, 1 << 20, |b| {
        b[4_096..].fill(0);
        b[70] ^= 1;
    });
    let store = open(&process(&machine, "next"), small());
    let mut v = session(&store, "new");
    let receipt = v.append_batch(&[event(b"1")], Level::Sync).unwrap();
    let old = store.session(&id("s")).unwrap();
    assert_ne!(old.event_id(0).unwrap(), receipt.first_id());
    assert_eq!(v.read(0).unwrap().data[..], b"1"[..]);
    assert_eq!(old.read(0).unwrap().data[..], note(0, 100_000)[..]);
}
