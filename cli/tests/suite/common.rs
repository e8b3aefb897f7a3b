//! What all verbs share: help, usage, colours, secrets.

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
