//! The disk below: the only door to files, locks, the clock and the process.
//!
//! Everything the engine does to the outside goes through [`Vfs`], [`VfsDir`] and [`VfsFile`], so that tests can see,
//! drop, tear, reorder and fail every call. [`OsVfs`] is the real one.
//!
//! # Invariants
//! D1. A name is one path component: all below a folder is reached from its handle, never through a symbolic link.
//! D2. Bytes written by `write_at` are visible to every later `read_at` and map of any process at once, and survive
//!     the death of the process. They survive the machine only after `sync_data` of that file returned `Ok`.
//! D3. Unsynced bytes may reach the disk in any order, in part, or not at all, in units as small as one byte; synced
//!     bytes beside them stay as they are (power-safe overwrite).
//! D4. A name made, linked or removed survives the machine only after `sync` of its folder returned `Ok`. The size
//!     and the allocation of a file are durable after `sync_data` of the file.
//! D5. After `sync_data` returned an error, nothing is known about the bytes that it covered; another `sync_data` on
//!     the same file proves nothing.
//! D6. No call of this module retries a failed write or sync. `EINTR` and short transfers are completed inside.
//!
//! # Units
//! `offset`, `len`: bytes. `_ms`: milliseconds.

use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

use crate::error::Result;

pub(crate) mod os;
pub(crate) mod shut;
pub use os::OsVfs;

/// Permissions of a new file or folder.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// use everlog::{Store, StoreOptions, vfs::Access};
/// let shared = StoreOptions::default().with_access(Access::Group);
/// Store::create(folder.path().join("s"), shared)?;
/// assert_eq!(Access::default(), Access::Private);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Access {
    /// Only the user: folders 0700, files 0600.
    #[default]
    Private,
    /// The user and the group: folders 0770, files 0660.
    Group,
}

/// How a file is opened.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// use everlog::vfs::{Access, OpenHow, OsVfs, Vfs};
/// let root = OsVfs::new().create_root(&folder.path().join("r"), Access::Private)?;
/// let new = OpenHow::CreateNew(Access::Private);
/// root.open("f", new)?;
/// assert_eq!(root.open("f", new).unwrap_err().kind(), everlog::ErrorKind::Exists);
/// assert_eq!(root.open("f", OpenHow::Read)?.len()?, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenHow {
    /// An existing file, to read.
    Read,
    /// An existing file, to read and write.
    ReadWrite,
    /// A new file, to read and write: fails with kind `Exists` when the name is taken.
    CreateNew(Access),
}

/// What kind of lock is asked for on a range.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// use everlog::vfs::{Access, OpenHow, OsVfs, Vfs};
/// let root = OsVfs::new().create_root(&folder.path().join("r"), Access::Private)?;
/// use everlog::vfs::LockKind;
/// let one = root.open("f", OpenHow::CreateNew(Access::Private))?;
/// let two = root.open("f", OpenHow::ReadWrite)?;
/// assert!(one.try_lock_range(0, 8, LockKind::Shared)?);
/// assert!(two.try_lock_range(0, 8, LockKind::Shared)?);
/// assert!(!two.try_lock_range(0, 8, LockKind::Exclusive)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockKind {
    /// Many holders at once, none of them exclusive.
    Shared,
    /// One holder.
    Exclusive,
}

/// What a name in a folder stands for.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// use everlog::vfs::{Access, OpenHow, OsVfs, Vfs};
/// let root = OsVfs::new().create_root(&folder.path().join("r"), Access::Private)?;
/// use everlog::vfs::EntryKind;
/// root.create_dir("d", Access::Private)?;
/// assert_eq!(root.list()?[0].kind, EntryKind::Dir);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A folder.
    Dir,
    /// A symbolic link, device, pipe or socket: never opened.
    Other,
}

/// One name in a folder.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// use everlog::vfs::{Access, OpenHow, OsVfs, Vfs};
/// let root = OsVfs::new().create_root(&folder.path().join("r"), Access::Private)?;
/// root.open("f", OpenHow::CreateNew(Access::Private))?;
/// let names: Vec<Vec<u8>> = root.list()?.into_iter().map(|entry| entry.name).collect();
/// assert_eq!(names, [b"f"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirEntry {
    /// The name, as bytes of the file system.
    pub name: Vec<u8>,
    /// What it stands for.
    pub kind: EntryKind,
}

