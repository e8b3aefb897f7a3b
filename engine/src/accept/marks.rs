//! The marks of a surface event as they stand in JSON: the marker and the citations.
//!
//! # Invariants
//! K1. A marker is the string `append`, or an object with exactly `op`, `start` and `end`.

use super::refusal::Refusal;
use crate::event::SurfaceOp;
use crate::json;
use crate::types::Seq;

/// A seq from its JSON text.
fn seq(raw: &[u8]) -> Option<Seq> {
    json::safe_integer(raw).and_then(|value| Seq::try_from(value).ok())
}

/// Reads the JSON value of `surfaceOp`.
pub(crate) fn parse_surface_op(raw: &[u8]) -> Result<SurfaceOp, Refusal> {
    if json::string_is(raw, b"append") {
        return Ok(SurfaceOp::Append);
    }
    if !json::is_object(raw) {
        return Err(Refusal::shape("surfaceOp", "must be \"append\" or a replace object"));
    }
    let (mut op, mut start, mut end) = (None, None, None);
    for (key, value) in json::Members::new(raw) {
        match &*json::unescape(key) {
            b"op" => op = Some(json::string_is(value, b"replace")),
            b"start" => start = Some(seq(value)),
            b"end" => end = Some(seq(value)),
            _ => {
                let wanted = "must hold exactly the keys op, start and end";
                return Err(Refusal::shape("surfaceOp", wanted));
            }
        }
    }
    if op != Some(true) {
        return Err(Refusal::shape("surfaceOp.op", "must be \"replace\""));
    }
    let bound = |value: Option<Option<Seq>>, field: &str| {
        value
            .flatten()
            .ok_or_else(|| Refusal::shape(field, "must be an integer from 0 to 2^53 - 1"))
    };
    Ok(SurfaceOp::Replace {
        start: bound(start, "surfaceOp.start")?,
        end: bound(end, "surfaceOp.end")?,
    })
}

/// Reads the JSON value of `sourceEventSeqs`, in its order.
pub(crate) fn parse_sources(raw: &[u8]) -> Result<Vec<Seq>, Refusal> {
    if !json::is_array(raw) {
        return Err(Refusal::shape("sourceEventSeqs", "must be an array"));
    }
    let mut sources = Vec::new();
    for element in json::Elements::new(raw) {
        let wanted = "must hold integers from 0 to 2^53 - 1 only";
        sources.push(seq(element).ok_or_else(|| Refusal::shape("sourceEventSeqs", wanted))?);
    }
    Ok(sources)
}
