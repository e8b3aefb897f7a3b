//! Following a session while it is written: by this process, by others, by one after the other.
//!
//! # Invariants
//! Fo1. Events are given in the order of their seqs, each once, without a gap; what is damaged is an error in its place.
//! Fo2. With `durable`, what was given survives the machine and is never taken back. Without, what was given can be taken
//!      back by a failed write or sync alone: then the follower ends with kind `Void`, and gives nothing that would stand
//!      on what is gone.
//! Fo3. A follower keeps the events of one frame at most, however far it is behind.
//! Fo4. Nothing is waited for without an end: a ring only makes a look come sooner, and looks come at least every
//!      `poll_max_ms`.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::events::Events;
use super::read::Session;
use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;
use crate::handle::StoreInner;
use crate::options::planted;
use crate::types::{EventId, LaneNo, Seq};

/// A pause between two looks is this part of the time that was quiet before.
const QUIET_PART: u64 = 16;
/// Looks at one lane for each look at all.
const NARROW_LOOKS: u64 = 4;

/// How a follower waits and what it holds back.
///
/// ```
/// use everlog::FollowOptions;
/// let options = FollowOptions { durable: true, ..FollowOptions::default() };
/// assert_eq!((options.poll_min_ms, options.poll_max_ms), (1, 50));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FollowOptions {
    /// Gives only what survives the machine. Another process's writer tells so with its next frame after the sync, or
    /// when it has been quiet for 50 ms.
    pub durable: bool,
    /// Shortest pause between two looks at what other processes wrote, 1 to 60,000 ms.
    pub poll_min_ms: u64,
    /// Longest pause, `poll_min_ms` to 3,600,000 ms. In between, a pause is a 16th of the time without news.
    pub poll_max_ms: u64,
}

impl Default for FollowOptions {
    fn default() -> Self {
        Self { durable: false, poll_min_ms: 1, poll_max_ms: 50 }
    }
}

impl FollowOptions {
    pub(crate) fn check(&self) -> Result<()> {
        let bound = |name: &str, value: u64, low: u64, high: u64| {
            if (low..=high).contains(&value) {
                return Ok(());
            }
            Err(Error::invalid(name, format_args!("{value} is not between {low} and {high}")))
        };
        bound("poll_min_ms", self.poll_min_ms, 1, 60_000)?;
        bound("poll_max_ms", self.poll_max_ms, self.poll_min_ms, 3_600_000)
    }
}

/// When to look again.
#[derive(Debug)]
pub(crate) struct Pacer {
    options: FollowOptions,
    news_ns: u64,
    wide_ns: Option<u64>,
}

impl Pacer {
    pub(crate) fn new(options: FollowOptions, now_ns: u64) -> Self {
        Self { options, news_ns: now_ns, wide_ns: None }
    }

    fn pause_ns(&self, now_ns: u64) -> u64 {
        let quiet = now_ns.saturating_sub(self.news_ns) / QUIET_PART;
        quiet.clamp(self.options.poll_min_ms * 1_000_000, self.options.poll_max_ms * 1_000_000)
    }

    /// What the next look is at.
    fn scope(&mut self, now_ns: u64) -> Scope {
        let every = self.pause_ns(now_ns).max(NARROW_LOOKS * self.options.poll_min_ms * 1_000_000);
        let every = every.min(self.options.poll_max_ms * 1_000_000);
        if self.wide_ns.is_some_and(|at| now_ns.saturating_sub(at) < every) {
            return Scope::Few;
        }
        self.wide_ns = Some(now_ns);
        Scope::All { age_ns: every / 2 }
    }
}

/// What a look is at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scope {
    /// The lanes that are likely to have news.
    Few,
    /// All lanes, unless this handle looked at them less than `age_ns` ago.
    All { age_ns: u64 },
}

