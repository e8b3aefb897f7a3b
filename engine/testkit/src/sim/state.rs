//! The running state of a simulated machine: processes, open descriptions, locks, the clock, and the gate that every
//! call passes.
//!
//! # Invariants
//! S1. One mutex guards a machine; it is never held while a hook of a test or the drop of a handle runs.
//! S2. An open description lives while a living process holds it; with it go its locks.
//! S3. Each call that changes something takes the next number; after the machine is down none is given.
//! S4. Chance for `random_u64` and chance for faults are streams of their own, so that planning a fault does not
//!     change the numbers that the engine draws.
//!
//! # Units
//! `ns`: nanoseconds since the machine was made. `_ms`: milliseconds. `op`: number of the call.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use everlog::vfs::LockKind;
use everlog::{Error, ErrorKind, Result};
use parking_lot::{Mutex, MutexGuard};

use super::disk::{Disk, DiskResult, Ino, Refusal, code};
use super::fault::{Call, FaultError, Faults, OpRecord};
use super::process::SimProcess;
use super::rng::Rng;
use super::snapshot::Snapshot;

pub(crate) type Pid = u32;
pub(crate) type DescId = u64;
pub(crate) type BeforeOp = Box<dyn FnMut(u64, &Snapshot) + Send>;
pub(crate) type OnSleep = Box<dyn FnMut(&SimProcess) + Send>;

/// Pid of the first process after a boot.
pub(crate) const FIRST_PID: Pid = 1000;
pub(crate) const KILLED: &str = "the simulated process was killed";
pub(crate) const DOWN: &str = "the simulated machine is down";

thread_local! {
    /// Machines and the processes that the code of this thread runs as, innermost last.
    static RUNNING: RefCell<Vec<(u64, Pid)>> = const { RefCell::new(Vec::new()) };
}

/// Makes the code of this thread run as a process until it is dropped.
pub(crate) struct RunningAs;

impl RunningAs {
    pub(crate) fn enter(machine: u64, pid: Pid) -> Self {
        RUNNING.with_borrow_mut(|stack| stack.push((machine, pid)));
        Self
    }
}

impl Drop for RunningAs {
    fn drop(&mut self) {
        RUNNING.with_borrow_mut(|stack| {
            stack.pop();
        });
    }
}

#[derive(Debug)]
pub(crate) struct Proc {
    pub(crate) name: Arc<str>,
    pub(crate) alive: bool,
    pub(crate) generation: u64,
    pub(crate) parent: Option<Pid>,
}

#[derive(Debug)]
pub(crate) struct Desc {
    pub(crate) ino: Ino,
    pub(crate) writable: bool,
    pub(crate) close_in_child: bool,
    pub(crate) holders: BTreeSet<Pid>,
}

#[derive(Clone, Copy, Debug)]
struct RangeLock {
    desc: DescId,
    start: u64,
    end: u64,
    kind: LockKind,
}

/// A planned end of the machine, or of one process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub(crate) op: u64,
    pub(crate) victim: Option<Pid>,
    /// The call itself happens in part: so many bytes of it, or as chance has it.
    pub(crate) during: Option<Option<u64>>,
}

/// How much of a call happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Effect {
    Whole,
    Part(Option<u64>),
    Nothing,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stop {
    Down,
    Killed,
    Fault(FaultError),
}

/// A call on its way through the gate.
#[derive(Debug)]
pub(crate) struct Step {
    /// Number of the call, or 0.
    op: u64,
    /// Place of the call in the order of all calls since the machine was booted.
    pub(crate) stamp: u64,
    pub(crate) pid: Pid,
    pub(crate) effect: Effect,
    pub(crate) stop: Option<Stop>,
}

/// What is called, on what.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    pub(crate) call: Call,
    pub(crate) path: Arc<str>,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

