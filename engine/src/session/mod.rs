//! A session: reading its events, and appending to it under its lock.
//!
//! # Invariants
//! Se1. A refused append leaves the log, the surface and the next seq as they were.
//! Se2. What a reader is given verified: both checksums of its frame held when it was copied out.
//! Se3. Iteration loads one frame at a time, in either direction.

mod events;
mod figures;
mod fold;
pub(crate) mod follow;
mod new;
mod prepared;
mod promise;
mod read;
mod receipt;
mod resume;
mod structure;
mod view;
mod write;

pub use events::Events;
pub use figures::SessionStats;
pub use follow::{Follow, FollowOptions};
pub use new::{NewSession, SessionInfo};
pub use prepared::PreparedBatch;
pub use promise::ReceiptFuture;
pub use read::Session;
pub use receipt::Receipt;
pub use resume::{Resumption, UnknownCall};
pub use structure::{Landmark, LandmarkKind};
pub use view::{Replacement, SessionView, ViewOptions};
pub use write::SessionWriter;
