//! A log of dsh, plain or compressed, from any bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| everlog_testkit::fuzz::run("import", data));
