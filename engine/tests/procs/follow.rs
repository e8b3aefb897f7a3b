//! Readers in processes of their own that follow sessions while sixteen processes write them, are killed, and are
//! followed by others; readers that are stopped for a while, and readers that are killed and go on from a cursor.
//!
//! `SECONDS`: how long writers write. `PACE_US`: pause between two appends of a writer, in microseconds.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use everlog::{
    Cursor, Event, FollowOptions, Level, NewEvent, NewSession, SessionId, Store, StoreOptions,
};
use everlog_testkit::rng::Rng;

use crate::acks::{clean, digest};
use crate::kid::{Kid, arg, hear, number, options, pause, rng, say, scale};

const SESSIONS: u64 = 16;

fn now_us() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(now.as_micros()).unwrap()
}

fn name(k: u64) -> String {
    format!("s{k}")
}

fn id(name: &str) -> SessionId {
    SessionId::new(name).unwrap()
}

/// In a child: goes on with a session until it is killed or the time is over; every event says when its append began.
pub fn stream() {
    let quick = options().with_segment_bytes(256 << 10, 256 << 10);
    let store = Store::open(arg("path"), quick).unwrap();
    let session = id(&arg("session"));
    let mut w = store.writer(&session).unwrap();
    let (mut rng, pace, pad) = (Rng::new(number("seed")), number("pace"), number("pad"));
    say("ready");
    assert_eq!(hear(), "go");
    let until = Instant::now() + Duration::from_secs(number("seconds"));
    while Instant::now() < until {
        let data: Vec<Vec<u8>> = (0..rng.range(1, 3))
            .map(|_| {
                let fill = "x".repeat(rng.index(2 * pad as usize + 1));
                format!("{{\"t\":{},\"pad\":\"{fill}\"}}", now_us()).into_bytes()
            })
            .collect();
        let events: Vec<NewEvent<'_>> = data.iter().map(|d| NewEvent::new("note", d)).collect();
        let level = if rng.chance(1, 40) { Level::Sync } else { Level::Os };
        let _receipt = w.append_batch(&events, level).unwrap();
        if pace > 0 {
            std::thread::sleep(Duration::from_micros(rng.range(pace / 2, pace + pace / 2)));
        }
    }
    w.close().unwrap();
    store.close().unwrap();
    say("done");
}

/// What a reader saw of a session.
#[derive(Clone, Copy, Default)]
struct Seen {
    next: u64,
    digest: u64,
}

impl Seen {
    /// Takes the next event, which must be the next one.
    fn take(&mut self, session: &str, event: &Event) {
        if event.seq != self.next {
            say(format_args!("gap {session} {} {}", self.next, event.seq));
            std::process::exit(7);
        }
        self.next += 1;
        self.digest = self.digest.rotate_left(5) ^ digest(&event.event_type, &event.data);
    }
}

/// Microseconds from the append to here.
fn age_us(event: &Event) -> u64 {
    let text = std::str::from_utf8(&event.data).unwrap();
    let digits: String = text["{\"t\":".len()..].chars().take_while(char::is_ascii_digit).collect();
    now_us().saturating_sub(digits.parse().unwrap())
}

/// Anonymous memory of this process now, in KiB.
fn anon_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Processor time of this process so far, in milliseconds.
fn cpu_ms() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    // Ticks of 10 ms.
    10 * (fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap())
}

