//! Test tools of Everlog: generators, a simulated disk, an independent decoder. Never part of a build that keeps data.

pub mod fleet;
pub mod golden;
pub mod oracle;
pub mod rng;
pub mod samples;
pub mod sim;
