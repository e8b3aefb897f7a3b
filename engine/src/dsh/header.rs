//! The header line: kept as it was read, and built for new sessions.
//!
//! # Invariants
//! H1. The text of a header that was read is kept exactly, without the whitespace around it. Only the
//!     placeholder id of a projection is replaced in it.
//! H2. A built header has its keys in one order; absent ones are left out, `delegationDepth` never is.
//!
//! # Units
//! `created_at_ms`: Unix milliseconds.

use super::rows::push_all;
use super::write::push_u64;
use crate::accept::{HeaderView, Refusal, check_header, check_header_template};
use crate::json::{JsonFaultKind, split_object, unescape, write_string};
use crate::limits::{HEADER_BYTES_MAX, JSON_DEPTH_MAX};
use crate::{Error, ErrorKind, Result, SessionId};

/// What a placeholder directory starts with.
const CWD_PLACEHOLDER: &[u8] = b"{{cwd}}";

/// The header of a log that is imported (dsh-spec.md section 8.3), as an [`ImportSink`](super::ImportSink) gets it.
///
/// ```
/// use everlog::{NewEvent, Result, Seq, dsh};
/// struct Text(Vec<u8>);
/// impl dsh::ImportSink for Text {
///     fn header(&mut self, header: &dsh::ImportHeader) -> Result<()> {
///         assert!(!header.placeholder_cwd && header.view.id.as_str() == Some("s"));
///         self.0.clone_from(&header.text);
///         Ok(())
///     }
/// #     fn event(&mut self, _: NewEvent<'_>, _: Seq, _: u64) -> Result<()> { Ok(()) }
/// #     fn tool_result_data(&mut self, _: Seq) -> Result<Option<Vec<u8>>> { Ok(None) }
///     // ...
/// }
/// let line = br#"{"type": "session", "version":0, "id":"s", "createdAt":1, "delegationDepth":0}"#;
/// let mut sink = Text(Vec::new());
/// dsh::read_log(&[&line[..], b"\n"].concat()[..], &Default::default(), &mut sink)?;
/// assert_eq!(sink.0, line);
/// # Ok::<(), everlog::Error>(())
/// ```
#[non_exhaustive]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImportHeader {
    /// What it says. The id is the one that the session gets, also where the file has a placeholder.
    pub view: HeaderView,
    /// The JSON text of the header, as it will be exported.
    pub text: Vec<u8>,
    /// Whether its `cwd` is a placeholder, so that no directory is known.
    pub placeholder_cwd: bool,
}

/// A header that was read before it is known whether the file is a projection.
#[derive(Debug)]
pub(super) struct PendingHeader {
    text: Vec<u8>,
    view: HeaderView,
    /// Place of the value of `id`.
    id: (usize, usize),
    line: u64,
}

impl PendingHeader {
    /// Checks a header line.
    ///
    /// # Errors
    /// `Corrupt` when it is no header, `Unsupported` for another version, `Invalid` when a value breaks a
    /// rule, `Limit` when it is too long or nested too deep.
    pub(super) fn read(text: &[u8], line: u64) -> Result<Self> {
        if text.len() > HEADER_BYTES_MAX {
            return Err(Error::limit("header", text.len() as u64, HEADER_BYTES_MAX as u64));
        }
        let view = check_header_template(text).map_err(refuse)?;
        let mut id = (0, 0);
        split_object(text, JSON_DEPTH_MAX, |key, value, at| {
            if *unescape(key) == *b"id" {
                id = (at, at + value.len());
            }
        })
        .map_err(|fault| refuse(Refusal::HeaderJson(fault)))?;
        Ok(Self { text: text.to_vec(), view, id, line })
    }

    /// Whether the id is a placeholder.
    pub(super) fn has_placeholder_id(&self) -> bool {
        let id = self.view.id.as_bytes();
        id.starts_with(b"{{") && id.ends_with(b"}}")
    }

    /// Whether the directory is a placeholder.
    pub(super) fn has_placeholder_cwd(&self) -> bool {
        self.view.cwd.as_ref().is_some_and(|cwd| cwd.starts_with(CWD_PLACEHOLDER))
    }

    /// The line it stands in.
    pub(super) fn line(&self) -> u64 {
        self.line
    }

    /// The header of a log whose events have seq and time, or of a projection, where placeholders
    /// are taken and `name` replaces one in the id.
    ///
    /// # Errors
    /// `Invalid` for a placeholder directory outside a projection.
    pub(super) fn finish(self, projection: bool, name: Option<&SessionId>) -> Result<ImportHeader> {
        let placeholder_cwd = self.has_placeholder_cwd();
        if placeholder_cwd && !projection {
            check_header(&self.text).map_err(refuse)?;
        }
        let rename = name.filter(|_| projection && self.has_placeholder_id());
        let Self { mut text, mut view, id, .. } = self;
        if let Some(name) = rename {
            let rest = text.split_off(id.1.min(text.len()));
            text.truncate(id.0);
            write_string(&mut text, name.as_bytes());
            text.extend_from_slice(&rest);
            view.id = name.clone();
        }
        Ok(ImportHeader { view, text, placeholder_cwd })
    }
}

