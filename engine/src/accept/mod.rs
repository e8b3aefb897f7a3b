//! What may enter a session: one set of rules for appended and imported events, as pure functions.
//!
//! # Invariants
//! A1. Judging reads the event, the surface and, for a replaced tool result, the old event; it changes nothing.
//! A2. Rules see values: whitespace, key order and escapes in `data` make no difference, and of equal keys
//!     the last one counts.
//! A3. Work is linear in the event, n log n for unsorted citations; nothing recurses.
//! A4. Under [`Rules::legacy`] an event in an older shape is judged as what readers convert it to; its
//!     text stays as it is.
//!
//! # Units
//! Lengths in bytes of JSON text, depth in open arrays and objects, time in Unix milliseconds.

mod header;
mod legacy;
mod marks;
mod refusal;
mod result;
mod shapes;
mod sources;
#[cfg(test)]
mod tests;

pub use header::HeaderView;
pub(crate) use header::{check_header, check_header_template};
pub(crate) use legacy::{minted_id, modernise};
pub(crate) use marks::{parse_sources, parse_surface_op};
pub(crate) use refusal::Refusal;

use crate::event::{EventRef, NewEvent, SurfaceOp};
use crate::json;
use crate::limits;
use crate::surface::{Surface, SurfacePlan};
use crate::types::{Seq, is_wtf8};

/// Type of a user's message.
pub(crate) const USER_MESSAGE: &[u8] = b"user/message";
/// Type of a model's message.
pub(crate) const ASSISTANT_MESSAGE: &[u8] = b"assistant/message";
/// Type of a tool's result.
pub(crate) const TOOL_RESULT: &[u8] = b"tool/result";
/// Older type of a message that a user sent during a turn.
pub(crate) const STEERING_MESSAGE: &[u8] = b"steering/message";

/// Largest magnitude of a time.
const TIME_MAX: i64 = limits::SAFE_INTEGER_MAX as i64;

/// An event under judgement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate<'a> {
    /// The seq that it will have.
    pub(crate) seq: Seq,
    /// Its time, when the caller chose one.
    pub(crate) time_ms: Option<i64>,
    /// Type as WTF-8 bytes.
    pub(crate) event_type: &'a [u8],
    /// JSON text of the data.
    pub(crate) data: &'a [u8],
    /// Marker.
    pub(crate) surface_op: Option<SurfaceOp>,
    /// Citations.
    pub(crate) sources: Option<&'a [Seq]>,
}

impl<'a> Candidate<'a> {
    /// An event of an append call, with the seq that it would get.
    pub(crate) fn of_new(event: &'a NewEvent<'_>, seq: Seq) -> Self {
        Self {
            seq,
            time_ms: event.time_ms,
            event_type: &event.event_type,
            data: &event.data,
            surface_op: event.surface_op,
            sources: event.sources.as_deref(),
        }
    }

    /// An event that has its seq and time.
    pub(crate) fn of_ref(event: &'a EventRef<'_>) -> Self {
        Self {
            seq: event.seq,
            time_ms: Some(event.time_ms),
            event_type: event.event_type,
            data: event.data,
            surface_op: event.surface_op,
            sources: event.sources.as_deref(),
        }
    }
}

/// Which rules count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rules {
    /// Longest data.
    pub(crate) data_bytes_max: usize,
    /// Deepest nesting of the data.
    pub(crate) depth_max: usize,
    /// Whether the caller has checked that the data is JSON within that depth.
    pub(crate) data_checked: bool,
    /// Whether messages and request headers must have the shape that readers rely on.
    pub(crate) shapes: bool,
    /// Whether older shapes are judged as converted.
    pub(crate) legacy: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            data_bytes_max: limits::EVENT_BYTES_MAX,
            depth_max: limits::JSON_DEPTH_MAX,
            data_checked: false,
            shapes: true,
            legacy: false,
        }
    }
}

/// What the rules need to look into, by event type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Class {
    User,
    Assistant,
    Result,
    Steering,
    RequestHeader,
    TurnStart,
    TurnEnd,
    /// Another type in `turn/` or `step/`.
    Bracket,
    Other,
}

impl Class {
    fn of(event_type: &[u8]) -> Self {
        match event_type {
            USER_MESSAGE => Self::User,
            ASSISTANT_MESSAGE => Self::Assistant,
            TOOL_RESULT => Self::Result,
            STEERING_MESSAGE => Self::Steering,
            b"request/header" => Self::RequestHeader,
            b"turn/start" => Self::TurnStart,
            b"turn/end" => Self::TurnEnd,
            _ if event_type.starts_with(b"turn/") || event_type.starts_with(b"step/") => {
                Self::Bracket
            }
            _ => Self::Other,
        }
    }
}

/// Members of the data that some rule looks at; the last of equal keys.
#[derive(Clone, Copy, Default, Debug)]
struct Top<'a> {
    /// Whether the data is an object at all.
    object: bool,
    id: Option<&'a [u8]>,
    role: Option<&'a [u8]>,
    source: Option<&'a [u8]>,
    content: Option<&'a [u8]>,
    message: Option<&'a [u8]>,
    provenance: Option<&'a [u8]>,
    call_id: Option<&'a [u8]>,
    is_error: Option<&'a [u8]>,
    turn: Option<&'a [u8]>,
    trigger: Option<&'a [u8]>,
    reason: Option<&'a [u8]>,
    header: Option<&'a [u8]>,
}

impl<'a> Top<'a> {
    /// Reads the members, and checks the text in the same pass unless that was done before.
    fn read(data: &'a [u8], depth_max: usize) -> Result<Self, json::JsonFault> {
        let mut top = Top { object: json::is_object(data), ..Top::default() };
        if !top.object {
            return json::check(data, depth_max).map(|()| top);
        }
        json::split_object(data, depth_max, |key, value, _| top.take(key, value))?;
        Ok(top)
    }

