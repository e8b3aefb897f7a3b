//! The table of sessions: who they are, which frames hold their events, and what their control frames say.
//!
//! # Invariants
//! N1. The extents of a session are sorted by first seq and do not overlap; what would overlap is kept as a conflict.
//! N2. `next_seq` is the end of the gap-free prefix. Events behind a hole can be read; nothing is appended there.
//! N3. A control frame with a lower session epoch than one already seen changes nothing.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use super::hash::ByNumber;
use crate::format::control::{Body, CREATE_PENDING, Control, Owner};
use crate::format::index_frame::ControlAt;
use crate::types::{EventId, LaneNo, SegmentNo, Seq, SessionId, SessionNo};

/// A place in a lane's log.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub(crate) struct Place {
    pub(crate) lane: LaneNo,
    pub(crate) segment: SegmentNo,
    pub(crate) offset: u64,
}

/// A stretch of a session's events in one segment, covered by one INDEX frame or by none yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Extent {
    pub(crate) first_seq: Seq,
    pub(crate) count: u32,
    pub(crate) lane: LaneNo,
    pub(crate) segment: SegmentNo,
    /// Offset of the INDEX frame that lists it, 0 while none does.
    pub(crate) index: u64,
}

impl Extent {
    pub(crate) fn end_seq(&self) -> Seq {
        self.first_seq + u64::from(self.count)
    }

    /// The part of it from `from` to below `end`.
    pub(crate) fn cut(&self, from: Seq, end: Seq) -> Option<Self> {
        let (first_seq, end) = (self.first_seq.max(from), self.end_seq().min(end));
        let count = u32::try_from(end.checked_sub(first_seq)?).ok().filter(|n| *n > 0)?;
        Some(Self { first_seq, count, ..*self })
    }
}

/// A hand-over of a session to a lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct HandOver {
    pub(crate) session_epoch: u32,
    pub(crate) first_seq: Seq,
    pub(crate) prev: Option<EventId>,
    pub(crate) at: Place,
}

/// Where a session was forked: which sessions own the events that it shares, and the event that it stands on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ForkPoint {
    /// Owners of the shared events, their ends rising; the last end is the first own seq.
    pub(crate) owners: Vec<Owner>,
    /// The last shared event.
    pub(crate) at: EventId,
}

/// What is known of one session.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) no: SessionNo,
    pub(crate) id: SessionId,
    pub(crate) created_ms: i64,
    pub(crate) created: Place,
    /// What it was forked from, when it was made by a FORK frame.
    pub(crate) fork: Option<Box<ForkPoint>>,
    /// Whether it is an import that was not published.
    pub(crate) pending: bool,
    /// Where its import was published, and the seq up to which it went.
    pub(crate) published: Option<(Place, Seq)>,
    pub(crate) hidden: bool,
    pub(crate) epoch: u32,
    pub(crate) hand_overs: Vec<HandOver>,
    pub(crate) extents: Vec<Extent>,
    pub(crate) next_seq: Seq,
    pub(crate) updated_ms: i64,
    pub(crate) bytes: u64,
    /// Seqs that two frames claim, both ends inclusive.
    pub(crate) conflicts: Vec<(Seq, Seq)>,
    /// Place of the session before it whose id has the same hash.
    same_hash: Option<usize>,
}

impl Record {
    /// Whether readers may see the session.
    pub(crate) fn is_visible(&self) -> bool {
        !self.pending && !self.hidden
    }

    /// First seq that is its own; those below are shared.
    pub(crate) fn base(&self) -> Seq {
        self.fork.as_ref().and_then(|f| f.owners.last()).map_or(0, |o| o.end)
    }

    /// Who owns the event `seq`, and the seq at which that ends.
    pub(crate) fn owner_of(&self, seq: Seq) -> (SessionNo, Seq) {
        let owners = self.fork.as_ref().map_or(&[][..], |f| &f.owners);
        let owner = owners.get(owners.partition_point(|o| o.end <= seq));
        owner.map_or((self.no, Seq::MAX), |o| (o.session, o.end))
    }

    /// End of all events that are known, also of those behind a hole.
    pub(crate) fn end_seq(&self) -> Seq {
        self.extents.last().map_or(self.next_seq, |e| e.end_seq().max(self.next_seq))
    }

    /// The hole around a seq that no frame holds although later ones are there: first seq and end.
    pub(crate) fn hole_at(&self, seq: Seq) -> Option<(Seq, Seq)> {
        let i = self.extents.partition_point(|e| e.first_seq <= seq);
        let next = self.extents.get(i)?;
        let before =
            i.checked_sub(1).and_then(|b| self.extents.get(b)).map_or(self.base(), Extent::end_seq);
        (before <= seq).then_some((before, next.first_seq))
    }

