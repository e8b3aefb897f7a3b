//! Many processes: on one store, beside as many with a store each.
//!
//! The program starts itself: a child opens its session, says so, waits for a line, appends, and tells its waits.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use everlog::{Level, NewEvent, NewSession, Store, StoreOptions};

use super::{Run, data, new_store};
use crate::measure::{Timing, alternate, quantile};
use crate::table::{Goal, Row};

/// Argument that makes the program a child.
pub const CHILD: &str = "--child-append";

/// All rows of this part.
pub fn run(run: &mut Run) {
    let singles = run.config.singles / 8;
    pair(run, Level::Os, singles);
    let syncs = run.config.syncs;
    pair(run, Level::Sync, syncs);
    starved(run);
}

fn pair(run: &mut Run, level: Level, each: u64) {
    const N: usize = 8;
    let rounds = run.config.rounds;
    let shared = std::cell::RefCell::new(&mut *run);
    let mut one_side = |stores: usize| {
        let paths: Vec<PathBuf> = (0..stores).map(|_| shared.borrow_mut().path()).collect();
        paths.iter().for_each(|p| drop(new_store(p)));
        let kids = (0..N).map(|i| Kid::start(&paths[i % stores], i, level, each)).collect();
        let (wall, _) = go(kids);
        paths.iter().for_each(|p| std::fs::remove_dir_all(p).unwrap());
        Timing { wall: wall / (each * N as u64) as f64, cpu: 1.0 }
    };
    let mut pairs = Vec::new();
    let got = {
        let side = std::cell::RefCell::new(&mut one_side);
        alternate(rounds, || side.borrow_mut()(1), || side.borrow_mut()(N))
    };
    pairs.push(got);
    let (id, work) = match level {
        Level::Sync => {
            ("procs-8-sync", "8 processes on one store, `sync`, one event a call (8 stores)")
        }
        _ => ("procs-8-os", "8 processes on one store, `os`, one event of 256 B a call (8 stores)"),
    };
    let mut row = Row::times(id, work, got, Goal::Share(0.9)).noting(String::new());
    row.share = row.share.map(|s| Timing { cpu: s.wall, ..s });
    run.add(row);
}

/// 64 processes on one store: whether one waits much longer than most.
fn starved(run: &mut Run) {
    let load = crate::measure::load();
    let n = if run.config.singles > 1_000 { 64 } else { 4 };
    let path = run.path();
    drop(new_store(&path));
    let each = run.config.syncs / 4 + 1;
    let kids = (0..n).map(|i| Kid::start(&path, i, Level::Sync, each)).collect();
    let (wall, mut waits) = go(kids);
    let (p50, p99) = (quantile(&mut waits, 0.5), quantile(&mut waits, 0.99));
    let rate = waits.len() as f64 / wall * 1e9;
    let note = format!("p50 {:.1} ms, p99 {:.1} ms, {rate:.0} acks/s", p50 / 1e6, p99 / 1e6);
    let work = "64 processes on one store, `sync`: p99 of the waits in times of their median";
    let mut row = Row::value("procs-64", work, p99 / p50, "x", Goal::AtMost(4.0)).noting(note);
    row.load = load;
    run.add(row);
    std::fs::remove_dir_all(path).unwrap();
}

struct Kid {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Kid {
    fn start(store: &Path, i: usize, level: Level, each: u64) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .arg(CHILD)
            .arg(store)
            .args([i.to_string(), level.name().to_owned(), each.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdin, stdout }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.stdout.read_line(&mut line).unwrap() > 0, "a child ended early");
        line
    }
}

/// Lets all children go at once; gives the time until the last has appended, and all their waits.
fn go(mut kids: Vec<Kid>) -> (f64, Vec<f64>) {
    kids.iter_mut().for_each(|k| assert_eq!(k.line(), "ready\n"));
    let begun = Instant::now();
    kids.iter_mut().for_each(|k| k.stdin.write_all(b"go\n").unwrap());
    let mut waits = Vec::new();
    kids.iter_mut().for_each(|k| assert_eq!(k.line(), "done\n"));
    let wall = begun.elapsed().as_nanos() as f64;
    for mut kid in kids {
        let line = kid.line();
        waits.extend(line.split_whitespace().map(|w| w.parse::<f64>().unwrap()));
        drop(kid.stdin);
        assert!(kid.child.wait().unwrap().success());
    }
    (wall, waits)
}

/// What a child does: `args` are its store, its number, its level and how many events.
///
/// # Panics
/// When anything fails.
pub fn child(args: &[String]) {
    let [path, i, level, each] = args else { panic_usage() };
    let store = Store::open(path, StoreOptions::default()).unwrap();
    let mut w = store.create_session(&NewSession::new(&format!("kid-{i}")).unwrap()).unwrap();
    let level = if level == "sync" { Level::Sync } else { Level::Os };
    let text = data::text_256();
    let one = [NewEvent::new("note", text.as_bytes())];
    println!("ready");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    let waits: Vec<String> = (0..each.parse::<u64>().unwrap())
        .map(|_| {
            let begun = Instant::now();
            let _receipt = w.append_batch(&one, level).unwrap();
            begun.elapsed().as_nanos().to_string()
        })
        .collect();
    println!("done");
    println!("{}", waits.join(" "));
    // Closing would disturb those who are still at work.
    std::io::stdin().read_line(&mut line).unwrap();
}

fn panic_usage() -> ! {
    eprintln!("{CHILD} wants a store, a number, a level and a count");
    std::process::exit(2);
}
