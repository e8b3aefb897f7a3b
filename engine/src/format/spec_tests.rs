//! docs/format.md against the code: every row of its tables, then the bytes that the encoders really write.
//!
//! 1. Tables are compared whole and in order: a row, size, name or table more or less is a difference.
//! 2. Every field of a structure is written with a value of its own and read back at the place that the page gives it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use super::codec::{crc, is_zero, u32_at, u64_at};
use super::columns::{self, Columns};
use super::control::{self, Body, Control};
use super::event_types::{self, code_of, mark};
use super::events::{self, head};
use super::frame::{self, FrameHeader, flag, kind};
use super::index_frame;
use super::lock_record::{self, LockRecord};
use super::segment::{self, Prev, SegmentHeader, Trailer};
use super::slot::{self, LaneState, Slot};
use super::store_file::{self, StoreFile};
use super::{Fault, FieldRow};
use crate::event::{NewEvent, SurfaceOp};
use crate::limits;
use crate::types::SessionNo;

const PAGE: &str = include_str!("../../../docs/format.md");

/// One table: its heading without the `###`, and the cells of its rows.
type Table = (String, Vec<Vec<String>>);

/// All tables of a page whose heading says so, and the line of each row, from 0.
fn tables(page: &str) -> (Vec<Table>, Vec<Vec<usize>>) {
    let (mut out, mut places): (Vec<Table>, Vec<Vec<usize>>) = (Vec::new(), Vec::new());
    let mut open = false;
    for (no, line) in page.lines().enumerate() {
        if let Some(title) = line.strip_prefix("### Table: ") {
            out.push((title.to_owned(), Vec::new()));
            places.push(Vec::new());
            open = true;
        } else if let (true, Some(row)) = (open, line.strip_prefix('|')) {
            let row = row.strip_suffix('|').unwrap_or(row);
            out.last_mut().unwrap().1.push(row.split('|').map(|c| c.trim().to_owned()).collect());
            places.last_mut().unwrap().push(no);
        } else {
            open &= out.last().is_some_and(|(_, rows)| rows.is_empty());
        }
    }
    // The first two rows of each are the names of the columns and the line under them.
    for ((_, rows), places) in out.iter_mut().zip(&mut places) {
        rows.drain(..rows.len().min(2));
        places.drain(..places.len().min(2));
    }
    (out, places)
}

/// A table as the code has it: heading, and the columns of each row that are compared.
fn fields(name: &str, len: usize, rows: &[FieldRow]) -> Table {
    let cells = |r: &FieldRow| vec![r.0.to_string(), r.1.to_string(), r.2.to_owned()];
    (format!("{name} ({len} bytes)"), rows.iter().map(cells).collect())
}

fn named<T: ToString>(name: &str, rows: &[(T, &str)]) -> Table {
    let cells = |(n, s): &(T, &str)| vec![n.to_string(), (*s).to_owned()];
    (name.to_owned(), rows.iter().map(cells).collect())
}