/// Room on the file system that holds a folder.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// use everlog::vfs::{Access, OpenHow, OsVfs, Vfs};
/// let root = OsVfs::new().create_root(&folder.path().join("r"), Access::Private)?;
/// let space = root.space()?;
/// assert!(space.free_bytes <= space.total_bytes);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Space {
    /// Bytes that this user can still allocate.
    pub free_bytes: u64,
    /// Bytes in all.
    pub total_bytes: u64,
}

/// Who may open a file or folder, as far as the engine cares.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// use everlog::vfs::{Access, OpenHow, OsVfs, Vfs};
/// let root = OsVfs::new().create_root(&folder.path().join("r"), Access::Private)?;
/// let who = root.ownership()?;
/// assert!(who.own && !who.group_write && !who.world);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ownership {
    /// Whether this process's user owns it.
    pub own: bool,
    /// Whether the group may write.
    pub group_write: bool,
    /// Whether all users may write.
    pub world: bool,
}

/// The machine and its file systems, as one process sees them.
///
/// ```
/// use everlog::vfs::{OsVfs, Vfs};
/// let machine = OsVfs::new();
/// let before = machine.monotonic_ns();
/// machine.sleep_ms(1);
/// assert!(machine.monotonic_ns() - before >= 1_000_000);
/// assert_eq!(machine.boot_id(), OsVfs::new().boot_id());
/// assert_ne!(machine.random_u64(), machine.random_u64());
/// assert!(machine.open_root("/nowhere/at/all".as_ref()).is_err());
/// ```
pub trait Vfs: Debug + Send + Sync {
    /// Opens an existing folder by path.
    ///
    /// # Errors
    /// `NotFound` when there is none, `Io` otherwise.
    fn open_root(&self, path: &Path) -> Result<Arc<dyn VfsDir>>;

    /// Makes a folder by path, with the folders above it where they are missing, and opens it. An existing folder is
    /// opened as it is. The new name and those above it are synced before this returns.
    ///
    /// # Durability
    /// The folder and the names made on the way survive the machine when this returns.
    ///
    /// # Errors
    /// `Io`, `StorageFull`.
    fn create_root(&self, path: &Path, access: Access) -> Result<Arc<dyn VfsDir>>;

    /// Wall clock, in Unix milliseconds. May step back.
    fn now_ms(&self) -> i64;

    /// Clock for durations, in nanoseconds from an arbitrary start. Never steps back.
    fn monotonic_ns(&self) -> u64;

    /// Waits. A simulated machine lets the other processes run meanwhile.
    fn sleep_ms(&self, ms: u64);

    /// 64 random bits, not guessable from outside the process.
    fn random_u64(&self) -> u64;

    /// Id of this boot of the machine: equal for two processes exactly when the page cache they write to is the same.
    fn boot_id(&self) -> [u8; 16];

    /// Name of the host, for people.
    fn host(&self) -> String;

    /// Id of this process, for people.
    fn pid(&self) -> u32;

    /// Number that changes in a child of `fork(2)`: handles made before the fork refuse to work after it.
    fn fork_generation(&self) -> u64;

    /// Whether background threads may be started. A simulated machine says no and calls the upkeep itself.
    fn has_threads(&self) -> bool;
}

