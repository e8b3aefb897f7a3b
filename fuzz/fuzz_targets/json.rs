//! JSON text, against serde_json.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| everlog_testkit::fuzz::run("json", data));
