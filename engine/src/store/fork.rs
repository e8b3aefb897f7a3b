//! Forks: sessions that share the events of another up to a boundary.
//!
//! # Invariants
//! Fk1. The event at the boundary is provably durable before a FORK frame stands on it, as with a CONTINUE.
//! Fk2. A fork stands between turns: no turn of the parent is open at the boundary.
//! Fk3. Nothing is copied, and what the parent gets later never shows in the child.

use super::Store;
use crate::accept::check_header_template;
use crate::error::{Error, ErrorKind, Result};
use crate::format::control::{Body, Control, Owner};
use crate::handle::StoreInner;
use crate::index::Record;
use crate::lane::Lane;
use crate::options::{Level, planted};
use crate::session::{LandmarkKind, NewSession, Session, SessionWriter, ViewOptions};
use crate::types::{Seq, SessionId, SessionNo};

/// Where a session is forked, and what is to be done about an open turn. The default is behind its last event.
///
/// ```
/// let options = everlog::ForkOptions::default();
/// assert_ne!(options.with_boundary(7), options.with_close());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ForkOptions {
    boundary: Option<Seq>,
    close: bool,
}

impl ForkOptions {
    /// The last event that is shared.
    #[must_use]
    pub fn with_boundary(mut self, seq: Seq) -> Self {
        self.boundary = Some(seq);
        self
    }

    /// Allows a boundary inside a turn: the child gets the events that close it.
    #[must_use]
    pub fn with_close(mut self) -> Self {
        self.close = true;
        self
    }
}

impl Store {
    /// Makes the session `child` that goes on from `parent` behind the boundary that the options name, and holds its lock. The events are shared, not copied; the parent may be written meanwhile. The child's header has the
    /// parent's directory, its id and the number of inherited events; a mark `session/end-seed` follows them unless they
    /// end with one.
    ///
    /// # Errors
    /// `Exists` when there is a session `child`, `NotFound` when there is none `parent`, `Invalid` with the field
    /// `boundary` when that event is not there, `OpenTurn` when a turn is open behind it; else as
    /// [`Store::create_session`], and `Locked` when the writer of the parent does not make the event durable.
    ///
    /// # Durability
    /// As [`Store::create_session`].
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
    /// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
    /// use everlog::{ErrorKind, ForkOptions, NewEvent, SessionId};
    /// writer.append(&NewEvent::new("session/title", br#"{"title":"x"}"#))?;
    /// writer.append(&NewEvent::new("turn/start", br#"{"turn":1}"#))?;
    /// let child = SessionId::new("b")?;
    /// let refused = store.fork(writer.id(), &child, ForkOptions::default()).map(|_| ()).map_err(|e| e.kind());
    /// assert_eq!(refused, Err(ErrorKind::OpenTurn));
    /// let fork = store.fork(writer.id(), &child, ForkOptions::default().with_boundary(0))?;
    /// let types: Vec<_> = fork.iter().map(|e| e.map(|e| e.event_type)).collect::<Result<_, _>>()?;
    /// assert_eq!((&*types[0], &*types[1]), (&b"session/title"[..], &b"session/end-seed"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn fork(
        &self,
        parent: &SessionId,
        child: &SessionId,
        options: ForkOptions,
    ) -> Result<SessionWriter> {
        let inner = &self.inner;
        inner.guard_write()?;
        let (lane, creation) = self.reserve(child)?;
        let record = inner.visible(parent)?;
        let session = Session::new(inner.clone(), record.no, parent.clone());
        let boundary =
            boundary_in(&record, options.boundary).map_err(|e| e.with_session(parent))?;
        let view = check_header_template(&session.header()?).map_err(|r| r.header_error())?;
        let mut new = NewSession::with_id(child.clone())
            .with_parent(parent.clone(), Some(boundary.map_or(0, |b| b + 1)));
        if let Some(cwd) = &view.cwd {
            new = new.with_cwd_bytes(cwd);
        }
        let Some(boundary) = boundary else {
            // Nothing is shared, so nothing says whose it would be.
            drop(creation);
            return self.marked(self.create_session(&new)?);
        };
        if !options.close {
            refuse_open_turn(&session, boundary)?;
        }
        inner.prove_event(&lane, record.no, boundary).map_err(|e| e.with_session(parent))?;
        let now_ms = inner.vfs.now_ms();
        let owners = owners_below(&record, boundary + 1);
        if owners.len() > usize::from(u16::MAX) {
            let max = u64::from(u16::MAX);
            return Err(Error::limit("forks of forks", owners.len() as u64, max));
        }
        let no = lane.next_session_no()?;
        let lock = inner.locks.session(no, lane.no)?;
        let control = Control {
            session_epoch: 0,
            flags: 0,
            time_ms: now_ms,
            body: Body::Fork {
                parent: record.no,
                boundary,
                at: inner.event_id(record.no, boundary)?,
                owners,
                id: child.as_bytes().into(),
                header: new.header_text(now_ms)?.into(),
            },
        };
        let ticket = StoreInner::stage_control(&lane, no, boundary + 1, &control)?;
        lane.flush_to(ticket.pos)?;
        drop(creation);
        let session = Session::new(inner.clone(), no, child.clone());
        let surface = session.surface_at(boundary + 1)?;
        self.marked(SessionWriter::new(session, lane, lock, boundary + 1, surface, ticket.pos))
    }

    /// Appends what closes an open turn, and the mark that ends what was inherited, unless it is there.
    fn marked(&self, mut writer: SessionWriter) -> Result<SessionWriter> {
        let level = self.inner.default_level().max(Level::Os);
        let done = writer.resume(ViewOptions::default().with_unknown_kept(), level)?;
        debug_assert_eq!(done.next_seq, writer.next_seq());
        Ok(writer)
    }
}

