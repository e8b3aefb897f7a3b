//! A full disk: a small file system in memory, mounted where only one process sees it.

use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::tempdir;

use super::process::role_command;
use super::{NEW, kind_of, root_at};
use crate::error::ErrorKind;
use crate::vfs::OpenHow;

const SIZE: u64 = 1 << 20;

/// Exit code for: nothing can be mounted here.
const CANNOT_MOUNT: i32 = 77;

/// Runs the role `full` on a new file system, when one can be mounted.
fn run_on(mount: &str) {
    let temp = tempdir().unwrap();
    let script =
        format!("cd / && {{ {mount}; }} || exit {CANNOT_MOUNT}; dir=$1; shift; exec \"$@\"");
    for unshare in [&["-m"][..], &["-r", "-m"]] {
        let status = Command::new("unshare")
            .args(unshare)
            .args(["sh", "-c", &script, "sh"])
            .arg(temp.path())
            .args(role_command("full", temp.path()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status();
        match status.map(|s| s.code()) {
            Ok(Some(0)) => return,
            // 1: unshare itself is not allowed; 127: there is none.
            Ok(Some(CANNOT_MOUNT | 1 | 127)) | Err(_) => {}
            Ok(code) => panic!("the test on a full disk failed: {code:?}"),
        }
    }
    skipped(mount);
}

#[expect(clippy::print_stderr, reason = "a test that does not run says so")]
fn skipped(mount: &str) {
    eprintln!("SKIPPED: nothing can be mounted here by `{mount}`");
}

#[test]
fn a_full_disk_in_memory_is_reported_and_nothing_grows() {
    run_on("mount -t tmpfs -o size=1m,mode=700 tmpfs \"$1\"");
}

#[test]
fn a_full_ext4_is_reported_and_nothing_grows() {
    run_on(
        "truncate -s 2m \"$1/image\" && mke2fs -q -F -t ext4 -O ^has_journal -m 0 \"$1/image\" \
         && mount -o loop \"$1/image\" \"$1\"",
    );
}

/// The case, in the process that sees the file system.
pub(super) fn full(dir: &Path) {
    let root = root_at(dir);
    let space = root.space().unwrap();
    assert!(SIZE / 2 <= space.free_bytes && space.free_bytes <= 2 * SIZE, "{space:?}");
    let file = root.open("f", NEW).unwrap();
    file.write_at(b"kept", 0).unwrap();
    let free = || root.space().unwrap().free_bytes;
    let before = free();
    assert_eq!(kind_of(file.allocate(8 * SIZE)), ErrorKind::StorageFull);
    assert_eq!(file.len().unwrap(), 4);
    assert!(free() + 65_536 >= before, "the room was not given back: {} of {before}", free());
    file.allocate(SIZE / 4).unwrap();

    // Fill the rest. What was allocated can still be written, what was not cannot.
    let filler = root.open("filler", NEW).unwrap();
    let full = (0..).find_map(|i: u64| filler.write_at(&[1; 4096], i * 4096).err()).unwrap();
    assert_eq!(full.kind(), ErrorKind::StorageFull);
    assert_eq!(full.os_code(), Some(rustix::io::Errno::NOSPC.raw_os_error()));
    file.write_at(&vec![2; (SIZE / 4) as usize], 0).unwrap();
    file.sync_data().unwrap();
    assert_eq!(kind_of(file.write_at(&[3; 65_536], SIZE / 4)), ErrorKind::StorageFull);

    // Room that is punched out can be had again.
    filler.punch(0, SIZE / 4).unwrap();
    root.open("other", NEW).and_then(|f| f.allocate(SIZE / 8)).unwrap();
    root.open("f", OpenHow::ReadWrite).unwrap();
}
