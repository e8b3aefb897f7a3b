//! Measures the engine beside the bare operations of the same run.
//!
//! `everlog-bench [--smoke] [FOLDER]`: a seeded fleet of 200 sessions and 500,000 events (tiny with `--smoke`), five rounds.
#![allow(clippy::unwrap_used, reason = "a measurement that fails has no result")]

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use everlog::{ImportOptions, Level, NewEvent, NewSession, Store, StoreOptions};
use everlog_benches::{Row, alternate, load, median, print_table, quantile, timed};
use everlog_testkit::fleet::Fleet;
use everlog_testkit::rng::Rng;

struct Size {
    sessions: usize,
    events: usize,
    batches: u64,
    singles: u64,
    syncs: u64,
    points: u64,
    rounds: usize,
}

const FULL: Size = Size {
    sessions: 200,
    events: 2_500,
    batches: 1_000,
    singles: 20_000,
    syncs: 300,
    points: 100_000,
    rounds: 5,
};
const SMOKE: Size =
    Size { sessions: 4, events: 200, batches: 10, singles: 200, syncs: 5, points: 500, rounds: 2 };

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [role, path] = &args[..]
        && role == "--child"
    {
        return child(Path::new(path));
    }
    let smoke = args.iter().any(|a| a == "--smoke");
    let base =
        args.iter().find(|a| !a.starts_with("--")).map_or(std::env::temp_dir(), PathBuf::from);
    let folder = base.join(format!("everlog-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let size = if smoke { SMOKE } else { FULL };
    println!("load {:.2} at the start; ratios from a load above 3 are not claimed\n", load());
    let mut rows = Vec::new();
    append_rows(&folder, &size, &mut rows);
    sync_rows(&folder, &size, &mut rows);
    fleet_rows(&folder, &size, &mut rows);
    print_table(&rows);
    println!("\nload {:.2} at the end", load());
    std::fs::remove_dir_all(&folder).unwrap();
}

fn store(path: &Path) -> Store {
    Store::create(path, StoreOptions::default()).unwrap()
}

fn bare_file(path: &Path, bytes: u64) -> File {
    let file =
        OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path).unwrap();
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes).unwrap();
    file
}

fn row(work: &'static str, (ours, bare): (f64, f64), goal: &'static str) -> Row {
    Row {
        work,
        ours: format!("{ours:.0} ns"),
        bare: format!("{bare:.0} ns"),
        ratio: format!("{:.2} of bare speed", bare / ours),
        goal,
    }
}

fn append_rows(folder: &Path, size: &Size, rows: &mut Vec<Row>) {
    let text = format!("{{\"turn\":1,\"step\":1,\"text\":\"{}\"}}", "x".repeat(227));
    let data = text.as_bytes();
    let batch: Vec<NewEvent<'_>> = (0..256).map(|_| NewEvent::new("note", data)).collect();
    let s = store(&folder.join("append"));
    let mut w = s.create_session(&NewSession::new("a").unwrap()).unwrap();
    let n = size.batches * 256;
    let mut round = 0;
    let raw = alternate(
        size.rounds,
        || {
            timed(n, || {
                (0..size.batches)
                    .for_each(|_| drop(w.append_batch(&batch, Level::Buffered).unwrap()))
            })
        },
        || {
            round += 1;
            let file = bare_file(&folder.join(format!("bare{round}")), n * 256 + (1 << 20));
            let check = timed(n, || (0..n).for_each(|_| assert!(everlog::dsh::is_json(data))));
            check + timed(n, || bare_batches(&file, data, n))
        },
    );
    rows.push(row("raw JSON in batches of 256, 256 B, check on (bare: checker + crc + memcpy + pwrite 256 KiB)", raw, ">= 0.7"));
    let one = [NewEvent::new("note", data)];
    // Every call goes to bytes that were never written, on both sides.
    let file = bare_file(&folder.join("one"), size.singles * 320 * 2 * size.rounds as u64);
    let at = std::cell::Cell::new(0);
    let bare = || {
        timed(size.singles, || {
            for _ in 0..size.singles {
                file.write_all_at(data, at.get()).unwrap();
                at.set(at.get() + 320);
            }
        })
    };
    let os = alternate(
        size.rounds,
        || {
            timed(size.singles, || {
                (0..size.singles).for_each(|_| drop(w.append_batch(&one, Level::Os).unwrap()));
            })
        },
        bare,
    );
    rows.push(row("append `os`, one raw event a call (bare: pwrite)", os, ">= 0.77 (<= 1.3 x)"));
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let typed = alternate(
        size.rounds,
        || {
            timed(size.singles, || {
                (0..size.singles).for_each(|_| drop(w.append_json("note", &value).unwrap()));
            })
        },
        bare,
    );
    rows.push(row("append `os`, one typed event a call (bare: pwrite)", typed, ">= 0.77"));
}

