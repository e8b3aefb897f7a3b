//! Open folders, files and maps of the simulated machine.
//!
//! # Invariants
//! H1. A handle acts on the account of the process that opened it, or of that process's child while the code runs as
//!     the child.
//! H2. Dropping a handle closes the description for the acting process only: what a child drops stays open in its
//!     parent, and the other way round.
//!
//! # Units
//! `offset`, `len`: bytes.

use std::fmt;
use std::sync::Arc;

use everlog::Result;
use everlog::vfs::{
    Access, DirEntry, LockKind, OpenHow, Ownership, Space, VfsDir, VfsFile, VfsMap,
};

use super::disk::{DiskResult, File, Ino, Inode, Node, Refusal, code};
use super::fault::Call;
use super::process::{new_dir, owned};
use super::state::{DescId, Effect, Pid, Shared, Site, State, Step, Stop};

/// An open description, as one process refers to it.
struct Handle {
    shared: Arc<Shared>,
    desc: DescId,
    owner: Pid,
    path: Arc<str>,
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of process {}", self.path, self.owner)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        let pid = self.shared.actor(&state, self.owner);
        state.close(self.desc, pid);
    }
}

impl Handle {
    fn call<T>(
        &self,
        call: Call,
        (offset, len): (u64, u64),
        run: impl FnOnce(&mut State, Ino, &Step) -> DiskResult<T>,
    ) -> Result<T> {
        let site = Site { call, path: Arc::clone(&self.path), offset, len };
        self.shared.call(self.owner, Some(self.desc), site, |state, step| {
            let ino = state.desc(self.desc)?.ino;
            run(state, ino, step)
        })
    }

    fn call_name<T>(
        &self,
        call: Call,
        name: &str,
        run: impl FnOnce(&mut State, Ino, &Step) -> DiskResult<T>,
    ) -> Result<T> {
        let path = Arc::from(join(&self.path, name));
        let site = Site { call, path, offset: 0, len: 0 };
        self.shared.call(self.owner, Some(self.desc), site, |state, step| {
            check_name(name)?;
            let ino = state.desc(self.desc)?.ino;
            run(state, ino, step)
        })
    }

    fn ownership(&self) -> Result<Ownership> {
        self.call(Call::Ownership, (0, 0), |state, ino, _| Ok(state.disk.inode(ino)?.ownership))
    }
}

fn join(dir: &str, name: &str) -> String {
    format!("{}/{name}", dir.trim_end_matches('/'))
}

/// One path component (D1).
fn check_name(name: &str) -> DiskResult<()> {
    let bad = matches!(name, "" | "." | "..") || name.contains(['/', '\0']) || name.len() > 255;
    if bad { Err(Refusal::Os(code::INVAL)) } else { Ok(()) }
}

/// An open folder.
#[derive(Debug)]
pub(crate) struct SimDir(Handle);

impl SimDir {
    pub(crate) fn new(shared: &Arc<Shared>, desc: DescId, owner: Pid, path: Arc<str>) -> Self {
        Self(Handle { shared: Arc::clone(shared), desc, owner, path })
    }
}

/// Opens an existing file, once it is one that may be opened so.
fn open_file(
    state: &mut State,
    dir: Ino,
    name: &str,
    writable: bool,
    pid: Pid,
) -> DiskResult<DescId> {
    let ino = state.disk.lookup(dir, name)?;
    let inode = state.disk.inode(ino)?;
    if !matches!(inode.node, Node::File(_)) {
        return Err(Refusal::Insecure("not a regular file"));
    }
    if writable && inode.links != 1 {
        return Err(Refusal::Insecure("the file has more than one name"));
    }
    if writable && inode.read_only {
        return Err(Refusal::Os(code::ACCES));
    }
    Ok(state.open(ino, writable, pid))
}

#[deny(clippy::missing_trait_methods)]
impl VfsDir for SimDir {
    fn create_dir(&self, name: &str, access: Access) -> Result<()> {
        self.0.call_name(Call::CreateDir, name, |state, dir, step| {
            state.disk.create(step.stamp, dir, name, new_dir(access)).map(drop)
        })
    }

    fn open_dir(&self, name: &str) -> Result<Arc<dyn VfsDir>> {
        let (desc, pid) = self.0.call_name(Call::OpenDir, name, |state, dir, step| {
            let ino = state.disk.lookup(dir, name)?;
            state.disk.dir(ino)?;
            Ok((state.open(ino, false, step.pid), step.pid))
        })?;
        let path = Arc::from(join(&self.0.path, name));
        Ok(Arc::new(Self::new(&self.0.shared, desc, pid, path)))
    }

