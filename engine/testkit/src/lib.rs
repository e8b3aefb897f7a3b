//! Test tools of Everlog.

pub mod sim;
