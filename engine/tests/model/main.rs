//! The session model through the public API: views of stored sessions, and the shared corpus against them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, reason = "tests")]

mod corpus;
mod forks;
#[path = "../../src/dsh/tests/sha256.rs"]
mod sha256;
mod views;