/// Looks until there is something, or until `most` is over; without it, for ever.
pub(crate) fn wait_for<T>(
    store: &StoreInner,
    pacer: &mut Pacer,
    most: Option<Duration>,
    look: &mut dyn FnMut(Scope) -> Result<Option<T>>,
) -> Result<Option<T>> {
    let vfs = &store.vfs;
    let most = most.map(|m| u64::try_from(m.as_nanos()).unwrap_or(u64::MAX));
    let until = most.map(|m| vfs.monotonic_ns().saturating_add(m));
    let mut listener = store.site.bell.listen();
    loop {
        let now = vfs.monotonic_ns();
        let scope = pacer.scope(now);
        let scope = if most == Some(0) { Scope::All { age_ns: 0 } } else { scope };
        if let Some(found) = look(scope)? {
            pacer.news_ns = vfs.monotonic_ns();
            return Ok(Some(found));
        }
        let now = vfs.monotonic_ns();
        let left = until.map_or(u64::MAX, |u| u.saturating_sub(now));
        if left == 0 {
            return Ok(None);
        }
        let pause = pacer.pause_ns(now).min(left);
        if vfs.has_threads() {
            listener.wait(Duration::from_nanos(pause));
        } else {
            vfs.sleep_ms(pause.div_ceil(1_000_000));
        }
    }
}

impl StoreInner {
    /// Whether this handle writes the lane, so that its view is not read.
    pub(crate) fn is_own(&self, lane: LaneNo) -> bool {
        self.lanes.read().own == Some(lane)
    }

    /// Segment and offset below which all that was read of a lane is durable.
    pub(crate) fn durable_place(&self, lane: LaneNo) -> Option<(crate::SegmentNo, u64)> {
        if self.is_own(lane)
            && let Some(own) = self.own_lane()
        {
            return Some(own.durable_place());
        }
        self.lanes.read().views.get(&lane).map(|v| v.durable_place())
    }
}

/// The events of a session from a seq on, those to come included. [`Session::follow`] makes one.
///
/// It outlives the writers of the session: when one is killed and another goes on, in whichever lane, so does the
/// follower. As an iterator it blocks until there is an event and ends only after an error of kind `Void` or
/// `ForkedHandle`. After a damaged frame it gives the error, `Corrupt` with session and seq, and goes on behind it.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
/// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
/// use everlog::{FollowOptions, NewEvent, Store, StoreOptions};
/// // As another process does it.
/// let reader = Store::open(folder.path().join("s"), StoreOptions::default().with_read_only())?;
/// let follow = reader.session(writer.id())?.follow(0, FollowOptions::default())?;
/// let seen = std::thread::spawn(move || follow.take(2).collect::<everlog::Result<Vec<_>>>());
/// writer.append(&NewEvent::new("note", b"1"))?;
/// writer.append(&NewEvent::new("note", b"2"))?;
/// let seen = seen.join().expect("no panic")?;
/// assert_eq!(seen.iter().map(|e| e.seq).collect::<Vec<_>>(), [0, 1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Follow {
    events: Events,
    options: FollowOptions,
    pacer: Pacer,
    /// The event that was given last, and its mark.
    last: Option<(Seq, EventId, u32)>,
    /// The index that `last` was read from.
    readings: u64,
    /// A hole in the session, and the looks at all lanes that were done when it was seen first.
    hole: Option<(Seq, u64)>,
    ended: Option<Error>,
}