    fn open(&self, name: &str, how: OpenHow) -> Result<Arc<dyn VfsFile>> {
        let call = match how {
            OpenHow::Read | OpenHow::ReadWrite => Call::Open,
            OpenHow::CreateNew(_) => Call::Create,
        };
        let (desc, owner) = self.0.call_name(call, name, |state, dir, step| {
            if let OpenHow::CreateNew(access) = how {
                let file = Inode::new(Node::File(File::default()), owned(access));
                state.disk.create(step.stamp, dir, name, file)?;
            }
            if step.stop.is_some() {
                // The caller gets no handle that it could close.
                return Ok((0, step.pid));
            }
            let writable = how != OpenHow::Read;
            Ok((open_file(state, dir, name, writable, step.pid)?, step.pid))
        })?;
        let path = Arc::from(join(&self.0.path, name));
        let shared = Arc::clone(&self.0.shared);
        Ok(Arc::new(SimFile(Handle { shared, desc, owner, path })))
    }

    fn link(&self, from: &str, to: &str) -> Result<()> {
        self.0.call_name(Call::Link, to, |state, dir, step| {
            check_name(from)?;
            state.disk.link(step.stamp, dir, from, to)
        })
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.0.call_name(Call::Remove, name, |state, dir, step| {
            let ino = state.disk.remove(step.stamp, dir, name)?;
            state.unlinked(ino);
            Ok(())
        })
    }

    fn remove_dir(&self, name: &str) -> Result<()> {
        self.0.call_name(Call::RemoveDir, name, |state, dir, step| {
            let ino = state.disk.remove_dir(step.stamp, dir, name)?;
            state.unlinked(ino);
            Ok(())
        })
    }

    fn list(&self) -> Result<Vec<DirEntry>> {
        self.0.call(Call::List, (0, 0), |state, dir, _| {
            let names = state.disk.dir(dir)?.names.iter();
            let entry = |(name, ino): (&Arc<str>, &Ino)| {
                let kind = state.disk.inode(*ino)?.kind();
                Ok(DirEntry { name: name.as_bytes().to_vec(), kind })
            };
            names.map(entry).collect()
        })
    }

    fn sync(&self) -> Result<()> {
        self.0.call(Call::SyncDir, (0, 0), |state, dir, step| {
            match step.effect {
                Effect::Whole => state.disk.sync_dir(dir, None)?,
                Effect::Part(_) => {
                    let (disk, chance) = (&mut state.disk, &mut state.chance);
                    disk.sync_dir(dir, Some(chance))?;
                }
                Effect::Nothing => {}
            }
            state.sweep();
            Ok(())
        })
    }

    fn space(&self) -> Result<Space> {
        self.0.call(Call::Space, (0, 0), |state, _, _| {
            Ok(Space { free_bytes: state.disk.free(), total_bytes: state.disk.capacity })
        })
    }

    fn is_network(&self) -> Result<bool> {
        self.0.call(Call::Space, (0, 0), |state, _, _| Ok(state.disk.network))
    }

    fn ownership(&self) -> Result<Ownership> {
        self.0.ownership()
    }
}

/// An open file.
#[derive(Debug)]
pub(crate) struct SimFile(Handle);

impl SimFile {
    /// A call that needs the right to write.
    fn change<T>(
        &self,
        call: Call,
        range: (u64, u64),
        run: impl FnOnce(&mut State, Ino, &Step) -> DiskResult<T>,
    ) -> Result<T> {
        self.0.call(call, range, |state, ino, step| {
            if !state.desc(self.0.desc)?.writable {
                return Err(Refusal::Os(code::BADF));
            }
            run(state, ino, step)
        })
    }
}

/// The range of a lock: a length of 0 reaches to the end of all files.
fn lock_range(offset: u64, len: u64) -> DiskResult<(u64, u64)> {
    let end = if len == 0 { Some(u64::MAX) } else { offset.checked_add(len) };
    end.map(|end| (offset, end)).ok_or(Refusal::Os(code::INVAL))
}

