//! The active segment of a lane, changed behind what was synced.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| everlog_testkit::fuzz::run("recovery", data));
