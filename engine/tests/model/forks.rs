//! Forks: shared events, boundaries, two lanes, damage of a parent, and what an independent decoder makes of them.

use std::path::Path;
use std::process::Command;

use everlog::{
    CheckOptions, ErrorKind, ForkOptions, Level, NewEvent, NewSession, Result, Session, SessionId,
    SessionWriter, Store, StoreOptions, SurfaceOp, ViewOptions,
};
use everlog_testkit::oracle::{DirImage, decode, jsonl};

fn id(name: &str) -> SessionId {
    SessionId::new(name).unwrap()
}

fn options() -> StoreOptions {
    StoreOptions::default()
}

fn at(seq: u64) -> ForkOptions {
    ForkOptions::default().with_boundary(seq)
}

fn note(i: u64) -> NewEvent<'static> {
    NewEvent::new("session/title", format!("{{\"i\":{i}}}").as_bytes()).into_owned()
}

fn user(i: u64) -> NewEvent<'static> {
    let text = format!(r#"{{"id":"m{i}","role":"user","content":[],"source":{{"kind":"user"}}}}"#);
    NewEvent::new("user/message", text.as_bytes()).into_owned().with_surface_op(SurfaceOp::Append)
}

fn put(w: &mut SessionWriter, events: &[NewEvent<'_>]) {
    let receipt = w.append_batch(events, Level::Os).unwrap();
    assert_eq!(receipt.last_seq() + 1, w.next_seq());
}

/// Seqs and data of all events, read in every way, which must agree.
fn events(s: &Session) -> Vec<(u64, String)> {
    let text = |data: &[u8]| String::from_utf8(data.to_vec()).unwrap();
    let all: Vec<_> =
        s.iter().map(|e| e.map(|e| (e.seq, text(&e.data)))).collect::<Result<_>>().unwrap();
    let mut back: Vec<_> =
        s.iter().rev().map(|e| e.map(|e| (e.seq, text(&e.data)))).collect::<Result<_>>().unwrap();
    back.reverse();
    assert_eq!(all, back);
    let mut each = Vec::new();
    s.for_each(0, u64::MAX, &mut |e| {
        each.push((e.seq, text(e.data)));
        Ok(())
    })
    .unwrap();
    assert_eq!(all, each);
    for (i, (seq, data)) in all.iter().enumerate() {
        assert_eq!((*seq, data), (i as u64, &text(&s.read(*seq).unwrap().data)));
    }
    assert_eq!(s.next_seq(), all.len() as u64);
    for cut in 0..all.len() as u64 {
        let seqs: Vec<u64> = s.range(cut, cut + 2).map(|e| e.unwrap().seq).collect();
        assert_eq!(seqs, (cut..(cut + 3).min(all.len() as u64)).collect::<Vec<_>>());
        assert_eq!(s.last(cut).count() as u64, cut);
    }
    all
}

/// Checks the store with its own check, with the independent decoder and with the reader in Python: they all see the
/// same log of each session.
fn agree(path: &Path, names: &[&str]) {
    let store = Store::open(path, options()).unwrap();
    let report = store.check(&CheckOptions::default(), &mut |_, _| true).unwrap();
    assert!(report.damage.is_empty(), "{:?}", report.damage);
    let oracle = decode(&DirImage::new(path));
    assert_eq!(oracle.findings, []);
    for name in names {
        let mut ours = Vec::new();
        store.export_dsh(&id(name), false, &mut ours).unwrap();
        let theirs = jsonl::session(&oracle.sessions[name.as_bytes()]);
        assert_eq!(String::from_utf8_lossy(&ours), String::from_utf8_lossy(&theirs), "{name}");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/everlog_reader.py");
        let Ok(out) = Command::new("python3").arg(script).arg(path).arg(name).output() else {
            assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "python3 is missing");
            eprintln!("SKIPPED: no python3, the reader in Python is not tested");
            continue;
        };
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!((&*said, out.status.success()), ("", true));
        assert_eq!(String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&ours), "{name}");
    }
}

