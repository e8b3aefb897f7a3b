//! Opening: after a clean end, after a kill, and for one event from a shell.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use everlog::{Level, NewEvent, NewSession, SessionId, Store, StoreOptions};

use super::{Run, data, new_session, new_store};
use crate::measure::{Timing, median, repeat, timed};
use crate::table::{Goal, Row};

/// Argument that makes the program a child that writes the fleet and waits to be killed.
pub const CHILD: &str = "--child-fleet";

/// All rows of this part; `path` holds the fleet, closed.
pub fn run(run: &mut Run, path: &Path) {
    let rounds = run.config.rounds * 3;
    let spent = repeat(rounds, || {
        timed(1, || drop(Store::open(path, StoreOptions::default().with_read_only()).unwrap()))
    });
    let note =
        format!("CPU {:.2} ms; goal is for 10 M events in 100,000 sessions", spent.cpu / 1e6);
    let row = Row::value(
        "open-clean",
        "open after a clean close, this fleet",
        spent.wall / 1e6,
        "ms",
        Goal::AtMost(50.0),
    );
    run.add(row.noting(note));
    shell(run, path);
    killed(run);
}

/// One event from a shell: open, take the session, append, close.
fn shell(run: &mut Run, path: &Path) {
    let id = SessionId::new("shell").unwrap();
    {
        let store = Store::open(path, StoreOptions::default()).unwrap();
        let w = store.create_session(&NewSession::new("shell").unwrap()).unwrap();
        w.close().unwrap();
        store.close().unwrap();
    }
    let (mut all, mut bare, mut counts) = (Vec::new(), Vec::new(), (0, 0));
    for _ in 0..run.config.rounds * 3 {
        bare.push(bare_sync(run) / 1e6);
        all.push(timed(1, || {
            let store = Store::open(path, StoreOptions::default()).unwrap();
            let mut w = store.writer(&id).unwrap();
            let _receipt = w.append_batch(&[NewEvent::new("note", b"1")], Level::Sync).unwrap();
            w.close().unwrap();
            counts = store.io_counts();
            store.close().unwrap();
        }));
    }
    let over = |f: &dyn Fn(&Timing) -> f64| median(all.iter().map(f).collect()) / 1e6;
    let note = format!(
        "CPU {:.2} ms; {} fdatasync before the store closes, of {:.2} ms each when bare",
        over(&|t| t.cpu),
        counts.1,
        median(bare)
    );
    let work = "open, take a session, append one at `sync`, close, syncs included";
    let row = Row::value("shell", work, over(&|t| t.wall), "ms", Goal::AtMost(10.0));
    run.add(row.noting(note));
}

/// How long one write and sync of a small allocated file takes now, in nanoseconds.
fn bare_sync(run: &mut Run) -> f64 {
    use std::os::unix::fs::FileExt;
    let path = run.path();
    let file = crate::bare::file(&path, 1 << 20);
    file.sync_all().unwrap();
    let spent = timed(8, || {
        for i in 0..8 {
            file.write_all_at(&[1; 104], i * 104).unwrap();
            file.sync_data().unwrap();
        }
    });
    std::fs::remove_file(path).unwrap();
    spent.wall
}

fn killed(run: &mut Run) {
    let load = crate::measure::load();
    let (mut readers, mut writers) = (Vec::new(), Vec::new());
    for _ in 0..run.config.rounds {
        let path = run.path();
        let c = &run.config;
        let mut kid = Command::new(std::env::current_exe().unwrap())
            .arg(CHILD)
            .arg(&path)
            .args([c.sessions.to_string(), c.events.to_string(), c.seed.to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(kid.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        kid.kill().unwrap();
        kid.wait().unwrap();
        readers.push(timed(1, || {
            drop(Store::open(&path, StoreOptions::default().with_read_only()).unwrap());
        }));
        let mut opened = None;
        writers.push(timed(1, || {
            let store = Store::open(&path, StoreOptions::default()).unwrap();
            let w = store.writer(&SessionId::new("0").unwrap()).unwrap();
            assert!(w.next_seq() > 0);
            opened = Some((w, store));
        }));
        drop(opened);
        std::fs::remove_dir_all(path).unwrap();
    }
    let wall = |v: &[Timing]| median(v.iter().map(|t| t.wall / 1e6).collect());
    let cpu = |v: &[Timing]| median(v.iter().map(|t| t.cpu / 1e6).collect());
    for (id, work, v, goal) in [
        (
            "open-killed-read",
            "open read-only after kill -9 of the writer of this fleet",
            &readers,
            Goal::None,
        ),
        (
            "open-killed-write",
            "open and take a session over after kill -9, recovery and syncs included",
            &writers,
            Goal::AtMost(60.0),
        ),
    ] {
        let mut row = Row::value(id, work, wall(v), "ms", goal);
        row = row.noting(format!("CPU {:.2} ms", cpu(v)));
        row.load = load;
        run.add(row);
    }
}

/// What the child does: `args` are a path, and the sessions, events and seed of its fleet.
///
/// # Panics
/// When anything fails.
pub fn child(args: &[String]) {
    let mut config = crate::config::Config::full();
    let number = |i: usize| args.get(i).and_then(|a| a.parse::<u64>().ok()).unwrap();
    config.sessions = number(1) as usize;
    config.events = number(2) as usize;
    config.seed = number(3);
    let store = new_store(Path::new(args.first().unwrap()));
    let fleet = data::fleet(&config);
    let mut open = Vec::new();
    for k in 0..fleet.sessions {
        let mut w = new_session(&store, &k.to_string());
        let events = fleet.events(k);
        let events: Vec<NewEvent<'_>> = events.iter().map(data::new_event).collect();
        for batch in events.chunks(16) {
            let _receipt = w.append_batch(batch, Level::Os).unwrap();
        }
        open.push(w);
    }
    println!("ready");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    std::thread::sleep(std::time::Duration::from_secs(60));
}
