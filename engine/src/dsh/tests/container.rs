//! Compressed input: frames whole, torn, damaged, skippable, nested and hostile.

use proptest::prelude::*;

use super::super::Place;
use super::{Dribble, FrameWriter, HEADER, ImportOptions, compress, read, read_with, sample};
use crate::{Error, ErrorKind};

fn refusal(bytes: &[u8]) -> Error {
    read(bytes).map(|(outcome, _)| outcome).expect_err("a refusal")
}

fn frame(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    FrameWriter::new().unwrap().frame(text, &mut out).unwrap();
    out
}

/// A skippable frame.
fn skippable(content: &[u8]) -> Vec<u8> {
    let size = (content.len() as u32).to_le_bytes();
    [&[0x5A, 0x2A, 0x4D, 0x18], &size[..], content].concat()
}

/// A frame header with a window byte, for blocks made by hand.
const FRAME_HEAD: [u8; 6] = [0x28, 0xB5, 0x2F, 0xFD, 0x00, 0x58];

#[test]
fn frames_give_what_the_text_gives() {
    let text = sample();
    let (_, plain) = read(text.as_bytes()).unwrap();
    for lines in 1..11 {
        let bytes = compress(&text, lines);
        let (outcome, kept) = read(&bytes[..]).unwrap();
        assert!(outcome.compressed);
        assert_eq!((outcome.torn_bytes, outcome.warnings.len()), (0, 0));
        assert_eq!(outcome.text_bytes, text.len() as u64);
        assert_eq!(kept.events, plain.events);
        assert_eq!(kept.export(false), text.as_bytes());
    }
    // Z4, also before the first frame, and a record over two frames.
    let (a, b) = text.as_bytes().split_at(300);
    let note = skippable(b"a note");
    let bytes = [&note[..], &frame(a), &frame(b""), &skippable(b""), &frame(b), &note].concat();
    assert_eq!(read(&bytes[..]).unwrap().1.events, plain.events);
}

#[test]
fn every_cut_gives_a_prefix() {
    let text = sample();
    let (_, plain) = read(text.as_bytes()).unwrap();
    let bytes = compress(&text, 3);
    let header = frame(HEADER.as_bytes()).len();
    for cut in 4..bytes.len() {
        match read(&bytes[..cut]) {
            Ok((outcome, kept)) => {
                assert!(plain.events.starts_with(&kept.events), "{cut}");
                assert!(cut >= header - 4);
                let torn = outcome.warnings.iter().find_map(|warning| warning.torn);
                assert_eq!(outcome.torn_bytes, torn.map_or(0, |torn| torn.bytes));
                if let Some(torn) = torn {
                    assert_eq!(
                        (torn.place, torn.offset + torn.bytes),
                        (Place::Compressed, cut as u64)
                    );
                }
            }
            Err(e) => assert!(cut < header && e.kind() == ErrorKind::Corrupt, "{cut} {e}"),
        }
    }
}

#[test]
fn z2_tails_that_hold_no_frame() {
    let bytes = compress(&sample(), 4);
    for tail in
        [&b"\x28\xb5\x2f"[..], b"xyz", b"\0", &[0; 5000], &skippable(b"abc")[..9], &FRAME_HEAD]
    {
        let (outcome, kept) = read(&[&bytes, tail].concat()[..]).unwrap();
        assert_eq!((kept.events.len(), outcome.torn_bytes), (10, tail.len() as u64));
    }
    for tail in [&b"abcd"[..], b"\0\0\0\0\0x", b"\x28\xb5\x2f\xfe\0"] {
        let error = refusal(&[&bytes, tail].concat());
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.offset() >= Some(bytes.len() as u64), "{error}");
    }
}

#[test]
fn z2_a_cut_frame_with_whole_frames_behind_it_is_corrupt() {
    let text = sample();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let head = frame(lines[0].as_bytes());
    let first = frame(lines[1..6].concat().as_bytes());
    let second = frame(lines[6..].concat().as_bytes());
    for cut in 4..first.len() {
        let bytes = [&head, &first[..cut], &second].concat();
        assert_eq!(refusal(&bytes).kind(), ErrorKind::Corrupt, "{cut}");
        let mut pieces = Dribble::new(&bytes, vec![1, 2, 7]);
        assert_eq!(read(&mut pieces).map(|_| ()).unwrap_err().kind(), ErrorKind::Corrupt, "{cut}");
    }
}

