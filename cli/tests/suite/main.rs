//! The binary as its users run it: one module a verb, and one for what all verbs share.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod append;
mod cat;
mod check;
mod common;
mod export;
mod import;
mod init;
mod ls;
mod support;
mod views;
