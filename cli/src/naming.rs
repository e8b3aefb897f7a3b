//! Sessions and events as the command line names them.
//!
//! # Invariants
//! M1. An exact id wins over everything: over a prefix, and over reading `@` as a position.
//! M2. A prefix has at least `PREFIX_CHARS_MIN` characters and names one session, or the command is refused.
//! M3. The last `@` that starts a valid position counts.
//! M4. A turn or step is counted by where it starts, from 1 over the whole session, and stands for its last event.
//!
//! # Units
//! `seq`: events from 0. Ranges are inclusive.

use std::ffi::{OsStr, OsString};

use everlog::{ErrorKind, LandmarkKind, Session, SessionId, Store};

use crate::exit::{FAILED, Failure};

const PREFIX_CHARS_MIN: usize = 4;
const CANDIDATES_SHOWN: usize = 20;

/// Events of a session, as they were written after the `@`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Position {
    /// `@7`
    One(u64),
    /// `@10..20`, `@10..`, `@..20`
    Range(u64, Option<u64>),
    /// `@-5..`: the last five
    Last(u64),
    /// `@turn:2`
    Turn(u64),
    /// `@step:3`
    Step(u64),
}

impl Position {
    fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let number = |t: &str| {
            if t.is_empty() || !t.bytes().all(|b| b.is_ascii_digit()) {
                None
            } else {
                t.parse().ok()
            }
        };
        if let Some((what, n)) = text.split_once(':') {
            return match what {
                "turn" => Some(Self::Turn(number(n)?)),
                "step" => Some(Self::Step(number(n)?)),
                _ => None,
            };
        }
        let Some((first, last)) = text.split_once("..") else {
            return Some(Self::One(number(text)?));
        };
        match (first.strip_prefix('-'), first, last) {
            (Some(n), _, "") => Some(Self::Last(number(n)?)),
            (None, "", last) => Some(Self::Range(0, Some(number(last)?))),
            (None, first, "") => Some(Self::Range(number(first)?, None)),
            (None, first, last) => Some(Self::Range(number(first)?, Some(number(last)?))),
            _ => None,
        }
    }

    /// First and last seq when events that are still to come count; `events` are there.
    pub(crate) fn followed(self, events: u64) -> Result<(u64, Option<u64>), Failure> {
        match self {
            Self::One(seq) => Ok((seq, Some(seq))),
            Self::Range(first, Some(last)) if first > last => {
                Err(Failure::usage("the range ends before it begins"))
            }
            Self::Range(first, last) => Ok((first, last)),
            Self::Last(n) => Ok((events.saturating_sub(n), None)),
            Self::Turn(_) | Self::Step(_) => Err(Failure::usage("a turn or step is no range")),
        }
    }

    /// First and last seq in a session that holds `events`; nothing when no event is meant.
    pub(crate) fn seqs(self, events: u64) -> Result<Option<(u64, u64)>, Failure> {
        let end = events.checked_sub(1);
        match self {
            Self::One(seq) if seq < events => Ok(Some((seq, seq))),
            Self::One(seq) => Err(Failure::new(FAILED, "not-found", "there is no such event")
                .with_seq(seq)
                .with_hint(format!("the session holds {events} events, counted from 0"))),
            Self::Range(first, Some(last)) if first > last => {
                Err(Failure::usage(format!("the range {first}..{last} ends before it starts")))
            }
            Self::Range(first, last) => {
                let last = end.map(|end| last.unwrap_or(end).min(end));
                Ok(last.filter(|last| first <= *last).map(|last| (first, last)))
            }
            Self::Last(n) => Ok(end.filter(|_| n > 0).map(|end| (events.saturating_sub(n), end))),
            Self::Turn(_) | Self::Step(_) => Err(Failure::usage("a turn or step is no range")),
        }
    }

    /// The same position with turns and steps as the seqs that they stand for in a session.
    fn in_session(self, session: &Session) -> Result<Self, Failure> {
        use LandmarkKind::{StepEnd, StepStart, TurnEnd, TurnStart};
        let (n, start, what) = match self {
            Self::Turn(n) => (n, TurnStart, "turn"),
            Self::Step(n) => (n, StepStart, "step"),
            other => return Ok(other),
        };
        let marks = session.landmarks()?;
        let starts = marks.iter().filter(|l| l.kind == start).count();
        let nth = n.checked_sub(1).and_then(|i| usize::try_from(i).ok());
        let Some(at) = nth.and_then(|i| {
            marks.iter().enumerate().filter(|(_, l)| l.kind == start).map(|(at, _)| at).nth(i)
        }) else {
            let message = format!("there is no {what} {n}");
            return Err(Failure::new(FAILED, "not-found", message)
                .with_session(session.id().as_bytes())
                .with_hint(format!("the session has {starts} of them, counted from 1")));
        };
        for mark in marks.iter().skip(at + 1) {
            match mark.kind {
                TurnEnd if start == TurnStart => return Ok(Self::One(mark.seq)),
                StepEnd if start == StepStart => return Ok(Self::One(mark.seq)),
                // It was left open: the event before what ends it without closing it.
                TurnStart => return Ok(Self::One(mark.seq - 1)),
                StepStart | TurnEnd if start == StepStart => return Ok(Self::One(mark.seq - 1)),
                _ => {}
            }
        }
        Ok(Self::One(session.next_seq().saturating_sub(1)))
    }
}

