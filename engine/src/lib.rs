//! skeleton

mod accept;
pub mod dsh;
mod error;
mod event;
mod json;
pub mod limits;
mod surface;
mod types;
pub mod vfs;

pub use accept::HeaderView;
pub use error::{Error, ErrorKind, Holder, Result};
pub use event::{Event, EventRef, NewEvent, SurfaceOp};
pub use surface::{Surface, SurfacePlan, SurfaceRefusal};
pub use types::{EventId, LaneNo, SegmentNo, Seq, SessionId, SessionNo};
