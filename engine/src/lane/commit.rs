//! Writing and syncing what is staged, by whoever gets there first, for all who wait.
//!
//! # Invariants
//! M1. `written` rises only after every byte below it was given to the operating system without an error.
//! M2. `durable` rises only after an `fdatasync` that began when all bytes below it were written returned without one.
//! M3. A batch is what came while the one before was on its way. Only where a sync was shared does the next leader give
//!     the others a moment to come again: two sync times at most, since a sync of few costs as much as one of many.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::stage::Part;
use super::{Active, Lane, Writer};
use crate::error::{Error, ErrorKind, Result};
use crate::format::frame::kind;
use crate::limits;
use crate::options::planted;

/// Longest time that a leader waits for those who shared the last sync.
const GATHER_NS_MAX: u64 = 1_000_000;

impl Lane {
    /// Makes everything up to `pos` survive the process.
    pub(crate) fn flush_to(&self, pos: u64) -> Result<()> {
        if self.is_written(pos) {
            return Ok(());
        }
        self.alive_or_unknown()?;
        let mut writer = self.write.lock();
        if self.is_written(pos) {
            return Ok(());
        }
        self.alive_or_unknown()?;
        let done = self.write_staged(&mut writer);
        drop(writer);
        self.tell();
        done
    }

    /// Makes everything up to `pos` survive the machine.
    pub(crate) fn sync_to(&self, pos: u64) -> Result<()> {
        loop {
            if self.is_durable(pos) {
                return Ok(());
            }
            self.alive_or_unknown()?;
            let Some(lead) = self.sync.enter() else { continue };
            if !self.is_durable(pos) {
                let sync_ns = self.counters.sync_ns.load(Ordering::Relaxed);
                lead.gather((2 * sync_ns).min(GATHER_NS_MAX), &|| self.vfs.monotonic_ns());
                let done = self.lead_sync();
                self.tell();
                done?;
            }
            drop(lead);
        }
    }

    /// One sync for everything that is staged when it begins.
    fn lead_sync(&self) -> Result<()> {
        self.alive_or_unknown()?;
        let (active, upto, gsn) = {
            let mut writer = self.write.lock();
            self.write_staged(&mut writer)?;
            (writer.active.clone(), self.written.load(Ordering::Acquire), writer.written_gsn)
        };
        self.sync_file(&active)?;
        self.raise_durable(upto, gsn);
        let mut stage = self.stage.lock();
        if stage.pos <= upto {
            stage.unsynced_since_ns = None;
        } else {
            stage.unsynced_since_ns = Some(self.vfs.monotonic_ns());
        }
        Ok(())
    }

    /// Makes everything up to `pos` durable and provably so: a durable SYNCMARK stands above it.
    pub(crate) fn prove(&self, pos: u64) -> Result<()> {
        self.sync_to(pos)?;
        let mark_end = {
            let mut stage = self.stage.lock();
            if stage.marked < pos {
                self.put_mark(&mut stage, kind::SYNCMARK)?;
            }
            stage.mark_end
        };
        self.sync_to(mark_end)
    }

    /// Writes the stage out when it holds more than its bound.
    pub(crate) fn relieve(&self, pos: u64) -> Result<()> {
        let full = self.stage.lock().bytes >= limits::STAGE_BYTES;
        if full { self.flush_to(pos) } else { Ok(()) }
    }

    fn alive_or_unknown(&self) -> Result<()> {
        match self.poison.get() {
            None => Ok(()),
            Some(cause) => Err(Error::new(
                ErrorKind::OutcomeUnknown,
                format!(
                    "{}; the events may or may not be stored: open the store again",
                    cause.message()
                ),
            )
            .with_path(&self.path)),
        }
    }

    fn write_staged(&self, writer: &mut Writer) -> Result<()> {
        let mut parts = std::mem::take(&mut writer.parts);
        let (pos, gsn) = {
            let mut stage = self.stage.lock();
            stage.bytes = 0;
            std::mem::swap(&mut stage.parts, &mut parts);
            if stage.spare.capacity() == 0 {
                std::mem::swap(&mut stage.spare, &mut writer.spare);
            }
            (stage.pos, stage.gsn)
        };
        if parts.is_empty() {
            return Ok(());
        }
        let mut indexed = false;
        for part in parts.drain(..) {
            if let Err(cause) = self.write_part(writer, part, &mut indexed) {
                return Err(self.poison(Some(writer), &cause));
            }
        }
        writer.parts = parts;
        writer.written_gsn = gsn;
        self.written.store(pos, Ordering::Release);
        if indexed && let Err(cause) = self.write_slot(writer) {
            return Err(self.poison(Some(writer), &cause));
        }
        Ok(())
    }

