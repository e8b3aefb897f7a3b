//! One line of a log: an event or a packed row, taken apart and held to the rules of its envelope.
//!
//! # Invariants
//! C1. The line is scanned once; values stay where they are in it.
//! C2. Of equal keys the last one counts, compared decoded. Keys that the envelope lacks are refused.
//! C3. `data` is exactly the text of the line, without the whitespace around it.

use std::borrow::Cow;

use super::canonical::{row_kind, split_canonical};
use super::rows::{Row, RowKind};
use crate::accept::{Refusal, parse_sources, parse_surface_op};
use crate::json::{self, JsonFault, split_object, string_value, unescape};
use crate::limits::{EVENT_TYPE_BYTES_MAX, SAFE_INTEGER_MAX};
use crate::types::write_escaped;
use crate::{Error, NewEvent, Result, Seq};

/// Bytes of a foreign key that a message shows.
const KEY_SHOWN_BYTES: usize = 64;

/// The members of a line.
#[derive(Clone, Default, Debug)]
pub(super) struct Fields<'a> {
    pub(super) kind: Option<&'a [u8]>,
    pub(super) seq: Option<&'a [u8]>,
    pub(super) time: Option<&'a [u8]>,
    pub(super) seq0: Option<&'a [u8]>,
    pub(super) time0: Option<&'a [u8]>,
    pub(super) data: Option<&'a [u8]>,
    pub(super) surface_op: Option<&'a [u8]>,
    pub(super) sources: Option<&'a [u8]>,
    /// What `sources` holds, where that was read already.
    pub(super) seqs: Option<Vec<Seq>>,
    pub(super) ignorable: Option<&'a [u8]>,
    pub(super) surface_first: bool,
    /// A key that no envelope has, as it stands between its quotes.
    pub(super) unknown: Option<&'a [u8]>,
}

impl<'a> Fields<'a> {
    /// Takes a line apart.
    ///
    /// # Errors
    /// Where and how the line is not one JSON object.
    pub(super) fn split(text: &'a [u8], depth_max: usize) -> std::result::Result<Self, JsonFault> {
        match split_canonical(text, depth_max) {
            Some(fields) => Ok(fields),
            None => Self::split_general(text, depth_max),
        }
    }

    /// Takes a line of any layout apart.
    ///
    /// # Errors
    /// As for [`Fields::split`].
    pub(super) fn split_general(
        text: &'a [u8],
        depth_max: usize,
    ) -> std::result::Result<Self, JsonFault> {
        let mut fields = Self::default();
        split_object(text, depth_max, |key, value, _| fields.take(key, value))?;
        Ok(fields)
    }

    fn take(&mut self, raw: &'a [u8], value: &'a [u8]) {
        let slot = match raw {
            b"type" => &mut self.kind,
            b"seq" => &mut self.seq,
            b"time" => &mut self.time,
            b"seq0" => &mut self.seq0,
            b"time0" => &mut self.time0,
            b"data" => &mut self.data,
            b"surfaceOp" => {
                self.surface_first = self.sources.is_none();
                &mut self.surface_op
            }
            b"sourceEventSeqs" => &mut self.sources,
            b"ignorable" => &mut self.ignorable,
            _ => return self.take_rare(raw, value),
        };
        *slot = Some(value);
    }

    #[cold]
    fn take_rare(&mut self, raw: &'a [u8], value: &'a [u8]) {
        const KEYS: [&[u8]; 9] = [
            b"type",
            b"seq",
            b"time",
            b"seq0",
            b"time0",
            b"data",
            b"surfaceOp",
            b"sourceEventSeqs",
            b"ignorable",
        ];
        // The decoded key equals a known one only when the raw one was escaped.
        let key = unescape(raw);
        match KEYS.into_iter().find(|known| *known == &*key) {
            Some(known) => self.take(known, value),
            None => self.unknown = Some(raw),
        }
    }

    /// Whether the line says where it belongs; lines of projections do not.
    pub(super) fn is_placed(&self) -> bool {
        self.seq.is_some() || self.time.is_some() || self.seq0.is_some() || self.time0.is_some()
    }

    /// Whether the line names a time, and whether it names a seq.
    pub(super) fn names(&self) -> (bool, bool) {
        (self.time.is_some(), self.seq.is_some())
    }

    /// The kind of row, when the type is the tag of one.
    pub(super) fn row_kind(&self) -> Option<RowKind> {
        let kind = self.kind?;
        row_kind(kind).or_else(|| RowKind::of_tag(&string_value(kind)?))
    }

    /// Whether the line has the shape of an event or a row: all that its envelope must have.
    pub(super) fn is_event(&self, placed: bool) -> bool {
        let integer = |text: Option<&[u8]>| text.and_then(json::safe_integer).is_some();
        let place = (integer(self.seq) && integer(self.time))
            || (integer(self.seq0) && integer(self.time0));
        self.kind.is_some_and(json::is_string)
            && self.data.is_some()
            && if placed { place } else { !self.is_placed() && self.unknown.is_none() }
    }

    /// The seq that the line claims, for lines with the shape of an event.
    pub(super) fn claimed_seq(&self) -> Option<i64> {
        self.seq.or(self.seq0).and_then(json::safe_integer)
    }

