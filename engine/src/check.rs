//! The whole check of a store: every checksum, every frame, every rule between frames, and the index against them.
//!
//! # Invariants
//! Ck1. Reads only, by pread, and needs no lock.
//! Ck2. What a living writer has in flight behind the end of its lane is no damage; nor is the torn tail of a dead one.
//! Ck3. Every byte of every frame is read once; with a part, each session and segment is in exactly one part.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::accept::{Candidate, Rules, judge};
use crate::error::{Error, Result};
use crate::format::events::Events as FrameEvents;
use crate::format::frame::{FrameHeader, flag, kind};
use crate::format::index_frame::IndexFrame;
use crate::format::segment::HEADER_LEN;
use crate::index::{Index, Place, Record};
use crate::recovery::plan::plan;
use crate::recovery::survey::{Start, survey};
use crate::segment::{Scan, Segment, Step};
use crate::session::Session;
use crate::store::Store;
use crate::surface::Surface;
use crate::types::{LaneNo, Seq, SessionId, SessionNo};

/// What is checked; everything by default.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
/// let half = everlog::CheckOptions { quick: true, part: Some((1, 2)) };
/// assert!(store.check(&half, &mut |_, _| true)?.is_clean());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct CheckOptions {
    /// Leaves out the rules inside sessions; checksums and the order of frames stay.
    pub quick: bool,
    /// Part `k` of `n`, 1 <= `k` <= `n`: segments and sessions are dealt out by number.
    pub part: Option<(u32, u32)>,
}

/// Something that is not as it was written.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
/// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
/// writer.append(&everlog::NewEvent::new("note", br#""a large word""#))?;
/// drop((writer, store));
/// let path = folder.path().join("s/lanes/0000/0000000000000000.seg");
/// let mut bytes = std::fs::read(&path)?;
/// let at = bytes.windows(5).position(|w| w == b"large").unwrap();
/// bytes[at] ^= 1;
/// std::fs::write(&path, bytes)?;
/// let store = everlog::Store::open(folder.path().join("s"), Default::default())?;
/// let report = store.check(&Default::default(), &mut |_, _| true)?;
/// assert_eq!((report.damage[0].kind, &report.damage[0].path), ("frame", &path));
/// assert!(report.damage[0].offset < at as u64);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[non_exhaustive]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Damage {
    /// The file.
    pub path: PathBuf,
    /// Where in it, in bytes.
    pub offset: u64,
    /// Stable name of what it is: `frame`, `payload`, `segment-header`, `segment-missing`, `segment-short`,
    /// `events-missing`, `diverged`, `duplicate-id`, `index`, `rule`, `torn-tail`, `unpublished`.
    pub kind: &'static str,
    /// What is wrong.
    pub message: String,
    /// Sessions that it touches, as far as is known.
    pub sessions: Vec<SessionId>,
    /// Seqs of the first of them that cannot be read, both ends inclusive.
    pub seqs: Vec<(Seq, Seq)>,
}

/// What a check found.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
/// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
/// writer.append(&everlog::NewEvent::new("note", b"1"))?;
/// let report = store.check(&Default::default(), &mut |_, _| true)?;
/// assert_eq!((report.sessions, report.events, report.segments), (1, 1, 1));
/// assert!(report.is_clean() && report.notes.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[non_exhaustive]
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CheckReport {
    /// Segments read.
    pub segments: u64,
    /// Frames that verified.
    pub frames: u64,
    /// Events in them.
    pub events: u64,
    /// Sessions looked at.
    pub sessions: u64,
    /// Bytes of those frames.
    pub bytes: u64,
    /// Damage to what was acked.
    pub damage: Vec<Damage>,
    /// What is unusual and no damage: torn tails, imports that were not finished.
    pub notes: Vec<Damage>,
}

impl CheckReport {
    /// Whether nothing is damaged.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.damage.is_empty()
    }
}

struct Check<'s> {
    store: &'s Store,
    options: CheckOptions,
    report: CheckReport,
    /// The index as the frames themselves give it.
    truth: Index,
}

