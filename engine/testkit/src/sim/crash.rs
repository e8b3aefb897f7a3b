//! What a power cut leaves: images of the disk made from what was durable and a choice of what was not.
//!
//! # Invariants
//! C1. Durable bytes and names are in every image. A choice about an unsynced write touches only the bytes that the
//!     write covered, never synced bytes beside them in the same sector.
//! C2. Equal disk and equal plan give equal images.
//! C3. Every sector of a write, every name, every change of size, mode and allocation is a choice of its own; chosen
//!     writes are laid over each other in the order in which they were made.
//! C4. In an image everything is durable: what the machine shows is what its next power cut keeps.
//! C5. A write of the bytes that are there already changes none of them, whatever becomes of it: old and new are equal.
//!
//! # Units
//! `len`, `size`: bytes. `op`, `cut`: numbers of calls.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::disk::{Change, Dir, Disk, File, Ino, Inode, Node, ROOT, sectors};
use super::pages::Pages;
use super::rng::Rng;

/// What becomes of bytes that were written and not synced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Survival {
    /// None is there.
    Nothing,
    /// All are there.
    All,
    /// Each 512-byte sector is there or not, with another chance in each file.
    Subset,
    /// As `Subset`, and some sectors have only their first or last bytes.
    Torn,
    /// As `Subset`, and some sectors read as zero where they were written.
    Zeroed,
    /// As `Subset`, and some sectors hold other bytes where they were written: noise, ones, or a piece of another write.
    Garbage,
    /// The calls up to some moment are there, in the order of the whole machine; the write at that moment is torn.
    Prefix,
    /// Each sector has any of these fates.
    Mixed,
}

impl Survival {
    /// All ways, for tests that try each.
    pub const EACH: [Self; 8] = [
        Self::Nothing,
        Self::All,
        Self::Subset,
        Self::Torn,
        Self::Zeroed,
        Self::Garbage,
        Self::Prefix,
        Self::Mixed,
    ];
}

/// What becomes of names that were made, linked or removed in a folder that was not synced since.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Names {
    /// The folder is as it was synced.
    Nothing,
    /// All changes are there.
    All,
    /// Each change is there or not.
    Subset,
    /// The changes up to the moment of [`Survival::Prefix`] are there.
    Prefix,
}

impl Names {
    /// All ways, for tests that try each.
    pub const EACH: [Self; 4] = [Self::Nothing, Self::All, Self::Subset, Self::Prefix];
}

/// How a power cut goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CrashPlan {
    /// Decides every choice that `data` and `names` leave open.
    pub seed: u64,
    /// What becomes of unsynced bytes and sizes.
    pub data: Survival,
    /// What becomes of unsynced names.
    pub names: Names,
}

impl CrashPlan {
    /// A plan.
    #[must_use]
    pub const fn new(seed: u64, data: Survival, names: Names) -> Self {
        Self { seed, data, names }
    }

    /// Only what is durable survives.
    #[must_use]
    pub const fn nothing() -> Self {
        Self::new(0, Survival::Nothing, Names::Nothing)
    }

    /// All that was written survives.
    #[must_use]
    pub const fn all() -> Self {
        Self::new(0, Survival::All, Names::All)
    }

    /// A plan of which the seed chooses everything.
    #[must_use]
    pub fn random(seed: u64) -> Self {
        let mut rng = Rng::derived(seed, 0x706c_616e);
        let data = Survival::EACH[rng.below(Survival::EACH.len() as u64) as usize];
        let names = Names::EACH[rng.below(Names::EACH.len() as u64) as usize];
        Self::new(seed, data, names)
    }
}

/// What becomes of one sector of one write.
pub(crate) enum Fate {
    Keep,
    Drop,
    /// Only these bytes of it are there.
    Part(usize, usize),
    Replace(Vec<u8>),
}

