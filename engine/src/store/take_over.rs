//! Creating sessions and taking them over from the lane that wrote them last.
//!
//! # Invariants
//! Tk1. An id is looked for in all lanes up to their written end while its creation lock is held, and the create frame
//!      is at `os` before that lock is let go.
//! Tk2. A session's last event is durable, and provably so, before a CONTINUE stands on it: its lane was recovered here,
//!      or a living writer's lane holds a SYNCMARK or CLOSE above it that covers it.

use std::sync::Arc;

use super::Store;
use crate::error::{Error, ErrorKind, Holder, Result};
use crate::format::control::{Body, CREATE_PENDING, Control};
use crate::format::frame::kind;
use crate::format::segment::HEADER_LEN;
use crate::handle::StoreInner;
use crate::index::{Place, Record};
use crate::lane::Lane;
use crate::limits;
use crate::locks::{CreateLock, SessionLock};
use crate::options::planted;
use crate::segment::{Scan, Step};
use crate::session::{NewSession, Session, SessionWriter};
use crate::types::{EventId, LaneNo, SessionId, SessionNo};

impl StoreInner {
    fn record(&self, no: SessionNo) -> Result<Record> {
        self.lanes.read().index.table.get(no).cloned().ok_or_else(|| {
            Error::new(ErrorKind::NotFound, "the session is not there any more").with_session_no(no)
        })
    }

    /// The visible session of that id.
    pub(crate) fn visible(&self, id: &SessionId) -> Result<Record> {
        let lanes = self.lanes.read();
        let record = lanes.index.table.by_id(id).filter(|r| r.is_visible());
        let record = record.ok_or_else(|| {
            Error::new(ErrorKind::NotFound, "there is no such session; list them with `ls`")
                .with_session(id)
        })?;
        Ok(record.clone())
    }

    /// Adds host and label of the holder, from its lane's slot.
    fn explain_holder(&self, e: Error, id: &SessionId) -> Error {
        let Some(mut holder) = e.holder().cloned() else { return e.with_session(id) };
        self.name_holder(&mut holder);
        e.with_session(id).with_holder(holder)
    }

    /// Completes what a lock record says by the slot of the holder's lane.
    pub(crate) fn name_holder(&self, holder: &mut Holder) {
        let lanes = self.lanes.read();
        if let Some(slot) = lanes.views.get(&holder.lane).and_then(|v| v.slot.as_ref()) {
            holder.host.clone_from(&slot.host);
            holder.label.clone_from(&slot.label);
            if holder.pid == 0 {
                holder.pid = slot.pid;
                holder.since_ms = slot.since_ms;
            }
        }
    }

    /// Takes the lock of a session that is there, and sees to it that its last event can be stood on.
    fn take_over(&self, id: &SessionId) -> Result<(Arc<Lane>, SessionLock, Record)> {
        self.refresh()?;
        let failed = self.settle_failed()?;
        let record = match self.visible(id) {
            Err(e) if e.kind() == ErrorKind::NotFound => {
                // It may stand behind what is durable in a lane that failed: in this handle's own, or another's.
                self.own_lane().map_or(Ok(()), |lane| lane.alive())?;
                self.refuse_unsettled(&failed, id)?;
                return Err(e);
            }
            found => found?,
        };
        let lane = self.lane(Some(record.last_lane()))?;
        let lock =
            self.locks.session(record.no, lane.no).map_err(|e| self.explain_holder(e, id))?;
        let record = self.settle(record.no, lane.no).map_err(|e| self.explain_holder(e, id))?;
        if let Some((first, last)) = record.conflicts.first() {
            let message = format!(
                "two writers' events claim seqs {first} to {last}; run check and recover by hand"
            );
            return Err(Error::new(ErrorKind::Diverged, message).with_session(id).with_seq(*first));
        }
        let behind = record.extents.last().map_or(0, |e| e.end_seq());
        let handed = record.hand_overs.iter().map(|h| h.first_seq).max().unwrap_or(0);
        if behind.max(handed) > record.next_seq {
            return Err(Error::corrupt(
                "events of the session are missing, so its end is not known; run check",
            )
            .with_session(id)
            .with_seq(record.next_seq));
        }
        Ok((lane, lock, record))
    }

    /// Waits until the last event of a session is provably durable; returns what is known of the session then.
    fn settle(&self, no: SessionNo, own: LaneNo) -> Result<Record> {
        let until = self.vfs.monotonic_ns() + self.options.lock_wait_ms * 1_000_000;
        // Only what is read under the lock counts: another may have had the session until a moment ago.
        self.refresh()?;
        loop {
            let record = self.record(no)?;
            let last = record.last_lane();
            if last == own || planted!(self.options, DeadLaneNotRecovered) {
                return Ok(record);
            }
            if self.settle_lane(last)? {
                return self.record(no);
            }
            self.lanes.write().refresh_lane(last)?;
            let record = self.record(no)?;
            if planted!(self.options, ContinueBeforeSync) || self.is_proved(&record)? {
                return Ok(record);
            }
            if self.vfs.monotonic_ns() >= until {
                let holder = Holder { lane: last, ..Holder::default() };
                return Err(Error::new(
                    ErrorKind::Locked,
                    "the writer that had the session is still closing; try again",
                )
                .with_holder(holder));
            }
            self.vfs.sleep_ms(2);
        }
    }

