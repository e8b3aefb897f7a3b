//! Headers and payloads of frames, and the fixed structures around them.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| everlog_testkit::fuzz::run("frame", data));