    /// The line as a row. In a projection (not `placed`) it starts at seq `next` and time 0.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn row(
        &self,
        kind: RowKind,
        placed: bool,
        next: Seq,
    ) -> std::result::Result<Row<'a>, &'static str> {
        let foreign = self.unknown.is_some()
            || self.seq.is_some()
            || self.time.is_some()
            || self.surface_op.is_some()
            || self.sources.is_some()
            || self.ignorable.is_some();
        if foreign {
            return Err("it has a key that a row does not have");
        }
        let data = self.data.ok_or("it has no data")?;
        let (mut seq0, mut time0) = (next, 0);
        if placed {
            seq0 = safe_seq(self.seq0).ok_or("its seq0 must be a safe integer from 0")?;
            let time = self.time0.and_then(json::safe_integer);
            time0 = time.ok_or("its time0 must be a safe integer")?;
        }
        Row::new(kind, seq0, time0, data)
    }

    /// The seq of an event line.
    ///
    /// # Errors
    /// `Invalid` when it is missing or no seq, `Corrupt` when another one was expected.
    pub(super) fn expect_seq(&self, next: Seq) -> Result<()> {
        let Some(text) = self.seq else {
            return Err(Error::invalid("seq", "it is missing; every event needs one"));
        };
        let found = json::safe_integer(text).ok_or_else(|| {
            Error::invalid("seq", format!("it must be an integer from 0 to {SAFE_INTEGER_MAX}"))
        })?;
        expect_next(found, next)
    }

    /// The line as an event, without its seq.
    ///
    /// # Errors
    /// `Invalid` with the field, `Limit` for a type or data that is too long.
    pub(super) fn event(&mut self, placed: bool, event_bytes_max: usize) -> Result<NewEvent<'a>> {
        let wrong = |field: &str, what: &str| Err(Error::invalid(field, what));
        let Some(kind) = self.kind.and_then(string_value) else {
            return wrong("type", "it must be a string");
        };
        if kind.is_empty() {
            return wrong("type", "it is empty");
        }
        if kind.len() > EVENT_TYPE_BYTES_MAX {
            return Err(Error::limit("type", kind.len() as u64, EVENT_TYPE_BYTES_MAX as u64));
        }
        let row_key = self.seq0.map(|_| &b"seq0"[..]).or(self.time0.map(|_| &b"time0"[..]));
        if let Some(key) = self.unknown.or(row_key) {
            let mut name = String::new();
            // Writing to a string cannot fail.
            let _ = write_escaped(&mut name, key.get(..KEY_SHOWN_BYTES).unwrap_or(key));
            return Err(Error::invalid(name, "an event has no such key; remove it"));
        }
        let Some(data) = self.data else { return wrong("data", "it is missing") };
        if data.len() > event_bytes_max {
            return Err(Error::limit("data", data.len() as u64, event_bytes_max as u64));
        }
        let mut time_ms = 0;
        if placed {
            let Some(time) = self.time.and_then(json::safe_integer) else {
                return wrong("time", "it must be an integer within 2^53 - 1 of 0");
            };
            time_ms = time;
        }
        if self.ignorable.is_some_and(|value| value != b"true") {
            return wrong("ignorable", "it must be true or absent");
        }
        let surface_op = self.surface_op.map(parse_surface_op).transpose();
        let surface_op = surface_op.map_err(Refusal::header_error)?;
        let sources = match (self.seqs.take(), self.sources) {
            (Some(seqs), _) => Some(seqs),
            (None, Some(text)) => Some(seqs(text).map_err(Refusal::header_error)?),
            (None, None) => None,
        };
        Ok(NewEvent {
            event_type: kind,
            data: Cow::Borrowed(data),
            time_ms: Some(time_ms),
            surface_first: self.surface_first && surface_op.is_some() && sources.is_some(),
            surface_op,
            sources: sources.map(Cow::Owned),
            ignorable: self.ignorable.is_some(),
        })
    }
}

/// Wants the seq that comes next.
///
/// # Errors
/// `Corrupt` for any other.
pub(super) fn expect_next(found: i64, next: Seq) -> Result<()> {
    if u64::try_from(found) == Ok(next) {
        return Ok(());
    }
    let what = format!(
        "seq {found} stands where seq {next} must follow: events are missing, repeated or out of \
         order; take another copy of the file"
    );
    Err(Error::corrupt(what).with_field("seq").with_expected(next))
}

fn safe_seq(text: Option<&[u8]>) -> Option<Seq> {
    json::safe_integer(text?).and_then(|value| Seq::try_from(value).ok())
}

/// Reads the value of `sourceEventSeqs`.
///
/// # Errors
/// What it breaks.
fn seqs(value: &[u8]) -> std::result::Result<Vec<Seq>, Refusal> {
    match plain_seqs(value) {
        Some(seqs) => Ok(seqs),
        None => parse_sources(value),
    }
}

/// An array of seqs of at most 15 digits, without anything between its tokens; nothing for other text,
/// valid or not.
pub(super) fn plain_seqs(value: &[u8]) -> Option<Vec<Seq>> {
    let inner = value.strip_prefix(b"[")?.strip_suffix(b"]")?;
    if inner.is_empty() {
        return Some(Vec::new());
    }
    let mut seqs = Vec::with_capacity(inner.len() / 6 + 1);
    let (mut seq, mut digits) = (0, 0);
    for byte in inner.iter().chain(b",") {
        match byte {
            // A zero may only stand alone.
            b'0'..=b'9' if digits < 15 && (digits == 0 || seq > 0) => {
                seq = seq * 10 + u64::from(byte - b'0');
                digits += 1;
            }
            b',' if digits > 0 => {
                seqs.push(seq);
                (seq, digits) = (0, 0);
            }
            _ => return None,
        }
    }
    Some(seqs)
}