/// An open folder. Names are single components: no separator, not `.` or `..`, not empty.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// use everlog::vfs::{Access, OpenHow, OsVfs, Vfs};
/// let root = OsVfs::new().create_root(&folder.path().join("r"), Access::Private)?;
/// root.create_dir("d", Access::Private)?;
/// let file = root.open("d.tmp", OpenHow::CreateNew(Access::Private))?;
/// file.write_at(b"whole", 0)?;
/// file.sync_data()?;
/// root.link("d.tmp", "f")?;
/// root.remove("d.tmp")?;
/// root.remove_dir("d")?;
/// root.sync()?; // from here on the name `f` survives the machine
/// assert_eq!(root.list()?.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait VfsDir: Debug + Send + Sync {
    /// Makes a folder of that name.
    ///
    /// # Durability
    /// The name survives the machine after [`VfsDir::sync`] of this folder.
    ///
    /// # Errors
    /// `Exists` when the name is taken, `StorageFull`, `Io`.
    fn create_dir(&self, name: &str, access: Access) -> Result<()>;

    /// Opens a folder of that name, refusing symbolic links.
    ///
    /// # Errors
    /// `NotFound`, `Io`.
    fn open_dir(&self, name: &str) -> Result<Arc<dyn VfsDir>>;

    /// Opens or makes a regular file of that name, refusing symbolic links and everything that is no regular file. A
    /// file opened for writing has exactly one name. A new file is empty; its name is durable after [`VfsDir::sync`].
    ///
    /// # Durability
    /// A new name survives the machine after [`VfsDir::sync`] of this folder.
    ///
    /// # Errors
    /// `NotFound`, `Exists`, `StorageFull`, `InsecurePermissions` (no regular file, or more than one name), `Io`.
    fn open(&self, name: &str, how: OpenHow) -> Result<Arc<dyn VfsFile>>;

    /// Gives the file `from` the second name `to` in the same folder, atomically: one of many racing callers wins.
    ///
    /// # Durability
    /// The new name survives the machine after [`VfsDir::sync`]; until then both names may be found, or one.
    ///
    /// # Errors
    /// `Exists` when `to` is taken, `NotFound`, `Io`.
    fn link(&self, from: &str, to: &str) -> Result<()>;

    /// Removes the name of a file. Open handles and maps go on working.
    ///
    /// # Durability
    /// The name may come back until [`VfsDir::sync`] returned.
    ///
    /// # Errors
    /// `NotFound`, `Io`.
    fn remove(&self, name: &str) -> Result<()>;

    /// Removes an empty folder of that name.
    ///
    /// # Durability
    /// The name may come back until [`VfsDir::sync`] returned.
    ///
    /// # Errors
    /// `NotFound`, `Io`.
    fn remove_dir(&self, name: &str) -> Result<()>;

    /// All names but `.` and `..`, in no particular order.
    ///
    /// # Errors
    /// `Io`.
    fn list(&self) -> Result<Vec<DirEntry>>;

    /// Makes the names of this folder durable.
    ///
    /// # Durability
    /// All names made, linked and removed before survive the machine when this returns (D4).
    ///
    /// # Errors
    /// `Io`.
    fn sync(&self) -> Result<()>;

    /// Room on this file system.
    ///
    /// # Errors
    /// `Io`.
    fn space(&self) -> Result<Space>;

    /// Whether the folder is on a network file system, where locks cannot be trusted.
    ///
    /// # Errors
    /// `Io`.
    fn is_network(&self) -> Result<bool>;

    /// Who may use the folder.
    ///
    /// # Errors
    /// `Io`.
    fn ownership(&self) -> Result<Ownership>;
}

/// An open file. Dropping the last handle closes it, which lets go of its locks in this process.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// use everlog::vfs::{Access, OpenHow, OsVfs, Vfs};
/// let root = OsVfs::new().create_root(&folder.path().join("r"), Access::Private)?;
/// let file = root.open("f", OpenHow::CreateNew(Access::Private))?;
/// file.allocate(4096)?;
/// file.write_at(b"event", 8)?;
/// file.sync_data()?;
/// let mut buf = [1; 4];
/// assert_eq!((file.read_at(&mut buf, 7)?, &buf, file.len()?), (4, b"\0eve", 4096));
/// assert!(file.try_lock()? && !root.open("f", OpenHow::ReadWrite)?.try_lock()?);
/// file.unlock()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[expect(clippy::len_without_is_empty, reason = "a size in bytes, not a collection")]
pub trait VfsFile: Debug + Send + Sync {
    /// Reads up to `buf.len()` bytes at `offset`; fewer only at the end of the file.
    ///
    /// # Errors
    /// `Io`. Never a torn or partial result on error: the buffer is then undefined.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize>;

    /// Writes all of `buf` at `offset`. Atomic neither against a crash nor against readers.
    ///
    /// # Durability
    /// The bytes survive the process when this returns, the machine after [`VfsFile::sync_data`] (D2, D3).
    ///
    /// # Errors
    /// `StorageFull`, `Io`. Any part of the bytes may have been written.
    fn write_at(&self, buf: &[u8], offset: u64) -> Result<()>;

    /// Makes all bytes written so far, and the size, durable.
    ///
    /// # Durability
    /// All bytes written before, and the size, survive the machine when this returns (D2, D4).
    ///
    /// # Errors
    /// `Io`: see D5.
    fn sync_data(&self) -> Result<()>;

    /// Size in bytes.
    ///
    /// # Errors
    /// `Io`.
    fn len(&self) -> Result<u64>;

