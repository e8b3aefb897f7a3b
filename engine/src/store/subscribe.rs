//! Following all sessions of a store, over all its lanes, with a cursor to go on from.
//!
//! # Invariants
//! Sb1. Every event of every session is given once: in a lane in the order of its log, in a session in the order of its
//!      seqs. Between lanes the order is that of this reader's looks.
//! Sb2. A CONTINUE frame is passed only when the event that it stands on was given, so that a session that moved to
//!      another lane is given in order. Where that event is lost, another look at all lanes decides.
//! Sb3. The events of an import are given at its PUBLISH frame, all of them one after the other; never before. Which they
//!      are is told by the log, not by the time at which it is read.
//! Sb4. The cursor stands behind the event that was given last. What is held ahead is bounded: the events of one frame
//!      more than 64 KiB of them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Store;
use super::cursor::{At, Cursor, store_mark};
use super::given::{Seen, StoreEvent, each_event};
use super::track::{Stretch, Track};
use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;
use crate::format::control::{Body, Control};
use crate::format::frame::{FrameHeader, kind};
use crate::handle::StoreInner;
use crate::index::Place;
use crate::segment::{Scan, Step};
use crate::session::follow::{FollowOptions, Pacer, Scope, wait_for};
use crate::session::{Events, Session};
use crate::types::{EventId, LaneNo, SessionId, SessionNo};

/// Bytes of frames that are read of a lane before the next lane has its turn.
const TURN_BYTES: u64 = 64 << 10;
/// Looks without news after which a lane is looked at only together with all others.
const QUIET_LOOKS: u64 = 64;

struct Item {
    given: StoreEvent,
    at: At,
}

/// An import that is being given.
#[derive(Debug)]
struct Burst {
    events: Events,
    id: SessionId,
    lane: LaneNo,
    at: At,
    no: SessionNo,
}

/// The events of all sessions from a cursor on, those to come included; new lanes and sessions appear as they come.
/// [`Store::subscribe`] makes one.
///
/// As an iterator it blocks until there is an event and ends only after an error of kind `Void` or `ForkedHandle`. Where
/// frames are damaged it gives one error and goes on behind them.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
/// use everlog::{Cursor, NewEvent, NewSession};
/// let mut a = store.create_session(&NewSession::new("a")?)?;
/// a.append(&NewEvent::new("note", b"1"))?;
/// let mut all = store.subscribe(&Cursor::default(), Default::default())?;
/// assert_eq!(all.try_next()?.map(|e| e.session), Some(a.id().clone()));
/// let kept = all.cursor().to_string(); // ... in a file, for the next run
/// let mut b = store.create_session(&NewSession::new("b")?)?;
/// b.append(&NewEvent::new("note", b"2"))?;
/// let mut again = store.subscribe(&kept.parse()?, Default::default())?;
/// assert_eq!(again.try_next()?.map(|e| e.session), Some(b.id().clone()));
/// assert!(again.try_next()?.is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Subscription {
    store: Store,
    options: FollowOptions,
    pacer: Pacer,
    cursor: Cursor,
    tracks: BTreeMap<LaneNo, Track>,
    ready: VecDeque<Result<Item>>,
    burst: Option<Burst>,
    /// The lane that had its turn last.
    turn: Option<LaneNo>,
    /// The index that the tracks belong to.
    readings: u64,
    looks: u64,
    ended: Option<Error>,
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subscription")
            .field("cursor", &self.cursor)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Store {
    /// The position behind everything that this handle can read now, imports that are not published left out. Other
    /// processes' events count as of the last refresh.
    ///
    /// # Errors
    /// `OutcomeUnknown` when what is staged cannot be written, `ForkedHandle`.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
    /// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
    /// writer.append(&everlog::NewEvent::new("note", b"1"))?;
    /// assert!(store.subscribe(&store.cursor()?, Default::default())?.try_next()?.is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cursor(&self) -> Result<Cursor> {
        self.inner.guard()?;
        let numbers: Vec<LaneNo> = self.inner.lanes.read().views.keys().copied().collect();
        let mut cursor = Cursor::default();
        for no in numbers {
            if let Some(at) = self.inner.last_position(no)? {
                cursor.lanes.insert(no, at);
            }
        }
        cursor.store = (!cursor.is_start()).then(|| store_mark(&self.inner.file.store_id));
        Ok(cursor)
    }

    /// Follows all sessions from a cursor on: [`Cursor::default`] is the beginning.
    ///
    /// Sessions that are hidden are left out. An import comes as a whole, once it is published. What this handle has only
    /// staged is written out at each look.
    ///
    /// # Errors
    /// `Void` when the log does not hold what the cursor stands on, `Invalid` for an option out of range, `Io`,
    /// `ForkedHandle`, and as [`Store::refresh`].
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
    /// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
    /// use everlog::{ErrorKind, NewEvent, Store, StoreOptions};
    /// writer.append(&NewEvent::new("note", b"1"))?;
    /// let other = Store::create(folder.path().join("t"), StoreOptions::default())?;
    /// let foreign = other.subscribe(&store.cursor()?, Default::default()).map(|_| ());
    /// assert_eq!(foreign.map_err(|e| e.kind()), Err(ErrorKind::Void));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn subscribe(&self, cursor: &Cursor, options: FollowOptions) -> Result<Subscription> {
        self.inner.guard()?;
        options.check()?;
        if cursor.store.is_some_and(|id| id != store_mark(&self.inner.file.store_id)) {
            let message = "the cursor is void: it is of another store; begin again, or from a cursor of this store";
            return Err(Error::new(ErrorKind::Void, message).with_field("cursor"));
        }
        self.inner.refresh()?;
        let mut subscription = Subscription {
            pacer: Pacer::new(options, self.inner.vfs.monotonic_ns()),
            store: self.clone(),
            options,
            cursor: cursor.clone(),
            tracks: BTreeMap::new(),
            ready: VecDeque::new(),
            burst: None,
            turn: None,
            readings: 0,
            looks: 0,
            ended: None,
        };
        subscription.place()?;
        Ok(subscription)
    }
}

