//! One session handed round among processes that are killed at any moment.

use everlog::{ErrorKind, Level, NewSession, SessionId, Store, StoreOptions};
use everlog_testkit::rng::Rng;

use crate::acks::{Acks, append_said};
use crate::kid::{Kid, arg, number, options, pause, rng, say, scale};

/// In a child: takes the session again and again, appends, and lets go, or waits to be killed while it holds it.
pub fn pass() {
    let who = arg("who");
    let mut rng = Rng::new(number("seed"));
    let id = SessionId::new("s").unwrap();
    let open = || Store::open(arg("path"), options().with_lock_wait_ms(20)).unwrap();
    let mut store = open();
    let mut n = 0;
    loop {
        let mut w = match store.writer(&id) {
            Ok(w) => w,
            Err(e) if e.kind() == ErrorKind::Locked => {
                pause(rng.range(0, 3));
                continue;
            }
            Err(e) => {
                say(format_args!("failed {e:?}"));
                std::process::exit(1);
            }
        };
        let last = w.next_seq().checked_sub(1).map(|seq| w.read(seq).unwrap().data);
        let own = format!("\"who\":\"{who}\"");
        let other = last.is_some_and(|d| !String::from_utf8_lossy(&d).contains(&own));
        say(if other { "took over" } else { "took again" });
        for _ in 0..rng.range(1, 3) {
            let level = [Level::Os, Level::Os, Level::Sync][rng.index(3)];
            append_said(&mut w, &who, &mut n, &mut rng, level).unwrap();
        }
        match rng.index(8) {
            // Holds on for a while: likely to be killed.
            0 => pause(rng.range(5, 40)),
            1 => {
                // The store is closed with the session, and opened again.
                w.close().unwrap();
                drop(store);
                store = open();
                continue;
            }
            _ => {}
        }
        if rng.chance(1, 2) {
            w.close().unwrap();
        }
        pause(rng.range(0, 3));
    }
}

#[derive(Default)]
struct Tally {
    acks: Acks,
    overs: u64,
    kills: u64,
}

impl Tally {
    fn take(&mut self, lines: Vec<String>) {
        for line in lines {
            match line.as_str() {
                "took over" => self.overs += 1,
                "took again" => {}
                _ => assert!(self.acks.take(&line), "{line}"),
            }
        }
    }
}

#[test]
fn a_session_handed_round_under_kill_9_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Store::create(&path, StoreOptions::default()).unwrap();
    store.create_session(&NewSession::new("s").unwrap()).unwrap().close().unwrap();
    store.close().unwrap();
    let rounds = scale("ROUNDS", 60);
    let mut rng = rng(3);
    let mut born = 0;
    let mut start = |rng: &mut Rng| {
        born += 1;
        let shown = path.display();
        let seed = rng.next_u64();
        Kid::start("pass", &[("path", &shown), ("who", &format_args!("k{born}")), ("seed", &seed)])
    };
    let mut kids: Vec<Kid> = (0..8).map(|_| start(&mut rng)).collect();
    let mut tally = Tally::default();
    let begun = std::time::Instant::now();
    while tally.overs < rounds {
        pause(rng.range(1, 25));
        for kid in &kids {
            tally.take(kid.said());
        }
        let at = rng.index(kids.len());
        kids[at].kill();
        tally.kills += 1;
        tally.take(kids[at].rest());
        kids[at] = start(&mut rng);
        let limit = 60 + 2 * rounds;
        assert!(begun.elapsed().as_secs() < limit, "{} of {rounds} in {limit} s", tally.overs);
    }
    for mut kid in kids {
        kid.kill();
        tally.take(kid.rest());
    }
    let events = tally.acks.verify(&path).unwrap();
    // Whoever comes next goes on where the last one ended.
    let store = Store::open(&path, StoreOptions::default()).unwrap();
    let w = store.writer(&SessionId::new("s").unwrap()).unwrap();
    assert_eq!(w.next_seq(), events);
    drop(w);
    store.close().unwrap();
    assert_eq!(tally.acks.verify(&path).unwrap(), events);
    println!(
        "{} hand-overs, {} kills, {:.1} s: {} acked, {events} stored",
        tally.overs,
        tally.kills,
        begun.elapsed().as_secs_f64(),
        tally.acks.count()
    );
}
