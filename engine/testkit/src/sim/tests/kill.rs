//! Ends at a chosen call: of a process, of the machine, before the call and in the middle of it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use everlog::vfs::{OpenHow, Vfs};

use super::super::{Call, CrashPlan, SimMachine, is_down, is_killed};
use super::{NEW, file, filled, opened, read, store};

#[test]
fn a_killed_process_fails_alone() {
    let (machine, process, dir) = store(1);
    let f = filled(&*dir, "f", 1, 8);
    let map = f.map().unwrap().unwrap();
    let other = machine.process("q");
    let g = opened(&other).open("f", OpenHow::ReadWrite).unwrap();
    machine.kill(&process);
    assert!(is_killed(&f.write_at(b"x", 0).unwrap_err()));
    assert!(is_killed(&f.len().unwrap_err()));
    assert!(is_killed(&dir.list().unwrap_err()));
    assert!(is_killed(&process.open_root("/s".as_ref()).unwrap_err()));
    assert!(!map.copy_out(&mut [0; 1], 0));
    assert!(!machine.is_alive(&process) && machine.is_alive(&other));
    g.write_at(b"x", 0).unwrap();
    assert_eq!(read(&*g)[0], b'x');
}

/// Makes a file of three bytes in five numbered calls after the two of `store`.
fn work(seed: u64, prepare: impl FnOnce(&SimMachine)) -> (SimMachine, Result<(), everlog::Error>) {
    let (machine, _, dir) = store(seed);
    prepare(&machine);
    let run = || {
        let f = dir.open("f", NEW)?;
        dir.sync()?;
        f.write_at(b"abc", 0)?;
        f.sync_data()?;
        dir.link("f", "g")
    };
    let result = run();
    (machine, result)
}

#[test]
fn a_crash_at_a_call_leaves_the_calls_before_it() {
    let (machine, result) = work(1, |_| ());
    result.unwrap();
    assert_eq!(machine.ops(), 7);
    let calls: Vec<Call> = machine.log().iter().map(|record| record.call).collect();
    assert_eq!(calls[2..], [Call::Create, Call::SyncDir, Call::Write, Call::SyncData, Call::Link]);
    let expected: [(&[&str], usize); 5] =
        [(&[], 0), (&["f"], 0), (&["f"], 0), (&["f"], 3), (&["f"], 3)];
    for (op, (names, len)) in (3..=7).zip(expected) {
        let (machine, result) = work(1, |machine| machine.crash_at(op));
        assert!(is_down(&result.unwrap_err()), "{op}");
        assert!(machine.is_down());
        assert_eq!(machine.ops(), op);
        assert_eq!(machine.list("/s"), names, "{op}");
        assert_eq!(machine.read_file("/s/f").map_or(0, |b| b.len()), len, "{op}");
        assert!(is_down(&machine.process("late").open_root("/s".as_ref()).unwrap_err()));
        let image = machine.process_crash_image();
        assert_eq!(image.digest(), machine.digest());
        opened(&image.process("next"));
    }
}

#[test]
fn a_write_can_be_cut_at_any_byte() {
    for cut in 0..=3 {
        let (machine, result) = work(1, |machine| machine.crash_during(5, Some(cut)));
        assert!(is_down(&result.unwrap_err()));
        assert_eq!(machine.read_file("/s/f").unwrap(), b"abc"[..cut as usize]);
        let all = machine.power_loss(&CrashPlan::all());
        assert_eq!(all.read_file("/s/f").unwrap(), b"abc"[..cut as usize]);
        let none = machine.power_loss(&CrashPlan::nothing());
        assert_eq!(none.read_file("/s/f").unwrap(), b"");
    }
    let lens = (0..50).map(|seed| {
        let (machine, result) = work(seed, |machine| machine.crash_during(5, None));
        assert!(is_down(&result.unwrap_err()));
        machine.read_file("/s/f").unwrap().len()
    });
    assert_eq!(lens.collect::<BTreeSet<_>>(), BTreeSet::from([0, 1, 2, 3]));
}

#[test]
fn other_calls_happen_or_not_when_they_are_cut() {
    for happens in [false, true] {
        let cut = Some(u64::from(happens));
        let (machine, result) = work(1, |machine| machine.crash_during(7, cut));
        assert!(is_down(&result.unwrap_err()));
        assert_eq!(machine.list("/s").len(), 1 + usize::from(happens));
        // The sync was done, but its caller never heard of it.
        let (machine, _) = work(1, |machine| machine.crash_during(6, cut));
        let after = machine.power_loss(&CrashPlan::nothing());
        assert_eq!(after.read_file("/s/f").unwrap().len(), if happens { 3 } else { 0 });
        assert_eq!(machine.read_file("/s/f").unwrap(), b"abc");
        let (machine, _) = work(1, |machine| machine.crash_during(3, cut));
        assert_eq!(machine.list("/s").len(), usize::from(happens));
    }
}

#[test]
fn a_kill_waits_for_a_call_of_its_process() {
    let (machine, process, dir) = store(1);
    let f = file(&*dir, "f");
    let other = machine.process("q");
    let g = opened(&other).open("f", OpenHow::ReadWrite).unwrap();
    machine.kill_during(&process, machine.ops() + 1, Some(2));
    g.write_at(b"1111", 0).unwrap();
    assert!(is_killed(&f.write_at(b"2222", 0).unwrap_err()));
    assert!(is_killed(&f.write_at(b"2222", 0).unwrap_err()));
    assert_eq!(read(&*g), b"2211");
    machine.kill_at(&other, machine.ops() + 1);
    assert!(is_killed(&g.write_at(b"3", 0).unwrap_err()));
    assert_eq!(machine.read_file("/s/f").unwrap(), b"2211");
    assert!(!machine.is_down());
}

#[test]
fn reads_are_numbered_when_asked() {
    let (machine, _, dir) = store(1);
    let f = filled(&*dir, "f", 1, 3);
    let ops = machine.ops();
    read(&*f);
    assert_eq!(machine.ops(), ops);
    machine.count_reads(true);
    read(&*f);
    assert_eq!(machine.ops(), ops + 2);
    let last = machine.log().pop().unwrap();
    assert_eq!((last.call, &*last.path, last.offset, last.len), (Call::Read, "/s/f", 0, 3));
    assert_eq!((&*last.process, last.op, last.result), ("p", ops + 2, Ok(())));
    machine.crash_at(ops + 3);
    assert!(is_down(&f.len().unwrap_err()));
}

#[test]
fn the_hook_sees_every_state_between_calls() {
    let states = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&states);
    let (machine, result) = work(1, |machine| {
        machine.before_op(move |op, snapshot| sink.lock().unwrap().push((op, snapshot.clone())));
    });
    result.unwrap();
    machine.clear_hooks();
    let states = states.lock().unwrap();
    assert_eq!(states.iter().map(|(op, _)| *op).collect::<Vec<_>>(), [3, 4, 5, 6, 7]);
    for (op, snapshot) in states.iter() {
        let (crashed, _) = work(1, |machine| machine.crash_at(*op));
        assert_eq!(snapshot.digest(), crashed.digest(), "{op}");
        for seed in 0..20 {
            let plan = CrashPlan::random(seed);
            let (a, b) = (snapshot.power_loss(&plan), crashed.power_loss(&plan));
            assert_eq!(a.digest(), b.digest(), "{op} {plan:?}");
        }
    }
}
