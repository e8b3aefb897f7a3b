//! The oracle's encoder and decoder against each other, on random and on hostile stores.
//!
//! 1. Random stores decode to exactly the drafts that were written, without a finding.
//! 2. Any flipped bit below the end of the frames is a finding, and only the events of its frame are lost.
//! 3. Random bytes in any file never panic.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use everlog_testkit::oracle::{
    DirImage, EventId, FindingKind, ForkPoint, FrameBody, Image, SurfaceOp, build, crc32, decode,
    index, write_out,
};

/// xorshift64.
struct Rng(u64);

impl Rng {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

const NO: u64 = 1 << 48;

fn draft(r: &mut Rng, seq: u64) -> build::Draft {
    let types = ["turn/start", "turn/end", "step/start", "request/header", "note", "x/\u{1f600}"];
    let mut d = build::Draft::new(
        types[r.below(6) as usize],
        r.below(1 << 40) as i64 - (1 << 39),
        &format!("{{\"text\":\"{}\"}}", "ab".repeat(r.below(60) as usize)),
    );
    match r.below(4) {
        0 => d = d.surface(SurfaceOp::Append, None),
        1 => {
            let (start, end) = (r.below(seq + 1), r.below(1 << 53));
            let sources: Vec<u64> = (0..r.below(5)).map(|_| r.below(seq + 1)).collect();
            d = d.surface(SurfaceOp::Replace { start, end }, Some(&sources));
            d.surface_first = r.below(2) == 1;
        }
        _ => d.ignorable = r.below(2) == 1,
    }
    d
}

/// Three segments of one lane, and what their sessions hold.
fn random_store(seed: u64, index: bool) -> (Vec<build::Segment>, Vec<Vec<build::Draft>>) {
    let mut r = Rng(seed * 2 + 1);
    let mut logs: Vec<Vec<build::Draft>> = vec![Vec::new(); 4];
    let mut done: Vec<build::Segment> = Vec::new();
    for number in 1..4 {
        let mut seg = match done.last() {
            None => build::Segment::new(&Default::default()),
            Some(last) => last.next(number * 2, 0, r.below(u64::MAX), last.end(), last.gsn),
        };
        for (i, log) in logs.iter().enumerate().filter(|_| number == 1) {
            assert!(log.is_empty());
            seg.create(NO + 1 + i as u64, format!("s{i}").as_bytes(), b"{\"h\":1}");
        }
        for _ in 0..30 {
            let i = r.below(4) as usize;
            let n = if r.below(8) == 0 { 33 + r.below(40) } else { 1 + r.below(5) };
            let first = logs[i].len() as u64;
            let new: Vec<_> = (0..n).map(|k| draft(&mut r, first + k)).collect();
            if r.below(3) == 0 {
                seg.columns(NO + 1 + i as u64, first, &new);
            } else {
                seg.events(NO + 1 + i as u64, first, &new);
            }
            logs[i].extend(new);
            if index && r.below(6) == 0 {
                seg.index();
            }
            if r.below(9) == 0 {
                seg.mark(2);
            }
        }
        if index {
            seg.seal();
        }
        done.push(seg);
    }
    (done, logs)
}

fn same(d: &build::Draft, e: &build::Draft) -> bool {
    format!("{d:?}") == format!("{e:?}")
}

#[test]
fn random_stores_come_back_whole() {
    for seed in 0..20 {
        let (segments, logs) = random_store(seed, seed % 2 == 0);
        let ends: Vec<(u64, u64)> = segments.iter().map(|s| (s.end(), s.gsn)).collect();
        let files = build::store(segments);
        let store = decode(&files);
        assert_eq!(store.findings, []);
        assert_eq!(index::check(&files, &store), []);
        let have: Vec<(u64, u64)> =
            store.lanes[0].segments.iter().map(|s| (s.end, s.next_gsn)).collect();
        assert_eq!(have, ends);
        for (i, log) in logs.iter().enumerate() {
            let s = &store.sessions[format!("s{i}").as_bytes()];
            assert_eq!(s.events.len(), log.len());
            for (k, (e, d)) in s.events.iter().zip(log).enumerate() {
                assert_eq!(e.seq, k as u64);
                assert!(same(&build::Draft::from(&**e), d), "{e:?} {d:?}");
            }
        }
        if seed % 2 == 0 {
            assert!(store.lanes[0].segments.iter().all(|s| s.trailer.is_some()));
        }
    }
}

#[test]
fn a_folder_reads_like_a_map() {
    let (segments, _) = random_store(3, true);
    let files = build::store(segments);
    let dir = std::env::temp_dir().join(format!("everlog-oracle-{}", std::process::id()));
    write_out(&files, &dir).unwrap();
    let (a, b) = (decode(&files), decode(&DirImage::new(&dir)));
    std::fs::remove_dir_all(&dir).unwrap();
    assert_eq!(format!("{a:?}"), format!("{b:?}"));
    assert!(files.list("lanes/0001").contains(&"lane".to_owned()));
    assert_eq!(files.list("lanes"), ["0001"]);
}

#[test]
fn every_flipped_bit_is_found_and_costs_its_frame_only() {
    let (segments, _) = random_store(5, false);
    let seg = segments.into_iter().next().unwrap();
    let end = seg.end() as usize;
    let clean = build::store(vec![seg.clone()]);
    let whole = decode(&clean);
    let frames = whole.lanes[0].segments[0].frames.clone();
    let mut r = Rng(99);
    for round in 0..400 {
        let at = if round < 100 {
            round * 40 % 4096
        } else {
            4096 + r.below(end as u64 - 4096) as usize
        };
        let mut files = clean.clone();
        files.get_mut(&seg.path()).unwrap()[at] ^= 1 << r.below(8);
        let store = decode(&files);
        assert!(!store.findings.is_empty(), "flip at {at} of {end} is not found");
        if at < 4096 {
            assert_eq!(store.findings[0].kind, FindingKind::Header);
            continue;
        }
        let kept = &store.lanes[0].segments[0].frames;
        let want: Vec<_> = frames
            .iter()
            .filter(|f| {
                let after = (f.offset + 48 + u64::from(f.len)).next_multiple_of(8);
                !(f.offset..after).contains(&(at as u64))
            })
            .cloned()
            .collect();
        assert_eq!(kept, &want, "flip at {at}");
    }
}

#[test]
fn hostile_bytes_do_not_panic() {
    let (mut segments, _) = random_store(8, true);
    let fork = ForkPoint {
        parent: NO + 1,
        boundary: 2,
        event: EventId { lane: 1, epoch: 0, gsn: 0 },
        owners: vec![(NO + 1, 3)],
    };
    let mut last = segments.pop().unwrap();
    last.fork(NO + 9, &fork, b"child", b"{}");
    last.control(21, NO + 1, 9, 0, &[&0u64.to_le_bytes()[..], &u64::MAX.to_le_bytes()].concat());
    segments.push(last);
    let good = build::store(segments.clone());
    let mut r = Rng(7);
    for _ in 0..150 {
        let mut files = good.clone();
        for bytes in files.values_mut() {
            for _ in 0..r.below(6) {
                let at = r.below(bytes.len().min(20_000) as u64) as usize;
                let n = (r.below(64) as usize).min(bytes.len() - at);
                let fill = r.below(256) as u8;
                bytes[at..at + n].fill(fill);
            }
            if r.below(9) == 0 {
                bytes.truncate(r.below(bytes.len() as u64 + 1) as usize);
            }
        }
        let store = decode(&files);
        let _ = index::check(&files, &store);
    }
    // Random payloads and header fields under good checksums.
    for _ in 0..3000 {
        let mut seg = build::Segment::new(&Default::default());
        seg.create(NO + 1, b"a", b"{}");
        let n = r.below(80) as usize;
        let small = r.below(2) == 0;
        let payload: Vec<u8> = (0..n).map(|_| r.below(if small { 4 } else { 256 }) as u8).collect();
        let kinds = [1, 2, 3, 4, 16, 17, 18, 19, 21, 24, 25, 40, 200];
        let extremes = [0, 1, 1 << 53, u64::MAX - 1, u64::MAX];
        let mut f = seg.head(kinds[r.below(13) as usize], NO + 1, extremes[r.below(5) as usize]);
        f.gsn = extremes[r.below(5) as usize];
        (f.count, f.flags) = (r.below(70) as u16, r.below(6) as u8);
        seg.frame(f, &payload, 0, 0);
        let files = build::store(vec![seg]);
        let store = decode(&files);
        assert!(store.sessions.contains_key(&b"a"[..]));
        let _ = index::check(&files, &store);
    }
}

fn one_frame(payload: &[u8], count: u16, flags: u8) -> bool {
    let mut seg = build::Segment::new(&Default::default());
    seg.create(NO + 1, b"a", b"{}");
    let mut f = seg.head(1, NO + 1, 0);
    (f.count, f.flags) = (count, flags);
    seg.frame(f, payload, 0, 0);
    let store = decode(&build::store(vec![seg]));
    let bad = store.findings.iter().any(|f| f.kind == FindingKind::Payload);
    assert_eq!(bad, store.sessions[&b"a"[..]].events.is_empty());
    !bad
}

#[test]
fn payload_rules_of_events() {
    assert!(one_frame(&[0, 0, 1, 0, 1, b'7'], 1, 0));
    let bad: [(&[u8], u16); 14] = [
        (&[0, 0, 1, 0, 1, b'7'], 2),
        (&[0, 0, 1, 0, 1, b'7', 0], 1),
        (&[0, 0, 1, 0, 0], 1),
        (&[0, 0, 0, 0, 1, b'7'], 1),
        (&[0, 0, 49, 0, 1, b'7'], 1),
        (&[0, 0, 1, 2, 1, b'7'], 1),
        (&[0, 6, 1, 0, 0, 0, 1, b'7'], 1),
        (&[0, 0x80, 1, 1, 0, 1, b'7'], 1),
        (&[0x80, 0, 0, 1, 0, 1, b'7'], 1),
        (&[0, 8, 1, 0, 1, 1, 1, b'7'], 1),
        (&[0, 8, 1, 0, 200, 1, 1, b'7'], 1),
        (&[0, 32, 2, 0xC0, 0x80, 0, 1, b'7'], 1),
        (&[0, 0, 1, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F, b'7'], 1),
        (&[0, 0, 1, 0, 1, b'7'], 0),
    ];
    for (payload, count) in bad {
        assert!(!one_frame(payload, count, 0), "{payload:?} {count}");
    }
    let mut coded = vec![0, 32, 10];
    coded.extend(b"turn/start\0\x017");
    assert!(!one_frame(&coded, 1, 0), "a coded type as text");
    let drafts: Vec<_> = (0..50).map(|i| build::Draft::new("note", i, "1")).collect();
    let good = build::events_payload(0, &drafts);
    assert!(one_frame(&good, 50, 1) && !one_frame(&good, 50, 0));
    for back in [1, 9, 12, 13, 36] {
        let mut bad = good.clone();
        let at = bad.len() - back;
        bad[at] ^= 1;
        assert!(!one_frame(&bad, 50, 1), "restart byte {back} from the end");
    }
    let records = good.len() - 36;
    assert!(!one_frame(&good[..records], 50, 0), "more than 32 events without a table");
}

#[test]
fn payload_rules_of_series() {
    // Time 0, SERIES, code 1, two events, a new template `[` and `]`, times, lengths, texts.
    let good = *b"\0\x80\x01\x01\x02\0\x01[\x01]\0\x05\x01\x0178";
    assert!(one_frame(&good, 2, 4) && !one_frame(&good, 2, 0));
    assert!(!one_frame(&good, 1, 4) && !one_frame(&good, 3, 4));
    // Head APPEND, n, back, lengths of prefix and suffix, first time, lengths of texts.
    for (at, byte) in [
        (1, 0x82),
        (4, 0),
        (4, 1),
        (4, 3),
        (5, 1),
        (5, 2),
        (6, 9),
        (8, 9),
        (10, 2),
        (12, 0),
        (13, 2),
    ] {
        let mut bad = good;
        bad[at] = byte;
        assert!(!one_frame(&bad, 2, 4), "{byte} at {at}");
    }
    let drafts: Vec<_> = (0..40).map(|i| build::Draft::new("note", i, &format!("[{i}]"))).collect();
    let good = build::columns_payload(0, &drafts, "[", "]");
    assert!(one_frame(&good, 40, 5) && !one_frame(&good, 40, 4) && !one_frame(&good, 40, 1));
    assert!(good.len() < 40 * 5 + 50);
    let long = |n: usize| {
        build::columns_payload(
            0,
            &[build::Draft::new("note", 1, &"1".repeat(n))],
            &"1".repeat(n),
            "",
        )
    };
    assert!(one_frame(&long(1024), 1, 4) && !one_frame(&long(1025), 1, 4));
}

#[test]
fn an_index_that_lies_is_found_and_costs_nothing() {
    let mut seg = build::Segment::new(&Default::default());
    seg.create(NO + 1, b"a", b"{}");
    seg.events(NO + 1, 0, &[build::Draft::new("turn/start", 1, "{}")]);
    let at = seg.index() as usize;
    let payload = seg.file[at + 48..].to_vec();
    let len = u32::from_le_bytes(seg.file[at + 4..at + 8].try_into().unwrap()) as usize;
    let view = index::decode(&payload[..len]).unwrap();
    assert_eq!((view.runs[0].marks.as_slice(), view.controls.len()), (&[(0, 1)][..], 1));
    let mut lying = build::Segment::new(&Default::default());
    lying.create(NO + 1, b"a", b"{}");
    lying.events(NO + 1, 0, &[build::Draft::new("turn/end", 1, "{}")]);
    lying.frame(lying.head(3, 0, 4096), &payload[..len], 0, 0);
    let files = build::store(vec![lying]);
    let store = decode(&files);
    assert_eq!(store.findings, []);
    assert_eq!(store.sessions[&b"a"[..]].events.len(), 1);
    assert_eq!(index::check(&files, &store)[0].kind, FindingKind::Index);
}

#[test]
fn store_lane_and_header_checks() {
    let (segments, _) = random_store(1, false);
    let good = build::store(segments.clone());
    let kinds = |files: &build::Files| -> Vec<FindingKind> {
        decode(files).findings.iter().map(|f| f.kind).collect()
    };
    assert_eq!(kinds(&good), []);
    let mut files = good.clone();
    files.remove("STORE");
    assert_eq!(kinds(&files), [FindingKind::Store]);
    let mut files = good.clone();
    files.get_mut("STORE").unwrap()[30] ^= 1;
    assert_eq!(kinds(&files), [FindingKind::Store]);
    let mut files = good.clone();
    let b = files.get_mut("STORE").unwrap();
    b[8] = 2;
    let crc = crc32(&b[..60]);
    b[60..].copy_from_slice(&crc.to_le_bytes());
    assert_eq!(kinds(&files), [FindingKind::Newer]);
    let mut files = good.clone();
    files.get_mut("lanes/0001/lane").unwrap()[9] ^= 1;
    assert_eq!(kinds(&files), [FindingKind::LaneFile]);
    let mut files = good.clone();
    let one = files[&segments[0].path()].clone();
    files.insert("lanes/0001/0000000000000009.seg".into(), one.clone());
    files.insert("lanes/0007/0000000000000001.seg".into(), one);
    let found = kinds(&files);
    assert!(found.iter().filter(|k| **k == FindingKind::Header).count() == 2, "{found:?}");
    let mut files = good.clone();
    files.remove(&segments[1].path());
    let found = kinds(&files);
    assert!(
        found.contains(&FindingKind::Missing) && found.contains(&FindingKind::Gap),
        "{found:?}"
    );
    // The slot says more is durable than is there: lost, not torn.
    let mut seg = segments[0].clone();
    let at = seg.end();
    let spec = build::SlotSpec {
        counter: 9,
        store_id: seg.spec.store_id,
        lane: 1,
        segment: 1,
        salt: seg.spec.salt,
        durable_end: at,
        ..Default::default()
    };
    seg.file.truncate(at as usize - 8);
    let mut files = build::store(vec![seg]);
    files.insert("lanes/0001/lane".into(), build::lane_file(&[], &build::slot(&spec)));
    assert!(kinds(&files).contains(&FindingKind::Damage));
}

#[test]
fn ids_and_unknown_sessions() {
    let mut seg = build::Segment::new(&Default::default());
    seg.create_pending(NO + 1, b"a", b"{\"n\":1}");
    seg.create(NO + 2, b"a", b"{\"n\":2}");
    let store = decode(&build::store(vec![seg.clone()]));
    assert_eq!((store.findings.len(), store.sessions[&b"a"[..]].no), (0, NO + 2));
    assert_eq!(store.shadowed.len(), 1);
    seg.time += 5;
    seg.control(24, NO + 1, 0, 0, &[]);
    seg.events(NO + 3, 0, &[build::Draft::new("note", 1, "1")]);
    let store = decode(&build::store(vec![seg]));
    assert_eq!(store.sessions[&b"a"[..]].no, NO + 2);
    let kinds: Vec<_> = store.findings.iter().map(|f| f.kind).collect();
    assert_eq!(kinds.iter().filter(|k| **k == FindingKind::DuplicateId).count(), 1, "{kinds:?}");
    assert!(kinds.contains(&FindingKind::Orphan), "{kinds:?}");
}

#[test]
#[ignore = "prints a time"]
fn speed() {
    let mut seg = build::Segment::new(&Default::default());
    seg.create(NO + 1, b"a", b"{}");
    let mut r = Rng(1);
    let mut seq = 0;
    while seg.end() < 200 * 1024 {
        let new: Vec<_> = (0..4).map(|k| draft(&mut r, seq + k)).collect();
        seg.events(NO + 1, seq, &new);
        seq += 4;
    }
    let files = build::store(vec![seg]);
    let mut best = u128::MAX;
    for _ in 0..200 {
        let t = std::time::Instant::now();
        let store = decode(&files);
        best = best.min(t.elapsed().as_nanos());
        assert!(matches!(store.lanes[0].segments[0].frames[0].body, FrameBody::Control(_)));
    }
    let mut empty =
        build::Segment::new(&build::SegmentSpec { capacity: 4 << 20, ..Default::default() });
    empty.create(NO + 1, b"a", b"{}");
    let files = build::store(vec![empty]);
    let t = std::time::Instant::now();
    let _ = decode(&files);
    println!("200 KiB, {seq} events: {best} ns; 4 MiB of zeros: {:?}", t.elapsed());
}