fn head_bits() -> [(u32, &'static str); 8] {
    [
        (head::IGNORABLE.trailing_zeros(), "IGNORABLE"),
        (head::APPEND.trailing_zeros(), "APPEND"),
        (head::REPLACE.trailing_zeros(), "REPLACE"),
        (head::SOURCES.trailing_zeros(), "SOURCES"),
        (head::SURFACE_FIRST.trailing_zeros(), "SURFACE_FIRST"),
        (head::TYPE_TEXT.trailing_zeros(), "TYPE_TEXT"),
        (head::ALL.trailing_ones(), "VALUE_REF"),
        (head::SERIES.trailing_zeros(), "SERIES"),
    ]
}

fn limits_table() -> Table {
    let event = format!(
        "data of one event, bytes (option up to 2^{})",
        limits::EVENT_BYTES_CEILING.trailing_zeros()
    );
    assert!(limits::EVENT_BYTES_CEILING.is_power_of_two());
    let rows = [
        (event.as_str(), limits::EVENT_BYTES_MAX as u64),
        ("events in one frame", limits::BATCH_EVENTS_MAX as u64),
        ("payload of one frame, bytes", limits::FRAME_PAYLOAD_BYTES_MAX as u64),
        ("payload of an INDEX frame, bytes", limits::INDEX_PAYLOAD_BYTES_MAX as u64),
        ("session id, bytes", limits::SESSION_ID_BYTES_MAX as u64),
        ("event type, bytes", limits::EVENT_TYPE_BYTES_MAX as u64),
        ("header text, bytes", limits::HEADER_BYTES_MAX as u64),
        ("prefix and suffix of a template, bytes", limits::TEMPLATE_BYTES_MAX as u64),
        ("seq, gsn", limits::SAFE_INTEGER_MAX),
        ("lanes", limits::LANES_MAX as u64),
        ("smallest segment, bytes", limits::SEGMENT_BYTES_MIN),
        ("largest segment, bytes", limits::SEGMENT_BYTES_CEILING),
    ];
    let cells = |(s, n): &(&str, u64)| vec![(*s).to_owned(), n.to_string()];
    ("limits".to_owned(), rows.iter().map(cells).collect())
}

/// All tables as the code has them, in the order of the page.
fn of_code() -> Vec<Table> {
    let codes: Vec<(usize, &str)> =
        event_types::KNOWN.iter().enumerate().map(|(i, t)| (i + 1, *t)).collect();
    vec![
        fields("STORE", store_file::LEN, store_file::FIELDS),
        fields("slot", slot::LEN, slot::FIELDS),
        fields("segment header", segment::USED, segment::FIELDS),
        fields("trailer", segment::TRAILER_LEN as usize, segment::TRAILER_FIELDS),
        fields("frame header", frame::HEADER_BYTES, frame::FIELDS),
        named("kinds", &kind::ALL),
        named("flags", &flag::ALL),
        named("head bits", &head_bits()),
        named("series", columns::FIELDS),
        named("type codes", &codes),
        fields("INDEX header", index_frame::HEADER_LEN, index_frame::FIELDS),
        named("mark classes", &mark::ALL),
        fields("control prefix", 16, control::PREFIX_FIELDS),
        fields("lock record", lock_record::LEN, lock_record::FIELDS),
        fields("creator record", lock_record::CREATOR_LEN, lock_record::CREATOR_FIELDS),
        limits_table(),
    ]
}

/// Where a page and the code differ, one line each.
fn differences(page: &str) -> Vec<String> {
    let (page, code) = (tables(page).0, of_code());
    let mut out = Vec::new();
    if page.len() != code.len() {
        out.push(format!("{} tables on the page, {} in the code", page.len(), code.len()));
    }
    for ((title, rows), (wanted, known)) in page.iter().zip(&code) {
        if title != wanted {
            out.push(format!("table {title:?} on the page, {wanted:?} in the code"));
        }
        if rows.len() != known.len() {
            out.push(format!("{title}: {} rows, {} in the code", rows.len(), known.len()));
        }
        for (row, cells) in rows.iter().zip(known) {
            if row.get(..cells.len()) != Some(cells) {
                out.push(format!("{title}: {row:?} on the page, {cells:?} in the code"));
            }
        }
    }
    out
}

#[test]
fn f4_the_tables_of_the_page_are_those_of_the_code() {
    assert_eq!(differences(PAGE), Vec::<String>::new());
}

#[test]
fn a_change_of_any_row_of_the_page_is_found() {
    let lines: Vec<&str> = PAGE.lines().collect();
    let with = |no: usize, line: &str| {
        let mut changed = lines.clone();
        changed[no] = line;
        differences(&changed.join("\n"))
    };
    let mut rows = 0;
    for ((_, known), places) in of_code().iter().zip(tables(PAGE).1) {
        for (cells, no) in known.iter().zip(places) {
            rows += 1;
            assert_eq!(with(no, lines[no]), Vec::<String>::new());
            assert!(!with(no, "").is_empty(), "without line {}", no + 1);
            for cell in cells {
                let other = lines[no].replacen(cell, &format!("{cell}0"), 1);
                assert!(!with(no, &other).is_empty(), "line {} as {other}", no + 1);
            }
        }
    }
    let title = PAGE.replace("### Table: flags", "### Flags");
    assert!(!differences(&title).is_empty(), "a table less");
    assert!(rows > 150, "{rows} rows were changed");
}

#[test]
fn fields_fill_their_structures_without_gap_or_overlap() {
    let structures = [
        (store_file::LEN, store_file::FIELDS),
        (slot::LEN, slot::FIELDS),
        (segment::USED, segment::FIELDS),
        (segment::TRAILER_LEN as usize, segment::TRAILER_FIELDS),
        (frame::HEADER_BYTES, frame::FIELDS),
        (index_frame::HEADER_LEN, index_frame::FIELDS),
        (16, control::PREFIX_FIELDS),
        (lock_record::LEN, lock_record::FIELDS),
    ];
    for (len, rows) in structures {
        let mut at = 0;
        for (offset, size, name) in rows {
            assert_eq!(*offset, at, "{name}");
            at += size;
        }
        assert_eq!(at, len);
    }
}

/// Bytes of a field by its name.
fn field<'a>(b: &'a [u8], rows: &[FieldRow], name: &str) -> &'a [u8] {
    let (offset, size, _) = rows.iter().find(|r| r.2 == name).unwrap();
    &b[*offset..offset + size]
}

