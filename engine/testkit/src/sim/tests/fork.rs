//! Children of processes: shared descriptions, locks, and what each side can do to the other.

use everlog::vfs::{LockKind, OpenHow, Vfs};

use super::super::is_killed;
use super::{NEW, file, opened, read, store};

#[test]
fn the_same_objects_act_as_the_child() {
    let (machine, parent, dir) = store(1);
    let f = file(&*dir, "f");
    let child = machine.fork(&parent);
    let generation = parent.fork_generation();
    assert_ne!(child.fork_generation(), generation);
    machine.run_as(&child, || {
        assert_eq!(parent.pid(), child.id());
        assert_eq!(parent.fork_generation(), child.fork_generation());
        f.write_at(b"child", 0).unwrap();
        machine.run_as(&parent, || assert_eq!(parent.pid(), parent.id()));
    });
    assert_eq!(parent.pid(), parent.id());
    assert_eq!(parent.fork_generation(), generation);
    assert_eq!(read(&*f), b"child");
    let names: Vec<_> = machine.log().iter().map(|r| r.process.to_string()).collect();
    assert_eq!(names.last().unwrap(), "p+");
    machine.kill(&child);
    machine.run_as(&child, || assert!(is_killed(&f.len().unwrap_err())));
    f.len().unwrap();
}

#[test]
fn other_processes_are_not_taken_for_the_child() {
    let (machine, parent, _) = store(1);
    let child = machine.fork(&parent);
    let grandchild = machine.fork(&child);
    let stranger = machine.process("stranger");
    machine.run_as(&grandchild, || {
        assert_eq!(parent.pid(), grandchild.id());
        assert_eq!(child.pid(), grandchild.id());
        assert_eq!(stranger.pid(), stranger.id());
    });
    machine.run_as(&child, || assert_eq!(grandchild.pid(), grandchild.id()));
}

#[test]
fn a_child_unlocks_for_its_parent() {
    let (machine, parent, dir) = store(1);
    let f = file(&*dir, "lock");
    let other = opened(&machine.process("q")).open("lock", OpenHow::ReadWrite).unwrap();
    assert!(f.try_lock().unwrap());
    assert!(f.try_lock_range(0, 4, LockKind::Exclusive).unwrap());
    let child = machine.fork(&parent);
    machine.run_as(&child, || {
        assert!(f.try_lock().unwrap(), "it holds it, too");
        f.unlock().unwrap();
        f.unlock_range(0, 4).unwrap();
    });
    assert!(other.try_lock().unwrap());
    assert!(other.try_lock_range(0, 4, LockKind::Exclusive).unwrap());
    assert!(!f.try_lock().unwrap());
}

#[test]
fn an_inherited_lock_outlives_its_taker_until_the_child_ends() {
    let (machine, parent, dir) = store(1);
    let f = file(&*dir, "lock");
    let other = opened(&machine.process("q")).open("lock", OpenHow::Read).unwrap();
    assert!(f.try_lock().unwrap());
    let child = machine.fork(&parent);
    machine.kill(&parent);
    assert!(!other.try_lock().unwrap());
    machine.kill(&child);
    assert!(other.try_lock().unwrap());
}

#[test]
fn a_file_closed_in_the_child_keeps_no_lock_there() {
    let (machine, parent, dir) = store(1);
    let f = file(&*dir, "lock");
    f.close_in_child();
    assert!(f.try_lock().unwrap());
    let other = opened(&machine.process("q")).open("lock", OpenHow::Read).unwrap();
    let child = machine.fork(&parent);
    machine.run_as(&child, || assert_eq!(f.unlock().unwrap_err().os_code(), Some(9)));
    assert!(!other.try_lock().unwrap());
    machine.kill(&parent);
    assert!(machine.is_alive(&child));
    assert!(other.try_lock().unwrap());
}

#[test]
fn what_a_child_drops_stays_open_in_its_parent() {
    let (machine, parent, dir) = store(1);
    let f = file(&*dir, "lock");
    assert!(f.try_lock().unwrap());
    let other = opened(&machine.process("q")).open("lock", OpenHow::Read).unwrap();
    let child = machine.fork(&parent);
    machine.run_as(&child, || drop(f));
    assert!(!other.try_lock().unwrap());
    machine.kill(&child);
    assert!(!other.try_lock().unwrap());
    machine.kill(&parent);
    assert!(other.try_lock().unwrap());
}

#[test]
fn what_a_child_opens_is_its_own() {
    let (machine, parent, dir) = store(1);
    let child = machine.fork(&parent);
    let f = machine.run_as(&child, || dir.open("own", NEW).unwrap());
    assert!(f.try_lock().unwrap());
    machine.kill(&parent);
    f.write_at(b"1", 0).unwrap();
    machine.kill(&child);
    assert!(is_killed(&f.write_at(b"1", 0).unwrap_err()));
    assert!(!machine.is_alive(&machine.fork(&child)), "the dead have no children");
}
