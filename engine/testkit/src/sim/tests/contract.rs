//! D1 to D6, and what each call of the disk below says it does.

use std::path::Path;

use everlog::ErrorKind;
use everlog::vfs::{Access, EntryKind, LockKind, OpenHow, Ownership, Vfs};

use super::super::{CrashPlan, SimMachine};
use super::{NEW, file, filled, opened, read, store};

#[test]
fn d1_names_are_single_components_and_links_are_refused() {
    let (machine, process, dir) = store(1);
    for bad in ["", ".", "..", "a/b", "a\0b", &"x".repeat(256)] {
        assert!(dir.open(bad, NEW).is_err(), "{bad:?}");
        assert!(dir.create_dir(bad, Access::Private).is_err(), "{bad:?}");
    }
    assert!(machine.plant_other("/s/link"));
    let kind = |how| dir.open("link", how).unwrap_err().kind();
    assert_eq!(kind(OpenHow::Read), ErrorKind::InsecurePermissions);
    assert_eq!(kind(NEW), ErrorKind::Exists);
    assert_eq!(dir.open_dir("link").unwrap_err().kind(), ErrorKind::Io);
    assert!(process.open_root(Path::new("/s/link")).is_err());
    assert!(process.open_root(Path::new("/s/../s")).is_err());
    assert_eq!(process.open_root(Path::new("/none")).unwrap_err().kind(), ErrorKind::NotFound);
    dir.create_dir("sub", Access::Private).unwrap();
    assert_eq!(dir.open("sub", OpenHow::Read).unwrap_err().kind(), ErrorKind::InsecurePermissions);
}

#[test]
fn d2_written_bytes_are_seen_at_once_and_outlive_the_process() {
    let (machine, process, dir) = store(1);
    let one = filled(&*dir, "f", b'a', 10);
    let other = opened(&machine.process("q")).open("f", OpenHow::Read).unwrap();
    let map = other.map().unwrap().unwrap();
    one.write_at(b"xyz", 4).unwrap();
    assert_eq!(read(&*other), b"aaaaxyzaaa");
    let mut buf = [0; 3];
    assert!(map.copy_out(&mut buf, 4));
    assert_eq!(&buf, b"xyz");
    machine.kill(&process);
    assert_eq!(read(&*other), b"aaaaxyzaaa");
    let image = machine.process_crash_image();
    assert_eq!(image.read_file("/s/f").unwrap(), b"aaaaxyzaaa");
    // It is still only in the page cache.
    let cut = image.power_loss(&CrashPlan::nothing());
    assert_eq!(cut.read_file("/s/f").unwrap(), b"aaaaaaaaaa");
}

#[test]
fn d2_bytes_outlive_the_machine_once_synced() {
    let (machine, _, dir) = store(1);
    let f = filled(&*dir, "f", b'a', 10);
    f.write_at(b"bb", 9).unwrap();
    let lost = machine.power_loss(&CrashPlan::nothing());
    assert_eq!(lost.read_file("/s/f").unwrap(), b"aaaaaaaaaa");
    f.sync_data().unwrap();
    let kept = machine.power_loss(&CrashPlan::nothing());
    assert_eq!(kept.read_file("/s/f").unwrap(), b"aaaaaaaaabb");
}

#[test]
fn d4_names_need_the_sync_of_their_own_folder() {
    let (machine, _, dir) = store(1);
    dir.create_dir("sub", Access::Private).unwrap();
    let sub = dir.open_dir("sub").unwrap();
    let f = sub.open("f", NEW).unwrap();
    f.write_at(b"1", 0).unwrap();
    f.sync_data().unwrap();
    sub.sync().unwrap();
    let nothing = CrashPlan::nothing();
    assert_eq!(machine.power_loss(&nothing).list("/s"), Vec::<String>::new());
    dir.sync().unwrap();
    assert_eq!(machine.power_loss(&nothing).read_file("/s/sub/f").unwrap(), b"1");

    sub.link("f", "g").unwrap();
    sub.remove("f").unwrap();
    assert_eq!(machine.list("/s/sub"), ["g"]);
    assert_eq!(machine.power_loss(&nothing).list("/s/sub"), ["f"]);
    assert_eq!(machine.power_loss(&CrashPlan::all()).list("/s/sub"), ["g"]);
    sub.sync().unwrap();
    assert_eq!(machine.power_loss(&nothing).list("/s/sub"), ["g"]);
    assert_eq!(machine.power_loss(&nothing).read_file("/s/sub/g").unwrap(), b"1");
}

