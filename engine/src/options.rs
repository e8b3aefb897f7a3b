//! Options of a store handle: every default named and bounded.
//!
//! # Units
//! `_bytes`: bytes. `_ms`: milliseconds.

use crate::error::{Error, Result};
use crate::format::columns::Columns;
use crate::limits;
use crate::vfs::Access;

/// How far an append must have come before it counts as done, named by what survives (recovery.md, "What a level
/// survives"). A higher level includes the lower ones.
///
/// ```
/// use everlog::Level;
/// assert!(Level::Buffered < Level::Os && Level::Os < Level::Sync);
/// assert_eq!(Level::Sync.name(), "sync");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Level {
    /// Nothing yet: staged in this process.
    Buffered,
    /// The death of the process: the operating system has the bytes.
    Os,
    /// The death of the machine: the disk has the bytes.
    Sync,
}

impl Level {
    /// Name of the level as the command line spells it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Buffered => "buffered",
            Self::Os => "os",
            Self::Sync => "sync",
        }
    }
}

/// Where reads of single events take their bytes from. Both verify the same checksums.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
/// use everlog::{ReadMode, Store, StoreOptions};
/// let options = StoreOptions::default().with_read_only().with_read_mode(ReadMode::Pread);
/// assert!(Store::open(folder.path().join("s"), options)?.sessions()?.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ReadMode {
    /// Read-only maps: fastest. A segment that another program shortens kills the process with `SIGBUS`; the engine
    /// itself never shortens one.
    #[default]
    Map,
    /// `pread`: no signal, whatever happens to the file.
    Pread,
}

/// Deliberate faults, which the test harnesses must find.
///
/// ```
/// use everlog::{Planted, StoreOptions};
/// let lying = StoreOptions::default().with_planted(Planted::NoSync);
/// assert!(format!("{lying:?}").contains("NoSync"));
/// ```
#[cfg(feature = "planted")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Planted {
    /// Sync does nothing.
    NoSync,
    /// The salt is left out of frame checksums.
    NoSalt,
    /// An append is acked before its bytes are written.
    AckBeforeWrite,
    /// A segment is sealed before it is synced.
    SealBeforeSync,
    /// CONTINUE and FORK are written before the events that they stand on are durable.
    ContinueBeforeSync,
    /// A dead writer's lane is read without recovery.
    DeadLaneNotRecovered,
    /// Creation takes no lock on the id.
    CreateWithoutLock,
    /// A forked child's drop lets go of the parent's locks.
    ForkedDropUnlocks,
    /// A follower goes on in the newest segment although it has not come to the end of the one before.
    FollowSkipsRotation,
    /// The future of a receipt does not look again once its waker is kept.
    WakeLost,
    /// An import publishes its session before the events are there.
    PublishEarly,
    /// What an import sets aside is stored without its text.
    SalvageLosesText,
    /// The end of an event's data is not compared with that of the series that it goes into.
    SuffixUnchecked,
}