    /// Whether the lane of a session's last frame holds a mark above that frame which covers it.
    fn is_proved(&self, record: &Record) -> Result<bool> {
        let last = match record.next_seq.checked_sub(1).filter(|seq| *seq >= record.base()) {
            Some(seq) => self.locate(record.no, seq)?.place,
            None => record.created,
        };
        let last = record
            .hand_overs
            .iter()
            .map(|h| h.at)
            .filter(|at| at.lane == last.lane)
            .fold(last, |a, b| a.max(b));
        self.is_marked(last)
    }

    /// Whether a lane holds a mark above a frame of it that covers that frame.
    pub(super) fn is_marked(&self, last: Place) -> Result<bool> {
        let (segment, newest) = {
            let lanes = self.lanes.read();
            let Some(view) = lanes.views.get(&last.lane) else { return Ok(false) };
            let newest = view.segments.last_key_value().map(|(n, _)| *n);
            (view.segments.get(&last.segment).cloned(), newest)
        };
        let Some(segment) = segment else { return Ok(false) };
        if newest != Some(last.segment) {
            return Ok(true);
        }
        let mut scan = Scan::new(&segment, last.offset, segment.frames_limit());
        while let Step::Frame { header, .. } = scan.step()? {
            if matches!(header.kind, kind::SYNCMARK | kind::CLOSE) && header.seq > last.offset {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Refuses an id that is created or published in a lane behind what was durable when its writer failed, while that
    /// writer is there: whether the session exists is not known before it ends.
    fn refuse_unsettled(&self, failed: &[LaneNo], id: &SessionId) -> Result<()> {
        for no in failed {
            let (segment, from, pending) = {
                let lanes = self.lanes.read();
                let same_id = lanes.index.table.all_by_id(id);
                let pending: Vec<SessionNo> = same_id.filter(|r| r.pending).map(|r| r.no).collect();
                let Some(view) = lanes.views.get(no) else { continue };
                let newest = view.segments.last_key_value().map(|(_, s)| s.clone());
                let (Some(segment), Some(slot)) = (newest, &view.slot) else { continue };
                let same = slot.segment == segment.no();
                (segment, if same { slot.durable_end } else { HEADER_LEN }, pending)
            };
            let mut scan = Scan::new(&segment, from.max(HEADER_LEN), segment.frames_limit());
            while let Step::Frame { header, payload, .. } = scan.step()? {
                let creates = || match Control::decode(header.kind, payload).map(|c| c.body) {
                    Ok(Body::Create { id: taken, .. } | Body::Fork { id: taken, .. }) => {
                        taken[..] == *id.as_bytes()
                    }
                    _ => false,
                };
                let concerns = match header.kind {
                    kind::CREATE | kind::FORK => creates(),
                    kind::PUBLISH => pending.contains(&SessionNo(header.session)),
                    _ => false,
                };
                if concerns {
                    let message = "a writer made the session and failed: whether it is there is known once that \
                                   writer closes its store or ends; try again then";
                    let holder = crate::Holder { lane: *no, ..crate::Holder::default() };
                    let locked = Error::new(ErrorKind::Locked, message).with_holder(holder);
                    return Err(self.explain_holder(locked, id));
                }
            }
        }
        Ok(())
    }

    /// Identity of a session's last event.
    fn last_event(&self, record: &Record) -> Result<Option<EventId>> {
        let Some(seq) = record.next_seq.checked_sub(1) else { return Ok(None) };
        self.event_id(record.no, seq).map(Some)
    }
}

impl Store {
    /// Makes a session and holds its lock. No other process can make the same id.
    ///
    /// # Errors
    /// `Exists` when the id is taken, `Locked` with the holder when it is being made or imported by another, `Invalid` for a header that
    /// breaks a rule (dsh-spec.md section 1.2), `Limit`, `StorageFull`, `ReadOnly`, `Poisoned`, `OutcomeUnknown`.
    ///
    /// # Durability
    /// The session survives the process when this returns, the machine with its first synced event or at the next sync.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
    /// use everlog::NewSession;
    /// let writer = store.create_session(&NewSession::new("agent-7")?.with_cwd("/work"))?;
    /// assert_eq!(writer.next_seq(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn create_session(&self, new: &NewSession) -> Result<SessionWriter> {
        self.make_session(new, false)
    }

    pub(crate) fn make_session(&self, new: &NewSession, pending: bool) -> Result<SessionWriter> {
        let inner = &self.inner;
        inner.guard_write()?;
        let header = new.header_text(inner.vfs.now_ms())?;
        let id = new.id().clone();
        let (lane, creation) = self.reserve(&id)?;
        let no = lane.next_session_no()?;
        let lock = inner.locks.session(no, lane.no)?;
        let control = Control {
            session_epoch: 0,
            flags: if pending { CREATE_PENDING } else { 0 },
            time_ms: new.created_at_ms().unwrap_or_else(|| inner.vfs.now_ms()),
            body: Body::Create { id: id.as_bytes().into(), header: header.into() },
        };
        let ticket = StoreInner::stage_control(&lane, no, 0, &control)?;
        lane.flush_to(ticket.pos)?;
        drop(creation);
        let session = Session::new(inner.clone(), no, id);
        Ok(SessionWriter::new(session, lane, lock, 0, crate::Surface::new(), ticket.pos))
    }

    /// The own lane, and an id under its creation lock: no lane has a session of it.
    pub(super) fn reserve(&self, id: &SessionId) -> Result<(Arc<Lane>, CreateLock)> {
        let lane = self.inner.lane(None)?;
        lane.alive()?;
        let creation = self.inner.locks.creation(id, lane.no);
        let creation = creation.map_err(|e| self.inner.explain_holder(e, id))?;
        self.inner.refresh()?;
        let failed = self.inner.settle_failed()?;
        self.refuse_taken(id)?;
        self.inner.refuse_unsettled(&failed, id)?;
        Ok((lane, creation))
    }

    fn refuse_taken(&self, id: &SessionId) -> Result<()> {
        let sessions = self.inner.lanes.read().index.table.len() as u64;
        if sessions >= limits::SESSIONS_MAX {
            return Err(Error::limit("number of sessions", sessions, limits::SESSIONS_MAX));
        }
        let same: Vec<Record> =
            self.inner.lanes.read().index.table.all_by_id(id).cloned().collect();
        for record in same {
            if !record.pending {
                let message = "there is a session of that id; open it, or choose another id";
                return Err(Error::new(ErrorKind::Exists, message).with_session(id));
            }
            if let Some(holder) = self.inner.locks.holder(record.no)? {
                let message = "the session is being imported by another; wait until it is done";
                let locked = Error::new(ErrorKind::Locked, message).with_holder(holder);
                return Err(self.inner.explain_holder(locked, id));
            }
        }
        Ok(())
    }

    /// Takes a session to write to it, from whichever process wrote it last.
    ///
    /// # Errors
    /// `NotFound`, `Locked` with the holder (also where a writer that failed and is still there made the session: whether it
    /// exists is known once that ends), `Diverged`, `Corrupt` when the end of the session is not known,
    /// `ReadOnly`, `StorageFull`, `Poisoned`.
    ///
    /// # Durability
    /// Everything that the session holds survives the machine when this returns, unless this handle wrote it.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
    /// use everlog::{ErrorKind, NewSession};
    /// let first = store.create_session(&NewSession::new("agent-7")?)?;
    /// let id = first.id().clone();
    /// let second = store.writer(&id).map(|_| ()).map_err(|e| e.kind());
    /// assert_eq!(second, Err(ErrorKind::Locked));
    /// first.close()?;
    /// assert_eq!(store.writer(&id)?.next_seq(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn writer(&self, id: &SessionId) -> Result<SessionWriter> {
        let inner = &self.inner;
        inner.guard_write()?;
        let (lane, lock, record) = inner.take_over(id)?;
        let session = Session::new(inner.clone(), record.no, id.clone());
        let mut pos = 0;
        if record.last_lane() != lane.no {
            let control = Control {
                session_epoch: record.epoch + 1,
                flags: 0,
                time_ms: inner.vfs.now_ms(),
                body: Body::Continue { prev: inner.last_event(&record)? },
            };
            let ticket = StoreInner::stage_control(&lane, record.no, record.next_seq, &control)?;
            lane.flush_to(ticket.pos)?;
            pos = ticket.pos;
        }
        let surface = session.surface_at(record.next_seq)?;
        Ok(SessionWriter::new(session, lane, lock, record.next_seq, surface, pos))
    }

    /// Opens a session to read it. Needs no lock.
    ///
    /// # Errors
    /// `NotFound`, `ForkedHandle`.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
    /// use everlog::{ErrorKind, NewSession, SessionId};
    /// store.create_session(&NewSession::new("agent-7")?)?;
    /// assert_eq!(store.session(&SessionId::new("agent-7")?)?.next_seq(), 0);
    /// let none = store.session(&SessionId::new("agent")?).map(|_| ()).map_err(|e| e.kind());
    /// assert_eq!(none, Err(ErrorKind::NotFound));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn session(&self, id: &SessionId) -> Result<Session> {
        self.inner.guard()?;
        let record = self.inner.visible(id)?;
        Ok(Session::new(self.inner.clone(), record.no, id.clone()))
    }
}
