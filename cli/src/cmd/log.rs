//! `log`: events for people, of one session or of all.
//!
//! # Invariants
//! R1. Of one session the order is that of its seqs, whatever its clock said.
//! R2. All sessions are merged by time: an event is placed no later than the one that follows it in its session.
//! R3. Memory goes by the lines that are asked for, never by the length of a session or of an event.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use everlog::{Cursor, Event, Session, SessionInfo, Store};

use super::log_line::Lines;
use super::log_live;
use crate::args::{Globals, Shape};
use crate::args_read::Log;
use crate::entries::{Entries, Filter, Missing};
use crate::exit::{Failure, NOTHING_FOUND};
use crate::naming::{self, Position};
use crate::{find, signal, time};

/// Lines of all sessions together, when nobody says how many.
const ALL_SESSIONS_LINES: usize = 100;
/// Memory that a pattern may take when it is compiled.
const PATTERN_BYTES_MAX: usize = 10 << 20;

pub(crate) fn run(globals: &Globals, args: &Log) -> Result<(), Failure> {
    let shape = super::shape_or_default(args.output);
    let machine = matches!(shape, Shape::Json | Shape::Jsonl);
    if args.follow && shape == Shape::Json {
        return Err(Failure::usage("an array never ends with -f; use -o jsonl"));
    }
    let filter = filter(args)?;
    let (store, _) = find::open_read(globals)?;
    let one = named(&store, args)?;
    let live = args.follow || args.wait;
    let mut run = Run {
        filter: &filter,
        // A pattern is looked for in joined text, so then chunks stay together for machines too.
        runs: !machine || filter.grep.is_some(),
        back: args.reverse,
        count: args.count.unwrap_or(usize::MAX),
        lines: Lines::new(globals, shape, one.is_none(), live),
        machine,
        damaged: Vec::new(),
    };
    // For machines all sessions come in the order in which a cursor goes on.
    let in_order = machine && one.is_none() && args.count.is_none() && !args.reverse;
    let anew = args.wait || args.durable || in_order;
    let from = match (&args.cursor, &args.cursor_file) {
        (Some(text), _) => Some(log_live::parse(text)?),
        (None, Some(path)) => Some(log_live::load(path)?),
        (None, None) => anew.then(Cursor::default),
    };
    // What is there is told first; nothing is read of the store meanwhile, so nothing comes twice or is lost.
    let now = store.cursor()?;
    // A range that is all there is not waited for.
    let whole = |(session, position): &(Session, Position)| {
        let last = position.followed(session.next_seq()).ok().and_then(|(_, last)| last);
        last.is_some_and(|last| last < session.next_seq())
    };
    let then = from.is_some() || (args.follow && !one.as_ref().is_some_and(whole));
    if from.is_none() {
        match &one {
            Some((session, position)) => {
                if let Some(range) = there(*position, session, args.follow)? {
                    run.one(&store, session, range)?;
                }
            }
            None => {
                if !machine && args.count.is_none() {
                    run.count = ALL_SESSIONS_LINES;
                }
                run.all(&store)?;
            }
        }
    }
    let only = one.map(|(session, position)| {
        let (first, last) = position.followed(session.next_seq())?;
        Ok::<_, Failure>((session.id().clone(), first, last))
    });
    let plan = log_live::Plan {
        from: from.unwrap_or(now),
        only: only.transpose()?,
        follow: args.follow,
        wait: args.wait,
        durable: args.durable,
        save: args.cursor_file.clone(),
        runs: !machine,
    };
    let followed =
        if then { log_live::run(&store, &plan, &filter, &mut run.lines) } else { Ok(()) };
    let ended = run.end();
    followed.and(ended)
}

/// The session that is meant, when one is, and the events; with `--wait` it is waited for.
fn named(store: &Store, args: &Log) -> Result<Option<(Session, Position)>, Failure> {
    const PATIENCE: Duration = Duration::from_millis(20);
    loop {
        let found = match (&args.id, &args.target) {
            (Some(id), _) => naming::session_by_id(store, id).map(|s| (s, None)),
            (None, Some(target)) => naming::target(store, target),
            (None, None) => return Ok(None),
        };
        match found {
            Err(failure) if args.wait && failure.kind() == "not-found" => {
                signal::check()?;
                std::thread::sleep(PATIENCE);
                store.refresh()?;
            }
            Err(failure) => return Err(failure),
            Ok((session, position)) => {
                return Ok(Some((session, position.unwrap_or(Position::Range(0, None)))));
            }
        }
    }
}

/// The seqs of a position that are there now. One that is not there yet is no error when it is waited for.
fn there(
    position: Position,
    session: &Session,
    follow: bool,
) -> Result<Option<(u64, u64)>, Failure> {
    match position {
        Position::One(seq) if follow && seq >= session.next_seq() => Ok(None),
        position => position.seqs(session.next_seq()),
    }
}

fn filter(args: &Log) -> Result<Filter, Failure> {
    let compile = |re: &String| {
        let mut builder = regex::bytes::RegexBuilder::new(re);
        builder
            .size_limit(PATTERN_BYTES_MAX)
            .build()
            .map_err(|e| Failure::usage(format!("--grep: {}", e.to_string().replace('\n', " "))))
    };
    Ok(Filter {
        types: args.types.iter().map(|t| t.as_encoded_bytes().to_vec()).collect(),
        grep: args.grep.as_ref().map(compile).transpose()?,
        since: time::flag("--since", args.since.as_deref())?,
        until: time::flag("--until", args.until.as_deref())?,
        surface: args.surface,
    })
}