#[test]
fn t60_t66_t70_children_share_a_prefix_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let store = Store::create(&path, options()).unwrap();
    let mut w = store.create_session(&NewSession::with_id(id("parent")).with_cwd("/w")).unwrap();
    // One frame of six events: boundaries stand inside of it.
    put(&mut w, &[user(0), note(1), user(2), note(3), user(4), note(5)]);
    let mut child = store.fork(&id("parent"), &id("child"), at(2)).unwrap();
    let header = String::from_utf8(child.header().unwrap()).unwrap();
    assert!(
        header
            .contains(r#""cwd":"/w","parentSession":"parent","seedLength":3,"delegationDepth":0"#)
    );
    put(&mut w, &[note(6)]);
    put(&mut child, &[user(40), note(50), user(60)]);
    let mut grand = store.fork(&id("child"), &id("grand"), at(5)).unwrap();
    put(&mut grand, &[note(7)]);
    // A fork of a fork, before the first boundary.
    let early = store.fork(&id("grand"), &id("early"), at(1)).unwrap();
    let datas = |s: &Session| events(s).into_iter().map(|e| e.1).collect::<Vec<_>>();
    let shared = datas(&w);
    assert_eq!(shared.len(), 7);
    assert_eq!((&datas(&child)[..3], &datas(&child)[3][..]), (&shared[..3], "{}"));
    assert_eq!(datas(&grand)[..6], datas(&child)[..6]);
    assert_eq!(datas(&grand).len(), 8);
    assert_eq!(datas(&early)[..2], shared[..2]);
    for s in [&w, &child, &grand, &early] {
        assert!(s.surface().iter().all(|n| n < s.next_seq()));
    }
    assert_eq!(child.surface().iter().collect::<Vec<_>>(), [0, 2, 4, 6]);
    drop((w, child, grand, early));
    store.close().unwrap();
    agree(&path, &["parent", "child", "grand", "early"]);
    let store = Store::open(&path, options()).unwrap();
    let child = store.session(&id("child")).unwrap();
    assert_eq!(events(&child).len(), 7);
    let list = store.sessions().unwrap();
    assert_eq!(list.iter().map(|i| i.events).sum::<u64>(), 7 + 7 + 8 + 3);
    assert_eq!(store.info().unwrap().events, 7 + 4 + 2 + 1);
    // Taken again, it is written behind what it has, and its history is that of its own log.
    let mut w = store.writer(&id("child")).unwrap();
    let replace = SurfaceOp::Replace { start: 0, end: 4 };
    put(&mut w, &[user(9).with_surface_op(replace).with_sources(vec![0, 2, 4])]);
    let view = w.view(ViewOptions::default()).unwrap();
    assert_eq!(view.nodes().collect::<Vec<_>>(), [7, 6]);
    let stats = w.stats().unwrap();
    assert_eq!((stats.whole.events, stats.own.events), (8, 5));
    w.close().unwrap();
    store.close().unwrap();
    agree(&path, &["parent", "child", "grand", "early"]);
}

