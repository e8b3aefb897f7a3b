//! Appending to a session under its lock: accept, frame, stage, and the level that was asked for.
//!
//! # Invariants
//! Wr1. All events of one call become one frame: all or none.
//! Wr2. What is refused changes nothing: the surface takes back what the accepted part of the call did to it.

use std::ops::Deref;
use std::sync::Arc;

use serde::Serialize;

use super::prepared::PreparedBatch;
use super::read::Session;
use super::receipt::Receipt;
use crate::accept::{Candidate, Rules, TOOL_RESULT, judge};
use crate::error::{Error, ErrorKind, Result};
use crate::event::NewEvent;
use crate::format::codec::crc;
use crate::format::events::{encode, record_bytes_max};
use crate::index::Digest;
use crate::lane::{Frame, Lane, stage::FrameBody};
use crate::limits;
use crate::locks::SessionLock;
use crate::options::{Level, planted};
use crate::surface::{Surface, SurfacePlan};
use crate::types::Seq;

/// A session that this handle may append to. Dropping it makes the events durable and lets go of the session.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
/// use everlog::{ErrorKind, Level, NewEvent, NewSession};
/// let mut writer = store.create_session(&NewSession::new("agent-7")?)?;
/// let batch = [NewEvent::new("turn/start", br#"{"turn":1}"#), NewEvent::new("note", b"[1]")];
/// let receipt = writer.append_batch(&batch, Level::Sync)?;
/// assert_eq!((receipt.first_seq(), receipt.last_seq()), (0, 1));
/// let refused = writer.append(&NewEvent::new("note", b"{broken"));
/// assert_eq!(refused.map(|_| ()).map_err(|e| e.kind()), Err(ErrorKind::Invalid));
/// assert_eq!(writer.next_seq(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SessionWriter {
    session: Session,
    lane: Arc<Lane>,
    lock: Option<SessionLock>,
    next_seq: Seq,
    surface: Surface,
    /// Position of the lane behind the session's last frame.
    pos: u64,
    payload: Vec<u8>,
}

impl Deref for SessionWriter {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.session
    }
}

impl SessionWriter {
    pub(crate) fn new(
        session: Session,
        lane: Arc<Lane>,
        lock: SessionLock,
        next_seq: Seq,
        surface: Surface,
        pos: u64,
    ) -> Self {
        Self { session, lane, lock: Some(lock), next_seq, surface, pos, payload: Vec::new() }
    }

    /// Seq that the next event gets, 0 to 2^53 - 1.
    #[must_use]
    pub fn next_seq(&self) -> Seq {
        self.next_seq
    }