/// Compares all fields of a structure with what they should hold. Every row must be named, `crc` excepted.
fn compare(b: &[u8], rows: &[FieldRow], wanted: &[(&str, &[u8])]) {
    for (name, bytes) in wanted {
        assert_eq!(field(b, rows, name), *bytes, "{name}");
    }
    let named: Vec<&str> = wanted.iter().map(|w| w.0).collect();
    for (offset, _, name) in rows.iter().filter(|r| !named.contains(&r.2)) {
        assert_eq!(*name, "crc", "a field that the test leaves out");
        assert_eq!(u32_at(b, *offset), crc(&b[..*offset]));
    }
}

#[test]
fn store_is_written_as_the_page_says() {
    let file = StoreFile {
        store_id: *b"0123456789abcdef",
        created_ms: -0x1122_3344,
        shared_with_group: true,
        default_level: 2,
    };
    let b = file.encode();
    compare(
        &b,
        store_file::FIELDS,
        &[
            ("magic", b"\x89EVL\r\n\x1a\n"),
            ("format_major", &[1, 0]),
            ("format_minor", &[0, 0]),
            ("incompat_flags", &[0; 4]),
            ("compat_flags", &[0; 4]),
            ("access", &[1, 0, 0, 0]),
            ("store_id", b"0123456789abcdef"),
            ("created_ms", &(-0x1122_3344_i64).to_le_bytes()),
            ("default_level", &[2, 0, 0, 0]),
            ("reserved", &[0; 8]),
        ],
    );
    assert_eq!(StoreFile::decode(&b), Ok(file));
}

#[test]
fn a_slot_is_written_as_the_page_says() {
    let slot = Slot {
        counter: 0x0101,
        store_id: *b"0123456789abcdef",
        lane: 0x0203,
        state: LaneState::Poisoned,
        epoch: 0x0405_0607,
        segment: 0x11,
        salt: 0x1213_1415_1617_1819,
        written_end: 0x21,
        durable_end: 0x22,
        durable_gsn: 0x23,
        index_offset: 0x24,
        boot_id: *b"fedcba9876543210",
        pid: 0x3132_3334,
        since_ms: -7,
        host: "h".repeat(70),
        label: "me".to_owned(),
    };
    let b = slot.encode();
    let mut label = [0; 64];
    label[..2].copy_from_slice(b"me");
    compare(
        &b,
        slot::FIELDS,
        &[
            ("magic", b"\x89EVLLN\r\n"),
            ("counter", &0x0101_u64.to_le_bytes()),
            ("store_id", b"0123456789abcdef"),
            ("lane", &[3, 2]),
            ("state", &[2, 0]),
            ("epoch", &[7, 6, 5, 4]),
            ("segment", &0x11_u64.to_le_bytes()),
            ("salt", &0x1213_1415_1617_1819_u64.to_le_bytes()),
            ("written_end", &0x21_u64.to_le_bytes()),
            ("durable_end", &0x22_u64.to_le_bytes()),
            ("durable_gsn", &0x23_u64.to_le_bytes()),
            ("index_offset", &0x24_u64.to_le_bytes()),
            ("boot_id", b"fedcba9876543210"),
            ("pid", &[0x34, 0x33, 0x32, 0x31]),
            ("reserved", &[0; 4]),
            ("since_ms", &(-7_i64).to_le_bytes()),
            ("host", &[b'h'; 64]),
            ("label", &label),
            ("reserved2", &[0; 4]),
        ],
    );
    for (state, no) in [(LaneState::Open, 0), (LaneState::Closed, 1)] {
        let b = Slot { state, ..slot.clone() }.encode();
        assert_eq!(field(&b, slot::FIELDS, "state"), [no, 0]);
    }
    assert_eq!(Slot::decode(&b), Ok(Slot { host: "h".repeat(64), ..slot }));
}

