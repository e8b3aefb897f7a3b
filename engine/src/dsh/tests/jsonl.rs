//! JSONL of any tool: an event a line, everything else beside it, and the same bytes back.

use super::{Dribble, HEADER, Kept, compress, sample};
use crate::dsh::{
    ImportOptions, ImportOutcome, JsonlWriter, is_jsonl_header, read_jsonl, read_log,
};
use crate::{ErrorKind, Result, SessionId};

fn options() -> ImportOptions {
    ImportOptions { name: SessionId::new("log").ok(), ..ImportOptions::default() }
}

fn read(text: &[u8]) -> Result<(ImportOutcome, Kept)> {
    let mut kept = Kept::default();
    let outcome = read_jsonl(text, &options(), &mut kept)?;
    assert_eq!(outcome.events, kept.events.len() as u64);
    assert!(kept.events.iter().all(|event| event.ignorable));
    Ok((outcome, kept))
}

fn write(kept: &Kept) -> Vec<u8> {
    let (mut out, mut writer) = (Vec::new(), JsonlWriter::default());
    for event in &kept.events {
        writer.push(&event.as_ref(), &mut out).unwrap();
    }
    writer.finish(&mut out);
    out
}

/// The input without what is left out: the mark at the start, blank lines, returns before newlines.
fn plain(text: &[u8]) -> Vec<u8> {
    let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
    let blank = |line: &[u8]| line.iter().all(|byte| b" \t\r\n".contains(byte));
    let mut out = Vec::new();
    for line in text.split_inclusive(|byte| *byte == b'\n').filter(|line| !blank(line)) {
        match line.strip_suffix(b"\r\n") {
            Some(bare) => out.extend_from_slice(&[bare, b"\n"].concat()),
            None => out.extend_from_slice(line),
        }
    }
    out
}

fn types(kept: &Kept) -> Vec<String> {
    kept.events.iter().map(|e| String::from_utf8_lossy(&e.event_type).into_owned()).collect()
}

#[test]
fn n1_n2_lines_are_events_and_the_rest_stands_in_its_place() {
    let text = concat!(
        "{\"type\":\"user\",\"time\":5}\n",
        " {\"type\":7, \"time\":1.5} \n",
        "[1]\n",
        "{\"type\":\"a\",\"type\":\"b\"}{\"type\":\"c\",\"time\":9}\n",
        "{\"type\":\"x\",\"data\":\"cut{\"type\":\"x\",\"data\":\"cut once\"}\n",
        "{\"type\":\"\"}\n",
        "{\"type\":\"torn",
    );
    let (outcome, kept) = read(text.as_bytes()).unwrap();
    let salvaged = "everlog/salvaged";
    let want = [
        "jsonl/user",
        "jsonl/line",
        salvaged,
        "jsonl/b",
        salvaged,
        "jsonl/c",
        salvaged,
        "jsonl/x",
        "jsonl/line",
        salvaged,
    ];
    assert_eq!(types(&kept), want);
    assert_eq!(&*kept.events[1].data, b" {\"type\":7, \"time\":1.5} ");
    let times: Vec<i64> = kept.events.iter().map(|e| e.time_ms).collect();
    assert_eq!(times, [5, 5, 5, 5, 5, 9, 9, 9, 9, 9]);
    assert_eq!((outcome.salvaged, outcome.torn_bytes), (4, 13));
    let named: Vec<u64> = outcome.aside.iter().map(|range| range.first).collect();
    assert_eq!(named, [3, 4, 5, 7]);
    assert!(outcome.warnings[0].to_string().ends_with("were kept aside"));
    assert_eq!(write(&kept), text.as_bytes());
    let header = kept.header.unwrap();
    assert!(is_jsonl_header(&header.text) && header.view.created_at_ms == 5);
}