    fn write_part(&self, writer: &mut Writer, part: Part, indexed: &mut bool) -> Result<()> {
        match part {
            Part::Bytes { active, offset, buf, last_index } => {
                active
                    .segment
                    .file()?
                    .write_at(&buf, offset)
                    .map_err(|e| e.with_path(&active.segment.path).with_offset(offset))?;
                self.counters.writes.fetch_add(1, Ordering::Relaxed);
                if let Some(at) = last_index {
                    writer.slot.index_offset = at;
                    *indexed = true;
                }
                if buf.capacity() <= 2 * limits::STAGE_BYTES {
                    writer.spare = buf;
                }
                Ok(())
            }
            Part::Rotate { from, trailer, to, header } => {
                self.switch(writer, &from, trailer.as_deref(), &to, &header)
            }
        }
    }

    /// Ends one segment and begins the next on disk (W3).
    fn switch(
        &self,
        writer: &mut Writer,
        from: &Arc<Active>,
        trailer: Option<&[u8]>,
        to: &Arc<Active>,
        header: &[u8],
    ) -> Result<()> {
        let limit = from.segment.frames_limit();
        if planted!(self.options, SealBeforeSync) {
            if let Some(t) = trailer {
                from.segment.file()?.write_at(t, limit)?;
            }
        } else {
            self.sync_segment(&from.segment)?;
            if let Some(t) = trailer {
                from.segment.file()?.write_at(t, limit)?;
            }
        }
        to.segment.file()?.write_at(header, 0)?;
        if !planted!(self.options, SealBeforeSync) {
            self.sync_segment(&to.segment)?;
        }
        writer.active = to.clone();
        writer.slot.index_offset = 0;
        self.written.fetch_max(to.base_pos, Ordering::AcqRel);
        self.raise_durable(to.base_pos, to.segment.header.base_gsn);
        self.write_slot(writer)?;
        self.file.sync_data().map_err(|e| e.with_path(&self.path))?;
        self.retire(&from.segment, from.durable_offset(to.base_pos));
        Ok(())
    }

    /// Gives back what a sealed segment does not need. Cosmetic: an error changes nothing.
    fn retire(&self, segment: &crate::segment::Segment, end: u64) {
        let from = end.next_multiple_of(4_096);
        let upto = segment.frames_limit() & !4_095;
        if upto > from + limits::SEGMENT_CONTROL_RESERVE_BYTES {
            let _ignored = segment.file().and_then(|f| f.punch(from, upto - from));
        }
        let _ignored = segment.file().and_then(|f| f.set_read_only());
    }

    fn sync_file(&self, active: &Arc<Active>) -> Result<()> {
        let begun = self.vfs.monotonic_ns();
        if let Err(cause) = self.sync_segment(&active.segment) {
            let mut writer = self.write.lock();
            return Err(self.poison(Some(&mut writer), &cause));
        }
        let took = self.vfs.monotonic_ns().saturating_sub(begun);
        let before = self.counters.sync_ns.load(Ordering::Relaxed);
        let smoothed = if before == 0 { took } else { before - before / 8 + took / 8 };
        self.counters.sync_ns.store(smoothed, Ordering::Relaxed);
        Ok(())
    }

    fn sync_segment(&self, segment: &crate::segment::Segment) -> Result<()> {
        if planted!(self.options, NoSync) {
            return Ok(());
        }
        // The system tells of lost bytes once a descriptor: of two syncs at once only one may hear of them, and the
        // other must not take its own silence for success (M2).
        let mut failed = self.sync_failed.lock();
        if *failed {
            return Err(Error::new(ErrorKind::Io, "an earlier sync of the lane failed")
                .with_path(&segment.path));
        }
        self.counters.syncs.fetch_add(1, Ordering::Relaxed);
        let done = segment.file().and_then(|f| f.sync_data());
        *failed = done.is_err();
        done.map_err(|e| e.with_path(&segment.path))
    }

    fn raise_durable(&self, upto: u64, gsn: u64) {
        self.durable.fetch_max(upto, Ordering::AcqRel);
        self.durable_gsn.fetch_max(gsn, Ordering::AcqRel);
    }
}