pub(crate) struct State {
    pub(crate) disk: Disk,
    pub(crate) procs: BTreeMap<Pid, Proc>,
    pub(crate) descs: BTreeMap<DescId, Desc>,
    next_desc: DescId,
    pub(crate) next_pid: Pid,
    pub(crate) next_generation: u64,
    /// How many descriptions and maps keep a file or folder open.
    refs: BTreeMap<Ino, u32>,
    flocks: BTreeMap<Ino, DescId>,
    ranges: BTreeMap<Ino, Vec<RangeLock>>,
    pub(crate) down: bool,
    pub(crate) ends: Vec<End>,
    pub(crate) faults: Faults,
    pub(crate) ops: u64,
    /// As `ops`, and goes on where a machine is made from another without a boot between.
    pub(crate) stamp: u64,
    pub(crate) count_reads: bool,
    pub(crate) maps: bool,
    pub(crate) log: Vec<OpRecord>,
    pub(crate) log_on: bool,
    pub(crate) ns: u64,
    pub(crate) skew_ms: i64,
    pub(crate) rng: Rng,
    pub(crate) chance: Rng,
    pub(crate) boot_id: [u8; 16],
    pub(crate) before_op: Option<BeforeOp>,
    pub(crate) on_sleep: Option<OnSleep>,
}

/// A machine, shared by its processes and their handles.
pub(crate) struct Shared {
    pub(crate) id: u64,
    state: Mutex<State>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "machine {}", self.id)
    }
}

impl Shared {
    pub(crate) fn new(state: State) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self { id: NEXT.fetch_add(1, Ordering::Relaxed), state: Mutex::new(state) }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// The process on whose account a handle of `owner` acts now: the one that this thread runs as, when that is a
    /// child of `owner` by any number of forks.
    pub(crate) fn actor(&self, state: &State, owner: Pid) -> Pid {
        let running = RUNNING.with_borrow(|stack| {
            stack.iter().rev().find(|(machine, _)| *machine == self.id).map(|(_, pid)| *pid)
        });
        let Some(running) = running else { return owner };
        let mut at = Some(running);
        while let Some(pid) = at {
            if pid == owner {
                return running;
            }
            at = state.procs.get(&pid).and_then(|proc| proc.parent);
        }
        owner
    }

    /// Tells the hook of the test that a call is about to get a number.
    fn announce(&self, owner: Pid, call: Call) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        let alive = state.procs.get(&self.actor(&state, owner)).is_some_and(|proc| proc.alive);
        if !alive || state.down || !state.counts(call) {
            return state;
        }
        let Some(mut hook) = state.before_op.take() else { return state };
        let (op, snapshot) = (state.ops + 1, Snapshot::of(&state));
        drop(state);
        hook(op, &snapshot);
        state = self.lock();
        if state.before_op.is_none() {
            state.before_op = Some(hook);
        } else {
            drop(state);
            drop(hook);
            state = self.lock();
        }
        state
    }

    /// Runs one call of a process: gate, effect, record. `run` is asked unless the call is to have no effect, which
    /// only a failing sync of a file needs to know.
    pub(crate) fn call<T>(
        &self,
        owner: Pid,
        desc: Option<DescId>,
        site: Site,
        run: impl FnOnce(&mut State, &Step) -> DiskResult<T>,
    ) -> Result<T> {
        let mut state = self.announce(owner, site.call);
        let pid = self.actor(&state, owner);
        let step = state.begin(pid, &site)?;
        let held = |id: DescId| state.descs.get(&id).is_some_and(|d| d.holders.contains(&pid));
        let result = if !desc.is_none_or(held) {
            Some(Err(Refusal::Os(code::BADF)))
        } else if step.effect == Effect::Nothing && site.call != Call::SyncData {
            None
        } else {
            Some(run(&mut state, &step))
        };
        state.finish(&step, &site, result)
    }
}

/// The error of a refused call.
pub(crate) fn error(site: &Site, refusal: Refusal) -> Error {
    let what = format!("{:?} {}", site.call, site.path);
    match refusal {
        Refusal::Os(code) => Error::from_io(&what, &io::Error::from_raw_os_error(code)),
        Refusal::Insecure(why) => {
            Error::of_kind(ErrorKind::InsecurePermissions, &format!("{what}: {why}"))
        }
    }
}

fn stopped(site: &Site, stop: Stop) -> Error {
    let what = format!("{:?} {}", site.call, site.path);
    match stop {
        Stop::Down => Error::from_io(&what, &io::Error::other(DOWN)),
        Stop::Killed => Error::from_io(&what, &io::Error::other(KILLED)),
        Stop::Fault(fault) => error(site, Refusal::Os(fault.code())),
    }
}

