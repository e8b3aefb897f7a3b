//! One segment file: its header, reading single frames, and the walk over all of them.

pub(crate) mod file;
pub(crate) mod kept;
pub(crate) mod make;
pub(crate) mod scan;

pub(crate) use file::{Pool, Segment};
pub(crate) use kept::Kept;
pub(crate) use scan::{Scan, Step};
