//! The crash matrix: every workload is cut short before and in the middle of its calls, and everything that the disk may
//! then hold is recovered, used, and compared with what was promised.
//!
//! `SEED`: seed of the first round. `ROUNDS`: rounds of each workload. `WORKLOAD`, `OP`: only these, to replay.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    unreachable_pub,
    reason = "tests"
)]

mod decay;
mod faults;
mod matrix;
mod model;
#[cfg(feature = "planted")]
mod planted;
mod run;
mod stale;
mod verify;
mod workloads;

use matrix::{Workload, matrix};

macro_rules! workloads {
    ($($name:ident),* $(,)?) => {$(
        #[test]
        fn $name() {
            matrix(Workload { name: stringify!($name), run: workloads::$name });
        }
    )*};
}

workloads!(append, rotate, import, reopen, same_id, hand_over, take_over, quiet, recovery, fork);