#[test]
fn d4_size_and_allocation_need_the_sync_of_the_file() {
    let (machine, _, dir) = store(1);
    let f = file(&*dir, "f");
    f.allocate(1 << 20).unwrap();
    let nothing = CrashPlan::nothing();
    assert_eq!(machine.power_loss(&nothing).read_file("/s/f").unwrap().len(), 0);
    f.sync_data().unwrap();
    let image = machine.power_loss(&nothing);
    assert_eq!(image.read_file("/s/f").unwrap(), vec![0; 1 << 20]);
    assert_eq!(image.free_bytes(), machine.free_bytes());
}

#[test]
fn d4_create_root_syncs_all_that_it_makes() {
    let machine = SimMachine::new(1);
    let process = machine.process("p");
    process.create_root(Path::new("/a/b/c"), Access::Group).unwrap();
    let ops = machine.ops();
    process.create_root(Path::new("/a/b/c"), Access::Group).unwrap();
    assert_eq!(machine.ops(), ops + 1, "an existing folder is opened, and its name made durable");
    let image = machine.power_loss(&CrashPlan::nothing());
    let dir = image.process("q").open_root(Path::new("/a/b/c")).unwrap();
    let rights = Ownership { own: true, group_write: true, world: false };
    assert_eq!(dir.ownership().unwrap(), rights);
}