/// In a child: follows all sessions of the store until it is told how many events each has in the end. `how`: `all`, by one
/// subscription; `each`, by a follower a session, each with a thread; `durable`, so, but what is durable only.
pub fn follow() {
    let store = Store::open(arg("path"), options().with_read_only()).unwrap();
    let how = arg("how");
    let (send, events) = std::sync::mpsc::sync_channel::<(String, Event, u64)>(1_000);
    if how == "all" {
        let all = store.subscribe(&arg("cursor").parse().unwrap(), Default::default()).unwrap();
        std::thread::spawn(move || {
            for given in all {
                let given = given.unwrap();
                let age = age_us(&given.event);
                let name = given.session.as_str().unwrap().to_owned();
                if send.send((name, given.event, age)).is_err() {
                    return;
                }
            }
        });
    } else {
        let options = FollowOptions { durable: how == "durable", ..FollowOptions::default() };
        for k in 0..number("sessions") {
            let session = store.session(&id(&name(k))).unwrap();
            let (send, follow) = (send.clone(), session.follow(0, options).unwrap());
            std::thread::spawn(move || {
                for event in follow {
                    let event = event.unwrap();
                    let age = age_us(&event);
                    if send.send((name(k), event, age)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(send);
    }
    say("ready");
    let goal = std::thread::spawn(goal);
    let (mut seen, mut ages, mut memory) = (BTreeMap::<String, Seen>::new(), Vec::new(), 0);
    let mut wanted: Option<BTreeMap<String, u64>> = None;
    let mut goal = Some(goal);
    let reached = |seen: &BTreeMap<String, Seen>, wanted: &BTreeMap<String, u64>| {
        wanted.iter().all(|(s, n)| seen.get(s).map_or(0, |s| s.next) >= *n)
    };
    loop {
        if let Ok((session, event, age)) = events.recv_timeout(Duration::from_millis(20)) {
            seen.entry(session.clone()).or_default().take(&session, &event);
            ages.push(age);
            if ages.len() % 500 == 0 {
                memory = memory.max(anon_kib());
            }
        }
        if goal.as_ref().is_some_and(|g| g.is_finished()) {
            wanted = goal.take().map(|g| g.join().unwrap());
        }
        if wanted.as_ref().is_some_and(|w| reached(&seen, w)) {
            break;
        }
    }
    ages.sort_unstable();
    let at = |part: f64| ages.get((ages.len() as f64 * part) as usize).copied().unwrap_or(0);
    let (p50, p99, most) = (at(0.5), at(0.99), ages.last().copied().unwrap_or(0));
    say(format_args!("ages {p50} {p99} {most} {} {memory} {}", ages.len(), cpu_ms()));
    for (session, s) in seen {
        say(format_args!("saw {session} {} {}", s.next, s.digest));
    }
    say("end");
}

/// In a child: the events of each session in the end.
fn goal() -> BTreeMap<String, u64> {
    let mut out = BTreeMap::new();
    loop {
        let line = hear();
        match line.split_once(' ') {
            Some((session, n)) => out.insert(session.to_owned(), n.parse().unwrap()),
            None => return out,
        };
    }
}

/// The store in the end: events and digest of each session.
fn truth(path: &Path) -> BTreeMap<String, Seen> {
    let store = Store::open(path, StoreOptions::default().with_read_only()).unwrap();
    let mut out = BTreeMap::new();
    for session in store.find_sessions(b"s") {
        let name = session.as_str().unwrap().to_owned();
        let mut seen = Seen::default();
        for event in store.session(&session).unwrap().iter() {
            seen.take(&name, &event.unwrap());
        }
        out.insert(name, seen);
    }
    clean(&store).unwrap();
    out
}

fn start_reader(path: &Path, how: &str, plant: Option<&str>, sessions: u64) -> Kid {
    let (shown, start) = (path.display(), Cursor::default());
    let args: [(&str, &dyn std::fmt::Display); 4] =
        [("path", &shown), ("how", &how), ("cursor", &start), ("sessions", &sessions)];
    let kid = Kid::start_planted("follow", plant, &args);
    kid.expect("ready");
    kid
}

fn start_writer(path: &Path, session: &str, seed: u64, pace: u64, pad: u64, seconds: u64) -> Kid {
    let shown = path.display();
    let mut kid = Kid::start(
        "stream",
        &[
            ("path", &shown),
            ("session", &session),
            ("seed", &seed),
            ("pace", &pace),
            ("pad", &pad),
            ("seconds", &seconds),
        ],
    );
    kid.expect("ready");
    kid.tell("go");
    kid
}

fn new_store(path: &Path, sessions: u64) {
    // Segments of a lane keep their size.
    let small = StoreOptions::default().with_segment_bytes(256 << 10, 256 << 10);
    let store = Store::create(path, small).unwrap();
    for k in 0..sessions {
        store.create_session(&NewSession::new(&name(k)).unwrap()).unwrap().close().unwrap();
    }
    store.close().unwrap();
}

/// Tells a reader the end, and compares what it saw with the store. Gives its line of figures.
fn finish(reader: &mut Kid, truth: &BTreeMap<String, Seen>) -> Result<Vec<u64>, String> {
    if let Some(gap) = reader.said().into_iter().find(|line| line.starts_with("gap")) {
        return Err(gap);
    }
    for (session, s) in truth {
        reader.tell(&format!("{session} {}", s.next));
    }
    reader.tell("end");
    let (mut figures, mut compared) = (Vec::new(), 0);
    loop {
        let line = reader.line();
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["end"] => break,
            ["ages", ..] => figures = words[1..].iter().map(|w| w.parse().unwrap()).collect(),
            ["saw", session, next, digest] => {
                let want = truth[session];
                if (next, digest) != (&*want.next.to_string(), &*want.digest.to_string()) {
                    return Err(format!("{session}: {next} events seen of {}", want.next));
                }
                compared += 1;
            }
            _ => return Err(line),
        }
    }
    let with_events = truth.values().filter(|s| s.next > 0).count();
    if compared < with_events {
        return Err(format!("{compared} of {with_events} sessions were seen"));
    }
    Ok(figures)
}

#[test]
fn four_readers_follow_sixteen_writers_that_are_killed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    new_store(&path, SESSIONS);
    let (seconds, pace) = (scale("SECONDS", 2), scale("PACE_US", 20_000));
    let mut rng = rng(11);
    let kinds = ["all", "all", "each", "durable"];
    let mut readers: Vec<Kid> =
        kinds.iter().map(|how| start_reader(&path, how, None, SESSIONS)).collect();
    let mut start =
        |k: usize| start_writer(&path, &name(k as u64), rng.next_u64(), pace, 100, seconds);
    let mut writers: Vec<Kid> = (0..SESSIONS as usize).map(&mut start).collect();
    let (until, mut kills) = (Instant::now() + Duration::from_secs(seconds), 0);
    while Instant::now() < until {
        pause(150);
        let k = kills % writers.len();
        writers[k].kill();
        kills += 1;
        // Another process goes on with the session.
        writers[k] = start(k);
    }
    for writer in &mut writers {
        assert_eq!(writer.rest().last().map(String::as_str), Some("done"));
        assert!(writer.wait().success());
    }
    let truth = truth(&path);
    let events: u64 = truth.values().map(|s| s.next).sum();
    println!("{SESSIONS} writers, {kills} of them killed, {seconds} s, {events} events");
    for (reader, how) in readers.iter_mut().zip(kinds) {
        let f = finish(reader, &truth).unwrap_or_else(|e| panic!("{how}: {e}"));
        let ms = |us: u64| us as f64 / 1e3;
        println!(
            "  {how:8} latency ms: p50 {:.2} p99 {:.2} most {:.1}; {} KiB, {} ms of processor",
            ms(f[0]),
            ms(f[1]),
            ms(f[2]),
            f[4],
            f[5]
        );
        assert_eq!(f[3], events);
    }
}

/// Readers are stopped while a writer fills many segments; they go on where they were.
fn starved(how: &str, plant: Option<&str>) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    new_store(&path, 1);
    let mut reader = start_reader(&path, how, plant, 1);
    let writer = start_writer(&path, &name(0), 5, 300, 2_000, 3);
    pause(500);
    reader.stop();
    pause(1_500);
    reader.go_on();
    assert_eq!(writer.rest().last().map(String::as_str), Some("done"));
    let truth = truth(&path);
    let figures = finish(&mut reader, &truth)?;
    let segments = std::fs::read_dir(path.join("lanes/0000")).unwrap().count();
    println!("{how}: {} events in {segments} files, {} KiB in memory", figures[3], figures[4]);
    assert!(segments > 6, "{segments} files are no test");
    assert!(figures[4] < 64 << 10, "{} KiB", figures[4]);
    Ok(())
}

#[test]
fn a_starved_follower_goes_on_without_a_gap() {
    starved("each", None).unwrap();
    starved("all", None).unwrap();
}

#[cfg(feature = "planted")]
#[test]
fn planted_follow_skips_rotation_is_found() {
    for how in ["each", "all"] {
        let found = starved(how, Some("FollowSkipsRotation")).unwrap_err();
        println!("planted FollowSkipsRotation, {how}: {found}");
        assert!(found.starts_with("gap s0"), "{found}");
    }
}

/// In a child: prints every event with the cursor behind it, until it is killed.
pub fn log() {
    let store = Store::open(arg("path"), options().with_read_only()).unwrap();
    let mut all = store.subscribe(&arg("cursor").parse().unwrap(), Default::default()).unwrap();
    while let Some(given) = all.next() {
        let given = given.unwrap();
        let d = digest(&given.event.event_type, &given.event.data);
        say(format_args!("at {} {} {d} {}", given.session, given.event.seq, all.cursor()));
    }
}

#[test]
fn a_killed_reader_goes_on_from_its_cursor() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    new_store(&path, 4);
    let mut rng = rng(12);
    let mut writers: Vec<Kid> =
        (0..4).map(|k| start_writer(&path, &name(k), k, 2_000, 100, 3)).collect();
    let shown = path.display();
    let start = |cursor: &str| Kid::start("log", &[("path", &shown), ("cursor", &cursor)]);
    let (mut cursor, mut rounds) = (Cursor::default().to_string(), 0);
    let mut seen = BTreeMap::<String, Seen>::new();
    let mut take = |lines: Vec<String>, cursor: &mut String| {
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            let ["at", session, seq, d, after] = words[..] else { panic!("{line}") };
            let s = seen.entry(session.to_owned()).or_default();
            assert_eq!(seq.parse::<u64>().unwrap(), s.next, "{session}");
            s.next += 1;
            s.digest = s.digest.rotate_left(5) ^ d.parse::<u64>().unwrap();
            after.clone_into(cursor);
        }
        seen.clone()
    };
    let mut reader = start(&cursor);
    let mut done = false;
    let mut killed = 0;
    while killed < 8 || !done {
        pause(rng.range(100, 400));
        if writers[0].said().iter().any(|l| l == "done") {
            done = true;
        }
        // A writer dies as well, and another goes on.
        if rounds == 3 {
            writers[1].kill();
            writers[1] = start_writer(&path, &name(1), 77, 2_000, 100, 2);
        }
        rounds += 1;
        reader.kill();
        take(reader.rest(), &mut cursor);
        reader = start(&cursor);
        killed += 1;
    }
    for writer in &mut writers {
        assert!(writer.wait().success());
    }
    let truth = truth(&path);
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let seen = take(reader.said(), &mut cursor);
        if truth.iter().all(|(s, t)| seen.get(s).is_some_and(|x| x.next == t.next)) {
            for (session, t) in &truth {
                assert_eq!(seen[session].digest, t.digest, "{session}");
            }
            break;
        }
        assert!(Instant::now() < until, "the reader does not come to the end");
        pause(20);
    }
    let events: u64 = truth.values().map(|s| s.next).sum();
    println!("reader killed {killed} times, {events} events, cursor of {} bytes", cursor.len());
}

