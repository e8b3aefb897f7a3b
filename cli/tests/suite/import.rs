//! `import`: what goes in, what is refused, and how it is reported.

use std::io::Write;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Place, log};

#[test]
fn the_same_file_again_adds_nothing() {
    let place = Place::new();
    let path = place.write("in.jsonl", log("s-777", 3));
    let first =
        place.ever(&["import", "in.jsonl", "--format", "dsh", "-o", "jsonl"]).exits(0).jsonl();
    let line = &first[0];
    assert_eq!((line["v"].as_u64(), line["kind"].as_str()), (Some(1), Some("import")));
    assert_eq!((line["ok"].as_bool(), line["path"].as_str()), (Some(true), Some("in.jsonl")));
    assert_eq!((line["session"].as_str(), line["format"].as_str()), (Some("s-777"), Some("dsh")));
    assert_eq!((line["stored"].as_u64(), line["added"].as_u64()), (Some(3), Some(3)));
    assert_eq!(
        (line["torn_bytes"].as_u64(), line["warnings"].as_array().map(Vec::len)),
        (Some(0), Some(0))
    );
    let again = place.ever(&["import", "in.jsonl", "-o", "jsonl"]).exits(0).jsonl();
    assert_eq!((again[0]["stored"].as_u64(), again[0]["added"].as_u64()), (Some(3), Some(0)));
    std::fs::write(&path, log("s-777", 3).replace("canary-1", "other")).unwrap();
    let other = place.ever(&["import", "in.jsonl", "-o", "jsonl"]).exits(1).jsonl();
    assert_eq!(
        (other[0]["ok"].as_bool(), other[0]["error"]["kind"].as_str()),
        (Some(false), Some("exists"))
    );
}

#[test]
fn a_grown_file_adds_the_rest() {
    let place = Place::new();
    let path = place.write("in.jsonl", log("s-777", 3));
    place.ever(&["import", "in.jsonl"]).exits(0);
    std::fs::write(&path, log("s-777", 5)).unwrap();
    let grown = place.ever(&["import", "in.jsonl", "-o", "jsonl"]).exits(0).jsonl();
    assert_eq!((grown[0]["stored"].as_u64(), grown[0]["added"].as_u64()), (Some(5), Some(2)));
    assert_eq!(place.ever(&["export", "s-777"]).exits(0).text(), log("s-777", 5));
}

#[test]
fn a_torn_tail_is_dropped_with_a_warning() {
    let place = Place::new();
    let whole = log("s-777", 3);
    place.write("in.jsonl", &whole[..whole.len() - 10]);
    let torn = place.ever(&["import", "in.jsonl", "-o", "json"]).exits(0).json();
    assert_eq!(torn[0]["stored"], 2);
    assert!(torn[0]["torn_bytes"].as_u64().unwrap() > 0);
    assert!(!torn[0]["warnings"][0]["message"].as_str().unwrap().is_empty());
}

#[test]
fn refusals_name_the_place_and_have_exit_codes() {
    let place = Place::new();
    let gap = log("s-777", 6).replace("\"seq\":3", "\"seq\":4");
    place.write("gap.jsonl", gap);
    place.write("new.jsonl", log("s-778", 1).replace("\"version\":0", "\"version\":9"));
    place.write("good.jsonl", log("good", 1));
    let gap = place.ever(&["import", "gap.jsonl", "-o", "jsonl"]).exits(1);
    let error = &gap.jsonl()[0]["error"];
    assert_eq!((error["kind"].as_str(), error["line"].as_u64()), (Some("corrupt"), Some(5)));
    let told = place.ever(&["import", "gap.jsonl"]).exits(1);
    assert!(told.err.contains("gap.jsonl") && told.err.contains("line 5"), "{}", told.err);
    let new = place.ever(&["import", "new.jsonl", "-o", "jsonl"]).exits(13);
    assert_eq!(new.jsonl()[0]["error"]["kind"], "unsupported");
    assert_eq!(place.ever(&["ls", "-o", "jsonl"]).exits(0).text(), "");
    place.ever(&["import", "gap.jsonl", "new.jsonl"]).exits(1);
    let some = place
        .ever(&["import", "gap.jsonl", "good.jsonl", "missing.jsonl", "-o", "jsonl"])
        .exits(3)
        .jsonl();
    let kinds: Vec<_> = some.iter().map(|l| l["error"]["kind"].as_str()).collect();
    assert_eq!(kinds, [Some("corrupt"), None, Some("io")]);
    place.ever(&["import", "good.jsonl", "--format", "codex"]).exits(2);
    place.ever(&["import"]).exits(2);
}

#[test]
fn folders_and_standard_input() {
    let place = Place::new();
    for i in 0..20 {
        place.write(&format!("logs/{}/f{i:02}.jsonl", i % 3), log(&format!("s-{i:04}"), i));
    }
    place.write("logs/readme.txt", "no log");
    let dry = place.ever(&["import", "logs", "--dry-run", "-o", "jsonl"]).exits(0).jsonl();
    assert_eq!(dry.len(), 20);
    assert_eq!(place.ever(&["ls", "-o", "jsonl"]).exits(0).text(), "");
    let all = place.ever(&["import", "logs", "--jobs", "4", "-o", "jsonl"]).exits(0).jsonl();
    let paths: Vec<_> = all.iter().map(|l| l["path"].as_str().unwrap().to_owned()).collect();
    let mut sorted = paths.clone();
    sorted.sort();
    assert_eq!((paths.len(), &paths), (20, &sorted));
    let piped = place.feed(&["import", "-", "-o", "jsonl"], log("piped", 2)).exits(0).jsonl();
    assert_eq!(
        (piped[0]["path"].as_str(), piped[0]["session"].as_str()),
        (Some("-"), Some("piped"))
    );
    let prefixed = place
        .feed(&["import", "-", "--id-prefix", "p/", "-o", "jsonl"], log("piped", 3))
        .exits(0)
        .jsonl();
    assert_eq!(prefixed[0]["session"], "p/piped");
    assert_eq!(place.ever(&["ls", "-q"]).exits(0).text().lines().count(), 22);
    place.ever(&["check"]).exits(0);
}

#[test]
fn inputs_of_one_session_do_not_fight() {
    let place = Place::new();
    for i in 0..8 {
        place.write(&format!("logs/{i}.jsonl"), log("s-777", 200));
    }
    let all = place.ever(&["import", "logs", "--jobs", "8", "-o", "jsonl"]).exits(0).jsonl();
    assert!(all.iter().all(|l| l["stored"] == 200), "{all:?}");
    assert_eq!(all.iter().map(|l| l["added"].as_u64().unwrap()).sum::<u64>(), 200);
}

#[test]
fn ctrl_c_leaves_no_half_session() {
    let place = Place::new();
    let mut child =
        place.command(&Place::with_store(&["import", "-"])).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(log("s-777", 5_000).as_bytes()).unwrap();
    // Long enough for the events to be on their way into the store.
    std::thread::sleep(Duration::from_millis(200));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    drop(stdin);
    assert_eq!(place.ever(&["ls", "-q"]).exits(0).text(), "");
    place.ever(&["check"]).exits(0);
    place.write("in.jsonl", log("s-777", 5_000));
    place.ever(&["import", "in.jsonl"]).exits(0);
}
