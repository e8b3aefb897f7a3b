//! Views: closers and when they are shown, what is read for a history, unknown types, damage, the inherited part.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use everlog::{
    ErrorKind, Level, NewEvent, NewSession, Session, SessionId, SessionWriter, Store, StoreOptions,
    SurfaceOp, ViewOptions,
};
use serde_json::Value;

fn fresh() -> (tempfile::TempDir, PathBuf, Store) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let store = Store::create(&path, StoreOptions::default()).unwrap();
    (dir, path, store)
}

fn open(path: &Path) -> Store {
    Store::open(path, StoreOptions::default()).unwrap()
}

/// Appends at `os`.
fn put(w: &mut SessionWriter, events: &[NewEvent<'_>]) {
    let receipt = w.append_batch(events, Level::Os).unwrap();
    assert_eq!(receipt.last_seq() + 1, w.next_seq());
}

fn writer(store: &Store, id: &str) -> SessionWriter {
    store.create_session(&NewSession::new(id).unwrap()).unwrap()
}

fn session(store: &Store, id: &str) -> Session {
    store.session(&SessionId::new(id).unwrap()).unwrap()
}

fn plain(event_type: &str, data: &str) -> NewEvent<'static> {
    NewEvent::new(event_type, data.as_bytes()).into_owned()
}

fn user(id: &str) -> NewEvent<'static> {
    let text = format!(
        r#"{{"id":"{id}","role":"user","content":[{{"type":"text","text":"{id}"}}],"source":{{"kind":"user"}}}}"#
    );
    plain("user/message", &text).with_surface_op(SurfaceOp::Append)
}

fn calling() -> NewEvent<'static> {
    let text = r#"{"turn":1,"step":1,"message":{"id":"a","role":"assistant","content":[{"type":"tool-call","id":"c1","name":"x","arguments":"{}"}],"source":{"kind":"model","provider":"p","model":"m"}}}"#;
    plain("assistant/message", text).with_surface_op(SurfaceOp::Append)
}

fn turn_start() -> NewEvent<'static> {
    plain("turn/start", r#"{"turn":1}"#)
}

fn turn_end() -> NewEvent<'static> {
    plain("turn/end", r#"{"turn":1,"reason":{"kind":"completed"}}"#)
}

