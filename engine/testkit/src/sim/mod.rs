//! A simulated machine: processes, a page cache, a disk, a clock and faults, all decided by one seed.
//!
//! [`SimMachine`] hosts [`SimProcess`]es, which implement [`Vfs`](everlog::vfs::Vfs). Whatever they do can be cut
//! short by a kill or a power cut at any numbered call, and the disk that is left becomes a new machine to recover on.
//!
//! # Invariants
//! M1. Equal seeds and equal calls give equal machines, images and records.
//! M2. The machine keeps promises D1 to D6 of [`everlog::vfs`] and no others: what they leave open goes wrong under
//!     some plan.
//! M3. The mode of a file has no promise of durability: after `set_read_only` a power cut keeps the old or new mode.
//! M4. After a failed sync of a folder its changes stay pending, and a later sync makes them durable.
//!
//! # Forks
//! The child of [`SimMachine::fork`] shares the open descriptions of its parent. Rust objects that the parent made
//! before stand for the child's copies of them while the code runs inside [`SimMachine::run_as`]: then they report
//! the child's pid and fork generation, and what they open, lock, unlock and close is the child's. A handle that is
//! dropped there is closed in the child only; the parent's copy can then no longer be used, but stays open, with its
//! locks, until the parent is killed. Handles of processes that are no ancestors of the child are not affected.
//!
//! # Units
//! `op`: number of a call, from 1. `_ms`: milliseconds.

mod crash;
mod disk;
mod fault;
mod handles;
mod inspect;
mod pages;
mod process;
mod ranges;
mod rng;
mod snapshot;
mod state;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use everlog::Error;

pub use crash::{CrashPlan, Names, Survival};
pub use fault::{Call, FaultError, FaultId, FaultPlan, OpRecord};
pub use pages::Pages;
pub use process::SimProcess;
pub use snapshot::{CrashSubsets, MAX_SUBSET_BITS, Snapshot};

use disk::Disk;
use rng::Rng;
use state::{DOWN, End, KILLED, Proc, RunningAs, Shared, State};

/// A simulated machine. Clones are the same machine.
///
/// ```
/// use std::path::Path;
/// use everlog::vfs::{Access, OpenHow, Vfs};
/// use everlog_testkit::sim::{CrashPlan, SimMachine};
///
/// # fn main() -> everlog::Result<()> {
/// let machine = SimMachine::new(7);
/// let process = machine.process("writer");
/// let dir = process.create_root(Path::new("/store"), Access::Private)?;
/// let file = dir.open("log", OpenHow::CreateNew(Access::Private))?;
/// dir.sync()?;
/// file.write_at(b"synced", 0)?;
/// file.sync_data()?;
/// file.write_at(b" not", 6)?;
/// let after = machine.power_loss(&CrashPlan::nothing());
/// assert_eq!(after.read_file("/store/log"), Some(b"synced".to_vec()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct SimMachine(Arc<Shared>);

/// Whether a call failed because its process was killed.
#[must_use]
pub fn is_killed(err: &Error) -> bool {
    err.message().contains(KILLED)
}

/// Whether a call failed because the machine is down.
#[must_use]
pub fn is_down(err: &Error) -> bool {
    err.message().contains(DOWN)
}