/// A way to choose, asked in an order that depends on the disk alone.
pub(crate) trait Fates {
    fn start_file(&mut self) {}
    fn name(&mut self, op: u64) -> bool;
    fn mode(&mut self) -> bool;
    /// `growth` is not empty and holds calls and the sizes they made, in order.
    fn size(&mut self, durable: u64, growth: &[Growth]) -> u64;
    fn keep(&mut self, op: u64, data: &[u8]) -> Fate;
    /// How many bytes of a punched range are zero.
    fn punch(&mut self, op: u64, len: u64) -> u64;
}

#[derive(Clone, Copy)]
pub(crate) struct Growth {
    op: u64,
    to: u64,
    by_write: bool,
}

fn growth(file: &File) -> Vec<Growth> {
    let grown = |entry: &super::disk::Pending| match entry.change {
        Change::Size { to, by_write } => Some(Growth { op: entry.op, to, by_write }),
        Change::Write { .. } | Change::Punch { .. } => None,
    };
    file.pending.iter().filter_map(grown).collect()
}

fn surviving_file(file: &File, fates: &mut dyn Fates) -> File {
    fates.start_file();
    let growth = growth(file);
    let mut now = file.durable.clone();
    let size = match growth.is_empty() {
        true => now.size(),
        false => fates.size(now.size(), &growth),
    };
    for entry in &file.pending {
        match &entry.change {
            Change::Size { .. } => {}
            Change::Punch { offset, len } => now.zero(*offset, fates.punch(entry.op, *len)),
            Change::Write { offset, data } => {
                for (start, part) in sectors(*offset, data) {
                    lay(&mut now, start, part, fates.keep(entry.op, part));
                }
            }
        }
    }
    now.set_size(size);
    let whole = size == file.cache.size();
    let mut blocks = if whole { file.blocks.clone() } else { file.durable_blocks.clone() };
    for page in now.present() {
        blocks.add(page, page + 1);
    }
    File {
        cache: now.clone(),
        durable: now,
        durable_blocks: blocks.clone(),
        blocks,
        ..File::default()
    }
}

fn lay(now: &mut Pages, start: u64, part: &[u8], fate: Fate) {
    match fate {
        Fate::Keep => now.write(start, part),
        Fate::Drop => {}
        Fate::Part(from, to) => now.write(start + from as u64, &part[from..to]),
        Fate::Replace(mut bytes) => {
            let mut there = vec![0; part.len()];
            let known = now.read(start, &mut there);
            for (i, byte) in bytes.iter_mut().enumerate().take(known.min(part.len())) {
                if there[i] == part[i] {
                    *byte = part[i];
                }
            }
            now.write(start, &bytes);
        }
    }
}

fn surviving(inode: &Arc<Inode>, fates: &mut dyn Fates) -> Arc<Inode> {
    let mode_kept = inode.read_only == inode.durable_read_only || fates.mode();
    let read_only = if mode_kept { inode.read_only } else { inode.durable_read_only };
    let node = match &inode.node {
        Node::File(file) if !file.pending.is_empty() || !file.lost.is_empty() => {
            Node::File(surviving_file(file, fates))
        }
        Node::Dir(dir) if !dir.pending.is_empty() => {
            let mut names = dir.durable.clone();
            for change in &dir.pending {
                if fates.name(change.op) {
                    change.apply(&mut names);
                }
            }
            Node::Dir(Dir { durable: names.clone(), names, pending: Vec::new() })
        }
        _ if inode.read_only == inode.durable_read_only => return Arc::clone(inode),
        node => node.clone(),
    };
    Arc::new(Inode {
        node,
        ownership: inode.ownership,
        read_only,
        durable_read_only: read_only,
        links: inode.links,
    })
}

