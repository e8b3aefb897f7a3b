//! Iteration over a range of a session, in both directions, one frame in memory at each end.

use std::collections::VecDeque;

use super::read::Session;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::format::events::Events as FrameEvents;
use crate::types::{EventId, Seq};

/// Events of a range of a session, in order; can be taken from the end as well. [`Session::iter`], [`Session::range`]
/// and [`Session::last`] make one. It sees what was there when it was made, and reads one frame at a time.
///
/// After a damaged frame the iterator gives its error, `Corrupt` with session and seq, and goes on behind it, so that
/// what is whole is read. Other errors are those of [`Session::read`].
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
/// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
/// for n in ["0", "1", "2"] {
///     writer.append(&everlog::NewEvent::new("note", n.as_bytes()))?;
/// }
/// let mut events: everlog::Events = writer.iter();
/// let ends = (events.next().transpose()?, events.next_back().transpose()?);
/// assert_eq!((ends.0.map(|e| e.seq), ends.1.map(|e| e.seq)), (Some(0), Some(2)));
/// assert_eq!(events.count(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Events {
    session: Session,
    next: Seq,
    end: Seq,
    front: VecDeque<Event>,
    back: VecDeque<Event>,
    payload: Vec<u8>,
    /// Seq and identity of the first event of the frame that was read last.
    origin: Option<(Seq, EventId)>,
}

impl Events {
    pub(crate) fn new(session: Session, next: Seq, end: Seq) -> Self {
        Self {
            session,
            next,
            end,
            front: VecDeque::new(),
            back: VecDeque::new(),
            payload: Vec::new(),
            origin: None,
        }
    }

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// Seq of the first event that was not read yet.
    pub(crate) fn unread(&self) -> Seq {
        self.next
    }

    /// Goes on up to `end`; never back.
    pub(crate) fn extend_to(&mut self, end: Seq) {
        self.end = self.end.max(end);
    }

    /// Takes back what was read from `seq` on and where it would have ended.
    pub(crate) fn retract(&mut self, seq: Seq) {
        self.front.clear();
        self.next = seq;
        self.end = seq;
    }

    /// Goes on from `seq`, without what is before.
    pub(crate) fn skip_to(&mut self, seq: Seq) {
        self.front.clear();
        self.next = seq;
        self.end = self.end.max(seq);
    }

    /// Identity of an event of the frame that was read last.
    pub(crate) fn id_of(&self, seq: Seq) -> Option<EventId> {
        let (first, id) = self.origin?;
        Some(EventId { gsn: id.gsn + seq.checked_sub(first)?, ..id })
    }

    /// Loads the events of the frame that holds `seq`, cut to what is not given yet. On an error, says which seqs
    /// the bad frame stands for.
    fn load(&mut self, seq: Seq) -> std::result::Result<Vec<Event>, (Error, Seq, Seq)> {
        let tag = |e: Error| e.with_session(self.session.id()).with_seq(seq);
        let one = |e: Error| (tag(e), seq, seq + 1);
        self.session.store.guard().map_err(one)?;
        let located = self.session.store.locate(self.session.no, seq).map_err(|e| {
            let lanes = self.session.store.lanes.read();
            let (owner, owned) = lanes.index.table.owner_of(self.session.no, seq);
            let hole = lanes.index.table.get(owner).and_then(|r| r.hole_at(seq));
            let (first, end) = hole.unwrap_or((seq, seq + 1));
            (tag(e), first, end.min(owned))
        })?;
        let f = located.frame;
        let owned = self.session.store.owner_of(self.session.no, seq).1;
        let frame_end = owned.min(f.first_seq + u64::from(f.count));
        let whole = |e: Error| (tag(e), f.first_seq, frame_end);
        let (h, stop) = self.session.frame_of(seq, &mut self.payload).map_err(whole)?;
        let (lane, epoch) = (located.place.lane, located.segment.header.epoch);
        self.origin = Some((h.seq, EventId { lane, epoch, gsn: h.gsn }));
        let bad = |fault: crate::format::Fault| whole(Error::corrupt(fault.clause()));
        let mut events = FrameEvents::open(&self.payload, h.count, h.flags, h.seq).map_err(bad)?;
        let skip = self.next.saturating_sub(h.seq);
        events.seek(skip as usize).map_err(bad)?;
        let mut out = Vec::new();
        while let Some(event) = events.next_event() {
            let e = event.map_err(bad)?;
            if e.seq >= self.end.min(stop) {
                break;
            }
            out.push(e.to_owned());
        }
        Ok(out)
    }
}

impl Iterator for Events {
    type Item = Result<Event>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(e) = self.front.pop_front() {
            return Some(Ok(e));
        }
        if self.next >= self.end {
            return self.back.pop_front().map(Ok);
        }
        match self.load(self.next) {
            Ok(events) => {
                self.next += events.len() as u64;
                self.front = events.into();
                self.front.pop_front().map(Ok)
            }
            Err((e, _, upto)) => {
                self.next = upto.min(self.end).max(self.next + 1);
                Some(Err(e))
            }
        }
    }
}

impl DoubleEndedIterator for Events {
    fn next_back(&mut self) -> Option<Self::Item> {
        if let Some(e) = self.back.pop_back() {
            return Some(Ok(e));
        }
        if self.next >= self.end {
            return self.front.pop_back().map(Ok);
        }
        match self.load(self.end - 1) {
            Ok(events) => {
                self.end -= events.len() as u64;
                self.back = events.into();
                self.back.pop_back().map(Ok)
            }
            Err((e, from, _)) => {
                self.end = from.max(self.next).min(self.end - 1);
                Some(Err(e))
            }
        }
    }
}