impl Store {
    /// Checks the store. `progress` is told bytes done and bytes in all; when it gives `false` the check ends early with
    /// kind `Io`. Needs no lock; what this handle has staged is written out first.
    ///
    /// # Errors
    /// `Invalid` for a part out of range, `Io` when a file cannot be read, `Unsupported` when a newer version wrote,
    /// `OutcomeUnknown` or `Poisoned` when what is staged cannot be written, `ForkedHandle`. Damage is no error.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
    /// let report = store.check(&everlog::CheckOptions::default(), &mut |_, _| true)?;
    /// assert!(report.is_clean());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check(
        &self,
        options: &CheckOptions,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<CheckReport> {
        self.inner.guard()?;
        if let Some((k, n)) = options.part
            && (k == 0 || k > n)
        {
            return Err(Error::invalid(
                "part",
                format_args!("{k}/{n} is not between 1/{n} and {n}/{n}"),
            ));
        }
        self.sync_own()?;
        self.inner.refresh()?;
        let mut check = Check {
            store: self,
            options: *options,
            report: CheckReport::default(),
            truth: Index::default(),
        };
        check.findings();
        check.lanes(progress)?;
        check.sessions()?;
        Ok(check.report)
    }

    fn sync_own(&self) -> Result<()> {
        match self.inner.own_lane() {
            Some(lane) => lane.flush_to(lane.staged_pos()),
            None => Ok(()),
        }
    }
}

