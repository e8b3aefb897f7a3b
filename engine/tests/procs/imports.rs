//! Imports whose input stalls, and whose process is killed in the middle.

use std::fmt::Display;
use std::io::Write;
use std::path::Path;

use everlog::{ErrorKind, ImportOptions, NewSession, SessionId, Store, StoreOptions};
use everlog_testkit::fleet::Fleet;

use crate::acks::clean;
use crate::kid::{Kid, arg, options, pause, say, scale};

/// In a child: imports its input.
pub fn import() {
    let store = Store::open(arg("path"), options()).unwrap();
    say("ready");
    let mut header_told = false;
    let mut progress = |_bytes| {
        if !header_told {
            say("reading");
            header_told = true;
        }
        true
    };
    let how = arg("how");
    let salvage = how == "salvage";
    let import = ImportOptions { salvage, name: "lines".into(), ..ImportOptions::default() };
    let input = std::io::stdin().lock();
    let done = match how == "jsonl" {
        true => store.import_jsonl(input, &import, &mut progress),
        false => store.import_dsh(input, &import, &mut progress),
    };
    match done {
        Ok(report) => say(format_args!("stored {}", report.stored)),
        Err(e) => say(format_args!("failed {e:?}")),
    }
    store.close().unwrap();
    say(format_args!("peak {}", peak_bytes()));
}

/// Most memory that this process ever held, in bytes.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

fn exported(store: &Store, id: &SessionId) -> Vec<u8> {
    let mut out = Vec::new();
    store.export_dsh(id, false, &mut out).unwrap();
    out
}

/// Feeds a log up to a place, slowly, and kills the importer there.
pub fn killed_at(path: &Path, log: &[u8], upto: usize, how: &str, plant: Option<&str>) {
    let args: [(&str, &dyn Display); 2] = [("path", &path.display()), ("how", &how)];
    let mut kid = Kid::start_planted("import", plant, &args);
    kid.expect("ready");
    let mut input = kid.input();
    let mut done = 0;
    while done < upto {
        let next = (done + 60_000).min(upto);
        input.write_all(&log[done..next]).unwrap();
        input.flush().unwrap();
        done = next;
        pause(2);
    }
    // The end of the input does not come: the importer waits for it, or is still busy.
    pause(15);
    kid.kill();
    drop(input);
    let said = kid.rest();
    assert!(said.iter().all(|line| line == "reading"), "{said:?}");
}

#[test]
fn an_import_killed_in_the_middle_leaves_nothing_and_can_be_done_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    drop(Store::create(&path, StoreOptions::default()).unwrap());
    let events = if scale("ROUNDS", 60) > 60 { 20_000 } else { 2_000 };
    let fleet = Fleet { seed: 5, sessions: 7, events_per_session: events };
    let mut notes = 0;
    for k in 0..fleet.sessions {
        let log = fleet.session(k);
        let header = log.iter().position(|b| *b == b'\n').unwrap() + 1;
        let cuts = [header / 2, header, header + 5, log.len() / 10, log.len() / 2, log.len() - 1];
        let upto = cuts.get(k).copied().unwrap_or(log.len());
        killed_at(&path, &log, upto, "dsh", None);
        let id = SessionId::new(&fleet.session_id(k)).unwrap();
        let store = Store::open(&path, StoreOptions::default()).unwrap();
        assert_eq!(store.sessions().unwrap().len(), k, "only what was imported whole");
        assert_eq!(store.session(&id).unwrap_err().kind(), ErrorKind::NotFound);
        assert!(store.find_sessions(id.as_bytes()).is_empty());
        clean(&store).unwrap();
        notes += store.check(&Default::default(), &mut |_, _| true).unwrap().notes.len();
        let report = store.import_dsh(&log[..], &ImportOptions::default(), &mut |_| true).unwrap();
        assert_eq!(report.added, report.stored);
        assert!(exported(&store, &id) == log, "cut at {upto} of {}", log.len());
        clean(&store).unwrap();
        store.close().unwrap();
    }
    // In the end all that is there is whole, for others too.
    let store = Store::open(&path, StoreOptions::default().with_read_only()).unwrap();
    for k in 0..fleet.sessions {
        let id = SessionId::new(&fleet.session_id(k)).unwrap();
        assert!(exported(&store, &id) == fleet.session(k), "{k}");
    }
    println!("7 imports of {events} events killed, {notes} notes");
}

#[test]
fn an_import_whose_input_stalls_holds_up_nobody_and_ends_well() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let options = StoreOptions::default().with_lock_wait_ms(50);
    let store = Store::create(&path, options).unwrap();
    let fleet = Fleet { seed: 6, sessions: 1, events_per_session: 3_000 };
    let log = fleet.session(0);
    let id = SessionId::new(&fleet.session_id(0)).unwrap();
    let mut kid = Kid::start("import", &[("path", &path.display()), ("how", &"dsh")]);
    kid.expect("ready");
    let mut input = kid.input();
    input.write_all(&log[..log.len() / 2]).unwrap();
    kid.expect("reading");
    pause(300);
    for k in 0..20 {
        let new = NewSession::new(&format!("other-{k}")).unwrap();
        store.create_session(&new).unwrap().close().unwrap();
    }
    let err = store.create_session(&NewSession::with_id(id.clone())).unwrap_err();
    assert_eq!(err.kind(), ErrorKind::Locked, "{err:?}");
    let again = store.import_dsh(&log[..], &ImportOptions::default(), &mut |_| true);
    assert_eq!(again.unwrap_err().kind(), ErrorKind::Locked);
    assert_eq!(store.session(&id).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(store.writer(&id).unwrap_err().kind(), ErrorKind::NotFound);
    clean(&store).unwrap();
    pause(200);
    input.write_all(&log[log.len() / 2..]).unwrap();
    drop(input);
    assert_eq!(kid.expect("stored"), "3000");
    assert!(kid.wait().success());
    store.refresh().unwrap();
    assert!(exported(&store, &id) == log);
    assert_eq!(store.sessions().unwrap().len(), 21);
    let again = store.import_dsh(&log[..], &ImportOptions::default(), &mut |_| true).unwrap();
    assert_eq!((again.added, again.stored), (0, 3_000));
    clean(&store).unwrap();
}
