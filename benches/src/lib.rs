//! Benchmarks of Everlog: ours and the bare operation, alternated in one run, paired medians of rounds.
//!
//! # Invariants
//! Bm1. A ratio is the median of the ratios of pairs that ran one right after the other, in changing order.
//! Bm2. Every row says how loaded the machine was when it began; above [`LOAD_MAX`] its figures are shown, not claimed.
//! Bm3. Both sides of a pair write to bytes that were never written, and read bytes that are in the page cache.
//!
//! # Units
//! Times are nanoseconds. `wall`: of the clock. `cpu`: of all threads of this process. Rates are per second.
#![allow(clippy::unwrap_used, reason = "a measurement that fails has no result")]

pub mod bare;
pub mod config;
pub mod measure;
pub mod rows;
pub mod table;

/// One-minute load average above which nothing is claimed.
pub const LOAD_MAX: f64 = 3.0;
