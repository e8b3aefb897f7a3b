//! Planted violations: each rule must find its own, and must leave clean sources alone.

use crate::rules::{Finding, Sources, check};

fn workspace(files: &[(&str, &str)]) -> Sources {
    let lib =
        "//! Root.\nmod error;\npub use error::{Error, Result as Res};\npub use store::Store;\n";
    let mut sources = Sources::from([("engine/src/lib.rs".to_owned(), lib.into())]);
    for (path, text) in files {
        sources.insert((*path).to_owned(), format!("//! A file.\n{text}").into_bytes());
    }
    sources
}

fn findings(path: &str, text: &str) -> Vec<Finding> {
    check(&workspace(&[(path, text)]))
}

#[track_caller]
fn found(path: &str, text: &str, line: usize, part: &str) {
    let all = findings(path, text);
    assert!(
        all.iter().any(|f| f.path == path && f.line == line && f.what.contains(part)),
        "wanted {part:?} at line {line}, got {all:?}"
    );
}

#[track_caller]
fn clean(path: &str, text: &str) {
    assert_eq!(findings(path, text), []);
}

#[test]
fn a_layers_go_down_only() {
    found("engine/src/json/scan.rs", "use crate::store::Store;\n", 2, "uses store (rank 80)");
    found("engine/src/json/scan.rs", "use crate::surface::S;\n", 2, "rank 20");
    found("engine/src/format/frame.rs", "use crate::{error::E, lane};\n", 2, "uses lane");
    found("engine/src/json.rs", "fn f() { crate::lane::go() }\n", 2, "uses lane");
    found("engine/src/json.rs", "use crate::Store;\n", 2, "uses store");
    found("engine/src/json.rs", "use super::store;\n", 2, "uses store");
    found("engine/src/json/scan.rs", "use super::super::store;\n", 2, "uses store");
    found("engine/src/json/mod.rs", "mod inner { use super::super::store; }\n", 2, "uses store");
    found("engine/src/json.rs", "use crate::nowhere;\n", 2, "neither ranked nor exported");
    clean(
        "engine/src/json/scan.rs",
        "use crate::error::Error;\nuse crate::json::Depth;\nuse super::x;\n",
    );
    clean("engine/src/store.rs", "use crate::Error;\nuse crate::{lane::Lane, vfs::os};\n");
    clean("engine/src/types.rs", "use crate::limits;\nfn f() -> crate::Res<()> {}\n");
    clean(
        "engine/src/json.rs",
        "//! See [`crate::store`].\n/* crate::store */ const S: &str = \"crate::store\";\n",
    );
    clean("engine/src/json.rs", "#[cfg(test)]\nmod tests {\n use crate::store::Store;\n}\n");
}

#[test]
fn a_a_file_without_a_rank_is_named() {
    found("engine/src/mystery/mod.rs", "", 1, "mystery has no rank; add it to RANKS");
    clean("engine/src/vfs/os.rs", "");
}

#[test]
fn b_long_files_and_functions_are_found() {
    found("cli/src/main.rs", &"\n".repeat(600), 601, "601 lines");
    clean("cli/src/main.rs", &"\n".repeat(599));
    let long = |lines: usize| format!("fn f() {{\n{}}}\n", "    // }\n".repeat(lines - 2));
    found("cli/src/main.rs", &long(71), 2, "fn f: 71 lines; at most 70");
    clean("cli/src/main.rs", &long(70));
    clean("engine/tests/x.rs", &long(100));
    found("engine/tests/x.rs", &long(101), 2, "at most 100");
    clean("cli/src/main.rs", &format!("#[cfg(test)]\nmod tests {{\n{}}}\n", long(100)));
    found("cli/src/main.rs", &format!("impl A {{\n{}}}\n", long(71)), 3, "fn f: 71 lines");
    let braces =
        format!("fn f() {{\n{}}}\n", "    let _ = ('}', \"}\", r#\"}\"#, b'}');\n".repeat(69));
    found("cli/src/main.rs", &braces, 2, "fn f: 71 lines");
}

