//! Locks that processes share: one a session, one an id while it is created, one for the structure of the store.
//!
//! # Invariants
//! G1. The lock is the byte range (docs/format.md section 8); the record in it is for people only.
//! G2. Inside a handle a table decides first: ranges of one open file do not exclude each other.
//! G3. Looking for holders takes no lock, so no writer ever meets a reader's question.
//! G4. A child of `fork(2)` lets go of nothing: its drop touches no lock.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::error::{Error, ErrorKind, Holder, Result};
use crate::format::codec::crc;
use crate::format::lock_record::{CREATOR_LEN, LEN as RECORD_LEN, LockRecord};
use crate::format::name;
use crate::options::{StoreOptions, planted};
use crate::types::{LaneNo, SessionId, SessionNo};
use crate::vfs::{LockKind, OpenHow, Vfs, VfsDir, VfsFile};

/// Distance of two session locks and bytes of each.
const RECORD_BYTES: u64 = RECORD_LEN as u64;
const CREATE_BASE: u64 = 1 << 32;
/// Lock files of home lanes that stay open although no session of theirs is held.
const IDLE_FILES_MAX: usize = 16;
/// Held ranges that are looked for in one lane: a handle holds one a session it writes.
const HELD_RANGES_MAX: usize = 1 << 16;
/// Records of who creates an id: where they begin, how many there are, and their distance.
const CREATORS_AT: u64 = 4_096;
const CREATORS: u64 = 256;
const CREATOR_BYTES: u64 = CREATOR_LEN as u64;

/// The lock files of a store, as one handle uses them.
#[derive(Debug)]
pub(crate) struct Locks {
    vfs: Arc<dyn Vfs>,
    dir: Arc<dyn VfsDir>,
    options: StoreOptions,
    generation: u64,
    files: Mutex<HashMap<LaneNo, Arc<dyn VfsFile>>>,
    held: Mutex<HashSet<SessionNo>>,
    /// Ids that this handle is creating, by their place in the lock file.
    creating: Mutex<HashSet<u64>>,
    store: Mutex<Option<Arc<dyn VfsFile>>>,
}

/// The lock of a session. Dropping it lets go.
#[derive(Debug)]
pub(crate) struct SessionLock {
    locks: Arc<Locks>,
    file: Arc<dyn VfsFile>,
    no: SessionNo,
}

/// The lock of an id while it is created. Dropping it lets go.
#[derive(Debug)]
pub(crate) struct CreateLock {
    locks: Arc<Locks>,
    file: Option<Arc<dyn VfsFile>>,
    at: u64,
}

impl Locks {
    pub(crate) fn new(vfs: Arc<dyn Vfs>, dir: Arc<dyn VfsDir>, options: StoreOptions) -> Arc<Self> {
        let generation = vfs.fork_generation();
        Arc::new(Self {
            vfs,
            dir,
            options,
            generation,
            files: Mutex::default(),
            held: Mutex::default(),
            creating: Mutex::default(),
            store: Mutex::new(None),
        })
    }

    fn is_forked(&self) -> bool {
        self.vfs.fork_generation() != self.generation && !planted!(self.options, ForkedDropUnlocks)
    }

    fn open(&self, file_name: &str) -> Result<Arc<dyn VfsFile>> {
        let open = || self.dir.open(file_name, OpenHow::ReadWrite);
        let file = match open() {
            Err(e) if e.kind() == ErrorKind::NotFound => {
                match self.dir.open(file_name, OpenHow::CreateNew(self.options.access)) {
                    Err(e) if e.kind() == ErrorKind::Exists => open()?,
                    other => other?,
                }
            }
            other => other?,
        };
        if !planted!(self.options, ForkedDropUnlocks) {
            file.close_in_child();
        }
        Ok(file)
    }