/// One run of the verb.
struct Run<'a> {
    filter: &'a Filter,
    runs: bool,
    back: bool,
    count: usize,
    lines: Lines,
    machine: bool,
    damaged: Vec<(Vec<u8>, Missing)>,
}

/// Where an entry of the merged order is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    time_ms: i64,
    /// Place in the list of sessions.
    session: usize,
    first: u64,
    last: u64,
}

impl Run<'_> {
    /// The newest `count` entries of a range, in order or from the end.
    fn one(
        &mut self,
        store: &Store,
        session: &Session,
        mut range: (u64, u64),
    ) -> Result<(), Failure> {
        let mut cursors = if self.machine { Some(store.session_cursors(session)?) } else { None };
        let mut cursor = |event: &Event| match &mut cursors {
            Some(cursors) => Ok(Some(cursors.after(&event.as_ref())?.to_string())),
            None => Ok(None),
        };
        if !self.back && self.count != usize::MAX {
            match self.start(session, range)? {
                Some(first) => range.0 = first,
                None => return Ok(()),
            }
        }
        let mut entries = Entries::new(session, range, self.filter, self.runs, self.back)?;
        let mut left = self.count;
        while left > 0
            && let Some(entry) = entries.next_entry()?
        {
            self.lines.put(session.id().as_bytes(), &entry, &mut cursor)?;
            left -= 1;
        }
        self.miss(session, entries.missing);
        Ok(())
    }

    /// The seq with which the newest `count` entries of a range begin; nothing when there are none.
    fn start(&self, session: &Session, range: (u64, u64)) -> Result<Option<u64>, Failure> {
        let mut entries = Entries::new(session, range, self.filter, self.runs, true)?;
        let (mut left, mut first) = (self.count, None);
        while left > 0
            && let Some(entry) = entries.next_entry()?
        {
            first = Some(entry.first());
            left -= 1;
        }
        Ok(first)
    }

    /// The newest `count` entries of all sessions.
    fn all(&mut self, store: &Store) -> Result<(), Failure> {
        let mut sessions = store.sessions()?;
        sessions.sort_by_key(|s| Reverse(s.updated_ms));
        let mut newest = BinaryHeap::new();
        for (i, info) in sessions.iter().enumerate() {
            let oldest = newest.peek().map(|Reverse(key): &Reverse<Key>| key.time_ms);
            // The rest ended before everything that is kept.
            if newest.len() >= self.count && oldest.is_none_or(|t| info.updated_ms < t) {
                break;
            }
            self.collect(store, info, i, &mut newest)?;
        }
        let mut keys: VecDeque<Key> = newest.into_iter().map(|Reverse(key)| key).collect();
        keys.make_contiguous().sort_unstable();
        let mut open: Option<(usize, Session)> = None;
        // Behind all that this list is made from: going on from there repeats nothing of it.
        let behind = store.cursor()?.to_string();
        let mut cursor = |_: &Event| Ok(Some(behind.clone()));
        while let Some(key) = if self.back { keys.pop_back() } else { keys.pop_front() } {
            let session = match open.take() {
                Some((at, session)) if at == key.session => session,
                _ => match sessions.get(key.session) {
                    Some(info) => store.session(&info.id)?,
                    None => continue,
                },
            };
            let range = (key.first, key.last);
            let mut entries = Entries::new(&session, range, self.filter, self.runs, false)?;
            if let Some(entry) = entries.next_entry()? {
                self.lines.put(session.id().as_bytes(), &entry, &mut cursor)?;
            }
            open = Some((key.session, session));
        }
        Ok(())
    }

    /// Adds the entries of a session that are among the newest.
    fn collect(
        &mut self,
        store: &Store,
        info: &SessionInfo,
        i: usize,
        newest: &mut BinaryHeap<Reverse<Key>>,
    ) -> Result<(), Failure> {
        let session = store.session(&info.id)?;
        let all = (0, u64::MAX - 1);
        let mut entries = Entries::new(&session, all, self.filter, self.runs, true)?;
        let mut time_ms = i64::MAX;
        while let Some(entry) = entries.next_entry()? {
            time_ms = time_ms.min(entry.time_ms()); // R2
            let full = newest.len() >= self.count;
            if full && newest.peek().is_none_or(|Reverse(key)| time_ms < key.time_ms) {
                break;
            }
            let (first, last) = (entry.first(), entry.last());
            newest.push(Reverse(Key { time_ms, session: i, first, last }));
            if newest.len() > self.count {
                newest.pop();
            }
        }
        self.miss(&session, entries.missing);
        Ok(())
    }

    fn miss(&mut self, session: &Session, missing: Missing) {
        if !missing.is_empty() {
            self.damaged.push((session.id().as_bytes().to_vec(), missing));
        }
    }

    /// Ends the output; says what was damaged, or that nothing was found.
    fn end(mut self) -> Result<(), Failure> {
        let shown = self.lines.finish()?;
        let mut failures: Vec<Failure> = Vec::new();
        for (id, missing) in &mut self.damaged {
            missing.sort_unstable();
            failures.push(super::cat::damaged(missing).with_session(id));
        }
        match failures.split_last() {
            Some((last, others)) => {
                others.iter().for_each(|failure| failure.tell("warning", false));
                Err(last.clone())
            }
            None if shown == 0 && self.filter.grep.is_some() => {
                Err(Failure::new(NOTHING_FOUND, "nothing-found", "no event holds the pattern"))
            }
            None => Ok(()),
        }
    }
}
