//! Tests of this folder, and of the rules about `unsafe`.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use super::map::ReadMap;
use super::ofd::{self, Ask};

fn file_of(bytes: &[u8]) -> fs::File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file
}

#[test]
fn copies_stay_inside_the_map() {
    let bytes: Vec<u8> = (0..5000_u32).map(|i| (i % 251) as u8).collect();
    let map = ReadMap::of(file_of(&bytes).as_fd(), 5000).unwrap().unwrap();
    assert_eq!(map.len(), 5000);
    let mut all = vec![0; 5000];
    assert!(map.copy_out(&mut all, 0));
    assert_eq!(all, bytes);
    let mut some = [0; 10];
    assert!(map.copy_out(&mut some, 4990));
    assert_eq!(some, bytes[4990..]);
    assert!(map.copy_out(&mut [], 5000));
    let mut untouched = [7; 10];
    // The rest of the last page is mapped, but no part of the file.
    for outside in [4991, 5000, 8191, u64::MAX - 9, u64::MAX] {
        assert!(!map.copy_out(&mut untouched, outside), "{outside}");
    }
    assert!(!map.copy_out(&mut [], 5001));
    assert!(!map.copy_out(&mut vec![0; 5001], 0));
    assert_eq!(untouched, [7; 10]);
}

#[test]
fn nothing_and_too_much_are_not_mapped() {
    let file = file_of(b"x");
    assert!(ReadMap::of(file.as_fd(), 0).unwrap().is_none());
    assert!(ReadMap::of(file.as_fd(), u64::MAX).unwrap().is_none());
    assert!(ReadMap::of(file.as_fd(), 1 << 63).unwrap().is_none());
}

#[cfg(target_os = "linux")]
#[test]
fn ranges_outside_of_a_signed_offset_are_refused() {
    let file = file_of(b"");
    let max = i64::MAX as u64;
    for (offset, len) in [(0, 0), (max, 1), (max + 1, 1), (1, max), (u64::MAX, 2), (0, u64::MAX)] {
        let err = ofd::set(file.as_fd(), offset, len, Ask::Exclusive).unwrap_err();
        assert_eq!(err.kind(), std::io::ErrorKind::InvalidInput, "{offset} {len}");
    }
    assert!(ofd::set(file.as_fd(), max - 1, 1, Ask::Exclusive).unwrap());
    assert!(ofd::set(file.as_fd(), 0, max, Ask::Release).unwrap());
}

#[cfg(target_os = "linux")]
#[test]
fn a_place_in_the_table_is_given_back_only_by_its_descriptor() {
    use super::atfork::{forget_lock_fd, register_lock_fd};
    // Numbers that no process has open, so that a child of another test closes nothing.
    let (a, b) = (i32::MAX, i32::MAX - 1);
    let place = register_lock_fd(a).unwrap();
    forget_lock_fd(place, b);
    let other = register_lock_fd(b).unwrap();
    assert_ne!(place, other);
    forget_lock_fd(place, a);
    forget_lock_fd(other, b);
    forget_lock_fd(usize::MAX, a);
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

/// Lines that hold the keyword, by number from 0: comments, and the lint of that name, do not count.
fn unsafe_lines(text: &str) -> Vec<usize> {
    let keyword = concat!("un", "safe");
    let has = |line: &str| {
        let code = line.split("//").next().unwrap_or("");
        code.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == keyword)
    };
    text.lines().enumerate().filter(|(_, line)| has(line)).map(|(i, _)| i).collect()
}

fn has_safety_comment(text: &str, at: usize) -> bool {
    let lines: Vec<&str> = text.lines().take(at).collect();
    let above: Vec<&&str> =
        lines.iter().rev().take_while(|l| l.trim_start().starts_with("//")).collect();
    above.last().is_some_and(|l| l.trim_start().starts_with("// SAFETY: "))
}

#[test]
fn each_unsafe_block_is_in_this_folder_and_says_why() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let (mut blocks, mut lines) = (0, 0);
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        let found = unsafe_lines(&text);
        let inside = path.starts_with(root.join("sys"));
        assert!(inside || found.is_empty(), "{} has what only sys may: {found:?}", path.display());
        for at in &found {
            assert!(has_safety_comment(&text, *at), "{}:{} says not why", path.display(), at + 1);
        }
        if inside && path.file_name().is_none_or(|name| name != "tests.rs") {
            lines += text.lines().count();
        }
        blocks += found.len();
    }
    // copy_out; zeroed and fcntl, twice; pthread_atfork and close; fork and _exit in tests.
    assert_eq!(blocks, 9, "name the new block here");
    assert!(lines <= 400, "{lines} lines");
}

#[test]
fn the_check_of_the_check() {
    let word = concat!("un", "safe");
    let bare = format!("fn f() {{\n    {word} {{ g() }}\n}}\n");
    assert_eq!(unsafe_lines(&bare), [1]);
    assert!(!has_safety_comment(&bare, 1));
    let said = format!("// SAFETY: a\n// b\n{word} {{ g() }} // {word}\n#![deny({word}_code)]\n");
    assert_eq!(unsafe_lines(&said), [2]);
    assert!(has_safety_comment(&said, 2));
}