fn bare_batches(file: &File, data: &[u8], n: u64) {
    let mut stage = vec![0u8; 256 << 10];
    let (mut used, mut at, mut sum) = (0, 0u64, 0u32);
    for _ in 0..n {
        if used + data.len() > stage.len() {
            file.write_all_at(&stage[..used], at).unwrap();
            at += used as u64;
            used = 0;
        }
        sum ^= crc32fast::hash(data);
        stage[used..used + data.len()].copy_from_slice(data);
        used += data.len();
    }
    file.write_all_at(&stage[..used], at).unwrap();
    assert!(sum != 1);
}

fn sync_rows(folder: &Path, size: &Size, rows: &mut Vec<Row>) {
    let s = store(&folder.join("sync"));
    let mut w = s.create_session(&NewSession::new("a").unwrap()).unwrap();
    let one = [NewEvent::new("note", b"{\"a\":1}")];
    let file = bare_file(&folder.join("bare-sync"), 1 << 20);
    let lone = alternate(
        size.rounds,
        || {
            timed(size.syncs, || {
                (0..size.syncs).for_each(|_| drop(w.append_batch(&one, Level::Sync).unwrap()))
            })
        },
        || {
            timed(size.syncs, || {
                for i in 0..size.syncs {
                    file.write_all_at(&[7; 104], i * 104).unwrap();
                    file.sync_data().unwrap();
                }
            })
        },
    );
    rows.push(row("append `sync`, alone (bare: pwrite + fdatasync)", lone, "one of each"));
    for (threads, work) in [
        (32, "append `sync`, 32 threads, a session each"),
        (64, "append `sync`, 64 threads, a session each"),
    ] {
        let (acks, syncs, seconds) =
            grouped(&folder.join(format!("group{threads}")), threads, size.syncs);
        rows.push(Row {
            work,
            ours: format!("{:.0} acks/s", acks as f64 / seconds),
            bare: format!("{:.0} fdatasync/s alone", 1e9 / lone.1),
            ratio: format!("{:.1} acks a sync", acks as f64 / syncs.max(1) as f64),
            goal: ">= 16 acks a sync at 32",
        });
    }
}

fn grouped(path: &Path, threads: usize, each: u64) -> (u64, u64, f64) {
    let s = store(path);
    let make = |i: usize| s.create_session(&NewSession::new(&format!("s{i}")).unwrap()).unwrap();
    let writers: Vec<_> = (0..threads).map(make).collect();
    let before = s.io_counts().1;
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for mut w in writers {
            scope.spawn(move || {
                for _ in 0..each {
                    let _receipt =
                        w.append_batch(&[NewEvent::new("note", b"1")], Level::Sync).unwrap();
                }
                std::mem::forget(w);
            });
        }
    });
    (each * threads as u64, s.io_counts().1 - before, begun.elapsed().as_secs_f64())
}

fn fleet_rows(folder: &Path, size: &Size, rows: &mut Vec<Row>) {
    let fleet = Fleet { seed: 7, sessions: size.sessions, events_per_session: size.events };
    let logs: Vec<Vec<u8>> = (0..size.sessions).map(|k| fleet.session(k)).collect();
    let bytes: u64 = logs.iter().map(|l| l.len() as u64).sum();
    let path = folder.join("fleet");
    let mut round = 0;
    let import = alternate(
        size.rounds.min(3),
        || {
            round += 1;
            let s = store(&folder.join(format!("import{round}")));
            let ns = timed(bytes, || import_all(&s, &logs));
            drop(s);
            std::fs::remove_dir_all(folder.join(format!("import{round}"))).unwrap();
            ns
        },
        || {
            timed(bytes, || {
                logs.iter().for_each(|l| {
                    l.split(|b| *b == b'\n')
                        .filter(|l| !l.is_empty())
                        .for_each(|l| assert!(everlog::dsh::is_json(l)))
                })
            })
        },
    );
    rows.push(mbps("import of JSONL, one core (bare: one pass of the checker)", import, ">= 0.6"));
    let s = store(&path);
    import_all(&s, &logs);
    let info = s.info().unwrap();
    s.close().unwrap();
    let s = Store::open(&path, StoreOptions::default().with_read_only()).unwrap();
    read_rows(&s, folder, size, bytes, info.events, rows);
    drop(s);
    open_rows(&path, size, rows);
    let used: u64 = used_bytes(&path);
    rows.push(Row {
        work: "bytes on disk an event, active segments (bare: compact JSONL)",
        ours: format!("{:.0} B", used as f64 / info.events as f64),
        bare: format!("{:.0} B", bytes as f64 / info.events as f64),
        ratio: format!("{:.2} of JSONL", used as f64 / bytes as f64),
        goal: "<= 0.7",
    });
}

