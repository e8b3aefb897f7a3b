//! The session model: what the events of a session mean, as pure folds over them.
//!
//! # Invariants
//! Mo1. Pure: events go in, text and figures come out; no file, no lock and no clock is touched.
//! Mo2. The text of a message is the stored text, byte for byte; of older shapes it is what readers make of them.
//! Mo3. An event of an older shape is read as converted, here and nowhere else; what is stored stays as it is.
//! Mo4. Nothing recurses on data, and no data panics: a fold steps over what lacks the shape it looks for.
//!
//! # Units
//! Seqs count events, times and sums of times are milliseconds, tokens are counted as the provider did.

mod closers;
mod estimate;
mod field;
mod history;
mod message;
mod modern;
mod stats;
#[cfg(test)]
mod tests;
mod tokens;

pub(crate) use closers::Closers;
pub(crate) use message::message_in;
pub(crate) use modern::{View, is_known, modern, unknown_type};

pub use history::History;
pub(crate) use stats::SplitStats;
pub(crate) use tokens::ContextFold;

pub use stats::Stats;
pub use tokens::{ContextFigures, TokenTotals};