/// A turn that is cut off while a tool runs.
fn cut_off(w: &mut SessionWriter) {
    let call =
        plain("tool/call", r#"{"turn":1,"step":1,"callId":"c1","name":"x","arguments":"{}"}"#);
    let step = plain("step/start", r#"{"turn":1,"step":1}"#);
    put(w, &[turn_start(), user("u"), step, calling(), call]);
}

fn ids(messages: &[u8]) -> Vec<String> {
    let list: Vec<Value> = serde_json::from_slice(messages).unwrap();
    list.iter().map(|m| m["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn t57_closers_are_shown_only_when_nobody_writes_and_never_stored() {
    let (_dir, path, store) = fresh();
    let mut w = writer(&store, "s");
    cut_off(&mut w);
    let raw = ["u", "a"];
    assert_eq!(ids(&w.messages().unwrap()), raw, "the writer sees what is there");
    let other = open(&path);
    let reader = session(&other, "s");
    assert_eq!(ids(&reader.messages().unwrap()), raw, "somebody writes it");
    w.close().unwrap();
    let closed = ["u", "a", "interrupted-tool-result-c1-5"];
    for _ in 0..2 {
        assert_eq!(ids(&reader.messages().unwrap()), closed);
    }
    let view = reader.view(ViewOptions::default()).unwrap();
    let types: Vec<&[u8]> = view.closers().iter().map(|c| &*c.event_type).collect();
    assert_eq!(types, [&b"tool/result"[..], b"step/end", b"turn/end"]);
    assert_eq!((view.end(), view.nodes().collect::<Vec<_>>()), (5, vec![1, 3, 5]));
    let mut seen = Vec::new();
    view.transcript(&mut |seq, _| {
        seen.push(seq);
        Ok(())
    })
    .unwrap();
    assert_eq!(seen, [1, 3, 5]);
    assert_eq!(ids(&reader.messages_at(4).unwrap()), raw, "never at a seq");
    let view = reader.view(ViewOptions::default().with_raw()).unwrap();
    assert_eq!(ids(&view.messages_json().unwrap()), raw);
    let stats = reader.stats().unwrap();
    assert_eq!((stats.whole.steps, stats.whole.events, stats.whole.messages), (1, 5, 3));
    assert_eq!(reader.next_seq(), 5);
    let _again = store.writer(reader.id()).unwrap();
    assert_eq!(ids(&reader.messages().unwrap()), raw, "held again");
}

#[test]
fn a_view_of_a_free_session_sees_what_was_written_before_it_was_let_go() {
    let (_dir, path, store) = fresh();
    let mut w = writer(&store, "s");
    put(&mut w, &[turn_start(), user("u")]);
    let other = open(&path);
    let reader = session(&other, "s");
    put(&mut w, &[user("v"), turn_end()]);
    w.close().unwrap();
    // Not refreshed, the reader would see an open turn without a writer.
    assert_eq!(ids(&reader.messages().unwrap()), ["u", "v"]);
    assert!(reader.view(ViewOptions::default()).unwrap().closers().is_empty());
}

#[test]
fn t42_messages_at_every_event_are_those_of_the_prefix() {
    let (_dir, _path, store) = fresh();
    let mut w = writer(&store, "s");
    let replace = |start, end| SurfaceOp::Replace { start, end };
    put(
        &mut w,
        &[
            user("0"),
            user("1"),
            plain("session/title", "{}"),
            user("3"),
            user("4").with_surface_op(replace(0, 1)).with_sources(vec![0, 1]),
            user("5"),
            user("6").with_surface_op(replace(4, 3)).with_sources(vec![4, 3]),
        ],
    );
    let want: [&[&str]; 7] = [
        &["0"],
        &["0", "1"],
        &["0", "1"],
        &["0", "1", "3"],
        &["4", "3"],
        &["4", "3", "5"],
        &["6", "5"],
    ];
    for (seq, want) in want.iter().enumerate() {
        assert_eq!(ids(&w.messages_at(seq as u64).unwrap()), *want, "at {seq}");
    }
    let view = w.view(ViewOptions::default()).unwrap();
    let all: Vec<_> = view.replacements().iter().map(|r| (r.seq, r.start, r.end)).collect();
    assert_eq!((all, view.generation()), (vec![(4, 0, 1), (6, 4, 3)], 2));
    let mut seen = Vec::new();
    view.transcript(&mut |seq, _| {
        seen.push(seq);
        Ok(())
    })
    .unwrap();
    assert_eq!(seen, [0, 1, 3, 5]);
    let past = w.messages_at(7).unwrap_err();
    assert_eq!((past.kind(), past.seq()), (ErrorKind::NotFound, Some(7)));
}

#[test]
fn the_text_of_a_message_is_the_stored_text() {
    let (_dir, _path, store) = fresh();
    let mut w = writer(&store, "s");
    let text = "{ \"id\" : \"\\u0075\", \"role\":\"user\",\n\"source\":{\"kind\":\"user\"}, \"n\": 1.0e2, \"content\":[ ] }";
    put(&mut w, &[plain("user/message", text).with_surface_op(SurfaceOp::Append)]);
    let empty = calling();
    let data = String::from_utf8(empty.data.to_vec()).unwrap();
    let start = data.find("[{").unwrap();
    let data = format!("{}[ ]{}", &data[..start], &data[data.find("}]").unwrap() + 2..]);
    put(&mut w, &[plain("assistant/message", &data).with_surface_op(SurfaceOp::Append)]);
    assert_eq!(w.messages().unwrap(), format!("[{text}]").into_bytes());
    assert_eq!(Session::surface(&w).unwrap().len(), 2, "a node without a message is a node");
}

/// Overwrites one byte of the event data that holds `needle`.
fn damage(path: &Path, needle: &str) {
    for entry in fs::read_dir(path.join("lanes/0000")).unwrap() {
        let file = entry.unwrap().path();
        let mut bytes = fs::read(&file).unwrap();
        let found = bytes.windows(needle.len()).position(|w| w == needle.as_bytes());
        if let Some(at) = found {
            bytes[at] ^= 1;
            fs::write(&file, bytes).unwrap();
            return;
        }
    }
    panic!("{needle} is nowhere");
}

/// A closed session of `n` chunks around two user messages, in many INDEX frames.
fn long(store: &Store, id: &str, n: usize) {
    let mut w = writer(store, id);
    let pad = "x".repeat(3_000);
    put(&mut w, &[turn_start()]);
    put(&mut w, &[user("first")]);
    for i in 0..n {
        let data = format!(
            r#"{{"turn":1,"step":1,"chunk":{{"type":"text-delta","text":"chunk-{i}-{pad}"}}}}"#
        );
        put(&mut w, &[plain("assistant/chunk", &data)]);
    }
    put(&mut w, &[user("second")]);
    put(&mut w, &[turn_end()]);
    w.close().unwrap();
}

#[test]
fn a_history_reads_surface_events_only() {
    let (_dir, path, store) = fresh();
    long(&store, "s", 900);
    store.close().unwrap();
    damage(&path, "chunk-0-");
    damage(&path, "chunk-450-");
    let store = open(&path);
    let session = session(&store, "s");
    // The damaged frames show that no chunk was read.
    assert_eq!(ids(&session.messages().unwrap()), ["first", "second"]);
    assert_eq!(session.iter().filter(Result::is_err).count(), 2);
    assert_eq!(session.stats().unwrap_err().kind(), ErrorKind::Corrupt);
    let view = session.view(ViewOptions::default().with_gaps()).unwrap();
    assert_eq!((view.gaps().len(), view.stats().unwrap().whole.messages), (0, 2));
}

#[test]
fn damage_refuses_a_view_unless_gaps_are_allowed() {
    let (_dir, path, store) = fresh();
    let mut w = writer(&store, "s");
    for id in ["one", "needle", "three"] {
        put(&mut w, &[user(id)]);
    }
    let replace = SurfaceOp::Replace { start: 1, end: 1 };
    put(&mut w, &[user("four").with_surface_op(replace).with_sources(vec![1])]);
    w.close().unwrap();
    store.close().unwrap();
    damage(&path, "needle");
    let store = open(&path);
    let session = session(&store, "s");
    let refused = session.messages().unwrap_err();
    assert_eq!((refused.kind(), refused.seq()), (ErrorKind::Corrupt, Some(1)));
    let view = session.view(ViewOptions::default().with_gaps()).unwrap();
    let gaps: Vec<Range<u64>> = view.gaps().to_vec();
    assert_eq!(gaps.iter().cloned().flatten().collect::<Vec<_>>(), [1, 3]);
    assert_eq!(ids(&view.messages_json().unwrap()), ["one", "three"]);
}

#[test]
fn t22_t23_required_events_of_unknown_types_refuse_a_view() {
    let (_dir, path, store) = fresh();
    let mut w = writer(&store, "s");
    put(&mut w, &[user("u"), plain("note", "1").with_ignorable()]);
    assert_eq!(ids(&w.messages().unwrap()), ["u"]);
    put(&mut w, &[user("v"), plain("future/required", "1"), plain("other", "1")]);
    w.close().unwrap();
    long(&store, "long", 400);
    let mut w = store.writer(&SessionId::new("long").unwrap()).unwrap();
    let seq = w.append(&plain("future/required", "1")).unwrap().first_seq();
    w.close().unwrap();
    long(&store, "after", 400);
    store.close().unwrap();
    for read_only in [false, true] {
        let options = StoreOptions::default();
        let options = if read_only { options.with_read_only() } else { options };
        let store = Store::open(&path, options).unwrap();
        let short = session(&store, "s");
        let refused = short.messages().unwrap_err();
        assert_eq!((refused.kind(), refused.seq()), (ErrorKind::UnknownType, Some(3)));
        assert!(refused.message().contains("future/required"));
        assert_eq!(short.stats().unwrap_err().kind(), ErrorKind::UnknownType);
        assert_eq!(ids(&short.messages_at(2).unwrap()), ["u", "v"]);
        let kept = short.view(ViewOptions::default().with_unknown_kept()).unwrap();
        assert_eq!(ids(&kept.messages_json().unwrap()), ["u", "v"]);
        let refused = session(&store, "long").messages().unwrap_err();
        assert_eq!((refused.kind(), refused.seq()), (ErrorKind::UnknownType, Some(seq)));
        assert!(session(&store, "after").messages().is_ok());
    }
}

#[test]
fn the_own_part_begins_behind_what_was_inherited() {
    let (_dir, _path, store) = fresh();
    let new = NewSession::new("child").unwrap().with_parent(SessionId::new("p").unwrap(), Some(3));
    let mut w = store.create_session(&new).unwrap();
    let step = |n: u32| plain("step/end", &format!(r#"{{"turn":{n},"step":1}}"#));
    put(&mut w, &[user("0"), step(1), turn_end(), user("3"), step(2), step(2)]);
    let stats = w.stats().unwrap();
    assert_eq!((stats.whole.events, stats.whole.steps, stats.whole.turns), (6, 3, 2));
    assert_eq!((stats.own.events, stats.own.steps, stats.own.turns), (3, 2, 1));
    assert_eq!((stats.whole.messages, stats.own.messages), (2, 1));
}

/// Figures of a long history, read cold: `cargo test -p everlog --test model -- --ignored --nocapture million`.
#[test]
#[ignore = "takes a minute; prints figures"]
fn million_events_cold() {
    let (_dir, path, store) = fresh();
    let mut w = writer(&store, "s");
    let chunk = format!(
        r#"{{"turn":1,"step":1,"chunk":{{"type":"text-delta","index":0,"text":"{}"}}}}"#,
        "x".repeat(24)
    );
    let (chunk, said) = (plain("assistant/chunk", &chunk), user("u"));
    let (start, end) = (turn_start(), turn_end());
    for i in 0..1_000_000_u64 {
        let event = match i % 500 {
            0 => &start,
            1 | 498 => &said,
            499 => &end,
            _ => &chunk,
        };
        drop(w.append_batch(std::slice::from_ref(event), Level::Buffered).unwrap());
    }
    w.close().unwrap();
    store.close().unwrap();
    let store = Store::open(&path, StoreOptions::default().with_read_only()).unwrap();
    let session = session(&store, "s");
    for turn in ["cold", "again"] {
        let from = std::time::Instant::now();
        let messages = session.messages().unwrap();
        let took = from.elapsed();
        assert_eq!(ids(&messages).len(), 4_000);
        println!("{turn}: {took:?} for {} bytes of messages", messages.len());
    }
    let from = std::time::Instant::now();
    assert_eq!(session.iter().count(), 1_000_000);
    println!("all events: {:?}", from.elapsed());
    let from = std::time::Instant::now();
    assert_eq!(session.stats().unwrap().whole.messages, 4_000);
    println!("statistics: {:?}", from.elapsed());
}
