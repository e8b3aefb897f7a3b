//! skeleton

mod error;
mod event;
mod format;
mod index;
mod lane;
pub mod limits;
mod options;
mod recovery;
mod segment;
mod types;
pub mod vfs;

pub use error::{Error, ErrorKind, Holder, Result};
pub use event::{Event, EventRef, NewEvent, SurfaceOp};
#[cfg(feature = "planted")]
pub use options::Planted;
pub use options::{Level, ReadMode, StoreOptions};
pub use recovery::report::{DamagedRange, RecoveryReport};
pub use types::{EventId, LaneNo, SegmentNo, Seq, SessionId, SessionNo};
