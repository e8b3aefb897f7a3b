//! The check of one session: its seqs are all there once, its header and its events read, and they keep the rules.

use super::{Check, CheckReport, Damage};
use crate::accept::{Candidate, Rules, judge};
use crate::error::Result;
use crate::format::events::Events as FrameEvents;
use crate::format::frame::FrameHeader;
use crate::index::Record;
use crate::session::Session;
use crate::surface::Surface;
use crate::types::Seq;

/// Checks one session.
pub(super) fn check(check: Check<'_>, record: &Record) -> Result<CheckReport> {
    let mut one = One { check, report: CheckReport::default() };
    if record.pending {
        let message =
            "an import that was not finished; it is invisible and its room is freed by vacuum";
        one.note(record, "unpublished", message.to_owned());
        return Ok(one.report);
    }
    one.report.sessions += 1;
    let first = check.store.inner.lanes.read().index.table.by_id(&record.id).map(|r| r.no);
    if first != Some(record.no) {
        let message = "another session has this id and counts; this one cannot be reached by it";
        let found = one.about(record, "duplicate-id", message.to_owned(), Vec::new());
        one.report.damage.push(found);
    }
    one.session(record)?;
    Ok(one.report)
}

struct One<'s> {
    check: Check<'s>,
    report: CheckReport,
}

impl One<'_> {
    fn note(&mut self, record: &Record, kind: &'static str, message: String) {
        let found = self.about(record, kind, message, Vec::new());
        self.report.notes.push(found);
    }

    fn about(
        &self,
        r: &Record,
        kind: &'static str,
        message: String,
        seqs: Vec<(Seq, Seq)>,
    ) -> Damage {
        let lanes = self.check.store.inner.lanes.read();
        let path = lanes.segment(r.created.lane, r.created.segment).map(|s| s.path.clone());
        Damage {
            path: path.unwrap_or_else(|| self.check.store.inner.path.clone()),
            offset: r.created.offset,
            kind,
            message,
            sessions: vec![r.id.clone()],
            seqs,
        }
    }

    fn session(&mut self, record: &Record) -> Result<()> {
        for conflict in &record.conflicts {
            let message =
                format!("two writers' events claim seqs {} to {}", conflict.0, conflict.1);
            let found = self.about(record, "diverged", message, vec![*conflict]);
            self.report.damage.push(found);
        }
        let mut due = record.base();
        let mut gaps = Vec::new();
        for e in &record.extents {
            if e.first_seq > due {
                gaps.push((due, e.first_seq - 1));
            }
            due = due.max(e.end_seq());
        }
        let handed = record.hand_overs.iter().map(|h| h.first_seq).max().unwrap_or(0);
        if handed > due {
            gaps.push((due, handed - 1));
        }
        if !gaps.is_empty() {
            let found = self.about(
                record,
                "events-missing",
                "events of the session are missing".into(),
                gaps,
            );
            self.report.damage.push(found);
        }
        if let Err(e) = self.check.store.inner.header_at(record.created, record.no) {
            let found = self.about(
                record,
                "payload",
                format!("the header cannot be read: {e}"),
                Vec::new(),
            );
            self.report.damage.push(found);
        }
        self.events(record)
    }

    /// Reads every event of a session, and judges it unless the check is quick.
    fn events(&mut self, record: &Record) -> Result<()> {
        let session = Session::new(self.check.store.inner.clone(), record.no, record.id.clone());
        let mut surface = Surface::new();
        let mut payload = Vec::new();
        let mut at = 0;
        let mut broken: Vec<(Seq, Seq)> = Vec::new();
        let mut rule = None;
        let mut whole = true;
        while at < record.end_seq() {
            if let Some((_, end)) = record.hole_at(at) {
                // Reported as missing already.
                whole = false;
                at = end;
                continue;
            }
            let Ok((h, stop)) = session.frame_of(at, &mut payload) else {
                let end = self.check.store.inner.end_of_lost(record.no, at);
                match broken.last_mut() {
                    Some(last) if last.1 + 1 == at => last.1 = end - 1,
                    _ => broken.push((at, end - 1)),
                }
                at = end;
                continue;
            };
            if !self.check.options.quick
                && rule.is_none()
                && broken.is_empty()
                && whole
                && let Err(what) = judge_frame(&session, &h, stop, &payload, &mut surface)
            {
                rule = Some(what);
            }
            at = stop;
        }
        if !broken.is_empty() {
            let found =
                self.about(record, "frame", "events of the session cannot be read".into(), broken);
            self.report.damage.push(found);
        }
        if let Some((seq, what)) = rule {
            let found =
                self.about(record, "rule", format!("event {seq}: {what}"), vec![(seq, seq)]);
            self.report.damage.push(found);
        }
        Ok(())
    }
}

/// Judges the events of a frame by the rules of an import, without the shapes that an option lets in raw.
fn judge_frame(
    session: &Session,
    h: &FrameHeader,
    stop: Seq,
    payload: &[u8],
    surface: &mut Surface,
) -> std::result::Result<(), (Seq, String)> {
    let at = |fault: crate::format::Fault| (h.seq, fault.clause().to_owned());
    let mut events = FrameEvents::open(payload, h.count, h.flags, h.seq).map_err(at)?;
    let rules = Rules {
        shapes: false,
        legacy: true,
        data_bytes_max: usize::MAX,
        depth_max: 1_000_000,
        ..Rules::default()
    };
    while let Some(event) = events.next_event() {
        let e = event.map_err(at)?;
        if e.seq >= stop {
            break;
        }
        let stored = |seq: Seq| {
            session
                .with(seq, &mut |old| (old.event_type == b"tool/result").then(|| old.data.to_vec()))
        };
        let plan = judge(&Candidate::of_ref(&e), &rules, surface, stored)
            .map_err(|r| (e.seq, r.to_string()))?;
        if let Some(plan) = plan {
            surface.apply(&plan);
        }
    }
    Ok(())
}
