//! The file system of the simulated machine: what the page cache shows, and what the disk holds for sure.
//!
//! Every file and folder is kept twice: as running processes see it, and as it was when it was last synced. Between
//! the two lies the list of changes since, from which `crash` makes images.
//!
//! # Invariants
//! K1. A file without pending changes and lost ranges shows exactly its durable bytes; a folder without pending
//!     changes shows exactly its durable names.
//! K2. `used` is the room of all allocated blocks, plus one block for each file and folder that a name or an open
//!     handle keeps alive.
//! K3. A clone of the disk costs a few counters; later changes copy only what they touch.
//! K4. Lost ranges are bytes that a failed sync left in the page cache as clean: no sync makes them durable until
//!     they are written again.
//!
//! # Units
//! `offset`, `len`, `size`, `capacity`, `used`: bytes. Blocks: 4,096 bytes. `op`: place of the call in the order
//! of all calls since the machine was booted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use everlog::vfs::{EntryKind, Ownership};

use super::pages::Pages;
use super::ranges::Ranges;
use super::rng::Rng;

pub(crate) type Ino = u64;
pub(crate) type Name = Arc<str>;

pub(crate) const ROOT: Ino = 1;
pub(crate) const BLOCK: u64 = 4096;
/// Unit in which a disk takes or loses bytes.
pub(crate) const SECTOR: u64 = 512;
const MAX_FILE: u64 = 16 << 30;

/// Numbers of the operating system's errors, as on Linux.
pub(crate) mod code {
    pub(crate) const PERM: i32 = 1;
    pub(crate) const NOENT: i32 = 2;
    pub(crate) const IO: i32 = 5;
    pub(crate) const BADF: i32 = 9;
    pub(crate) const ACCES: i32 = 13;
    pub(crate) const EXIST: i32 = 17;
    pub(crate) const NOTDIR: i32 = 20;
    pub(crate) const ISDIR: i32 = 21;
    pub(crate) const INVAL: i32 = 22;
    pub(crate) const FBIG: i32 = 27;
    pub(crate) const NOSPC: i32 = 28;
    pub(crate) const NOTEMPTY: i32 = 39;
    pub(crate) const DQUOT: i32 = 122;
}

/// Why the file system refused a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// An error number of the operating system.
    Os(i32),
    /// Not a regular file with exactly one name.
    Insecure(&'static str),
}

pub(crate) type DiskResult<T> = Result<T, Refusal>;

fn refuse<T>(code: i32) -> DiskResult<T> {
    Err(Refusal::Os(code))
}

/// A change of a file that is not durable yet.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Write { offset: u64, data: Arc<[u8]> },
    Size { to: u64, by_write: bool },
    Punch { offset: u64, len: u64 },
}

#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub(crate) op: u64,
    pub(crate) change: Change,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct File {
    pub(crate) cache: Pages,
    pub(crate) durable: Pages,
    pub(crate) pending: Vec<Pending>,
    pub(crate) lost: Ranges,
    pub(crate) blocks: Ranges,
    pub(crate) durable_blocks: Ranges,
}

/// A change of a folder that is not durable yet.
#[derive(Clone, Debug)]
pub(crate) struct DirChange {
    pub(crate) op: u64,
    pub(crate) name: Name,
    pub(crate) ino: Ino,
    pub(crate) add: bool,
}

