//! Positions in a store behind single events of one session, for who reads that session and goes on with a subscription.
//!
//! # Invariants
//! Sc1. From the cursor behind an event a subscription gives all later events of the session, and no earlier one.
//! Sc2. In lanes that hold none of those later events the cursor stands at what could be read when it was made.

use std::collections::BTreeMap;

use super::Store;
use super::cursor::{At, Cursor, store_mark};
use crate::error::{Error, Result};
use crate::event::EventRef;
use crate::index::Place;
use crate::session::Session;
use crate::types::{EventId, LaneNo, Seq};

/// Makes cursors behind the events of one session. [`Store::session_cursors`] makes one.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
/// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
/// for n in ["0", "1", "2"] {
///     writer.append(&everlog::NewEvent::new("note", n.as_bytes()))?;
/// }
/// let mut cursors = store.session_cursors(&store.session(writer.id())?)?;
/// let one = writer.read(1)?;
/// let mut rest = store.subscribe(&cursors.after(&one.as_ref())?, Default::default())?;
/// assert_eq!(rest.try_next()?.map(|e| e.event.seq), Some(2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SessionCursors {
    session: Session,
    base: Cursor,
    /// First seq, end and lane of each stretch.
    stretches: Vec<(Seq, Seq, LaneNo)>,
    /// How many events an import brought, where it was published, and that position.
    import: Option<(Seq, LaneNo, At)>,
    /// First seq and end of the frame that was looked at last, and the id of its first event.
    frame: Option<(Seq, Seq, EventId)>,
    /// Positions in lanes that the session left, by the event that they stand behind.
    left: BTreeMap<LaneNo, (Seq, At)>,
}

impl Store {
    /// Cursors behind the events of a session, as far as this handle can read it now. [`SessionCursors`] has an example.
    ///
    /// # Errors
    /// As [`Store::cursor`], and `Corrupt` when the end of the session's import cannot be read.
    pub fn session_cursors(&self, session: &Session) -> Result<SessionCursors> {
        let mut base = self.cursor()?;
        base.store = Some(store_mark(&self.inner.file.store_id));
        let record = self.inner.lanes.read().index.table.get(session.no).cloned();
        let published = record.as_ref().and_then(|r| r.published);
        let import = match published {
            Some((place, seqs)) if seqs > 0 => {
                Some((seqs, place.lane, self.position_of_publish(place)?))
            }
            _ => None,
        };
        let lane_of = |first: Seq, lane: LaneNo| match import {
            Some((seqs, lane, _)) if first < seqs => lane,
            _ => lane,
        };
        let extents = record.map(|r| r.extents).unwrap_or_default();
        let stretches =
            extents.iter().map(|e| (e.first_seq, e.end_seq(), lane_of(e.first_seq, e.lane)));
        let stretches = stretches.collect();
        Ok(SessionCursors {
            session: session.clone(),
            base,
            stretches,
            import,
            frame: None,
            left: BTreeMap::new(),
        })
    }

    fn position_of_publish(&self, place: Place) -> Result<At> {
        let segment = self.inner.lanes.read().segment(place.lane, place.segment);
        let segment = segment
            .ok_or_else(|| Error::corrupt("the segment of an import cannot be read; run check"))?;
        let header = segment
            .frame(place.offset, &mut Vec::new())
            .map_err(|e| segment.explain(place.offset, e))?;
        Ok(At { epoch: segment.header.epoch, gsn: header.gsn, mark: None, import: None })
    }
}

impl SessionCursors {
    /// The position behind an event of the session.
    ///
    /// # Errors
    /// As [`Session::read`].
    pub fn after(&mut self, event: &EventRef<'_>) -> Result<Cursor> {
        let seq = event.seq;
        let (own, at) = self.position(seq, event.mark())?;
        let mut cursor = self.base.clone();
        let later = self.stretches.iter().filter(|(_, end, _)| *end > seq + 1);
        let mut lanes: Vec<LaneNo> = later.map(|s| s.2).filter(|lane| *lane != own).collect();
        lanes.sort_unstable();
        lanes.dedup();
        for lane in lanes {
            let before = self.stretches.iter().filter(|s| s.2 == lane && s.0 <= seq);
            match before.map(|s| seq.min(s.1 - 1)).max() {
                Some(last) => {
                    let at = self.left_at(lane, last)?;
                    cursor.lanes.insert(lane, at);
                }
                None => {
                    cursor.lanes.remove(&lane);
                }
            }
        }
        cursor.lanes.insert(own, at);
        Ok(cursor)
    }

    fn left_at(&mut self, lane: LaneNo, seq: Seq) -> Result<At> {
        if let Some((_, at)) = self.left.get(&lane).filter(|(last, _)| *last == seq) {
            return Ok(*at);
        }
        let mark = self.session.with(seq, &mut |e| e.mark())?;
        let at = self.position(seq, mark)?.1;
        self.left.insert(lane, (seq, at));
        Ok(at)
    }

    fn position(&mut self, seq: Seq, mark: u32) -> Result<(LaneNo, At)> {
        if let Some((seqs, lane, at)) = self.import
            && seq < seqs
        {
            return Ok((lane, At { import: Some((self.session.no, seq + 1)), ..at }));
        }
        let (first, id) = match self.frame {
            Some((first, end, id)) if (first..end).contains(&seq) => (first, id),
            _ => {
                let store = &self.session.store;
                let located = store.locate(self.session.no, seq)?;
                let first = located.frame.first_seq;
                let id = store.event_id(self.session.no, first)?;
                self.frame = Some((first, first + u64::from(located.frame.count), id));
                (first, id)
            }
        };
        let gsn = id.gsn + (seq - first) + 1;
        Ok((id.lane, At { epoch: id.epoch, gsn, mark: Some(mark), import: None }))
    }
}