    /// The surface as the events so far have left it.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
    /// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
    /// use everlog::{NewEvent, SurfaceOp};
    /// let text = br#"{"id":"m","role":"user","source":{"kind":"human"},"content":[]}"#;
    /// writer.append(&NewEvent::new("note", b"1"))?;
    /// writer.append(&NewEvent::new("user/message", text).with_surface_op(SurfaceOp::Append))?;
    /// assert_eq!(writer.surface().iter().collect::<Vec<_>>(), [1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn surface(&self) -> &Surface {
        &self.surface
    }

    /// Appends one event, up to the store's default level.
    ///
    /// # Errors
    /// As [`SessionWriter::append_batch`].
    ///
    /// # Durability
    /// As [`SessionWriter::append_batch`] at that level: `os` unless the store or the handle says otherwise.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
    /// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
    /// let receipt = writer.append(&everlog::NewEvent::new("note", b"1"))?;
    /// assert_eq!((receipt.last_seq(), receipt.level()), (0, everlog::Level::Os));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn append(&mut self, event: &NewEvent<'_>) -> Result<Receipt> {
        let level = self.session.store.default_level();
        self.append_batch(std::slice::from_ref(event), level)
    }

    /// Appends one event whose data is made from a value, with the floats of ECMAScript: `1.0` is stored as `1`.
    ///
    /// # Errors
    /// `Invalid` when the value has no JSON form (NaN, an infinity, -0.0, a map with keys that are neither strings nor
    /// numbers); else as [`SessionWriter::append_batch`].
    ///
    /// # Durability
    /// As [`SessionWriter::append`].
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
    /// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
    /// #[derive(serde::Serialize)]
    /// struct Turn {
    ///     turn: u32,
    /// }
    /// writer.append_json("turn/start", &Turn { turn: 1 })?;
    /// assert_eq!(writer.read(0)?.data[..], br#"{"turn":1}"#[..]);
    /// assert!(writer.append_json("note", &[1.0, f64::NAN]).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn append_json<T: Serialize + ?Sized>(
        &mut self,
        event_type: &str,
        data: &T,
    ) -> Result<Receipt> {
        let level = self.session.store.default_level();
        let text = crate::json::to_text(data)?;
        let event = NewEvent::new(event_type, &text);
        self.append_batch(std::slice::from_ref(&event), level)
    }

    /// Appends 1 to 65,535 events, at most 64 MiB as they are encoded, all or none, and returns when they have reached
    /// `level`.
    ///
    /// # Errors
    /// `Invalid` when an event breaks a rule of dsh-spec.md section 2 or 4 (the error names field and seq), `Limit`,
    /// `StorageFull`: nothing was accepted. `OutcomeUnknown` when the write or sync failed, `Poisoned` after that,
    /// `ForkedHandle`.
    ///
    /// # Durability
    /// With [`Level::Os`] the events survive the process when this returns, with [`Level::Sync`] the machine, with
    /// [`Level::Buffered`] neither yet. They are one frame (format.md section 6): all or none, also after a crash.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
    /// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
    /// use everlog::{ErrorKind, Level, NewEvent};
    /// let batch = [NewEvent::new("note", b"1"), NewEvent::new("note", b"{broken")];
    /// let refused = writer.append_batch(&batch, Level::Sync).unwrap_err();
    /// assert_eq!((refused.kind(), refused.seq()), (ErrorKind::Invalid, Some(1)));
    /// assert_eq!(writer.next_seq(), 0);
    /// writer.append_batch(&batch[..1], Level::Sync)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn append_batch(&mut self, events: &[NewEvent<'_>], level: Level) -> Result<Receipt> {
        let rules = self.rules();
        self.append_under(&rules, events, level)
    }

    /// Appends events whose text was checked ahead, all or none, and returns when they have reached `level`.
    ///
    /// # Errors
    /// As [`SessionWriter::append_batch`].
    ///
    /// # Durability
    /// As [`SessionWriter::append_batch`].
    pub fn append_prepared(&mut self, batch: &PreparedBatch, level: Level) -> Result<Receipt> {
        let mut rules = self.rules();
        // A store with a lower bound than the batch was checked with looks again.
        rules.data_checked = rules.depth_max >= limits::JSON_DEPTH_MAX;
        self.append_under(&rules, batch.events(), level)
    }

    fn append_under(
        &mut self,
        rules: &Rules,
        events: &[NewEvent<'_>],
        level: Level,
    ) -> Result<Receipt> {
        self.session.store.guard_write()?;
        self.lane.alive()?;
        let done = self.append_judged(events, rules);
        let (pos, first_id) = done.map_err(|e| e.with_session(self.session.id()))?;
        let seqs = (self.next_seq - events.len() as u64, self.next_seq - 1);
        self.reach(pos, level)?;
        Ok(Receipt::new(self.lane.clone(), pos, seqs, first_id, level))
    }

    /// Appends events if the next seq is `next_seq`.
    ///
    /// # Errors
    /// `Conflict` when it is not: [`Error::expected`] gives the real one. Else as [`SessionWriter::append_batch`].
    ///
    /// # Durability
    /// As [`SessionWriter::append_batch`].
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
    /// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
    /// use everlog::{ErrorKind, Level, NewEvent};
    /// let event = [NewEvent::new("note", b"1")];
    /// writer.append_expecting(0, &event, Level::Os)?;
    /// let late = writer.append_expecting(0, &event, Level::Os).unwrap_err();
    /// assert_eq!((late.kind(), late.expected()), (ErrorKind::Conflict, Some(1)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn append_expecting(
        &mut self,
        next_seq: Seq,
        events: &[NewEvent<'_>],
        level: Level,
    ) -> Result<Receipt> {
        self.session.store.guard_write()?;
        if next_seq != self.next_seq {
            let message = format!(
                "the next seq is {}, not {next_seq}; read what was added, then decide",
                self.next_seq
            );
            return Err(Error::new(ErrorKind::Conflict, message)
                .with_session(self.session.id())
                .with_expected(self.next_seq));
        }
        self.append_batch(events, level)
    }

    fn rules(&self) -> Rules {
        let options = &self.session.store.options;
        Rules {
            data_bytes_max: options.event_bytes_max,
            depth_max: options.json_depth_max,
            data_checked: false,
            shapes: options.check_shapes,
            legacy: false,
        }
    }

    /// Appends events that the importer has judged, at `buffered`.
    pub(crate) fn append_imported(&mut self, events: &[NewEvent<'_>]) -> Result<()> {
        self.session.store.guard_write()?;
        let (pos, _) = self.stage_events(events)?;
        self.lane.relieve(pos)
    }

    fn reach(&self, pos: u64, level: Level) -> Result<()> {
        if planted!(self.session.store.options, AckBeforeWrite) {
            return Ok(());
        }
        match level {
            Level::Buffered => self.lane.relieve(pos),
            Level::Os => self.lane.flush_to(pos),
            Level::Sync => self.lane.sync_to(pos),
        }
    }

    fn append_judged(
        &mut self,
        events: &[NewEvent<'_>],
        rules: &Rules,
    ) -> Result<(u64, crate::EventId)> {
        check_batch(events, self.session.store.options.event_bytes_max)?;
        if self.next_seq + events.len() as u64 > limits::SAFE_INTEGER_MAX {
            let max = limits::SAFE_INTEGER_MAX;
            return Err(Error::limit("seq", self.next_seq + events.len() as u64, max));
        }
        let mut plans = Vec::new();
        let outcome =
            self.judge_all(events, rules, &mut plans).and_then(|()| self.stage_events(events));
        if outcome.is_err() {
            while let Some(plan) = plans.pop() {
                self.surface.undo(&plan);
            }
        }
        outcome
    }

    fn judge_all(
        &mut self,
        events: &[NewEvent<'_>],
        rules: &Rules,
        plans: &mut Vec<SurfacePlan>,
    ) -> Result<()> {
        let first = self.next_seq;
        for (i, event) in events.iter().enumerate() {
            let seq = first + i as u64;
            let session = &self.session;
            let stored = |at: Seq| stored_result(session, events, first, at);
            let plan = judge(&Candidate::of_new(event, seq), rules, &self.surface, stored)
                .map_err(|refusal| refusal.into_error(seq))?;
            if let Some(plan) = plan {
                self.surface.apply(&plan);
                plans.push(plan);
            }
        }
        Ok(())
    }

    fn stage_events(&mut self, events: &[NewEvent<'_>]) -> Result<(u64, crate::EventId)> {
        let now_ms = self.lane.vfs.now_ms();
        let columns = self.session.store.options.columns();
        let flags = encode(&mut self.payload, events, self.next_seq, now_ms, columns);
        let digest = digest_of(events, self.next_seq, now_ms);
        let pcrc = crc(&self.payload);
        let ticket = self.lane.stage(Frame {
            session: self.session.no,
            seq: self.next_seq,
            count: events.len() as u16,
            flags,
            payload: &mut self.payload,
            pcrc,
            body: FrameBody::Events(&digest),
        })?;
        self.next_seq += events.len() as u64;
        self.pos = ticket.pos;
        Ok((ticket.pos, ticket.first))
    }

    /// Stages a control frame of this session.
    pub(crate) fn control(&mut self, control: &crate::format::control::Control) -> Result<u64> {
        let ticket = crate::handle::StoreInner::stage_control(
            &self.lane,
            self.session.no,
            self.next_seq,
            control,
        )?;
        self.pos = ticket.pos;
        Ok(ticket.pos)
    }

    pub(crate) fn lane(&self) -> &Arc<Lane> {
        &self.lane
    }

    /// Makes the events durable and lets go of the session, so that another process can take it.
    ///
    /// # Errors
    /// `OutcomeUnknown` or `Poisoned` when that fails: the lock then stays with this store handle until it is closed.
    ///
    /// # Durability
    /// All events of the session survive the machine.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
    /// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
    /// use everlog::{NewEvent, Store, StoreOptions};
    /// writer.append(&NewEvent::new("note", b"1"))?;
    /// let id = writer.id().clone();
    /// writer.close()?;
    /// let other = Store::open(folder.path().join("s"), StoreOptions::default())?;
    /// assert_eq!(other.writer(&id)?.next_seq(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn close(mut self) -> Result<()> {
        self.session.store.guard()?;
        self.let_go()
    }

    fn let_go(&mut self) -> Result<()> {
        let Some(lock) = self.lock.take() else { return Ok(()) };
        if planted!(self.session.store.options, ContinueBeforeSync) {
            return self.lane.flush_to(self.pos);
        }
        let proved = self.lane.prove(self.pos);
        if proved.is_err() {
            self.session.store.kept.lock().push(lock);
        }
        proved
    }
}

impl Drop for SessionWriter {
    fn drop(&mut self) {
        if self.session.store.guard().is_ok() {
            // Best effort: `close` reports errors; the lock is kept when the proof failed.
            let _ignored = self.let_go();
        }
    }
}

/// Data of an earlier tool result, from the log or from this very call.
fn stored_result(
    session: &Session,
    batch: &[NewEvent<'_>],
    first: Seq,
    seq: Seq,
) -> Result<Option<Vec<u8>>> {
    if let Some(i) = seq.checked_sub(first) {
        let event = usize::try_from(i).ok().and_then(|i| batch.get(i));
        return Ok(event.filter(|e| e.event_type == TOOL_RESULT).map(|e| e.data.to_vec()));
    }
    session.with(seq, &mut |e| (e.event_type == TOOL_RESULT).then(|| e.data.to_vec()))
}

fn check_batch(events: &[NewEvent<'_>], event_bytes_max: usize) -> Result<()> {
    if events.is_empty() || events.len() > limits::BATCH_EVENTS_MAX {
        return Err(Error::limit(
            "events of one append",
            events.len() as u64,
            limits::BATCH_EVENTS_MAX as u64,
        ));
    }
    let bytes = events.iter().fold(0usize, |sum, e| sum.saturating_add(record_bytes_max(e)));
    let max = limits::BATCH_BYTES_MAX.max(event_bytes_max.saturating_add(1 << 20));
    if bytes > max {
        return Err(Error::limit("bytes of one append", bytes as u64, max as u64));
    }
    Ok(())
}

fn digest_of(events: &[NewEvent<'_>], first: Seq, now_ms: i64) -> Digest {
    let mut digest = Digest::default();
    for (i, e) in events.iter().enumerate() {
        digest.last_time_ms = e.time_ms.unwrap_or(now_ms);
        digest.add(first + i as u64, &e.event_type, e.surface_op.is_some(), e.ignorable);
    }
    digest
}
