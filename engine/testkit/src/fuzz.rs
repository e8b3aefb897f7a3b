//! The bodies of the fuzz targets, for libFuzzer and for the replay of the small corpus.
//!
//! 1. A body takes any bytes. It panics when the engine breaks a promise; an error of the engine is no failure.
//! 2. With [`plant`] every body also panics on [`MAGIC`], so that a harness can show that it would tell.

mod import;
mod store;

use std::sync::atomic::{AtomicBool, Ordering};

/// Names of all targets.
pub const TARGETS: [&str; 6] = ["frame", "import", "index", "json", "recovery", "store"];

/// The input that the planted fault is about.
pub const MAGIC: &[u8] = b"a planted fault";

static PLANTED: AtomicBool = AtomicBool::new(false);

/// Plants the fault in this process, or takes it away.
pub fn plant(on: bool) {
    PLANTED.store(on, Ordering::SeqCst);
}

/// Runs the body of a target. With the environment variable `EVERLOG_FUZZ_PLANTED` the fault is planted.
///
/// # Panics
/// When the engine breaks a promise, and on a name of no target.
pub fn run(target: &str, data: &[u8]) {
    let planted =
        PLANTED.load(Ordering::SeqCst) || std::env::var_os("EVERLOG_FUZZ_PLANTED").is_some();
    assert!(!(planted && data == MAGIC), "the planted fault in {target}");
    match target {
        "frame" => verdict(everlog::fuzzing::frame(data)),
        "import" => import::run(data),
        "index" => verdict(everlog::fuzzing::index(data)),
        "json" => json(data),
        "recovery" => store::recovery(data),
        "store" => store::whole(data),
        other => unreachable!("no target {other}"),
    }
}

fn verdict(found: Result<(), String>) {
    assert_eq!(found, Ok(()));
}

/// The engine takes exactly what serde_json takes, but for bytes that are not UTF-8.
fn json(data: &[u8]) {
    let taken = everlog::fuzzing::json(data);
    let theirs = serde_json::from_slice::<serde::de::IgnoredAny>(data).is_ok();
    let text = std::str::from_utf8(data).is_ok();
    assert_eq!(taken, Ok(theirs && text), "{}", String::from_utf8_lossy(data));
}
