//! Logs of dsh: JSONL with a header line, packed rows and Zstandard frames, read and written.
//!
//! Nothing here opens a file. [`read_log`] takes any reader and gives header and events to an
//! [`ImportSink`]; [`NewHeader`], [`write_event`], [`PackWriter`] and [`FrameWriter`] append to buffers.
//!
//! # Invariants
//! X1. What was read and is written again has every byte of `data` and of the header as it was.
//! X2. What the writers write, the reader reads as the same events.

mod append;
mod aside;
mod canonical;
mod damage;
mod frame;
mod header;
mod input;
mod jsonl;
mod lines;
mod mend;
mod outcome;
mod pack;
mod read;
mod record;
mod rows;
#[cfg(test)]
mod tests;
mod write;
mod zstd;

pub use self::zstd::FrameWriter;
pub use append::json_event_line;
pub use aside::LineRange;
pub(crate) use aside::SALVAGED_TYPE;
pub(crate) use header::with_id;
pub use header::{ImportHeader, NewHeader};
pub use jsonl::read_jsonl;
pub(crate) use jsonl::{JsonlWriter, is_jsonl_header, is_jsonl_type};
pub use outcome::{ImportOutcome, Place, TornTail, Warning, WarningKind};
pub use pack::PackWriter;
pub use read::{ImportOptions, ImportSink, read_log};
pub use write::write_event;
pub(crate) use write::write_line;

/// Whether a text is exactly one JSON value, as the store wants `data` to be: UTF-8, nested at most 4,096 deep.
///
/// ```
/// assert!(everlog::dsh::is_json(br#"{"a":"\ud800"}"#) && !everlog::dsh::is_json(b"{a:1}"));
/// ```
#[must_use]
pub fn is_json(text: &[u8]) -> bool {
    crate::json::check(text, crate::limits::JSON_DEPTH_MAX).is_ok()
}
