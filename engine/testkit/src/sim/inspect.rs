//! What a test does to the disk behind the back of all processes: look, damage, plant and take away.
//!
//! # Invariants
//! I1. What is done here is on the disk at once: it is durable, takes no number, meets no fault and asks for no room.
//! I2. Looking changes nothing.
//!
//! # Units
//! `offset`, `len`, `size`: bytes.

use std::collections::BTreeMap;

use everlog::vfs::{Access, Ownership};

use super::SimMachine;
use super::disk::{BLOCK, Disk, DiskResult, File, Ino, Inode, Node, ROOT, Refusal, code};
use super::pages::{Pages, mix};
use super::process::{new_dir, owned};

/// Checksum of all names and bytes that processes see.
pub(crate) fn digest(disk: &Disk) -> u64 {
    let mut sum = 0;
    for (path, ino) in walk(disk) {
        for word in path.bytes() {
            sum = mix(sum, u64::from(word));
        }
        if let Ok(file) = disk.file(ino) {
            sum = file.cache.digest(sum);
        }
        sum = mix(sum, u64::from(disk.inode(ino).is_ok_and(|inode| inode.read_only)));
    }
    sum
}

/// All paths in order, folders and what is in them.
fn walk(disk: &Disk) -> BTreeMap<String, Ino> {
    let mut paths = BTreeMap::new();
    let mut todo = vec![(String::new(), ROOT)];
    while let Some((above, ino)) = todo.pop() {
        let Ok(dir) = disk.dir(ino) else { continue };
        for (name, child) in &dir.names {
            let path = format!("{above}/{name}");
            todo.push((path.clone(), *child));
            paths.insert(path, *child);
        }
    }
    paths
}

fn split(path: &str) -> DiskResult<(&str, &str)> {
    let path = path.trim_end_matches('/');
    path.rsplit_once('/').filter(|(_, name)| !name.is_empty()).ok_or(Refusal::Os(code::INVAL))
}

/// Makes what processes see of a file durable.
fn settle(file: &mut File) {
    let mut blocks = file.blocks.clone();
    for page in file.cache.present() {
        blocks.add(page, page + 1);
    }
    let cache = std::mem::take(&mut file.cache);
    let (durable, durable_blocks) = (cache.clone(), blocks.clone());
    *file = File { cache, durable, blocks, durable_blocks, ..File::default() };
}

/// Makes the newest change of a folder durable, and no other.
fn settle_name(disk: &mut Disk, dir: Ino) -> DiskResult<()> {
    let dir = disk.dir_mut(dir)?;
    let Some(change) = dir.pending.pop() else { return Ok(()) };
    dir.pending.retain(|other| other.name != change.name);
    if change.add {
        dir.durable.insert(change.name, change.ino);
    } else {
        dir.durable.remove(&change.name);
    }
    Ok(())
}

/// Changes a file in place and makes it durable.
fn edit(disk: &mut Disk, path: &str, change: impl FnOnce(&mut Pages)) -> DiskResult<()> {
    let ino = disk.resolve(path)?;
    let before = disk.inode(ino)?.room();
    let file = disk.file_mut(ino)?;
    change(&mut file.cache);
    settle(file);
    let after = disk.inode(ino)?.room();
    disk.charge(before, after);
    Ok(())
}

/// Puts something under a path, with the folders above it.
fn plant(disk: &mut Disk, path: &str, inode: Inode) -> DiskResult<Ino> {
    let (above, name) = split(path)?;
    let mut dir = ROOT;
    for part in above.split('/').filter(|part| !part.is_empty()) {
        dir = match disk.lookup(dir, part) {
            Ok(ino) => ino,
            Err(Refusal::Os(code::NOENT)) => put(disk, dir, part, new_dir(Access::Private))?,
            Err(other) => return Err(other),
        };
    }
    put(disk, dir, name, inode)
}

fn put(disk: &mut Disk, dir: Ino, name: &str, inode: Inode) -> DiskResult<Ino> {
    let capacity = std::mem::replace(&mut disk.capacity, u64::MAX);
    let made = disk.create(0, dir, name, inode);
    disk.capacity = capacity;
    let ino = made?;
    settle_name(disk, dir)?;
    Ok(ino)
}

impl SimMachine {
    fn with_disk(&self, change: impl FnOnce(&mut Disk) -> DiskResult<()>) -> bool {
        change(&mut self.0.lock().disk).is_ok()
    }

    /// Bytes of a file as processes see them, or `None` when there is no such file.
    #[must_use]
    pub fn read_file(&self, path: &str) -> Option<Vec<u8>> {
        let state = self.0.lock();
        let ino = state.disk.resolve(path).ok()?;
        state.disk.file(ino).ok().map(|file| file.cache.to_vec())
    }

    /// Names in a folder, in order; empty when there is no such folder.
    #[must_use]
    pub fn list(&self, dir: &str) -> Vec<String> {
        let state = self.0.lock();
        let names = state.disk.resolve(dir).and_then(|ino| state.disk.dir(ino));
        names.map_or_else(|_| Vec::new(), |dir| dir.names.keys().map(|n| n.to_string()).collect())
    }

    /// All regular files as processes see them, by full path.
    #[must_use]
    pub fn files(&self) -> BTreeMap<String, Pages> {
        let state = self.0.lock();
        let file = |(path, ino)| Some((path, state.disk.file(ino).ok()?.cache.clone()));
        walk(&state.disk).into_iter().filter_map(file).collect()
    }