    fn take(&mut self, key: &'a [u8], value: &'a [u8]) {
        let decoded = json::unescape(key);
        let place = match &*decoded {
            b"id" => &mut self.id,
            b"role" => &mut self.role,
            b"source" => &mut self.source,
            b"content" => &mut self.content,
            b"message" => &mut self.message,
            b"provenance" => &mut self.provenance,
            b"callId" => &mut self.call_id,
            b"isError" => &mut self.is_error,
            b"turn" => &mut self.turn,
            b"trigger" => &mut self.trigger,
            b"reason" => &mut self.reason,
            b"header" => &mut self.header,
            _ => return,
        };
        *place = Some(value);
    }
}

/// Judges an event against the rules, and gives what it will do to the surface when it is a surface event.
///
/// `surface` is the one that the events before it have left. `stored` gives the data of an earlier event
/// when that event is a tool result, and nothing when it is not.
pub(crate) fn judge<F>(
    event: &Candidate<'_>,
    rules: &Rules,
    surface: &Surface,
    stored: F,
) -> Result<Option<SurfacePlan>, Refusal>
where
    F: FnOnce(Seq) -> crate::Result<Option<Vec<u8>>>,
{
    envelope(event, rules)?;
    let class = Class::of(event.event_type);
    let top = match (class, rules.data_checked) {
        (Class::Other, true) => Top::default(),
        (Class::Other, false) => {
            json::check(event.data, rules.depth_max).map_err(Refusal::Json)?;
            Top::default()
        }
        (_, true) => Top::read(event.data, usize::MAX).map_err(Refusal::Json)?,
        (_, false) => Top::read(event.data, rules.depth_max).map_err(Refusal::Json)?,
    };
    retired(event, class, &top)?;
    if matches!(class, Class::TurnStart | Class::TurnEnd | Class::Bracket) && !top.object {
        return Err(Refusal::shape("data", "must be an object in events of turns and steps"));
    }
    let modern = if rules.legacy && rules.shapes && legacy::looks_legacy(class, &top) {
        modernise(event.event_type, event.data, legacy::ID_PREFIX)?
    } else {
        None
    };
    let judged = match class {
        Class::Steering if rules.legacy => Class::User,
        other => other,
    };
    let plan = on_surface(event, judged, surface)?;
    if let (Class::Result, Some(plan)) = (judged, &plan) {
        result::check_replacement(event.data, plan, stored)?;
    }
    if rules.shapes {
        match &modern {
            None => shapes::check(judged, &top)?,
            Some(modern) => {
                let top = Top::read(&modern.data, usize::MAX).map_err(Refusal::Json)?;
                shapes::check(judged, &top)?;
            }
        }
    }
    Ok(plan)
}

/// Type, seq, time and size.
fn envelope(event: &Candidate<'_>, rules: &Rules) -> Result<(), Refusal> {
    let bytes = event.event_type.len();
    if bytes == 0 || bytes > limits::EVENT_TYPE_BYTES_MAX {
        return Err(Refusal::TypeLength { bytes });
    }
    if matches!(event.event_type, b"text-chunks" | b"reasoning-chunks" | b"tool-call-chunks") {
        return Err(Refusal::shape(
            "type",
            "must not be the tag of a packed row, as which JSONL would read it",
        ));
    }
    if !is_wtf8(event.event_type) {
        return Err(Refusal::shape("type", "must be well-formed WTF-8"));
    }
    if event.seq > limits::SAFE_INTEGER_MAX {
        return Err(Refusal::shape("seq", "must be at most 2^53 - 1"));
    }
    if event.time_ms.is_some_and(|time| !(-TIME_MAX..=TIME_MAX).contains(&time)) {
        return Err(Refusal::shape("time", "must have a magnitude of at most 2^53 - 1"));
    }
    if event.data.len() > rules.data_bytes_max {
        return Err(Refusal::DataLength { bytes: event.data.len(), max: rules.data_bytes_max });
    }
    Ok(())
}

/// Vocabulary that no reader understands any more.
fn retired(event: &Candidate<'_>, class: Class, top: &Top<'_>) -> Result<(), Refusal> {
    let fallback = |reason| json::string_is(reason, b"fallback");
    match event.event_type {
        b"request/header-delta" => {
            Err(Refusal::Retired { field: "type", what: "request/header-delta" })
        }
        b"mode/set" => Err(Refusal::Retired { field: "type", what: "mode/set" }),
        _ if class == Class::RequestHeader && top.reason.is_some_and(fallback) => {
            Err(Refusal::Retired { field: "data.reason", what: "fallback in request/header" })
        }
        _ => Ok(()),
    }
}

/// Who may carry marks, what the event does to the surface, and what it must cite for that.
fn on_surface(
    event: &Candidate<'_>,
    class: Class,
    surface: &Surface,
) -> Result<Option<SurfacePlan>, Refusal> {
    if !matches!(class, Class::User | Class::Assistant | Class::Result) {
        return match (event.surface_op, event.sources) {
            (Some(_), _) => Err(Refusal::NotSurface { field: "surfaceOp" }),
            (None, Some(_)) => Err(Refusal::NotSurface { field: "sourceEventSeqs" }),
            (None, None) => Ok(None),
        };
    }
    let op = event.surface_op.ok_or(Refusal::MarkerMissing)?;
    let plan = surface.plan(event.seq, op).map_err(Refusal::Surface)?;
    sources::check(event.seq, event.sources, class == Class::Assistant, plan.shadowed())?;
    Ok(Some(plan))
}
