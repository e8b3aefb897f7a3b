//! Newtypes for the numbers and names that the log is made of.
//!
//! # Invariants
//! T1. A [`Seq`], a gsn and a count of events never exceed 2^53 - 1, so every one of them is exact in JSON.
//! T2. A [`SessionNo`] holds the number of the lane that created the session in its upper 16 bits.
//! T3. A [`SessionId`] is WTF-8: any string of UTF-16 units, lone surrogates included, 1 to 1,024 bytes long.
//!
//! # Units
//! `seq`: events, from 0. `gsn`: events of a lane, from 0. `offset`: bytes from the start of a file.

use std::fmt;

use crate::limits;

/// Position of an event in its session, counted from 0 without gaps, up to 2^53 - 1. It never changes.
///
/// ```
/// let last: everlog::Seq = everlog::limits::SAFE_INTEGER_MAX;
/// assert_eq!(last, 9_007_199_254_740_991);
/// ```
pub type Seq = u64;

/// Number of a lane inside a store, 0 to 65,534 (format.md section 2).
///
/// ```
/// let lane: everlog::LaneNo = everlog::SessionNo(5 << 48).home_lane();
/// assert_eq!(lane, 5);
/// ```
pub type LaneNo = u16;

/// Number of a segment inside a lane, counted from 0, never reused (format.md section 2).
///
/// ```
/// let no: everlog::SegmentNo = 26;
/// assert_eq!(format!("{no:016x}.seg"), "000000000000001a.seg");
/// ```
pub type SegmentNo = u64;

/// Number of a session inside a store: the creating lane in the upper 16 bits, a counter in the lower 48 (format.md
/// section 2). Never reused.
///
/// ```
/// let no = everlog::SessionNo::join(3, 9);
/// assert_eq!((no.home_lane(), no.counter()), (3, 9));
/// assert_eq!(format!("{no:?}"), "0003:9");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionNo(pub u64);

impl SessionNo {
    /// Joins a lane number and a counter. Bits of `counter` above the lowest 48 are dropped.
    ///
    /// ```
    /// let no = everlog::SessionNo::join(3, 9);
    /// assert_eq!((no.home_lane(), no.counter()), (3, 9));
    /// ```
    #[must_use]
    pub const fn join(lane: LaneNo, counter: u64) -> Self {
        Self(((lane as u64) << 48) | (counter & limits::SESSION_COUNTER_MAX))
    }

    /// The lane that created the session; its session lock lives in the lock file of that lane (format.md section 8).
    #[must_use]
    pub const fn home_lane(self) -> LaneNo {
        (self.0 >> 48) as LaneNo
    }

    /// The session's counter inside its home lane, 0 to 2^48 - 1.
    #[must_use]
    pub const fn counter(self) -> u64 {
        self.0 & limits::SESSION_COUNTER_MAX
    }
}

impl fmt::Debug for SessionNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}:{}", self.home_lane(), self.counter())
    }
}

/// Identity of one event for ever: (lane, lane epoch, gsn). A number is never reused for another event.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
/// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
/// let receipt = writer.append(&everlog::NewEvent::new("note", b"1"))?;
/// let id: everlog::EventId = receipt.first_id();
/// assert_eq!((id.lane, id.epoch, id.gsn), (0, 0, 0));
/// assert_eq!(writer.event_id(0)?, id);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EventId {
    /// The lane whose log holds the event.
    pub lane: LaneNo,
    /// The lane's epoch when it was written; it rises at every recovery that drops bytes.
    pub epoch: u32,
    /// Position among the events of the lane, from 0.
    pub gsn: u64,
}

/// Name of a session: any string of UTF-16 units (dsh-spec.md section 1.1), kept as WTF-8, 1 to 1,024 bytes long. In
/// messages all that could act on a terminal is escaped.
///
/// ```
/// use everlog::{ErrorKind, SessionId};
/// let id = SessionId::new("s-7")?;
/// assert_eq!((id.as_bytes(), id.as_str()), (&b"s-7"[..], Some("s-7")));
/// assert_eq!(SessionId::new("").map_err(|e| e.kind()), Err(ErrorKind::Limit));
/// # Ok::<(), everlog::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(Box<[u8]>);

impl SessionId {
    /// Takes a session id from a string.
    ///
    /// # Errors
    /// [`ErrorKind::Limit`](crate::ErrorKind::Limit) when it is empty or longer than 1,024 bytes.
    pub fn new(id: &str) -> crate::Result<Self> {
        Self::from_wtf8(id.as_bytes())
    }