#[test]
fn n3_n4_every_byte_comes_back_but_what_is_left_out() {
    let pieces: [&[u8]; 16] = [
        b"",
        b"\n",
        b"\r\n",
        b"  \n",
        b"{\"type\":\"a\"}",
        b"{\"a\":1}\n",
        b"{\"b\":[]}\r\n",
        b"\0\0\0",
        b"\xff\xfe\n",
        b"{\"cut\":\"",
        b"\xEF\xBB\xBF",
        b"12\n",
        b"{\"c\":\"\xc3",
        b" ",
        b"\"",
        b"}\n",
    ];
    let mut rng = everlog_testkit::rng::Rng::new(7);
    for _ in 0..20_000 {
        let count = rng.below(9);
        let text: Vec<u8> = (0..count)
            .flat_map(|_| pieces[rng.below(pieces.len() as u64) as usize])
            .copied()
            .collect();
        // One value over several lines is refused, see n5.
        let Ok((outcome, kept)) = read(&text) else { continue };
        let shown = String::from_utf8_lossy(&text).into_owned();
        assert_eq!(
            String::from_utf8_lossy(&write(&kept)),
            String::from_utf8_lossy(&plain(&text)),
            "{shown:?}"
        );
        assert_eq!(outcome.lines, text.split_inclusive(|byte| *byte == b'\n').count() as u64);
        // However the input is cut, and as a part of a longer one, it is the same.
        let mut again = Kept::default();
        read_jsonl(Dribble::new(&text, vec![1, 5, 2]), &options(), &mut again).unwrap();
        assert_eq!(again.events, kept.events, "{shown:?}");
    }
}

#[test]
fn limits_stop_nothing() {
    let long = format!("{{\"type\":\"m\",\"t\":\"{}\"}}", "x\\u0000".repeat(500));
    let nested = format!("{{\"a\":{}1{}}}", "[".repeat(70), "]".repeat(70));
    let text = ["{\"n\":0}", &long, "{\"n\":1}", &nested, "\0\0\0\0", "{\"n\":2}"].join("\n");
    for (line_bytes_max, event_bytes_max) in [(1_000, 48 << 20), (64 << 20, 1_000), (700, 600)] {
        let options = ImportOptions { line_bytes_max, event_bytes_max, depth_max: 64, ..options() };
        let mut kept = Kept::default();
        let outcome = read_jsonl(text.as_bytes(), &options, &mut kept).unwrap();
        assert_eq!(write(&kept), text.as_bytes());
        assert_eq!(types(&kept).iter().filter(|t| *t == "jsonl/line").count(), 3);
        assert_eq!(outcome.salvaged, 3);
    }
}

#[test]
fn n5_a_document_is_no_jsonl() {
    let wide = format!("[\n{}1\n]\n", "1,\n".repeat(900_000));
    for text in ["{\n \"a\": 1\n}\n", "\u{feff}[\n1,\n2]", "[\n\n]\n\n", &wide, &wide[..2_000_000]]
    {
        let e = read(text.as_bytes()).err().unwrap();
        assert_eq!((e.kind(), e.field()), (ErrorKind::Invalid, Some("format")));
        assert!(e.message().contains("one JSON document, not JSONL"));
    }
    for text in
        ["{\"a\":1}\n", "[1]\n[2]\n", "{\n}\n{\n}\n", "{\"torn\":\n{\"n\":1}\n{\"n\":2}\n", "{\"a"]
    {
        let (_, kept) = read(text.as_bytes()).unwrap();
        assert_eq!(write(&kept), text.as_bytes());
    }
    let nameless = read_jsonl(&b"{}\n"[..], &ImportOptions::default(), &mut Kept::default());
    assert_eq!(nameless.unwrap_err().field(), Some("id"));
}

#[test]
fn compressed_lines_are_read_and_damaged_frames_kept() {
    let packed = compress(&sample(), 3);
    let (_, kept) = read(&packed).unwrap();
    assert_eq!(write(&kept), sample().as_bytes());
    let starts: Vec<usize> =
        (0..packed.len()).filter(|at| packed[*at..].starts_with(b"\x28\xB5\x2F\xFD")).collect();
    let mut damaged = packed.clone();
    damaged[starts[2] - 1] ^= 1;
    let (outcome, kept) = read(&damaged).unwrap();
    assert_eq!((outcome.salvaged, kept.events.len()), (1, 1 + 7 + 1));
}

#[test]
fn a_session_of_lines_goes_through_a_log_of_dsh() {
    let text = format!("{HEADER}{{\"n\":1}}{{\"n\":2}}\n\0x\n{{\"end\":1}}");
    let (_, kept) = read(text.as_bytes()).unwrap();
    let log = kept.export(false);
    let mut again = Kept::default();
    read_log(&log[..], &ImportOptions::default(), &mut again).unwrap();
    assert!(is_jsonl_header(&again.header.as_ref().unwrap().text));
    // The mark of an input without a newline at its end cannot stand in a line.
    assert_eq!(write(&again), [text.as_bytes(), b"\n"].concat());
}