impl Check<'_> {
    fn in_part(&self, number: u64) -> bool {
        self.options.part.is_none_or(|(k, n)| number % u64::from(n) == u64::from(k) - 1)
    }

    /// Damage that opening the lanes met: chains, headers.
    fn findings(&mut self) {
        let lanes = self.store.inner.lanes.read();
        for f in lanes.findings() {
            let (list, kind) = match f.kind {
                "segment-torn" => (&mut self.report.notes, "segment-header"),
                "segment-missing" | "segment-header" | "segment-short" => {
                    (&mut self.report.damage, f.kind)
                }
                _ => continue,
            };
            list.push(Damage {
                path: f.path.clone(),
                offset: f.offset,
                kind,
                message: f.message.clone(),
                sessions: Vec::new(),
                seqs: Vec::new(),
            });
        }
    }

    fn lanes(&mut self, progress: &mut dyn FnMut(u64, u64) -> bool) -> Result<()> {
        let mut work: Vec<(LaneNo, Arc<Segment>, Option<u64>, u64)> = Vec::new();
        {
            let lanes = self.store.inner.lanes.read();
            for (no, view) in &lanes.views {
                let mark = view.slot.as_ref().map_or((0, 0), |s| (s.segment, s.durable_end));
                for (n, segment) in &view.segments {
                    let durable = if mark.0 == *n { mark.1 } else { 0 };
                    work.push((*no, segment.clone(), view.known_end(*n), durable));
                }
            }
        }
        let all: u64 = work.iter().map(|(_, s, end, _)| end.unwrap_or(s.header.capacity)).sum();
        let mut done = 0;
        for (i, (lane, segment, end, durable)) in work.into_iter().enumerate() {
            let size = end.unwrap_or(segment.header.capacity);
            if self.in_part(i as u64) {
                self.segment(lane, &segment, end, durable)?;
            }
            done += size;
            if !progress(done, all) {
                return Err(Error::new(crate::ErrorKind::Io, "the check was stopped"));
            }
        }
        Ok(())
    }

    fn segment(
        &mut self,
        lane: LaneNo,
        segment: &Arc<Segment>,
        end: Option<u64>,
        durable: u64,
    ) -> Result<()> {
        self.report.segments += 1;
        let limit = end.unwrap_or_else(|| segment.frames_limit());
        let mut scan = Scan::new(segment, HEADER_LEN, limit);
        let mut gsn = segment.header.base_gsn;
        let mut gap: Option<u64> = None;
        let mut watermark = end.unwrap_or(durable);
        loop {
            let (offset, zero) = match scan.step()? {
                Step::End => break,
                Step::Frame { offset, header, payload } => {
                    if let Some(start) = gap.take() {
                        self.lost(segment, start, offset - start, (gsn, header.gsn));
                    } else if header.gsn != gsn {
                        self.lost(segment, offset, 0, (gsn, header.gsn));
                    }
                    gsn = header.gsn + u64::from(header.count);
                    if matches!(header.kind, kind::SYNCMARK | kind::CLOSE) {
                        watermark = watermark.max(header.seq);
                    }
                    self.frame(lane, segment, offset, &header, payload);
                    continue;
                }
                Step::Zero { offset } => (offset, true),
                Step::Bad { fault: crate::format::Fault::Newer, offset } => {
                    let e = crate::segment::file::FrameError::Bad(crate::format::Fault::Newer);
                    return Err(segment.explain(offset, e));
                }
                Step::Bad { offset, .. } => (offset, false),
            };
            if scan.resync(gsn)?.is_some() {
                if end.is_none() && self.is_torn_at(lane, segment, offset)? {
                    self.torn(segment, offset);
                    break;
                }
                gap = Some(offset);
                continue;
            }
            self.tail(segment, offset, zero && end.is_none(), watermark.min(limit), gsn);
            break;
        }
        Ok(())
    }

    /// Bytes that do not verify and behind which nothing does.
    fn tail(&mut self, segment: &Segment, offset: u64, zero: bool, watermark: u64, gsn: u64) {
        if offset < watermark {
            self.lost(segment, offset, watermark - offset, (gsn, gsn));
        } else if !zero {
            self.torn(segment, offset);
        }
    }

    fn torn(&mut self, segment: &Segment, offset: u64) {
        self.report.notes.push(Damage {
            path: segment.path.clone(),
            offset,
            kind: "torn-tail",
            message: "bytes behind the last frame are no frame: a torn tail, or a write in flight"
                .into(),
            sessions: Vec::new(),
            seqs: Vec::new(),
        });
    }

    /// Whether a recovery would cut the newest segment of a lane at this gap, although valid frames follow: after a
    /// power cut what was not synced may be there in part.
    fn is_torn_at(&self, lane: LaneNo, segment: &Segment, offset: u64) -> Result<bool> {
        let slot = {
            let lanes = self.store.inner.lanes.read();
            lanes.views.get(&lane).and_then(|v| v.slot.clone())
        };
        let boot = self.store.inner.vfs.boot_id();
        let same_boot = slot.as_ref().is_some_and(|s| s.boot_id == boot);
        let marked = self.store.inner.marked_gsn(lane, segment.header.epoch);
        let h = &segment.header;
        let start = Start { offset: HEADER_LEN, gsn: h.base_gsn, next_session: h.next_session };
        let found = survey(segment, start, slot.as_ref(), marked, same_boot)?;
        let plan = plan(&found, same_boot);
        Ok(plan.dropped.is_some_and(|(from, _)| from == offset))
    }

    fn lost(&mut self, segment: &Segment, offset: u64, len: u64, gsns: (u64, u64)) {
        let message = match (len, gsns.1.saturating_sub(gsns.0)) {
            (0, n) => format!("{n} events of the lane are missing here"),
            (len, 0) => format!("{len} bytes are no valid frames"),
            (len, n) => format!("{len} bytes are no valid frames, they held {n} events"),
        };
        self.report.damage.push(Damage {
            path: segment.path.clone(),
            offset,
            kind: if len == 0 { "events-missing" } else { "frame" },
            message,
            sessions: Vec::new(),
            seqs: Vec::new(),
        });
    }

    fn frame(
        &mut self,
        lane: LaneNo,
        segment: &Segment,
        offset: u64,
        h: &FrameHeader,
        payload: &[u8],
    ) {
        self.report.frames += 1;
        self.report.events += u64::from(h.count);
        self.report.bytes += h.frame_len();
        let place = Place { lane, segment: segment.no(), offset };
        if h.kind == kind::INDEX {
            self.compare_index(segment, h.seq, payload, place);
        }
        if let Err(fault) = self.truth.on_frame(place, h, payload)
            && h.kind != kind::INDEX
        {
            let id = self
                .store
                .inner
                .lanes
                .read()
                .index
                .table
                .get(SessionNo(h.session))
                .map(|r| r.id.clone());
            self.report.damage.push(Damage {
                path: segment.path.clone(),
                offset,
                kind: "payload",
                message: format!(
                    "the frame verifies, its payload breaks a rule ({})",
                    fault.clause()
                ),
                sessions: id.into_iter().collect(),
                seqs: vec![(h.seq, h.seq + u64::from(h.count).saturating_sub(1))],
            });
        }
    }

    /// Compares an INDEX frame, which covers frames from offset `from`, with the frames that it lists.
    fn compare_index(&mut self, segment: &Segment, from: u64, payload: &[u8], place: Place) {
        let Some(block) = self.truth.blocks.get(&(place.lane, place.segment)) else { return };
        let wrong = match IndexFrame::open(payload, place.offset) {
            Err(fault) => Some(fault.clause()),
            Ok(index) if index.from != from => Some("it starts elsewhere than its frame says"),
            // It covers other frames than those behind the INDEX frame before it, which is damaged.
            Ok(_) if block.from != from && !block.is_empty() => None,
            Ok(index) => {
                let next = index.next_session;
                let lists =
                    block.encode(next) == payload || block.encode_without_other(next) == payload;
                (block.from == from && !lists).then_some("it does not list the frames before it")
            }
        };
        if let Some(clause) = wrong {
            self.report.damage.push(Damage {
                path: segment.path.clone(),
                offset: place.offset,
                kind: "index",
                message: format!("the index is wrong ({clause}); events are not affected"),
                sessions: Vec::new(),
                seqs: Vec::new(),
            });
        }
    }

    fn sessions(&mut self) -> Result<()> {
        let records: BTreeMap<SessionNo, Record> = {
            let lanes = self.store.inner.lanes.read();
            lanes.index.table.iter().map(|r| (r.no, r.clone())).collect()
        };
        self.orphans();
        for (no, record) in &records {
            if !self.in_part(no.counter()) {
                continue;
            }
            if record.pending {
                let message = "an import that was not finished; it is invisible and its room is freed by vacuum";
                self.note(record, "unpublished", message.to_owned());
                continue;
            }
            self.report.sessions += 1;
            let first = self.store.inner.lanes.read().index.table.by_id(&record.id).map(|r| r.no);
            if first != Some(record.no) {
                let message =
                    "another session has this id and counts; this one cannot be reached by it";
                let found = self.about(record, "duplicate-id", message.to_owned(), Vec::new());
                self.report.damage.push(found);
            }
            self.session(record)?;
        }
        Ok(())
    }

    /// Events whose session has no creation in any lane.
    fn orphans(&mut self) {
        let mut orphans: Vec<SessionNo> =
            self.store.inner.lanes.read().index.table.orphans().collect();
        orphans.retain(|no| self.in_part(no.counter()));
        for no in orphans {
            self.report.damage.push(Damage {
                path: self.store.inner.path.clone(),
                offset: 0,
                kind: "events-missing",
                message: format!("events of session {no:?} are there, its creation is not"),
                sessions: Vec::new(),
                seqs: Vec::new(),
            });
        }
    }

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
        let lanes = self.store.inner.lanes.read();
        let path = lanes.segment(r.created.lane, r.created.segment).map(|s| s.path.clone());
        Damage {
            path: path.unwrap_or_else(|| self.store.inner.path.clone()),
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
        if let Err(e) = self.store.inner.header_at(record.created, record.no) {
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
        let session = Session::new(self.store.inner.clone(), record.no, record.id.clone());
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
                let end = self.store.inner.end_of_lost(record.no, at);
                match broken.last_mut() {
                    Some(last) if last.1 + 1 == at => last.1 = end - 1,
                    _ => broken.push((at, end - 1)),
                }
                at = end;
                continue;
            };
            if !self.options.quick
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
    let mut events =
        FrameEvents::open(payload, h.count, h.flags & flag::RESTARTS != 0, h.seq).map_err(at)?;
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
