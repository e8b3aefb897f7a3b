//! The real disk keeps to the contract of `vfs`: one process, many, children of `fork(2)`, a full disk.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod process;
mod space;

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tempfile::{TempDir, tempdir};

use super::{OsVfs, parse_boot_id, read_boot_id};
use crate::error::{ErrorKind, Result};
use crate::vfs::{Access, DirEntry, EntryKind, LockKind, OpenHow, Vfs, VfsDir};

const NEW: OpenHow = OpenHow::CreateNew(Access::Private);

fn root_at(path: &Path) -> Arc<dyn VfsDir> {
    OsVfs::new().open_root(path).unwrap()
}

fn fresh() -> (TempDir, Arc<dyn VfsDir>) {
    let temp = tempdir().unwrap();
    let root = root_at(temp.path());
    (temp, root)
}

fn kind_of<T>(result: Result<T>) -> ErrorKind {
    match result {
        Ok(_) => panic!("the call did not fail"),
        Err(e) => {
            assert!(e.path().is_some() || e.kind() == ErrorKind::Invalid, "no path in {e:?}");
            e.kind()
        }
    }
}

fn mode_of(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn bytes_come_back() {
    let (_temp, root) = fresh();
    let file = root.open("a", NEW).unwrap();
    file.write_at(b"hello", 3).unwrap();
    file.sync_data().unwrap();
    root.sync().unwrap();
    assert_eq!(file.len().unwrap(), 8);
    let reader = root.open("a", OpenHow::Read).unwrap();
    let mut buf = [9; 16];
    assert_eq!(reader.read_at(&mut buf, 0).unwrap(), 8);
    assert_eq!(&buf[..9], b"\0\0\0hello\x09");
    assert_eq!(reader.read_at(&mut buf, 8).unwrap(), 0);
    assert_eq!(reader.read_at(&mut buf, u64::MAX).unwrap(), 0);
    assert_eq!(kind_of(reader.write_at(b"x", 0)), ErrorKind::Io);
    assert_eq!(kind_of(file.write_at(b"x", u64::MAX)), ErrorKind::Io);
}

#[test]
fn only_plain_files_are_opened() {
    let (temp, root) = fresh();
    fs::write(temp.path().join("target"), b"x").unwrap();
    symlink("target", temp.path().join("link")).unwrap();
    symlink("nowhere", temp.path().join("dangling")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        temp.path().join("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    let _socket = UnixListener::bind(temp.path().join("socket")).unwrap();
    fs::create_dir(temp.path().join("dir")).unwrap();
    for name in ["link", "dangling", "fifo", "socket", "dir"] {
        for how in [OpenHow::Read, OpenHow::ReadWrite] {
            let kind = kind_of(root.open(name, how));
            assert_eq!(kind, ErrorKind::InsecurePermissions, "{name} {how:?}");
        }
        assert_eq!(kind_of(root.open(name, NEW)), ErrorKind::Exists, "{name}");
    }
    assert!(!temp.path().join("nowhere").exists());
    assert_eq!(kind_of(root.open("none", OpenHow::Read)), ErrorKind::NotFound);
    assert_eq!(kind_of(root.open("none", OpenHow::ReadWrite)), ErrorKind::NotFound);
}

#[test]
fn a_file_with_two_names_is_not_written() {
    let (_temp, root) = fresh();
    drop(root.open("a", NEW).unwrap());
    root.link("a", "b").unwrap();
    assert_eq!(kind_of(root.open("a", OpenHow::ReadWrite)), ErrorKind::InsecurePermissions);
    root.open("b", OpenHow::Read).unwrap();
    root.remove("b").unwrap();
    root.open("a", OpenHow::ReadWrite).unwrap();
}

#[test]
fn folders_are_opened_without_links() {
    let (temp, root) = fresh();
    root.create_dir("d", Access::Private).unwrap();
    symlink("d", temp.path().join("link")).unwrap();
    drop(root.open("f", NEW).unwrap());
    root.open_dir("d").unwrap().open("in", NEW).unwrap();
    assert!(temp.path().join("d/in").exists());
    assert_eq!(kind_of(root.open_dir("link")), ErrorKind::Io);
    assert_eq!(kind_of(root.open_dir("f")), ErrorKind::Io);
    assert_eq!(kind_of(root.open_dir("none")), ErrorKind::NotFound);
    // The path of the store itself is the user's word: links in it are followed.
    OsVfs::new().open_root(&temp.path().join("link")).unwrap().open("in", OpenHow::Read).unwrap();
    assert_eq!(kind_of(OsVfs::new().open_root(&temp.path().join("f"))), ErrorKind::Io);
    assert_eq!(kind_of(OsVfs::new().open_root(&temp.path().join("none"))), ErrorKind::NotFound);
}

#[test]
fn taken_and_missing_names_have_their_kinds() {
    let (_temp, root) = fresh();
    root.create_dir("d", Access::Private).unwrap();
    drop(root.open("f", NEW).unwrap());
    assert_eq!(kind_of(root.create_dir("d", Access::Private)), ErrorKind::Exists);
    assert_eq!(kind_of(root.create_dir("f", Access::Private)), ErrorKind::Exists);
    assert_eq!(kind_of(root.open("f", NEW)), ErrorKind::Exists);
    assert_eq!(kind_of(root.link("f", "d")), ErrorKind::Exists);
    assert_eq!(kind_of(root.link("none", "g")), ErrorKind::NotFound);
    assert_eq!(kind_of(root.remove("none")), ErrorKind::NotFound);
    assert_eq!(kind_of(root.remove_dir("none")), ErrorKind::NotFound);
    assert_eq!(kind_of(root.remove("d")), ErrorKind::Io);
    assert_eq!(kind_of(root.remove_dir("f")), ErrorKind::Io);
    root.open_dir("d").unwrap().open("in", NEW).unwrap();
    assert_eq!(kind_of(root.remove_dir("d")), ErrorKind::Io);
    root.open_dir("d").unwrap().remove("in").unwrap();
    root.remove_dir("d").unwrap();
    root.remove("f").unwrap();
    assert_eq!(root.list().unwrap(), []);
}

#[test]
fn a_name_is_one_component() {
    let (temp, root) = fresh();
    fs::create_dir(temp.path().join("d")).unwrap();
    for name in ["", ".", "..", "d/f", "/etc", "d/", "a\0b"] {
        assert_eq!(kind_of(root.open(name, NEW)), ErrorKind::Invalid, "{name:?}");
        assert_eq!(kind_of(root.create_dir(name, Access::Private)), ErrorKind::Invalid);
        assert_eq!(kind_of(root.open_dir(name)), ErrorKind::Invalid);
        assert_eq!(kind_of(root.remove(name)), ErrorKind::Invalid);
        assert_eq!(kind_of(root.remove_dir(name)), ErrorKind::Invalid);
        assert_eq!(kind_of(root.link("d", name)), ErrorKind::Invalid);
        assert_eq!(kind_of(root.link(name, "x")), ErrorKind::Invalid);
    }
}

#[test]
fn lists_say_what_names_stand_for() {
    let (temp, root) = fresh();
    root.create_dir("d", Access::Private).unwrap();
    drop(root.open("f", NEW).unwrap());
    symlink("f", temp.path().join("l")).unwrap();
    for _ in 0..2 {
        let mut found = root.list().unwrap();
        found.sort_by(|a, b| a.name.cmp(&b.name));
        let entry = |name: &str, kind| DirEntry { name: name.into(), kind };
        let wanted =
            [entry("d", EntryKind::Dir), entry("f", EntryKind::File), entry("l", EntryKind::Other)];
        assert_eq!(found, wanted);
    }
}

#[test]
fn roots_are_made_with_what_is_above_them() {
    let temp = tempdir().unwrap();
    let path = temp.path().join("a/b/c");
    let vfs = OsVfs::new();
    vfs.create_root(&path, Access::Private).unwrap().open("f", NEW).unwrap();
    for dir in ["a", "a/b", "a/b/c"] {
        assert_eq!(mode_of(&temp.path().join(dir)), 0o700, "{dir}");
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).unwrap();
    vfs.create_root(&path, Access::Private).unwrap().open("f", OpenHow::Read).unwrap();
    assert_eq!(mode_of(&path), 0o750);
    assert_eq!(kind_of(vfs.create_root(&path.join("f"), Access::Private)), ErrorKind::Io);
    assert_eq!(kind_of(vfs.create_root(&path.join("f/g"), Access::Private)), ErrorKind::Io);
}

#[test]
fn sealed_files_lose_the_right_to_write() {
    let (temp, root) = fresh();
    for (name, mode, sealed) in [("a", 0o600, 0o400), ("b", 0o660, 0o440), ("c", 0o640, 0o440)] {
        let file = root.open(name, NEW).unwrap();
        let path = temp.path().join(name);
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        file.set_read_only().unwrap();
        assert_eq!(mode_of(&path), sealed, "{name}");
        file.write_at(b"goes on", 0).unwrap();
    }
}

#[test]
fn owners_and_modes_are_seen() {
    let (temp, root) = fresh();
    let file = root.open("f", NEW).unwrap();
    for (mode, group_write, world) in [
        (0o600, false, false),
        (0o640, false, false),
        (0o660, true, false),
        (0o604, false, false),
        (0o602, false, true),
    ] {
        let set = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        set(&temp.path().join("f"), mode);
        set(temp.path(), mode | 0o100);
        for who in [file.ownership().unwrap(), root.ownership().unwrap()] {
            assert!(who.own);
            assert_eq!((who.group_write, who.world), (group_write, world), "{mode:o}");
        }
    }
    assert!(!super::dir::ownership(rustix::process::geteuid().as_raw() + 1, 0o600).own);
}

#[test]
fn written_bytes_are_found_among_those_that_never_were() {
    let (_temp, root) = fresh();
    let file = root.open("f", NEW).unwrap();
    file.allocate(8 << 20).unwrap();
    // Not synced: what is only in the page cache counts.
    file.write_at(b"x", (5 << 20) + 17).unwrap();
    let at = file.next_data(0).unwrap().unwrap();
    assert!(at <= (5 << 20) + 17, "{at}");
    assert_eq!(file.next_data((5 << 20) + 17).unwrap(), Some((5 << 20) + 17));
    let behind = file.next_data(6 << 20).unwrap();
    assert!(behind.is_none_or(|b| b >= 6 << 20), "{behind:?}");
    assert!(file.next_data(8 << 20).unwrap().is_none_or(|b| b == 8 << 20));
    let mut buf = [0; 1];
    assert_eq!((file.read_at(&mut buf, (5 << 20) + 17).unwrap(), buf), (1, *b"x"));
}

#[test]
fn room_is_allocated_and_given_back() {
    let (temp, root) = fresh();
    let file = root.open("f", NEW).unwrap();
    file.write_at(b"kept", 0).unwrap();
    file.allocate(1 << 20).unwrap();
    assert_eq!(file.len().unwrap(), 1 << 20);
    let blocks = || fs::metadata(temp.path().join("f")).unwrap().blocks();
    let allocated = blocks();
    let mut buf = [1; 8];
    assert_eq!(file.read_at(&mut buf, 0).unwrap(), 8);
    assert_eq!(&buf, b"kept\0\0\0\0");
    file.allocate(4096).unwrap();
    file.allocate(0).unwrap();
    assert_eq!(file.len().unwrap(), 1 << 20);
    file.write_at(&[7; 1 << 20], 0).unwrap();
    file.punch(64 << 10, 512 << 10).unwrap();
    file.punch(0, 0).unwrap();
    assert_eq!(file.len().unwrap(), 1 << 20);
    // Where the file system can do neither, both calls are still Ok.
    if allocated >= 2048 {
        assert!(blocks() < allocated, "{} of {allocated} blocks", blocks());
        assert_eq!(file.read_at(&mut buf, 64 << 10).unwrap(), 8);
        assert_eq!(buf, [0; 8]);
    }
    assert_eq!(file.read_at(&mut buf, (64 << 10) - 8).unwrap(), 8);
    assert_eq!(buf, [7; 8]);
}

#[test]
fn locks_belong_to_the_handle() {
    let (_temp, root) = fresh();
    let a = root.open("f", NEW).unwrap();
    let b = root.open("f", OpenHow::ReadWrite).unwrap();
    assert!(a.try_lock().unwrap());
    assert!(a.try_lock().unwrap());
    assert!(!b.try_lock().unwrap());
    // The two sorts of locks do not see each other.
    assert!(b.try_lock_range(0, u64::MAX >> 1, LockKind::Exclusive).unwrap());
    b.unlock_range(0, u64::MAX >> 1).unwrap();
    // Another handle's end is no end of a's locks.
    drop(root.open("f", OpenHow::ReadWrite).unwrap());
    assert!(!b.try_lock().unwrap());
    a.unlock().unwrap();
    assert!(b.try_lock().unwrap());
    drop(b);
    assert!(a.try_lock().unwrap());
}

#[test]
fn range_locks_exclude_by_range_and_kind() {
    let (_temp, root) = fresh();
    let a = root.open("f", NEW).unwrap();
    let b = root.open("f", OpenHow::ReadWrite).unwrap();
    let (shared, exclusive) = (LockKind::Shared, LockKind::Exclusive);
    assert!(a.try_lock_range(10, 10, exclusive).unwrap());
    assert!(b.try_lock_range(0, 10, exclusive).unwrap());
    assert!(b.try_lock_range(20, 1, exclusive).unwrap());
    assert!(!b.try_lock_range(19, 1, shared).unwrap());
    assert!(!b.try_lock_range(5, 6, exclusive).unwrap());
    assert!(a.try_lock_range(10, 10, shared).unwrap());
    assert!(b.try_lock_range(19, 1, shared).unwrap());
    assert!(!a.try_lock_range(10, 10, exclusive).unwrap());
    b.unlock_range(19, 1).unwrap();
    assert!(a.try_lock_range(10, 10, exclusive).unwrap());
    drop(root.open("f", OpenHow::ReadWrite).unwrap());
    assert!(!b.try_lock_range(10, 1, shared).unwrap());
    a.unlock_range(12, 2).unwrap();
    assert!(b.try_lock_range(12, 2, exclusive).unwrap());
    assert!(!b.try_lock_range(14, 1, exclusive).unwrap());
    drop(a);
    assert!(b.try_lock_range(14, 1, exclusive).unwrap());
    assert_eq!(kind_of(b.try_lock_range(0, 0, shared)), ErrorKind::Io);
    assert_eq!(kind_of(b.unlock_range(0, 0)), ErrorKind::Io);
    assert_eq!(kind_of(b.try_lock_range(u64::MAX, 1, shared)), ErrorKind::Io);
    let reader = root.open("f", OpenHow::Read).unwrap();
    assert_eq!(kind_of(reader.try_lock_range(100, 1, exclusive)), ErrorKind::Io);
}

#[test]
fn held_ranges_are_seen_without_taking_any() {
    let (_temp, root) = fresh();
    let a = root.open("f", NEW).unwrap();
    let reader = root.open("f", OpenHow::Read).unwrap();
    assert_eq!(reader.range_held(0, 1 << 52).unwrap(), None);
    assert!(a.try_lock_range(32, 16, LockKind::Exclusive).unwrap());
    assert!(a.try_lock_range(96, 16, LockKind::Shared).unwrap());
    assert_eq!(reader.range_held(0, 64).unwrap(), Some((32, 48)));
    assert_eq!(reader.range_held(48, 1 << 52).unwrap(), Some((96, 112)));
    assert_eq!(reader.range_held(112, 1 << 52).unwrap(), None);
    assert_eq!(a.range_held(0, 1 << 52).unwrap(), None, "its own locks are no obstacle");
    assert!(a.try_lock_range(200, (1 << 62) - 1, LockKind::Exclusive).unwrap());
    assert_eq!(reader.range_held(300, 1).unwrap(), Some((200, 200 + (1 << 62) - 1)));
    assert_eq!(kind_of(reader.range_held(0, 0)), ErrorKind::Io);
}

#[test]
fn maps_show_what_is_written_and_outlive_the_name() {
    let (_temp, root) = fresh();
    let file = root.open("f", NEW).unwrap();
    assert!(file.map().unwrap().is_none());
    file.write_at(&[1; 5000], 0).unwrap();
    let map = root.open("f", OpenHow::Read).unwrap().map().unwrap().unwrap();
    assert_eq!(map.map_len(), 5000);
    file.write_at(b"new", 4997).unwrap();
    let mut buf = [0; 4];
    assert!(map.copy_out(&mut buf, 4996));
    assert_eq!(&buf, b"\x01new");
    assert!(!map.copy_out(&mut buf, 4997));
    // The file grows: the map does not.
    file.write_at(&[2; 5000], 5000).unwrap();
    assert!(!map.copy_out(&mut buf, 4997));
    root.remove("f").unwrap();
    drop(file);
    assert!(map.copy_out(&mut buf, 4996));
    assert_eq!(&buf, b"\x01new");
}

#[test]
fn bytes_are_copied_while_they_are_overwritten() {
    let (temp, root) = fresh();
    let file = root.open("f", NEW).unwrap();
    file.write_at(&[0xAA; 64 << 10], 0).unwrap();
    let map = root.open("f", OpenHow::Read).unwrap().map().unwrap().unwrap();
    let other = fs::OpenOptions::new().write(true).open(temp.path().join("f")).unwrap();
    let done = AtomicBool::new(false);
    let (mut old, mut new) = (0_u64, 0_u64);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut byte = 0xBB_u8;
            while !done.load(Ordering::Relaxed) {
                other.write_all_at(&[byte; 64 << 10], 0).unwrap();
                byte ^= 0xAA ^ 0xBB;
            }
        });
        let mut buf = vec![0; 64 << 10];
        let start = std::time::Instant::now();
        while (old == 0 || new == 0) && start.elapsed().as_secs() < 30 {
            for _ in 0..100 {
                assert!(map.copy_out(&mut buf, 0));
                assert!(buf.iter().all(|b| [0xAA, 0xBB].contains(b)));
                old += u64::from(buf.contains(&0xAA));
                new += u64::from(buf.contains(&0xBB));
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(old > 0 && new > 0, "{old} {new}");
}

#[test]
fn the_machine_has_a_clock_and_a_name() {
    let vfs = OsVfs::new();
    assert!(vfs.now_ms() > 1_600_000_000_000);
    let start = vfs.monotonic_ns();
    vfs.sleep_ms(2);
    assert!(vfs.monotonic_ns() - start >= 2_000_000);
    assert!(!vfs.host().is_empty());
    assert_eq!(vfs.pid(), std::process::id());
    assert_ne!(vfs.random_u64(), vfs.random_u64());
    assert_eq!(vfs.boot_id(), OsVfs::new().boot_id());
    assert_ne!(vfs.boot_id(), [0; 16]);
    assert_eq!(vfs.fork_generation(), 0);
    assert!(vfs.has_threads());
    let (_temp, root) = fresh();
    let space = root.space().unwrap();
    assert!(0 < space.free_bytes && space.free_bytes <= space.total_bytes, "{space:?}");
}

#[test]
fn boot_ids_are_read() {
    let id = parse_boot_id(b"00112233-4455-6677-8899-aAbBcCdDeEfF\n").unwrap();
    assert_eq!(
        id,
        [0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 170, 187, 204, 221, 238, 255]
    );
    assert_eq!(parse_boot_id(b""), None);
    assert_eq!(parse_boot_id(b"00112233-4455-6677-8899-aabbccddeef\n"), None);
    if cfg!(target_os = "linux") && Path::new("/proc/sys/kernel").exists() {
        assert_eq!(OsVfs::new().boot_id(), read_boot_id().unwrap());
    }
}

#[cfg(target_os = "linux")]
#[test]
fn local_file_systems_are_no_network() {
    for path in ["/dev/shm", "/proc", "/"] {
        if Path::new(path).is_dir() && !is_network_by_mounts(path) {
            assert!(!root_at(Path::new(path)).is_network().unwrap(), "{path}");
        }
    }
}

/// Whether the table of mounts says so: the root of a container may be on one.
#[cfg(target_os = "linux")]
fn is_network_by_mounts(path: &str) -> bool {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    mounts.lines().rev().any(|line| {
        let mut words = line.split(' ').skip(1);
        let (at, sort) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        let kinds = ["nfs", "nfs4", "cifs", "9p", "ceph", "afs"];
        at == path && (kinds.contains(&sort) || sort.starts_with("fuse"))
    })
}
