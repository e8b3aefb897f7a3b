//! Opening large stores: many sessions in one lane, and many lanes whose writers were killed.
//!
//! The writer takes 200 sessions at a time in turn, ten events a call, as a fleet at work leaves them: every INDEX frame
//! lists all of the 200.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use everlog::{Level, NewEvent, SessionId, Store, StoreOptions};

use super::{Run, data, new_session};
use crate::measure::{Timing, median, repeat, timed};
use crate::table::{Goal, Row};

/// Argument that makes the program a child that fills one lane and waits to be killed.
pub const CHILD: &str = "--child-lane";

/// Sessions that are written in turn.
const ALIVE: usize = 200;
/// Events of one call.
const BATCH: usize = 10;

/// All rows of this part.
pub fn run(run: &mut Run) {
    one_lane(run);
    many_lanes(run);
}

fn read_only() -> StoreOptions {
    StoreOptions::default().with_read_only()
}

/// One lane with all sessions: killed, taken over, closed.
fn one_lane(run: &mut Run) {
    let path = run.path();
    let c = &run.config;
    let per_session = (c.large_events / c.large_sessions).max(1);
    kill(start(&path, 0, c.large_sessions, per_session, c.seed));
    let what = format!("{} M events in {} sessions", millions(c.large_events), c.large_sessions);
    let rounds = c.rounds;
    let open = || timed(1, || drop(Store::open(&path, read_only()).unwrap()));

    let read = repeat(rounds, open);
    let work = format!("open read-only after kill -9: {what}, one lane");
    add(run, "open-large-killed", &work, read, Goal::AtMost(60.0), String::new());

    let mut opened = None;
    let write = timed(1, || opened = Some(take(&path, 0)));
    let work = "the same store: open and take a session over, recovery and syncs included";
    add(run, "open-large-take", work, write, Goal::AtMost(60.0), String::new());
    close(opened);

    let read = repeat(rounds, open);
    let work = "the same store: open read-only after a clean close";
    add(run, "open-large-clean", work, read, Goal::AtMost(50.0), String::new());

    let mut all = Vec::new();
    for k in 0..rounds {
        all.push(timed(1, || {
            let (store, mut w) = take(&path, k);
            let _receipt = w.append_batch(&[NewEvent::new("note", b"1")], Level::Sync).unwrap();
            close(Some((store, w)));
        }));
    }
    let work = "the same store: one event from a shell at `sync`, closed, syncs included";
    add(run, "shell-large", work, medians(&all), Goal::AtMost(10.0), String::new());
    std::fs::remove_dir_all(path).unwrap();
}

/// Many lanes whose writers were killed, and what a refresh costs when nothing happens.
fn many_lanes(run: &mut Run) {
    let path = run.path();
    let c = &run.config;
    let (lanes, sessions) = (c.killed_lanes, (c.large_sessions / c.killed_lanes).max(1));
    let per_session = (c.large_events / c.large_sessions).max(1);
    // The flock of a lane keeps the next writer from taking it: each makes one of its own.
    let mut flocks = Vec::new();
    for k in 0..lanes {
        kill(start(&path, k * sessions, sessions, per_session, c.seed));
        let lane = path.join("lanes").join(format!("{k:04x}")).join("lane");
        let file = File::open(lane).unwrap();
        file.try_lock().unwrap();
        flocks.push(file);
    }
    drop(flocks);
    let what = format!(
        "{} M events in {} sessions, {lanes} lanes",
        millions(lanes * sessions * per_session),
        lanes * sessions
    );
    let rounds = c.rounds;
    let read = repeat(rounds, || timed(1, || drop(Store::open(&path, read_only()).unwrap())));
    let work = format!("open read-only, every writer killed: {what}");
    add(run, "open-lanes-killed", &work, read, Goal::AtMost(300.0), String::new());

    let store = Store::open(&path, read_only()).unwrap();
    store.refresh().unwrap();
    let quiet = repeat(rounds * 3, || timed(1, || store.refresh().unwrap()));
    drop(store);
    let work = "the same store: a refresh when nothing was written";
    let note = format!("{:.1} us a lane", quiet.wall / 1e3 / lanes as f64);
    add(run, "refresh-quiet", work, quiet, Goal::None, note);

    let mut opened = None;
    let write = timed(1, || opened = Some(take(&path, (lanes - 1) * sessions)));
    let work =
        "the same store: open and take a session of one lane over, with its recovery and syncs";
    add(run, "open-lanes-take", work, write, Goal::AtMost(300.0), String::new());
    close(opened);
    std::fs::remove_dir_all(path).unwrap();
}