/// The disk after a power cut.
pub(crate) fn image(disk: &Disk, fates: &mut dyn Fates) -> Disk {
    let mut disk = disk.clone();
    disk.sweep(|_| false);
    let mut inodes: BTreeMap<Ino, Arc<Inode>> =
        disk.inodes().map(|(ino, inode)| (ino, surviving(inode, fates))).collect();
    let mut links = BTreeMap::from([(ROOT, 1_u32)]);
    let mut todo = vec![ROOT];
    while let Some(ino) = todo.pop() {
        let Some(Node::Dir(dir)) = inodes.get(&ino).map(|inode| &inode.node) else { continue };
        for child in dir.names.values() {
            let count = links.entry(*child).or_insert(0);
            *count += 1;
            if *count == 1 {
                todo.push(*child);
            }
        }
    }
    inodes.retain(|ino, inode| {
        let Some(count) = links.get(ino) else { return false };
        if inode.links != *count {
            Arc::make_mut(inode).links = *count;
        }
        true
    });
    disk.with_inodes(inodes)
}

/// The image that a plan makes of a disk.
pub(crate) fn planned_image(disk: &Disk, plan: &CrashPlan) -> Disk {
    image(disk, &mut Dice::new(disk, plan))
}

/// Chooses by a plan and its seed.
struct Dice {
    rng: Rng,
    plan: CrashPlan,
    /// First call that is not wholly there, for `Prefix`.
    cut: u64,
    /// Bytes of the write at the cut that are there and not handed out yet.
    cut_left: u64,
    /// Chance in eighths that a sector of this file is there.
    eighths: u64,
    donors: Vec<Arc<[u8]>>,
}

impl Dice {
    fn new(disk: &Disk, plan: &CrashPlan) -> Self {
        let mut rng = Rng::derived(plan.seed, 0x6469_6365);
        let mut calls: BTreeMap<u64, u64> = BTreeMap::new();
        let mut donors = Vec::new();
        for (_, inode) in disk.inodes() {
            match &inode.node {
                Node::File(file) => {
                    for entry in &file.pending {
                        let len = calls.entry(entry.op).or_insert(0);
                        if let Change::Write { data, .. } = &entry.change {
                            *len = data.len() as u64;
                            donors.push(Arc::clone(data));
                        }
                    }
                }
                Node::Dir(dir) => calls.extend(dir.pending.iter().map(|change| (change.op, 0))),
                Node::Other => {}
            }
        }
        let at = rng.below(calls.len() as u64 + 1) as usize;
        let (cut, len) = calls.iter().nth(at).map_or((u64::MAX, 0), |(op, len)| (*op, *len));
        let cut_left = rng.below(len + 1);
        Self { rng, plan: *plan, cut, cut_left, eighths: 4, donors }
    }

    fn before_cut(&mut self, op: u64) -> bool {
        op < self.cut || (op == self.cut && self.rng.chance(1, 2))
    }

    fn at_cut(&mut self, op: u64, len: usize) -> Fate {
        if op < self.cut {
            return Fate::Keep;
        }
        if op > self.cut {
            return Fate::Drop;
        }
        let part = self.cut_left.min(len as u64);
        self.cut_left -= part;
        Fate::Part(0, part as usize)
    }

    fn torn(&mut self, len: usize) -> Fate {
        let at = self.rng.below(len as u64 + 1) as usize;
        if self.rng.chance(2, 3) { Fate::Part(0, at) } else { Fate::Part(at, len) }
    }

    fn garbage(&mut self, len: usize) -> Fate {
        let mut bytes = vec![0xff; len];
        match self.rng.below(4) {
            0 => {}
            1 => self.rng.fill(&mut bytes),
            _ => {
                let at = self.rng.below(self.donors.len() as u64) as usize;
                let donor = self.donors.get(at).map_or(&[][..], |donor| donor);
                // Pieces on a border of eight bytes look most like what belongs here.
                let from = self.rng.below(donor.len() as u64 / 8 + 1) as usize * 8;
                for (byte, other) in bytes.iter_mut().zip(&donor[from..]) {
                    *byte = *other;
                }
            }
        }
        Fate::Replace(bytes)
    }

