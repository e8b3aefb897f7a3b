//! Every limit at its value, one below and one above, through the public API: what is above is refused with the limit
//! named, and the store is as it was.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, reason = "tests")]

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use everlog::limits::{
    BATCH_BYTES_MAX, BATCH_EVENTS_MAX, EVENT_BYTES_CEILING, EVENT_BYTES_MAX, EVENT_TYPE_BYTES_MAX,
    HEADER_BYTES_MAX, JSON_DEPTH_MAX, LABEL_BYTES_MAX, SAFE_INTEGER_MAX, SEGMENT_BYTES_CEILING,
    SEGMENT_BYTES_MIN, SESSION_ID_BYTES_MAX,
};
use everlog::{
    CheckOptions, Error, ErrorKind, ImportOptions, Level, NewEvent, NewSession, SessionId,
    SessionWriter, Store, StoreOptions, SurfaceOp,
};
use everlog_testkit::sim::SimMachine;

const PATH: &str = "/data/store";

struct Site {
    store: Store,
    writer: SessionWriter,
}

fn site(options: StoreOptions) -> Site {
    let process = Arc::new(SimMachine::new(3).process("p"));
    let store = Store::create_on(process, Path::new(PATH), options).unwrap();
    let writer = store.create_session(&NewSession::new("s").unwrap()).unwrap();
    Site { store, writer }
}

impl Site {
    fn put(&mut self, event: &NewEvent<'_>) -> everlog::Result<u64> {
        self.writer.append(event).map(|r| r.first_seq())
    }

