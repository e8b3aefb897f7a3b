//! Reading a session: one event, a range, the last ones, forward and back.

use std::sync::Arc;

use parking_lot::Mutex;

use super::events::Events;
use crate::error::{Error, ErrorKind, Result};
use crate::event::{Event, EventRef};
use crate::format::control::Body;
use crate::format::events::Events as FrameEvents;
use crate::format::frame::{FrameHeader, kind};
use crate::format::index_frame::Run;
use crate::handle::StoreInner;
use crate::index::runs::{Located, frame_with, lost};
use crate::index::{Extent, Place, Record};
use crate::segment::Segment;
use crate::types::{EventId, Seq, SessionId, SessionNo};

/// A session, to be read. Cheap to clone; needs no lock, and sees what this handle appends at once and what other
/// processes append after a refresh.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
/// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
/// use everlog::{Level, NewEvent};
/// let events: Vec<NewEvent> = (0..9).map(|_| NewEvent::new("note", b"{}")).collect();
/// writer.append_batch(&events, Level::Os)?;
/// let session = store.session(writer.id())?;
/// let seqs: Vec<u64> = session.last(3).map(|e| e.map(|e| e.seq)).collect::<Result<_, _>>()?;
/// assert_eq!(seqs, [6, 7, 8]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Session {
    pub(crate) store: Arc<StoreInner>,
    pub(crate) no: SessionNo,
    id: SessionId,
    /// The place of the last read: runs of reads meet the same INDEX frame again.
    near: Mutex<Option<Near>>,
}

#[derive(Debug)]
struct Near {
    extent: Extent,
    segment: Arc<Segment>,
    runs: Arc<Vec<Run>>,
    payload: Vec<u8>,
}

impl Clone for Session {
    fn clone(&self) -> Self {
        Self::new(self.store.clone(), self.no, self.id.clone())
    }
}

impl StoreInner {
    /// The frame that holds an event of a session.
    pub(crate) fn locate(&self, no: SessionNo, seq: Seq) -> Result<Located> {
        let (no, extent, segment, frame) = {
            let lanes = self.lanes.read();
            let no = lanes.index.table.owner_of(no, seq).0;
            let record = lanes.index.table.get(no);
            let Some(extent) = record.and_then(|r| r.extent_of(seq)).copied() else {
                return Err(match record.and_then(|r| r.hole_at(seq)) {
                    Some((first, end)) => hole(no, seq, first, end - 1),
                    None => past_end(no, seq),
                });
            };
            let Some(segment) = lanes.segment(extent.lane, extent.segment) else {
                return Err(Error::corrupt("the segment of an event cannot be read; run check")
                    .with_session_no(no)
                    .with_seq(seq));
            };
            let frame = if extent.index == 0 {
                let block = lanes.index.blocks.get(&(extent.lane, extent.segment));
                block
                    .and_then(|b| b.run_with(no, seq))
                    .and_then(|r| frame_with(std::slice::from_ref(r), seq))
            } else {
                None
            };
            (no, extent, segment, frame)
        };
        let frame = match frame {
            Some(f) => f,
            None => {
                let runs = self.runs_of(&extent, &segment, no)?;
                frame_with(&runs, seq).ok_or_else(|| lost(&segment, no, seq))?
            }
        };
        let place = Place { lane: extent.lane, segment: extent.segment, offset: frame.offset };
        Ok(Located { segment, place, frame })
    }

    /// Who owns an event of a session, which is another when it was forked after it, and the seq at which that ends.
    pub(crate) fn owner_of(&self, no: SessionNo, seq: Seq) -> (SessionNo, Seq) {
        self.lanes.read().index.table.owner_of(no, seq)
    }

    /// Where the events end that cannot be read together with the one of `seq`: behind its frame, or where the next
    /// frame begins when the index names none for it. Above `seq` in any case.
    pub(crate) fn end_of_lost(&self, no: SessionNo, seq: Seq) -> Seq {
        let (no, owned) = self.owner_of(no, seq);
        if let Ok(at) = self.locate(no, seq) {
            return (at.frame.first_seq + u64::from(at.frame.count)).max(seq + 1).min(owned);
        }
        let (extent, segment) = {
            let lanes = self.lanes.read();
            let extent = lanes.index.table.get(no).and_then(|r| r.extent_of(seq)).copied();
            let segment = extent.and_then(|e| lanes.segment(e.lane, e.segment));
            (extent, segment)
        };
        let Some(extent) = extent else { return seq + 1 };
        let runs = segment.and_then(|s| self.runs_of(&extent, &s, no).ok());
        let frames = runs.iter().flat_map(|runs| runs.iter()).flat_map(|run| &run.frames);
        let next = frames.map(|f| f.first_seq).filter(|first| *first > seq).min();
        next.unwrap_or(u64::MAX).min(extent.end_seq()).max(seq + 1).min(owned)
    }