    fn choose(&mut self, op: u64, len: usize) -> Fate {
        let odd = self.rng.chance(1, 4);
        match self.plan.data {
            Survival::Nothing => return Fate::Drop,
            Survival::All => return Fate::Keep,
            Survival::Prefix => return self.at_cut(op, len),
            Survival::Torn if odd => return self.torn(len),
            Survival::Zeroed if odd => return Fate::Replace(vec![0; len]),
            Survival::Garbage if odd => return self.garbage(len),
            Survival::Mixed if odd => match self.rng.below(3) {
                0 => return self.torn(len),
                1 => return Fate::Replace(vec![0; len]),
                _ => return self.garbage(len),
            },
            _ => {}
        }
        if self.rng.chance(self.eighths, 8) { Fate::Keep } else { Fate::Drop }
    }
}

impl Fates for Dice {
    fn start_file(&mut self) {
        self.eighths = [0, 1, 4, 7, 8][self.rng.below(5) as usize];
    }

    fn name(&mut self, op: u64) -> bool {
        match self.plan.names {
            Names::Nothing => false,
            Names::All => true,
            Names::Subset => self.rng.chance(1, 2),
            Names::Prefix => self.before_cut(op),
        }
    }

    fn mode(&mut self) -> bool {
        match self.plan.data {
            Survival::Nothing => false,
            Survival::All => true,
            _ => self.rng.chance(1, 2),
        }
    }

    fn size(&mut self, durable: u64, growth: &[Growth]) -> u64 {
        let last = growth.last().map_or(durable, |g| g.to);
        let by_write = growth.iter().any(|g| g.by_write);
        match self.plan.data {
            Survival::Nothing => durable,
            Survival::All => last,
            Survival::Prefix => {
                let mut size = durable;
                for g in growth {
                    if g.op < self.cut || (g.op == self.cut && !g.by_write && self.rng.chance(1, 2))
                    {
                        size = size.max(g.to);
                    } else if g.op == self.cut && g.by_write {
                        size += self.rng.below(g.to.saturating_sub(size) + 1);
                    }
                }
                size
            }
            _ => match self.rng.below(6) {
                0 | 1 => durable,
                2 => growth[self.rng.below(growth.len() as u64) as usize].to,
                3 if by_write => durable + self.rng.below(last.saturating_sub(durable) + 1),
                _ => last,
            },
        }
    }

    fn keep(&mut self, op: u64, data: &[u8]) -> Fate {
        self.choose(op, data.len())
    }

    fn punch(&mut self, op: u64, len: u64) -> u64 {
        match self.plan.data {
            Survival::Nothing => 0,
            Survival::All => len,
            Survival::Prefix => {
                if self.before_cut(op) {
                    len
                } else {
                    0
                }
            }
            _ => match self.rng.below(3) {
                0 => 0,
                1 => len,
                _ => self.rng.below(len + 1),
            },
        }
    }
}

/// Chooses by the bits of a number, or counts how many bits it takes.
pub(crate) struct Bits {
    mask: u64,
    /// Bits used so far.
    pub(crate) used: u32,
}

impl Bits {
    pub(crate) fn new(mask: u64) -> Self {
        Self { mask, used: 0 }
    }

    fn next(&mut self) -> bool {
        let bit = self.used < 64 && self.mask >> self.used & 1 == 1;
        self.used = self.used.saturating_add(1);
        bit
    }
}

impl Fates for Bits {
    fn name(&mut self, _op: u64) -> bool {
        self.next()
    }

    fn mode(&mut self) -> bool {
        self.next()
    }

    fn size(&mut self, durable: u64, growth: &[Growth]) -> u64 {
        if self.next() { growth.last().map_or(durable, |g| g.to) } else { durable }
    }

    fn keep(&mut self, _op: u64, _data: &[u8]) -> Fate {
        if self.next() { Fate::Keep } else { Fate::Drop }
    }

    fn punch(&mut self, _op: u64, len: u64) -> u64 {
        if self.next() { len } else { 0 }
    }
}