#[test]
fn a_segment_header_is_written_as_the_page_says() {
    let header = SegmentHeader {
        store_id: *b"0123456789abcdef",
        lane: 0x0203,
        segment: 0x11,
        salt: 0x1213_1415_1617_1819,
        epoch: 0x0405_0607,
        base_gsn: 0x21,
        next_session: 0x22,
        prev: Some(Prev { segment: 0x10, end: 0x24, salt: 0x25 }),
        capacity: 0x40_0000,
        created_ms: -8,
    };
    let b = header.encode();
    compare(
        &b[..segment::USED],
        segment::FIELDS,
        &[
            ("magic", b"\x89EVLSG\r\n"),
            ("format_major", &[1, 0]),
            ("format_minor", &[0, 0]),
            ("incompat_flags", &[0; 4]),
            ("compat_flags", &[0; 4]),
            ("lane", &[3, 2]),
            ("kind", &[0, 0]),
            ("store_id", b"0123456789abcdef"),
            ("segment", &0x11_u64.to_le_bytes()),
            ("salt", &0x1213_1415_1617_1819_u64.to_le_bytes()),
            ("epoch", &[7, 6, 5, 4]),
            ("reserved", &[0; 4]),
            ("base_gsn", &0x21_u64.to_le_bytes()),
            ("next_session", &0x22_u64.to_le_bytes()),
            ("prev_segment", &0x10_u64.to_le_bytes()),
            ("prev_end", &0x24_u64.to_le_bytes()),
            ("prev_salt", &0x25_u64.to_le_bytes()),
            ("capacity", &0x40_0000_u64.to_le_bytes()),
            ("created_ms", &(-8_i64).to_le_bytes()),
            ("reserved2", &[0; 4]),
        ],
    );
    assert!(b.len() == 4_096 && is_zero(&b[segment::USED..]));
    assert_eq!(SegmentHeader::decode(&b), Ok(header));
    let first = SegmentHeader { prev: None, ..header }.encode();
    assert_eq!(field(&first, segment::FIELDS, "prev_segment"), [0xFF; 8]);
}

#[test]
fn a_trailer_is_written_as_the_page_says() {
    let trailer = Trailer {
        index_offset: 4_104,
        frames_end: 5_000,
        next_gsn: 0x23,
        salt: 0x1213_1415_1617_1819,
        next_session: 0x25,
        segment: 0x26,
    };
    let b = trailer.encode();
    compare(
        &b,
        segment::TRAILER_FIELDS,
        &[
            ("magic", b"\x89EVLTR\r\n"),
            ("index_offset", &4_104_u64.to_le_bytes()),
            ("frames_end", &5_000_u64.to_le_bytes()),
            ("next_gsn", &0x23_u64.to_le_bytes()),
            ("salt", &0x1213_1415_1617_1819_u64.to_le_bytes()),
            ("next_session", &0x25_u64.to_le_bytes()),
            ("segment", &0x26_u64.to_le_bytes()),
            ("reserved", &[0; 4]),
        ],
    );
    assert_eq!(Trailer::decode(&b, 0x26, trailer.salt, 1 << 18), Ok(trailer));
}

fn header(kind: u8) -> FrameHeader {
    FrameHeader {
        len: 0x0102,
        pcrc: 0x1112_1314,
        kind,
        flags: u8::from(kind == kind::EVENTS),
        count: if kind == kind::EVENTS { 0x0304 } else { 0 },
        session: 0x2122,
        seq: 0x3132,
        gsn: 0x4142,
    }
}

