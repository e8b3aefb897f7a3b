//! The small corpus of the fuzz targets, run by `cargo test` through the same bodies that libFuzzer runs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, reason = "tests")]

use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use everlog_testkit::fuzz;

/// The planted fault is in the process, so that the tests take turns.
static TURN: Mutex<()> = Mutex::new(());

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz")
}

/// Inputs of a target by name, in order.
fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let mut out: Vec<_> = fs::read_dir(root().join("corpus-min").join(target))
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(&path).unwrap())
        })
        .collect();
    out.sort();
    out
}

#[test]
fn the_corpus_is_handled() {
    let _turn = TURN.lock().unwrap();
    for target in fuzz::TARGETS {
        let inputs = corpus(target);
        assert!(inputs.len() >= 4, "{target} has {} inputs", inputs.len());
        for (name, data) in inputs {
            println!("{target} {name}");
            fuzz::run(target, &data);
            // What a fuzzer would try next: every prefix, and a flipped bit here and there.
            for cut in (0..data.len()).step_by(data.len().div_ceil(16).max(1)) {
                fuzz::run(target, &data[..cut]);
                let mut flipped = data.clone();
                flipped[cut] ^= 1 << (cut % 8);
                fuzz::run(target, &flipped);
            }
        }
    }
}

#[test]
fn every_target_tells_of_the_planted_fault() {
    let _turn = TURN.lock().unwrap();
    for target in fuzz::TARGETS {
        assert!(corpus(target).iter().any(|(_, data)| data == fuzz::MAGIC), "{target}");
        fuzz::run(target, fuzz::MAGIC);
        fuzz::plant(true);
        let told = catch_unwind(|| fuzz::run(target, fuzz::MAGIC)).is_err();
        fuzz::plant(false);
        assert!(told, "{target} says nothing");
    }
}

#[test]
fn every_target_has_a_program() {
    let mut programs: Vec<String> = fs::read_dir(root().join("fuzz_targets"))
        .unwrap()
        .map(|e| e.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    programs.sort();
    assert_eq!(programs, fuzz::TARGETS);
    for target in fuzz::TARGETS {
        let source = root().join("fuzz_targets").join(format!("{target}.rs"));
        let source = fs::read_to_string(source).unwrap();
        assert!(source.contains(&format!("fuzz::run(\"{target}\", data)")), "{target}");
    }
}
