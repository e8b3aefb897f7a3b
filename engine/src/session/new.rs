//! The header of a session: made for a new one, read for a list.

use crate::accept::{HeaderView, check_header, check_header_template};
use crate::dsh::NewHeader;
use crate::error::{Error, Result};
use crate::handle::StoreInner;
use crate::index::Record;
use crate::limits;
use crate::types::{SessionId, SessionNo};

/// What a new session says of itself: its header (dsh-spec.md section 1.2), at most 1 MiB of JSON text. Values out of
/// range are refused when the session is made.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
/// use everlog::{NewSession, SessionId};
/// let new = NewSession::new("child")?
///     .with_created_at_ms(1_700_000_000_000)
///     .with_cwd("/work")
///     .with_parent(SessionId::new("agent-7")?, Some(12))
///     .with_subagent()
///     .with_delegation_depth(1)
///     .with_agent_preset("careful");
/// assert_eq!(new.id().as_str(), Some("child"));
/// let header = store.create_session(&new)?.header()?;
/// assert!(header.ends_with(br#""origin":"subagent","delegationDepth":1,"agentPreset":"careful"}"#));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewSession {
    id: SessionId,
    created_at_ms: Option<i64>,
    cwd: Option<Vec<u8>>,
    parent: Option<SessionId>,
    seed_length: Option<u64>,
    subagent: bool,
    delegation_depth: u64,
    agent_preset: Option<Vec<u8>>,
    text: Option<Vec<u8>>,
}

impl NewSession {
    /// A session of that id, with nothing else said.
    ///
    /// # Errors
    /// `Limit` when the id is empty or longer than 1,024 bytes.
    ///
    /// ```
    /// use everlog::{ErrorKind, NewSession};
    /// assert_eq!(NewSession::new("").map(|_| ()).map_err(|e| e.kind()), Err(ErrorKind::Limit));
    /// ```
    pub fn new(id: &str) -> Result<Self> {
        Ok(Self::with_id(SessionId::new(id)?))
    }

    /// A session of that id, which may hold lone surrogates.
    ///
    /// ```
    /// use everlog::{NewSession, SessionId};
    /// let lone = SessionId::from_wtf8(b"\xed\xa0\x80")?;
    /// assert_eq!(NewSession::with_id(lone.clone()).id(), &lone);
    /// # Ok::<(), everlog::Error>(())
    /// ```
    #[must_use]
    pub fn with_id(id: SessionId) -> Self {
        Self {
            id,
            created_at_ms: None,
            cwd: None,
            parent: None,
            seed_length: None,
            subagent: false,
            delegation_depth: 0,
            agent_preset: None,
            text: None,
        }
    }