impl State {
    pub(crate) fn new(disk: Disk, boot_id: [u8; 16], rng: Rng, chance: Rng, ns: u64) -> Self {
        Self {
            disk,
            procs: BTreeMap::new(),
            descs: BTreeMap::new(),
            next_desc: 1,
            next_pid: FIRST_PID,
            next_generation: 1,
            refs: BTreeMap::new(),
            flocks: BTreeMap::new(),
            ranges: BTreeMap::new(),
            down: false,
            ends: Vec::new(),
            faults: Faults::default(),
            ops: 0,
            stamp: 0,
            count_reads: false,
            maps: true,
            log: Vec::new(),
            log_on: true,
            ns,
            skew_ms: 0,
            rng,
            chance,
            boot_id,
            before_op: None,
            on_sleep: None,
        }
    }

    fn counts(&self, call: Call) -> bool {
        self.count_reads || call.is_mutating()
    }

    fn begin(&mut self, pid: Pid, site: &Site) -> Result<Step> {
        if self.down {
            return Err(stopped(site, Stop::Down));
        }
        if !self.procs.get(&pid).is_some_and(|proc| proc.alive) {
            return Err(stopped(site, Stop::Killed));
        }
        let slow = matches!(site.call, Call::SyncData | Call::SyncDir);
        self.ns += if slow { 100_000 } else { 1_000 };
        let mut step = Step { op: 0, stamp: self.stamp, pid, effect: Effect::Whole, stop: None };
        if self.counts(site.call) {
            self.ops += 1;
            self.stamp += 1;
            step.op = self.ops;
            step.stamp = self.stamp;
            let due = |end: &End| self.ops >= end.op && end.victim.is_none_or(|v| v == pid);
            if let Some(at) = self.ends.iter().position(due) {
                let end = self.ends.remove(at);
                let stop = if end.victim.is_some() { Stop::Killed } else { Stop::Down };
                step.stop = Some(stop);
                step.effect = end.during.map_or(Effect::Nothing, Effect::Part);
            }
        }
        if step.stop.is_none()
            && let Some(hit) = self.faults.hit(site.call, pid, &site.path)
        {
            step.stop = Some(Stop::Fault(hit.error));
            step.effect = if hit.partial { Effect::Part(None) } else { Effect::Nothing };
        }
        let divisible = match step.stop {
            Some(Stop::Fault(_)) => {
                matches!(site.call, Call::Write | Call::SyncData | Call::SyncDir | Call::Allocate)
            }
            _ => site.call == Call::Write,
        };
        if let Effect::Part(cut) = step.effect
            && !divisible
        {
            let happens = cut.map_or_else(|| self.chance.chance(1, 2), |bytes| bytes > 0);
            step.effect = if happens { Effect::Whole } else { Effect::Nothing };
        }
        Ok(step)
    }

    /// Records the call, lets the planned end come, and gives the result that the caller sees.
    fn finish<T>(&mut self, step: &Step, site: &Site, result: Option<DiskResult<T>>) -> Result<T> {
        let result = match (step.stop, result) {
            (Some(stop), _) => Err(stopped(site, stop)),
            (None, Some(result)) => result.map_err(|refusal| error(site, refusal)),
            (None, None) => Err(error(site, Refusal::Os(code::IO))),
        };
        if self.log_on && step.op > 0 {
            let process = self.procs.get(&step.pid).map(|proc| Arc::clone(&proc.name));
            self.log.push(OpRecord {
                op: step.op,
                process: process.unwrap_or_default(),
                call: site.call,
                path: Arc::clone(&site.path),
                offset: site.offset,
                len: site.len,
                result: result.as_ref().map(|_| ()).map_err(Error::kind),
            });
        }
        match step.stop {
            Some(Stop::Down) => self.down = true,
            Some(Stop::Killed) => self.kill(step.pid),
            Some(Stop::Fault(_)) | None => {}
        }
        result
    }

    /// How many of `len` bytes of a call happen.
    pub(crate) fn portion(&mut self, step: &Step, len: u64) -> u64 {
        match step.effect {
            Effect::Whole => len,
            Effect::Part(Some(bytes)) => bytes.min(len),
            Effect::Part(None) => self.chance.below(len + 1),
            Effect::Nothing => 0,
        }
    }

    pub(crate) fn open(&mut self, ino: Ino, writable: bool, pid: Pid) -> DescId {
        let id = self.next_desc;
        self.next_desc += 1;
        let holders = BTreeSet::from([pid]);
        self.descs.insert(id, Desc { ino, writable, close_in_child: false, holders });
        self.keep(ino);
        id
    }