/// The header text with another id, all else as it is. Of several `id` members all get it.
pub(crate) fn with_id(text: &[u8], id: &SessionId) -> Result<Vec<u8>> {
    let mut places = Vec::new();
    split_object(text, JSON_DEPTH_MAX, |key, value, at| {
        if *unescape(key) == *b"id" {
            places.push((at, at + value.len()));
        }
    })
    .map_err(|fault| refuse(Refusal::HeaderJson(fault)))?;
    let mut out = Vec::with_capacity(text.len() + id.as_bytes().len());
    let mut from = 0;
    for (start, end) in places {
        out.extend_from_slice(text.get(from..start).unwrap_or_default());
        write_string(&mut out, id.as_bytes());
        from = end;
    }
    out.extend_from_slice(text.get(from..).unwrap_or_default());
    Ok(out)
}

/// The error for a refused header. A line that is not even a header is damage, and no broken rule.
fn refuse(refusal: Refusal) -> Error {
    match &refusal {
        Refusal::HeaderJson(fault) => match fault.what {
            JsonFaultKind::Depth { .. } => too_deep(),
            _ => no_header(fault),
        },
        Refusal::Shape { field, .. } if matches!(&**field, "type" | "version") => {
            no_header(&format!("{field}: {refusal}"))
        }
        _ => refusal.header_error(),
    }
}

fn no_header(why: &dyn std::fmt::Display) -> Error {
    Error::corrupt(format!(
        "the first line is no session header: {why}; if this is a log of another tool, name its format"
    ))
    .with_field("header")
}

fn too_deep() -> Error {
    let what = format!("the header is nested deeper than {JSON_DEPTH_MAX}: flatten it");
    Error::new(ErrorKind::Limit, what).with_field("header")
}

/// Members of a new session's header (dsh-spec.md sections 1.2 and 8.3). Nothing is checked here; the reader checks it.
#[derive(Clone, Copy, Debug)]
pub struct NewHeader<'a> {
    /// Name of the session.
    pub id: &'a SessionId,
    /// When it was made, in Unix milliseconds, from 0 to 2^53 - 1.
    pub created_at_ms: u64,
    /// Absolute path of the directory it works in, as WTF-8.
    pub cwd: Option<&'a [u8]>,
    /// The session it was forked from.
    pub parent: Option<&'a SessionId>,
    /// How many leading events it has from there, 0 to 2^53 - 1.
    pub seed_length: Option<u64>,
    /// Whether it belongs to a subagent.
    pub subagent: bool,
    /// How deep it stands in a chain of delegations, 0 to 2^53 - 1; 0 for none.
    pub delegation_depth: u64,
    /// The preset of its agent, as WTF-8.
    pub agent_preset: Option<&'a [u8]>,
}

impl<'a> NewHeader<'a> {
    /// A header with nothing but what it must have. `created_at_ms`: Unix milliseconds, 0 to 2^53 - 1.
    ///
    /// ```
    /// let id = everlog::SessionId::new("s-7")?;
    /// let header = everlog::dsh::NewHeader::new(&id, 1);
    /// assert!(header.cwd.is_none() && header.delegation_depth == 0 && !header.subagent);
    /// # Ok::<(), everlog::Error>(())
    /// ```
    #[must_use]
    pub fn new(id: &'a SessionId, created_at_ms: u64) -> Self {
        Self {
            id,
            created_at_ms,
            cwd: None,
            parent: None,
            seed_length: None,
            subagent: false,
            delegation_depth: 0,
            agent_preset: None,
        }
    }

    /// The JSON text of the header, without a newline.
    ///
    /// ```
    /// use everlog::{SessionId, dsh::NewHeader};
    /// let id = SessionId::new("s-7")?;
    /// let mut header = NewHeader::new(&id, 1_700_000_000_000);
    /// header.cwd = Some(b"/w");
    /// let text = concat!(
    ///     r#"{"type":"session","version":0,"id":"s-7","createdAt":1700000000000,"#,
    ///     r#""cwd":"/w","delegationDepth":0}"#,
    /// );
    /// assert_eq!(header.to_text(), text.as_bytes());
    /// # Ok::<(), everlog::Error>(())
    /// ```
    #[must_use]
    pub fn to_text(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(192);
        out.extend_from_slice(b"{\"type\":\"session\",\"version\":0,\"id\":");
        write_string(&mut out, self.id.as_bytes());
        out.extend_from_slice(b",\"createdAt\":");
        push_u64(&mut out, self.created_at_ms);
        push_text(&mut out, "cwd", self.cwd);
        push_text(&mut out, "parentSession", self.parent.map(SessionId::as_bytes));
        if let Some(length) = self.seed_length {
            out.extend_from_slice(b",\"seedLength\":");
            push_u64(&mut out, length);
        }
        push_text(&mut out, "origin", self.subagent.then_some(b"subagent"));
        out.extend_from_slice(b",\"delegationDepth\":");
        push_u64(&mut out, self.delegation_depth);
        push_text(&mut out, "agentPreset", self.agent_preset);
        out.push(b'}');
        out
    }
}

fn push_text(out: &mut Vec<u8>, key: &str, value: Option<&[u8]>) {
    if let Some(value) = value {
        push_all(out, &[b",\"", key.as_bytes(), b"\":"]);
        write_string(out, value);
    }
}
