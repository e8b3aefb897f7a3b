//! Events as readers see them: older shapes converted (dsh-spec.md section 10), types known or not.
//!
//! # Invariants
//! Vi1. An event of today's shape is borrowed as it is.
//! Vi2. A converted message has the id `legacy-message:<session>:<seq>`; a converted tool result that replaces another
//!      has the id of the message it replaces, however long the chain of older results is.

use std::borrow::Cow;

use crate::accept::{
    ASSISTANT_MESSAGE, STEERING_MESSAGE, TOOL_RESULT, USER_MESSAGE, minted_id, modernise,
};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{Event, EventRef, SurfaceOp};
use crate::format::event_types::code_of;
use crate::types::{Seq, write_escaped};

use super::field::text_at;

/// Type and data of an event in today's shape.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct View<'a> {
    /// Type as WTF-8.
    pub(crate) event_type: &'a [u8],
    /// JSON text of the data.
    pub(crate) data: Cow<'a, [u8]>,
}

#[cfg(test)]
impl<'a> View<'a> {
    /// An event that is known to have today's shape.
    pub(super) fn plain(event: &'a Event) -> Self {
        Self { event_type: &event.event_type, data: Cow::Borrowed(&event.data) }
    }
}

/// Whether readers know what events of a type mean. Others may be stepped over only when they say so themselves.
pub(crate) fn is_known(event_type: &[u8]) -> bool {
    code_of(event_type).is_some() || event_type == STEERING_MESSAGE
}

/// The error for an event that no view may step over.
pub(crate) fn unknown_type(event_type: &[u8], seq: Seq) -> Error {
    let mut shown = String::new();
    // Writing to a string cannot fail.
    let _written = write_escaped(&mut shown, event_type);
    let message = format!("events of type \"{shown}\" are unknown and not marked as ignorable");
    Error::new(ErrorKind::UnknownType, message).with_field("type").with_seq(seq)
}

/// The event in today's shape.
///
/// `session` is the id of the session, `read` gives one of its earlier events.
///
/// # Errors
/// `Invalid` when the event has an older shape that nobody knows, and what `read` gives.
pub(crate) fn modern<'a>(
    event: &EventRef<'a>,
    session: &[u8],
    read: &mut dyn FnMut(Seq) -> Result<Event>,
) -> Result<View<'a>> {
    let convert = |id: &[u8]| {
        modernise(event.event_type, event.data, id).map_err(|refusal| refusal.into_error(event.seq))
    };
    let as_it_is = View { event_type: event.event_type, data: Cow::Borrowed(event.data) };
    if !may_be_older(event.event_type) {
        return Ok(as_it_is);
    }
    let Some(first) = convert(&minted_id(session, event.seq))? else { return Ok(as_it_is) };
    let converted = match event.surface_op {
        Some(SurfaceOp::Replace { start, .. }) if first.event_type == TOOL_RESULT => {
            let id = inherited_id(start, session, read)?;
            convert(&id)?.unwrap_or(first)
        }
        _ => first,
    };
    Ok(View { event_type: converted.event_type, data: Cow::Owned(converted.data) })
}

/// Types of which older shapes exist; for all others no look into the data is needed.
fn may_be_older(event_type: &[u8]) -> bool {
    matches!(
        event_type,
        USER_MESSAGE
            | ASSISTANT_MESSAGE
            | TOOL_RESULT
            | STEERING_MESSAGE
            | b"turn/start"
            | b"turn/end"
    )
}

/// The message id of the result at the end of a chain of older results that replace each other.
fn inherited_id(
    start: Seq,
    session: &[u8],
    read: &mut dyn FnMut(Seq) -> Result<Event>,
) -> Result<Vec<u8>> {
    let mut at = start;
    loop {
        let event = read(at)?;
        let minted = minted_id(session, at);
        let converted = modernise(&event.event_type, &event.data, &minted)
            .map_err(|refusal| refusal.into_error(at))?;
        match (&converted, event.surface_op) {
            (Some(c), Some(SurfaceOp::Replace { start, .. })) if c.event_type == TOOL_RESULT => {
                if start >= at {
                    return Err(Error::corrupt("a result replaces a later one").with_seq(at));
                }
                at = start;
            }
            (Some(_), _) => return Ok(minted),
            (None, _) => {
                let data = &*event.data;
                let id = text_at(data, &[b"message", b"id"]).or_else(|| text_at(data, &[b"id"]));
                return Ok(id.map_or(minted, Cow::into_owned));
            }
        }
    }
}
