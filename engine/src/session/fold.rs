//! The surface of a stored session, from its surface events alone: INDEX frames say where they are.
//!
//! # Invariants
//! Fo1. A frame is read once, however many surface events it holds; one frame is in memory at a time.

use std::sync::Arc;

use super::read::Session;
use crate::error::{Error, Result};
use crate::event::EventRef;
use crate::format::Fault;
use crate::format::control::Owner;
use crate::format::event_types::mark;
use crate::format::events::Events as FrameEvents;
use crate::format::index_frame::{Mark, Run};
use crate::index::Extent;
use crate::surface::{Surface, SurfacePlan};
use crate::types::{Seq, SessionNo};

/// The marks of an extent in the runs that its INDEX frame lists.
pub(super) fn marks_in<'a>(runs: &'a [Run], extent: &Extent) -> impl Iterator<Item = Mark> + 'a {
    let bounds = extent.first_seq..extent.end_seq();
    runs.iter().flat_map(|r| &r.marks).copied().filter(move |m| bounds.contains(&m.seq))
}

impl Session {
    /// The surface as the events below `end` have left it: it tells which surface events are current. Memory: one
    /// entry a node.
    ///
    /// # Errors
    /// `Corrupt` when a surface event cannot be read or does not fit, `Io`, `ForkedHandle`.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
    /// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
    /// use everlog::{NewEvent, SurfaceOp};
    /// let text = br#"{"id":"m","role":"user","source":{"kind":"human"},"content":[]}"#;
    /// let hi = NewEvent::new("user/message", text).with_surface_op(SurfaceOp::Append);
    /// writer.append_batch(&[hi.clone(), hi.clone()], everlog::Level::Os)?;
    /// let one = hi.with_surface_op(SurfaceOp::Replace { start: 0, end: 1 }).with_sources(vec![0, 1]);
    /// writer.append(&one)?;
    /// let session = store.session(writer.id())?;
    /// assert_eq!(session.surface_at(2)?.len(), 2);
    /// let mut steps = Vec::new();
    /// let surface = session.surface_steps(u64::MAX, &mut |event, plan| {
    ///     steps.push((event.seq, plan.shadowed().to_vec()));
    /// })?;
    /// assert_eq!(surface.iter().collect::<Vec<_>>(), [2]);
    /// assert_eq!(steps[2], (2, vec![0, 1]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn surface_at(&self, end: Seq) -> Result<Surface> {
        self.surface_steps(end, &mut |_, _| {})
    }

    /// [`Session::surface_at`], telling of every surface event on the way, with what it did.
    ///
    /// # Errors
    /// As [`Session::surface_at`], which has an example.
    pub fn surface_steps(
        &self,
        end: Seq,
        f: &mut dyn FnMut(&EventRef<'_>, &SurfacePlan),
    ) -> Result<Surface> {
        self.store.guard()?;
        let mut surface = Surface::new();
        let seqs = self.surface_seqs(end)?;
        self.visit(&seqs, &mut |event| {
            let Some(op) = event.surface_op else { return Ok(()) };
            let plan = surface.plan(event.seq, op).map_err(|refusal| {
                Error::corrupt(format!(
                    "a stored surface event does not fit the surface ({refusal}); run check"
                ))
            })?;
            surface.apply(&plan);
            f(event, &plan);
            Ok(())
        })?;
        Ok(surface)
    }

    /// Hands on the events of these seqs, which rise.
    pub(super) fn visit(
        &self,
        seqs: &[Seq],
        f: &mut dyn FnMut(&EventRef<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut payload = Vec::new();
        let mut rest = seqs.iter().copied().peekable();
        while let Some(first) = rest.next() {
            let tag = |seq: Seq| move |e: Error| e.with_session(self.id()).with_seq(seq);
            let (h, end) = self.frame_of(first, &mut payload).map_err(tag(first))?;
            let bad = |fault: Fault| tag(first)(Error::corrupt(fault.clause()));
            let mut events = FrameEvents::open(&payload, h.count, h.flags, h.seq).map_err(bad)?;
            let (mut next, mut wanted) = (h.seq, Some(first));
            while let Some(seq) = wanted {
                // Seeking goes by restarts; to an event nearby plain steps are as good.
                if seq >= next + 16 {
                    events.seek((seq - h.seq) as usize).map_err(bad)?;
                }
                loop {
                    let event = events.next_event();
                    let lost = || bad(Fault::Field("an event is past the end of its frame"));
                    let e = event.ok_or_else(lost)?.map_err(bad)?;
                    if e.seq == seq {
                        f(&e).map_err(tag(seq))?;
                        break;
                    }
                }
                next = seq + 1;
                wanted = rest.next_if(|seq| *seq < end);
            }
        }
        Ok(())
    }

    /// Where the events of the session are: extents in order of seq, with their owners, cut to what is shared.
    pub(super) fn extents(&self) -> Vec<(SessionNo, Extent)> {
        let lanes = self.store.lanes.read();
        let Some(record) = lanes.index.table.get(self.no) else { return Vec::new() };
        let owners = record.fork.as_ref().map_or(&[][..], |f| &f.owners);
        let own = Owner { session: self.no, end: Seq::MAX };
        let mut out = Vec::new();
        let mut from = 0;
        for owner in owners.iter().chain([&own]) {
            let extents = lanes.index.table.get(owner.session).map_or(&[][..], |r| &r.extents);
            let shared = extents.iter().filter_map(|e| e.cut(from, owner.end));
            out.extend(shared.map(|e| (owner.session, e)));
            from = owner.end;
        }
        out
    }

    /// Seqs of the events with a surface mark below `end`, in order.
    pub(super) fn surface_seqs(&self, end: Seq) -> Result<Vec<Seq>> {
        let mut out = Vec::new();
        for (owner, extent) in self.extents() {
            let runs = self.runs_at(owner, &extent)?;
            let marks = marks_in(&runs, &extent);
            out.extend(marks.filter(|m| m.class == mark::SURFACE && m.seq < end).map(|m| m.seq));
        }
        out.sort_unstable();
        out.dedup();
        Ok(out)
    }

    /// The runs of an owner that the INDEX frame of an extent lists, or will list.
    pub(super) fn runs_at(&self, owner: SessionNo, extent: &Extent) -> Result<Arc<Vec<Run>>> {
        let lanes = self.store.lanes.read();
        if extent.index == 0 {
            let block = lanes.index.blocks.get(&(extent.lane, extent.segment));
            return Ok(Arc::new(
                block.into_iter().flat_map(|b| b.runs_of(owner)).cloned().collect(),
            ));
        }
        let segment = lanes.segment(extent.lane, extent.segment);
        drop(lanes);
        let segment = segment.ok_or_else(|| {
            Error::corrupt("the segment of an event cannot be read; run check")
                .with_session(self.id())
        })?;
        self.store.runs_of(extent, &segment, owner)
    }
}
