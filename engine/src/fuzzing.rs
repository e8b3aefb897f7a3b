//! The decoders of bytes from outside, opened to the fuzzers. No part of the API.
//!
//! # Invariants
//! Fz1. A function gives `Err` when two ways to read the same bytes differ; that no input panics is what it is for.

use crate::event::{Event, NewEvent};
use crate::format::codec::u64_at;
use crate::format::columns::Columns;
use crate::format::control::Control;
use crate::format::events::{Events, encode};
use crate::format::frame::FrameHeader;
use crate::format::index_frame::IndexFrame;
use crate::format::segment::{SegmentHeader, Trailer};
use crate::format::slot::Slot;
use crate::format::store_file::StoreFile;
use crate::json;

/// What a fuzzer found.
pub type Verdict = std::result::Result<(), String>;

fn same<T: PartialEq + std::fmt::Debug>(what: &str, a: &T, b: &T) -> Verdict {
    if a == b { Ok(()) } else { Err(format!("{what}: {a:?} is not {b:?}")) }
}

/// Fixed structures, and a frame of any kind whose payload is what follows the first 12 bytes.
///
/// ```
/// assert_eq!(everlog::fuzzing::frame(b"no frame"), Ok(()));
/// ```
///
/// # Errors
/// Decoding, encoding and decoding again gives another value.
pub fn frame(bytes: &[u8]) -> Verdict {
    if let Ok(store) = StoreFile::decode(bytes) {
        same("STORE", &StoreFile::decode(&store.encode()), &Ok(store))?;
    }
    if let Ok(slot) = Slot::decode(bytes) {
        same("slot", &Slot::decode(&slot.encode()), &Ok(slot))?;
    }
    if let Ok(header) = SegmentHeader::decode(bytes) {
        same("segment", &SegmentHeader::decode(&header.encode()), &Ok(header))?;
    }
    if let Ok(trailer) = Trailer::decode(bytes, u64_at(bytes, 48), u64_at(bytes, 32), 1 << 32) {
        let again = Trailer::decode(&trailer.encode(), trailer.segment, trailer.salt, 1 << 32);
        same("trailer", &again, &Ok(trailer))?;
    }
    let _any = FrameHeader::decode(bytes, 7, 4_096, 1 << 20);
    let Some((head, payload)) = bytes.split_first_chunk::<12>() else { return Ok(()) };
    let [kind, flags, c0, c1, seq @ ..] = *head;
    let header = FrameHeader {
        len: payload.len() as u32,
        pcrc: 0,
        kind,
        flags,
        count: u16::from_le_bytes([c0, c1]),
        session: 1,
        seq: u64::from_le_bytes(seq),
        gsn: 2,
    };
    if let Ok(read) = FrameHeader::decode(&header.encode(7, 4_096), 7, 4_096, 1 << 32) {
        same("frame header", &read, &header)?;
    }
    if let Ok(control) = Control::decode(kind, payload) {
        same("control", &control.encode()[..].as_ref(), &payload)?;
        Control::decode(kind, &control.summary()).map_err(|f| f.clause().to_owned())?;
    }
    events(payload, header.count, flags, header.seq)
}

/// The payload of an EVENTS frame: read in order, by seeking, and once more after it was written anew, with series
/// and without.
fn events(payload: &[u8], count: u16, flags: u8, first_seq: u64) -> Verdict {
    let Ok(mut walk) = Events::open(payload, count, flags, first_seq) else { return Ok(()) };
    let mut read = Vec::new();
    while let Some(event) = walk.next_event() {
        let Ok(event) = event else {
            for index in [0, 16, usize::from(count / 2), usize::from(count)] {
                let _any = walk.clone().seek(index);
            }
            return Ok(());
        };
        read.push(event.to_owned());
    }
    let new: Vec<NewEvent<'_>> = read
        .iter()
        .map(|e| NewEvent {
            event_type: (&*e.event_type).into(),
            data: (&*e.data).into(),
            time_ms: Some(e.time_ms),
            surface_op: e.surface_op,
            sources: e.sources.as_deref().map(Into::into),
            ignorable: e.ignorable,
            surface_first: e.surface_first,
        })
        .collect();
    written_anew(&read, &new, count, first_seq)
}

fn written_anew(read: &[Event], new: &[NewEvent<'_>], count: u16, first_seq: u64) -> Verdict {
    let fault = |f: crate::format::Fault| f.clause().to_owned();
    let (mut out, mut plain) = (Vec::new(), usize::MAX);
    for columns in [Columns::Off, Columns::On] {
        let flags = encode(&mut out, new, first_seq, 0, columns);
        same("no larger", &(out.len() <= plain), &true)?;
        plain = out.len();
        let mut again = Events::open(&out, count, flags, first_seq).map_err(fault)?;
        for (i, event) in read.iter().enumerate() {
            same("event", &again.next_event(), &Some(Ok(event.as_ref())))?;
            if i % 7 == 0 {
                let mut sought = Events::open(&out, count, flags, first_seq).map_err(fault)?;
                sought.seek(i).map_err(fault)?;
                same("sought event", &sought.next_event(), &Some(Ok(event.as_ref())))?;
            }
        }
        same("end", &again.next_event(), &None)?;
    }
    Ok(())
}

/// The payload of an INDEX frame at a high offset.
///
/// ```
/// assert_eq!(everlog::fuzzing::index(&[0; 32]), Ok(()));
/// ```
///
/// # Errors
/// A row says something else than the run that it stands for.
pub fn index(bytes: &[u8]) -> Verdict {
    let Ok(index) = IndexFrame::open(bytes, 1 << 40) else { return Ok(()) };
    let _any = index.controls().map(|c| c.len());
    for i in 0..index.runs {
        let row = index.row(i);
        let bounds = index.bounds(row);
        if let Ok(run) = index.run(row) {
            let of_run = (run.first_seq(), run.last_time_ms, run.bytes);
            let wanted = if run.frames.is_empty() { bounds } else { Some(of_run) };
            same("bounds", &bounds, &wanted)?;
        }
    }
    Ok(())
}

/// JSON text: whether it is taken at a depth of up to 100,000, after a look at every part of it.
///
/// ```
/// assert_eq!(everlog::fuzzing::json(b"[1, 2]"), Ok(true));
/// ```
///
/// # Errors
/// A value is not equal to itself, or a string is another one after it was written anew.
pub fn json(text: &[u8]) -> std::result::Result<bool, String> {
    let taken = json::check(text, 100_000).is_ok();
    let mut members = 0;
    let split = json::split_object(text, 100_000, |_, _, _| members += 1).is_ok();
    let walked = json::Members::new(text).count();
    if split {
        same("members", &walked, &members)?;
        same("taken", &taken, &true)?;
    }
    let _any =
        (json::Elements::new(text).count(), json::number_value(text), json::safe_integer(text));
    if taken {
        same("equal to itself", &json::json_equal(text, text), &true)?;
        if let Some(value) = json::string_value(text) {
            let mut out = Vec::new();
            json::write_string(&mut out, &value);
            same("string", &json::string_value(&out), &Some(value))?;
        }
    }
    Ok(taken)
}