#[test]
fn a_frame_header_is_written_as_the_page_says() {
    let h = header(kind::EVENTS);
    let b = h.encode(0x5152, 0x6160);
    let mut covered = 0x5152_u64.to_le_bytes().to_vec();
    covered.extend(0x6160_u64.to_le_bytes());
    covered.extend(&b[4..48]);
    compare(
        &b,
        frame::FIELDS,
        &[
            ("hcrc", &crc(&covered).to_le_bytes()),
            ("len", &[2, 1, 0, 0]),
            ("pcrc", &[0x14, 0x13, 0x12, 0x11]),
            ("kind", &[1]),
            ("flags", &[1]),
            ("count", &[4, 3]),
            ("session", &0x2122_u64.to_le_bytes()),
            ("seq", &0x3132_u64.to_le_bytes()),
            ("gsn", &0x4142_u64.to_le_bytes()),
            ("raw_len", &[0; 4]),
            ("key", &[0; 4]),
        ],
    );
    assert_eq!(FrameHeader::decode(&b, 0x5152, 0x6160, 1 << 18), Ok(h));
    assert_eq!(FrameHeader::decode(&b, 0x5152, 0x6168, 1 << 18), Err(Fault::Checksum));
}

#[test]
fn kinds_and_flags_are_read_or_refused_as_the_page_says() {
    let newer = [kind::JOIN, 32, 33, 34];
    for no in 0..=u8::MAX {
        let known = kind::ALL.iter().any(|(k, _)| *k == no) && !newer.contains(&no);
        let read = FrameHeader::decode(&header(no).encode(1, 2), 1, 2, 1 << 18);
        if known || no >= kind::OPTIONAL_FROM {
            assert_eq!(read, Ok(header(no)), "kind {no}");
        } else {
            assert_eq!(read, Err(Fault::Newer), "kind {no}");
        }
        let other = FrameHeader { flags: no, ..header(kind::EVENTS) };
        let read = FrameHeader::decode(&other.encode(1, 2), 1, 2, 1 << 18);
        assert_eq!(read.err(), (no & !5 != 0).then_some(Fault::Newer), "flags {no}");
    }
}

#[test]
fn an_index_header_is_written_as_the_page_says() {
    let run = index_frame::Run {
        frames: vec![index_frame::FrameAt { offset: 0x2000, first_seq: 3, count: 4 }],
        ..index_frame::Run::default()
    };
    let body = Body::Continue { prev: None };
    let control = Control { session_epoch: 1, flags: 0, time_ms: 0, body };
    let at = index_frame::ControlAt { offset: 0x1800, seq: 3, session: SessionNo(9), control };
    let runs = [(SessionNo(9), &run), (SessionNo(10), &run)];
    let b = index_frame::encode(0x1000, 0x1400, 0x77, &runs, &[at]);
    compare(
        &b[..index_frame::HEADER_LEN],
        index_frame::FIELDS,
        &[
            ("prev_index", &0x1000_u64.to_le_bytes()),
            ("from", &0x1400_u64.to_le_bytes()),
            ("next_session", &0x77_u64.to_le_bytes()),
            ("runs", &[2, 0, 0, 0]),
            ("controls", &[1, 0, 0, 0]),
        ],
    );
    // The directory follows: session, place of the entry, number of events.
    assert_eq!((u64_at(&b, 32), u64_at(&b, 48)), (9, 10));
    assert_eq!((u32_at(&b, 44), u32_at(&b, 60)), (4, 4));
    let entry = u32_at(&b, 40) as usize;
    // First seq 3, time 0, bytes 0, one frame: (0x2000 - 0x1400) / 8 = 384, 4 events; no marks.
    assert_eq!(b[entry..entry + 8], [3, 0, 0, 1, 0x80, 3, 4, 0]);
}

#[test]
fn a_control_prefix_and_a_lock_record_are_written_as_the_page_says() {
    let control = Control {
        session_epoch: 0x0102_0304,
        flags: control::CREATE_PENDING,
        time_ms: -9,
        body: Body::Create { id: b"id"[..].into(), header: b"{}"[..].into() },
    };
    let b = control.encode();
    compare(
        &b[..16],
        control::PREFIX_FIELDS,
        &[
            ("session_epoch", &[4, 3, 2, 1]),
            ("flags", &[1, 0, 0, 0]),
            ("time_ms", &(-9_i64).to_le_bytes()),
        ],
    );
    assert_eq!(&b[16..], b"\x02\0id\x02\0\0\0{}");
    let record = LockRecord { pid: 0x0102_0304, lane: 0x0506, since_ms: -10 };
    let b = record.encode();
    compare(
        &b,
        lock_record::FIELDS,
        &[
            ("pid", &[4, 3, 2, 1]),
            ("lane", &[6, 5]),
            ("reserved", &[0; 2]),
            ("since_ms", &(-10_i64).to_le_bytes()),
        ],
    );
    assert_eq!(LockRecord::decode(&b), record);
}

