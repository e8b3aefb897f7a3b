//! `docs/everlog_reader.py` against stores that the oracle's encoder built, and against the oracle itself.
//!
//! 1. The expected text is written here by hand for the main store; it is not taken from a decoder.
//! 2. Without python3 the tests that run it say so and pass, except under CI=true, where they fail.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use everlog_testkit::oracle::{
    EventId, FindingKind, ForkPoint, NONE, OracleStore, SurfaceOp, build, decode, jsonl, write_out,
};
use std::path::{Path, PathBuf};
use std::process::Command;

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/everlog_reader.py")
}

/// Output of the reader (stdout, stderr, exit code), or `None` without python3.
fn run(name: &str, files: &build::Files, session: Option<&str>) -> Option<(Vec<u8>, String, i32)> {
    if Command::new("python3").arg("--version").output().is_err() {
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "python3 is missing");
        eprintln!("SKIPPED: no python3, docs/everlog_reader.py is not tested");
        return None;
    }
    let dir = std::env::temp_dir().join(format!("everlog-reader-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    write_out(files, &dir).unwrap();
    let out = Command::new("python3").arg(script()).arg(&dir).args(session).output().unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    Some((out.stdout, String::from_utf8(out.stderr).unwrap(), out.status.code().unwrap()))
}

fn all_jsonl(store: &OracleStore) -> Vec<u8> {
    store.listed().flat_map(jsonl::session).collect()
}

/// What the reader and the oracle print for `files`, which must be the same.
fn both(name: &str, files: &build::Files) -> Option<(String, String, i32, OracleStore)> {
    let store = decode(files);
    let (out, err, code) = run(name, files, None)?;
    let (out, ours) =
        (String::from_utf8(out).unwrap(), String::from_utf8(all_jsonl(&store)).unwrap());
    assert_eq!(out, ours, "reader and oracle differ; stderr: {err}");
    assert_eq!(code == 0, store.findings.is_empty(), "{err} against {:?}", store.findings);
    assert_eq!(code == 0, err.is_empty(), "{err}");
    Some((out, err, code, store))
}

const A: u64 = 1 << 48 | 1;
const B: u64 = 1 << 48 | 2;
const C: u64 = 2 << 48 | 1;

fn note(i: u64) -> build::Draft {
    build::Draft::new("note", 1000 + i as i64, &format!("{{\"i\":{i}}}"))
}

fn at(lane: u16, gsn: u64) -> EventId {
    EventId { lane, epoch: 0, gsn }
}

fn lane2() -> build::Segment {
    build::Segment::new(&build::SegmentSpec { lane: 2, salt: 77, ..Default::default() })
}

/// One lane pair: `a` starts in lane 1, goes on in lane 2 and comes back; `b` is a fork of it.
fn moving() -> (build::Segment, build::Segment) {
    let (mut one, mut two) = (build::Segment::new(&Default::default()), lane2());
    one.create(A, b"a\xED\xA0\x80", br#"{"version":0,"id":"a\ud800"}"#);
    let mut odd = build::Draft::new("", -7, "[1, 2]\t");
    odd.ty = b"x\"\\\n\x01\x7F\xC3\xA9\xED\xB0\x80".to_vec();
    odd.ignorable = true;
    let append = SurfaceOp::Append;
    one.events(
        A,
        0,
        &[
            build::Draft::new("turn/start", 5, "{}"),
            odd,
            build::Draft::new("user/message", 9, "null").surface(append, None),
        ],
    );
    one.mark(2);
    two.take_over(A, 3, 1, at(1, 2));
    let replace = SurfaceOp::Replace { start: 2, end: 2 };
    let mut swapped =
        build::Draft::new("assistant/message", 9, "{}").surface(replace, Some(&[2, 0]));
    swapped.surface_first = true;
    two.events(
        A,
        3,
        &[swapped, build::Draft::new("tool/result", 8, "7").surface(append, Some(&[]))],
    );
    two.mark(4);
    one.take_over(A, 5, 2, at(2, 1));
    one.events(A, 5, &[note(5)]);
    let fork = ForkPoint { parent: A, boundary: 3, event: at(2, 0), owners: vec![(A, 4)] };
    one.fork(B, &fork, b"b", br#"{"id":"b"}"#);
    one.events(B, 4, &[note(40)]);
    let fork = ForkPoint { parent: B, boundary: 4, event: at(1, 4), owners: vec![(A, 4), (B, 5)] };
    two.fork(C, &fork, b"c", br#"{"id":"c"}"#);
    two.events(C, 5, &[note(50)]);
    (one, two)
}

const A_TO_3: &str = r#"{"type":"turn/start","seq":0,"time":5,"data":{}}
{"type":"x\"\\\n\u0001@DEL@@E@\udc00","seq":1,"time":-7,"data":[1, 2]	,"ignorable":true}
{"type":"user/message","seq":2,"time":9,"data":null,"surfaceOp":"append"}
{"type":"assistant/message","seq":3,"time":9,"data":{},"surfaceOp":{"op":"replace","start":2,"end":2},"sourceEventSeqs":[2,0]}
"#;
const A_TAIL: &str = r#"{"type":"tool/result","seq":4,"time":8,"data":7,"sourceEventSeqs":[],"surfaceOp":"append"}
{"type":"note","seq":5,"time":1005,"data":{"i":5}}
"#;
const B_TAIL: &str = "{\"type\":\"note\",\"seq\":4,\"time\":1040,\"data\":{\"i\":40}}\n";
const C_TAIL: &str = "{\"type\":\"note\",\"seq\":5,\"time\":1050,\"data\":{\"i\":50}}\n";

fn inherited() -> String {
    A_TO_3.replace("@DEL@", "\u{7f}").replace("@E@", "\u{e9}")
}

#[test]
fn two_lanes_and_forks_by_owners() {
    let (one, two) = moving();
    let files = build::store(vec![one, two]);
    let Some((out, _, code, _)) = both("moving", &files) else { return };
    let head = inherited();
    let want = format!(
        "{{\"version\":0,\"id\":\"a\\ud800\"}}\n{head}{A_TAIL}{{\"id\":\"b\"}}\n{head}{B_TAIL}\
         {{\"id\":\"c\"}}\n{head}{B_TAIL}{C_TAIL}"
    );
    assert_eq!(out, want);
    assert_eq!(code, 0);
    let (out, err, code) = run("one", &files, Some("c")).unwrap();
    assert_eq!(out, format!("{{\"id\":\"c\"}}\n{head}{B_TAIL}{C_TAIL}").into_bytes());
    assert_eq!((err.as_str(), code), ("", 0));
    let (out, err, code) = run("none", &files, Some("zzz")).unwrap();
    assert_eq!((out.len(), err.as_str(), code), (0, "no such session\n", 1));
}

#[test]
fn removed_parents_go_on_in_their_forks() {
    let (mut one, two) = moving();
    one.control(19, A, 6, 2, &[]);
    one.control(19, B, 5, 0, &[]);
    one.control(20, B, 5, 0, &[]);
    let Some((out, ..)) = both("rm", &build::store(vec![one, two])) else { return };
    let head = inherited();
    let want = format!("{{\"id\":\"b\"}}\n{head}{B_TAIL}{{\"id\":\"c\"}}\n{head}{B_TAIL}{C_TAIL}");
    assert_eq!(out, want);
}

#[test]
fn damage_inside_is_stepped_over_and_a_torn_tail_ends_the_lane() {
    let mut seg = build::Segment::new(&Default::default());
    seg.create(A, b"a", b"{}");
    let first = seg.events(A, 0, &[note(0)]);
    let second = seg.events(A, 1, &[note(1)]);
    seg.events(A, 2, &[note(2)]);
    let torn = seg.events(A, 3, &[note(3)]);
    for (name, flip) in [("payload", second + 50), ("header", second + 5), ("hcrc", second)] {
        let mut bad = seg.clone();
        bad.file[flip as usize] ^= 0x10;
        bad.file.truncate(torn as usize + 30);
        let files = build::store(vec![bad]);
        let Some((out, err, code, store)) = both(name, &files) else { return };
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(lines.len(), 3, "{out}");
        assert!(lines[1].contains("\"seq\":0") && lines[2].contains("\"seq\":2"));
        assert!(err.contains(&format!(": {second}: damaged")), "{err}");
        assert!(err.contains(&format!(": {torn}: torn tail")), "{err}");
        assert!(err.contains("seqs are missing"), "{err}");
        assert_eq!(code, 1);
        let kinds: Vec<_> = store.findings.iter().map(|f| (f.kind, f.offset)).collect();
        assert!(kinds.contains(&(FindingKind::Damage, second)), "{kinds:?}");
        assert!(kinds.contains(&(FindingKind::TornTail, torn)), "{kinds:?}");
        assert!(kinds.iter().any(|k| k.0 == FindingKind::Gap), "{kinds:?}");
    }
    let mut cut = seg;
    cut.file.truncate(first as usize + 8);
    let Some((out, err, _, _)) = both("cut", &build::store(vec![cut])) else { return };
    assert_eq!(out, "{}\n");
    assert_eq!(err.lines().count(), 1, "{err}");
}

#[test]
fn imports_show_when_published_only() {
    let mut seg = build::Segment::new(&Default::default());
    seg.create_pending(A, b"new", b"{\"new\":1}");
    seg.events(A, 0, &[note(0)]);
    seg.create(B, b"old", b"{\"old\":1}");
    seg.events(B, 0, &[note(0)]);
    seg.control(25, B, 1, 0, b"\x03\0\0\0tag");
    seg.events(B, 1, &[note(1), note(2)]);
    let Some((out, ..)) = both("hidden", &build::store(vec![seg.clone()])) else { return };
    let old = "{\"old\":1}\n{\"type\":\"note\",\"seq\":0,\"time\":1000,\"data\":{\"i\":0}}\n";
    assert!(out.starts_with(old), "{out}");
    assert_eq!(out.lines().count(), 4, "{out}");

    let mut done = seg.clone();
    done.control(24, A, 1, 0, &[]);
    done.events(B, 3, &[note(3)]);
    let (out, ..) = both("published", &build::store(vec![done])).unwrap();
    assert_eq!(out.lines().count(), 2 + 5, "{out}");
}

#[test]
fn two_claims_of_a_seq_are_reported_and_neither_is_chosen() {
    let (mut one, mut two) = (build::Segment::new(&Default::default()), lane2());
    one.create(A, b"a", b"{}");
    one.events(A, 0, &[note(0), note(1)]);
    two.take_over(A, 1, 1, at(1, 0));
    two.events(A, 1, &[note(7), note(8)]);
    let Some((out, err, _, store)) = both("twice", &build::store(vec![one, two])) else { return };
    assert!(!out.contains("\"seq\":1,") && out.contains("\"seq\":2,"), "{out}");
    assert!(err.contains("diverged"), "{err}");
    assert!(store.sessions[&b"a"[..]].diverged);

    let (mut one, mut two) = (build::Segment::new(&Default::default()), lane2());
    one.create(A, b"a", b"{}");
    one.events(A, 0, &[note(0)]);
    two.take_over(A, 2, 1, at(1, 1));
    two.events(A, 2, &[note(2)]);
    let (_, err, _, store) = both("lost", &build::store(vec![one, two])).unwrap();
    assert!(err.contains("diverged") && err.contains("seqs are missing"), "{err}");
    assert!(store.findings.iter().any(|f| f.kind == FindingKind::Diverged));
}

#[test]
fn a_recovery_cuts_the_segment_before() {
    let mut old = build::Segment::new(&Default::default());
    old.create(A, b"a", b"{}");
    old.events(A, 0, &[note(0)]);
    let end = old.end();
    old.events(A, 1, &[note(1)]);
    let mut new = old.next(3, 1, 99, end, 1);
    new.events(A, 1, &[note(100)]);
    let mut ahead = build::Files::new();
    ahead.insert("lanes/0001/0000000000000004.seg".into(), vec![0; 300_000]);
    ahead.insert("lanes/0001/0000000000000005.seg.tmp".into(), vec![7; 100]);
    let mut files = build::store(vec![old.clone(), new.clone()]);
    files.extend(ahead);
    let Some((out, _, code, _)) = both("recovered", &files) else { return };
    assert!(out.contains("{\"i\":100}") && !out.contains("{\"i\":1}"), "{out}");
    assert_eq!(code, 0);

    let (_, err, code, _) = both("lost segment", &build::store(vec![new])).unwrap();
    assert!(err.contains("missing"), "{err}");
    assert_eq!(code, 1);
    let mut short = old.clone();
    let next = old.next(2, 0, 99, old.end(), 2);
    short.file.truncate(end as usize);
    let (_, err, _, store) = both("lost tail", &build::store(vec![short, next])).unwrap();
    assert!(err.contains(&format!(": {end}: damaged")), "{err}");
    assert!(store.findings.iter().any(|f| f.kind == FindingKind::Damage && f.offset == end));
}

#[test]
fn continue_needs_no_event_at_the_start() {
    let (mut one, mut two) = (build::Segment::new(&Default::default()), lane2());
    one.create(A, b"a", b"{}");
    two.take_over(A, 0, 1, EventId { lane: 0, epoch: 0, gsn: NONE });
    two.events(A, 0, &(0..40).map(note).collect::<Vec<_>>());
    two.seal();
    let Some((out, ..)) = both("start", &build::store(vec![one, two])) else { return };
    assert_eq!(out.lines().count(), 41);
}

#[test]
fn newer_formats_stop_the_lane() {
    for (kind, flags) in [(32, 0), (26, 0), (1, 2), (2, 8), (127, 0)] {
        let mut seg = build::Segment::new(&Default::default());
        seg.create(A, b"a", b"{}");
        let mut f = seg.head(kind, 0, 0);
        (f.flags, f.count) = (flags, u16::from(kind == 1));
        seg.frame(f, b"", 0, 0);
        seg.events(A, 0, &[note(0)]);
        let Some((out, err, _, _)) = both("newer", &build::store(vec![seg])) else { return };
        assert_eq!(out, "{}\n");
        assert!(err.contains("newer format"), "{err}");
    }
    let mut seg = build::Segment::new(&Default::default());
    seg.create(A, b"a", b"{}");
    seg.frame(build::Segment::head(&seg, 200, 0, 0), b"what", 0, 0);
    seg.events(A, 0, &[note(0)]);
    let (out, _, code, _) = both("from 128", &build::store(vec![seg])).unwrap();
    assert_eq!((out.lines().count(), code), (2, 0));
}

#[test]
fn reader_and_oracle_agree_on_damaged_stores() {
    let mut x = 0x9E37_79B9_7F4A_7C15_u64;
    let mut below = |n: usize| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x % n as u64) as usize
    };
    for round in 0..24 {
        let (mut one, mut two) = moving();
        for seg in [&mut one, &mut two] {
            let end = seg.file.len();
            for _ in 0..below(3) {
                let at = if below(8) == 0 { below(128) } else { 4096 + below(end - 4096) };
                let n = (1 + below(40)).min(end - at).min(if at < 128 { 1 } else { 40 });
                let fill = [0, 0x55, 0xFF][below(3)];
                seg.file[at..at + n].fill(fill);
            }
            if below(3) == 0 {
                seg.file.truncate(end - below((end - 4096).min(90)));
            }
        }
        if both(&format!("damaged-{round}"), &build::store(vec![one, two])).is_none() {
            return;
        }
    }
}

#[test]
fn the_reader_is_short_enough_to_be_read() {
    let text = std::fs::read_to_string(script()).unwrap();
    assert!(text.lines().count() < 150, "{} lines", text.lines().count());
    assert!(text.lines().all(|l| l.len() <= 120));
}

#[test]
fn series_are_read_and_bad_ones_are_not() {
    let text = |i: u64, text: &str| {
        build::Draft::new("note", 1000 + i as i64, &format!("{{\"text\":\"{text}\"}}"))
    };
    let mut log: Vec<_> = (0..50).map(|i| text(i, &"\u{e9}".repeat(i as usize % 4))).collect();
    log[20] = note(20);
    log[21].ignorable = true;
    log[40].ty = b"\xED\xA0\x80".to_vec();
    let mut seg = build::Segment::new(&Default::default());
    seg.create(A, b"a", b"{}");
    let (mut plain, few) = (seg.clone(), [text(50, "x"), text(51, "")]);
    seg.columns(A, 0, &log);
    let last = seg.columns(A, 50, &few);
    plain.events(A, 0, &log);
    plain.events(A, 50, &few);
    let Some((out, _, code, _)) = both("series", &build::store(vec![seg.clone()])) else { return };
    let (same, ..) = both("no series", &build::store(vec![plain])).unwrap();
    assert_eq!((out.lines().count(), code), (53, 0));
    assert_eq!(out, same);
    // n, back, length of the prefix, a head bit.
    let payload = seg.file[last as usize + 48..].to_vec();
    let payload = payload[..usize::from(seg.file[last as usize + 4])].to_vec();
    let at = payload.iter().position(|b| *b == b'{').unwrap();
    for (at, byte) in [(at - 3, 3), (at - 3, 17), (at - 2, 90), (at - 1, 80), (at - 9, 0xA2)] {
        let (mut bad, mut file) = (seg.clone(), payload.clone());
        file[at] = byte;
        bad.file.truncate(last as usize);
        bad.gsn = 50;
        let mut f = bad.head(1, A, 50);
        (f.count, f.flags) = (2, 4);
        bad.frame(f, &file, 0, 0);
        let (out, err, code, _) = both("bad series", &build::store(vec![bad])).unwrap();
        assert_eq!((out.lines().count(), code), (51, 1), "{byte} at {at}: {err}");
        assert!(err.contains("breaks the format"), "{err}");
    }
}