/// The session called `name`: its full id, or a unique prefix of it.
pub(crate) fn session(store: &Store, name: &OsStr) -> Result<Session, Failure> {
    match exact(store, name.as_encoded_bytes())? {
        Some(session) => Ok(session),
        None => by_prefix(store, name.as_encoded_bytes()),
    }
}

/// The session whose full id is `id`.
pub(crate) fn session_by_id(store: &Store, id: &OsStr) -> Result<Session, Failure> {
    exact(store, id.as_encoded_bytes())?.ok_or_else(|| not_found(id.as_encoded_bytes()))
}

/// The session and the events that `SESSION@RANGE` names; all events without a range.
pub(crate) fn target(
    store: &Store,
    name: &OsString,
) -> Result<(Session, Option<Position>), Failure> {
    let bytes = name.as_encoded_bytes();
    if let Some(session) = exact(store, bytes)? {
        return Ok((session, None)); // M1
    }
    let Some((id, position)) = split(bytes) else { return Ok((by_prefix(store, bytes)?, None)) };
    let session = exact(store, id)?.map_or_else(|| by_prefix(store, id), Ok)?;
    let position = position.in_session(&session)?;
    Ok((session, Some(position)))
}

/// Cuts at the last `@` that starts a valid position.
fn split(bytes: &[u8]) -> Option<(&[u8], Position)> {
    let at = bytes.iter().rposition(|b| *b == b'@')?;
    let (id, rest) = bytes.split_at_checked(at)?;
    // A position holds no `@`, so only the last one can start it (M3).
    let position = Position::parse(rest.get(1..)?)?;
    (!id.is_empty()).then_some((id, position))
}

fn exact(store: &Store, id: &[u8]) -> Result<Option<Session>, Failure> {
    // What cannot be an id can still be a prefix with a position after it.
    let Ok(id) = SessionId::from_wtf8(id) else { return Ok(None) };
    match store.session(&id) {
        Ok(session) => Ok(Some(session)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e.into()),
    }
}

fn by_prefix(store: &Store, prefix: &[u8]) -> Result<Session, Failure> {
    let id = prefix_id(store, prefix)?;
    Ok(store.session(&id)?)
}