/// Options of [`Store::create`](crate::Store::create) and [`Store::open`](crate::Store::open), which check their ranges.
/// They hold for the handle; only access and level are stored, when the store is made.
///
/// ```
/// use everlog::{ErrorKind, Level, ReadMode, Store, StoreOptions, vfs::Access};
/// let options = StoreOptions::default()
///     .with_label("agent 7")
///     .with_level(Level::Sync)
///     .with_access(Access::Group)
///     .with_read_mode(ReadMode::Pread)
///     .with_event_bytes_max(1 << 30)
///     .with_json_depth_max(64)
///     .with_raw_shapes()
///     .with_columns(false)
///     .with_segment_bytes(256 << 10, 1 << 20)
///     .with_sync_delay_ms(50)
///     .with_lock_wait_ms(0)
///     .with_network_fs();
/// assert_eq!(options.label(), "agent 7");
/// # let folder = tempfile::tempdir()?;
/// let store = Store::create(folder.path().join("s"), options.clone())?;
/// assert_eq!(store.info()?.default_level, Level::Sync);
/// let bad = Store::create(folder.path().join("t"), options.with_json_depth_max(0)).unwrap_err();
/// assert_eq!((bad.kind(), bad.field()), (ErrorKind::Invalid, Some("json_depth_max")));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct StoreOptions {
    pub(crate) label: String,
    pub(crate) level: Option<Level>,
    pub(crate) access: Access,
    pub(crate) read_only: bool,
    pub(crate) read_mode: ReadMode,
    pub(crate) event_bytes_max: usize,
    pub(crate) json_depth_max: usize,
    pub(crate) check_shapes: bool,
    pub(crate) columns: bool,
    pub(crate) segment_bytes_first: u64,
    pub(crate) segment_bytes_max: u64,
    pub(crate) sync_delay_ms: u64,
    pub(crate) lock_wait_ms: u64,
    pub(crate) frame_cache_bytes: usize,
    pub(crate) allow_network: bool,
    #[cfg(feature = "planted")]
    pub(crate) planted: Option<Planted>,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            label: String::new(),
            level: None,
            access: Access::Private,
            read_only: false,
            read_mode: ReadMode::Map,
            event_bytes_max: limits::EVENT_BYTES_MAX,
            json_depth_max: limits::JSON_DEPTH_MAX,
            check_shapes: true,
            columns: true,
            segment_bytes_first: limits::SEGMENT_BYTES_FIRST,
            segment_bytes_max: limits::SEGMENT_BYTES_MAX,
            sync_delay_ms: 200,
            lock_wait_ms: 2_000,
            frame_cache_bytes: 8 << 20,
            allow_network: false,
            #[cfg(feature = "planted")]
            planted: None,
        }
    }
}

impl StoreOptions {
    /// Label of this writer, shown to those who find a session locked; cut at 64 bytes.
    #[must_use]
    pub fn with_label(mut self, label: &str) -> Self {
        self.label = crate::format::slot::cut(label, limits::LABEL_BYTES_MAX).to_owned();
        self
    }

    /// The label, as [`StoreOptions::with_label`] cut it.
    #[must_use]
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Level that [`SessionWriter::append`](crate::SessionWriter::append) reaches before it returns. Without this, the store's
    /// own default, which is `os`. At creation `sync` becomes the store's default.
    #[must_use]
    pub fn with_level(mut self, level: Level) -> Self {
        self.level = Some(level);
        self
    }

    /// Permissions of a new store; one that is there keeps its own (format.md section 2). `Private` without this.
    #[must_use]
    pub fn with_access(mut self, access: Access) -> Self {
        self.access = access;
        self
    }

