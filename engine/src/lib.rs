//! Everlog: an embedded, crash-safe event store for agent sessions.
//!
//! A *store* is a folder. A *session* in it is an append-only list of events, each with exact JSON `data`. Many processes
//! write one store at once, each into a *lane* of its own; a session has one writer at a time. An append says what it
//! survives: nothing yet ([`Level::Buffered`]), the process ([`Level::Os`]), or the machine ([`Level::Sync`]).
//!
//! ```
//! use everlog::{Level, NewEvent, NewSession, Store, StoreOptions};
//!
//! let folder = tempfile::tempdir()?;
//! let store = Store::create(folder.path().join("store"), StoreOptions::default())?;
//! let mut writer = store.create_session(&NewSession::new("agent-7")?)?;
//! let events = [
//!     NewEvent::new("turn/start", br#"{"turn":1}"#),
//!     NewEvent::new("turn/end", br#"{"turn":1,"reason":{"kind":"completed"}}"#),
//! ];
//! writer.append_batch(&events, Level::Sync)?;
//! for event in store.session(writer.id())?.iter() {
//!     let event = event?;
//!     println!("{} {}", event.seq, String::from_utf8_lossy(&event.data));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Session::follow`] and [`Store::subscribe`] read on while this process and others write; [`Receipt`] is also a future.
//!
//! The format is specified in `docs/format.md`, what recovery does in `docs/recovery.md`.

mod accept;
mod check;
pub mod data;
pub mod dsh;
mod error;
mod event;
mod export;
mod format;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod handle;
mod import;
mod index;
mod json;
mod lane;
pub mod limits;
mod locks;
mod model;
mod options;
mod recovery;
mod segment;
mod session;
mod store;
mod surface;
mod sys;
mod types;
pub mod vfs;

pub use accept::HeaderView;
pub use check::{CheckOptions, CheckReport, Damage};
pub use error::{Error, ErrorKind, Holder, Result};
pub use event::{Event, EventRef, NewEvent, SurfaceOp};
pub use import::{ImportOptions, ImportReport, ImportWarning};
pub use model::{ContextFigures, History, Stats, TokenTotals};
#[cfg(feature = "planted")]
pub use options::Planted;
pub use options::{Level, ReadMode, StoreOptions};
pub use recovery::report::{DamagedRange, RecoveryReport};
pub use session::{
    Events, Follow, FollowOptions, Landmark, LandmarkKind, NewSession, PreparedBatch, Receipt,
    ReceiptFuture, Replacement, Resumption, Session, SessionInfo, SessionStats, SessionView,
    SessionWriter, UnknownCall, ViewOptions,
};
pub use store::{
    Cursor, ForkOptions, HeldSession, SessionCursors, Store, StoreEvent, StoreInfo, Subscription,
};
pub use surface::{Surface, SurfacePlan, SurfaceRefusal};
pub use types::{EventId, LaneNo, SegmentNo, Seq, SessionId, SessionNo};

/// The page of the repository: its examples run with the others.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
