//! Where a reader of the whole store is: a position in each lane, as an opaque text.
//!
//! # Invariants
//! Cu1. A position in a lane is the identity of the last event that was given there and a mark of its content, so that
//!      it can be told whether the log still holds that event: after a power cut another may have the identity of one that
//!      was never synced.
//! Cu2. Any text is judged before it is used: length, number of lanes, ranges and checksum are bounded and checked.
//!
//! # Units
//! `gsn`: events of the lane that were given or stepped over. `seq`: events of an imported session that were given.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::format::codec::crc;
use crate::limits;
use crate::types::{LaneNo, Seq, SessionNo};

/// Opens every text.
const VERSION: &str = "1";

/// A position in a lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct At {
    /// Epoch of the event before `gsn`.
    pub(crate) epoch: u32,
    pub(crate) gsn: u64,
    /// Mark of that event; none where it was not the one given last.
    pub(crate) mark: Option<u32>,
    /// The imported session whose events were given last, and how many of them.
    pub(crate) import: Option<(SessionNo, Seq)>,
}

/// A position in a store: which events a reader of all sessions was given. [`Subscription::cursor`] and
/// [`Store::cursor`] make one; the default one stands at the beginning of any store.
///
/// Its text is opaque: letters, digits, `.` and `-`, some 30 bytes and some 20 for each lane. It stays good while the
/// store is written, opened again, and its lanes change. It is void when the log does not hold what it stands on: it is of
/// another store or an older copy, or the events were lost with a power cut.
///
/// [`Subscription::cursor`]: crate::Subscription::cursor
/// [`Store::cursor`]: crate::Store::cursor
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
/// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
/// use everlog::{Cursor, ErrorKind, NewEvent};
/// writer.append(&NewEvent::new("note", b"1"))?;
/// let text = store.cursor()?.to_string();
/// writer.append(&NewEvent::new("note", b"2"))?;
/// let mut later = store.subscribe(&text.parse()?, Default::default())?;
/// assert_eq!(later.try_next()?.map(|e| e.event.seq), Some(1));
/// assert_eq!("1.nonsense".parse::<Cursor>().map_err(|e| e.kind()), Err(ErrorKind::Invalid));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Cursor {
    /// Start of the store's id; none at the beginning of any store.
    pub(crate) store: Option<u64>,
    pub(crate) lanes: BTreeMap<LaneNo, At>,
}

/// The part of a store's id that a cursor carries.
pub(crate) fn store_mark(id: &[u8; 16]) -> u64 {
    id.iter().take(8).fold(0, |n, b| n << 8 | u64::from(*b))
}

impl Cursor {
    /// Whether it stands at the beginning.
    #[must_use]
    pub fn is_start(&self) -> bool {
        self.lanes.is_empty()
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = format!("{VERSION}.{:016x}", self.store.unwrap_or(0));
        for (lane, at) in &self.lanes {
            write!(text, ".{lane:x}-{:x}-{:x}-", at.epoch, at.gsn)?;
            if let Some(mark) = at.mark {
                write!(text, "{mark:x}")?;
            }
            if let Some((session, seq)) = at.import {
                write!(text, "-{:x}-{seq:x}", session.0)?;
            }
        }
        write!(f, "{text}.{:08x}", crc(text.as_bytes()))
    }
}

fn bad(reason: &str) -> Error {
    Error::invalid("cursor", format_args!("{reason}; pass one as it was printed"))
}

fn hex(text: &str, max: u64) -> Result<u64> {
    let digits = !text.is_empty() && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let number = u64::from_str_radix(text, 16).ok().filter(|n| digits && *n <= max);
    number.ok_or_else(|| bad("it holds no such number"))
}

