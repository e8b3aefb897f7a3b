//! Readers that follow while the disk fails, lanes are recovered, sessions move and imports are published.

use everlog::{
    Cursor, ErrorKind, Follow, FollowOptions, ImportOptions, Level, SessionWriter, Store,
    StoreOptions, Subscription,
};
use everlog_testkit::sim::{Call, CrashPlan, FaultError, FaultPlan, Names, SimMachine, Survival};

use crate::kit::{create, event, id, note, open, process, session};

fn small() -> StoreOptions {
    StoreOptions::default().with_segment_bytes(256 << 10, 256 << 10).with_lock_wait_ms(5)
}

fn durable() -> FollowOptions {
    FollowOptions { durable: true, ..FollowOptions::default() }
}

fn seqs(follow: &mut Follow) -> Vec<u64> {
    std::iter::from_fn(|| follow.try_next().unwrap()).map(|e| e.seq).collect()
}

fn given(all: &mut Subscription) -> Vec<(String, u64)> {
    std::iter::from_fn(|| all.try_next().unwrap())
        .map(|e| (e.session.as_str().unwrap().to_owned(), e.event.seq))
        .collect()
}

fn append(w: &mut SessionWriter, n: usize, level: Level) {
    let _ = w.append_batch(&[event(&note(n, 100))], level).unwrap();
}

#[test]
fn a_session_is_followed_through_lanes_deaths_and_rotations() {
    let machine = SimMachine::new(1);
    let (maker, store) = create(&machine, small());
    let reader = open(&process(&machine, "reader"), small().with_read_only());
    let mut all = reader.subscribe(&Cursor::default(), FollowOptions::default()).unwrap();
    let w = session(&store, "s");
    reader.refresh().unwrap();
    let mut follow = reader.session(&id("s")).unwrap().follow(0, FollowOptions::default()).unwrap();
    w.close().unwrap();
    let (mut want, mut seen, mut procs, mut stores) = (0, Vec::new(), vec![maker], vec![store]);
    for round in 0..12 {
        // Every third writer is killed; the others live on with their lanes.
        let mut w = stores.last().unwrap().writer(&id("s")).unwrap();
        for n in 0..40 {
            let _ = w.append_batch(&[event(&note(n, 9_000))], Level::Os).unwrap();
            want += 1;
            if n % 13 == round {
                seen.extend(follow.try_next().unwrap().map(|e| e.seq));
            }
        }
        if round % 3 == 2 {
            machine.kill(procs.last().unwrap());
        } else {
            w.close().unwrap();
        }
        let p = process(&machine, &format!("w{round}"));
        stores.push(open(&p, small()));
        procs.push(p);
    }
    seen.extend(seqs(&mut follow));
    assert_eq!(seen, (0..want).collect::<Vec<u64>>());
    let events = given(&mut all);
    let expected: Vec<(String, u64)> = (0..want).map(|n| ("s".to_owned(), n)).collect();
    assert_eq!(events, expected);
    let again = reader.subscribe(&all.cursor(), FollowOptions::default()).unwrap();
    assert!(again.cursor().to_string().len() < 400);
}

#[test]
fn what_a_durable_follower_gave_survives_every_power_cut() {
    let machine = SimMachine::new(2);
    let (_p, store) = create(&machine, small());
    let reader = open(&process(&machine, "reader"), small().with_read_only());
    let mut w = session(&store, "s");
    reader.refresh().unwrap();
    let mut follow = reader.session(&id("s")).unwrap().follow(0, durable()).unwrap();
    let mut all = reader.subscribe(&Cursor::default(), durable()).unwrap();
    let mut own = w.follow(0, durable()).unwrap();
    let (mut count, mut by_all, mut by_own) = (0, 0, 0);
    for n in 0..60 {
        let level = if n % 7 == 6 { Level::Sync } else { Level::Os };
        append(&mut w, n, level);
        count += seqs(&mut follow).len() as u64;
        by_all += given(&mut all).len() as u64;
        by_own += seqs(&mut own).len() as u64;
        assert!(count <= by_own && by_own <= n as u64 + 1, "{n}: {count} {by_own}");
        assert_eq!(by_all, count, "{n}");
        for plan in
            [CrashPlan::nothing(), CrashPlan::new(n as u64, Survival::Subset, Names::Subset)]
        {
            let after = machine.power_loss(&plan);
            let store = open(&process(&after, "after"), small());
            let found = store.session(&id("s")).map_or(0, |s| s.next_seq());
            assert!(found >= by_own, "{n} {plan:?}: {found} of {by_own}");
            // The cursor of what is durable is never void.
            store.subscribe(&all.cursor(), durable()).unwrap();
            if by_own > 0 {
                let w = store.writer(&id("s")).unwrap();
                assert!(w.next_seq() >= by_own, "{n} {plan:?}");
            }
        }
    }
    assert!(by_own == 56 && count >= 49, "{by_own} {count}");
    // A quiet lane says so by itself.
    store.sync().unwrap();
    store.upkeep().unwrap();
    count += seqs(&mut follow).len() as u64;
    assert_eq!(count, 60);
}