    /// Takes a session id from WTF-8 bytes, the form in which lone surrogates can be written.
    ///
    /// # Errors
    /// [`ErrorKind::Limit`](crate::ErrorKind::Limit) when it is empty or longer than 1,024 bytes,
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) when the bytes are no WTF-8.
    ///
    /// ```
    /// use everlog::{ErrorKind, SessionId};
    /// let lone = SessionId::from_wtf8(b"\xed\xa0\x80")?;
    /// assert_eq!((lone.as_str(), lone.to_string()), (None, "\\xed\\xa0\\x80".to_owned()));
    /// let bad = SessionId::from_wtf8(b"\xff").map_err(|e| e.kind());
    /// assert_eq!(bad, Err(ErrorKind::Invalid));
    /// # Ok::<(), everlog::Error>(())
    /// ```
    pub fn from_wtf8(bytes: &[u8]) -> crate::Result<Self> {
        Self::from_box(bytes.into())
    }

    /// The same, of bytes that are kept as they are.
    pub(crate) fn from_box(bytes: Box<[u8]>) -> crate::Result<Self> {
        if bytes.is_empty() || bytes.len() > limits::SESSION_ID_BYTES_MAX {
            return Err(crate::Error::limit(
                "session id",
                bytes.len() as u64,
                limits::SESSION_ID_BYTES_MAX as u64,
            ));
        }
        if !is_wtf8(&bytes) {
            return Err(crate::Error::invalid("session id", "it is not well-formed WTF-8"));
        }
        Ok(Self(bytes))
    }

    /// The id as WTF-8 bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The id as text, when it holds no lone surrogate.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_escaped(f, &self.0)
    }
}

/// Writes WTF-8 bytes with everything but printable text escaped, so that an id can stand in a message.
pub(crate) fn write_escaped(f: &mut impl fmt::Write, bytes: &[u8]) -> fmt::Result {
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if is_plain(c) {
                f.write_char(c)?;
            } else {
                write!(f, "\\u{{{:x}}}", c as u32)?;
            }
        }
        for b in chunk.invalid() {
            write!(f, "\\x{b:02x}")?;
        }
    }
    Ok(())
}

/// Whether a character may reach a terminal: no control, bidi, separator, invisible tag or private character.
pub(crate) fn is_plain(c: char) -> bool {
    !(c.is_control()
        || matches!(c as u32,
            0x00AD | 0x061C | 0x180E | 0x200B..=0x200F | 0x2028..=0x202E | 0x2060..=0x206F | 0xFEFF
            | 0xFFF9..=0xFFFB | 0xE000..=0xF8FF | 0xE0000..=0xE0FFF | 0xF0000..=0x10FFFF))
}

/// Whether bytes are WTF-8: UTF-8 that may hold lone surrogates, but no surrogate pair as two three-byte units.
pub(crate) fn is_wtf8(mut bytes: &[u8]) -> bool {
    if bytes.is_ascii() {
        return true;
    }
    let mut after_high = false;
    loop {
        let chunk_end = match std::str::from_utf8(bytes) {
            Ok(_) => return true,
            Err(e) => e.valid_up_to(),
        };
        if chunk_end > 0 {
            after_high = false;
        }
        let rest = &bytes[chunk_end..];
        let [0xED, second @ 0xA0..=0xBF, 0x80..=0xBF, ..] = rest else { return false };
        let high = *second < 0xB0;
        if after_high && !high {
            return false;
        }
        after_high = high;
        bytes = &rest[3..];
        if bytes.is_empty() {
            return true;
        }
        // A plain character ends the pairing; the next chunk of valid UTF-8 resets it.
        if std::str::from_utf8(bytes).is_ok() {
            return true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t3_wtf8_takes_lone_surrogates_and_refuses_pairs() {
        assert!(is_wtf8(b"\xed\xa0\x80"));
        assert!(is_wtf8(b"a\xed\xb0\x80b\xed\xa0\x80"));
        assert!(!is_wtf8(b"\xed\xa0\x80\xed\xb0\x80"));
        assert!(!is_wtf8(b"\xc0\x80"));
        assert!(is_wtf8("\u{10000}".as_bytes()));
    }

    #[test]
    fn ids_are_escaped_when_shown() {
        let id = SessionId::from_wtf8(b"a\x1b[2J\xed\xa0\x80").expect("a legal id");
        assert_eq!(id.to_string(), "a\\u{1b}[2J\\xed\\xa0\\x80");
    }

    #[test]
    fn id_length_is_bounded() {
        assert!(SessionId::new(&"x".repeat(1024)).is_ok());
        assert!(SessionId::new(&"x".repeat(1025)).is_err());
    }
}
