//! `log` over the whole store in the order of a subscription: from a cursor on, and as events come.
//!
//! # Invariants
//! Lv1. What was printed reaches the operating system before anything is waited for, and before a cursor that stands
//!      behind it is saved.
//! Lv2. A cursor is saved only when nothing is held back, so that going on from it loses nothing.
//! Lv3. For people a run of chunks is one line: it is held back until it ends, is `RUN_BYTES_MAX` long, or nothing came
//!      for `QUIET`. For machines every event is printed at once.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use everlog::{Cursor, Event, FollowOptions, SessionId, Store, StoreEvent, Subscription};

use super::cat::{damaged, is_damage};
use super::log_line::Lines;
use crate::entries::{Entry, Filter, follows, is_chunk};
use crate::exit::{FAILED, Failure};
use crate::signal;

/// Longest wait before signals and standard output are looked at.
const PATIENCE: Duration = Duration::from_millis(50);
const QUIET: Duration = Duration::from_secs(1);
/// Looks that find nothing before the end is believed.
const LAST_LOOKS: u32 = 3;
const RUN_BYTES_MAX: usize = 1 << 20;
/// Sessions whose runs are held back at the same time.
const RUNS_MAX: usize = 64;
const CURSOR_FILE_BYTES_MAX: u64 = 1 << 20;

/// What is followed, and how.
pub(super) struct Plan {
    pub(super) from: Cursor,
    /// One session only, and in it these seqs: from the first on, up to and with the last.
    pub(super) only: Option<(SessionId, u64, Option<u64>)>,
    /// Goes on until a signal.
    pub(super) follow: bool,
    /// Waits until there is something.
    pub(super) wait: bool,
    pub(super) durable: bool,
    pub(super) save: Option<PathBuf>,
    /// Whether runs of chunks are taken together.
    pub(super) runs: bool,
}

/// The cursor that a file holds; the beginning when there is none, or nothing in it.
pub(super) fn load(path: &Path) -> Result<Cursor, Failure> {
    let failed = |e: &std::io::Error| Failure::io("read the cursor file", path, e);
    match std::fs::metadata(path) {
        Ok(meta) if meta.len() > CURSOR_FILE_BYTES_MAX => {
            return Err(Failure::new(FAILED, "invalid", "the file is too long for a cursor")
                .with_path(path));
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Cursor::default()),
        Err(e) => return Err(failed(&e)),
        Ok(_) => {}
    }
    let text = std::fs::read_to_string(path).map_err(|e| failed(&e))?;
    let text = text.trim();
    if text.is_empty() { Ok(Cursor::default()) } else { parse(text).map_err(|f| f.with_path(path)) }
}

/// The cursor that a text stands for.
pub(super) fn parse(text: &str) -> Result<Cursor, Failure> {
    text.parse().map_err(Failure::from)
}

/// Prints the events of a plan.
pub(super) fn run(
    store: &Store,
    plan: &Plan,
    filter: &Filter,
    lines: &mut Lines,
) -> Result<(), Failure> {
    let options = FollowOptions { durable: plan.durable, ..FollowOptions::default() };
    let mut live = Live {
        subscription: store.subscribe(&plan.from, options)?,
        plan,
        filter,
        lines,
        pending: BTreeMap::new(),
        next: BTreeMap::new(),
        missing: Vec::new(),
        damage: None,
        news: Instant::now(),
        saved: plan.from.clone(),
        over: false,
    };
    let done = live.print();
    let held = live.end();
    done.and(held)?;
    live.failure()
}

struct Live<'a> {
    subscription: Subscription,
    plan: &'a Plan,
    filter: &'a Filter,
    lines: &'a mut Lines,
    /// Runs that are held back.
    pending: BTreeMap<SessionId, Vec<Event>>,
    /// Seq that is due in each session that was met.
    next: BTreeMap<SessionId, u64>,
    missing: Vec<(SessionId, (u64, u64))>,
    /// What was told of damage last.
    damage: Option<Failure>,
    news: Instant,
    saved: Cursor,
    /// The last event that was asked for has come.
    over: bool,
}