/// A failed sync takes back what was at `os`: whoever was given that is told so, and who was not goes on without a gap.
#[test]
fn what_a_failed_sync_took_back_ends_a_follower() {
    let mut voids = 0;
    for seed in 0..12 {
        let machine = SimMachine::new(seed);
        let (p, store) = create(&machine, small());
        let mut w = session(&store, "s");
        append(&mut w, 0, Level::Sync);
        let reader = open(&process(&machine, "reader"), small().with_read_only());
        let follow_from =
            |from, options| reader.session(&id("s")).unwrap().follow(from, options).unwrap();
        let (mut eager, mut safe) =
            (follow_from(0, FollowOptions::default()), follow_from(0, durable()));
        let mut all = reader.subscribe(&Cursor::default(), FollowOptions::default()).unwrap();
        for n in 1..20 {
            append(&mut w, n, Level::Os);
        }
        assert_eq!(seqs(&mut eager).len(), 20);
        assert_eq!(given(&mut all).len(), 20);
        let mut kept = seqs(&mut safe);
        machine.fail(FaultPlan::new(&[Call::SyncData], 1, FaultError::Io).only(&p));
        store.sync().unwrap_err();
        machine.clear_faults();
        machine.kill(&p);
        drop(w);
        drop(store);
        if seed % 2 == 1 {
            // Bytes that never reached the disk are read from there.
            machine.drop_caches();
        }
        let second = open(&process(&machine, "second"), small());
        let mut w = second.writer(&id("s")).unwrap();
        let held = w.next_seq();
        for n in 0..5 {
            append(&mut w, 100 + n, Level::Sync);
        }
        append(&mut w, 200, Level::Sync);
        let cursor = all.cursor();
        match eager.try_next() {
            Ok(Some(e)) => assert!(held == 20 && e.seq == 20, "seed {seed}: {held} {}", e.seq),
            Err(e) if e.kind() == ErrorKind::Void => {
                assert!(held < 20, "seed {seed}: {held}");
                assert_eq!(eager.try_next().unwrap_err().kind(), ErrorKind::Void);
                assert_eq!(all.try_next().unwrap_err().kind(), ErrorKind::Void);
                let again = second.subscribe(&cursor, FollowOptions::default()).map(drop);
                assert_eq!(again.unwrap_err().kind(), ErrorKind::Void);
                voids += 1;
            }
            other => panic!("seed {seed}: {other:?}"),
        }
        kept.extend(seqs(&mut safe));
        let end = kept.len() as u64;
        assert_eq!(kept, (0..end).collect::<Vec<_>>(), "seed {seed}");
        assert!(end >= held + 5, "seed {seed}: {end} of {held}");
        let fresh = seqs(&mut follow_from(0, FollowOptions::default()));
        assert_eq!(fresh, (0..held + 6).collect::<Vec<_>>(), "seed {seed}");
    }
    println!("{voids} of 12 failed syncs took something back");
    assert!((1..12).contains(&voids), "both ends are to be seen");
}

#[test]
fn an_own_failure_ends_a_follower_of_what_was_not_durable() {
    let machine = SimMachine::new(3);
    let (p, store) = create(&machine, small());
    let mut w = session(&store, "s");
    append(&mut w, 0, Level::Sync);
    let (mut eager, mut safe) =
        (w.follow(0, FollowOptions::default()).unwrap(), w.follow(0, durable()).unwrap());
    append(&mut w, 1, Level::Buffered);
    assert_eq!(seqs(&mut eager), [0, 1]);
    assert_eq!(seqs(&mut safe), [0]);
    machine.fail(FaultPlan::new(&[Call::SyncData], 1, FaultError::Io).only(&p));
    store.sync().unwrap_err();
    let err = eager.try_next().unwrap_err();
    assert_eq!((err.kind(), err.seq(), err.expected()), (ErrorKind::Void, Some(1), Some(1)));
    assert!(eager.next().is_none());
    assert!(seqs(&mut safe).is_empty());
}

fn log(name: &str, events: usize) -> String {
    let mut text = format!(
        "{{\"type\":\"session\",\"version\":0,\"id\":\"{name}\",\"createdAt\":1,\"delegationDepth\":0}}\n"
    );
    for n in 0..events {
        text += &format!(
            "{{\"type\":\"turn/start\",\"seq\":{n},\"time\":2,\"data\":{{\"turn\":{n}}}}}\n"
        );
    }
    text
}

fn import(store: &Store, name: &str, events: usize, tell: &mut dyn FnMut()) {
    // Told once the last byte was read, before the import is published.
    let text = log(name, events);
    let all = text.len() as u64;
    let mut told = false;
    let mut seen = |read: u64| {
        if read == all && !std::mem::replace(&mut told, true) {
            tell();
        }
        true
    };
    store.import_dsh(text.as_bytes(), &ImportOptions::default(), &mut seen).unwrap();
}

