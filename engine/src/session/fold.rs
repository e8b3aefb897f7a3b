//! The surface of a stored session, from its surface events alone: INDEX frames say where they are.

use super::read::Session;
use crate::error::{Error, Result};
use crate::format::event_types::mark;
use crate::index::Extent;
use crate::surface::Surface;
use crate::types::Seq;

impl Session {
    /// Folds the surface as the events below `end` have left it, reading only the surface events.
    pub(crate) fn fold_surface(&self, end: Seq) -> Result<Surface> {
        let mut surface = Surface::new();
        for seq in self.surface_seqs(end)? {
            let op = self.with(seq, &mut |e| e.surface_op)?;
            let Some(op) = op else { continue };
            let plan = surface.plan(seq, op).map_err(|refusal| {
                Error::corrupt(format!(
                    "a stored surface event does not fit the surface ({refusal}); run check"
                ))
                .with_session(self.id())
                .with_seq(seq)
            })?;
            surface.apply(&plan);
        }
        Ok(surface)
    }

    /// Seqs of the events with a surface mark below `end`, in order.
    fn surface_seqs(&self, end: Seq) -> Result<Vec<Seq>> {
        let extents: Vec<Extent> = {
            let lanes = self.store.lanes.read();
            lanes.index.table.get(self.no).map(|r| r.extents.clone()).unwrap_or_default()
        };
        let mut out = Vec::new();
        for extent in extents {
            let marks = self.marks_of(&extent)?;
            out.extend(marks.filter(|s| *s >= extent.first_seq && *s < extent.end_seq().min(end)));
        }
        out.sort_unstable();
        out.dedup();
        Ok(out)
    }

    fn marks_of(&self, extent: &Extent) -> Result<std::vec::IntoIter<Seq>> {
        let runs = {
            let lanes = self.store.lanes.read();
            if extent.index == 0 {
                let block = lanes.index.blocks.get(&(extent.lane, extent.segment));
                let runs: Vec<_> =
                    block.into_iter().flat_map(|b| b.runs_of(self.no)).cloned().collect();
                std::sync::Arc::new(runs)
            } else {
                let segment = lanes.segment(extent.lane, extent.segment);
                drop(lanes);
                let segment = segment.ok_or_else(|| {
                    Error::corrupt("the segment of an event cannot be read; run check")
                        .with_session(self.id())
                })?;
                self.store.runs_of(extent, &segment, self.no)?
            }
        };
        let surface = |m: &&crate::format::index_frame::Mark| m.class == mark::SURFACE;
        let seqs: Vec<Seq> =
            runs.iter().flat_map(|r| r.marks.iter().filter(surface).map(|m| m.seq)).collect();
        Ok(seqs.into_iter())
    }
}