impl DirChange {
    pub(crate) fn apply(&self, names: &mut BTreeMap<Name, Ino>) {
        if self.add {
            names.insert(Arc::clone(&self.name), self.ino);
        } else if names.get(&self.name) == Some(&self.ino) {
            names.remove(&self.name);
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Dir {
    pub(crate) names: BTreeMap<Name, Ino>,
    pub(crate) durable: BTreeMap<Name, Ino>,
    pub(crate) pending: Vec<DirChange>,
}

#[derive(Clone, Debug)]
pub(crate) enum Node {
    File(File),
    Dir(Dir),
    Other,
}

#[derive(Clone, Debug)]
pub(crate) struct Inode {
    pub(crate) node: Node,
    pub(crate) ownership: Ownership,
    pub(crate) read_only: bool,
    pub(crate) durable_read_only: bool,
    pub(crate) links: u32,
}

impl Inode {
    pub(crate) fn new(node: Node, ownership: Ownership) -> Self {
        Self { node, ownership, read_only: false, durable_read_only: false, links: 0 }
    }

    pub(crate) fn kind(&self) -> EntryKind {
        match self.node {
            Node::File(_) => EntryKind::File,
            Node::Dir(_) => EntryKind::Dir,
            Node::Other => EntryKind::Other,
        }
    }

    /// Room that the file or folder takes.
    pub(crate) fn room(&self) -> u64 {
        match &self.node {
            Node::File(file) => (file.blocks.count() + 1) * BLOCK,
            Node::Dir(_) | Node::Other => BLOCK,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Disk {
    inodes: Arc<BTreeMap<Ino, Arc<Inode>>>,
    next: Ino,
    pub(crate) capacity: u64,
    used: u64,
    pub(crate) network: bool,
}

impl Disk {
    pub(crate) fn new() -> Self {
        let private = Ownership { own: true, group_write: false, world: false };
        let mut root = Inode::new(Node::Dir(Dir::default()), private);
        root.links = 1;
        Self::from_parts(BTreeMap::from([(ROOT, Arc::new(root))]), ROOT + 1, 1 << 40, false)
    }

    fn from_parts(
        inodes: BTreeMap<Ino, Arc<Inode>>,
        next: Ino,
        capacity: u64,
        network: bool,
    ) -> Self {
        let named = inodes.values().filter(|inode| inode.links > 0);
        let used = named.map(|inode| inode.room()).sum();
        Self { inodes: Arc::new(inodes), next, capacity, used, network }
    }

    /// The disk when no process has anything open.
    pub(crate) fn without_handles(&self) -> Self {
        let mut disk = self.clone();
        disk.sweep(|_| false);
        disk.with_inodes(disk.inodes.as_ref().clone())
    }

    /// The same disk with other contents and nothing open.
    pub(crate) fn with_inodes(&self, inodes: BTreeMap<Ino, Arc<Inode>>) -> Self {
        Self::from_parts(inodes, self.next, self.capacity, self.network)
    }

    pub(crate) fn inodes(&self) -> impl Iterator<Item = (Ino, &Arc<Inode>)> {
        self.inodes.iter().map(|(ino, inode)| (*ino, inode))
    }

    pub(crate) fn free(&self) -> u64 {
        self.capacity.saturating_sub(self.used)
    }

    /// Numbers of files and folders go on from those of another disk.
    pub(crate) fn number_after(&mut self, other: &Self) {
        self.next = self.next.max(other.next);
    }

    /// Room changed behind the back of the calls.
    pub(crate) fn charge(&mut self, before: u64, after: u64) {
        self.used = self.used.saturating_add(after).saturating_sub(before);
    }

    pub(crate) fn inode(&self, ino: Ino) -> DiskResult<&Inode> {
        self.inodes.get(&ino).map(Arc::as_ref).ok_or(Refusal::Os(code::BADF))
    }

    pub(crate) fn inode_mut(&mut self, ino: Ino) -> DiskResult<&mut Inode> {
        let slot = Arc::make_mut(&mut self.inodes).get_mut(&ino);
        slot.map(Arc::make_mut).ok_or(Refusal::Os(code::BADF))
    }

    pub(crate) fn file(&self, ino: Ino) -> DiskResult<&File> {
        match &self.inode(ino)?.node {
            Node::File(file) => Ok(file),
            Node::Dir(_) | Node::Other => refuse(code::BADF),
        }
    }

    pub(crate) fn file_mut(&mut self, ino: Ino) -> DiskResult<&mut File> {
        match &mut self.inode_mut(ino)?.node {
            Node::File(file) => Ok(file),
            Node::Dir(_) | Node::Other => refuse(code::BADF),
        }
    }

    pub(crate) fn dir(&self, ino: Ino) -> DiskResult<&Dir> {
        match &self.inode(ino)?.node {
            Node::Dir(dir) => Ok(dir),
            Node::File(_) | Node::Other => refuse(code::NOTDIR),
        }
    }

    pub(crate) fn dir_mut(&mut self, ino: Ino) -> DiskResult<&mut Dir> {
        match &mut self.inode_mut(ino)?.node {
            Node::Dir(dir) => Ok(dir),
            Node::File(_) | Node::Other => refuse(code::NOTDIR),
        }
    }

    /// What a name in a folder stands for.
    pub(crate) fn lookup(&self, dir: Ino, name: &str) -> DiskResult<Ino> {
        self.dir(dir)?.names.get(name).copied().ok_or(Refusal::Os(code::NOENT))
    }

    /// Walks a path from the root folder.
    pub(crate) fn resolve(&self, path: &str) -> DiskResult<Ino> {
        path.split('/')
            .filter(|part| !part.is_empty())
            .try_fold(ROOT, |dir, part| self.lookup(dir, part))
    }

    fn add_name(&mut self, op: u64, dir: Ino, name: &str, ino: Ino) -> DiskResult<()> {
        let name: Name = Arc::from(name);
        let change = DirChange { op, name, ino, add: true };
        let dir = self.dir_mut(dir)?;
        change.apply(&mut dir.names);
        dir.pending.push(change);
        self.inode_mut(ino)?.links += 1;
        Ok(())
    }

    fn drop_name(&mut self, op: u64, dir: Ino, name: &str, ino: Ino) -> DiskResult<()> {
        let change = DirChange { op, name: Arc::from(name), ino, add: false };
        let dir = self.dir_mut(dir)?;
        change.apply(&mut dir.names);
        dir.pending.push(change);
        self.inode_mut(ino)?.links -= 1;
        Ok(())
    }

    /// A live folder in which `name` is free.
    fn check_free(&self, dir: Ino, name: &str) -> DiskResult<()> {
        if self.inode(dir)?.links == 0 {
            return refuse(code::NOENT);
        }
        match self.lookup(dir, name) {
            Ok(_) => refuse(code::EXIST),
            Err(Refusal::Os(code::NOENT)) => Ok(()),
            Err(other) => Err(other),
        }
    }

    /// Makes a file or folder with one name.
    pub(crate) fn create(
        &mut self,
        op: u64,
        dir: Ino,
        name: &str,
        inode: Inode,
    ) -> DiskResult<Ino> {
        self.check_free(dir, name)?;
        if self.free() < BLOCK {
            return refuse(code::NOSPC);
        }
        let ino = self.next;
        self.next += 1;
        self.used += inode.room();
        Arc::make_mut(&mut self.inodes).insert(ino, Arc::new(inode));
        self.add_name(op, dir, name, ino)?;
        Ok(ino)
    }

    pub(crate) fn link(&mut self, op: u64, dir: Ino, from: &str, to: &str) -> DiskResult<()> {
        let ino = self.lookup(dir, from)?;
        if !matches!(self.inode(ino)?.node, Node::File(_)) {
            return refuse(code::PERM);
        }
        self.check_free(dir, to)?;
        self.add_name(op, dir, to, ino)
    }

    /// Removes the name of anything but a folder; tells what it stood for.
    pub(crate) fn remove(&mut self, op: u64, dir: Ino, name: &str) -> DiskResult<Ino> {
        let ino = self.lookup(dir, name)?;
        if matches!(self.inode(ino)?.node, Node::Dir(_)) {
            return refuse(code::ISDIR);
        }
        self.drop_name(op, dir, name, ino)?;
        Ok(ino)
    }

    /// Removes the name of an empty folder; tells what it stood for.
    pub(crate) fn remove_dir(&mut self, op: u64, dir: Ino, name: &str) -> DiskResult<Ino> {
        let ino = self.lookup(dir, name)?;
        if !self.dir(ino)?.names.is_empty() {
            return refuse(code::NOTEMPTY);
        }
        self.drop_name(op, dir, name, ino)?;
        Ok(ino)
    }

    /// Gives back the room of a file or folder that has neither name nor handle.
    pub(crate) fn release(&mut self, ino: Ino) {
        let Ok(inode) = self.inode(ino) else { return };
        if inode.links > 0 {
            return;
        }
        self.used = self.used.saturating_sub(inode.room());
        if let Ok(file) = self.file_mut(ino) {
            file.blocks = Ranges::default();
        }
    }

    /// Makes the names of a folder durable; with `some`, only some of them, and none for sure.
    pub(crate) fn sync_dir(&mut self, ino: Ino, some: Option<&mut Rng>) -> DiskResult<()> {
        if self.dir(ino)?.pending.is_empty() {
            return Ok(());
        }
        let dir = self.dir_mut(ino)?;
        if let Some(rng) = some {
            for change in dir.pending.iter().filter(|_| rng.chance(1, 2)) {
                change.apply(&mut dir.durable);
            }
        } else {
            dir.durable = dir.names.clone();
            dir.pending.clear();
        }
        Ok(())
    }

    /// Forgets everything that no name, durable or not, and no handle can reach.
    pub(crate) fn sweep(&mut self, open: impl Fn(Ino) -> bool) {
        let mut live: BTreeSet<Ino> =
            self.inodes.keys().copied().filter(|ino| open(*ino)).collect();
        live.insert(ROOT);
        let mut todo: Vec<Ino> = live.iter().copied().collect();
        while let Some(ino) = todo.pop() {
            let Ok(dir) = self.dir(ino) else { continue };
            let pending = dir.pending.iter().map(|change| change.ino);
            let all = dir.names.values().chain(dir.durable.values()).copied().chain(pending);
            todo.extend(all.filter(|child| live.insert(*child)));
        }
        if live.len() < self.inodes.len() {
            Arc::make_mut(&mut self.inodes).retain(|ino, _| live.contains(ino));
        }
    }

    /// How many bytes of a write from `offset` on there is room for.
    fn fitting(&self, file: &File, offset: u64, len: u64) -> u64 {
        let (first, last) = (offset / BLOCK, (offset + len).div_ceil(BLOCK));
        let missing = last - first - file.blocks.count_in(first, last);
        let mut free = self.free() / BLOCK;
        if missing <= free {
            return len;
        }
        for block in first..last {
            if file.blocks.contains(block) {
                continue;
            }
            if free == 0 {
                return (block * BLOCK).saturating_sub(offset);
            }
            free -= 1;
        }
        len
    }

    fn take_blocks(&mut self, ino: Ino, first: u64, last: u64) -> DiskResult<()> {
        let missing = last - first - self.file(ino)?.blocks.count_in(first, last);
        if missing > 0 {
            self.file_mut(ino)?.blocks.add(first, last);
            self.used += missing * BLOCK;
        }
        Ok(())
    }

    /// Writes as much as there is room for.
    pub(crate) fn write(&mut self, op: u64, ino: Ino, offset: u64, bytes: &[u8]) -> DiskResult<()> {
        let len = bytes.len() as u64;
        if offset > MAX_FILE || len > MAX_FILE - offset {
            return refuse(code::FBIG);
        }
        let fits = self.fitting(self.file(ino)?, offset, len);
        if fits > 0 {
            let end = offset + fits;
            self.take_blocks(ino, offset / BLOCK, end.div_ceil(BLOCK))?;
            let file = self.file_mut(ino)?;
            if end > file.cache.size() {
                let change = Change::Size { to: end, by_write: true };
                file.pending.push(Pending { op, change });
            }
            let data: Arc<[u8]> = Arc::from(&bytes[..fits as usize]);
            file.cache.write(offset, &data);
            file.lost.remove(offset, end);
            file.pending.push(Pending { op, change: Change::Write { offset, data } });
        }
        if fits < len { refuse(code::NOSPC) } else { Ok(()) }
    }

    /// Allocates `[0, len)`, and makes the file that long where it is shorter. With `resize` false only the room is
    /// taken, as by a call that failed half way.
    pub(crate) fn allocate(&mut self, op: u64, ino: Ino, len: u64, resize: bool) -> DiskResult<()> {
        if len > MAX_FILE {
            return refuse(code::FBIG);
        }
        let last = len.div_ceil(BLOCK);
        let file = self.file(ino)?;
        if (last - file.blocks.count_in(0, last)) * BLOCK > self.free() {
            return refuse(code::NOSPC);
        }
        let grows = resize && len > file.cache.size();
        self.take_blocks(ino, 0, last)?;
        if grows {
            let file = self.file_mut(ino)?;
            file.cache.set_size(len);
            file.pending.push(Pending { op, change: Change::Size { to: len, by_write: false } });
        }
        Ok(())
    }

    /// Makes a range zero and gives back its whole blocks.
    pub(crate) fn punch(&mut self, op: u64, ino: Ino, offset: u64, len: u64) -> DiskResult<()> {
        let file = self.file_mut(ino)?;
        let mut end = offset.saturating_add(len);
        if end >= file.cache.size() {
            // The last block is whole as well when the range ends with the file.
            end = file.cache.size().next_multiple_of(BLOCK);
        }
        if offset >= end {
            return Ok(());
        }
        let len = end - offset;
        file.cache.zero(offset, len);
        file.lost.remove(offset, end);
        file.pending.push(Pending { op, change: Change::Punch { offset, len } });
        let (first, past) = (offset.div_ceil(BLOCK), end / BLOCK);
        if first < past {
            let given = file.blocks.count_in(first, past);
            file.blocks.remove(first, past);
            self.used -= given * BLOCK;
        }
        Ok(())
    }

    /// Makes all bytes and the size durable, but for lost ranges, which only seem so.
    pub(crate) fn sync(&mut self, ino: Ino) -> DiskResult<()> {
        if self.file(ino)?.pending.is_empty() {
            return Ok(());
        }
        let file = self.file_mut(ino)?;
        let mut now = file.cache.clone();
        for (start, end) in file.lost.iter() {
            now.copy_from(&file.durable, start, end);
        }
        file.durable = now;
        file.durable_blocks = file.blocks.clone();
        file.pending.clear();
        Ok(())
    }

    /// A sync that failed: pending bytes become clean without being on the disk; with `some`, a part of them got
    /// there. Sizes and punches stay pending.
    pub(crate) fn fail_sync(&mut self, ino: Ino, mut some: Option<&mut Rng>) -> DiskResult<()> {
        let file = self.file_mut(ino)?;
        let pending = std::mem::take(&mut file.pending);
        for entry in pending {
            let Change::Write { offset, data } = &entry.change else {
                file.pending.push(entry);
                continue;
            };
            for (start, part) in sectors(*offset, data) {
                let end = start + part.len() as u64;
                if some.as_mut().is_some_and(|rng| rng.chance(1, 2)) {
                    file.durable.write(start, part);
                    file.lost.remove(start, end);
                } else {
                    file.lost.add(start, end);
                }
            }
        }
        Ok(())
    }

    /// Forgets clean pages, so that lost ranges show what the disk holds.
    pub(crate) fn drop_caches(&mut self) {
        let lossy = |inode: &Inode| matches!(&inode.node, Node::File(f) if !f.lost.is_empty());
        let inodes: Vec<Ino> =
            self.inodes.iter().filter(|(_, i)| lossy(i)).map(|(ino, _)| *ino).collect();
        for ino in inodes {
            let Ok(file) = self.file_mut(ino) else { continue };
            let lost = std::mem::take(&mut file.lost);
            for (start, end) in lost.iter() {
                file.cache.copy_from(&file.durable, start, end);
            }
        }
    }
}

/// Splits the bytes of a write at the borders of sectors.
pub(crate) fn sectors(offset: u64, data: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let mut rest = data;
    let mut at = offset;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let part = ((SECTOR - at % SECTOR) as usize).min(rest.len());
        let (head, tail) = rest.split_at(part);
        let start = at;
        rest = tail;
        at += part as u64;
        Some((start, head))
    })
}
