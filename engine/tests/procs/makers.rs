//! Many who make one store, or one session, at once: one of them wins.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use everlog::{ErrorKind, NewSession, Store, StoreOptions};

use crate::acks::clean;
use crate::kid::{Kid, arg, hear, number, options, say};

/// In a child: makes a store when it is told to.
pub fn make_store() {
    say("ready");
    assert_eq!(hear(), "go");
    match Store::create(arg("path"), options()) {
        Ok(store) => say(format_args!("won {:?}", store.id())),
        Err(e) => say(e.kind().name()),
    }
    hear();
}

#[test]
fn of_sixteen_who_make_a_store_one_wins() {
    for round in 0..3 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("above").join("store");
        let mut kids: Vec<Kid> =
            (0..16).map(|_| Kid::start("make-store", &[("path", &path.display())])).collect();
        for kid in &kids {
            kid.expect("ready");
        }
        for kid in &mut kids {
            kid.tell("go");
        }
        let said: Vec<String> = kids.iter().map(Kid::line).collect();
        let won: Vec<&String> = said.iter().filter(|s| s.starts_with("won")).collect();
        assert_eq!(won.len(), 1, "round {round}: {said:?}");
        assert!(said.iter().all(|s| s.starts_with("won") || s == "exists"), "{said:?}");
        let store = Store::open(&path, StoreOptions::default()).unwrap();
        assert_eq!(*won[0], format!("won {:?}", store.id()));
        store.create_session(&NewSession::new("s").unwrap()).unwrap().close().unwrap();
        clean(&store).unwrap();
        let left = std::fs::read_dir(&path).unwrap();
        let left: Vec<_> = left.map(|e| e.unwrap().file_name()).collect();
        assert!(left.iter().all(|n| !n.to_string_lossy().ends_with(".tmp")), "{left:?}");
    }
}

fn now_ms() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// In a child: makes many sessions, each at the moment when all others make it too.
pub fn make_sessions() {
    let store = Store::open(arg("path"), options()).unwrap();
    let own = NewSession::new(&format!("own-{}", std::process::id())).unwrap();
    drop(store.create_session(&own).unwrap());
    say("ready");
    let begin: u64 = hear().parse().unwrap();
    let (mut won, mut lost) = (Vec::new(), 0);
    for k in 0..number("sessions") {
        while now_ms() < begin + 3 * k {
            std::thread::sleep(Duration::from_micros(50));
        }
        match store.create_session(&NewSession::new(&format!("s{k}")).unwrap()) {
            Ok(_writer) => won.push(k),
            Err(e) if matches!(e.kind(), ErrorKind::Exists | ErrorKind::Locked) => lost += 1,
            Err(e) => panic!("{e:?}"),
        }
    }
    store.close().unwrap();
    say(format_args!("{lost}"));
    say(format_args!("{won:?}"));
}

/// Each id is made once, whoever makes it at the same moment.
fn one_maker_each(plant: Option<&str>) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Store::create(&path, StoreOptions::default()).unwrap();
    let (many, sessions) = (6, 150_u64);
    let mut kids: Vec<Kid> = (0..many)
        .map(|_| {
            let shown = path.display();
            Kid::start_planted("make-sessions", plant, &[("path", &shown), ("sessions", &sessions)])
        })
        .collect();
    for kid in &kids {
        kid.expect("ready");
    }
    let begin = now_ms() + 20;
    for kid in &mut kids {
        kid.tell(&begin.to_string());
    }
    let mut makers = vec![0; usize::try_from(sessions).unwrap()];
    let mut lost = 0;
    for kid in &mut kids {
        let lines = kid.rest();
        if !kid.wait().success() || lines.len() != 2 {
            return Err(format!("a maker failed: {lines:?}"));
        }
        lost += lines[0].parse::<u64>().unwrap();
        let won = lines[1].trim_matches(['[', ']']);
        for k in won.split(", ").filter(|k| !k.is_empty()) {
            makers[k.parse::<usize>().unwrap()] += 1;
        }
    }
    let odd: Vec<usize> = (0..makers.len()).filter(|k| makers[*k] != 1).collect();
    if !odd.is_empty() {
        return Err(format!("made not once: {odd:?}"));
    }
    assert_eq!(lost, (many - 1) * sessions);
    store.refresh().unwrap();
    assert_eq!(store.sessions().unwrap().len() as u64, sessions + many);
    clean(&store)
}

#[test]
fn each_session_id_is_made_once() {
    one_maker_each(None).unwrap();
}

#[cfg(feature = "planted")]
#[test]
fn planted_create_without_lock_is_found() {
    let found = (0..5).find_map(|_| one_maker_each(Some("CreateWithoutLock")).err());
    assert!(found.is_some_and(|why| why.contains("made not once")));
}
