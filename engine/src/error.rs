//! The one error type: opaque, with a kind that the caller can act on and the facts as data.
//!
//! # Invariants
//! E1. A new kind exists only where a caller would do something else.
//! E2. A message says what is wrong and what to do; it never holds event data.
//! E3. Path, offset, session, seq and line are fields, never only text.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::types::{LaneNo, Seq, SessionId, SessionNo};

/// Result of every call of this crate.
///
/// ```
/// fn first(bytes: &[u8]) -> everlog::Result<everlog::SessionId> {
///     everlog::SessionId::from_wtf8(bytes)
/// }
/// assert!(first(b"s-7").is_ok());
/// ```
pub type Result<T> = std::result::Result<T, Error>;

/// What the caller can do about an error.
///
/// ```
/// use everlog::{ErrorKind, Store, StoreOptions};
/// match Store::open("/nowhere/at/all", StoreOptions::default()) {
///     Err(e) if e.kind() == ErrorKind::NotFound => assert_eq!(e.kind().name(), "not-found"),
///     other => panic!("{other:?}"),
/// }
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum ErrorKind {
    /// The call is wrong: fix the argument named in the message.
    Invalid,
    /// A limit of this store was passed: make the input smaller or raise the limit.
    Limit,
    /// There is no such store, session or event: check the name.
    NotFound,
    /// The store or session is there already: open it, or take another name.
    Exists,
    /// Another writer holds the session or the store: wait, or ask the holder in [`Error::holder`].
    Locked,
    /// `expected_seq` was not the next seq: read what was added, then decide again.
    Conflict,
    /// Stored bytes do not match their checksum or break an invariant: run `check`; the rest stays readable.
    Corrupt,
    /// Two writers' events claim one seq of a session: nothing is chosen; run `check` and recover by hand.
    Diverged,
    /// Written by a newer or foreign format: use the program that wrote it. Nothing was touched.
    Unsupported,
    /// A view met an event of a type that it does not know and may not step over: use a program that knows it, or say
    /// that such types be stepped over.
    UnknownType,
    /// A turn is open where a session is to be forked: choose another boundary, or have the turn closed in the child.
    OpenTurn,
    /// The disk is full: free space and call again; nothing was accepted.
    StorageFull,
    /// Reading or writing failed: see the source; nothing more was accepted.
    Io,
    /// An earlier write or sync failed, so this handle accepts no more: open the store again.
    Poisoned,
    /// A write or sync failed while this call waited: the events may or may not be stored. Open the store again and look.
    OutcomeUnknown,
    /// The handle was made before `fork(2)` and is used in the child: open the store in the child.
    ForkedHandle,
    /// The handle is read only or was closed: open the store for writing.
    ReadOnly,
    /// Files or folders are open to other users: see the message for the mode to set.
    InsecurePermissions,
    /// What a cursor or a follower stands on is not in the log: a recovery dropped it, or it is another log. Begin again
    /// from a position that you trust.
    Void,
}

impl ErrorKind {
    /// Stable name of the kind, as machine-readable output prints it: lower case, words joined by `-`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::Limit => "limit",
            Self::NotFound => "not-found",
            Self::Exists => "exists",
            Self::Locked => "locked",
            Self::Conflict => "conflict",
            Self::Corrupt => "corrupt",
            Self::Diverged => "diverged",
            Self::Unsupported => "unsupported",
            Self::UnknownType => "unknown-type",
            Self::OpenTurn => "open-turn",
            Self::StorageFull => "storage-full",
            Self::Io => "io",
            Self::Poisoned => "poisoned",
            Self::OutcomeUnknown => "outcome-unknown",
            Self::ForkedHandle => "forked-handle",
            Self::ReadOnly => "read-only",
            Self::InsecurePermissions => "insecure-permissions",
            Self::Void => "void",
        }
    }
}

/// Who holds a lock, as far as it is known: for people, never to decide on (format.md section 8).
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
/// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
/// use everlog::{ErrorKind, Store, StoreOptions};
/// let other = Store::open(folder.path().join("s"), StoreOptions::default())?;
/// let refused = other.writer(writer.id()).unwrap_err();
/// assert_eq!(refused.kind(), ErrorKind::Locked);
/// assert_eq!(refused.holder().map(|h| h.pid), Some(std::process::id()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Holder {
    /// Process id, as the holder wrote it; 0 when it is not known.
    pub pid: u32,
    /// Host name, as the holder wrote it.
    pub host: String,
    /// When the lock was taken, in Unix milliseconds.
    pub since_ms: i64,
    /// Label that the holder gave when it opened the store.
    pub label: String,
    /// The holder's lane.
    pub lane: LaneNo,
}

