//! The rule for a tool result that replaces another one: only the content of its block may differ.
//!
//! # Invariants
//! L1. Equality is by value; key order and spelling make no difference.
//! L2. A result in an older shape compares as converted. Its message id is that of the result it replaces;
//!     where the replaced one is older, any id that a conversion gives fits.

use std::borrow::Cow;

use super::TOOL_RESULT;
use super::legacy::{ID_PREFIX, modernise};
use super::refusal::Refusal;
use crate::event::SurfaceOp;
use crate::json;
use crate::surface::SurfacePlan;
use crate::types::Seq;

/// Checks the data of a tool result against the one that it replaces; an appended one passes.
pub(super) fn check_replacement<F>(
    data: &[u8],
    plan: &SurfacePlan,
    stored: F,
) -> Result<(), Refusal>
where
    F: FnOnce(Seq) -> crate::Result<Option<Vec<u8>>>,
{
    if plan.op() == SurfaceOp::Append {
        return Ok(());
    }
    let [target] = *plan.shadowed() else {
        return Err(Refusal::ResultRange { count: plan.shadowed().len() });
    };
    let Some(old) = stored(target).map_err(Refusal::Lookup)? else {
        return Err(Refusal::ResultTarget { target });
    };
    let given_id = message_id(data).filter(|id| id.starts_with(ID_PREFIX));
    let old = as_modern(&old, given_id.as_deref().unwrap_or(ID_PREFIX));
    let new = as_modern(data, message_id(&old).as_deref().unwrap_or(ID_PREFIX));
    match difference(&old, &new) {
        None => Ok(()),
        Some(field) => Err(Refusal::ResultChanged { target, field }),
    }
}

/// The data in today's shape; as it is when it is that already, or none that is known.
fn as_modern<'a>(data: &'a [u8], id: &[u8]) -> Cow<'a, [u8]> {
    match modernise(TOOL_RESULT, data, id) {
        Ok(Some(modern)) => Cow::Owned(modern.data),
        _ => Cow::Borrowed(data),
    }
}

fn message_id(data: &[u8]) -> Option<Cow<'_, [u8]>> {
    json::string_value(json::member(json::member(data, b"message")?, b"id")?)
}

/// The first part that differs and may not.
fn difference(old: &[u8], new: &[u8]) -> Option<&'static str> {
    let (Some((old_message, old_block)), Some((new_message, new_block))) = (parts(old), parts(new))
    else {
        // Data of another shape has no content that may differ.
        return (!json::json_equal(old, new)).then_some("data");
    };
    if !json::members_equal_except(old, new, b"message") {
        return Some("data");
    }
    if !json::members_equal_except(old_message, new_message, b"content") {
        return Some("data.message");
    }
    if !json::members_equal_except(old_block, new_block, b"content") {
        return Some("data.message.content[0]");
    }
    None
}

/// The message and its only block.
fn parts(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let message = json::member(data, b"message").filter(|message| json::is_object(message))?;
    let mut blocks = json::Elements::new(json::member(message, b"content")?);
    let block = blocks.next().filter(|block| json::is_object(block))?;
    blocks.next().is_none().then_some((message, block))
}