    /// Opens without any lock and writes nothing: every call that would write is refused with kind `ReadOnly`.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
    /// use everlog::{ErrorKind, NewSession, Store, StoreOptions};
    /// let reader = Store::open(folder.path().join("s"), StoreOptions::default().with_read_only())?;
    /// let refused = reader.create_session(&NewSession::new("a")?).map(|_| ()).map_err(|e| e.kind());
    /// assert_eq!(refused, Err(ErrorKind::ReadOnly));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_read_only(mut self) -> Self {
        self.read_only = true;
        self
    }

    /// Where reads of single events take their bytes from; maps without this.
    #[must_use]
    pub fn with_read_mode(mut self, mode: ReadMode) -> Self {
        self.read_mode = mode;
        self
    }

    /// Largest `data` of one event, 1 to 2^30 bytes of JSON text; 48 MiB without this (format.md section 9).
    #[must_use]
    pub fn with_event_bytes_max(mut self, bytes: usize) -> Self {
        self.event_bytes_max = bytes;
        self
    }

    /// Deepest nesting of arrays and objects in `data`, 1 to 1,000,000 levels; 4,096 without this.
    #[must_use]
    pub fn with_json_depth_max(mut self, depth: usize) -> Self {
        self.json_depth_max = depth;
        self
    }

    /// Stores messages whose shape the reference implementation would refuse to load (dsh-spec.md section 2.4).
    #[must_use]
    pub fn with_raw_shapes(mut self) -> Self {
        self.check_shapes = false;
        self
    }

    /// Whether events of one append that are alike, such as stream chunks, are stored as columns (format.md section
    /// 7.1.1): fewer bytes, and the same events. They are without this; readers understand both.
    #[must_use]
    pub fn with_columns(mut self, on: bool) -> Self {
        self.columns = on;
        self
    }

    pub(crate) fn columns(&self) -> Columns {
        #[cfg(feature = "planted")]
        if self.columns && self.is_planted(Planted::SuffixUnchecked) {
            return Columns::Unchecked;
        }
        if self.columns { Columns::On } else { Columns::Off }
    }

    /// Sizes of the first segment of a lane and of the largest, in bytes: one that filled within a minute makes the next twice
    /// as large. 256 KiB <= `first` <= `max` <= 4 GiB; 4 MiB and 64 MiB without this. A batch that needs more gets it.
    #[must_use]
    pub fn with_segment_bytes(mut self, first: u64, max: u64) -> Self {
        self.segment_bytes_first = first;
        self.segment_bytes_max = max;
        self
    }

    /// Longest time that an event which nobody waits for stays unsynced, 1 ms to an hour; 200 ms without this. On a slow
    /// disk it is 20 times the smoothed time of a sync, where that is more (recovery.md, "What a level survives").
    #[must_use]
    pub fn with_sync_delay_ms(mut self, ms: u64) -> Self {
        self.sync_delay_ms = ms;
        self
    }

    /// How long a lock whose holder is just closing, or an id that another creates, is waited for: 0 ms to an hour; 2,000 ms
    /// without this. A lock that a writer holds is not waited for.
    #[must_use]
    pub fn with_lock_wait_ms(mut self, ms: u64) -> Self {
        self.lock_wait_ms = ms;
        self
    }

    /// Allows a store on a network file system, where locks may not hold (format.md section 1). Refused without this.
    #[must_use]
    pub fn with_network_fs(mut self) -> Self {
        self.allow_network = true;
        self
    }

    /// Plants a fault, for a harness that must find it.
    #[cfg(feature = "planted")]
    #[must_use]
    pub fn with_planted(mut self, bug: Planted) -> Self {
        self.planted = Some(bug);
        self
    }

    /// Whether the fault `bug` is planted; a constant `false` without the feature.
    #[cfg(feature = "planted")]
    pub(crate) fn is_planted(&self, bug: Planted) -> bool {
        self.planted == Some(bug)
    }

    pub(crate) fn check(&self) -> Result<()> {
        bound(
            "event_bytes_max",
            self.event_bytes_max as u64,
            1,
            limits::EVENT_BYTES_CEILING as u64,
        )?;
        bound("json_depth_max", self.json_depth_max as u64, 1, 1_000_000)?;
        let (low, high) = (limits::SEGMENT_BYTES_MIN, limits::SEGMENT_BYTES_CEILING);
        bound("segment_bytes_first", self.segment_bytes_first, low, high)?;
        bound("segment_bytes_max", self.segment_bytes_max, self.segment_bytes_first, high)?;
        bound("sync_delay_ms", self.sync_delay_ms, 1, 3_600_000)?;
        bound("lock_wait_ms", self.lock_wait_ms, 0, 3_600_000)
    }
}

fn bound(name: &str, value: u64, low: u64, high: u64) -> Result<()> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    Err(Error::invalid(name, format_args!("{value} is not between {low} and {high}")))
}

/// `planted!(options, Bug)` is whether the fault is planted; `false` in every build without the feature.
#[cfg(feature = "planted")]
macro_rules! planted {
    ($options:expr, $bug:ident) => {
        $options.is_planted($crate::options::Planted::$bug)
    };
}
#[cfg(not(feature = "planted"))]
macro_rules! planted {
    ($options:expr, $bug:ident) => {{
        let _ = &$options;
        false
    }};
}
pub(crate) use planted;