#[test]
fn an_import_is_given_once_as_a_whole_and_in_order() {
    let machine = SimMachine::new(4);
    let (_p, store) = create(&machine, small());
    let reader = open(&process(&machine, "reader"), small().with_read_only());
    let mut all = reader.subscribe(&Cursor::default(), FollowOptions::default()).unwrap();
    let mut w = session(&store, "w");
    append(&mut w, 0, Level::Os);
    assert_eq!(given(&mut all), [("w".to_owned(), 0)]);
    import(&store, "i", 50, &mut || {
        append(&mut w, 1, Level::Os);
        assert_eq!(given(&mut all), [("w".to_owned(), 1)]);
    });
    append(&mut w, 2, Level::Os);
    // Another lane goes on with the imported session.
    let second = open(&process(&machine, "second"), small());
    let mut i = second.writer(&id("i")).unwrap();
    append(&mut i, 50, Level::Os);
    let want: Vec<(String, u64)> = (0..50).map(|n| ("i".to_owned(), n)).collect();
    // From each place in the import a cursor goes on at the next event.
    let mut cursors = Vec::new();
    let mut got = Vec::new();
    while let Some(e) = all.try_next().unwrap() {
        got.push((e.session.as_str().unwrap().to_owned(), e.event.seq));
        cursors.push(all.cursor().to_string().parse::<Cursor>().unwrap());
    }
    assert_eq!(got[..50], want);
    assert_eq!(got.len(), 52);
    for (at, cursor) in cursors.iter().enumerate() {
        let mut rest = reader.subscribe(cursor, FollowOptions::default()).unwrap();
        let mut rest = given(&mut rest);
        let mut expected = got[at + 1..].to_vec();
        // Between lanes the order is that of the looks.
        rest.sort();
        expected.sort();
        assert_eq!(rest, expected, "behind {:?}", got[at]);
    }
    let mut late = reader.subscribe(&reader.cursor().unwrap(), durable()).unwrap();
    assert!(given(&mut late).is_empty());
    let mut fresh = store.subscribe(&Cursor::default(), FollowOptions::default()).unwrap();
    let mut per_session: Vec<_> = given(&mut fresh).into_iter().filter(|(s, _)| s == "i").collect();
    assert_eq!(per_session.pop(), Some(("i".to_owned(), 50)));
    assert_eq!(per_session, want);
}

#[test]
fn new_lanes_and_sessions_appear_and_closed_handles_read_on() {
    let machine = SimMachine::new(5);
    let (_p, store) = create(&machine, small());
    let mut w = session(&store, "a");
    append(&mut w, 0, Level::Os);
    let mut follow = w.follow(0, FollowOptions::default()).unwrap();
    let mut all = store.subscribe(&Cursor::default(), durable()).unwrap();
    assert!(given(&mut all).is_empty());
    w.close().unwrap();
    store.close().unwrap();
    assert_eq!(given(&mut all), [("a".to_owned(), 0)]);
    // The next writer takes the lane that the closed handle had.
    let second = open(&process(&machine, "second"), small());
    let mut w = second.writer(&id("a")).unwrap();
    append(&mut w, 1, Level::Sync);
    let mut b = session(&second, "b");
    append(&mut b, 0, Level::Sync);
    assert_eq!(w.event_id(1).unwrap().lane, 0);
    assert_eq!(seqs(&mut follow), [0, 1]);
    second.upkeep().unwrap();
    assert_eq!(given(&mut all), [("a".to_owned(), 1), ("b".to_owned(), 0)]);
}

/// Events that were never synced are gone after a power cut, without a trace, and others take their places.
#[test]
fn a_cursor_of_what_a_power_cut_took_is_void() {
    let machine = SimMachine::new(6);
    let (_p, store) = create(&machine, small());
    let mut w = session(&store, "s");
    append(&mut w, 0, Level::Sync);
    let mut safe = store.subscribe(&Cursor::default(), durable()).unwrap();
    let mut eager = store.subscribe(&Cursor::default(), FollowOptions::default()).unwrap();
    for n in 1..6 {
        append(&mut w, n, Level::Os);
    }
    assert_eq!((given(&mut safe).len(), given(&mut eager).len()), (1, 6));
    let end = store.cursor().unwrap();
    assert_eq!(end, eager.cursor());
    let after = machine.power_loss(&CrashPlan::nothing());
    let store = open(&process(&after, "after"), small());
    let mut w = store.writer(&id("s")).unwrap();
    let void = |cursor: &Cursor| store.subscribe(cursor, durable()).map(drop).map_err(|e| e.kind());
    assert_eq!(void(&end), Err(ErrorKind::Void), "the log is shorter");
    for n in 0..10 {
        append(&mut w, 100 + n, Level::Sync);
    }
    assert_eq!(void(&end), Err(ErrorKind::Void), "other events have those places");
    let mut rest = store.subscribe(&safe.cursor(), durable()).unwrap();
    let want: Vec<(String, u64)> = (1..11).map(|n| ("s".to_owned(), n)).collect();
    assert_eq!(given(&mut rest), want);
}