fn import_all(s: &Store, logs: &[Vec<u8>]) {
    for log in logs {
        s.import_dsh(&log[..], &ImportOptions::default(), &mut |_| true).unwrap();
    }
}

fn mbps(work: &'static str, (ours, bare): (f64, f64), goal: &'static str) -> Row {
    Row {
        work,
        ours: format!("{:.0} MB/s", 1e3 / ours),
        bare: format!("{:.0} MB/s", 1e3 / bare),
        ratio: format!("{:.2} of bare speed", bare / ours),
        goal,
    }
}

fn used_bytes(path: &Path) -> u64 {
    let report = Store::open(path, StoreOptions::default().with_read_only())
        .and_then(|s| s.check(&everlog::CheckOptions { quick: true, part: None }, &mut |_, _| true))
        .unwrap();
    assert!(report.is_clean());
    report.bytes
}

fn read_rows(s: &Store, folder: &Path, size: &Size, bytes: u64, events: u64, rows: &mut Vec<Row>) {
    let sessions: Vec<_> =
        s.sessions().unwrap().iter().map(|i| s.session(&i.id).unwrap()).collect();
    let plain = folder.join("plain");
    std::fs::write(&plain, vec![b'x'; usize::try_from(bytes).unwrap()]).unwrap();
    let file = File::open(&plain).unwrap();
    let mut buf = vec![0; 256 << 10];
    let scan = alternate(
        size.rounds,
        || {
            let mut seen = 0u64;
            let ns = timed(bytes, || {
                for session in &sessions {
                    session
                        .for_each(0, u64::MAX - 1, &mut |e| {
                            seen += e.data.len() as u64;
                            Ok(())
                        })
                        .unwrap();
                }
            });
            assert!(seen > 0);
            ns
        },
        || {
            timed(bytes, || {
                let (mut at, mut sum) = (0, 0);
                while let Ok(n) = file.read_at(&mut buf, at)
                    && n > 0
                {
                    buf[..n].chunks(330).for_each(|c| sum ^= crc32fast::hash(c));
                    at += n as u64;
                }
                assert!(sum != 1);
            })
        },
    );
    rows.push(mbps(
        "scan of all sessions by for_each (bare: pread 256 KiB + crc a 330 B)",
        scan,
        ">= 0.7",
    ));
    point_rows(&sessions, &file, size, bytes, rows);
    export_rows(s, &sessions, size, bytes, rows);
    assert!(events > 0);
}

fn point_rows(
    sessions: &[everlog::Session],
    file: &File,
    size: &Size,
    bytes: u64,
    rows: &mut Vec<Row>,
) {
    let mut rng = Rng::new(3);
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    let mut small = [0; 256];
    for _ in 0..size.points {
        let session = &sessions[rng.index(sessions.len())];
        let seq = rng.below(session.next_seq());
        let begun = Instant::now();
        assert!(session.with(seq, &mut |e| e.data.len()).unwrap() > 0);
        ours.push(begun.elapsed().as_nanos() as f64);
        let at = rng.below(bytes - 256);
        let begun = Instant::now();
        file.read_exact_at(&mut small, at).unwrap();
        bare.push(begun.elapsed().as_nanos() as f64);
    }
    rows.push(Row {
        work: "one event by (session, seq), raw (bare: pread of 256 B)",
        ours: format!(
            "p50 {:.0} ns, p99 {:.0} ns",
            quantile(&mut ours, 0.5),
            quantile(&mut ours, 0.99)
        ),
        bare: format!(
            "p50 {:.0} ns, p99 {:.0} ns",
            quantile(&mut bare, 0.5),
            quantile(&mut bare, 0.99)
        ),
        ratio: format!("{:.2} x", quantile(&mut ours, 0.5) / quantile(&mut bare, 0.5)),
        goal: "p50 <= 1 us",
    });
    let mut last = Vec::new();
    for session in sessions.iter().cycle().take(400) {
        last.push(timed(1, || assert!(session.last(50).map(Result::unwrap).count() > 0)));
    }
    rows.push(Row {
        work: "last 50 of a session",
        ours: format!("{:.0} us", median(last) / 1e3),
        bare: "-".into(),
        ratio: "-".into(),
        goal: "<= 100 us",
    });
}