    /// A session whose header is this JSON text, kept exactly.
    ///
    /// # Errors
    /// `Invalid` when it is no header or breaks a rule, `Unsupported` for another version, `Limit`.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
    /// let line = br#"{"type":"session", "version":0, "id":"a", "createdAt":1, "delegationDepth":0}"#;
    /// let writer = store.create_session(&everlog::NewSession::from_header_line(line)?)?;
    /// assert_eq!(writer.header()?, line);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn from_header_line(text: &[u8]) -> Result<Self> {
        let view = check_header(text).map_err(|r| r.header_error())?;
        Self::from_view(&view, text)
    }

    pub(crate) fn from_view(view: &HeaderView, text: &[u8]) -> Result<Self> {
        let mut new = Self::with_id(view.id.clone());
        new.created_at_ms = i64::try_from(view.created_at_ms).ok();
        new.text = Some(text.to_vec());
        Ok(new)
    }

    /// Name of the session.
    #[must_use]
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// Another name for the session; the text of the header must carry it already.
    pub(crate) fn rename(&mut self, id: SessionId) {
        self.id = id;
    }

    pub(crate) fn created_at_ms(&self) -> Option<i64> {
        self.created_at_ms
    }

    /// When it was made, in Unix milliseconds, 0 to 2^53 - 1; the store's clock without this.
    #[must_use]
    pub fn with_created_at_ms(mut self, ms: i64) -> Self {
        self.created_at_ms = Some(ms);
        self
    }

    /// Directory that the agent works in: a path that is absolute on Unix or Windows. It need not exist.
    #[must_use]
    pub fn with_cwd(mut self, cwd: &str) -> Self {
        self.cwd = Some(cwd.as_bytes().to_vec());
        self
    }

    /// [`NewSession::with_cwd`] for WTF-8.
    pub(crate) fn with_cwd_bytes(mut self, cwd: &[u8]) -> Self {
        self.cwd = Some(cwd.to_vec());
        self
    }

    /// The session that this one goes on from, which need not be in the store, and how many leading events it has from
    /// there, 0 to 2^53 - 1. Nothing is copied.
    #[must_use]
    pub fn with_parent(mut self, parent: SessionId, seed_length: Option<u64>) -> Self {
        self.parent = Some(parent);
        self.seed_length = seed_length;
        self
    }

    /// Says that a subagent writes it.
    #[must_use]
    pub fn with_subagent(mut self) -> Self {
        self.subagent = true;
        self
    }

    /// How deep it stands in a chain of delegations, 0 to 2^53 - 1; 0 without this.
    #[must_use]
    pub fn with_delegation_depth(mut self, depth: u64) -> Self {
        self.delegation_depth = depth;
        self
    }

    /// Name of the agent's preset.
    #[must_use]
    pub fn with_agent_preset(mut self, preset: &str) -> Self {
        self.agent_preset = Some(preset.as_bytes().to_vec());
        self
    }

    /// The header's JSON text, checked.
    pub(crate) fn header_text(&self, now_ms: i64) -> Result<Vec<u8>> {
        if let Some(text) = &self.text {
            return Ok(text.clone());
        }
        let created = self.created_at_ms.unwrap_or(now_ms);
        let created = u64::try_from(created)
            .ok()
            .filter(|c| *c <= limits::SAFE_INTEGER_MAX)
            .ok_or_else(|| Error::invalid("createdAt", "it must be 0 or more, in milliseconds"))?;
        let mut header = NewHeader::new(&self.id, created);
        header.cwd = self.cwd.as_deref();
        header.parent = self.parent.as_ref();
        header.seed_length = self.seed_length;
        header.subagent = self.subagent;
        header.delegation_depth = self.delegation_depth;
        header.agent_preset = self.agent_preset.as_deref();
        let text = header.to_text();
        if text.len() > limits::HEADER_BYTES_MAX {
            let max = limits::HEADER_BYTES_MAX as u64;
            return Err(Error::limit("header", text.len() as u64, max));
        }
        check_header(&text).map_err(|r| r.header_error())?;
        Ok(text)
    }
}

/// One line of the list of sessions, as [`Store::sessions`](crate::Store::sessions) gives it.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
/// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
/// writer.append(&everlog::NewEvent::new("note", b"1").with_time_ms(9))?;
/// let list = store.sessions()?;
/// assert_eq!((list[0].id.as_str(), list[0].events, list[0].updated_ms), (Some("a"), 1, 9));
/// assert!(list[0].bytes > 0 && list[0].cwd.is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[non_exhaustive]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionInfo {
    /// Name of the session.
    pub id: SessionId,
    /// Its number in this store.
    pub no: SessionNo,
    /// When it was made, in Unix milliseconds.
    pub created_ms: i64,
    /// Time of its last event, or when it was made; Unix milliseconds.
    pub updated_ms: i64,
    /// Events in it.
    pub events: u64,
    /// Bytes of its frames' payloads.
    pub bytes: u64,
    /// Exact JSON text of its header.
    pub header: Vec<u8>,
    /// Directory it works in, as WTF-8.
    pub cwd: Option<Vec<u8>>,
    /// The session it goes on from, as WTF-8.
    pub parent_session: Option<Vec<u8>>,
    /// How many leading events it has from there.
    pub seed_length: Option<u64>,
}

impl SessionInfo {
    pub(crate) fn read(store: &StoreInner, r: &Record) -> Result<Self> {
        let header = store.header_at(r.created, r.no).map_err(|e| e.with_session(&r.id))?;
        let view = check_header_template(&header).ok();
        Ok(Self {
            id: r.id.clone(),
            no: r.no,
            created_ms: r.created_ms,
            updated_ms: r.updated_ms,
            events: r.end_seq(),
            bytes: r.bytes,
            cwd: view.as_ref().and_then(|v| v.cwd.as_deref()).map(<[u8]>::to_vec),
            parent_session: view
                .as_ref()
                .and_then(|v| v.parent_session.as_deref())
                .map(<[u8]>::to_vec),
            seed_length: view.as_ref().and_then(|v| v.seed_length),
            header,
        })
    }
}