    /// The runs of a session that the INDEX frame of an extent lists.
    pub(crate) fn runs_of(
        &self,
        extent: &Extent,
        segment: &Segment,
        no: SessionNo,
    ) -> Result<Arc<Vec<Run>>> {
        if let Some(runs) = self.runs.kept(extent.lane, extent.segment, extent.index, no) {
            return Ok(runs);
        }
        // This handle's own INDEX frame may be staged only. What a failed lane had staged is in no index.
        let own = self.own_lane().filter(|l| l.no == extent.lane && l.poison.get().is_none());
        if let Some(lane) = own {
            lane.flush_to(lane.staged_pos())?;
        }
        self.runs.load(extent.lane, segment, extent.index, no)
    }

    /// Identity of an event of a session.
    pub(crate) fn event_id(&self, no: SessionNo, seq: Seq) -> Result<EventId> {
        let at = self.locate(no, seq)?;
        let owner = self.owner_of(no, seq).0;
        let h = self.read_frame(&at, owner, &mut Vec::new())?;
        let epoch = at.segment.header.epoch;
        Ok(EventId { lane: at.place.lane, epoch, gsn: h.gsn + (seq - h.seq) })
    }

    /// Reads the frame at a place, writing out first what this handle has only staged.
    pub(crate) fn read_frame(
        &self,
        at: &Located,
        no: SessionNo,
        payload: &mut Vec<u8>,
    ) -> Result<FrameHeader> {
        let got = at.segment.frame(at.place.offset, payload);
        let header = match got {
            Ok(h) => h,
            Err(_) if self.flush_own(at.place.lane)? => {
                at.segment.frame_expected(at.place.offset, payload)?
            }
            Err(e) => return Err(at.segment.explain(at.place.offset, e)),
        };
        let want = (kind::EVENTS, no.0, at.frame.first_seq);
        if (header.kind, header.session, header.seq) != want {
            return Err(lost(&at.segment, no, at.frame.first_seq));
        }
        Ok(header)
    }

    /// Writes out what is staged, when the lane is this handle's own.
    fn flush_own(&self, lane: u16) -> Result<bool> {
        match self.own_lane().filter(|l| l.no == lane) {
            Some(own) => own.flush_to(own.staged_pos()).map(|()| true),
            None => Ok(false),
        }
    }
}

fn hole(no: SessionNo, seq: Seq, first: Seq, last: Seq) -> Error {
    let message = format!("the frames that held seqs {first} to {last} are damaged; run check");
    Error::corrupt(message).with_session_no(no).with_seq(seq)
}

fn past_end(no: SessionNo, seq: Seq) -> Error {
    Error::new(ErrorKind::NotFound, "the session has no event of that seq")
        .with_session_no(no)
        .with_seq(seq)
}

impl Session {
    pub(crate) fn new(store: Arc<StoreInner>, no: SessionNo, id: SessionId) -> Self {
        Self { store, no, id, near: Mutex::new(None) }
    }

    /// Name of the session.
    #[must_use]
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// Seq that the next event gets; as many events are there. 0 to 2^53 - 1.
    #[must_use]
    pub fn next_seq(&self) -> Seq {
        // After a failed write the index is read again here; errors show at the first read.
        let _checked = self.store.guard();
        self.store.lanes.read().index.table.get(self.no).map_or(0, Record::end_seq)
    }