    fn session_file(&self, lane: LaneNo) -> Result<Arc<dyn VfsFile>> {
        let mut files = self.files.lock();
        if let Some(f) = files.get(&lane) {
            return Ok(f.clone());
        }
        let file = self.open(&name::session_locks(lane))?;
        if files.len() >= IDLE_FILES_MAX {
            // One that only this table has holds no lock: who holds one, or is about to take one, has the file as well.
            files.retain(|_, f| Arc::strong_count(f) > 1);
        }
        files.insert(lane, file.clone());
        Ok(file)
    }

    /// Tries to take the lock of a session.
    ///
    /// # Errors
    /// `Locked` with what is known of the holder.
    pub(crate) fn session(self: &Arc<Self>, no: SessionNo, lane: LaneNo) -> Result<SessionLock> {
        let file = self.session_file(no.home_lane())?;
        let at = no.counter() * RECORD_BYTES;
        if !self.held.lock().insert(no) {
            return Err(self.locked(&*file, at));
        }
        match file.try_lock_range(at, RECORD_BYTES, LockKind::Exclusive) {
            Ok(true) => {}
            Ok(false) => {
                self.held.lock().remove(&no);
                return Err(self.locked(&*file, at));
            }
            Err(e) => {
                self.held.lock().remove(&no);
                return Err(e);
            }
        }
        let since_ms = self.vfs.now_ms();
        let record = LockRecord { pid: self.vfs.pid(), lane, since_ms }.encode();
        // For people only: a failure to write it changes nothing.
        let _ignored = file.write_at(&record, at);
        Ok(SessionLock { locks: self.clone(), file, no })
    }

    /// Who holds the lock of a session, when anybody does.
    pub(crate) fn holder(&self, no: SessionNo) -> Result<Option<Holder>> {
        let file = self.session_file(no.home_lane())?;
        let at = no.counter() * RECORD_BYTES;
        // Kept over the probe: a lock that another thread takes meanwhile on the same file would be let go by it.
        let held = self.held.lock();
        if held.contains(&no) || !file.try_lock_range(at, RECORD_BYTES, LockKind::Exclusive)? {
            return Ok(Some(holder_at(&*file, at)));
        }
        file.unlock_range(at, RECORD_BYTES)?;
        Ok(None)
    }

    fn locked(&self, file: &dyn VfsFile, at: u64) -> Error {
        Error::new(
            ErrorKind::Locked,
            "another writer holds the session; wait until it is done, or stop it",
        )
        .with_holder(holder_at(file, at))
    }