#[deny(clippy::missing_trait_methods)]
impl VfsFile for SimFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.0.call(Call::Read, (offset, buf.len() as u64), |state, ino, _| {
            Ok(state.disk.file(ino)?.cache.read(offset, buf))
        })
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        self.change(Call::Write, (offset, buf.len() as u64), |state, ino, step| {
            let part = state.portion(step, buf.len() as u64) as usize;
            state.disk.write(step.stamp, ino, offset, &buf[..part])
        })
    }

    fn sync_data(&self) -> Result<()> {
        self.0.call(Call::SyncData, (0, 0), |state, ino, step| {
            let (disk, chance) = (&mut state.disk, &mut state.chance);
            match (step.stop, step.effect) {
                (None, _) | (Some(Stop::Down | Stop::Killed), Effect::Whole) => disk.sync(ino),
                // A death on the way: the disk may still take any part.
                (Some(Stop::Down | Stop::Killed), _) => Ok(()),
                (Some(Stop::Fault(_)), Effect::Nothing) => disk.fail_sync(ino, None),
                (Some(Stop::Fault(_)), _) => disk.fail_sync(ino, Some(chance)),
            }
        })
    }

    fn len(&self) -> Result<u64> {
        self.0.call(Call::Len, (0, 0), |state, ino, _| Ok(state.disk.file(ino)?.cache.size()))
    }

    fn next_data(&self, offset: u64) -> Result<Option<u64>> {
        // The simulated disk does not know what was never written: all is read.
        Ok(Some(offset))
    }

    fn allocate(&self, len: u64) -> Result<()> {
        self.change(Call::Allocate, (0, len), |state, ino, step| {
            if step.effect == Effect::Whole {
                return state.disk.allocate(step.stamp, ino, len, true);
            }
            let part = state.portion(step, len);
            state.disk.allocate(step.stamp, ino, part, false)
        })
    }

    fn punch(&self, offset: u64, len: u64) -> Result<()> {
        self.change(Call::Punch, (offset, len), |state, ino, step| {
            state.disk.punch(step.stamp, ino, offset, len)
        })
    }

    fn set_read_only(&self) -> Result<()> {
        self.0.call(Call::SetReadOnly, (0, 0), |state, ino, _| {
            let inode = state.disk.inode_mut(ino)?;
            inode.read_only = true;
            inode.ownership.group_write = false;
            Ok(())
        })
    }

    fn try_lock(&self) -> Result<bool> {
        self.0.call(Call::TryLock, (0, 0), |state, ino, _| Ok(state.try_lock(self.0.desc, ino)))
    }

    fn unlock(&self) -> Result<()> {
        self.0.call(Call::Unlock, (0, 0), |state, ino, _| {
            state.unlock(self.0.desc, ino);
            Ok(())
        })
    }

    fn try_lock_range(&self, offset: u64, len: u64, kind: LockKind) -> Result<bool> {
        self.0.call(Call::TryLockRange, (offset, len), |state, ino, _| {
            if kind == LockKind::Exclusive && !state.desc(self.0.desc)?.writable {
                return Err(Refusal::Os(code::BADF));
            }
            Ok(state.try_lock_range(self.0.desc, ino, lock_range(offset, len)?, kind))
        })
    }

    fn unlock_range(&self, offset: u64, len: u64) -> Result<()> {
        self.0.call(Call::UnlockRange, (offset, len), |state, ino, _| {
            state.unlock_range(self.0.desc, ino, lock_range(offset, len)?);
            Ok(())
        })
    }

    fn range_held(&self, offset: u64, len: u64) -> Result<Option<(u64, u64)>> {
        self.0.call(Call::RangeHeld, (offset, len), |state, ino, _| {
            Ok(state.range_held(self.0.desc, ino, lock_range(offset, len)?))
        })
    }

    fn close_in_child(&self) {
        let mut state = self.0.shared.lock();
        if let Some(desc) = state.descs.get_mut(&self.0.desc) {
            desc.close_in_child = true;
        }
    }

    fn map(&self) -> Result<Option<Arc<dyn VfsMap>>> {
        let mapped = self.0.call(Call::Map, (0, 0), |state, ino, step| {
            if !state.maps {
                return Ok(None);
            }
            let len = state.disk.file(ino)?.cache.size();
            if step.stop.is_none() {
                state.keep(ino);
            }
            Ok(Some((ino, len, step.pid)))
        })?;
        let Some((ino, len, owner)) = mapped else { return Ok(None) };
        let (shared, path) = (Arc::clone(&self.0.shared), Arc::clone(&self.0.path));
        Ok(Some(Arc::new(SimMap { shared, ino, len, owner, path })))
    }

    fn ownership(&self) -> Result<Ownership> {
        self.0.ownership()
    }
}

/// A file mapped for reading: shows the page cache, as long as the file was when it was mapped.
#[derive(Debug)]
pub(crate) struct SimMap {
    shared: Arc<Shared>,
    ino: Ino,
    len: u64,
    owner: Pid,
    path: Arc<str>,
}

#[deny(clippy::missing_trait_methods)]
impl VfsMap for SimMap {
    fn map_len(&self) -> u64 {
        self.len
    }

    fn copy_out(&self, buf: &mut [u8], offset: u64) -> bool {
        let len = buf.len() as u64;
        if offset.checked_add(len).is_none_or(|end| end > self.len) {
            return false;
        }
        let site = Site { call: Call::CopyOut, path: Arc::clone(&self.path), offset, len };
        let read = self.shared.call(self.owner, None, site, |state, _| {
            Ok(state.disk.file(self.ino)?.cache.read(offset, buf))
        });
        read.is_ok_and(|done| done as u64 == len)
    }
}

impl Drop for SimMap {
    fn drop(&mut self) {
        self.shared.lock().let_go(self.ino);
    }
}
