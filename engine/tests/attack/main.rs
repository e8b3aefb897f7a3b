//! Attempts to break the storage engine, each kept as a test: marks without end, failed syncs, reads of what is only
//! staged, hostile bytes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, reason = "tests")]

mod faults;
mod hostile;
mod kit;
mod live;
mod lost;
mod marks;
mod reads;
