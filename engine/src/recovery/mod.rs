//! Opening a lane that was not closed: what is there, what it means, what to do.
//!
//! `survey` reads, `plan` decides and is pure, `apply` acts and can be repeated. docs/recovery.md is the table.

pub(crate) mod apply;
pub(crate) mod plan;
pub(crate) mod report;
pub(crate) mod survey;