impl Session {
    /// Follows the session: its events from `from` on, as they come. A seq that is not there yet is waited for.
    ///
    /// Without `durable` an event is given as soon as it can be read: of another process when it is at `os`, of this
    /// handle when it is appended, at whatever level; reading it writes out what is staged.
    ///
    /// # Errors
    /// `Invalid` for an option out of range, `ForkedHandle`.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
    /// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
    /// use everlog::{FollowOptions, Level, NewEvent};
    /// let durable = FollowOptions { durable: true, ..FollowOptions::default() };
    /// let (mut all, mut safe) = (writer.follow(0, Default::default())?, writer.follow(0, durable)?);
    /// let receipt = writer.append_batch(&[NewEvent::new("note", b"1")], Level::Buffered)?;
    /// assert_eq!(all.try_next()?.map(|e| e.seq), Some(0));
    /// receipt.wait(Level::Sync)?;
    /// assert_eq!(safe.try_next()?.map(|e| e.seq), Some(0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn follow(&self, from: Seq, options: FollowOptions) -> Result<Follow> {
        self.store.guard()?;
        options.check()?;
        Ok(Follow {
            events: Events::new(self.clone(), from, from),
            options,
            pacer: Pacer::new(options, self.store.vfs.monotonic_ns()),
            last: None,
            readings: self.store.lanes.read().readings,
            hole: None,
            ended: None,
        })
    }
}

impl Follow {
    /// The session that is followed.
    #[must_use]
    pub fn session(&self) -> &Session {
        self.events.session()
    }