#[test]
fn z3_whole_frames_that_do_not_decode_are_corrupt() {
    let text = sample();
    let good = compress(&text, 20);
    let start = frame(HEADER.as_bytes()).len();
    for at in start..good.len() {
        for flip in [0x01, 0x80] {
            let mut bytes = good.clone();
            bytes[at] ^= flip;
            match read(&bytes[..]) {
                // A flip in the frame header can only take the checksum or the size away, or cut it.
                Ok((outcome, kept)) => {
                    let (_, plain) = read(text.as_bytes()).unwrap();
                    assert!(plain.events.starts_with(&kept.events), "{at}");
                    assert!(kept.events.len() == 10 || outcome.torn_bytes > 0, "{at}");
                }
                Err(e) => assert!(matches!(e.kind(), ErrorKind::Corrupt | ErrorKind::Limit), "{e}"),
            }
        }
    }
    let mut bytes = good.clone();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    let error = refusal(&bytes);
    assert_eq!((error.kind(), error.offset()), (ErrorKind::Corrupt, Some(start as u64)));
}

#[test]
fn z5_bombs_are_refused() {
    let mut encoder = zstd::bulk::Compressor::new(19).unwrap();
    let head = frame(HEADER.as_bytes());
    let blanks = encoder.compress(&vec![b'\n'; 40 << 20]).unwrap();
    let error = refusal(&[&head[..], &blanks].concat());
    assert_eq!((error.kind(), error.field()), (ErrorKind::Limit, Some("decoded_bytes_max")));
    let options = ImportOptions { decoded_bytes_max: 1000, ..ImportOptions::default() };
    let error = read_with(&compress(&sample(), 3)[..], &options).map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
    // A window of 2^31 bytes, and one that the options do not allow.
    let wide = [0x28, 0xB5, 0x2F, 0xFD, 0x00, 21 << 3, 1, 0, 0];
    let error = refusal(&[&head[..], &wide].concat());
    assert_eq!((error.kind(), error.field()), (ErrorKind::Limit, Some("window_log_max")));
    let mut narrow = ImportOptions { window_log_max: 20, ..ImportOptions::default() };
    let bytes = [&head[..], &FRAME_HEAD, &[1, 0, 0]].concat();
    assert!(read(&bytes[..]).is_ok());
    assert_eq!(read_with(&bytes[..], &narrow).map(|_| ()).unwrap_err().kind(), ErrorKind::Limit);
    narrow.window_log_max = 99;
    assert_eq!(read_with(&bytes[..], &narrow).map(|_| ()).unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn structure_that_cannot_be_is_corrupt() {
    let head = frame(HEADER.as_bytes());
    for tail in [
        &[0x28, 0xB5, 0x2F, 0xFD, 0x08, 0x58, 1, 0, 0][..],
        &[&FRAME_HEAD[..], &[7, 0, 0]].concat(),
        &[&FRAME_HEAD[..], &[0xFF, 0xFF, 0xFF]].concat(),
    ] {
        let error = refusal(&[&head, tail].concat());
        assert_eq!((error.kind(), error.offset()), (ErrorKind::Corrupt, Some(head.len() as u64)));
    }
}

#[test]
fn a_compressed_file_in_a_compressed_file_is_no_log() {
    assert_eq!(refusal(&frame(&compress(&sample(), 3))).kind(), ErrorKind::Corrupt);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn pieces_of_any_size_give_the_same(
        sizes in prop::collection::vec(1_usize..40, 1..9),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = compress(&sample(), 3);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        bytes.truncate(cut.index(bytes.len() * 2).max(9));
        match (read(&bytes[..]), read(Dribble::new(&bytes, sizes))) {
            (Ok((a, b)), Ok((c, d))) => {
                prop_assert_eq!(a, c);
                prop_assert_eq!(b.events, d.events);
            }
            (Err(a), Err(b)) => prop_assert_eq!(format!("{a:?}"), format!("{b:?}")),
            (a, b) => prop_assert!(false, "{} {}", a.is_ok(), b.is_ok()),
        }
    }
}