impl Live<'_> {
    fn print(&mut self) -> Result<(), Failure> {
        let mut in_vain = 0;
        while !self.over {
            signal::check()?;
            let waits = self.plan.follow || (self.plan.wait && self.lines.shown() == 0);
            match self.subscription.try_next() {
                Ok(Some(given)) => {
                    in_vain = 0;
                    self.take(given)?;
                }
                Ok(None) if waits => self.idle()?,
                Ok(None) if in_vain == LAST_LOOKS => return Ok(()),
                Ok(None) => in_vain += 1,
                Err(e) => self.tell(e)?,
            }
        }
        Ok(())
    }

    /// Nothing is there: hands on what was printed, saves the cursor, and waits a little.
    fn idle(&mut self) -> Result<(), Failure> {
        if self.news.elapsed() >= QUIET {
            self.flush_runs()?;
        }
        self.lines.flush()?; // Lv1
        self.save()?;
        if self.lines.is_closed() {
            return Err(Failure::closed_pipe());
        }
        match self.subscription.next_timeout(PATIENCE) {
            Ok(Some(given)) => self.take(given),
            Ok(None) => Ok(()),
            Err(e) => self.tell(e),
        }
    }

    /// Damage is told and stepped over; everything else ends the command.
    fn tell(&mut self, error: everlog::Error) -> Result<(), Failure> {
        if !is_damage(&error) {
            return Err(error.into());
        }
        let of_other = self
            .plan
            .only
            .as_ref()
            .is_some_and(|(id, ..)| error.session().is_none_or(|session| session != id));
        if !of_other {
            let failure = Failure::from(error);
            failure.tell("warning", false);
            self.damage = Some(failure);
        }
        Ok(())
    }

    fn take(&mut self, given: StoreEvent) -> Result<(), Failure> {
        self.news = Instant::now();
        let StoreEvent { session, event, .. } = given;
        if let Some((id, first, last)) = &self.plan.only {
            if session != *id {
                return Ok(());
            }
            self.over = last.is_some_and(|last| event.seq >= last);
            if event.seq < *first || last.is_some_and(|last| event.seq > last) {
                return Ok(());
            }
        }
        let due = self.next.insert(session.clone(), event.seq + 1);
        // Without a cursor everything was asked for, so a session begins with its first event.
        let begin = self.plan.only.as_ref().map_or(0, |(_, first, _)| *first);
        let due = due.or(self.plan.from.is_start().then_some(begin)).unwrap_or(event.seq);
        if event.seq > due {
            self.missing.push((session.clone(), (due, event.seq - 1)));
        }
        if !self.filter.takes(&event, None) {
            return Ok(());
        }
        if !self.plan.runs {
            return self.put(&session, vec![event]);
        }
        if let Some(run) = self.pending.get_mut(&session) {
            let bytes: usize = run.iter().map(|e| e.data.len()).sum();
            if bytes < RUN_BYTES_MAX && run.last().is_some_and(|last| follows(last, &event)) {
                run.push(event);
                return Ok(());
            }
            if let Some(run) = self.pending.remove(&session) {
                self.put(&session, run)?;
            }
        }
        if !is_chunk(&event) {
            return self.put(&session, vec![event]);
        }
        if self.pending.len() >= RUNS_MAX {
            self.flush_runs()?;
        }
        self.pending.insert(session, vec![event]);
        Ok(())
    }

    fn put(&mut self, session: &SessionId, events: Vec<Event>) -> Result<(), Failure> {
        let entry = Entry { events };
        if !self.filter.finds(&entry) {
            return Ok(());
        }
        let subscription = &self.subscription;
        let mut cursor = |_: &Event| Ok(Some(subscription.cursor().to_string()));
        self.lines.put(session.as_bytes(), &entry, &mut cursor)
    }

    fn flush_runs(&mut self) -> Result<(), Failure> {
        for (session, run) in std::mem::take(&mut self.pending) {
            self.put(&session, run)?;
        }
        Ok(())
    }

    /// Prints what was held back and saves the cursor, however the loop ended.
    fn end(&mut self) -> Result<(), Failure> {
        self.flush_runs()?;
        self.lines.flush()?;
        self.save()
    }

    fn save(&mut self) -> Result<(), Failure> {
        let Some(path) = &self.plan.save else { return Ok(()) };
        let cursor = self.subscription.cursor();
        if !self.pending.is_empty() || (cursor == self.saved && path.exists()) {
            return Ok(()); // Lv2
        }
        let failed = |e: std::io::Error| Failure::io("write the cursor file", path, &e);
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        // It appears under its name when it is whole.
        let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
        writeln!(file, "{cursor}").map_err(failed)?;
        file.as_file().sync_data().map_err(failed)?;
        file.persist(path).map_err(|e| failed(e.error))?;
        self.saved = cursor;
        Ok(())
    }

    fn failure(&self) -> Result<(), Failure> {
        let Some((id, _)) = self.missing.last() else {
            return self.damage.clone().map_or(Ok(()), Err);
        };
        let of = |(session, range): &(SessionId, (u64, u64))| (session == id).then_some(*range);
        let ranges: Vec<(u64, u64)> = self.missing.iter().filter_map(of).collect();
        Err(damaged(&ranges).with_session(id.as_bytes()))
    }
}
