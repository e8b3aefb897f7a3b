//! skeleton

pub mod dsh;
mod error;
mod event;
mod json;
pub mod limits;
mod types;
pub mod vfs;

pub use error::{Error, ErrorKind, Holder, Result};
pub use event::{Event, EventRef, NewEvent, SurfaceOp};
pub use types::{EventId, LaneNo, SegmentNo, Seq, SessionId, SessionNo};
