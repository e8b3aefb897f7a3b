//! The real disk.

/// The real disk of this machine.
#[derive(Debug, Default, Clone)]
pub struct OsVfs;