/// The facts of an error. Boxed, so that `Result` stays small.
#[derive(Debug, Default, Clone)]
pub(crate) struct Facts {
    pub(crate) path: Option<PathBuf>,
    pub(crate) offset: Option<u64>,
    pub(crate) line: Option<u64>,
    pub(crate) field: Option<String>,
    pub(crate) session: Option<SessionId>,
    pub(crate) session_no: Option<SessionNo>,
    pub(crate) seq: Option<Seq>,
    pub(crate) expected: Option<u64>,
    pub(crate) holder: Option<Holder>,
    pub(crate) os_code: Option<i32>,
}

/// An error of this crate: see [`Error::kind`] for what to do about it. The facts are fields; which of them are
/// there depends on what went wrong. `Display` gives the message and the facts, with all that could act on a
/// terminal escaped; neither ever holds event data.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
/// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
/// use everlog::{ErrorKind, Level, NewEvent};
/// let bad = writer.append(&NewEvent::new("note", b"{broken")).unwrap_err();
/// assert_eq!((bad.kind(), bad.field(), bad.seq()), (ErrorKind::Invalid, Some("data"), Some(0)));
/// assert_eq!(bad.session(), Some(writer.id()));
/// assert!(bad.to_string().starts_with(bad.message()));
///
/// let late = writer.append_expecting(7, &[NewEvent::new("note", b"1")], Level::Os).unwrap_err();
/// assert_eq!((late.kind(), late.expected()), (ErrorKind::Conflict, Some(0)));
///
/// let none = everlog::Store::open("/nowhere/at/all", Default::default()).unwrap_err();
/// assert_eq!(none.path(), Some(std::path::Path::new("/nowhere/at/all")));
/// assert!(none.offset().is_none() && none.line().is_none() && none.session_no().is_none());
/// assert!(none.holder().is_none() && none.os_code().is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Error {
    kind: ErrorKind,
    message: Box<str>,
    facts: Box<Facts>,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into().into_boxed_str(), facts: Box::default() }
    }

    /// A wrong argument or input: `field` names the place, `reason` what is wrong and what would be right.
    pub(crate) fn invalid(field: impl Into<String>, reason: impl fmt::Display) -> Self {
        let field = field.into();
        let mut err = Self::new(ErrorKind::Invalid, format!("invalid {field}: {reason}"));
        err.facts.field = Some(field);
        err
    }

    /// A value over a limit.
    pub(crate) fn limit(field: impl Into<String>, found: u64, max: u64) -> Self {
        let field = field.into();
        let mut err =
            Self::new(ErrorKind::Limit, format!("{field} has size {found}, allowed is 1 to {max}"));
        err.facts.field = Some(field);
        err
    }

    /// A failed call of the operating system. `what` names the call and its object.
    pub(crate) fn io(what: impl fmt::Display, source: &std::io::Error) -> Self {
        let kind = match source.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                ErrorKind::StorageFull
            }
            std::io::ErrorKind::NotFound => ErrorKind::NotFound,
            std::io::ErrorKind::AlreadyExists => ErrorKind::Exists,
            _ => ErrorKind::Io,
        };
        let mut err = match source.raw_os_error() {
            Some(libc::EMFILE | libc::ENFILE) => Self::new(
                kind,
                format!(
                    "{what}: too many open files; close some, or raise the limit (`ulimit -n`). Nothing is damaged"
                ),
            ),
            _ => Self::new(kind, format!("{what}: {source}")),
        };
        err.facts.os_code = source.raw_os_error();
        err
    }

    /// Damage in stored bytes.
    pub(crate) fn corrupt(what: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corrupt, what)
    }

    pub(crate) fn with_path(mut self, path: impl AsRef<Path>) -> Self {
        self.facts.path = Some(path.as_ref().to_path_buf());
        self
    }

    pub(crate) fn with_offset(mut self, offset: u64) -> Self {
        self.facts.offset = Some(offset);
        self
    }

    pub(crate) fn with_line(mut self, line: u64) -> Self {
        self.facts.line = Some(line);
        self
    }

    pub(crate) fn with_field(mut self, field: impl Into<String>) -> Self {
        self.facts.field = Some(field.into());
        self
    }

    pub(crate) fn with_session(mut self, id: &SessionId) -> Self {
        self.facts.session = Some(id.clone());
        self
    }

    pub(crate) fn with_session_no(mut self, no: SessionNo) -> Self {
        self.facts.session_no = Some(no);
        self
    }

    pub(crate) fn with_seq(mut self, seq: Seq) -> Self {
        self.facts.seq = Some(seq);
        self
    }

    pub(crate) fn with_expected(mut self, expected: u64) -> Self {
        self.facts.expected = Some(expected);
        self
    }

    pub(crate) fn with_holder(mut self, holder: Holder) -> Self {
        self.facts.holder = Some(holder);
        self
    }

    pub(crate) fn with_kind(mut self, kind: ErrorKind) -> Self {
        self.kind = kind;
        self
    }

    /// An I/O error for implementations of [`Vfs`](crate::vfs::Vfs) outside this crate. `what` names the call and its
    /// object. The kind is `StorageFull`, `NotFound` or `Exists` where the source says so, else `Io`.
    ///
    /// ```
    /// use everlog::{Error, ErrorKind};
    /// let e = Error::from_io("open lanes/0000", &std::io::Error::from_raw_os_error(28));
    /// assert_eq!((e.kind(), e.os_code()), (ErrorKind::StorageFull, Some(28)));
    /// ```
    #[must_use]
    pub fn from_io(what: &str, source: &std::io::Error) -> Self {
        Self::io(what, source)
    }

    /// An error of a kind that no code of the operating system stands for, for implementations of
    /// [`Vfs`](crate::vfs::Vfs) outside this crate.
    ///
    /// ```
    /// use everlog::{Error, ErrorKind};
    /// let e = Error::of_kind(ErrorKind::InsecurePermissions, "two names");
    /// assert_eq!((e.kind(), e.message()), (ErrorKind::InsecurePermissions, "two names"));
    /// ```
    #[must_use]
    pub fn of_kind(kind: ErrorKind, what: &str) -> Self {
        Self::new(kind, what)
    }

    /// What the caller can do.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The message without the facts that have fields of their own.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// File or folder concerned.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.facts.path.as_deref()
    }

    /// Byte offset in that file, or in the input of an import.
    #[must_use]
    pub fn offset(&self) -> Option<u64> {
        self.facts.offset
    }

    /// Line of an imported text, counted from 1.
    #[must_use]
    pub fn line(&self) -> Option<u64> {
        self.facts.line
    }

    /// Field, option or limit concerned.
    #[must_use]
    pub fn field(&self) -> Option<&str> {
        self.facts.field.as_deref()
    }

    /// Session concerned.
    #[must_use]
    pub fn session(&self) -> Option<&SessionId> {
        self.facts.session.as_ref()
    }

    /// Number of the session concerned, where its name is not known.
    #[must_use]
    pub fn session_no(&self) -> Option<SessionNo> {
        self.facts.session_no
    }

    /// Event of that session.
    #[must_use]
    pub fn seq(&self) -> Option<Seq> {
        self.facts.seq
    }

    /// For [`ErrorKind::Conflict`]: the next seq of the session.
    #[must_use]
    pub fn expected(&self) -> Option<u64> {
        self.facts.expected
    }

    /// For [`ErrorKind::Locked`]: who holds the lock.
    #[must_use]
    pub fn holder(&self) -> Option<&Holder> {
        self.facts.holder.as_ref()
    }

    /// Error number of the operating system.
    #[must_use]
    pub fn os_code(&self) -> Option<i32> {
        self.facts.os_code
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(path) = &self.facts.path {
            f.write_str(" path=")?;
            crate::types::write_escaped(f, path.as_os_str().as_encoded_bytes())?;
        }
        if let Some(line) = self.facts.line {
            write!(f, " line={line}")?;
        }
        if let Some(offset) = self.facts.offset {
            write!(f, " offset={offset}")?;
        }
        if let Some(id) = &self.facts.session {
            write!(f, " session={id:?}")?;
        } else if let Some(no) = self.facts.session_no {
            write!(f, " session={no:?}")?;
        }
        if let Some(seq) = self.facts.seq {
            write!(f, " seq={seq}")?;
        }
        if let Some(h) = &self.facts.holder {
            write!(f, " pid={} since_ms={} host=", h.pid, h.since_ms)?;
            crate::types::write_escaped(f, h.host.as_bytes())?;
            f.write_str(" label=")?;
            crate::types::write_escaped(f, h.label.as_bytes())?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.kind)
    }
}

impl std::error::Error for Error {}