fn prefix_id(store: &Store, prefix: &[u8]) -> Result<SessionId, Failure> {
    if chars(prefix) < PREFIX_CHARS_MIN {
        return Err(not_found(prefix));
    }
    let mut ids = store.find_sessions(prefix);
    ids.sort();
    match ids.as_slice() {
        [] => Err(not_found(prefix)),
        [id] => Ok(id.clone()),
        many => {
            let shown = many.iter().take(CANDIDATES_SHOWN).map(|id| id.as_bytes().to_vec());
            let message = format!("{} sessions begin so; write more of the id", many.len());
            let failure = Failure::usage(message).with_kind("ambiguous").with_session(prefix);
            Err(failure.with_candidates(shown.collect()))
        }
    }
}

fn not_found(name: &[u8]) -> Failure {
    Failure::new(FAILED, "not-found", "there is no such session").with_session(name).with_hint(
        "`everlog ls` lists them; a name is the full id or a unique prefix of at least 4 characters",
    )
}

/// Characters of WTF-8: every byte that does not continue one.
fn chars(wtf8: &[u8]) -> usize {
    wtf8.iter().filter(|b| **b & 0xc0 != 0x80).count()
}

/// An id that need not exist yet.
pub(crate) fn new_id(name: &OsStr) -> Result<SessionId, Failure> {
    SessionId::from_wtf8(name.as_encoded_bytes())
        .map_err(|e| Failure::from(e).with_code(crate::exit::USAGE))
}

/// Whether `name` names the parent `id`: the full id or a prefix that is long enough.
pub(crate) fn names_parent(name: &OsStr, id: &[u8]) -> bool {
    let name = name.as_encoded_bytes();
    name == id || (chars(name) >= PREFIX_CHARS_MIN && id.starts_with(name))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]
    use super::*;

    #[test]
    fn m3_positions_after_the_last_at() {
        let cases: [(&str, Option<(&str, Position)>); 16] = [
            ("s@7", Some(("s", Position::One(7)))),
            ("s@10..20", Some(("s", Position::Range(10, Some(20))))),
            ("s@10..", Some(("s", Position::Range(10, None)))),
            ("s@..20", Some(("s", Position::Range(0, Some(20))))),
            ("s@-5..", Some(("s", Position::Last(5)))),
            ("a@b@3", Some(("a@b", Position::One(3)))),
            ("a@5@3", Some(("a@5", Position::One(3)))),
            ("a@b", None),
            ("s@..", None),
            ("s@-5..-2", None),
            ("s@+5", None),
            ("@7", None),
            ("s@turn:2", Some(("s", Position::Turn(2)))),
            ("a@b@step:30", Some(("a@b", Position::Step(30)))),
            ("s@turn:", None),
            ("s@turn:1..2", None),
        ];
        for (text, want) in cases {
            let want = want.map(|(id, p)| (id.as_bytes(), p));
            assert_eq!(split(text.as_bytes()), want, "{text}");
        }
    }

    #[test]
    fn positions_become_seqs_inside_the_session() {
        let seqs = |p: Position, n| p.seqs(n).map_err(|f| f.code());
        assert_eq!(seqs(Position::One(4), 5), Ok(Some((4, 4))));
        assert_eq!(seqs(Position::One(5), 5), Err(1));
        assert_eq!(seqs(Position::Range(3, Some(100)), 5), Ok(Some((3, 4))));
        assert_eq!(seqs(Position::Range(5, None), 5), Ok(None));
        assert_eq!(seqs(Position::Range(2, Some(1)), 5), Err(2));
        assert_eq!(seqs(Position::Last(2), 5), Ok(Some((3, 4))));
        assert_eq!(seqs(Position::Last(9), 5), Ok(Some((0, 4))));
        assert_eq!(seqs(Position::Last(9), 0), Ok(None));
    }

    #[test]
    fn m2_characters_are_counted_not_bytes() {
        assert_eq!(chars("\u{e9}\u{e9}\u{e9}".as_bytes()), 3);
        assert_eq!(chars(b"\xed\xa0\x80abc"), 4);
    }
}
