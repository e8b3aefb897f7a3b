//! The header of a session, from its JSON line.
//!
//! # Invariants
//! H1. A numeric version other than 0 is told before every other rule: such a line may have any shape.
//! H2. Of equal keys the last one counts; keys that are not known are stepped over.
//! H3. Optional fields are absent or of their type; `null` is neither.

use super::refusal::Refusal;
use crate::json;
use crate::limits;
use crate::types::SessionId;

/// What a header says (dsh-spec.md section 1.2). Strings are WTF-8. An import gives it in
/// [`ImportHeader::view`](crate::dsh::ImportHeader::view).
///
/// ```
/// use everlog::{NewEvent, Result, Seq, dsh};
///
/// /// Says which session a log is of, and reads no further.
/// #[derive(Default)]
/// struct Owner(Option<everlog::HeaderView>);
/// impl dsh::ImportSink for Owner {
///     fn header(&mut self, header: &dsh::ImportHeader) -> Result<()> {
///         self.0 = Some(header.view.clone());
///         Ok(())
///     }
///     fn event(&mut self, _: NewEvent<'_>, _: Seq, _: u64) -> Result<()> {
///         Ok(())
///     }
///     fn tool_result_data(&mut self, _: Seq) -> Result<Option<Vec<u8>>> {
///         Ok(None)
///     }
/// }
///
/// let line = r#"{"type":"session","version":0,"id":"s","createdAt":7,"cwd":"/w","delegationDepth":2}"#;
/// let mut owner = Owner::default();
/// dsh::read_log(format!("{line}\n").as_bytes(), &Default::default(), &mut owner)?;
/// let view = owner.0.unwrap();
/// assert_eq!((view.id.as_str(), view.created_at_ms), (Some("s"), 7));
/// assert_eq!((view.cwd.as_deref(), view.delegation_depth), (Some(&b"/w"[..]), 2));
/// assert!(view.parent_session.is_none() && view.seed_length.is_none() && !view.subagent);
/// # Ok::<(), everlog::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeaderView {
    /// Name of the session.
    pub id: SessionId,
    /// When it was created, in Unix milliseconds; from 0 to 2^53 - 1.
    pub created_at_ms: u64,
    /// Working directory, absolute on some platform.
    pub cwd: Option<Box<[u8]>>,
    /// Name of the session that it was forked from; any string, and no such session need exist.
    pub parent_session: Option<Box<[u8]>>,
    /// How many events were inherited; from 0 to 2^53 - 1, not checked against the log.
    pub seed_length: Option<u64>,
    /// Whether a subagent wrote it.
    pub subagent: bool,
    /// Depth of delegation, 0 when the header does not say; from 0 to 2^53 - 1.
    pub delegation_depth: u64,
    /// Name of the agent preset.
    pub agent_preset: Option<Box<[u8]>>,
}

/// The members that have a rule, as text.
#[derive(Default)]
struct Fields<'a> {
    kind: Option<&'a [u8]>,
    version: Option<&'a [u8]>,
    id: Option<&'a [u8]>,
    created_at: Option<&'a [u8]>,
    cwd: Option<&'a [u8]>,
    parent_session: Option<&'a [u8]>,
    seed_length: Option<&'a [u8]>,
    origin: Option<&'a [u8]>,
    delegation_depth: Option<&'a [u8]>,
    agent_preset: Option<&'a [u8]>,
    sandbox_mode: Option<&'a [u8]>,
    approval_policy: Option<&'a [u8]>,
}

impl<'a> Fields<'a> {
    fn take(&mut self, key: &'a [u8], value: &'a [u8]) {
        let place = match &*json::unescape(key) {
            b"type" => &mut self.kind,
            b"version" => &mut self.version,
            b"id" => &mut self.id,
            b"createdAt" => &mut self.created_at,
            b"cwd" => &mut self.cwd,
            b"parentSession" => &mut self.parent_session,
            b"seedLength" => &mut self.seed_length,
            b"origin" => &mut self.origin,
            b"delegationDepth" => &mut self.delegation_depth,
            b"agentPreset" => &mut self.agent_preset,
            b"sandboxMode" => &mut self.sandbox_mode,
            b"approvalPolicy" => &mut self.approval_policy,
            _ => return,
        };
        *place = Some(value);
    }
}