    /// The next event if there is one now; looks at all lanes once.
    ///
    /// # Errors
    /// As [`Session::read`] and [`Store::refresh`](crate::Store::refresh); `Void` when an event that was given is not in
    /// the log any more (architecture.md, "The life of a follow").
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
    /// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
    /// let mut follow = writer.follow(0, Default::default())?;
    /// assert!(follow.try_next()?.is_none());
    /// writer.append(&everlog::NewEvent::new("note", b"1"))?;
    /// assert_eq!(follow.try_next()?.map(|e| e.seq), Some(0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn try_next(&mut self) -> Result<Option<Event>> {
        self.next_within(Some(Duration::ZERO))
    }

    /// The next event, waited for no longer than `timeout`; `None` when there was none until then.
    ///
    /// # Errors
    /// As [`Follow::try_next`].
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
    /// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
    /// use std::time::Duration;
    /// let mut follow = writer.follow(0, Default::default())?;
    /// assert!(follow.next_timeout(Duration::from_millis(5))?.is_none());
    /// writer.append(&everlog::NewEvent::new("note", b"1"))?;
    /// assert!(follow.next_timeout(Duration::from_secs(60))?.is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn next_timeout(&mut self, timeout: Duration) -> Result<Option<Event>> {
        self.next_within(Some(timeout))
    }

    fn next_within(&mut self, most: Option<Duration>) -> Result<Option<Event>> {
        if let Some(end) = &self.ended {
            return Err(end.clone());
        }
        let found = self.known().and_then(|known| match known {
            Some(event) => Ok(Some(event)),
            None => self.wait(most),
        });
        if let Err(e) = &found
            && matches!(e.kind(), ErrorKind::Void | ErrorKind::ForkedHandle)
        {
            self.ended = Some(e.clone());
        }
        found
    }

    fn wait(&mut self, most: Option<Duration>) -> Result<Option<Event>> {
        let store = self.session().store.clone();
        let mut pacer = std::mem::replace(&mut self.pacer, Pacer::new(self.options, 0));
        let found = wait_for(&store, &mut pacer, most, &mut |scope| {
            self.look(scope)?;
            self.known()
        });
        self.pacer = pacer;
        found
    }

    /// Sees what other processes wrote: in all lanes, or in that which wrote last.
    fn look(&mut self, scope: Scope) -> Result<()> {
        let (store, no) = (&self.session().store, self.session().no);
        store.guard()?;
        if let Scope::All { age_ns } = scope
            && store.look(age_ns)?
        {
            return Ok(());
        }
        let last = store.lanes.read().index.table.get(no).map(|r| r.last_lane());
        last.map_or(Ok(()), |lane| store.refresh_lane(lane))
    }

    /// The next event of what was read of the store so far.
    fn known(&mut self) -> Result<Option<Event>> {
        loop {
            let at = self.events.unread();
            match self.events.next() {
                Some(Ok(event)) => {
                    let mark = event.as_ref().mark();
                    self.last = self.events.id_of(event.seq).map(|id| (event.seq, id, mark));
                    return Ok(Some(event));
                }
                // It was taken back since it was seen.
                Some(Err(e)) if e.kind() == ErrorKind::NotFound => self.events.retract(at),
                Some(Err(e)) => return Err(e),
                None => {}
            }
            if !self.extend()? {
                return Ok(None);
            }
        }
    }

    /// Goes as far as the index does; `false` when that is no further than before.
    fn extend(&mut self) -> Result<bool> {
        self.session().store.guard()?;
        self.verify()?;
        let next = self.events.unread();
        let (store, no) = (self.session().store.clone(), self.session().no);
        let lanes = store.lanes.read();
        let Some(record) = lanes.index.table.get(no) else { return Ok(false) };
        if planted!(store.options, FollowSkipsRotation)
            && let Some(before) = next.checked_sub(1).and_then(|s| record.extent_of(s))
            && let Some(newest) = record.extents.last()
            && newest.segment != before.segment
            && newest.first_seq > next
        {
            self.events.skip_to(newest.first_seq);
            return Ok(true);
        }
        let end = match (record.extent_of(next), record.hole_at(next)) {
            (Some(_), _) if next < record.next_seq => record.next_seq,
            (Some(extent), _) => extent.end_seq(),
            // Events of another lane may have been written just after that lane was looked at: only a hole that is
            // there after another look is damage.
            (None, Some((_, end))) => {
                let looks = store.looks.load(Ordering::Acquire);
                let (_, before) = *self.hole.get_or_insert((next, looks));
                if self.hole.is_some_and(|(seq, _)| seq != next) {
                    self.hole = Some((next, looks));
                    return Ok(false);
                }
                // One of them may have been under way when the hole was seen.
                if looks < before + 2 {
                    return Ok(false);
                }
                end
            }
            (None, None) => return Ok(false),
        };
        let is_hole = record.extent_of(next).is_none();
        drop(lanes);
        if !self.options.durable || is_hole {
            self.events.extend_to(end);
            return Ok(true);
        }
        // Where it cannot be found, reading it says why.
        let Ok(at) = store.locate(no, next) else {
            self.events.extend_to(next + 1);
            return Ok(true);
        };
        let proved = store.durable_place(at.place.lane);
        let is_durable = proved.is_some_and(|p| (at.place.segment, at.place.offset) < p);
        if is_durable {
            self.events.extend_to(at.frame.first_seq + u64::from(at.frame.count));
        }
        Ok(is_durable)
    }

    /// After the index was read again: whether the log still holds the event that was given last.
    fn verify(&mut self) -> Result<()> {
        let session = self.session();
        let readings = session.store.lanes.read().readings;
        if readings == self.readings {
            return Ok(());
        }
        let found = self.last.map(|(seq, id, mark)| {
            let here = session.event_id(seq);
            let same = here.and_then(|here| {
                Ok(here == id && session.with(seq, &mut |event| event.mark())? == mark)
            });
            (seq, same)
        });
        self.readings = readings;
        match found {
            None => {}
            Some((seq, Ok(true))) => self.events.retract(seq + 1),
            Some((seq, Err(e))) if !matches!(e.kind(), ErrorKind::NotFound) => {
                self.events.retract(seq + 1);
                return Err(e);
            }
            Some((seq, ..)) => {
                let message = "an event that was followed is not in the log any more: the write or sync behind it \
                               failed; follow again from a seq that you trust";
                let session = self.session();
                let expected = session.next_seq().min(seq);
                return Err(Error::new(ErrorKind::Void, message)
                    .with_session(session.id())
                    .with_seq(seq)
                    .with_expected(expected));
            }
        }
        Ok(())
    }
}

impl Iterator for Follow {
    type Item = Result<Event>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended.is_some() {
            return None;
        }
        loop {
            match self.next_within(None) {
                Ok(Some(event)) => return Some(Ok(event)),
                Ok(None) => {}
                Err(e) => return Some(Err(e)),
            }
        }
    }
}
