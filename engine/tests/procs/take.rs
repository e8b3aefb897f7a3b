//! Taking over from a writer that is starved or dead, and from one that died while it took over.

use std::time::{Duration, Instant};

use everlog::{ErrorKind, Level, NewSession, SessionId, Store, StoreOptions};
use everlog_testkit::rng::Rng;

use crate::acks::{Acks, append_said};
use crate::kid::{Kid, arg, hear, number, options, pause, rng, say, scale};

/// In a child: takes the session when it is told to, appends, and waits with it.
pub fn take() {
    let store = Store::open(arg("path"), options()).unwrap();
    // A lane of its own, so that a take-over crosses lanes.
    let own = NewSession::new(&format!("own-{}", std::process::id())).unwrap();
    let _own = store.create_session(&own).unwrap();
    say("ready");
    assert_eq!(hear(), "go");
    let mut w = store.writer(&SessionId::new("s").unwrap()).unwrap();
    let mut rng = Rng::new(number("seed"));
    let who = format!("t{}", std::process::id());
    for _ in 0..rng.range(1, 4) {
        append_said(&mut w, &who, &mut 0, &mut rng, Level::Os).unwrap();
    }
    say("took");
    hear();
}

fn acked(kid: &Kid, end: &str, acks: &mut Acks) {
    loop {
        let line = kid.line();
        if line == end {
            return;
        }
        assert!(acks.take(&line), "{line}");
    }
}

fn id() -> SessionId {
    SessionId::new("s").unwrap()
}

#[test]
fn a_starved_holder_keeps_its_session_and_a_killed_one_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let wait_ms = 300;
    let options = StoreOptions::default().with_lock_wait_ms(wait_ms);
    let store = Store::create(&path, options).unwrap();
    let mut holder = Kid::start("hold", &[("path", &path.display()), ("label", &"")]);
    let mut acks = Acks::default();
    acked(&holder, "held", &mut acks);
    holder.stop();
    let begun = Instant::now();
    let err = store.writer(&id()).map(drop).or_else(|e| {
        if e.kind() == ErrorKind::NotFound {
            store.refresh()?;
            return store.writer(&id()).map(drop);
        }
        Err(e)
    });
    assert_eq!(err.unwrap_err().kind(), ErrorKind::Locked);
    assert!(begun.elapsed() < Duration::from_millis(wait_ms + 5_000), "{:?}", begun.elapsed());
    holder.go_on();
    // It was only slow: it goes on writing.
    holder.tell("again");
    while !acks.take(&holder.line()) {}
    holder.kill();
    for line in holder.rest() {
        acks.take(&line);
    }
    let w = store.writer(&id()).unwrap();
    assert!(w.next_seq() >= acks.count());
    drop(w);
    store.close().unwrap();
    acks.verify(&path).unwrap();
}

#[test]
fn a_session_let_go_is_taken_although_its_last_writer_is_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Store::create(&path, StoreOptions::default()).unwrap();
    let mut holder = Kid::start("hold", &[("path", &path.display()), ("label", &"")]);
    let mut acks = Acks::default();
    acked(&holder, "held", &mut acks);
    holder.tell("let go");
    holder.expect("closed");
    holder.stop();
    let begun = Instant::now();
    let w = store.writer(&id()).unwrap();
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!(w.next_seq(), acks.count());
    drop(w);
    store.close().unwrap();
    acks.verify(&path).unwrap();
}

#[test]
fn a_take_over_killed_in_the_middle_is_taken_over_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Store::create(&path, StoreOptions::default()).unwrap();
    store.create_session(&NewSession::new("s").unwrap()).unwrap().close().unwrap();
    store.close().unwrap();
    let rounds = scale("ROUNDS", 60) / 5;
    let mut rng = rng(6);
    let mut acks = Acks::default();
    let mut whole = 0;
    let start = |rng: &mut Rng| {
        let kid = Kid::start("take", &[("path", &path.display()), ("seed", &rng.next_u64())]);
        kid.expect("ready");
        kid
    };
    for _ in 0..rounds {
        let mut holder = start(&mut rng);
        let mut taker = start(&mut rng);
        holder.tell("go");
        acked(&holder, "took", &mut acks);
        holder.kill();
        taker.tell("go");
        // Most kills come while it takes over, some before, some after.
        let most = [300, 1_500, 6_000][rng.index(3)];
        std::thread::sleep(Duration::from_micros(rng.below(most)));
        taker.kill();
        for line in taker.rest() {
            whole += u64::from(line == "took");
            assert!(line == "took" || acks.take(&line), "{line}");
        }
    }
    let events = acks.verify(&path).unwrap();
    println!(
        "{rounds} take-overs killed ({whole} after their end): {} acked, {events} stored",
        acks.count()
    );
}

/// A session of a killed process is taken by one with another lane. Its last event must be proved durable first: the
/// dead lane is recovered, and says so.
fn taken_from_the_dead(plant: Option<&str>) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Store::create(&path, StoreOptions::default()).unwrap();
    let mut taker = Kid::start_planted("take", plant, &[("path", &path.display()), ("seed", &7)]);
    taker.expect("ready");
    let mut holder = Kid::start("hold", &[("path", &path.display()), ("label", &"")]);
    let mut acks = Acks::default();
    acked(&holder, "held", &mut acks);
    holder.kill();
    taker.tell("go");
    acked(&taker, "took", &mut acks);
    taker.tell("end");
    if !taker.wait().success() {
        return Err("the taker failed".to_owned());
    }
    acks.verify(&path)?;
    store.refresh().unwrap();
    // Lane 0 is the taker's, lane 1 the dead holder's.
    let found = store.recoveries().unwrap();
    match found.iter().any(|line| line.contains("\"lane\":1")) {
        true => Ok(()),
        false => Err(format!("the lane of the dead was not recovered: {found:?}")),
    }
}

#[test]
fn the_lane_of_a_dead_writer_is_recovered_before_its_session_goes_on() {
    taken_from_the_dead(None).unwrap();
}

#[cfg(feature = "planted")]
#[test]
fn planted_dead_lane_not_recovered_is_found() {
    let why = taken_from_the_dead(Some("DeadLaneNotRecovered")).unwrap_err();
    assert!(why.contains("not recovered"), "{why}");
}

#[test]
fn a_killed_writers_session_is_free_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    Store::create(&path, StoreOptions::default()).unwrap();
    let mut holder = Kid::start("hold", &[("path", &path.display()), ("label", &"")]);
    let mut acks = Acks::default();
    acked(&holder, "held", &mut acks);
    holder.kill();
    pause(1);
    let begun = Instant::now();
    let store = Store::open(&path, StoreOptions::default()).unwrap();
    let w = store.writer(&id()).unwrap();
    assert_eq!(w.next_seq(), acks.count());
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(2), "{took:?}");
    println!("opened and taken over after kill -9 in {:.1} ms", took.as_secs_f64() * 1e3);
}