#[test]
fn records_of_events_are_written_as_the_page_says() {
    let mut one = NewEvent::new("note", b"7")
        .with_time_ms(-1)
        .with_surface_op(SurfaceOp::Replace { start: 2, end: 300 })
        .with_sources(vec![2, 5])
        .with_ignorable();
    one.surface_first = true;
    let two =
        NewEvent::new("turn/start", b"{}").with_time_ms(63).with_surface_op(SurfaceOp::Append);
    let mut payload = Vec::new();
    assert_eq!(events::encode(&mut payload, &[one, two], 10, 0, Columns::On), 0);
    let mut wanted = vec![1, 0b11_1101, 4];
    wanted.extend(b"note");
    // Time 0 after the base; start 2, end 300; two citations: 2 - 10 and 5 - 2; one byte of data.
    wanted.extend([0, 2, 0xAC, 2, 2, 15, 6, 1, b'7']);
    // APPEND, code 46, 64 ms later, two bytes of data.
    wanted.extend([0b10, code_of(b"turn/start").unwrap(), 0x80, 1, 2, b'{', b'}']);
    assert_eq!(payload, wanted);
    for (n, entries) in [(32, 0), (33, 2), (48, 2), (49, 3)] {
        let events: Vec<_> =
            (0..n).map(|i| NewEvent::new("turn/start", b"{}").with_time_ms(i as i64)).collect();
        let flags = events::encode(&mut payload, &events, 0, 0, Columns::Off);
        assert_eq!(flags, u8::from(n > 32));
        // A record of it takes 6 bytes: head, code, time, length, data.
        assert_eq!(payload.len(), 1 + 6 * n + 12 * entries, "{n} events");
        if entries > 0 {
            let table = payload.len() - 12 * entries;
            assert_eq!((u32_at(&payload, table), u64_at(&payload, table + 4)), (1 + 6 * 16, 15));
        }
    }
}

#[test]
fn a_series_is_written_as_the_page_says() {
    let text = |kind: &str, text: &str| {
        format!("{{\"chunk\":{{\"type\":\"{kind}\",\"text\":\"{text}\"}}}}")
    };
    let data: Vec<String> = ["a", "", "c d"]
        .iter()
        .map(|t| text("text-delta", t))
        .chain([text("other", "e")])
        .collect();
    let mut events: Vec<NewEvent<'_>> = (0..20)
        .map(|i| NewEvent::new("note", data[i % 3].as_bytes()).with_time_ms(i as i64 + 1))
        .collect();
    events[19] = NewEvent::new("assistant/chunk", data[3].as_bytes()).with_time_ms(20);
    let mut payload = Vec::new();
    assert_eq!(events::encode(&mut payload, &events, 10, 0, Columns::On), flag::COLUMNS);
    // Time 1; head SERIES and TYPE_TEXT, the type; 16 events; a new template.
    let mut wanted = vec![2, 0xA0, 1, 4];
    wanted.extend(b"note");
    wanted.extend([16, 0, 38]);
    wanted.extend(br#"{"chunk":{"type":"text-delta","text":""#);
    wanted.push(3);
    wanted.extend(br#""}}"#);
    // Times 0, 1, 1, ...; lengths; texts.
    wanted.push(0);
    wanted.extend([2; 15]);
    wanted.extend([1, 0, 3].iter().cycle().take(16));
    wanted.extend("ac d".repeat(5).bytes());
    wanted.push(b'a');
    // Three events, with the template that stands so many bytes before.
    let back = wanted.len() - 10;
    assert!(back < 128);
    wanted.extend([0xA0, 1, 4]);
    wanted.extend(b"note");
    wanted.extend([3, back as u8, 2, 2, 2, 0, 3, 1]);
    wanted.extend(b"c da");
    // And one event of another type that does not end such a series.
    wanted.extend([0, code_of(b"assistant/chunk").unwrap(), 2, data[3].len() as u8]);
    wanted.extend(data[3].bytes());
    assert_eq!(payload, wanted);
}