/// The boundary that is meant; none in a session without events.
fn boundary_in(record: &Record, boundary: Option<Seq>) -> Result<Option<Seq>> {
    match boundary {
        None => Ok(record.next_seq.checked_sub(1)),
        Some(seq) if seq < record.next_seq => Ok(Some(seq)),
        Some(seq) => {
            let what = format!("the session has {} events, counted from 0", record.next_seq);
            Err(Error::invalid("boundary", what).with_seq(seq))
        }
    }
}

fn refuse_open_turn(session: &Session, boundary: Seq) -> Result<()> {
    let turns = |kind| matches!(kind, LandmarkKind::TurnStart | LandmarkKind::TurnEnd);
    let marks = session.landmarks()?;
    let last = marks.iter().rev().find(|m| m.seq <= boundary && turns(m.kind));
    match last {
        Some(mark) if mark.kind == LandmarkKind::TurnStart => {
            let what = "a turn is open at the boundary; fork before it starts, or after it ends";
            Err(Error::new(ErrorKind::OpenTurn, what)
                .with_session(session.id())
                .with_seq(boundary)
                .with_field("boundary"))
        }
        _ => Ok(()),
    }
}

/// Who owns the events of a session below `end`.
fn owners_below(record: &Record, end: Seq) -> Vec<Owner> {
    let inherited = record.fork.as_ref().map_or(&[][..], |f| &f.owners);
    let mut owners: Vec<Owner> = Vec::new();
    for owner in inherited.iter().chain([&Owner { session: record.no, end: Seq::MAX }]) {
        owners.push(Owner { session: owner.session, end: owner.end.min(end) });
        if owner.end >= end {
            break;
        }
    }
    owners
}

impl StoreInner {
    /// Waits until an event is provably durable, or recovers the lane of a dead writer that holds it (Fk1).
    fn prove_event(&self, own: &Lane, no: SessionNo, seq: Seq) -> Result<()> {
        let until = self.vfs.monotonic_ns() + self.options.lock_wait_ms * 1_000_000;
        loop {
            let place = self.locate(no, seq)?.place;
            // In the own lane it stands before the FORK frame, and one sync covers both.
            if place.lane == own.no
                || planted!(self.options, ContinueBeforeSync)
                || self.is_marked(place)?
            {
                return Ok(());
            }
            if self.settle_lane(place.lane)? {
                // A recovery may have dropped it.
                return self.locate(no, seq).map(|_| ());
            }
            self.lanes.write().refresh_lane(place.lane)?;
            if self.vfs.monotonic_ns() >= until {
                let what = "the writer of the parent has not made the event durable; try again";
                return Err(Error::new(ErrorKind::Locked, what).with_seq(seq));
            }
            self.vfs.sleep_ms(2);
        }
    }
}