    /// Where bytes that may not be zero begin, at `offset` or behind it: `None` when all up to the end are zero because
    /// nothing was ever written there. A disk that does not know says `offset`.
    ///
    /// # Errors
    /// `Io`.
    fn next_data(&self, offset: u64) -> Result<Option<u64>> {
        Ok(Some(offset))
    }

    /// Allocates `[0, len)` and makes the file that long, new bytes reading as zero. When it returns `Ok`, writes
    /// inside the range do not fail for lack of room, where the file system can promise that.
    ///
    /// # Durability
    /// Size and room survive the machine after [`VfsFile::sync_data`] (D4).
    ///
    /// # Errors
    /// `StorageFull` with the file's size unchanged, `Io`.
    fn allocate(&self, len: u64) -> Result<()>;

    /// Gives back the room of `[offset, offset + len)`, which then reads as zero; the size stays. A file system that
    /// cannot do it leaves the bytes as they are and returns `Ok`, so this is only for bytes that no one reads.
    ///
    /// # Durability
    /// Until [`VfsFile::sync_data`] returned, a crash may leave any part of the range as it was.
    ///
    /// # Errors
    /// `Io`.
    fn punch(&self, offset: u64, len: u64) -> Result<()>;

    /// Takes away the right to write (mode 0400 or 0440), for sealed files. Open handles go on.
    ///
    /// # Durability
    /// None that can be counted on: no rule of the engine stands on the mode.
    ///
    /// # Errors
    /// `Io`.
    fn set_read_only(&self) -> Result<()>;

    /// Tries to take the whole-file lock (`flock`, exclusive) without waiting; `false` when another handle has it.
    /// Belongs to the open file, so a child of `fork(2)` shares it.
    ///
    /// # Errors
    /// `Io`.
    fn try_lock(&self) -> Result<bool>;

    /// Lets go of the whole-file lock, for every process that shares this open file.
    ///
    /// # Errors
    /// `Io`.
    fn unlock(&self) -> Result<()>;

    /// Tries to lock a range (an open-file-description lock) without waiting; `false` when another handle holds a
    /// lock that excludes it. Independent of [`VfsFile::try_lock`].
    ///
    /// # Errors
    /// `Io`.
    fn try_lock_range(&self, offset: u64, len: u64, kind: LockKind) -> Result<bool>;

    /// Lets go of a range, for every process that shares this open file.
    ///
    /// # Errors
    /// `Io`.
    fn unlock_range(&self, offset: u64, len: u64) -> Result<()>;

    /// A part of a range on which another handle holds a lock, as first byte and end; `None` when there is none. Takes
    /// no lock, so nobody who tries to take one meets it; the handle may be open for reading only.
    ///
    /// # Errors
    /// `Io`.
    fn range_held(&self, offset: u64, len: u64) -> Result<Option<(u64, u64)>>;

    /// Says that this handle holds locks, so that a child of `fork(2)` must close it at once and not keep them.
    fn close_in_child(&self);

    /// Maps the whole file for reading, or `None` where that cannot be had; the caller then uses `read_at`.
    ///
    /// # Errors
    /// `Io`.
    fn map(&self) -> Result<Option<Arc<dyn VfsMap>>>;

    /// Who may use the file.
    ///
    /// # Errors
    /// `Io`.
    fn ownership(&self) -> Result<Ownership>;
}

/// A file mapped for reading. Bytes are only ever copied out: another process may be writing them.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// use everlog::vfs::{Access, OpenHow, OsVfs, Vfs};
/// let root = OsVfs::new().create_root(&folder.path().join("r"), Access::Private)?;
/// let file = root.open("f", OpenHow::CreateNew(Access::Private))?;
/// file.write_at(b"event", 0)?;
/// if let Some(map) = file.map()? {
///     let mut buf = [0; 3];
///     assert!(map.copy_out(&mut buf, 2) && buf == *b"ent");
///     assert!(map.map_len() == 5 && !map.copy_out(&mut buf, 3));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait VfsMap: Debug + Send + Sync {
    /// Length of the map in bytes.
    fn map_len(&self) -> u64;

    /// Copies `buf.len()` bytes from `offset`, or returns `false`, with `buf` undefined, when they are not all inside
    /// the map.
    fn copy_out(&self, buf: &mut [u8], offset: u64) -> bool;
}