    /// What was refused left nothing behind: the next event gets the seq that was due, and a check is clean.
    fn refuses(&mut self, events: &[NewEvent<'_>], kind: ErrorKind, field: &str) {
        let due = self.writer.next_seq();
        let info = self.store.info().unwrap();
        let err = self.writer.append_batch(events, Level::Sync).map(drop).unwrap_err();
        assert_eq!((err.kind(), err.field()), (kind, Some(field)), "{err}");
        assert_eq!(self.writer.next_seq(), due);
        let now = self.store.info().unwrap();
        assert_eq!((now.events, now.bytes), (info.events, info.bytes));
        assert_eq!(self.put(&NewEvent::new("note", b"0")).unwrap(), due);
        let report = self.store.check(&CheckOptions::default(), &mut |_, _| true).unwrap();
        assert!(report.is_clean(), "{:?}", report.damage);
    }
}

fn text(len: usize) -> Vec<u8> {
    let mut out = vec![b'a'; len];
    out[0] = b'"';
    out[len - 1] = b'"';
    out
}

fn nested(depth: usize) -> Vec<u8> {
    ["[".repeat(depth), "]".repeat(depth)].concat().into_bytes()
}

#[test]
fn bytes_of_one_event() {
    for max in [1_000, 200_000] {
        let mut site = site(StoreOptions::default().with_event_bytes_max(max));
        for len in [max - 1, max] {
            assert!(site.put(&NewEvent::new("note", &text(len))).is_ok());
        }
        let large = text(max + 1);
        site.refuses(&[NewEvent::new("note", &large)], ErrorKind::Limit, "data");
        let batch = [NewEvent::new("note", b"1"), NewEvent::new("note", &large)];
        site.refuses(&batch, ErrorKind::Limit, "data");
    }
}

#[test]
fn bytes_of_one_event_by_default() {
    let mut site = site(StoreOptions::default());
    let large = text(EVENT_BYTES_MAX + 1);
    site.refuses(&[NewEvent::new("note", &large)], ErrorKind::Limit, "data");
    assert!(site.put(&NewEvent::new("note", &large[1..EVENT_BYTES_MAX])).is_err(), "no JSON");
    let whole = text(EVENT_BYTES_MAX);
    let seq = site.put(&NewEvent::new("note", &whole)).unwrap();
    assert!(site.writer.read(seq).unwrap().data[..] == whole[..]);
}

#[test]
fn bytes_of_one_append() {
    let mut site = site(StoreOptions::default());
    // With what each record may take beside its data, three of these pass the limit and two do not.
    let third = text(BATCH_BYTES_MAX / 3);
    let events = vec![NewEvent::new("note", &third); 3];
    site.refuses(&events, ErrorKind::Limit, "bytes of one append");
    assert!(site.writer.append_batch(&events[..2], Level::Os).is_ok());
    assert_eq!(site.writer.next_seq(), 3);
}

#[test]
fn events_of_one_append() {
    let mut site = site(StoreOptions::default());
    let events = vec![NewEvent::new("note", b"1"); BATCH_EVENTS_MAX + 1];
    site.refuses(&events, ErrorKind::Limit, "events of one append");
    site.refuses(&[], ErrorKind::Limit, "events of one append");
    for count in [BATCH_EVENTS_MAX - 1, BATCH_EVENTS_MAX] {
        let before = site.writer.next_seq();
        let receipt = site.writer.append_batch(&events[..count], Level::Os).unwrap();
        assert_eq!(receipt.last_seq() - before + 1, count as u64);
        assert_eq!(site.writer.read(receipt.last_seq()).unwrap().data[..], b"1"[..]);
    }
}

#[test]
fn depth_of_data() {
    for (options, max) in [
        (StoreOptions::default(), JSON_DEPTH_MAX),
        (StoreOptions::default().with_json_depth_max(1), 1),
        (StoreOptions::default().with_json_depth_max(20_000), 20_000),
    ] {
        let mut site = site(options);
        for depth in [max - 1, max] {
            let data = if depth == 0 { b"0".to_vec() } else { nested(depth) };
            assert!(site.put(&NewEvent::new("note", &data)).is_ok(), "{depth}");
        }
        site.refuses(&[NewEvent::new("note", &nested(max + 1))], ErrorKind::Limit, "data");
    }
}

#[test]
fn depth_of_typed_data() {
    let mut site = site(StoreOptions::default().with_json_depth_max(3));
    assert!(site.writer.append_json("note", &[[[1]]]).is_ok());
    let err = site.writer.append_json("note", &[[[[1]]]]).map(drop).unwrap_err();
    assert_eq!(err.kind(), ErrorKind::Limit, "{err}");
    assert_eq!(site.writer.next_seq(), 1);
}

#[test]
fn length_of_a_type() {
    let mut site = site(StoreOptions::default());
    for len in [1, EVENT_TYPE_BYTES_MAX - 1, EVENT_TYPE_BYTES_MAX] {
        let name = "t".repeat(len);
        let seq = site.put(&NewEvent::new(&name, b"1")).unwrap();
        assert_eq!(site.writer.read(seq).unwrap().event_type[..], *name.as_bytes());
    }
    let long = "t".repeat(EVENT_TYPE_BYTES_MAX + 1);
    site.refuses(&[NewEvent::new(&long, b"1")], ErrorKind::Limit, "type");
}

#[test]
fn length_of_a_session_id() {
    let site = site(StoreOptions::default());
    for len in [1, SESSION_ID_BYTES_MAX - 1, SESSION_ID_BYTES_MAX] {
        let id = "i".repeat(len);
        let writer = site.store.create_session(&NewSession::new(&id).unwrap()).unwrap();
        assert_eq!(writer.id().as_str(), Some(&*id));
    }
    for len in [0, SESSION_ID_BYTES_MAX + 1] {
        let err = SessionId::new(&"i".repeat(len)).unwrap_err();
        assert_eq!((err.kind(), err.field()), (ErrorKind::Limit, Some("session id")), "{err}");
    }
}

#[test]
fn length_of_a_header() {
    let site = site(StoreOptions::default());
    let header = |id: &str, len: usize| {
        let start = format!(
            "{{\"type\":\"session\",\"version\":0,\"id\":\"{id}\",\"createdAt\":1,\"delegationDepth\":0,\"agentPreset\":\""
        );
        format!("{start}{}\"}}", "p".repeat(len - start.len() - 2)).into_bytes()
    };
    for (id, len) in [("a", HEADER_BYTES_MAX - 1), ("b", HEADER_BYTES_MAX)] {
        let text = header(id, len);
        let new = NewSession::from_header_line(&text).unwrap();
        let writer = site.store.create_session(&new).unwrap();
        assert!(writer.header().unwrap() == text);
    }
    let long = header("c", HEADER_BYTES_MAX + 1);
    let made = NewSession::from_header_line(&long).and_then(|n| site.store.create_session(&n));
    assert_eq!(made.map(drop).unwrap_err().kind(), ErrorKind::Limit);
    let new = NewSession::new("d").unwrap().with_cwd(&format!("/{}", "w".repeat(HEADER_BYTES_MAX)));
    assert_eq!(site.store.create_session(&new).map(drop).unwrap_err().kind(), ErrorKind::Limit);
    assert_eq!(site.store.sessions().unwrap().len(), 3);
}

#[test]
fn options_out_of_range() {
    let plain = StoreOptions::default;
    let (low, high) = (SEGMENT_BYTES_MIN, SEGMENT_BYTES_CEILING);
    let cases: [(&str, StoreOptions, bool); 18] = [
        ("event_bytes_max", plain().with_event_bytes_max(0), false),
        ("event_bytes_max", plain().with_event_bytes_max(1), true),
        ("event_bytes_max", plain().with_event_bytes_max(EVENT_BYTES_CEILING), true),
        ("event_bytes_max", plain().with_event_bytes_max(EVENT_BYTES_CEILING + 1), false),
        ("json_depth_max", plain().with_json_depth_max(0), false),
        ("json_depth_max", plain().with_json_depth_max(1_000_000), true),
        ("json_depth_max", plain().with_json_depth_max(1_000_001), false),
        ("segment_bytes_first", plain().with_segment_bytes(low - 1, low), false),
        ("segment_bytes_first", plain().with_segment_bytes(low, low), true),
        ("segment_bytes_max", plain().with_segment_bytes(low, high), true),
        ("segment_bytes_max", plain().with_segment_bytes(low, high + 1), false),
        ("segment_bytes_max", plain().with_segment_bytes(low + 1, low), false),
        ("sync_delay_ms", plain().with_sync_delay_ms(0), false),
        ("sync_delay_ms", plain().with_sync_delay_ms(1), true),
        ("sync_delay_ms", plain().with_sync_delay_ms(3_600_001), false),
        ("lock_wait_ms", plain().with_lock_wait_ms(0), true),
        ("lock_wait_ms", plain().with_lock_wait_ms(3_600_000), true),
        ("lock_wait_ms", plain().with_lock_wait_ms(3_600_001), false),
    ];
    for (i, (field, options, fine)) in cases.into_iter().enumerate() {
        let machine = SimMachine::new(4);
        let process = Arc::new(machine.process("p"));
        let made = Store::create_on(process, Path::new(PATH), options);
        match made {
            Ok(_) => assert!(fine, "case {i}: {field} was taken"),
            Err(e) => {
                assert!(!fine, "case {i}: {e}");
                assert_eq!((e.kind(), e.field()), (ErrorKind::Invalid, Some(field)));
                assert!(machine.files().is_empty(), "case {i} made files");
            }
        }
    }
    assert_eq!(plain().with_label(&"\u{e9}".repeat(40)).label().len(), LABEL_BYTES_MAX);
    assert_eq!(plain().with_label(&format!("x{}", "\u{e9}".repeat(40))).label().len(), 63);
}

#[test]
fn a_batch_that_needs_a_larger_segment_gets_one() {
    let options = StoreOptions::default().with_segment_bytes(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MIN);
    let mut site = site(options);
    for len in [100_000, 190_000, 200_000, 262_144, 1_000_000, 100] {
        let data = text(len);
        let seq = site.put(&NewEvent::new("note", &data)).unwrap();
        assert!(site.writer.read(seq).unwrap().data[..] == data[..]);
    }
    let report = site.store.check(&CheckOptions::default(), &mut |_, _| true).unwrap();
    assert!(report.is_clean() && report.events == 6, "{report:?}");
}

#[test]
fn numbers_of_an_event() {
    let mut site = site(StoreOptions::default());
    let max = SAFE_INTEGER_MAX as i64;
    for time in [-max, -max + 1, 0, max - 1, max] {
        let seq = site.put(&NewEvent::new("note", b"1").with_time_ms(time)).unwrap();
        assert_eq!(site.writer.read(seq).unwrap().time_ms, time);
    }
    for time in [max + 1, -max - 1, i64::MAX, i64::MIN] {
        let event = NewEvent::new("note", b"1").with_time_ms(time);
        site.refuses(&[event], ErrorKind::Invalid, "time");
    }
    let user = br#"{"id":"m","role":"user","source":{"kind":"user"},"content":[]}"#;
    let mut event = NewEvent::new("user/message", user).with_surface_op(SurfaceOp::Append);
    for sources in [vec![SAFE_INTEGER_MAX], vec![u64::MAX], vec![0, 0]] {
        event.sources = Some(Cow::Owned(sources));
        site.refuses(std::slice::from_ref(&event), ErrorKind::Invalid, "sourceEventSeqs");
    }
}

#[test]
fn lines_of_an_import() {
    let site = site(StoreOptions::default());
    let log = everlog_testkit::golden::LOG;
    let longest = log.split(|b| *b == b'\n').map(<[u8]>::len).max().unwrap();
    let import = |line_bytes_max: usize| -> Result<u64, Error> {
        let options = ImportOptions { line_bytes_max, ..ImportOptions::default() };
        site.store.import_dsh(log, &options, &mut |_| true).map(|r| r.stored)
    };
    let err = import(longest - 1).unwrap_err();
    assert_eq!((err.kind(), err.line()), (ErrorKind::Limit, Some(3)), "{err}");
    assert_eq!(site.store.sessions().unwrap().len(), 1);
    assert_eq!(import(longest).unwrap(), 4);
    assert_eq!(import(longest + 1).unwrap(), 4);
}