    /// Whether anyone holds the lock of a session now, this handle included.
    pub(crate) fn is_written(&self, no: SessionNo) -> Result<bool> {
        let file = match self.dir.open(&name::session_locks(no.home_lane()), OpenHow::Read) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(false),
            other => other?,
        };
        Ok(file.range_held(no.counter() * RECORD_BYTES, RECORD_BYTES)?.is_some())
    }

    /// The sessions that a lane created and that anyone holds now, this handle included.
    pub(crate) fn held(&self, home: LaneNo) -> Result<Held> {
        let mut held = Held { file: None, ranges: Vec::new() };
        // Opened anew: through the file that holds them, own locks would not be seen.
        let file = match self.dir.open(&name::session_locks(home), OpenHow::Read) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(held),
            other => other?,
        };
        let mut open = vec![(0, RECORD_BYTES << 48)];
        while let Some((from, end)) = open.pop() {
            if from >= end || held.ranges.len() >= HELD_RANGES_MAX {
                continue;
            }
            let Some((start, stop)) = file.range_held(from, end - from)? else { continue };
            held.ranges.push((start, stop));
            open.extend([(from, start.min(end)), (stop.max(from), end)]);
        }
        held.ranges.sort_unstable();
        held.file = Some(file);
        Ok(held)
    }

    fn store_file(&self) -> Result<Arc<dyn VfsFile>> {
        let mut store = self.store.lock();
        if let Some(f) = &*store {
            return Ok(f.clone());
        }
        let file = self.open(name::STORE_LOCK)?;
        *store = Some(file.clone());
        Ok(file)
    }

    /// Takes the lock on creating an id, for a handle that writes `lane`, waiting for others who create it.
    ///
    /// # Errors
    /// `Locked` with what is known of the holder when the wait was longer than the option allows.
    pub(crate) fn creation(self: &Arc<Self>, id: &SessionId, lane: LaneNo) -> Result<CreateLock> {
        let sum = crc(id.as_bytes());
        let at = CREATE_BASE + u64::from(sum);
        let creator_at = CREATORS_AT + u64::from(sum) % CREATORS * CREATOR_BYTES;
        if planted!(self.options, CreateWithoutLock) {
            return Ok(CreateLock { locks: self.clone(), file: None, at });
        }
        let file = self.store_file()?;
        let until = self.vfs.monotonic_ns() + self.options.lock_wait_ms * 1_000_000;
        loop {
            if self.creating.lock().insert(at) {
                match file.try_lock_range(at, 1, LockKind::Exclusive) {
                    Ok(true) => {
                        let since_ms = self.vfs.now_ms();
                        let record = LockRecord { pid: self.vfs.pid(), lane, since_ms };
                        // For people only: a failure to write it changes nothing.
                        let _ignored = file.write_at(&record.encode_creator(sum), creator_at);
                        return Ok(CreateLock { locks: self.clone(), file: Some(file), at });
                    }
                    Ok(false) => self.creating.lock().remove(&at),
                    Err(e) => {
                        self.creating.lock().remove(&at);
                        return Err(e);
                    }
                };
            }
            if self.vfs.monotonic_ns() >= until {
                let message = "the session id is being created by another; try again, or stop it";
                let locked = Error::new(ErrorKind::Locked, message).with_session(id);
                let mut b = [0; CREATOR_LEN];
                let known = file.read_at(&mut b, creator_at).is_ok_and(|n| n == CREATOR_LEN);
                let record = LockRecord::decode_creator(&b, sum).filter(|_| known);
                return Err(match record {
                    Some(record) => locked.with_holder(holder_of(&record)),
                    None => locked,
                });
            }
            self.vfs.sleep_ms(1);
        }
    }
}

/// Sessions of one home lane that are held, as byte ranges of its lock file.
#[derive(Debug)]
pub(crate) struct Held {
    file: Option<Arc<dyn VfsFile>>,
    ranges: Vec<(u64, u64)>,
}

impl Held {
    /// Who holds a session of that home lane, when anyone does.
    pub(crate) fn holder(&self, no: SessionNo) -> Option<Holder> {
        let at = no.counter() * RECORD_BYTES;
        let before = self.ranges.partition_point(|(start, _)| *start < at + RECORD_BYTES);
        let (_, stop) = self.ranges.get(before.checked_sub(1)?)?;
        (*stop > at)
            .then(|| self.file.as_deref().map_or_else(Holder::default, |f| holder_at(f, at)))
    }

    /// Whether nobody holds any.
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}

fn holder_of(record: &LockRecord) -> Holder {
    Holder { pid: record.pid, lane: record.lane, since_ms: record.since_ms, ..Holder::default() }
}

/// Who the record at an offset names; nobody where there is none.
fn holder_at(file: &dyn VfsFile, at: u64) -> Holder {
    let mut b = [0; RECORD_LEN];
    let known = file.read_at(&mut b, at).is_ok_and(|n| n == RECORD_LEN);
    if known { holder_of(&LockRecord::decode(&b)) } else { Holder::default() }
}

impl Drop for SessionLock {
    fn drop(&mut self) {
        if self.locks.is_forked() {
            return;
        }
        let at = self.no.counter() * RECORD_BYTES;
        // Closing the file lets go as well, so an error here cannot keep the lock for ever.
        let _ignored = self.file.unlock_range(at, RECORD_BYTES);
        self.locks.held.lock().remove(&self.no);
    }
}

impl Drop for CreateLock {
    fn drop(&mut self) {
        if self.locks.is_forked() {
            return;
        }
        if let Some(file) = &self.file {
            let _ignored = file.unlock_range(self.at, 1);
            self.locks.creating.lock().remove(&self.at);
        }
    }
}
