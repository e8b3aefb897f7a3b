//! Benchmarks of Everlog.
