//! The places of turns and steps: INDEX frames list them, so no event is read to find them.

use super::fold::marks_in;
use super::read::Session;
use crate::error::Result;
use crate::format::event_types::mark;
use crate::index::Extent;
use crate::types::{Seq, SessionNo};

/// What happens at a [`Landmark`].
///
/// ```
/// assert_ne!(everlog::LandmarkKind::TurnStart, everlog::LandmarkKind::TurnEnd);
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum LandmarkKind {
    /// An event of type `turn/start`.
    TurnStart,
    /// An event of type `turn/end`.
    TurnEnd,
    /// An event of type `step/start`.
    StepStart,
    /// An event of type `step/end`.
    StepEnd,
    /// An event of type `request/header` or `request/context`.
    Request,
    /// An event of type `session/end-seed`.
    EndSeed,
}

/// The place of an event that turns and steps are told from, as [`Session::landmarks`] gives it.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
/// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
/// use everlog::{Landmark, LandmarkKind, NewEvent};
/// writer.append(&NewEvent::new("note", b"1"))?;
/// writer.append(&NewEvent::new("turn/start", br#"{"turn":1}"#))?;
/// assert_eq!(writer.landmarks()?, [Landmark { seq: 1, kind: LandmarkKind::TurnStart }]);
/// assert_eq!(writer.open_turn()?, Some(1));
/// writer.append(&NewEvent::new("turn/end", br#"{"turn":1,"reason":{"kind":"completed"}}"#))?;
/// assert_eq!(writer.open_turn()?, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Landmark {
    /// The event's seq.
    pub seq: Seq,
    /// What happens there.
    pub kind: LandmarkKind,
}

fn kind_of(class: u8) -> Option<LandmarkKind> {
    Some(match class {
        mark::TURN_START => LandmarkKind::TurnStart,
        mark::TURN_END => LandmarkKind::TurnEnd,
        mark::STEP_START => LandmarkKind::StepStart,
        mark::STEP_END => LandmarkKind::StepEnd,
        mark::REQUEST => LandmarkKind::Request,
        mark::END_SEED => LandmarkKind::EndSeed,
        _ => return None,
    })
}

impl Session {
    /// All landmarks in order, 16 bytes each; no event is read. [`Landmark`] has an example.
    ///
    /// # Errors
    /// `Corrupt` when neither an INDEX frame nor its segment can be read, `Io`, `ForkedHandle`.
    pub fn landmarks(&self) -> Result<Vec<Landmark>> {
        self.store.guard()?;
        let mut out = Vec::new();
        for (owner, extent) in self.extents() {
            out.extend(self.landmarks_of(owner, &extent)?);
        }
        out.sort_by_key(|l| l.seq);
        out.dedup_by_key(|l| l.seq);
        Ok(out)
    }

    /// The `turn/start` that no `turn/end` follows, when there is one. Looks back from the end only as far as the last
    /// turn's mark.
    ///
    /// # Errors
    /// As [`Session::landmarks`], which has an example.
    pub fn open_turn(&self) -> Result<Option<Seq>> {
        self.store.guard()?;
        for (owner, extent) in self.extents().iter().rev() {
            let turns = self
                .landmarks_of(*owner, extent)?
                .into_iter()
                .rev()
                .find(|l| matches!(l.kind, LandmarkKind::TurnStart | LandmarkKind::TurnEnd));
            if let Some(last) = turns {
                return Ok((last.kind == LandmarkKind::TurnStart).then_some(last.seq));
            }
        }
        Ok(None)
    }

    fn landmarks_of(&self, owner: SessionNo, extent: &Extent) -> Result<Vec<Landmark>> {
        let runs = self.runs_at(owner, extent)?;
        let mut out: Vec<Landmark> = marks_in(&runs, extent)
            .filter_map(|m| Some(Landmark { seq: m.seq, kind: kind_of(m.class)? }))
            .collect();
        out.sort_by_key(|l| l.seq);
        Ok(out)
    }
}
