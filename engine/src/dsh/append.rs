//! One line that is to be appended: an event without its seq, which the store gives.

use super::record::Fields;
use crate::{Error, NewEvent, Result, limits};

/// Reads one line of text, without its newline: `{"type","data","surfaceOp"?,"sourceEventSeqs"?,"ignorable"?,"time"?}` as an event to append. `data` is kept
/// exactly as the line has it.
///
/// ```
/// let event = everlog::dsh::json_event_line(br#"{"type":"note","data":{"a": "\ud800"}}"#)?;
/// assert_eq!(event.data[..], br#"{"a": "\ud800"}"#[..]);
/// assert!(everlog::dsh::json_event_line(br#"{"type":"note","seq":0,"data":1}"#).is_err());
/// # Ok::<(), everlog::Error>(())
/// ```
///
/// # Errors
/// `Invalid` when the line is not one JSON object, lacks `type` or `data`, names a seq, or has a key that an event lacks;
/// `Limit` when the type or data is too long.
pub fn json_event_line(line: &[u8]) -> Result<NewEvent<'static>> {
    let depth_max = limits::JSON_DEPTH_MAX + 1;
    let mut fields =
        Fields::split(line, depth_max).map_err(|fault| Error::invalid("line", fault))?;
    let (has_time, has_seq) = fields.names();
    if has_seq {
        return Err(Error::invalid("seq", "the store gives it; remove it"));
    }
    let event = fields.event(has_time, limits::EVENT_BYTES_CEILING)?;
    Ok(NewEvent {
        event_type: event.event_type.into_owned().into(),
        data: event.data.into_owned().into(),
        time_ms: event.time_ms.filter(|_| has_time),
        surface_op: event.surface_op,
        sources: event.sources.map(|s| s.into_owned().into()),
        ignorable: event.ignorable,
        surface_first: event.surface_first,
    })
}
