//! What a test can ask to go wrong, the names of the calls, and the record of what was called.
//!
//! # Invariants
//! F1. A fault hits the k-th matching call since it was planned, and with `sticky` every matching call after it.
//! F2. A call that a crash or kill interrupts is recorded with its error; calls refused afterwards are not recorded.
//!
//! # Units
//! `offset`, `len`: bytes. `op`: number of the call, from 1.

use std::fmt;
use std::sync::Arc;

use everlog::ErrorKind;

use super::process::SimProcess;

/// A call of the disk below.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
#[allow(missing_docs, reason = "each is named after the method that it stands for")]
pub enum Call {
    OpenRoot,
    CreateDir,
    OpenDir,
    /// `open` of an existing file.
    Open,
    /// `open` with `CreateNew`.
    Create,
    Link,
    Remove,
    RemoveDir,
    List,
    SyncDir,
    Space,
    Ownership,
    Read,
    Write,
    SyncData,
    Len,
    Allocate,
    Punch,
    SetReadOnly,
    TryLock,
    Unlock,
    TryLockRange,
    UnlockRange,
    RangeHeld,
    Map,
    /// `copy_out` of a map.
    CopyOut,
}

impl Call {
    /// The calls that change the disk or a lock. They always have a number.
    pub const MUTATING: [Self; 15] = [
        Self::CreateDir,
        Self::Create,
        Self::Link,
        Self::Remove,
        Self::RemoveDir,
        Self::SyncDir,
        Self::Write,
        Self::SyncData,
        Self::Allocate,
        Self::Punch,
        Self::SetReadOnly,
        Self::TryLock,
        Self::Unlock,
        Self::TryLockRange,
        Self::UnlockRange,
    ];

    /// Whether the call changes the disk or a lock.
    #[must_use]
    pub fn is_mutating(self) -> bool {
        Self::MUTATING.contains(&self)
    }
}

/// One call that was made.
#[derive(Clone, PartialEq, Eq)]
pub struct OpRecord {
    /// Its number. Calls without one, that is reading calls while these are not counted, are not recorded.
    pub op: u64,
    /// Name of the process.
    pub process: Arc<str>,
    /// What was called.
    pub call: Call,
    /// Full path of the file or folder. For a link, the new name.
    pub path: Arc<str>,
    /// First byte concerned, or 0.
    pub offset: u64,
    /// Bytes concerned, or 0.
    pub len: u64,
    /// How it ended. `false` of a lock call counts as success.
    pub result: Result<(), ErrorKind>,
}

impl fmt::Debug for OpRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { op, process, call, path, offset, len, result } = self;
        write!(f, "{op} {process} {call:?} {path} {offset}+{len}")?;
        result.map_or_else(|kind| write!(f, " {}", kind.name()), |()| Ok(()))
    }
}

/// The error of an injected fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultError {
    /// EIO.
    Io,
    /// ENOSPC.
    NoSpace,
    /// EDQUOT.
    Quota,
}

impl FaultError {
    pub(crate) fn code(self) -> i32 {
        match self {
            Self::Io => super::disk::code::IO,
            Self::NoSpace => super::disk::code::NOSPC,
            Self::Quota => super::disk::code::DQUOT,
        }
    }
}

/// Which calls fail, and how.
///
/// A failed `sync_data` leaves the file's unsynced bytes clean in the page cache and not on the disk, so that a later
/// sync succeeds without making them durable.
///
/// ```
/// use everlog_testkit::sim::{Call, FaultError, FaultPlan, SimMachine};
///
/// let machine = SimMachine::new(1);
/// let fault = machine.fail(FaultPlan::new(&[Call::SyncData], 2, FaultError::Io).sticky());
/// assert_eq!(machine.fault_hits(fault), 0);
/// ```
#[derive(Clone, Debug)]
pub struct FaultPlan {
    /// Calls that count and fail; none means all that change something.
    pub calls: Vec<Call>,
    /// Which of them fails, from 1.
    pub kth: u64,
    /// With what.
    pub error: FaultError,
    /// Whether all later ones fail as well.
    pub sticky: bool,
    /// Whether a part of the call happened: a prefix of a write, some of the sectors or names of a sync, the room but
    /// not the size of an allocation, any other change by chance.
    pub partial: bool,
    /// Pid of the only process whose calls count.
    pub pid: Option<u32>,
    /// Text that the path must contain.
    pub path: Option<String>,
}

impl FaultPlan {
    /// The `kth` call of these fails once, without effect.
    #[must_use]
    pub fn new(calls: &[Call], kth: u64, error: FaultError) -> Self {
        let calls = calls.to_vec();
        Self { calls, kth, error, sticky: false, partial: false, pid: None, path: None }
    }

    /// All later ones fail as well.
    #[must_use]
    pub fn sticky(mut self) -> Self {
        self.sticky = true;
        self
    }

    /// A part of the failing call happens.
    #[must_use]
    pub fn partial(mut self) -> Self {
        self.partial = true;
        self
    }

    /// Only calls of this process count.
    #[must_use]
    pub fn only(mut self, process: &SimProcess) -> Self {
        self.pid = Some(process.id());
        self
    }

    /// Only calls on paths that contain this text count.
    #[must_use]
    pub fn on_path(mut self, text: &str) -> Self {
        self.path = Some(text.to_owned());
        self
    }

    fn matches(&self, call: Call, pid: u32, path: &str) -> bool {
        let called =
            if self.calls.is_empty() { call.is_mutating() } else { self.calls.contains(&call) };
        called
            && self.pid.is_none_or(|only| only == pid)
            && self.path.as_ref().is_none_or(|text| path.contains(text.as_str()))
    }
}

/// A planned fault, to ask about it later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FaultId(pub(crate) usize);

#[derive(Debug, Default)]
pub(crate) struct Faults(Vec<Fault>);

#[derive(Debug)]
struct Fault {
    plan: FaultPlan,
    seen: u64,
    hits: u64,
    active: bool,
}

/// The fault that hits a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hit {
    pub(crate) error: FaultError,
    pub(crate) partial: bool,
}

impl Faults {
    pub(crate) fn add(&mut self, plan: FaultPlan) -> FaultId {
        self.0.push(Fault { plan, seen: 0, hits: 0, active: true });
        FaultId(self.0.len() - 1)
    }

    pub(crate) fn clear(&mut self) {
        for fault in &mut self.0 {
            fault.active = false;
        }
    }

    pub(crate) fn hits(&self, id: FaultId) -> u64 {
        self.0.get(id.0).map_or(0, |fault| fault.hits)
    }

    pub(crate) fn seen(&self, id: FaultId) -> u64 {
        self.0.get(id.0).map_or(0, |fault| fault.seen)
    }

    /// Counts a call with every fault; the first that hits decides.
    pub(crate) fn hit(&mut self, call: Call, pid: u32, path: &str) -> Option<Hit> {
        let mut hit = None;
        for fault in self.0.iter_mut().filter(|f| f.active && f.plan.matches(call, pid, path)) {
            fault.seen += 1;
            let due =
                fault.seen == fault.plan.kth || (fault.plan.sticky && fault.seen > fault.plan.kth);
            if due && hit.is_none() {
                fault.hits += 1;
                hit = Some(Hit { error: fault.plan.error, partial: fault.plan.partial });
            }
        }
        hit
    }
}
