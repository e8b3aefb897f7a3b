//! The store: a folder of lanes, opened by many processes at once.
//!
//! # Invariants
//! St1. A handle writes one lane; it takes it when it first needs one.
//! St2. A handle made before `fork(2)` refuses every call in the child, before it takes any mutex.
//! St3. Reading takes no lock that another process could wait for.

mod create;
mod cursor;
mod fork;
mod given;
mod handle;
mod held;
mod info;
mod lanes;
mod open;
mod session_cursors;
mod subscribe;
mod take_over;
mod track;

use std::path::Path;
use std::sync::Arc;

use crate::error::Result;
use crate::handle::StoreInner;
use crate::options::StoreOptions;
use crate::vfs::{OsVfs, Vfs};

pub use cursor::Cursor;
pub use fork::ForkOptions;
pub use given::StoreEvent;
pub use held::HeldSession;
pub use info::StoreInfo;
pub use session_cursors::SessionCursors;
pub use subscribe::Subscription;

/// An open store. Cloning gives another handle on the same open store; the last one dropped closes it.
///
/// ```
/// use everlog::{Level, NewEvent, NewSession, Store, StoreOptions};
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("store");
/// let store = Store::create(&path, StoreOptions::default())?;
/// let mut writer = store.create_session(&NewSession::new("agent-7")?)?;
/// let receipt = writer.append(&NewEvent::new("turn/start", br#"{"turn":1}"#))?;
/// receipt.wait(Level::Sync)?;
/// assert_eq!(store.session(writer.id())?.read(0)?.data[..], br#"{"turn":1}"#[..]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) inner: Arc<StoreInner>,
}

impl Store {
    /// Makes a store at a path, with the folders above it where they are missing, and opens it. Of several makers one
    /// wins.
    ///
    /// # Errors
    /// `Exists` when there is a store, `Invalid` for an option out of range, `StorageFull`, `Io`.
    ///
    /// # Durability
    /// The store survives the machine when this returns. A crash before leaves no store or a whole one.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// use everlog::{ErrorKind, Store, StoreOptions};
    /// let path = folder.path().join("s");
    /// Store::create(&path, StoreOptions::default())?;
    /// let again = Store::create(&path, StoreOptions::default());
    /// assert_eq!(again.map(|_| ()).map_err(|e| e.kind()), Err(ErrorKind::Exists));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn create(path: impl AsRef<Path>, options: StoreOptions) -> Result<Self> {
        Self::create_on(OsVfs::shared(), path.as_ref(), options)
    }

    /// Opens a store: reads what all its lanes hold. Writes nothing, and takes no lock; the first write does.
    ///
    /// # Errors
    /// `NotFound` when there is none, `Unsupported` when a newer version wrote it, `InsecurePermissions` when others may
    /// write to it, `Corrupt` when its STORE file is damaged, `Invalid` for an option out of range, `Io`.
    ///
    /// ```
    /// use everlog::{ErrorKind, Store, StoreOptions};
    /// let none = Store::open("/nowhere/at/all", StoreOptions::default());
    /// assert_eq!(none.map(|_| ()).map_err(|e| e.kind()), Err(ErrorKind::NotFound));
    /// ```
    pub fn open(path: impl AsRef<Path>, options: StoreOptions) -> Result<Self> {
        Self::open_on(OsVfs::shared(), path.as_ref(), options)
    }

    /// [`Store::create`] on another disk: a simulated one, in tests.
    ///
    /// # Errors
    /// As [`Store::create`], and what the disk gives.
    ///
    /// # Durability
    /// As [`Store::create`], as far as the disk keeps the rules of [`crate::vfs`].
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// use everlog::{Store, StoreOptions, vfs::OsVfs};
    /// let disk = std::sync::Arc::new(OsVfs::new());
    /// let path = folder.path().join("s");
    /// let store = Store::create_on(disk.clone(), &path, StoreOptions::default())?;
    /// assert_eq!(Store::open_on(disk, &path, StoreOptions::default())?.id(), store.id());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn create_on(vfs: Arc<dyn Vfs>, path: &Path, options: StoreOptions) -> Result<Self> {
        options.check()?;
        create::make(&*vfs, path, &options)?;
        Self::open_on(vfs, path, options)
    }

    /// [`Store::open`] on another disk: a simulated one, in tests. [`Store::create_on`] has an example.
    ///
    /// # Errors
    /// As [`Store::open`], and what the disk gives.
    pub fn open_on(vfs: Arc<dyn Vfs>, path: &Path, options: StoreOptions) -> Result<Self> {
        options.check()?;
        Ok(Self { inner: open::open(vfs, path, options)? })
    }
}
