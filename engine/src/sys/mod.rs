//! The only code with `unsafe`: maps, open-file-description locks, and what must happen in a child of `fork(2)`.
//!
//! # Invariants
//! Sy1. Every block says which facts make it sound and where they hold.
//! Sy2. No reference into a map is ever made: bytes are copied out.

#[cfg(target_os = "linux")]
pub(crate) mod atfork;
pub(crate) mod map;
#[cfg(target_os = "linux")]
pub(crate) mod ofd;