    /// The extent that holds a seq.
    pub(crate) fn extent_of(&self, seq: Seq) -> Option<&Extent> {
        if let Some(last) = self.extents.last()
            && seq >= last.first_seq
        {
            return (seq < last.end_seq()).then_some(last);
        }
        let i = self.extents.partition_point(|e| e.first_seq <= seq);
        self.extents.get(i.checked_sub(1)?).filter(|e| seq < e.end_seq())
    }

    /// The lane that wrote last: that of the last hand-over, or the one that created the session.
    pub(crate) fn last_lane(&self) -> LaneNo {
        self.hand_overs
            .iter()
            .max_by_key(|h| h.session_epoch)
            .map_or(self.created.lane, |h| h.at.lane)
    }

    fn add(&mut self, e: Extent) {
        let base = self.base();
        if e.first_seq < base {
            self.conflicts.push((e.first_seq, e.end_seq().min(base) - 1));
            return;
        }
        if let Some(last) = self.extents.last_mut()
            && e.first_seq == last.end_seq()
        {
            let grows = (last.lane, last.segment, last.index) == (e.lane, e.segment, e.index)
                && e.index == 0;
            let count = last.count.checked_add(e.count).filter(|_| grows);
            let was_end = last.end_seq();
            match count {
                Some(count) => last.count = count,
                None => self.extents.push(e),
            }
            if self.next_seq == was_end {
                self.next_seq = e.end_seq();
            }
            return;
        }
        let i = self.extents.partition_point(|x| x.first_seq < e.first_seq);
        let before = i.checked_sub(1).and_then(|b| self.extents.get(b));
        let clash_before = before.filter(|b| b.end_seq() > e.first_seq).copied();
        let clash_after = self.extents.get(i).filter(|a| a.first_seq < e.end_seq()).copied();
        if let Some(x) = clash_before.or(clash_after) {
            let first = e.first_seq.max(x.first_seq);
            let last = e.end_seq().min(x.end_seq()) - 1;
            self.conflicts.push((first, last));
            return;
        }
        self.extents.insert(i, e);
        self.grow_prefix();
    }

    fn grow_prefix(&mut self) {
        let mut i = self.extents.partition_point(|e| e.first_seq < self.next_seq);
        while let Some(e) = self.extents.get(i).filter(|e| e.first_seq == self.next_seq) {
            self.next_seq = e.end_seq();
            i += 1;
        }
    }
}

/// All sessions of a store. Records stand in the order in which they were met: neighbours in the log are neighbours
/// in memory, and a map of places grows without moving them.
#[derive(Debug, Default)]
pub(crate) struct Table {
    records: Vec<Record>,
    places: HashMap<SessionNo, usize, ByNumber>,
    /// Place of the newest session by the hash of its id; the others of that hash hang behind it.
    by_id: HashMap<u64, usize, ByNumber>,
    id_hash: RandomState,
    /// Extents and control frames of sessions whose creation was not met yet: another lane holds it.
    orphans: HashMap<SessionNo, Vec<Orphan>, ByNumber>,
    /// Sessions with a hole: events of another lane that were not read yet, or that are lost.
    holes: HashSet<SessionNo, ByNumber>,
}

#[derive(Clone, Debug)]
enum Orphan {
    Events(Extent, i64, u64),
    Control(Place, Seq, Control),
}

impl Table {
    pub(crate) fn get(&self, no: SessionNo) -> Option<&Record> {
        self.places.get(&no).and_then(|at| self.records.get(*at))
    }

    fn get_mut(&mut self, no: SessionNo) -> Option<&mut Record> {
        self.places.get(&no).and_then(|at| self.records.get_mut(*at))
    }

    /// Who owns an event of a session, and the seq at which that ends; the session itself where nothing says otherwise.
    pub(crate) fn owner_of(&self, no: SessionNo, seq: Seq) -> (SessionNo, Seq) {
        self.get(no).map_or((no, Seq::MAX), |r| r.owner_of(seq))
    }

    /// The published session of that id; of several, the one with the lowest number.
    pub(crate) fn by_id(&self, id: &SessionId) -> Option<&Record> {
        self.all_by_id(id).filter(|r| !r.pending).min_by_key(|r| r.no)
    }

