//! The shapes of messages and request headers that readers rely on.
//!
//! # Invariants
//! P1. Blocks inside `content` are not looked at, but for the one block of a tool result.
//! P2. Absent and `null` differ: `null` is a value, and no optional field may be it.

use super::refusal::Refusal;
use super::{Class, Top};
use crate::json;

const NON_EMPTY: &str = "must be a non-empty string";

/// Checks the data of an event of a class.
pub(super) fn check(class: Class, top: &Top<'_>) -> Result<(), Refusal> {
    match class {
        Class::User => message(top, "data", b"user").map(|_| ()),
        Class::Assistant => assistant(top),
        Class::Result => tool_result(top),
        Class::RequestHeader => request_header(top.header),
        Class::Steering => {
            Err(Refusal::shape("type", "must be user/message: steering/message is retired"))
        }
        Class::TurnStart | Class::TurnEnd | Class::Bracket | Class::Other => Ok(()),
    }
}

fn is_text(value: Option<&[u8]>) -> bool {
    value.is_some_and(|value| json::is_string(value) && !json::is_empty_string(value))
}

/// Checks what all messages share and gives the source and the content.
fn message<'a>(
    top: &Top<'a>,
    path: &str,
    role: &'static [u8],
) -> Result<(&'a [u8], &'a [u8]), Refusal> {
    if !top.object {
        return Err(Refusal::shape(path, "must be a message object"));
    }
    let refuse = |field: &str, wanted| Err(Refusal::shape(format!("{path}.{field}"), wanted));
    if !is_text(top.id) {
        return refuse("id", NON_EMPTY);
    }
    if !top.role.is_some_and(|found| json::string_is(found, role)) {
        return refuse("role", "must be the role of this type of event");
    }
    let Some(source) = top.source.filter(|source| json::is_object(source)) else {
        return refuse("source", "must be an object");
    };
    if !is_text(json::member(source, b"kind")) {
        return refuse("source.kind", NON_EMPTY);
    }
    match top.content.filter(|content| json::is_array(content)) {
        Some(content) => Ok((source, content)),
        None => refuse("content", "must be an array"),
    }
}

/// The message inside the data.
fn inner<'a>(top: &Top<'a>) -> Result<Top<'a>, Refusal> {
    let text = top.message.filter(|message| json::is_object(message));
    let text = text.ok_or_else(|| Refusal::shape("data.message", "must be a message object"))?;
    Top::read(text, usize::MAX).map_err(Refusal::Json)
}

fn source_kind(source: &[u8], kind: &'static [u8], wanted: &'static str) -> Result<(), Refusal> {
    match json::member(source, b"kind") {
        Some(found) if json::string_is(found, kind) => Ok(()),
        _ => Err(Refusal::shape("data.message.source.kind", wanted)),
    }
}

fn assistant(top: &Top<'_>) -> Result<(), Refusal> {
    let (source, _) = message(&inner(top)?, "data.message", b"assistant")?;
    source_kind(source, b"model", "must be \"model\"")?;
    if !is_text(json::member(source, b"provider")) {
        return Err(Refusal::shape("data.message.source.provider", NON_EMPTY));
    }
    if !is_text(json::member(source, b"model")) {
        return Err(Refusal::shape("data.message.source.model", NON_EMPTY));
    }
    Ok(())
}

fn tool_result(top: &Top<'_>) -> Result<(), Refusal> {
    let (source, content) = message(&inner(top)?, "data.message", b"user")?;
    source_kind(source, b"tool", "must be \"tool\"")?;
    let call_id = json::member(source, b"callId").filter(|id| is_text(Some(id)));
    let Some(call_id) = call_id.and_then(json::string_value) else {
        return Err(Refusal::shape("data.message.source.callId", NON_EMPTY));
    };
    let mut blocks = json::Elements::new(content);
    let (Some(block), None) = (blocks.next(), blocks.next()) else {
        return Err(Refusal::shape("data.message.content", "must hold exactly one block"));
    };
    let refuse = |field: &str, wanted| {
        Err(Refusal::shape(format!("data.message.content[0]{field}"), wanted))
    };
    if !json::is_object(block) {
        return refuse("", "must be an object");
    }
    if !json::member(block, b"type").is_some_and(|found| json::string_is(found, b"tool-result")) {
        return refuse(".type", "must be \"tool-result\"");
    }
    if !json::member(block, b"content").is_some_and(json::is_array) {
        return refuse(".content", "must be an array");
    }
    if !json::member(block, b"toolCallId").is_some_and(|found| json::string_is(found, &call_id)) {
        return refuse(".toolCallId", "must equal the callId of the source");
    }
    Ok(())
}

fn request_header(header: Option<&[u8]>) -> Result<(), Refusal> {
    let Some(header) = header.filter(|header| json::is_object(header)) else {
        return Err(Refusal::shape("data.header", "must be an object"));
    };
    let Some(config) = json::member(header, b"config").filter(|config| json::is_object(config))
    else {
        return Err(Refusal::shape("data.header.config", "must be an object"));
    };
    if !is_text(json::member(config, b"provider")) {
        return Err(Refusal::shape("data.header.config.provider", NON_EMPTY));
    }
    if !is_text(json::member(config, b"model")) {
        return Err(Refusal::shape("data.header.config.model", NON_EMPTY));
    }
    let effort = json::member(config, b"reasoningEffort");
    if effort.is_some() && !is_text(effort) {
        return Err(Refusal::shape("data.header.config.reasoningEffort", NON_EMPTY));
    }
    match json::member(header, b"adapterDefaults") {
        None => Ok(()),
        Some(defaults) => adapter_defaults(defaults, config),
    }
}

/// Markers of fields that the adapter filled in: each exactly `true`, and only for fields that are there.
fn adapter_defaults(defaults: &[u8], config: &[u8]) -> Result<(), Refusal> {
    let refuse = |wanted| Err(Refusal::shape("data.header.adapterDefaults", wanted));
    if !json::is_object(defaults) {
        return refuse("must be an object");
    }
    for (key, _) in json::Members::new(defaults) {
        let key = json::unescape(key);
        if !matches!(&*key, b"reasoningEffort" | b"maxTokens") {
            return refuse("may hold reasoningEffort and maxTokens only");
        }
        // The value of the last of equal keys counts.
        if json::member(defaults, &key) != Some(b"true") {
            return refuse("may hold nothing but true");
        }
        if json::member(config, &key).is_none() {
            return refuse("may mark only fields that config has");
        }
    }
    Ok(())
}
