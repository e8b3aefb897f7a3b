//! Salvages and imports of lines whose process is killed in the middle, or whose input stalls; and planted faults.

use std::io::Write;
use std::path::Path;

use everlog::{ErrorKind, ImportOptions, SessionId, Store, StoreOptions};
use everlog_testkit::fleet::Fleet;
use serde_json::Value;

use crate::acks::clean;
use crate::imports::killed_at;
use crate::kid::{Kid, pause};

/// A log with a line in its middle that was cut, and how many lines stand before that.
fn damaged(seed: u64) -> (Vec<u8>, SessionId) {
    let fleet = Fleet { seed, sessions: 1, events_per_session: 1_500 };
    let mut log = fleet.session(0);
    let middle = log.len() / 2;
    let start = middle + log[middle..].iter().position(|b| *b == b'\n').unwrap() + 1;
    let end = start + log[start..].iter().position(|b| *b == b'\n').unwrap();
    log.drain((start + end) / 2..end);
    (log, SessionId::new(&fleet.session_id(0)).unwrap())
}

fn salvage(store: &Store, log: &[u8]) -> everlog::Result<everlog::ImportReport> {
    let options = ImportOptions { salvage: true, ..ImportOptions::default() };
    store.import_dsh(log, &options, &mut |_| true)
}

/// The export of a salvaged session with the lines that were set aside in their places.
fn back(store: &Store, id: &SessionId) -> Vec<u8> {
    let mut log = Vec::new();
    store.export_dsh(id, false, &mut log).unwrap();
    let mut out = Vec::new();
    for line in log.split_inclusive(|b| *b == b'\n') {
        if !line.starts_with(b"{\"type\":\"everlog/salvaged\"") {
            out.extend_from_slice(line);
            continue;
        }
        let event: Value = serde_json::from_slice(line).unwrap();
        out.extend_from_slice(event["data"]["text"].as_str().unwrap().as_bytes());
        out.push(b'\n');
    }
    out
}

fn exported(store: &Store, id: &SessionId) -> Vec<u8> {
    let mut out = Vec::new();
    store.export_jsonl(id, &mut out).unwrap();
    out
}

/// Kills an import before and behind the damage, and says what it left that is not as it was.
fn found(how: &str, plant: Option<&str>) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    drop(Store::create(&path, StoreOptions::default()).unwrap());
    let (log, id) = damaged(11);
    for upto in [log.len() / 4, log.len() * 3 / 4, log.len() - 1] {
        killed_at(&path, &log, upto, how, plant);
        let store = Store::open(&path, StoreOptions::default()).unwrap();
        if !store.sessions().unwrap().is_empty() {
            return Err(format!("killed at {upto} of {}: a session is there", log.len()));
        }
        clean(&store)?;
        store.close().unwrap();
    }
    finish(&path, &log, &id, how, plant)
}

/// Does the whole import in a child.
fn finish(
    path: &Path,
    log: &[u8],
    id: &SessionId,
    how: &str,
    plant: Option<&str>,
) -> Result<(), String> {
    let args: [(&str, &dyn std::fmt::Display); 2] = [("path", &path.display()), ("how", &how)];
    let mut kid = Kid::start_planted("import", plant, &args);
    kid.expect("ready");
    let mut input = kid.input();
    // The pipe is emptied by the child alone, so it is fed by another thread.
    let bytes = log.to_vec();
    let feeder = std::thread::spawn(move || input.write_all(&bytes));
    kid.expect("reading");
    let stored: u64 = kid.expect("stored").parse().unwrap();
    feeder.join().unwrap().unwrap();
    assert!(kid.wait().success());
    let store = Store::open(path, StoreOptions::default()).unwrap();
    clean(&store)?;
    let same = match how {
        "jsonl" => exported(&store, &SessionId::new("lines").unwrap()) == log,
        _ => back(&store, id) == log,
    };
    if !same {
        return Err(format!("{stored} events are not the input"));
    }
    if how == "salvage" {
        let again = salvage(&store, log).unwrap();
        assert_eq!((again.added, again.stored), (0, stored));
        assert!(again.salvaged > 100, "{}", again.salvaged);
    }
    Ok(())
}

#[test]
fn a_salvage_killed_in_the_middle_leaves_nothing_and_can_be_done_again() {
    assert_eq!(found("salvage", None), Ok(()));
}

#[test]
fn an_import_of_lines_killed_in_the_middle_leaves_nothing() {
    assert_eq!(found("jsonl", None), Ok(()));
}

#[test]
#[cfg(feature = "planted")]
fn planted_faults_of_imports_are_found() {
    for how in ["salvage", "jsonl"] {
        assert!(found(how, Some("PublishEarly")).is_err_and(|why| why.contains("is there")));
        let lost = found(how, Some("SalvageLosesText"));
        assert!(lost.is_err_and(|why| why.contains("are not the input")), "{how}");
    }
}

#[test]
fn a_salvage_whose_input_stalls_holds_up_nobody_and_ends_well() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Store::create(&path, StoreOptions::default().with_lock_wait_ms(50)).unwrap();
    let (log, id) = damaged(12);
    let mut kid = Kid::start("import", &[("path", &path.display()), ("how", &"salvage")]);
    kid.expect("ready");
    let mut input = kid.input();
    // Behind the damage, inside a line.
    let (first, rest) = log.split_at(log.len() * 3 / 4 + 5);
    let first = first.to_vec();
    let feeder = std::thread::spawn(move || input.write_all(&first).map(|()| input));
    kid.expect("reading");
    let mut input = feeder.join().unwrap().unwrap();
    pause(200);
    assert_eq!(salvage(&store, &log).unwrap_err().kind(), ErrorKind::Locked);
    assert_eq!(store.session(&id).unwrap_err().kind(), ErrorKind::NotFound);
    let new = everlog::NewSession::new("other").unwrap();
    store.create_session(&new).unwrap().close().unwrap();
    input.write_all(rest).unwrap();
    drop(input);
    kid.expect("stored");
    assert!(kid.wait().success());
    store.refresh().unwrap();
    assert!(back(&store, &id) == log);
    clean(&store).unwrap();
}
