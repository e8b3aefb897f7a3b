//! What all verbs share: help, usage, colours, secrets.

use std::process::Stdio;

use crate::support::{Place, log};

const VERBS: [&str; 11] =
    ["init", "append", "import", "ps", "ls", "log", "show", "cat", "export", "check", "info"];

#[test]
fn help_teaches_by_example() {
    let place = Place::bare();
    for verb in VERBS {
        let help = place.run(&[verb, "--help"]).exits(0).text();
        let examples = help.split("Examples:").nth(1).unwrap();
        let shown = examples.lines().filter(|l| l.contains("everlog")).count();
        assert!((2..=5).contains(&shown), "{verb} shows {shown} examples");
    }
    place.run(&["--help"]).exits(0);
    assert!(place.run(&["--version"]).exits(0).text().starts_with("everlog "));
    let bad = place.run(&["\x1b[31mred"]).exits(2);
    assert!(!bad.err.contains('\x1b'), "{:?}", bad.err);
}

#[test]
fn every_reading_verb_says_that_there_is_no_store() {
    let place = Place::bare();
    place.write("in.jsonl", log("s-777", 1));
    let calls: [&[&str]; 10] = [
        &["ls"],
        &["ps"],
        &["log"],
        &["show", "s-777@0"],
        &["cat", "s-777"],
        &["export", "--all"],
        &["check"],
        &["info"],
        &["append", "s-777", "--create", "-t", "x", "-d", "1"],
        &["import", "in.jsonl"],
    ];
    for args in calls {
        let told = place.ever(args).exits(10);
        assert!(
            told.err.contains("hint: ") && told.err.contains("everlog init"),
            "{args:?}: {}",
            told.err
        );
    }
    assert!(!place.path("store").exists());
}

#[test]
fn colours_come_only_when_asked_for() {
    let place = Place::new();
    let asked = ["--color", "always", "cat", "nothing"];
    assert!(place.ever(&asked).exits(1).err.contains('\x1b'));
    assert!(!place.ever(&["cat", "nothing"]).exits(1).err.contains('\x1b'));
}

#[test]
fn errors_and_reports_never_show_event_data() {
    let place = Place::new();
    let secret = "canary-5";
    let bad = log("s-777", 9).replace("\"seq\":6", "\"seq\":8");
    place.write("bad.jsonl", bad);
    place.write("good.jsonl", log("s-777", 9));
    let refused = place.ever(&["import", "bad.jsonl", "-o", "jsonl"]).exits(1);
    assert!(!refused.text().contains(secret) && !refused.err.contains(secret));
    place.ever(&["import", "good.jsonl"]).exits(0);
    for args in [vec!["check"], vec!["info"], vec!["ls", "-o", "json"], vec!["cat", "s-777@99"]] {
        let done = place.ever(&args);
        assert!(!done.text().contains(secret) && !done.err.contains(secret), "{args:?}");
    }
}

#[test]
fn wrong_usage_is_an_object_where_objects_are_asked_for() {
    let place = Place::new();
    let usage: [&[&str]; 8] = [
        &["export", "-o", "json"],
        &["cat", "-ojson", "--bad"],
        &["ls", "--output=jsonl", "-n", "many"],
        &["import", "--output", "json"],
        &["append", "s-1", "--bad", "-o", "jsonl"],
        &["check", "--part", "9/7", "-qo", "json"],
        &["nonsense", "-o=json"],
        &["init", "-o", "json", "a", "b\u{1b}"],
    ];
    for args in usage {
        let done = place.ever(args).exits(2);
        assert!(done.out.is_empty());
        assert_eq!(done.err.lines().count(), 1, "{}", done.err);
        let error = done.error();
        assert_eq!(error["kind"], "usage", "{args:?}");
        assert!(!error["message"].as_str().unwrap().is_empty());
    }
    // For people: more than one line, and nothing that is an object.
    let done = place.ever(&["export", "-o", "text"]).exits(2);
    assert!(done.err.starts_with("error: ") && done.err.contains("Usage:"));
    place.ever(&["cat", "-o", "json", "--help"]).exits(0);
    // What follows `--` is no flag.
    assert!(place.ever(&["init", "--", "-o", "json", "a"]).exits(2).err.starts_with("error: "));
}

#[test]
fn a_limit_of_file_size_is_a_failed_write() {
    let place = Place::new();
    place.grow("s-1", 20_000);
    let limited = |verb: &str| {
        let everlog = env!("CARGO_BIN_EXE_everlog");
        let script = format!("ulimit -f 100; exec '{everlog}' {verb}");
        let mut sh = std::process::Command::new("/bin/sh");
        sh.args(["-c", &script]).current_dir(place.path(".")).stdin(Stdio::null());
        sh.output().unwrap()
    };
    let cases = [
        "-s store export s-1 --out whole.jsonl -o json",
        "-s store import in.jsonl",
        "-s store append s-2 --create -t a -d 1 -o json",
    ];
    place.write("in.jsonl", log("s-3", 50_000));
    for verb in cases {
        let output = limited(verb);
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{verb}: {err}");
        assert!(!err.is_empty());
    }
    let left = std::fs::read_dir(place.path(".")).unwrap();
    let names: Vec<_> = left.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    assert!(names.iter().all(|n| n == "store" || n == "in.jsonl"), "{names:?}");
    place.ever(&["check"]).exits(0);
    place.grow("s-1", 1);
}

#[test]
fn a_standard_error_that_takes_nothing_changes_no_exit_code() {
    let place = Place::new();
    place.write("logs/good.jsonl", log("s-good", 2) + "{\"torn");
    place.write("logs/other.jsonl", log("s-good", 3).replace("canary", "other"));
    place.write("bad.jsonl", "no log\n");
    let deaf = |args: &[&str], code: i32| {
        let mut command = place.command(&Place::with_store(args));
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let status = command.stdout(Stdio::null()).stderr(full).status().unwrap();
        assert_eq!(status.code(), Some(code), "{args:?}");
    };
    std::fs::create_dir(place.path("empty")).unwrap();
    deaf(&["import", "empty"], 0);
    deaf(&["import", "logs/good.jsonl"], 0);
    deaf(&["import", "bad.jsonl", "missing"], 1);
    deaf(&["import", "logs", "bad.jsonl"], 3);
    deaf(&["export", "--all", "--out", "out"], 0);
    deaf(&["export", "--all", "--out", "out"], 1);
    deaf(&["cat", "nobody"], 1);
    deaf(&["--bad"], 2);
}