fn add(run: &mut Run, id: &'static str, work: &str, t: Timing, goal: Goal, note: String) {
    let row = Row::value(id, work, t.wall / 1e6, "ms", goal);
    let gap = if note.is_empty() { "" } else { "; " };
    run.add(row.noting(format!("CPU {:.2} ms{gap}{note}", t.cpu / 1e6)));
}

fn medians(all: &[Timing]) -> Timing {
    Timing {
        wall: median(all.iter().map(|t| t.wall).collect()),
        cpu: median(all.iter().map(|t| t.cpu).collect()),
    }
}

fn millions(events: usize) -> f64 {
    (events as f64 / 1e4).round() / 100.0
}

fn take(path: &Path, k: usize) -> (Store, everlog::SessionWriter) {
    let store = Store::open(path, StoreOptions::default()).unwrap();
    let w = store.writer(&SessionId::new(&k.to_string()).unwrap()).unwrap();
    assert!(w.next_seq() > 0);
    (store, w)
}

fn close(opened: Option<(Store, everlog::SessionWriter)>) {
    let (store, w) = opened.unwrap();
    w.close().unwrap();
    store.close().unwrap();
}

/// Starts a writer and waits until all is written.
fn start(path: &Path, first: usize, sessions: usize, per_session: usize, seed: u64) -> Child {
    let mut kid = Command::new(std::env::current_exe().unwrap())
        .arg(CHILD)
        .arg(path)
        .args([first, sessions, per_session].map(|n| n.to_string()))
        .arg(seed.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(kid.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    kid
}

fn kill(mut kid: Child) {
    kid.kill().unwrap();
    kid.wait().unwrap();
}

/// What the child does: `args` are a path, the number of its first session, how many it makes, the events of each, and
/// the seed of the fleet.
///
/// # Panics
/// When anything fails.
pub fn child(args: &[String]) {
    let number = |i: usize| args.get(i).and_then(|a| a.parse::<usize>().ok()).unwrap();
    let (first, sessions, events_per_session) = (number(1), number(2), number(3));
    let seed = args.get(4).and_then(|a| a.parse().ok()).unwrap();
    let path = Path::new(args.first().unwrap());
    let store = if path.exists() {
        Store::open(path, StoreOptions::default()).unwrap()
    } else {
        super::new_store(path)
    };
    let fleet = everlog_testkit::fleet::Fleet { seed, sessions, events_per_session };
    let mut last = Vec::new();
    for group in (first..first + sessions).collect::<Vec<_>>().chunks(ALIVE) {
        let events: Vec<_> = group.iter().map(|k| fleet.events(*k)).collect();
        let mut open: Vec<_> = group.iter().map(|k| new_session(&store, &k.to_string())).collect();
        for from in (0..events_per_session).step_by(BATCH) {
            for (w, events) in open.iter_mut().zip(&events) {
                let batch = events.iter().skip(from).take(BATCH);
                let batch: Vec<NewEvent<'_>> = batch.map(data::new_event).collect();
                let _receipt = w.append_batch(&batch, Level::Buffered).unwrap();
            }
        }
        // The last group dies with its sessions open.
        last = open;
    }
    for w in &mut last {
        let _receipt = w.append_batch(&[NewEvent::new("note", b"1")], Level::Os).unwrap();
    }
    println!("ready");
    let mut line = String::new();
    // Ends with the one who started it, if that does not kill it.
    std::io::stdin().read_line(&mut line).unwrap();
}
