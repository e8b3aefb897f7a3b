//! From a surface event to the message that a model is given (dsh-spec.md section 5).
//!
//! # Invariants
//! Me1. A message is a slice of the data: nothing is built, reordered or left out.
//! Me2. A model's message without content gives none; its event stays on the surface.

use crate::accept::{ASSISTANT_MESSAGE, TOOL_RESULT, USER_MESSAGE};
use crate::json;

/// The text of the message that an event of today's shape gives; nothing when it gives none.
pub(crate) fn message_in<'a>(event_type: &[u8], data: &'a [u8]) -> Option<&'a [u8]> {
    match event_type {
        USER_MESSAGE => Some(json::trim(data)),
        TOOL_RESULT => json::member(data, b"message"),
        ASSISTANT_MESSAGE => {
            let message = json::member(data, b"message")?;
            let content = json::member(message, b"content")?;
            let empty = json::is_array(content) && json::Elements::new(content).next().is_none();
            (!empty).then_some(message)
        }
        _ => None,
    }
}