impl Subscription {
    /// The position behind the event that was given last.
    #[must_use]
    pub fn cursor(&self) -> Cursor {
        let mut cursor = self.cursor.clone();
        cursor.store = (!cursor.is_start()).then(|| store_mark(&self.store.inner.file.store_id));
        cursor
    }

    /// The next event if there is one now; looks at all lanes once.
    ///
    /// # Errors
    /// `Corrupt` for frames that are damaged and `Diverged` for seqs that two writers claim, each once; `Void` when an
    /// event that was given is not in the log any more; else as [`Store::refresh`].
    pub fn try_next(&mut self) -> Result<Option<StoreEvent>> {
        self.next_within(Some(Duration::ZERO))
    }

    /// The next event, waited for no longer than `timeout`; `None` when there was none until then.
    ///
    /// # Errors
    /// As [`Subscription::try_next`].
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
    /// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
    /// use std::time::Duration;
    /// let mut all = store.subscribe(&Default::default(), Default::default())?;
    /// assert!(all.next_timeout(Duration::from_millis(5))?.is_none());
    /// writer.append(&everlog::NewEvent::new("note", b"1"))?;
    /// assert!(all.next_timeout(Duration::from_secs(60))?.is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn next_timeout(&mut self, timeout: Duration) -> Result<Option<StoreEvent>> {
        self.next_within(Some(timeout))
    }

    fn next_within(&mut self, most: Option<Duration>) -> Result<Option<StoreEvent>> {
        if let Some(end) = &self.ended {
            return Err(end.clone());
        }
        let found = self.known().and_then(|known| match known {
            Some(given) => Ok(Some(given)),
            None => self.wait(most),
        });
        if let Err(e) = &found
            && matches!(e.kind(), ErrorKind::Void | ErrorKind::ForkedHandle)
        {
            self.ended = Some(e.clone());
        }
        found
    }

    fn wait(&mut self, most: Option<Duration>) -> Result<Option<StoreEvent>> {
        let inner = self.store.inner.clone();
        let mut pacer = std::mem::replace(&mut self.pacer, Pacer::new(self.options, 0));
        let found = wait_for(&inner, &mut pacer, most, &mut |scope| {
            self.look(scope)?;
            self.known()
        });
        self.pacer = pacer;
        found
    }

    /// Sees what other processes wrote: in all lanes, or in those that had news of late.
    fn look(&mut self, scope: Scope) -> Result<()> {
        let inner = &self.store.inner;
        inner.guard()?;
        self.looks += 1;
        if let Scope::All { age_ns } = scope
            && inner.look(age_ns)?
        {
            return Ok(());
        }
        for track in self.tracks.values().filter(|t| t.moved + QUIET_LOOKS > self.looks) {
            inner.refresh_lane(track.lane)?;
        }
        Ok(())
    }

    /// Sets the tracks to the cursor.
    fn place(&mut self) -> Result<()> {
        let inner = self.store.inner.clone();
        self.readings = inner.lanes.read().readings;
        self.tracks.clear();
        self.ready.clear();
        self.burst = None;
        for (lane, at) in &self.cursor.lanes {
            if let Some(track) = inner.track(*lane, Some(*at))? {
                self.tracks.insert(*lane, track);
            }
        }
        Ok(())
    }

    /// The next event of what was read of the store so far.
    fn known(&mut self) -> Result<Option<StoreEvent>> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                let Item { given, at } = item?;
                self.cursor.lanes.insert(given.id.lane, at);
                return Ok(Some(given));
            }
            if let Some(given) = self.of_burst()? {
                return Ok(Some(given));
            }
            self.store.inner.guard()?;
            if self.store.inner.lanes.read().readings != self.readings {
                self.place()?;
            }
            if !self.take_turns()? && !self.go_on_without()? {
                return Ok(None);
            }
        }
    }

    /// The next event of the import that is being given.
    fn of_burst(&mut self) -> Result<Option<StoreEvent>> {
        let Some(burst) = &mut self.burst else { return Ok(None) };
        let event = match burst.events.next() {
            Some(Ok(event)) => event,
            Some(Err(e)) if e.kind() != ErrorKind::NotFound => return Err(e),
            _ => {
                self.burst = None;
                return Ok(None);
            }
        };
        burst.at.import = Some((burst.no, event.seq + 1));
        let none = EventId { lane: burst.lane, epoch: burst.at.epoch, gsn: 0 };
        let id = burst.events.id_of(event.seq).unwrap_or(none);
        self.cursor.lanes.insert(burst.lane, burst.at);
        Ok(Some(StoreEvent { session: burst.id.clone(), id, event }))
    }

    /// Reads on in the first lane, behind the one that had its turn last, in which there is something.
    fn take_turns(&mut self) -> Result<bool> {
        let numbers: Vec<LaneNo> = self.store.inner.lanes.read().views.keys().copied().collect();
        let split = self.turn.map_or(0, |t| numbers.partition_point(|n| *n <= t));
        let (before, behind) = numbers.split_at(split);
        for no in behind.iter().chain(before) {
            let mut track = match self.tracks.get(no) {
                Some(track) => *track,
                None => match self.store.inner.track(*no, None)? {
                    Some(track) => track,
                    None => continue,
                },
            };
            let moved = self.read_lane(&mut track);
            if matches!(moved, Ok(true)) {
                track.moved = self.looks + 1;
            }
            self.tracks.insert(*no, track);
            if moved? {
                self.turn = Some(*no);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Lets a lane pass a frame whose predecessor is not to be had: all lanes were looked at since it stopped there.
    fn go_on_without(&mut self) -> Result<bool> {
        let looks = self.store.inner.looks.load(Ordering::Acquire);
        // One of them may have been under way when it stopped.
        let stuck = self
            .tracks
            .values()
            .find(|t| t.stalled.is_some_and(|at| looks.saturating_sub(at) >= 2));
        let Some(mut track) = stuck.copied() else { return Ok(false) };
        track.stalled = Some(u64::MAX);
        let moved = self.read_lane(&mut track);
        self.tracks.insert(track.lane, track);
        moved
    }

    /// Reads on in a lane; whether it went on.
    fn read_lane(&mut self, track: &mut Track) -> Result<bool> {
        let inner = self.store.inner.clone();
        let begun = (track.segment, track.offset);
        let Some(stretch) = inner.stretch(track, self.options.durable)? else {
            return Ok((track.segment, track.offset) != begun);
        };
        let mut scan = Scan::new(&stretch.segment, track.offset, stretch.end);
        let mut bytes = 0;
        while bytes < TURN_BYTES && self.burst.is_none() {
            match scan.step()? {
                Step::Frame { offset, header, payload } => {
                    if !self.frame(&inner, track, offset, &header, payload)? {
                        break;
                    }
                    track.offset = offset + header.frame_len();
                    track.gsn = header.gsn + u64::from(header.count);
                    track.stalled = None;
                    bytes += header.frame_len();
                }
                Step::End => {
                    track.offset = stretch.end;
                    break;
                }
                bad @ (Step::Zero { .. } | Step::Bad { .. }) => {
                    let is_zero = matches!(bad, Step::Zero { .. });
                    let next = scan.resync(track.gsn)?;
                    self.step_over(&inner, track, &stretch, is_zero, next);
                    break;
                }
            }
        }
        Ok((track.segment, track.offset) != begun || self.burst.is_some())
    }

    /// Goes on behind bytes that are no frames, and says so where there were some.
    fn step_over(
        &mut self,
        inner: &StoreInner,
        track: &mut Track,
        stretch: &Stretch,
        is_zero: bool,
        next: Option<u64>,
    ) {
        let ends_here = {
            let lanes = inner.lanes.read();
            let view = lanes.views.get(&track.lane);
            stretch.is_sealed && view.is_none_or(|v| v.known_end(track.segment).is_none())
        };
        if !(is_zero && next.is_none() && ends_here) {
            let e = Error::corrupt("bytes of a lane are no valid frames; run check");
            self.ready.push_back(Err(e.with_path(&stretch.segment.path).with_offset(track.offset)));
        }
        track.offset = next.unwrap_or(stretch.end);
    }

    /// Takes a frame; `false` when it must wait for another lane.
    fn frame(
        &mut self,
        inner: &Arc<StoreInner>,
        track: &mut Track,
        offset: u64,
        h: &FrameHeader,
        payload: &[u8],
    ) -> Result<bool> {
        let place = Place { lane: track.lane, segment: track.segment, offset };
        let is_old = h.gsn + u64::from(h.count).saturating_sub(1) < track.from_gsn;
        if is_old || !matches!(h.kind, kind::EVENTS | kind::CONTINUE | kind::PUBLISH) {
            return Ok(true);
        }
        let forced = track.stalled == Some(u64::MAX);
        let record = {
            let lanes = inner.lanes.read();
            let record = lanes.index.table.get(SessionNo(h.session));
            record.map(|r| Seen {
                id: r.id.clone(),
                is_given: r.is_visible(),
                published: r.published,
                is_split: r.conflicts.iter().any(|(first, last)| {
                    (h.seq..h.seq + u64::from(h.count)).any(|s| (*first..=*last).contains(&s))
                }),
            })
        };
        let waits = match &record {
            None => true,
            Some(seen) if h.kind == kind::CONTINUE => self.stands_on(seen, track, h, payload),
            Some(_) => false,
        };
        if waits && !forced {
            track.stalled = track.stalled.or(Some(inner.looks.load(Ordering::Acquire)));
            return Ok(false);
        }
        match (h.kind, record) {
            (kind::EVENTS, Some(seen)) => self.events(&seen, track, place, h, payload, inner),
            (kind::PUBLISH, Some(seen)) => self.publish(inner, &seen, track, place, h),
            (kind::EVENTS, None) => {
                let e = Error::corrupt("the creation of a session is nowhere; run check");
                self.ready.push_back(Err(e.with_session_no(SessionNo(h.session)).with_seq(h.seq)));
            }
            _ => {}
        }
        Ok(true)
    }

    /// Whether the event that a CONTINUE frame stands on was not given yet.
    fn stands_on(&self, seen: &Seen, track: &Track, h: &FrameHeader, payload: &[u8]) -> bool {
        let Ok(Control { body: Body::Continue { prev: Some(prev) }, .. }) =
            Control::decode(h.kind, payload)
        else {
            return false;
        };
        let there = |lane: LaneNo| self.tracks.get(&lane).filter(|_| lane != track.lane);
        if prev.lane != track.lane && there(prev.lane).is_none_or(|t| t.gsn <= prev.gsn) {
            return true;
        }
        // Behind an import the last event is given with it, at its PUBLISH frame.
        seen.published.is_some_and(|(at, seqs)| {
            let before = |t: &Track| (t.segment, t.offset) <= (at.segment, at.offset);
            seqs == h.seq && at.lane != track.lane && there(at.lane).is_none_or(before)
        })
    }

    fn events(
        &mut self,
        seen: &Seen,
        track: &Track,
        place: Place,
        h: &FrameHeader,
        payload: &[u8],
        inner: &StoreInner,
    ) {
        if !seen.is_given || seen.published.is_some_and(|(_, seqs)| h.seq < seqs) {
            return;
        }
        let lanes = inner.lanes.read();
        let segment = lanes.segment(place.lane, place.segment);
        drop(lanes);
        let Some(segment) = segment else { return };
        let about = |e: Error| e.with_session(&seen.id).with_seq(h.seq);
        if seen.is_split {
            let message = "two writers' events claim that seq; run check and recover by hand";
            self.ready.push_back(Err(about(Error::new(ErrorKind::Diverged, message))));
            return;
        }
        let given = |event: Event| {
            let gsn = h.gsn + (event.seq - h.seq);
            let id = EventId { lane: place.lane, epoch: segment.header.epoch, gsn };
            let mark = Some(event.as_ref().mark());
            let at = At { epoch: id.epoch, gsn: gsn + 1, mark, import: None };
            Item { given: StoreEvent { session: seen.id.clone(), id, event }, at }
        };
        let from = h.seq + track.from_gsn.saturating_sub(h.gsn);
        let read = each_event(h, payload, &mut |event| {
            if event.seq >= from {
                self.ready.push_back(Ok(given(event)));
            }
        });
        if let Err(fault) = read {
            let e = Error::corrupt(fault.clause()).with_path(&segment.path);
            self.ready.push_back(Err(about(e.with_offset(place.offset))));
        }
    }

    /// Begins to give an import.
    fn publish(
        &mut self,
        inner: &Arc<StoreInner>,
        seen: &Seen,
        track: &Track,
        place: Place,
        h: &FrameHeader,
    ) {
        let first = match track.import {
            Some((at, seqs)) if at == place => seqs,
            Some((at, _)) if at > place => return,
            _ => 0,
        };
        if !seen.is_given || seen.published != Some((place, h.seq)) || first >= h.seq {
            return;
        }
        let lanes = inner.lanes.read();
        let segment = lanes.segment(place.lane, place.segment);
        drop(lanes);
        let Some(segment) = segment else { return };
        let no = SessionNo(h.session);
        let session = Session::new(inner.clone(), no, seen.id.clone());
        self.burst = Some(Burst {
            events: Events::new(session, first, h.seq),
            id: seen.id.clone(),
            lane: place.lane,
            at: At { epoch: segment.header.epoch, gsn: h.gsn, mark: None, import: None },
            no,
        });
    }
}

impl Iterator for Subscription {
    type Item = Result<StoreEvent>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended.is_some() {
            return None;
        }
        loop {
            match self.next_within(None) {
                Ok(Some(given)) => return Some(Ok(given)),
                Ok(None) => {}
                Err(e) => return Some(Err(e)),
            }
        }
    }
}