impl SimMachine {
    /// A machine with an empty disk. The seed decides its boot id and all chance.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut boot_id = [0; 16];
        Rng::derived(seed, 1).fill(&mut boot_id);
        let (rng, chance) = (Rng::derived(seed, 2), Rng::derived(seed, 3));
        Self(Arc::new(Shared::new(State::new(Disk::new(), boot_id, rng, chance, 0))))
    }

    fn spawn(&self, name: Arc<str>, parent: Option<u32>) -> SimProcess {
        let mut state = self.0.lock();
        let (pid, generation) = (state.next_pid, state.next_generation);
        state.next_pid += 1;
        state.next_generation += 1;
        let alive = parent.is_none_or(|p| state.procs.get(&p).is_some_and(|proc| proc.alive));
        state.procs.insert(pid, Proc { name: Arc::clone(&name), alive, generation, parent });
        if let (Some(parent), true) = (parent, alive) {
            for desc in state.descs.values_mut() {
                if desc.holders.contains(&parent) && !desc.close_in_child {
                    desc.holders.insert(pid);
                }
            }
        }
        drop(state);
        SimProcess { shared: Arc::clone(&self.0), pid, name }
    }

    /// Starts a process.
    #[must_use]
    pub fn process(&self, name: &str) -> SimProcess {
        self.spawn(Arc::from(name), None)
    }

    /// Starts a child that shares the open descriptions of a process, but for those that it closes in children. The
    /// child of a dead process is dead.
    #[must_use]
    pub fn fork(&self, process: &SimProcess) -> SimProcess {
        self.spawn(Arc::from(format!("{}+", process.name())), Some(process.pid))
    }

    /// Runs code of this thread as a process: see the notes on forks above. Calls nest.
    pub fn run_as<T>(&self, process: &SimProcess, run: impl FnOnce() -> T) -> T {
        let _running = RunningAs::enter(self.0.id, process.pid);
        run()
    }

    /// Ends a process, as `kill -9` does, or as the process's own exit.
    pub fn kill(&self, process: &SimProcess) {
        self.0.lock().kill(process.pid);
    }

    /// Whether a process lives.
    #[must_use]
    pub fn is_alive(&self, process: &SimProcess) -> bool {
        let state = self.0.lock();
        !state.down && state.procs.get(&process.pid).is_some_and(|proc| proc.alive)
    }

    /// Number of the newest call.
    #[must_use]
    pub fn ops(&self) -> u64 {
        self.0.lock().ops
    }

    /// Whether reading calls get numbers and records as well; at first they do not.
    pub fn count_reads(&self, count: bool) {
        self.0.lock().count_reads = count;
    }

    fn end(&self, op: u64, victim: Option<u32>, during: Option<Option<u64>>) {
        self.0.lock().ends.push(End { op, victim, during });
    }

    /// Takes the machine down right before call `op`: this and every later call fails.
    pub fn crash_at(&self, op: u64) {
        self.end(op, None, None);
    }

    /// Takes the machine down in the middle of call `op`, which fails: a write has reached the page cache with its
    /// first `bytes` bytes, or as many as chance has it; other calls happened if `bytes` is not 0, or by chance.
    pub fn crash_during(&self, op: u64, bytes: Option<u64>) {
        self.end(op, None, Some(bytes));
    }

    /// Kills a process right before its first call from number `op` on.
    pub fn kill_at(&self, process: &SimProcess, op: u64) {
        self.end(op, Some(process.pid), None);
    }

    /// Kills a process in the middle of its first call from number `op` on: see [`SimMachine::crash_during`].
    pub fn kill_during(&self, process: &SimProcess, op: u64, bytes: Option<u64>) {
        self.end(op, Some(process.pid), Some(bytes));
    }

    /// Takes the machine down now.
    pub fn power_off(&self) {
        self.0.lock().down = true;
    }

    /// Whether the machine is down. Images can still be made of it.
    #[must_use]
    pub fn is_down(&self) -> bool {
        self.0.lock().down
    }

    /// The machine at this moment, to branch from. Cheap.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::of(&self.0.lock())
    }

    /// Puts the disk back to what it was, and kills all processes. Clock, chance and numbers go on.
    pub fn restore(&self, snapshot: &Snapshot) {
        let mut state = self.0.lock();
        let pids: Vec<u32> = state.procs.keys().copied().collect();
        for pid in pids {
            state.kill(pid);
        }
        let mut disk = snapshot.disk.without_handles();
        disk.number_after(&state.disk);
        state.disk = disk;
    }

    /// A new machine: this one after a power cut. See [`Snapshot::power_loss`].
    #[must_use]
    pub fn power_loss(&self, plan: &CrashPlan) -> Self {
        self.snapshot().power_loss(plan)
    }

    /// A new machine: this one after all its processes died. The page cache and the boot id are kept.
    #[must_use]
    pub fn process_crash_image(&self) -> Self {
        self.snapshot().process_crash_image()
    }

    /// Every machine that a power cut may leave, when few things are unsynced. See [`Snapshot::crash_subsets`].
    #[must_use]
    pub fn crash_subsets(&self) -> Option<CrashSubsets> {
        self.snapshot().crash_subsets()
    }

    /// Calls `hook` before each numbered call, with its number and the machine as it is then. One machine has one
    /// such hook; while it runs, calls are not reported.
    pub fn before_op(&self, hook: impl FnMut(u64, &Snapshot) + Send + 'static) {
        let old = self.0.lock().before_op.replace(Box::new(hook));
        drop(old);
    }

    /// Calls `hook` when a process sleeps, after the clock was put forward: the place to let other processes run.
    /// One machine has one such hook; sleeping inside it only moves the clock.
    pub fn on_sleep(&self, hook: impl FnMut(&SimProcess) + Send + 'static) {
        let old = self.0.lock().on_sleep.replace(Box::new(hook));
        drop(old);
    }

    /// Forgets both hooks, and what they hold on to.
    pub fn clear_hooks(&self) {
        let mut state = self.0.lock();
        let old = (state.before_op.take(), state.on_sleep.take());
        drop(state);
        drop(old);
    }

    /// Plans a fault. Several may be planned; each counts by itself.
    pub fn fail(&self, plan: FaultPlan) -> FaultId {
        self.0.lock().faults.add(plan)
    }

    /// Ends all faults.
    pub fn clear_faults(&self) {
        self.0.lock().faults.clear();
    }

    /// How many calls a fault failed: 0 when the test ran to its end before the k-th call.
    #[must_use]
    pub fn fault_hits(&self, fault: FaultId) -> u64 {
        self.0.lock().faults.hits(fault)
    }

    /// How many calls a fault counted.
    #[must_use]
    pub fn fault_seen(&self, fault: FaultId) -> u64 {
        self.0.lock().faults.seen(fault)
    }

    /// What was called so far.
    #[must_use]
    pub fn log(&self) -> Vec<OpRecord> {
        self.0.lock().log.clone()
    }

    /// Forgets what was called so far.
    pub fn clear_log(&self) {
        self.0.lock().log.clear();
    }

    /// Whether calls are recorded; they are at first. Images inherit it.
    pub fn set_log(&self, on: bool) {
        self.0.lock().log_on = on;
    }

    /// Puts the wall clock forward or back; the monotonic clock goes on as it is.
    pub fn step_wall_clock(&self, ms: i64) {
        let mut state = self.0.lock();
        state.skew_ms = state.skew_ms.saturating_add(ms);
    }

    /// Puts both clocks forward.
    pub fn advance_ms(&self, ms: u64) {
        let mut state = self.0.lock();
        state.ns = state.ns.saturating_add(ms.saturating_mul(1_000_000));
    }
}
