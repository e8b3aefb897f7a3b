//! Payloads of INDEX frames.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| everlog_testkit::fuzz::run("index", data));