/// Checks a header line and reads what it says.
pub(crate) fn check_header(text: &[u8]) -> Result<HeaderView, Refusal> {
    read(text, false)
}

/// Like [`check_header`], for a log whose paths were replaced by placeholders: a working directory that
/// starts with `{{cwd}}` counts as absolute.
pub(crate) fn check_header_template(text: &[u8]) -> Result<HeaderView, Refusal> {
    read(text, true)
}

fn read(text: &[u8], placeholders: bool) -> Result<HeaderView, Refusal> {
    if text.len() > limits::HEADER_BYTES_MAX {
        return Err(Refusal::HeaderLength);
    }
    let mut fields = Fields::default();
    json::split_object(text, limits::JSON_DEPTH_MAX, |key, value, _| fields.take(key, value))
        .map_err(Refusal::HeaderJson)?;
    match fields.version.map(json::number_value) {
        Some(Some(0.0)) => {}
        Some(Some(_)) => return Err(Refusal::HeaderVersion),
        _ => return Err(Refusal::shape("version", "must be the number 0")),
    }
    if !fields.kind.is_some_and(|kind| json::string_is(kind, b"session")) {
        return Err(Refusal::shape("type", "must be \"session\" in a header"));
    }
    if fields.sandbox_mode.is_some() {
        return Err(Refusal::shape("sandboxMode", "is no longer supported"));
    }
    if fields.approval_policy.is_some() {
        return Err(Refusal::shape("approvalPolicy", "is no longer supported"));
    }
    let id = string("id", fields.id)?;
    let id = id.and_then(|id| SessionId::from_wtf8(&id).ok());
    let created_at_ms = count("createdAt", fields.created_at)?;
    Ok(HeaderView {
        id: id.ok_or_else(|| Refusal::shape("id", "must be a string of 1 to 1024 bytes"))?,
        created_at_ms: created_at_ms.ok_or_else(|| Refusal::shape("createdAt", "must be there"))?,
        cwd: cwd(fields.cwd, placeholders)?,
        parent_session: string("parentSession", fields.parent_session)?,
        seed_length: count("seedLength", fields.seed_length)?,
        subagent: match fields.origin {
            None => false,
            Some(origin) if json::string_is(origin, b"subagent") => true,
            Some(_) => return Err(Refusal::shape("origin", "must be \"subagent\" or absent")),
        },
        delegation_depth: count("delegationDepth", fields.delegation_depth)?.unwrap_or(0),
        agent_preset: string("agentPreset", fields.agent_preset)?,
    })
}

fn string(field: &'static str, value: Option<&[u8]>) -> Result<Option<Box<[u8]>>, Refusal> {
    let Some(value) = value else { return Ok(None) };
    match json::string_value(value) {
        Some(text) => Ok(Some(text.into())),
        None => Err(Refusal::shape(field, "must be a string")),
    }
}

/// An integer from 0 to 2^53 - 1; a zero with a sign is none.
fn count(field: &'static str, value: Option<&[u8]>) -> Result<Option<u64>, Refusal> {
    let Some(value) = value else { return Ok(None) };
    match json::safe_integer(value) {
        Some(number) if number >= 0 && !value.starts_with(b"-") => Ok(Some(number.unsigned_abs())),
        _ => Err(Refusal::shape(field, "must be an integer from 0 to 2^53 - 1")),
    }
}

fn cwd(value: Option<&[u8]>, placeholders: bool) -> Result<Option<Box<[u8]>>, Refusal> {
    let path = string("cwd", value)?;
    let placeholder = |text: &[u8]| placeholders && text.starts_with(b"{{cwd}}");
    match &path {
        Some(text) if !(is_absolute(text) || placeholder(text)) => {
            Err(Refusal::shape("cwd", "must be an absolute path"))
        }
        _ => Ok(path),
    }
}

/// Absolute on Unix, or with a drive or a server on Windows.
fn is_absolute(path: &[u8]) -> bool {
    match path {
        [b'/', ..] | [b'\\', b'\\', ..] => true,
        [drive, b':', b'/' | b'\\', ..] => drive.is_ascii_alphabetic(),
        _ => false,
    }
}