    /// Exact JSON text of the header.
    ///
    /// # Errors
    /// `Corrupt` when the frame is damaged, `Io`, `ForkedHandle`.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
    /// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
    /// assert!(writer.header()?.starts_with(br#"{"type":"session","version":0,"id":"a","createdAt":"#));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn header(&self) -> Result<Vec<u8>> {
        self.store.guard()?;
        let created = self.store.lanes.read().index.table.get(self.no).map(|r| r.created);
        let created = created.ok_or_else(|| past_end(self.no, 0))?;
        self.store.header_at(created, self.no).map_err(|e| e.with_session(&self.id))
    }

    /// Sees what other processes wrote.
    ///
    /// # Errors
    /// As [`Store::refresh`](crate::Store::refresh).
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
    /// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
    /// use everlog::{NewEvent, Store, StoreOptions};
    /// let other = Store::open(folder.path().join("s"), StoreOptions::default())?;
    /// let session = other.session(writer.id())?;
    /// writer.append(&NewEvent::new("note", b"1"))?;
    /// session.refresh()?;
    /// assert_eq!(session.next_seq(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn refresh(&self) -> Result<()> {
        self.store.guard()?;
        self.store.refresh()
    }

    /// Reads one event.
    ///
    /// # Errors
    /// `NotFound` past the end, `Corrupt` when its frame is damaged, `Diverged` when two writers' events claim the seq,
    /// `Io`, `ForkedHandle`.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
    /// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
    /// writer.append(&everlog::NewEvent::new("note", b"[1, 2]"))?;
    /// assert_eq!(writer.read(0)?.data[..], b"[1, 2]"[..]);
    /// assert_eq!(writer.read(1).map_err(|e| e.kind()), Err(everlog::ErrorKind::NotFound));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read(&self, seq: Seq) -> Result<Event> {
        self.with(seq, &mut |e| e.to_owned())
    }

    /// Reads one event and hands it on borrowed, without a copy of its data.
    ///
    /// # Errors
    /// As [`Session::read`].
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
    /// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
    /// writer.append(&everlog::NewEvent::new("note", b"[1, 2]"))?;
    /// assert_eq!(writer.with(0, &mut |event| event.data.len())?, 6);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with<T>(&self, seq: Seq, f: &mut dyn FnMut(&EventRef<'_>) -> T) -> Result<T> {
        self.store.guard()?;
        let mut near = self.near.lock();
        let mut payload = near.as_mut().map(|n| std::mem::take(&mut n.payload)).unwrap_or_default();
        let out = self.read_into(seq, &mut near, &mut payload, f);
        if let Some(n) = &mut *near {
            n.payload = payload;
        }
        out.map_err(|e| e.with_session(&self.id).with_seq(seq))
    }

    fn read_into<T>(
        &self,
        seq: Seq,
        near: &mut Option<Near>,
        payload: &mut Vec<u8>,
        f: &mut dyn FnMut(&EventRef<'_>) -> T,
    ) -> Result<T> {
        let (at, (owner, _)) = self.find(seq, near)?;
        let header = self.store.read_frame(&at, owner, payload)?;
        let mut events = FrameEvents::open(payload, header.count, header.flags, header.seq)
            .map_err(|fault| damaged(&at, fault))?;
        events.seek((seq - header.seq) as usize).map_err(|fault| damaged(&at, fault))?;
        match events.next_event() {
            Some(Ok(e)) => Ok(f(&e)),
            Some(Err(fault)) => Err(damaged(&at, fault)),
            None => Err(lost(&at.segment, self.no, seq)),
        }
    }

    /// The place of an event, its owner, and the seq at which that ends.
    fn find(&self, seq: Seq, near: &mut Option<Near>) -> Result<(Located, (SessionNo, Seq))> {
        let (owned, extent) = self.extent_of(seq)?;
        // What a recovery or a failed sync took back is not read from what was kept.
        if let Some(n) = near
            && Some(n.extent) == extent
            && let Some(frame) = frame_with(&n.runs, seq)
        {
            let place =
                Place { lane: n.extent.lane, segment: n.extent.segment, offset: frame.offset };
            return Ok((Located { segment: n.segment.clone(), place, frame }, owned));
        }
        let at = self.store.locate(self.no, seq)?;
        if let Some(extent) = extent.filter(|e| e.index != 0) {
            let runs = self.store.runs_of(&extent, &at.segment, owned.0)?;
            *near = Some(Near { extent, segment: at.segment.clone(), runs, payload: Vec::new() });
        }
        Ok((at, owned))
    }

    /// The owner of a seq, where that ends, and the extent that holds it, when the owner goes that far and no other
    /// writer claims it.
    fn extent_of(&self, seq: Seq) -> Result<((SessionNo, Seq), Option<Extent>)> {
        let lanes = self.store.lanes.read();
        let owned = lanes.index.table.owner_of(self.no, seq);
        let Some(record) = lanes.index.table.get(owned.0) else { return Ok((owned, None)) };
        if record.conflicts.iter().any(|(a, b)| (*a..=*b).contains(&seq)) {
            return Err(Error::new(
                ErrorKind::Diverged,
                "two writers' events claim that seq; run check and recover by hand",
            )
            .with_seq(seq));
        }
        Ok((owned, record.extent_of(seq).copied()))
    }

    /// Identity of an event for ever: what forks, cursors and hand-overs stand on.
    ///
    /// # Errors
    /// As [`Session::read`].
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
    /// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
    /// let receipt = writer.append(&everlog::NewEvent::new("note", b"1"))?;
    /// assert_eq!(writer.event_id(0)?, receipt.first_id());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn event_id(&self, seq: Seq) -> Result<EventId> {
        self.store.guard()?;
        let _owned = self.extent_of(seq)?;
        self.store.event_id(self.no, seq).map_err(|e| e.with_session(&self.id).with_seq(seq))
    }

    /// The frame that holds `seq`, for iteration, and the seq at which what it holds of this session ends: events of
    /// its owner behind a fork do not count.
    pub(crate) fn frame_of(&self, seq: Seq, payload: &mut Vec<u8>) -> Result<(FrameHeader, Seq)> {
        let (at, (owner, owned)) = {
            let mut near = self.near.lock();
            self.find(seq, &mut near)?
        };
        let header = self.store.read_frame(&at, owner, payload)?;
        Ok((header, owned.min(header.seq + u64::from(header.count))))
    }

    /// Events of an inclusive range, cut to what is there.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
    /// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
    /// use everlog::NewEvent;
    /// for n in ["0", "1", "2", "3"] {
    ///     writer.append(&NewEvent::new("note", n.as_bytes()))?;
    /// }
    /// let seqs: Vec<u64> = writer.range(2, 9).map(|e| e.map(|e| e.seq)).collect::<Result<_, _>>()?;
    /// assert_eq!(seqs, [2, 3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn range(&self, first: Seq, last: Seq) -> Events {
        let end = self.next_seq().min(last.saturating_add(1));
        Events::new(self.clone(), first.min(end), end)
    }

    /// The last `n` events, in order; all of them when there are fewer. [`Session`] has an example.
    #[must_use]
    pub fn last(&self, n: u64) -> Events {
        let end = self.next_seq();
        Events::new(self.clone(), end.saturating_sub(n), end)
    }

    /// All events, in order; reversible.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
    /// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
    /// writer.append(&everlog::NewEvent::new("note", b"1"))?;
    /// assert_eq!(writer.iter().rev().count(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn iter(&self) -> Events {
        Events::new(self.clone(), 0, self.next_seq())
    }

    /// Hands on the events of an inclusive range, cut to what is there, borrowed: the fastest way over many.
    ///
    /// # Errors
    /// As [`Session::read`], and what `f` gives, which ends it.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
    /// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
    /// writer.append(&everlog::NewEvent::new("note", b"[1, 2]"))?;
    /// let mut bytes = 0;
    /// writer.for_each(0, u64::MAX, &mut |event| {
    ///     bytes += event.data.len();
    ///     Ok(())
    /// })?;
    /// assert_eq!(bytes, 6);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn for_each(
        &self,
        first: Seq,
        last: Seq,
        f: &mut dyn FnMut(&EventRef<'_>) -> Result<()>,
    ) -> Result<()> {
        self.store.guard()?;
        let end = self.next_seq().min(last.saturating_add(1));
        let mut payload = Vec::new();
        let mut at = first;
        while at < end {
            let tag = |e: Error| e.with_session(&self.id).with_seq(at);
            let (h, stop) = self.frame_of(at, &mut payload).map_err(tag)?;
            let bad = |fault: crate::format::Fault| tag(Error::corrupt(fault.clause()));
            let mut events = FrameEvents::open(&payload, h.count, h.flags, h.seq).map_err(bad)?;
            events.seek((at - h.seq) as usize).map_err(bad)?;
            while let Some(event) = events.next_event() {
                let e = event.map_err(bad)?;
                if e.seq >= end.min(stop) {
                    break;
                }
                f(&e)?;
            }
            at = stop;
        }
        Ok(())
    }
}

