//! The binary as its users run it: one module a verb, and one for what all verbs share.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod append;
mod cat;
mod check;
mod common;
mod export;
mod hostile;
mod import;
mod init;
mod log;
mod log_live;
mod ls;
mod ps;
mod salvage;
mod show;
mod support;
mod views;
