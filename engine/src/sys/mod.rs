//! Calls that no safe crate offers: a map that others write to, range locks, and what a child of `fork(2)` does.
//!
//! # Invariants
//! Y1. All `unsafe` of the workspace's libraries is in this folder, in at most 400 lines.
//! Y2. Each unsafe block stands under a comment that opens with `SAFETY:` and names the facts it rests on.
//! Y3. No reference to mapped bytes exists at any time, and no call here blocks.

pub(crate) mod atfork;
pub(crate) mod map;
pub(crate) mod ofd;

#[cfg(test)]
pub(crate) mod fork_now;
#[cfg(test)]
mod tests;