/// In a child: follows a quiet store for a while and says what that took.
pub fn idle() {
    let store = Store::open(arg("path"), options().with_read_only()).unwrap();
    let mut all = store.subscribe(&store.cursor().unwrap(), Default::default()).unwrap();
    // The first second is spent on coming to rest.
    assert!(all.next_timeout(Duration::from_secs(1)).unwrap().is_none());
    let before = cpu_ms();
    assert!(all.next_timeout(Duration::from_secs(number("seconds"))).unwrap().is_none());
    say(format_args!("used {}", cpu_ms() - before));
}

#[test]
fn an_idle_follower_costs_next_to_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    new_store(&path, 1);
    let stores: Vec<Store> = (0..16)
        .map(|k| {
            let store = Store::open(&path, StoreOptions::default()).unwrap();
            let new = NewSession::new(&format!("t{k}")).unwrap();
            store.create_session(&new).unwrap().close().unwrap();
            store
        })
        .collect();
    let seconds = scale("SECONDS", 2);
    let kid = Kid::start("idle", &[("path", &path.display()), ("seconds", &seconds)]);
    let used: u64 = kid.expect("used").parse().unwrap();
    let part = used as f64 / (seconds as f64 * 10.0);
    println!("idle follower of {} lanes: {used} ms in {seconds} s, {part:.1} %", stores.len());
    assert!(part < 10.0, "{part} % of a processor");
}