#[test]
fn files_are_opened_as_asked() {
    let (machine, _, dir) = store(1);
    let f = filled(&*dir, "f", 1, 3);
    let reader = dir.open("f", OpenHow::Read).unwrap();
    assert!(reader.write_at(b"x", 0).is_err());
    assert!(reader.allocate(10).is_err());
    let mut buf = [0; 9];
    assert_eq!(reader.read_at(&mut buf, 1).unwrap(), 2);
    assert_eq!(reader.read_at(&mut buf, 3).unwrap(), 0);
    assert_eq!(dir.open("f", NEW).unwrap_err().kind(), ErrorKind::Exists);
    assert_eq!(dir.open("g", OpenHow::ReadWrite).unwrap_err().kind(), ErrorKind::NotFound);
    dir.link("f", "g").unwrap();
    assert_eq!(dir.link("f", "g").unwrap_err().kind(), ErrorKind::Exists);
    assert_eq!(dir.link("h", "i").unwrap_err().kind(), ErrorKind::NotFound);
    let twice = dir.open("g", OpenHow::ReadWrite).unwrap_err();
    assert_eq!(twice.kind(), ErrorKind::InsecurePermissions);
    dir.open("g", OpenHow::Read).unwrap();
    dir.remove("f").unwrap();
    dir.open("g", OpenHow::ReadWrite).unwrap();
    f.set_read_only().unwrap();
    f.write_at(b"on", 0).unwrap();
    assert_eq!(dir.open("g", OpenHow::ReadWrite).unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(machine.read_file("/s/g").unwrap(), [b'o', b'n', 1]);
}

#[test]
fn folders_list_and_are_removed_when_empty() {
    let (_, _, dir) = store(1);
    dir.create_dir("d", Access::Private).unwrap();
    assert_eq!(dir.create_dir("d", Access::Private).unwrap_err().kind(), ErrorKind::Exists);
    let sub = dir.open_dir("d").unwrap();
    file(&*sub, "f");
    let entries = dir.list().unwrap();
    assert_eq!(entries.len(), 1);
    assert_eq!((&entries[0].name[..], entries[0].kind), (&b"d"[..], EntryKind::Dir));
    assert_eq!(dir.remove("d").unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(dir.remove_dir("d").unwrap_err().kind(), ErrorKind::Io);
    sub.remove("f").unwrap();
    assert_eq!(sub.remove("f").unwrap_err().kind(), ErrorKind::NotFound);
    dir.remove_dir("d").unwrap();
    assert_eq!(sub.open("late", NEW).unwrap_err().kind(), ErrorKind::NotFound);
    assert!(dir.list().unwrap().is_empty());
}

#[test]
fn removed_files_go_on_for_those_who_have_them_open() {
    let (machine, process, dir) = store(1);
    let before = machine.free_bytes();
    let f = file(&*dir, "f");
    f.allocate(8192).unwrap();
    f.write_at(b"abc", 0).unwrap();
    let map = f.map().unwrap().unwrap();
    dir.remove("f").unwrap();
    dir.sync().unwrap();
    assert_eq!(&read(&*f)[..3], b"abc");
    assert!(machine.free_bytes() < before);
    drop(f);
    let mut buf = [0; 3];
    assert!(map.copy_out(&mut buf, 0));
    assert_eq!(&buf, b"abc");
    assert!(!map.copy_out(&mut buf, 8190), "only inside the map");
    assert!(!map.copy_out(&mut buf, u64::MAX));
    drop(map);
    assert_eq!(machine.free_bytes(), before);
    assert!(machine.is_alive(&process));
}

#[test]
fn maps_keep_their_length_and_can_be_refused() {
    let (machine, _, dir) = store(1);
    let f = filled(&*dir, "f", 1, 4);
    let map = f.map().unwrap().unwrap();
    f.write_at(&[2; 8], 0).unwrap();
    assert_eq!(map.map_len(), 4);
    let mut buf = [0; 4];
    assert!(map.copy_out(&mut buf, 0));
    assert_eq!(buf, [2; 4]);
    assert!(!map.copy_out(&mut buf, 1));
    assert!(machine.truncate("/s/f", 2));
    assert!(!map.copy_out(&mut buf, 0), "the file got shorter than the map");
    machine.set_maps(false);
    assert!(f.map().unwrap().is_none());
}

#[test]
fn punched_ranges_read_as_zero_and_give_room_back() {
    let (machine, _, dir) = store(1);
    let f = filled(&*dir, "f", 7, 5 * 4096);
    let free = machine.free_bytes();
    f.punch(4000, 2 * 4096).unwrap();
    assert_eq!(machine.free_bytes(), free + 4096);
    let bytes = read(&*f);
    assert_eq!(bytes.len(), 5 * 4096);
    for (i, byte) in bytes.iter().enumerate() {
        let inside = (4000..4000 + 2 * 4096).contains(&i);
        assert_eq!(*byte, if inside { 0 } else { 7 }, "{i}");
    }
    f.punch(3 * 4096, u64::MAX - 3 * 4096).unwrap();
    assert_eq!(machine.free_bytes(), free + 3 * 4096);
    assert_eq!(f.len().unwrap(), 5 * 4096);
}

#[test]
fn a_full_disk_refuses_room_and_keeps_allocated_room() {
    let (machine, _, dir) = store(1);
    let f = file(&*dir, "f");
    let used = (1 << 40) - machine.free_bytes();
    machine.set_capacity(used + 4 * 4096);
    assert_eq!(dir.space().unwrap().free_bytes, 4 * 4096);
    assert_eq!(f.allocate(5 * 4096).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(f.len().unwrap(), 0, "size unchanged");
    f.allocate(3 * 4096).unwrap();
    let g = file(&*dir, "g");
    assert_eq!(dir.open("h", NEW).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(dir.create_dir("h", Access::Private).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(g.write_at(b"x", 0).unwrap_err().kind(), ErrorKind::StorageFull);
    f.write_at(&[1; 3 * 4096], 0).unwrap();
    let past = f.write_at(&[2; 4096], 3 * 4096 - 100).unwrap_err();
    assert_eq!((past.kind(), past.os_code()), (ErrorKind::StorageFull, Some(28)));
    let bytes = read(&*f);
    assert_eq!(bytes.len(), 3 * 4096);
    assert_eq!(&bytes[3 * 4096 - 100..], &[2; 100], "the part that fits is written");
    machine.set_capacity(1 << 40);
    g.write_at(b"x", 0).unwrap();
}

#[test]
fn whole_file_locks_belong_to_the_open_file() {
    let (machine, process, dir) = store(1);
    let a = file(&*dir, "lock");
    let b = dir.open("lock", OpenHow::Read).unwrap();
    assert!(a.try_lock().unwrap());
    assert!(a.try_lock().unwrap(), "again by the holder");
    assert!(!b.try_lock().unwrap());
    b.unlock().unwrap();
    assert!(!b.try_lock().unwrap(), "only the holder lets go");
    a.unlock().unwrap();
    assert!(b.try_lock().unwrap());
    drop(b);
    assert!(a.try_lock().unwrap(), "closing lets go");
    let other = opened(&machine.process("q")).open("lock", OpenHow::ReadWrite).unwrap();
    assert!(!other.try_lock().unwrap());
    assert!(other.try_lock_range(0, 10, LockKind::Exclusive).unwrap(), "independent");
    machine.kill(&process);
    assert!(other.try_lock().unwrap(), "death lets go");
}

#[test]
fn range_locks_exclude_by_overlap_and_kind() {
    let (_, _, dir) = store(1);
    let a = file(&*dir, "lock");
    let b = dir.open("lock", OpenHow::ReadWrite).unwrap();
    let c = dir.open("lock", OpenHow::Read).unwrap();
    let (shared, exclusive) = (LockKind::Shared, LockKind::Exclusive);
    assert!(a.try_lock_range(10, 10, exclusive).unwrap());
    assert!(!b.try_lock_range(19, 1, shared).unwrap());
    assert!(!b.try_lock_range(0, 0, shared).unwrap(), "a length of 0 reaches to the end");
    assert!(b.try_lock_range(20, 5, shared).unwrap());
    assert!(b.try_lock_range(0, 10, exclusive).unwrap());
    assert!(c.try_lock_range(22, 1, shared).unwrap());
    assert!(!a.try_lock_range(22, 1, exclusive).unwrap());
    assert!(c.try_lock_range(50, 1, exclusive).is_err(), "needs the right to write");
    // Turned into a shared lock in the middle: others may share there, and nowhere else.
    assert!(a.try_lock_range(14, 2, shared).unwrap());
    assert!(b.try_lock_range(14, 2, shared).unwrap());
    assert!(!b.try_lock_range(13, 2, shared).unwrap());
    assert!(!b.try_lock_range(16, 1, shared).unwrap());
    a.unlock_range(12, 8).unwrap();
    assert!(b.try_lock_range(12, 8, exclusive).unwrap());
    assert!(!b.try_lock_range(11, 1, shared).unwrap());
    drop(a);
    assert!(b.try_lock_range(10, 2, exclusive).unwrap());
}

#[test]
fn the_clock_goes_on_and_sleeping_lets_others_run() {
    let (machine, process, _) = store(1);
    let (t0, n0) = (process.now_ms(), process.monotonic_ns());
    let peer = machine.process("peer");
    machine.on_sleep(move |sleeper| {
        assert_eq!(sleeper.name(), "p");
        opened(&peer).open("from-peer", NEW).unwrap();
        peer.sleep_ms(5);
    });
    process.sleep_ms(100);
    assert_eq!(machine.list("/s"), ["from-peer"]);
    assert!((105..110).contains(&(process.now_ms() - t0)));
    assert!(process.monotonic_ns() > n0 + 105_000_000);
    let n1 = process.monotonic_ns();
    machine.step_wall_clock(-1_000_000);
    assert!(process.now_ms() < t0);
    assert!(process.monotonic_ns() > n1);
    machine.clear_hooks();
    process.sleep_ms(1);
    assert!(!process.has_threads());
}