fn entry(text: &str) -> Result<(LaneNo, At)> {
    let mut parts = text.split('-');
    let mut next = |max: u64| hex(parts.next().unwrap_or(""), max);
    let lane = next(limits::LANES_MAX as u64 - 1)? as LaneNo;
    let epoch = next(u64::from(u32::MAX))? as u32;
    let gsn = next(limits::SAFE_INTEGER_MAX)?;
    let mark = match parts.next() {
        Some("") => None,
        mark => Some(hex(mark.unwrap_or(""), u64::from(u32::MAX))? as u32),
    };
    let import = match parts.next() {
        None => None,
        Some(session) => {
            let seq = hex(parts.next().unwrap_or(""), limits::SAFE_INTEGER_MAX)?;
            Some((SessionNo(hex(session, u64::MAX)?), seq))
        }
    };
    if gsn == 0 || parts.next().is_some() {
        return Err(bad("a position in it is none"));
    }
    Ok((lane, At { epoch, gsn, mark, import }))
}

impl FromStr for Cursor {
    type Err = Error;

    /// Reads the text that a cursor was printed as.
    fn from_str(text: &str) -> Result<Self> {
        if text.len() > limits::CURSOR_BYTES_MAX {
            return Err(bad("it is too long"));
        }
        let (body, sum) = text.rsplit_once('.').ok_or_else(|| bad("it has no checksum"))?;
        if sum.len() != 8 || hex(sum, u64::from(u32::MAX))? != u64::from(crc(body.as_bytes())) {
            return Err(bad("its checksum does not hold"));
        }
        let mut parts = body.split('.');
        if parts.next() != Some(VERSION) {
            return Err(bad("its version is not known"));
        }
        let store = hex(parts.next().unwrap_or(""), u64::MAX)?;
        let mut lanes = BTreeMap::new();
        for part in parts {
            let (lane, at) = entry(part)?;
            if lanes.last_key_value().is_some_and(|(before, _)| *before >= lane) {
                return Err(bad("its lanes are not in order"));
            }
            lanes.insert(lane, at);
        }
        Ok(Self { store: (!lanes.is_empty()).then_some(store), lanes })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::ErrorKind;

    fn cursor() -> Cursor {
        let at = |gsn| At { epoch: 2, gsn, mark: Some(77), import: None };
        let burst = At { import: Some((SessionNo::join(7, 3), 12)), mark: None, ..at(99) };
        let lanes = [(0, at(1)), (7, burst), (65_534, at(limits::SAFE_INTEGER_MAX))];
        Cursor { store: Some(0x1234_5678_9abc_def0), lanes: lanes.into() }
    }

    #[test]
    fn cu2_texts_are_read_back_and_others_refused() {
        let text = cursor().to_string();
        assert_eq!(text.parse::<Cursor>().unwrap(), cursor());
        let start = Cursor::default();
        assert_eq!(start.to_string().parse::<Cursor>().unwrap(), start);
        for cut in 0..text.len() {
            let err = text[..cut].parse::<Cursor>().unwrap_err();
            assert_eq!(err.kind(), ErrorKind::Invalid);
        }
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            if let Ok(other) = String::from_utf8(bytes) {
                assert!(other.parse::<Cursor>().is_err(), "{other}");
            }
        }
        let sealed = |body: &str| format!("{body}.{:08x}", crc(body.as_bytes()));
        let head = "1.0000000000000001";
        for body in [
            "2.0000000000000001".to_owned(),
            "1".to_owned(),
            "1.".to_owned(),
            format!("{head}."),
            format!("{head}.0-0"),
            format!("{head}.0-0-1"),
            format!("{head}.0-0-0-"),
            format!("{head}.ffff-0-1-"),
            format!("{head}.0-100000000-1-"),
            format!("{head}.0-0-20000000000000-"),
            format!("{head}.0-0-1-100000000"),
            format!("{head}.0-0-1--5"),
            format!("{head}.0-0-1-5-6"),
            format!("{head}.0-0-1-5-6-7-8"),
            format!("{head}.0-0-+1-"),
            format!("{head}.0-0-A-"),
            format!("{head}.1-0-1-.0-0-1-"),
            format!("{head}.1-0-1-.1-0-1-"),
        ] {
            assert!(sealed(&body).parse::<Cursor>().is_err(), "{body}");
        }
        assert!("1".repeat(limits::CURSOR_BYTES_MAX + 1).parse::<Cursor>().is_err());
    }
}