#[test]
fn t61_t64_t65_t68_boundaries_and_names() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let store = Store::create(&path, options()).unwrap();
    let mut w = store.create_session(&NewSession::with_id(id("p"))).unwrap();
    let empty = store.fork(&id("p"), &id("of-empty"), ForkOptions::default()).unwrap();
    assert_eq!(events(&empty), [(0, "{}".to_owned())]);
    assert!(String::from_utf8(empty.header().unwrap()).unwrap().contains("\"seedLength\":0"));
    let kind = |parent: &str, child: &str, o| {
        store.fork(&id(parent), &id(child), o).map(|_| ()).unwrap_err()
    };
    assert_eq!(kind("p", "x", at(0)).field(), Some("boundary"));
    let turn = NewEvent::new("turn/start", br#"{"turn":1}"#);
    let end = NewEvent::new("turn/end", br#"{"turn":1,"reason":{"kind":"completed"}}"#);
    put(&mut w, &[note(0), turn.clone(), note(2), end, note(4), turn]);
    for (seq, open) in [(0, false), (1, true), (2, true), (3, false), (4, false), (5, true)] {
        let name = format!("c{seq}");
        match store.fork(&id("p"), &id(&name), at(seq)) {
            Ok(child) => assert_eq!((open, child.next_seq()), (false, seq + 2)),
            Err(e) => assert_eq!((open, e.kind(), e.seq()), (true, ErrorKind::OpenTurn, Some(seq))),
        }
    }
    let open = ForkOptions::default();
    assert_eq!(kind("p", "x", open).kind(), ErrorKind::OpenTurn);
    let closed = store.fork(&id("p"), &id("closed"), open.with_close()).unwrap();
    let types: Vec<_> = closed.last(2).map(|e| e.unwrap().event_type).collect();
    assert_eq!((&*types[0], &*types[1]), (&b"turn/end"[..], &b"session/end-seed"[..]));
    assert_eq!(
        (kind("p", "x", at(6)).kind(), kind("p", "x", at(6)).seq()),
        (ErrorKind::Invalid, Some(6))
    );
    assert_eq!(kind("p", "c0", at(99)).kind(), ErrorKind::Exists, "the name is looked at first");
    assert_eq!(kind("nobody", "x", open).kind(), ErrorKind::NotFound);
    // What ends with the mark is not marked again.
    let again = store.fork(&id("closed"), &id("again"), open).unwrap();
    assert_eq!(again.next_seq(), closed.next_seq());
    assert_eq!(events(&again), events(&closed));
    drop((w, empty, closed, again));
    store.close().unwrap();
    agree(&path, &["p", "of-empty", "c0", "c3", "c4", "closed", "again"]);
}

#[test]
fn a_session_of_another_lane_is_forked_while_it_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let first = Store::create(&path, options()).unwrap();
    let mut w = first.create_session(&NewSession::with_id(id("p"))).unwrap();
    put(&mut w, &[user(0), note(1)]);
    let other = Store::open(&path, options()).unwrap();
    let mut child = other.fork(&id("p"), &id("c"), at(0)).unwrap();
    assert_ne!(child.event_id(1).unwrap().lane, w.event_id(0).unwrap().lane);
    put(&mut w, &[user(2)]);
    put(&mut child, &[user(3)]);
    assert_eq!(events(&child).len(), 3);
    drop((w, first));
    child.close().unwrap();
    other.close().unwrap();
    agree(&path, &["p", "c"]);
    // Handed over at once: the child has no event of its own but the mark, and goes to another lane.
    let store = Store::open(&path, options()).unwrap();
    let mut taken = store.writer(&id("c")).unwrap();
    put(&mut taken, &[user(4)]);
    assert_eq!(events(&taken).len(), 4);
    drop(taken);
    store.close().unwrap();
    agree(&path, &["p", "c"]);
}

#[test]
fn indexed_parents_are_read_through_their_index() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let store = Store::create(&path, options()).unwrap();
    let mut w = store.create_session(&NewSession::with_id(id("p"))).unwrap();
    let pad = "x".repeat(3_000);
    for i in 0..900 {
        let data = format!("{{\"i\":{i},\"pad\":\"{pad}\"}}");
        put(
            &mut w,
            &[if i % 100 == 0 {
                user(i)
            } else {
                NewEvent::new("session/title", data.as_bytes()).into_owned()
            }],
        );
    }
    let child = store.fork(&id("p"), &id("c"), at(750)).unwrap();
    put(&mut w, &[user(900)]);
    drop((w, child));
    store.close().unwrap();
    let store = Store::open(&path, options().with_read_only()).unwrap();
    let child = store.session(&id("c")).unwrap();
    assert_eq!(child.iter().filter(|e| e.is_ok()).count(), 752);
    let view = child.view(ViewOptions::default()).unwrap();
    assert_eq!(view.nodes().collect::<Vec<_>>(), (0..8).map(|n| n * 100).collect::<Vec<_>>());
    drop((view, child, store));
    agree(&path, &["p", "c"]);
}