    /// All sessions of that id, published or not.
    pub(crate) fn all_by_id<'a>(&'a self, id: &SessionId) -> impl Iterator<Item = &'a Record> {
        let newest =
            self.by_id.get(&self.id_hash.hash_one(id)).and_then(|at| self.records.get(*at));
        let before = |r: &&Record| r.same_hash.and_then(|at| self.records.get(at));
        std::iter::successors(newest, before).filter(move |r| r.id == *id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Record> + '_ {
        self.records.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether a session has a hole, as far as was read.
    pub(crate) fn has_holes(&self) -> bool {
        !self.holes.is_empty()
    }

    /// Sessions of which events or control frames were met, but no creation.
    pub(crate) fn orphans(&self) -> impl Iterator<Item = SessionNo> + '_ {
        self.orphans.keys().copied()
    }

    pub(crate) fn add_events(&mut self, no: SessionNo, extent: Extent, time_ms: i64, bytes: u64) {
        let at = self.places.get(&no);
        match at.and_then(|at| self.records.get_mut(*at)) {
            Some(r) => {
                r.add(extent);
                if r.next_seq < r.end_seq() {
                    self.holes.insert(no);
                } else if !self.holes.is_empty() {
                    self.holes.remove(&no);
                }
                r.bytes += bytes;
                if extent.end_seq() == r.next_seq {
                    r.updated_ms = time_ms;
                }
            }
            None => {
                self.orphans.entry(no).or_default().push(Orphan::Events(extent, time_ms, bytes))
            }
        }
    }

    /// Marks the extents of a session in a segment's open block as listed by the INDEX frame at `at`.
    pub(crate) fn set_index(&mut self, no: SessionNo, at: Place) {
        let same = |e: &Extent| (e.lane, e.segment, e.index) == (at.lane, at.segment, 0);
        if let Some(r) = self.get_mut(no) {
            for e in r.extents.iter_mut().rev() {
                if same(e) {
                    e.index = at.offset;
                } else if e.lane == at.lane && e.segment <= at.segment {
                    // Older blocks of this lane are listed already.
                    break;
                }
            }
        }
        for o in self.orphans.get_mut(&no).into_iter().flatten() {
            if let Orphan::Events(e, ..) = o
                && same(e)
            {
                e.index = at.offset;
            }
        }
    }

    /// Adds a control frame.
    pub(crate) fn add_control(&mut self, at: Place, seq: Seq, no: SessionNo, control: &Control) {
        match &control.body {
            Body::Create { id, .. } | Body::Fork { id, .. } => {
                self.add_session(at, no, id.clone(), control);
            }
            _ => self.change(at, seq, no, control),
        }
    }

    /// Adds a control frame as an INDEX frame lists it, whose id goes into the table.
    pub(crate) fn take_control(&mut self, at: Place, row: ControlAt) {
        let ControlAt { seq, session, mut control, .. } = row;
        match &mut control.body {
            Body::Create { id, .. } | Body::Fork { id, .. } => {
                let id = std::mem::take(id);
                self.add_session(at, session, id, &control);
            }
            _ => self.change(at, seq, session, &control),
        }
    }

    fn change(&mut self, at: Place, seq: Seq, no: SessionNo, control: &Control) {
        let Some(r) = self.get_mut(no) else {
            let orphan = Orphan::Control(at, seq, control.clone());
            self.orphans.entry(no).or_default().push(orphan);
            return;
        };
        match control.body {
            Body::Continue { prev } => {
                r.epoch = r.epoch.max(control.session_epoch);
                let h = HandOver { session_epoch: control.session_epoch, first_seq: seq, prev, at };
                r.hand_overs.push(h);
            }
            Body::Publish => {
                r.pending = false;
                r.published = Some((at, seq));
            }
            Body::Rm => r.hidden = true,
            Body::Restore => r.hidden = false,
            _ => {}
        }
    }

    fn add_session(&mut self, at: Place, no: SessionNo, id: Box<[u8]>, control: &Control) {
        let Ok(id) = SessionId::from_box(id) else { return };
        let place = self.records.len();
        match self.places.entry(no) {
            Entry::Occupied(_) => return,
            Entry::Vacant(free) => free.insert(place),
        };
        let same_hash = self.by_id.insert(self.id_hash.hash_one(&id), place);
        let fork = match &control.body {
            Body::Fork { owners, at, .. } => {
                Some(Box::new(ForkPoint { owners: owners.clone(), at: *at }))
            }
            _ => None,
        };
        let next_seq = fork.as_ref().and_then(|f| f.owners.last()).map_or(0, |o| o.end);
        let record = Record {
            no,
            id,
            created_ms: control.time_ms,
            created: at,
            fork,
            pending: control.flags & CREATE_PENDING != 0,
            published: None,
            hidden: false,
            epoch: 0,
            hand_overs: Vec::new(),
            extents: Vec::new(),
            next_seq,
            updated_ms: control.time_ms,
            bytes: 0,
            conflicts: Vec::new(),
            same_hash,
        };
        self.records.push(record);
        if self.orphans.is_empty() {
            return;
        }
        for orphan in self.orphans.remove(&no).unwrap_or_default() {
            match orphan {
                Orphan::Events(e, time, bytes) => self.add_events(no, e, time, bytes),
                Orphan::Control(at, seq, c) => self.add_control(at, seq, no, &c),
            }
        }
    }
}
