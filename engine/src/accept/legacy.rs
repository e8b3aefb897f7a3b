//! Older shapes of events, and what readers convert them to. Stored text is never rewritten.
//!
//! # Invariants
//! G1. Only the shapes that are known are converted; what looks older and is none of them is refused.
//! G2. A converted event keeps its seq, time and marks; what the conversion does not name is carried over.

use std::borrow::Cow;

use super::refusal::Refusal;
use super::{ASSISTANT_MESSAGE, Class, TOOL_RESULT, Top, USER_MESSAGE};
use crate::json;

/// Start of every message id that a conversion gives.
pub(super) const ID_PREFIX: &[u8] = b"legacy-message:";

/// An event of an older shape, converted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Modern {
    /// Its type today.
    pub(crate) event_type: &'static [u8],
    /// JSON text of its data.
    pub(crate) data: Vec<u8>,
}

/// The message id that a conversion gives to the event `seq` of a session, as WTF-8. A tool result that
/// replaces another one takes the id of that one instead.
pub(crate) fn minted_id(session: &[u8], seq: crate::Seq) -> Vec<u8> {
    [ID_PREFIX, session, b":", seq.to_string().as_bytes()].concat()
}

/// Whether the data of an event may be of an older shape; [`modernise`] then decides.
pub(super) fn looks_legacy(class: Class, top: &Top<'_>) -> bool {
    match class {
        Class::Steering => true,
        Class::TurnStart => top.trigger.is_some(),
        Class::TurnEnd => top.reason.is_some_and(json::is_object),
        Class::User => top.object && [top.id, top.role, top.message] == [None; 3],
        Class::Assistant => top.message.is_none() && top.provenance.is_some(),
        Class::Result => top.message.is_none() && top.call_id.is_some(),
        Class::RequestHeader | Class::Bracket | Class::Other => false,
    }
}

/// Converts the data of an event of an older shape; nothing when it has today's shape.
///
/// `id` is the message id to give, as WTF-8: see [`minted_id`].
pub(crate) fn modernise(
    event_type: &[u8],
    data: &[u8],
    id: &[u8],
) -> Result<Option<Modern>, Refusal> {
    let class = Class::of(event_type);
    if matches!(class, Class::Other | Class::Bracket | Class::RequestHeader) {
        return Ok(None);
    }
    let top = Top::read(data, usize::MAX).map_err(Refusal::Json)?;
    if !looks_legacy(class, &top) {
        return Ok(None);
    }
    let done = |event_type, data| Ok(Some(Modern { event_type, data }));
    match class {
        Class::Steering => done(USER_MESSAGE, steering(data, &top, id)?),
        Class::User => done(USER_MESSAGE, with_identity(data, id)),
        Class::Assistant => done(ASSISTANT_MESSAGE, assistant(data, &top, id)?),
        Class::Result => done(TOOL_RESULT, tool_result(data, &top, id)?),
        Class::TurnStart => done(b"turn/start", turn_start(&top)?),
        _ => match turn_end_reason(top.reason.unwrap_or_default())? {
            Some(reason) => done(b"turn/end", with_reason(data, &reason)),
            None => Ok(None),
        },
    }
}

/// Writes one object, member by member.
struct Object {
    out: Vec<u8>,
}

impl Object {
    fn new() -> Self {
        Self { out: vec![b'{'] }
    }

    /// A member whose key is given as it stands between its quotes.
    fn raw(&mut self, key: &[u8], value: &[u8]) -> &mut Self {
        if self.out.len() > 1 {
            self.out.push(b',');
        }
        for part in [b"\"", key, b"\":", value] {
            self.out.extend_from_slice(part);
        }
        self
    }

    fn string(&mut self, key: &[u8], wtf8: &[u8]) -> &mut Self {
        self.raw(key, b"");
        json::write_string(&mut self.out, wtf8);
        self
    }

    /// All members of an object whose decoded key passes.
    fn members(&mut self, text: &[u8], keep: impl Fn(&[u8]) -> bool) -> &mut Self {
        for (key, value) in json::Members::new(text) {
            if keep(&json::unescape(key)) {
                self.raw(key, value);
            }
        }
        self
    }

    fn end(&mut self) -> Vec<u8> {
        self.out.push(b'}');
        std::mem::take(&mut self.out)
    }
}

fn refuse<T>(field: &'static str, wanted: &'static str) -> Result<T, Refusal> {
    Err(Refusal::shape(field, wanted))
}

fn is_number(value: Option<&[u8]>) -> bool {
    value.is_some_and(|value| json::kind(value) == Some(json::Kind::Number))
}

fn turn_start(top: &Top<'_>) -> Result<Vec<u8>, Refusal> {
    let kind = top.trigger.and_then(|trigger| json::member(trigger, b"kind"));
    if !kind.is_some_and(json::is_string) {
        return refuse("data.trigger", "must be an object with a kind");
    }
    match top.turn.filter(|turn| is_number(Some(turn))) {
        Some(turn) => Ok(Object::new().raw(b"turn", turn).end()),
        None => refuse("data.turn", "must be a number"),
    }
}

