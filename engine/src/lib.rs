//! skeleton

mod accept;
mod check;
pub mod dsh;
mod error;
mod event;
mod export;
mod format;
mod import;
mod index;
mod json;
mod lane;
pub mod limits;
mod locks;
mod options;
mod recovery;
mod segment;
mod session;
mod store;
mod surface;
mod types;
pub mod vfs;

pub use accept::HeaderView;
pub use check::{CheckOptions, CheckReport, Damage};
pub use error::{Error, ErrorKind, Holder, Result};
pub use event::{Event, EventRef, NewEvent, SurfaceOp};
pub use import::{ImportOptions, ImportReport, ImportWarning};
#[cfg(feature = "planted")]
pub use options::Planted;
pub use options::{Level, ReadMode, StoreOptions};
pub use recovery::report::{DamagedRange, RecoveryReport};
pub use session::{Events, NewSession, Receipt, Session, SessionInfo, SessionWriter};
pub use store::{Store, StoreInfo};
pub use surface::{Surface, SurfacePlan, SurfaceRefusal};
pub use types::{EventId, LaneNo, SegmentNo, Seq, SessionId, SessionNo};
