//! A process of the simulated machine: its view of the file systems, the clock and itself.
//!
//! # Units
//! `_ms`: milliseconds. `_ns`: nanoseconds.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use everlog::Result;
use everlog::vfs::{Access, Ownership, Vfs, VfsDir};

use super::disk::{Dir, DiskResult, Ino, Inode, Node, Refusal, code};
use super::fault::Call;
use super::handles::SimDir;
use super::state::{Pid, Shared, Site, State};

/// Unix time at which the first simulated machine is made, in milliseconds.
const EPOCH_MS: i64 = 1_750_000_000_000;

/// A process of a [`SimMachine`](super::SimMachine). Clones are the same process.
#[derive(Clone)]
pub struct SimProcess {
    pub(crate) shared: Arc<Shared>,
    pub(crate) pid: Pid,
    pub(crate) name: Arc<str>,
}

impl fmt::Debug for SimProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} ({})", self.pid, self.name)
    }
}

/// Rights of a new file or folder.
pub(crate) fn owned(access: Access) -> Ownership {
    Ownership { own: true, group_write: access == Access::Group, world: false }
}

/// A path from the root folder, without empty parts.
pub(crate) fn absolute(path: &Path) -> DiskResult<Vec<String>> {
    let text = path.to_str().ok_or(Refusal::Os(code::INVAL))?;
    let parts = text.split('/').filter(|part| !part.is_empty() && *part != ".");
    let parts: Vec<String> = parts.map(str::to_owned).collect();
    if parts.iter().any(|part| part == "..") {
        return Err(Refusal::Os(code::INVAL));
    }
    Ok(parts)
}

pub(crate) fn new_dir(access: Access) -> Inode {
    Inode::new(Node::Dir(Dir::default()), owned(access))
}

impl SimProcess {
    /// Pid of the process this object stands for, whatever the code runs as.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.pid
    }

    /// Name that the test gave the process.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    fn call<T>(
        &self,
        call: Call,
        path: &str,
        run: impl FnOnce(&mut State, Pid, u64) -> DiskResult<T>,
    ) -> Result<(T, Pid)> {
        let site = Site { call, path: Arc::from(path), offset: 0, len: 0 };
        self.shared.call(self.pid, None, site, |state, step| {
            run(state, step.pid, step.stamp).map(|value| (value, step.pid))
        })
    }

    fn open(&self, path: &str) -> Result<Arc<dyn VfsDir>> {
        let (desc, pid) = self.call(Call::OpenRoot, path, |state, pid, _| {
            let ino = state.disk.resolve(path)?;
            state.disk.dir(ino)?;
            Ok(state.open(ino, false, pid))
        })?;
        Ok(Arc::new(SimDir::new(&self.shared, desc, pid, Arc::from(path))))
    }

    fn invalid(&self, path: &Path, refusal: Refusal) -> everlog::Error {
        let path = Arc::from(path.to_string_lossy());
        super::state::error(&Site { call: Call::OpenRoot, path, offset: 0, len: 0 }, refusal)
    }

    /// Makes one folder of a path, and syncs the one above it.
    fn make_dir(&self, above: &str, name: &str, access: Access) -> Result<()> {
        let path = format!("{above}/{name}");
        let resolve = |state: &State| -> DiskResult<Ino> { state.disk.resolve(above) };
        self.call(Call::CreateDir, &path, |state, _, op| {
            let dir = resolve(state)?;
            state.disk.create(op, dir, name, new_dir(access))
        })?;
        self.sync_above(above)
    }

    /// Makes the names in a folder durable.
    fn sync_above(&self, above: &str) -> Result<()> {
        let resolve = |state: &State| -> DiskResult<Ino> { state.disk.resolve(above) };
        let shown = if above.is_empty() { "/" } else { above };
        self.call(Call::SyncDir, shown, |state, _, _| {
            let dir = resolve(state)?;
            state.disk.sync_dir(dir, None)
        })?;
        Ok(())
    }

    /// The state, after the clock went on by one call, and the process that the code runs as.
    fn tick<T>(&self, read: impl FnOnce(&mut State, Pid) -> T) -> T {
        let mut state = self.shared.lock();
        state.ns += 1_000;
        let pid = self.shared.actor(&state, self.pid);
        read(&mut state, pid)
    }
}

#[deny(clippy::missing_trait_methods)]
impl Vfs for SimProcess {
    fn open_root(&self, path: &Path) -> Result<Arc<dyn VfsDir>> {
        let parts = absolute(path).map_err(|refusal| self.invalid(path, refusal))?;
        self.open(&format!("/{}", parts.join("/")))
    }

    fn create_root(&self, path: &Path, access: Access) -> Result<Arc<dyn VfsDir>> {
        let parts = absolute(path).map_err(|refusal| self.invalid(path, refusal))?;
        let mut above = String::new();
        let mut newest = None;
        for name in &parts {
            let path = format!("{above}/{name}");
            if self.shared.lock().disk.resolve(&path).is_ok() {
                newest = Some(std::mem::replace(&mut above, path));
                continue;
            }
            // Who made the folder above may have ended before its name was durable.
            if let Some(above_that) = newest.take() {
                self.sync_above(&above_that)?;
            }
            self.make_dir(&above, name, access)?;
            above = path;
        }
        if let Some(above) = newest {
            self.sync_above(&above)?;
        }
        self.open(&format!("/{}", parts.join("/")))
    }

    fn now_ms(&self) -> i64 {
        self.tick(|state, _| {
            let since = i64::try_from(state.ns / 1_000_000).unwrap_or(i64::MAX / 2);
            EPOCH_MS.saturating_add(since).saturating_add(state.skew_ms)
        })
    }

    fn monotonic_ns(&self) -> u64 {
        self.tick(|state, _| state.ns)
    }

    fn sleep_ms(&self, ms: u64) {
        let (hook, pid, name) = self.tick(|state, pid| {
            state.ns = state.ns.saturating_add(ms.saturating_mul(1_000_000));
            let name = state.procs.get(&pid).map(|proc| Arc::clone(&proc.name));
            (state.on_sleep.take(), pid, name.unwrap_or_default())
        });
        let Some(mut hook) = hook else { return };
        hook(&Self { shared: Arc::clone(&self.shared), pid, name });
        let mut state = self.shared.lock();
        if state.on_sleep.is_none() {
            state.on_sleep = Some(hook);
        }
    }

    fn random_u64(&self) -> u64 {
        self.tick(|state, _| state.rng.next())
    }

    fn boot_id(&self) -> [u8; 16] {
        self.tick(|state, _| state.boot_id)
    }

    fn host(&self) -> String {
        "sim".to_owned()
    }

    fn pid(&self) -> u32 {
        self.tick(|_, pid| pid)
    }

    fn fork_generation(&self) -> u64 {
        self.tick(|state, pid| state.procs.get(&pid).map_or(0, |proc| proc.generation))
    }

    fn has_threads(&self) -> bool {
        false
    }
}
