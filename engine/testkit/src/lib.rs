//! Test tools of Everlog.

pub mod oracle;