    pub(crate) fn desc(&self, id: DescId) -> DiskResult<&Desc> {
        self.descs.get(&id).ok_or(Refusal::Os(code::BADF))
    }

    /// Keeps a file or folder although its names go.
    pub(crate) fn keep(&mut self, ino: Ino) {
        *self.refs.entry(ino).or_insert(0) += 1;
    }

    pub(crate) fn let_go(&mut self, ino: Ino) {
        let left = self.refs.get_mut(&ino).map_or(0, |count| {
            *count -= 1;
            *count
        });
        if left == 0 {
            self.refs.remove(&ino);
            self.disk.release(ino);
        }
    }

    /// Gives back the room of a file whose name went, when nothing keeps it open.
    pub(crate) fn unlinked(&mut self, ino: Ino) {
        if !self.refs.contains_key(&ino) {
            self.disk.release(ino);
        }
    }

    pub(crate) fn sweep(&mut self) {
        let refs = &self.refs;
        self.disk.sweep(|ino| refs.contains_key(&ino));
    }

    /// A process closes a description; the last one takes its locks with it.
    pub(crate) fn close(&mut self, id: DescId, pid: Pid) {
        let Some(desc) = self.descs.get_mut(&id) else { return };
        desc.holders.remove(&pid);
        if !desc.holders.is_empty() {
            return;
        }
        let ino = desc.ino;
        self.descs.remove(&id);
        self.unlock(id, ino);
        if let Some(locks) = self.ranges.get_mut(&ino) {
            locks.retain(|lock| lock.desc != id);
        }
        self.let_go(ino);
    }

    pub(crate) fn kill(&mut self, pid: Pid) {
        if let Some(proc) = self.procs.get_mut(&pid) {
            proc.alive = false;
        }
        let held: Vec<DescId> = self
            .descs
            .iter()
            .filter(|(_, d)| d.holders.contains(&pid))
            .map(|(id, _)| *id)
            .collect();
        for id in held {
            self.close(id, pid);
        }
    }

    pub(crate) fn try_lock(&mut self, id: DescId, ino: Ino) -> bool {
        *self.flocks.entry(ino).or_insert(id) == id
    }

    pub(crate) fn unlock(&mut self, id: DescId, ino: Ino) {
        if self.flocks.get(&ino) == Some(&id) {
            self.flocks.remove(&ino);
        }
    }

    /// Locks `[start, end)` for a description, in place of what it held there.
    pub(crate) fn try_lock_range(
        &mut self,
        id: DescId,
        ino: Ino,
        (start, end): (u64, u64),
        kind: LockKind,
    ) -> bool {
        let locks = self.ranges.entry(ino).or_default();
        let excluded = locks.iter().any(|lock| {
            lock.desc != id
                && lock.start < end
                && start < lock.end
                && (kind == LockKind::Exclusive || lock.kind == LockKind::Exclusive)
        });
        if !excluded {
            self.unlock_range(id, ino, (start, end));
            self.ranges.entry(ino).or_default().push(RangeLock { desc: id, start, end, kind });
        }
        !excluded
    }

    /// A lock of another description that meets `[start, end)`.
    pub(crate) fn range_held(
        &self,
        id: DescId,
        ino: Ino,
        (start, end): (u64, u64),
    ) -> Option<(u64, u64)> {
        let locks = self.ranges.get(&ino)?;
        let meets = |lock: &&RangeLock| lock.desc != id && lock.start < end && start < lock.end;
        locks.iter().find(meets).map(|lock| (lock.start, lock.end))
    }

    pub(crate) fn unlock_range(&mut self, id: DescId, ino: Ino, (start, end): (u64, u64)) {
        let Some(locks) = self.ranges.get_mut(&ino) else { return };
        let mut left = Vec::with_capacity(locks.len() + 1);
        for lock in locks.drain(..) {
            if lock.desc != id || lock.end <= start || end <= lock.start {
                left.push(lock);
                continue;
            }
            let before = RangeLock { end: start, ..lock };
            let after = RangeLock { start: end, ..lock };
            left.extend([before, after].into_iter().filter(|part| part.start < part.end));
        }
        *locks = left;
    }
}
