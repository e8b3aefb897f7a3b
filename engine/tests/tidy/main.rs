//! Tidy: the rules of layout, size and style that the compiler does not know, checked on the workspace's own sources.
//!
//! # Rules
//! a. Layers: a file of `engine/src` uses files of lower rank only; siblings of one folder excepted (tables.rs).
//! b. A file has at most 600 lines, a function 70, in tests 100.
//! c. A file opens with `//! ` and is ASCII.
//! d. `unsafe` stands in `engine/src/sys`, and in files listed by name.
//! e. The library prints nothing and reaches the system through `vfs/os` and `sys` only; what ships does not unwrap.
//! f. No notes to self, no numbers of a tracker.
//!
//! Each rule has planted violations (planted.rs) that it must find, and clean sources that it must not.

#![allow(clippy::expect_used, reason = "a test")]

mod lexer;
mod planted;
mod rules;
mod scan;
mod tables;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn workspace_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Every `.rs` file of the workspace, of fuzz too, by its path from the root.
fn workspace_sources(root: &Path) -> rules::Sources {
    let mut sources = BTreeMap::new();
    let mut folders = ["engine", "cli", "benches", "fuzz"].map(PathBuf::from).to_vec();
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(root.join(&folder)) else { continue };
        for entry in entries {
            let entry = entry.expect("a readable folder");
            let name = entry.file_name().into_string().expect("names are ASCII");
            let path = folder.join(&name);
            if entry.file_type().expect("a file type").is_dir() {
                if !matches!(name.as_str(), "target" | "corpus" | "artifacts") {
                    folders.push(path);
                }
            } else if name.ends_with(".rs") {
                let bytes = fs::read(entry.path()).expect("a readable file");
                sources.insert(path.to_string_lossy().replace('\\', "/"), bytes);
            }
        }
    }
    sources
}

#[test]
fn the_workspace_is_tidy() {
    let sources = workspace_sources(&workspace_root());
    for wanted in ["engine/src/lib.rs", "cli/src/main.rs", "engine/tests/tidy/main.rs"] {
        assert!(sources.contains_key(wanted), "{wanted} was not looked at");
    }
    let found = rules::check(&sources);
    let lines: Vec<String> =
        found.iter().map(|f| format!("{}:{}: {}", f.path, f.line, f.what)).collect();
    assert!(found.is_empty(), "{} places are not tidy:\n{}", found.len(), lines.join("\n"));
}