impl StoreInner {
    /// Exact text of the header in the create frame at a place.
    pub(crate) fn header_at(&self, at: Place, no: SessionNo) -> Result<Vec<u8>> {
        let segment = self.lanes.read().segment(at.lane, at.segment);
        let segment = segment
            .ok_or_else(|| Error::corrupt("the segment of a session's creation cannot be read"))?;
        let mut payload = Vec::new();
        let header = match segment.frame(at.offset, &mut payload) {
            Ok(h) => h,
            Err(_) if self.flush_own(at.lane)? => {
                segment.frame_expected(at.offset, &mut payload)?
            }
            Err(e) => return Err(segment.explain(at.offset, e)),
        };
        match crate::format::control::Control::decode(header.kind, &payload).map(|c| c.body) {
            Ok(Body::Create { header: text, .. } | Body::Fork { header: text, .. })
                if header.session == no.0 =>
            {
                Ok(text.into_vec())
            }
            _ => Err(Error::corrupt("the creation of a session is damaged; run check")
                .with_path(&segment.path)
                .with_offset(at.offset)),
        }
    }
}

fn damaged(at: &Located, fault: crate::format::Fault) -> Error {
    Error::corrupt(format!("a stored frame is damaged ({}); run check", fault.clause()))
        .with_path(&at.segment.path)
        .with_offset(at.place.offset)
}
