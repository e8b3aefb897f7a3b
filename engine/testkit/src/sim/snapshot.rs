//! A machine at one moment, to branch from.
//!
//! # Invariants
//! A1. A snapshot costs a few counters and never changes.
//! A2. A machine made from a snapshot has no processes, no locks, no faults and no record.

use std::fmt;
use std::sync::Arc;

use super::SimMachine;
use super::crash::{Bits, CrashPlan, image, planned_image};
use super::disk::Disk;
use super::pages::mix;
use super::rng::Rng;
use super::state::{Shared, State};

/// Most choices that [`Snapshot::crash_subsets`] tries exhaustively.
pub const MAX_SUBSET_BITS: u32 = 12;

/// The disk, page cache, clock and chance of a machine at one moment. Cloning is cheap.
#[derive(Clone)]
pub struct Snapshot {
    pub(crate) disk: Disk,
    boot_id: [u8; 16],
    rng: Rng,
    chance: Rng,
    ns: u64,
    skew_ms: i64,
    log_on: bool,
    maps: bool,
    next_pid: u32,
    stamp: u64,
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Snapshot({} files and folders)", self.disk.inodes().count())
    }
}

impl Snapshot {
    pub(crate) fn of(state: &State) -> Self {
        Self {
            disk: state.disk.clone(),
            boot_id: state.boot_id,
            rng: state.rng.clone(),
            chance: state.chance.clone(),
            ns: state.ns,
            skew_ms: state.skew_ms,
            log_on: state.log_on,
            maps: state.maps,
            next_pid: state.next_pid,
            stamp: state.stamp,
        }
    }

    /// The machine after all its processes died: the page cache and the boot id are kept.
    #[must_use]
    pub fn process_crash_image(&self) -> SimMachine {
        let (rng, chance) = (self.rng.clone(), self.chance.clone());
        let mut state = self.state(self.disk.without_handles(), self.boot_id, rng, chance);
        state.next_pid = self.next_pid;
        state.stamp = self.stamp;
        SimMachine(Arc::new(Shared::new(state)))
    }

    /// The machine after a power cut, booted anew.
    #[must_use]
    pub fn power_loss(&self, plan: &CrashPlan) -> SimMachine {
        self.booted(planned_image(&self.disk, plan), plan.seed)
    }

    /// How many choices a power cut has now: sectors of writes, names, sizes, punched ranges and modes that are not
    /// durable.
    #[must_use]
    pub fn unsynced(&self) -> u32 {
        let mut bits = Bits::new(0);
        let _ = image(&self.disk, &mut bits);
        bits.used
    }

    /// The machine after a power cut in which choice `i` of [`Snapshot::unsynced`] survives exactly when bit `i` of
    /// `mask` is set.
    #[must_use]
    pub fn power_loss_subset(&self, mask: u64) -> SimMachine {
        self.booted(image(&self.disk, &mut Bits::new(mask)), mask)
    }

    /// The machine after every power cut that keeps whole sectors, or `None` when there are more than
    /// [`MAX_SUBSET_BITS`] choices.
    #[must_use]
    pub fn crash_subsets(&self) -> Option<CrashSubsets> {
        let bits = self.unsynced();
        let end = (bits <= MAX_SUBSET_BITS).then(|| 1 << bits)?;
        Some(CrashSubsets { snapshot: self.clone(), next: 0, end })
    }

    /// Checksum of all names and bytes in the page cache.
    #[must_use]
    pub fn digest(&self) -> u64 {
        super::inspect::digest(&self.disk)
    }

    fn booted(&self, disk: Disk, seed: u64) -> SimMachine {
        let seed = mix(self.rng.clone().next(), seed);
        let mut boot_id = [0; 16];
        Rng::derived(seed, 1).fill(&mut boot_id);
        let (rng, chance) = (Rng::derived(seed, 2), Rng::derived(seed, 3));
        SimMachine(Arc::new(Shared::new(self.state(disk, boot_id, rng, chance))))
    }

    fn state(&self, disk: Disk, boot_id: [u8; 16], rng: Rng, chance: Rng) -> State {
        let mut state = State::new(disk, boot_id, rng, chance, self.ns);
        state.skew_ms = self.skew_ms;
        state.log_on = self.log_on;
        state.maps = self.maps;
        state
    }
}

/// All machines that a power cut may leave: see [`Snapshot::crash_subsets`].
#[derive(Clone, Debug)]
pub struct CrashSubsets {
    snapshot: Snapshot,
    next: u64,
    end: u64,
}

impl Iterator for CrashSubsets {
    type Item = SimMachine;

    fn next(&mut self) -> Option<SimMachine> {
        let mask = self.next;
        (mask < self.end).then(|| {
            self.next += 1;
            self.snapshot.power_loss_subset(mask)
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = (self.end - self.next) as usize;
        (left, Some(left))
    }
}

impl ExactSizeIterator for CrashSubsets {}