fn export_rows(
    s: &Store,
    sessions: &[everlog::Session],
    size: &Size,
    bytes: u64,
    rows: &mut Vec<Row>,
) {
    let mut out = Vec::with_capacity(64 << 20);
    for (packed, work) in [
        (false, "export of JSONL, one core"),
        (true, "export of packed rows, one core (JSONL bytes it stands for)"),
    ] {
        let mut spent = Vec::new();
        for _ in 0..size.rounds {
            spent.push(timed(bytes, || {
                for session in sessions {
                    out.clear();
                    s.export_dsh(session.id(), packed, &mut out).unwrap();
                }
            }));
        }
        rows.push(Row {
            work,
            ours: format!("{:.0} MB/s", 1e3 / median(spent)),
            bare: "-".into(),
            ratio: "-".into(),
            goal: ">= 1000 MB/s",
        });
    }
}

fn open_rows(path: &Path, size: &Size, rows: &mut Vec<Row>) {
    let open = |rounds: usize| {
        let mut spent = Vec::new();
        for _ in 0..rounds {
            spent.push(timed(1, || {
                drop(Store::open(path, StoreOptions::default().with_read_only()).unwrap())
            }));
        }
        median(spent)
    };
    let clean = open(size.rounds * 3);
    rows.push(Row {
        work: "open after a clean close, this fleet",
        ours: format!("{:.1} ms", clean / 1e6),
        bare: "-".into(),
        ratio: "-".into(),
        goal: "<= 50 ms at 10 M events",
    });
    let mut shell = Vec::new();
    let id = everlog::SessionId::new("shell").unwrap();
    for i in 0..size.rounds * 3 {
        shell.push(timed(1, || {
            let s = Store::open(path, StoreOptions::default()).unwrap();
            let mut w = if i == 0 {
                s.create_session(&NewSession::new("shell").unwrap())
            } else {
                s.writer(&id)
            }
            .unwrap();
            let _receipt = w.append_batch(&[NewEvent::new("note", b"1")], Level::Sync).unwrap();
            w.close().unwrap();
            s.close().unwrap();
        }));
    }
    rows.push(Row {
        work: "open, take a session, append one at `sync`, close",
        ours: format!("{:.1} ms", median(shell) / 1e6),
        bare: "-".into(),
        ratio: "-".into(),
        goal: "<= 10 ms + its sync",
    });
    let mut killed = Vec::new();
    for _ in 0..size.rounds {
        let mut kid = Command::new(std::env::current_exe().unwrap())
            .arg("--child")
            .arg(path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(
            &mut std::io::BufReader::new(kid.stdout.take().unwrap()),
            &mut line,
        )
        .unwrap();
        kid.kill().unwrap();
        kid.wait().unwrap();
        killed.push(timed(1, || {
            let s = Store::open(path, StoreOptions::default()).unwrap();
            drop(s.writer(&id).unwrap());
        }));
    }
    rows.push(Row {
        work: "open and take the session over after kill -9",
        ours: format!("{:.1} ms", median(killed) / 1e6),
        bare: "-".into(),
        ratio: "-".into(),
        goal: "<= 60 ms at 10 M events",
    });
}

/// Writes until it is killed.
fn child(path: &Path) {
    let s = Store::open(path, StoreOptions::default()).unwrap();
    let mut w = s.writer(&everlog::SessionId::new("shell").unwrap()).unwrap();
    for i in 0u64.. {
        let _receipt =
            w.append_batch(&[NewEvent::new("note", b"{\"child\":true}")], Level::Os).unwrap();
        if i == 1_000 {
            println!("ready");
        }
    }
}