    /// Checksum of all names, bytes and read-only marks that processes see.
    #[must_use]
    pub fn digest(&self) -> u64 {
        digest(&self.0.lock().disk)
    }

    /// Writes a whole file, making it and the folders above it where they are missing. Returns whether it could.
    pub fn write_file(&self, path: &str, bytes: &[u8]) -> bool {
        self.with_disk(|disk| {
            if disk.resolve(path).is_err() {
                let file = Inode::new(Node::File(File::default()), owned(Access::Private));
                plant(disk, path, file)?;
            }
            edit(disk, path, |pages| *pages = Pages::from_bytes(bytes))
        })
    }

    /// Makes a folder, and those above it. Returns whether it could.
    pub fn make_dir(&self, path: &str) -> bool {
        self.with_disk(|disk| plant(disk, path, new_dir(Access::Private)).map(drop))
    }

    /// Makes a name that stands for a symbolic link, device, pipe or socket. Returns whether it could.
    pub fn plant_other(&self, path: &str) -> bool {
        let other = Inode::new(Node::Other, owned(Access::Private));
        self.with_disk(|disk| plant(disk, path, other).map(drop))
    }

    /// Changes bytes of a file, as decay of the disk would: up to `len` bytes from `offset` on, those that are inside
    /// the file. What processes see of the file is durable afterwards. Returns whether there is such a file.
    pub fn damage(
        &self,
        path: &str,
        offset: u64,
        len: usize,
        change: impl FnOnce(&mut [u8]),
    ) -> bool {
        self.with_disk(|disk| {
            edit(disk, path, |pages| {
                let mut bytes = vec![0; len.min(pages.size().saturating_sub(offset) as usize)];
                let done = pages.read(offset, &mut bytes);
                change(&mut bytes[..done]);
                pages.write(offset, &bytes[..done]);
            })
        })
    }

    /// Cuts a file, or makes it longer with zeros. Returns whether there is such a file.
    pub fn truncate(&self, path: &str, size: u64) -> bool {
        self.with_disk(|disk| {
            edit(disk, path, |pages| pages.set_size(size))?;
            let ino = disk.resolve(path)?;
            let before = disk.inode(ino)?.room();
            let file = disk.file_mut(ino)?;
            file.blocks.remove(size.div_ceil(BLOCK), u64::MAX);
            file.durable_blocks = file.blocks.clone();
            let after = disk.inode(ino)?.room();
            disk.charge(before, after);
            Ok(())
        })
    }

    /// Removes a file, or a folder with all that is in it. Returns whether there was one.
    pub fn remove_path(&self, path: &str) -> bool {
        let mut state = self.0.lock();
        let paths = walk(&state.disk);
        let path = path.trim_end_matches('/');
        let below = format!("{path}/");
        let gone = |p: &&String| p.as_str() == path || p.starts_with(&below);
        let mut found = false;
        for (path, ino) in paths.iter().rev().filter(|(p, _)| gone(p)) {
            let Ok((above, name)) = split(path) else { continue };
            let Ok(dir) = state.disk.resolve(above) else { continue };
            let removed = state.disk.remove(0, dir, name).is_ok()
                || state.disk.remove_dir(0, dir, name).is_ok();
            if removed {
                let _ = settle_name(&mut state.disk, dir);
                state.unlinked(*ino);
                found = true;
            }
        }
        found
    }

    /// Copies a file over another, which is made with the folders above it where it is missing. Returns whether it
    /// could.
    pub fn copy_path(&self, from: &str, to: &str) -> bool {
        self.with_disk(|disk| {
            let pages = disk.file(disk.resolve(from)?)?.cache.clone();
            if disk.resolve(to).is_err() {
                let file = Inode::new(Node::File(File::default()), owned(Access::Private));
                plant(disk, to, file)?;
            }
            edit(disk, to, |old| *old = pages)
        })
    }

    /// Sets who may use a file or folder. Returns whether there is one.
    pub fn set_ownership(&self, path: &str, ownership: Ownership) -> bool {
        self.with_disk(|disk| {
            let ino = disk.resolve(path)?;
            disk.inode_mut(ino)?.ownership = ownership;
            Ok(())
        })
    }

    /// Gives or takes the right to write to a file. Returns whether there is one.
    pub fn set_read_only(&self, path: &str, read_only: bool) -> bool {
        self.with_disk(|disk| {
            let ino = disk.resolve(path)?;
            let inode = disk.inode_mut(ino)?;
            inode.read_only = read_only;
            inode.durable_read_only = read_only;
            Ok(())
        })
    }

    /// Sets how many bytes the disk holds; at first 1 TiB. What is there already stays.
    pub fn set_capacity(&self, bytes: u64) {
        self.0.lock().disk.capacity = bytes;
    }

    /// Bytes that can still be allocated.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        self.0.lock().disk.free()
    }

    /// Whether the disk says that it is a network file system.
    pub fn set_network(&self, network: bool) {
        self.0.lock().disk.network = network;
    }

    /// Whether `map` gives maps; it does at first.
    pub fn set_maps(&self, maps: bool) {
        self.0.lock().maps = maps;
    }

    /// Forgets clean pages of the page cache: bytes that a failed sync lost read as the disk holds them.
    pub fn drop_caches(&self) {
        self.0.lock().disk.drop_caches();
    }

    /// Bytes of a file that are in the page cache as clean, but not on the disk.
    #[must_use]
    pub fn lost_bytes(&self, path: &str) -> u64 {
        let state = self.0.lock();
        let file = state.disk.resolve(path).and_then(|ino| state.disk.file(ino));
        file.map_or(0, |file| file.lost.count())
    }
}
