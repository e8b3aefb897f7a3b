//! Real processes on the real disk: many writers of one store, hand-overs under kill -9, full disks, imports that are
//! cut off, children of `fork(2)`, and what stands in the way of a file.
//!
//! `SECONDS`: how long writers write (default 2). `ROUNDS`: how many hand-overs and kills (default 60). `SEED`.
//!
//! # Invariants
//! Pr1. A child process is this executable again, in the role that `PROCS_ROLE` names; it dies with its test.
//! Pr2. An ack counts once it is in the pipe: a kill after that may lose nothing of it.
//! Pr3. What a child says is a line that opens with `@`; all else on its output is the test runner's.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    unreachable_pub,
    reason = "tests"
)]
#![cfg(target_os = "linux")]

mod acks;
mod disk;
mod follow;
mod fork;
mod full;
mod group;
mod imports;
mod kid;
mod makers;
mod many;
mod pass;
mod take;

/// Where child processes begin. Not a test by itself.
#[test]
#[ignore = "entry of child processes"]
fn child_entry() {
    let Ok(role) = std::env::var("PROCS_ROLE") else { return };
    kid::die_with_parent();
    match role.as_str() {
        "append" => many::append(),
        "hold" => many::hold(),
        "pass" => pass::pass(),
        "take" => take::take(),
        "fill" => full::fill(),
        "import" => imports::import(),
        "fork" => fork::forker(),
        "modes" => disk::modes(),
        "stream" => follow::stream(),
        "follow" => follow::follow(),
        "log" => follow::log(),
        "idle" => follow::idle(),
        "make-store" => makers::make_store(),
        "make-sessions" => makers::make_sessions(),
        other => panic!("no role {other}"),
    }
    std::process::exit(0);
}