/// Today's reason for an older one; nothing when it is one of today's.
fn turn_end_reason(reason: &[u8]) -> Result<Option<Vec<u8>>, Refusal> {
    let Some(kind) = json::member(reason, b"kind").and_then(json::string_value) else {
        return Ok(None);
    };
    let has = |key: &[u8]| json::member(reason, key);
    let aborted = |why: &[u8]| {
        let inner = Object::new().string(b"kind", why).end();
        Object::new().string(b"kind", b"aborted").raw(b"reason", &inner).end()
    };
    match &*kind {
        b"aborted" if has(b"reason").is_none() => Ok(Some(aborted(b"legacy"))),
        b"disposed" => Ok(Some(aborted(b"disposed"))),
        b"error" if has(b"error").is_none() => {
            error_of(has(b"step"), has(b"failure"), has(b"message"), has(b"code"))
        }
        _ => Ok(None),
    }
}

fn error_of(
    step: Option<&[u8]>,
    failure: Option<&[u8]>,
    message: Option<&[u8]>,
    code: Option<&[u8]>,
) -> Result<Option<Vec<u8>>, Refusal> {
    if [step, failure, message] == [None; 3] {
        return Ok(None);
    }
    let error = match (failure, message) {
        (Some(failure), _) if json::is_object(failure) => Cow::Borrowed(failure),
        (None, Some(message)) if json::is_string(message) => {
            let code = code.unwrap_or(b"\"UNKNOWN\"");
            if !json::is_string(code) {
                return refuse("data.reason.code", "must be a string");
            }
            Cow::Owned(Object::new().raw(b"message", message).raw(b"code", code).end())
        }
        _ => return refuse("data.reason", "has neither a failure object nor a message"),
    };
    if !is_number(step) {
        return refuse("data.reason.step", "must be a number");
    }
    Ok(Some(Object::new().string(b"kind", b"error").raw(b"error", &error).end()))
}

fn with_reason(data: &[u8], reason: &[u8]) -> Vec<u8> {
    let mut object = Object::new();
    for (key, value) in json::Members::new(data) {
        let new = *json::unescape(key) == *b"reason";
        object.raw(key, if new { reason } else { value });
    }
    object.end()
}

fn steering(data: &[u8], top: &Top<'_>, id: &[u8]) -> Result<Vec<u8>, Refusal> {
    if !is_number(top.turn) {
        return refuse("data.turn", "must be a number");
    }
    match (top.message, top.content, top.source) {
        (Some(message), _, _) if json::is_object(message) => Ok(message.to_vec()),
        (None, Some(_), Some(_)) => {
            let message = Object::new().members(data, |key| key != b"turn").end();
            Ok(with_identity(&message, id))
        }
        _ => refuse("data", "must hold a message, or content and source"),
    }
}

/// A user's message without id and role, with both.
fn with_identity(data: &[u8], id: &[u8]) -> Vec<u8> {
    Object::new().members(data, |_| true).string(b"id", id).string(b"role", b"user").end()
}

fn assistant(data: &[u8], top: &Top<'_>, id: &[u8]) -> Result<Vec<u8>, Refusal> {
    let Some(provenance) = top.provenance.filter(|provenance| json::is_object(provenance)) else {
        return refuse("data.provenance", "must be an object");
    };
    let Some(content) = top.content else {
        return refuse("data.content", "must be there");
    };
    let source =
        Object::new().members(provenance, |key| key != b"kind").string(b"kind", b"model").end();
    let message = Object::new()
        .string(b"id", id)
        .string(b"role", b"assistant")
        .raw(b"content", content)
        .raw(b"source", &source)
        .end();
    Ok(wrap(data, &message, |key| matches!(key, b"content" | b"provenance")))
}

fn tool_result(data: &[u8], top: &Top<'_>, id: &[u8]) -> Result<Vec<u8>, Refusal> {
    let (Some(call_id), Some(content)) = (top.call_id, top.content) else {
        return refuse("data.content", "must be there");
    };
    let Some(is_error @ (b"true" | b"false")) = top.is_error else {
        return refuse("data.isError", "must be true or false");
    };
    let block = Object::new()
        .string(b"type", b"tool-result")
        .raw(b"toolCallId", call_id)
        .raw(b"content", content)
        .raw(b"isError", is_error)
        .end();
    let source = Object::new().string(b"kind", b"tool").raw(b"callId", call_id).end();
    let message = Object::new()
        .string(b"id", id)
        .string(b"role", b"user")
        .raw(b"content", &[b"[", block.as_slice(), b"]"].concat())
        .raw(b"source", &source)
        .end();
    Ok(wrap(data, &message, |key| matches!(key, b"callId" | b"content" | b"isError")))
}

/// The data with `message` in the place of the first member that went into it.
fn wrap(data: &[u8], message: &[u8], went_in: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let mut object = Object::new();
    let mut placed = false;
    for (key, value) in json::Members::new(data) {
        if !went_in(&json::unescape(key)) {
            object.raw(key, value);
        } else if !std::mem::replace(&mut placed, true) {
            object.raw(b"message", message);
        }
    }
    object.end()
}
