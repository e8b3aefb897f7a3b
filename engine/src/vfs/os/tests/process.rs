//! Locks between processes, and children of `fork(2)`. Each case runs in a process of its own: this test program,
//! started again for one role.

use std::fs;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitOptions, test_kill_process, waitpid};
use tempfile::tempdir;

use super::{NEW, kind_of, mode_of, root_at};
use crate::error::ErrorKind;
use crate::sys::fork_now::fork;
use crate::vfs::os::OsVfs;
use crate::vfs::{Access, LockKind, OpenHow, Vfs, VfsDir, VfsFile};

const PATIENCE: Duration = Duration::from_secs(30);

/// Program and arguments of a role.
pub(super) fn role_command(role: &str, dir: &Path) -> Vec<String> {
    let exe = std::env::current_exe().unwrap();
    let args = ["--exact", "vfs::os::tests::process::role", "--ignored", "--nocapture"];
    let mut all = vec!["env".to_owned(), format!("EVERLOG_TEST_ROLE={role}")];
    all.push(format!("EVERLOG_TEST_DIR={}", dir.display()));
    all.push(exe.display().to_string());
    all.extend(args.map(str::to_owned));
    all
}

fn start(role: &str, dir: &Path) -> Child {
    let words = role_command(role, dir);
    Command::new(&words[0])
        .args(&words[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap()
}

fn run(role: &str) {
    let temp = tempdir().unwrap();
    assert!(start(role, temp.path()).wait().unwrap().success(), "{role} failed");
}

/// Where a case runs in the other process.
#[test]
#[ignore = "a role that the other tests start"]
fn role() {
    let role = std::env::var("EVERLOG_TEST_ROLE").unwrap();
    let dir = PathBuf::from(std::env::var_os("EVERLOG_TEST_DIR").unwrap());
    match role.as_str() {
        "hold" => hold(&dir),
        "modes" => modes(&dir),
        "forked" => forked(&dir),
        "forked_twice" => forked_twice(&dir),
        "forked_early" => forked_early(&dir),
        "orphan" => orphan(&dir, true),
        "orphan_unmarked" => orphan(&dir, false),
        "full" => super::space::full(&dir),
        _ => panic!("no such role"),
    }
}

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "waited too long: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn open_or_make(root: &dyn VfsDir, name: &str) -> Arc<dyn VfsFile> {
    root.open(name, NEW).or_else(|_| root.open(name, OpenHow::ReadWrite)).unwrap()
}

fn exit_code(child: Pid) -> Option<i32> {
    let (_, status) = waitpid(Some(child), WaitOptions::empty()).unwrap().unwrap();
    status.exit_status()
}

fn take_all(file: &dyn VfsFile) -> (bool, bool) {
    (file.try_lock().unwrap(), file.try_lock_range(5, 5, LockKind::Exclusive).unwrap())
}

fn hold(dir: &Path) {
    let root = root_at(dir);
    let file = open_or_make(&*root, "f");
    assert_eq!(take_all(&*file), (true, true));
    fs::write(dir.join("ready"), b"").unwrap();
    wait_for("the end", || false);
}

#[test]
fn locks_exclude_other_processes_and_end_with_them() {
    let temp = tempdir().unwrap();
    let mut holder = start("hold", temp.path());
    wait_for("the holder", || temp.path().join("ready").exists());
    let file = root_at(temp.path()).open("f", OpenHow::ReadWrite).unwrap();
    assert_eq!(take_all(&*file), (false, false));
    assert!(file.try_lock_range(10, 1, LockKind::Exclusive).unwrap());
    holder.kill().unwrap();
    holder.wait().unwrap();
    assert_eq!(take_all(&*file), (true, true));
}

fn modes(dir: &Path) {
    use rustix::fs::Mode;
    for (umask, private, group) in [(0, 0o600, 0o660), (0o022, 0o600, 0o640), (0o077, 0o600, 0o600)]
    {
        rustix::process::umask(Mode::from_raw_mode(umask));
        let dir = dir.join(format!("{umask:o}"));
        let root = OsVfs::new().create_root(&dir, Access::Group).unwrap();
        root.create_dir("private", Access::Private).unwrap();
        root.create_dir("group", Access::Group).unwrap();
        drop(root.open("private-file", NEW).unwrap());
        drop(root.open("group-file", OpenHow::CreateNew(Access::Group)).unwrap());
        assert_eq!(mode_of(&dir.join("private-file")), private, "{umask:o}");
        assert_eq!(mode_of(&dir.join("group-file")), group, "{umask:o}");
        let searchable = |mode: u32| mode | (mode & 0o440) >> 2;
        assert_eq!(mode_of(&dir.join("private")), searchable(private), "{umask:o}");
        assert_eq!(mode_of(&dir.join("group")), searchable(group), "{umask:o}");
        assert_eq!(mode_of(&dir), searchable(group), "{umask:o}");
    }
}

#[test]
fn modes_are_never_wider_than_asked() {
    run("modes");
}

/// Ends a child with a code that names the first check that fails.
fn checks(all: &[(i32, bool)]) -> i32 {
    all.iter().find(|(_, ok)| !ok).map_or(0, |(code, _)| *code)
}

fn forked(dir: &Path) {
    let root = root_at(dir);
    let vfs = OsVfs::new();
    let file = root.open("f", NEW).unwrap();
    file.close_in_child();
    file.close_in_child();
    let plain = root.open("plain", NEW).unwrap();
    plain.write_at(b"plain", 0).unwrap();
    let map = plain.map().unwrap().unwrap();
    assert_eq!(take_all(&*file), (true, true));
    let before = vfs.fork_generation();
    // The child's drop is not the parent's: each has a copy.
    let mut file = Some(file);
    let other = root.open("f", OpenHow::ReadWrite).unwrap();
    let child = fork(|| {
        let file = file.take().unwrap();
        let mut checked = vec![(1, vfs.fork_generation() != before)];
        let refused = [
            kind_of(file.len()),
            kind_of(file.write_at(b"x", 0)),
            kind_of(file.read_at(&mut [0], 0)),
            kind_of(file.unlock()),
            kind_of(file.unlock_range(5, 5)),
            kind_of(file.try_lock()),
            kind_of(file.sync_data()),
            kind_of(file.map()),
        ];
        checked.push((2, refused == [ErrorKind::ForkedHandle; 8]));
        // Take every free number below 64, the closed one among them.
        let mut taken = Vec::new();
        while taken.last().is_none_or(|f: &fs::File| f.as_raw_fd() < 64) {
            taken.push(fs::File::open("/dev/zero").unwrap());
        }
        drop(file);
        for zero in &mut taken {
            checked.push((3, zero.read_exact(&mut [0; 4]).is_ok()));
        }
        let mut buf = [0; 5];
        checked.push((4, plain.read_at(&mut buf, 0).is_ok_and(|n| n == 5) && &buf == b"plain"));
        checked.push((5, map.copy_out(&mut buf, 0) && &buf == b"plain"));
        // The parent's locks hold against the child, too, and outlive it.
        let again = root.open("f", OpenHow::ReadWrite).unwrap();
        checked.push((6, take_all(&*again) == (false, false)));
        checks(&checked)
    });
    assert_eq!(exit_code(child), Some(0));
    assert_eq!(vfs.fork_generation(), before);
    assert_eq!(take_all(&*other), (false, false));
    let file = file.unwrap();
    file.write_at(b"still open", 0).unwrap();
    drop(file);
    assert_eq!(take_all(&*other), (true, true));
}

#[test]
fn a_child_of_fork_loses_what_holds_locks() {
    run("forked");
}

fn forked_twice(dir: &Path) {
    let root = root_at(dir);
    let vfs = OsVfs::new();
    let first = vfs.fork_generation();
    let child = fork(|| {
        // The child works on as a process in its own right, and its children lose what it holds.
        let second = vfs.fork_generation();
        let file = root.open("f", NEW).unwrap();
        file.close_in_child();
        let grandchild = fork(|| {
            checks(&[
                (1, ![first, second].contains(&vfs.fork_generation())),
                (2, kind_of(file.len()) == ErrorKind::ForkedHandle),
            ])
        });
        checks(&[
            (3, exit_code(grandchild) == Some(0)),
            (4, take_all(&*file) == (true, true)),
            (5, first != second),
        ])
    });
    assert_eq!(exit_code(child), Some(0));
}

#[test]
fn a_child_can_fork_again() {
    run("forked_twice");
}

fn forked_early(dir: &Path) {
    let root = root_at(dir);
    let file = root.open("f", NEW).unwrap();
    // A child made before the file was marked keeps the descriptor, and lives on.
    let child = fork(|| {
        wait_for("the parent", || dir.join("stop").exists());
        0
    });
    file.close_in_child();
    assert_eq!(take_all(&*file), (true, true));
    let other = root.open("f", OpenHow::ReadWrite).unwrap();
    assert_eq!(take_all(&*other), (false, false));
    drop(file);
    assert_eq!(take_all(&*other), (true, true));
    fs::write(dir.join("stop"), b"").unwrap();
    assert_eq!(exit_code(child), Some(0));
}

#[test]
fn a_dropped_file_lets_go_whoever_has_its_descriptor() {
    run("forked_early");
}

/// Takes the locks, forks a child that lives on, and waits to be killed.
fn orphan(dir: &Path, marked: bool) {
    let root = root_at(dir);
    let file = root.open("f", NEW).unwrap();
    if marked {
        file.close_in_child();
    }
    assert_eq!(take_all(&*file), (true, true));
    fork(|| {
        // Only now has the handler run for sure.
        fs::write(dir.join("tmp"), std::process::id().to_string()).unwrap();
        fs::rename(dir.join("tmp"), dir.join("ready")).unwrap();
        // The test's folder goes away when it ends, well or not.
        wait_for("the test", || dir.join("stop").exists() || !dir.exists());
        0
    });
    wait_for("the end", || false);
}

/// What can be locked when the holder was killed and a child of it lives.
fn locks_left_by_a_dead_parent(role: &str) -> (bool, bool) {
    let temp = tempdir().unwrap();
    let mut parent = start(role, temp.path());
    wait_for("the parent", || temp.path().join("ready").exists());
    let child = fs::read_to_string(temp.path().join("ready")).unwrap().parse().unwrap();
    let child = Pid::from_raw(child).unwrap();
    let file = root_at(temp.path()).open("f", OpenHow::ReadWrite).unwrap();
    assert_eq!(take_all(&*file), (false, false));
    parent.kill().unwrap();
    parent.wait().unwrap();
    let taken = take_all(&*file);
    test_kill_process(child).expect("the child is alive");
    fs::write(temp.path().join("stop"), b"").unwrap();
    taken
}

#[test]
fn the_death_of_a_parent_frees_its_locks_though_a_child_lives() {
    assert_eq!(locks_left_by_a_dead_parent("orphan"), (true, true));
    // Without the mark the child keeps them: so the case above shows what the mark does.
    assert_eq!(locks_left_by_a_dead_parent("orphan_unmarked"), (false, false));
}
