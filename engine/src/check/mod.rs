//! The whole check of a store: every checksum, every frame, every rule between frames, and the index against them.
//!
//! # Invariants
//! Ck1. Reads only, by pread, and needs no lock.
//! Ck2. What a living writer has in flight behind the end of its lane is no damage; nor is the torn tail of a dead one.
//! Ck3. Every byte of every frame is read once; with a part, each session and segment is in exactly one part.
//! Ck4. Segments, then sessions, are pieces that are checked apart; their reports are put together in the order of the
//!      pieces, so the whole does not depend on the number of threads.

mod frames;
mod pieces;
mod sessions;

use std::path::PathBuf;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::index::Record;
use crate::segment::Segment;
use crate::store::Store;
use crate::types::{LaneNo, Seq, SessionId, SessionNo};

/// Most threads.
const JOBS_MAX: usize = 1_024;

/// What is checked; everything by default.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
/// let half = everlog::CheckOptions { quick: true, part: Some((1, 2)), ..Default::default() };
/// assert!(store.check(&half, &mut |_, _| true)?.is_clean());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct CheckOptions {
    /// Leaves out the rules inside sessions; checksums and the order of frames stay.
    pub quick: bool,
    /// Part `k` of `n`, 1 <= `k` <= `n`: segments and sessions are dealt out by number.
    pub part: Option<(u32, u32)>,
    /// Threads that check at the same time; 0 for one a core. The report does not depend on it.
    pub jobs: usize,
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
    /// Stable name of what it is: `frame`, `payload`, `segment-header`, `segment-missing`, `segment-foreign`,
    /// `segment-short`, `events-missing`, `diverged`, `duplicate-id`, `index`, `rule`, `torn-tail`, `unpublished`.
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

    fn add(&mut self, part: Self) {
        self.segments += part.segments;
        self.frames += part.frames;
        self.events += part.events;
        self.sessions += part.sessions;
        self.bytes += part.bytes;
        self.damage.extend(part.damage);
        self.notes.extend(part.notes);
    }
}

/// What all pieces of a check share.
#[derive(Clone, Copy)]
struct Check<'s> {
    store: &'s Store,
    options: CheckOptions,
    jobs: usize,
}

/// A segment to be checked.
struct Stretch {
    lane: LaneNo,
    segment: Arc<Segment>,
    /// Where its frames end, when a successor says so.
    end: Option<u64>,
    /// Offset below which the slot says that all is durable.
    durable: u64,
    /// Bytes, for the progress.
    size: u64,
    in_part: bool,
}

impl Store {
    /// Checks the store. `progress` is told bytes done and bytes in all, on the calling thread; when it gives `false` the
    /// check ends early with kind `Io`. Needs no lock; what this handle has staged is written out first.
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
        let check = Check { store: self, options: *options, jobs: self.jobs(options) };
        let mut report = CheckReport::default();
        check.findings(&mut report);
        check.lanes(&mut report, progress)?;
        check.sessions(&mut report, progress)?;
        Ok(report)
    }

    fn jobs(&self, options: &CheckOptions) -> usize {
        if !self.inner.vfs.has_threads() {
            return 1;
        }
        match options.jobs {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            n => n.min(JOBS_MAX),
        }
    }

    fn sync_own(&self) -> Result<()> {
        match self.inner.own_lane() {
            Some(lane) => lane.flush_to(lane.staged_pos()),
            None => Ok(()),
        }
    }
}

fn stopped() -> Error {
    Error::new(crate::ErrorKind::Io, "the check was stopped")
}

impl Check<'_> {
    fn in_part(&self, number: u64) -> bool {
        self.options.part.is_none_or(|(k, n)| number % u64::from(n) == u64::from(k) - 1)
    }

    /// Damage that opening the lanes met: chains, headers.
    fn findings(&self, report: &mut CheckReport) {
        let lanes = self.store.inner.lanes.read();
        for f in lanes.findings() {
            let (list, kind) = match f.kind {
                "segment-torn" => (&mut report.notes, "segment-header"),
                "segment-foreign" | "segment-missing" | "segment-header" | "segment-short" => {
                    (&mut report.damage, f.kind)
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

    fn stretches(&self) -> Vec<Stretch> {
        let mut work: Vec<Stretch> = Vec::new();
        let lanes = self.store.inner.lanes.read();
        for (no, view) in &lanes.views {
            let mark = view.slot.as_ref().map_or((0, 0), |s| (s.segment, s.durable_end));
            for (n, segment) in &view.segments {
                let end = view.known_end(*n);
                work.push(Stretch {
                    lane: *no,
                    segment: segment.clone(),
                    end,
                    durable: if mark.0 == *n { mark.1 } else { 0 },
                    size: end.unwrap_or(segment.header.capacity),
                    in_part: self.in_part(work.len() as u64),
                });
            }
        }
        work
    }

    fn lanes(
        &self,
        report: &mut CheckReport,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<()> {
        let work = self.stretches();
        let all: u64 = work.iter().map(|s| s.size).sum();
        let mut done = 0;
        let one = |i: usize| match work.get(i) {
            Some(stretch) if stretch.in_part => frames::check(*self, stretch),
            _ => Ok(CheckReport::default()),
        };
        pieces::in_order(self.jobs, work.len(), &one, &mut |i, part| {
            report.add(part);
            done += work.get(i).map_or(0, |s| s.size);
            if progress(done, all) { Ok(()) } else { Err(stopped()) }
        })
    }

    fn sessions(
        &self,
        report: &mut CheckReport,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<()> {
        self.orphans(report);
        let mut records: Vec<Record> = {
            let lanes = self.store.inner.lanes.read();
            lanes.index.table.iter().filter(|r| self.in_part(r.no.counter())).cloned().collect()
        };
        records.sort_by_key(|r| r.no);
        let one = |i: usize| match records.get(i) {
            Some(record) => sessions::check(*self, record),
            None => Ok(CheckReport::default()),
        };
        pieces::in_order(self.jobs, records.len(), &one, &mut |_, part| {
            report.add(part);
            if progress(1, 1) { Ok(()) } else { Err(stopped()) }
        })
    }

    /// Events whose session has no creation in any lane.
    fn orphans(&self, report: &mut CheckReport) {
        let mut orphans: Vec<SessionNo> =
            self.store.inner.lanes.read().index.table.orphans().collect();
        orphans.retain(|no| self.in_part(no.counter()));
        for no in orphans {
            report.damage.push(Damage {
                path: self.store.inner.path.clone(),
                offset: 0,
                kind: "events-missing",
                message: format!("events of session {no:?} are there, its creation is not"),
                sessions: Vec::new(),
                seqs: Vec::new(),
            });
        }
    }
}
