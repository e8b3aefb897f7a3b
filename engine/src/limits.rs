//! Every maximum in one place. A limit is checked before a byte is written and before a length is used.
//!
//! # Units
//! Names hold their unit, `BYTES` or `EVENTS`; `MAX` is the largest value allowed. What the format fixes stands in
//! format.md section 9.
//!
//! ```
//! use everlog::{SessionId, limits::SESSION_ID_BYTES_MAX};
//! assert!(SessionId::new(&"x".repeat(SESSION_ID_BYTES_MAX)).is_ok());
//! assert!(SessionId::new(&"x".repeat(SESSION_ID_BYTES_MAX + 1)).is_err());
//! ```

/// Largest `data` of one event, in bytes of JSON text, unless an option raises it.
pub const EVENT_BYTES_MAX: usize = 48 << 20;
/// Largest value of that option.
pub const EVENT_BYTES_CEILING: usize = 1 << 30;
/// Most events in one append call.
pub const BATCH_EVENTS_MAX: usize = 65_535;
/// Most encoded bytes in one append call, unless the event limit was raised above it.
pub const BATCH_BYTES_MAX: usize = 64 << 20;
/// Longest session id, in bytes of WTF-8.
pub const SESSION_ID_BYTES_MAX: usize = 1_024;
/// Longest event type, in bytes of WTF-8.
pub const EVENT_TYPE_BYTES_MAX: usize = 1_024;
/// Longest header line of a session, in bytes of JSON text.
pub const HEADER_BYTES_MAX: usize = 1 << 20;
/// Largest counter of sessions that one lane creates.
pub const SESSION_COUNTER_MAX: u64 = (1 << 48) - 1;
/// Most sessions that a store may hold.
pub const SESSIONS_MAX: u64 = u32::MAX as u64;
/// Largest seq, gsn and time: the largest integer that is exact in JSON.
pub const SAFE_INTEGER_MAX: u64 = (1 << 53) - 1;
/// Deepest nesting of JSON arrays and objects, unless an option changes it.
pub const JSON_DEPTH_MAX: usize = 4_096;
/// Most lanes in a store.
pub const LANES_MAX: usize = 65_535;
/// Longest label of a writer, in bytes.
pub const LABEL_BYTES_MAX: usize = 64;
/// Longest line of a JSONL file that is read, in bytes, unless an option changes it.
pub const LINE_BYTES_MAX: usize = 64 << 20;
/// Smallest segment.
pub const SEGMENT_BYTES_MIN: u64 = 256 << 10;
/// Size of the first segment of a lane.
pub const SEGMENT_BYTES_FIRST: u64 = 4 << 20;
/// Longest text of a cursor, in bytes: one of all lanes fits.
pub const CURSOR_BYTES_MAX: usize = 4 << 20;
/// Size up to which segments double.
pub const SEGMENT_BYTES_MAX: u64 = 64 << 20;
/// Largest segment, reached only by a batch that needs it.
pub const SEGMENT_BYTES_CEILING: u64 = 4 << 30;
/// Room that only control frames may use, at the end of a segment.
pub const SEGMENT_CONTROL_RESERVE_BYTES: u64 = 64 << 10;
/// Bytes of frames between two INDEX frames.
pub const INDEX_INTERVAL_BYTES: u64 = 1 << 20;
/// Bytes staged before a caller must write them.
pub const STAGE_BYTES: usize = 256 << 10;
/// Payloads above this are written from their own buffer and not copied into the stage.
pub const STAGE_BYPASS_BYTES: usize = 128 << 10;
/// Most segments that a reader keeps mapped at once.
pub const MAPS_MAX: usize = 1_024;

const _: () = assert!(EVENT_BYTES_MAX <= BATCH_BYTES_MAX);
const _: () = assert!(STAGE_BYPASS_BYTES <= STAGE_BYTES);
const _: () = assert!(SEGMENT_BYTES_MIN >= 2 * SEGMENT_CONTROL_RESERVE_BYTES);
const _: () = assert!(SEGMENT_BYTES_FIRST <= SEGMENT_BYTES_MAX);
const _: () = assert!(SEGMENT_BYTES_MAX <= SEGMENT_BYTES_CEILING);