#[test]
fn c_heads_and_ascii_are_wanted() {
    let mut sources = workspace(&[]);
    sources.insert("cli/src/a.rs".to_owned(), b"// A file.\n".to_vec());
    sources.insert("cli/src/b.rs".to_owned(), b"//! B.\n\n// \xc3\xa9\n".to_vec());
    sources.insert("cli/src/c.rs".to_owned(), b"//! C.\n\n// \xff\n".to_vec());
    let all: Vec<(String, usize, String)> =
        check(&sources).into_iter().map(|f| (f.path, f.line, f.what)).collect();
    assert_eq!(all.len(), 4, "{all:?}");
    assert!(all[0].0.ends_with("a.rs") && all[0].2.contains("opens with"));
    assert!(all[1].0.ends_with("b.rs") && all[1].1 == 3 && all[1].2.contains("ASCII"));
    assert!(all[3].0.ends_with("c.rs") && all[3].2.contains("UTF-8"));
}

#[test]
fn d_unsafe_outside_sys_is_found() {
    let text = "fn f() { unsafe { g() } }\n";
    found("engine/src/vfs/os.rs", text, 2, "unsafe");
    found("engine/tests/x.rs", text, 2, "unsafe");
    found("cli/src/main.rs", "unsafe impl Send for A {}\n", 2, "unsafe");
    clean("engine/src/sys/map.rs", text);
    clean("cli/src/main.rs", "#![deny(unsafe_code)]\nconst S: &str = \"unsafe\"; // unsafe\n");
}

#[test]
fn e_printing_and_unfinished_code_is_found() {
    for text in [
        "println!()",
        "eprintln!()",
        "print!()",
        "eprint!()",
        "dbg!(1)",
        "todo!()",
        "unimplemented!()",
    ] {
        found(
            "engine/src/json.rs",
            &format!("fn f() {{\n    {text};\n}}\n"),
            3,
            "has no place here",
        );
    }
    found("cli/src/main.rs", "fn f() { todo!() }\n", 2, "todo!");
    clean("cli/src/main.rs", "fn f() { println!() }\n");
    clean("engine/src/json.rs", "/// `println!()`\nfn f(print: u8) -> bool { print != 1 }\n");
    clean("engine/src/json.rs", "#[cfg(test)]\nmod tests { fn f() { println!() } }\n");
}

#[test]
fn e_the_system_is_reached_in_two_places() {
    found("engine/src/lane.rs", "use std::fs::File;\n", 2, "std::fs");
    found("engine/src/lane.rs", "use std::{io, env};\n", 2, "std::env");
    found("engine/src/vfs/mod.rs", "fn f() { std::process::abort() }\n", 2, "std::process");
    clean("engine/src/vfs/os.rs", "use std::fs::File;\n");
    clean("engine/src/sys/mod.rs", "use std::process::abort;\n");
    clean("engine/src/lane.rs", "use std::io;\nconst D: &str = env!(\"X\");\n");
    clean("cli/src/main.rs", "use std::fs::File;\n");
}

#[test]
fn e_unwraps_that_ship_are_found() {
    found("engine/src/lane.rs", "fn f() { g().unwrap() }\n", 2, ".unwrap()");
    found("cli/src/main.rs", "fn f() { g()\n    .expect(\"x\") }\n", 3, ".expect()");
    clean("engine/src/lane.rs", "fn f() { g().unwrap_or(1); g().expect_err(2); }\n");
    clean(
        "engine/src/lane.rs",
        "#[expect(dead_code)]\nfn f() {}\n#[test]\nfn t() { g().unwrap() }\n",
    );
    clean("engine/tests/x.rs", "fn f() { g().unwrap() }\n");
    let sources = workspace(&[
        ("engine/src/lane/mod.rs", "#[cfg(test)]\nmod cases;\n"),
        ("engine/src/lane/cases.rs", "fn f() { g().unwrap() }\n"),
        ("engine/src/lane/cases/more.rs", "use crate::store;\n"),
    ]);
    assert_eq!(check(&sources), []);
}

#[test]
fn f_notes_and_tracker_numbers_are_found() {
    for word in crate::tables::BANNED_WORDS {
        found("benches/src/lib.rs", &format!("// {word}: later\n"), 2, word);
        found("benches/src/lib.rs", &format!("fn f({word}: u8) {{}}\n"), 2, word);
    }
    found("benches/src/lib.rs", "/* see #12. */\n", 2, "#12");
    found("benches/src/lib.rs", "\n/// Like issue 7 says.\n", 3, "issue 7");
    clean(
        "benches/src/lib.rs",
        "// todo/write is a type; 0x#1 and #[a] too\nconst S: &str = \"#12\";\n",
    );
}
