//! The domain value: one event of a session, with its `data` as exact JSON text.
//!
//! # Invariants
//! V1. `data` is one valid JSON value exactly as it was written; nothing in this crate rewrites it.
//! V2. The type is WTF-8: a string of UTF-16 units, lone surrogates included.
//! V3. `surface_op` and `sources` are present only on the three surface types (accept rules; not checked here).
//!
//! # Units
//! `seq`: events from 0. `time_ms`: Unix milliseconds, signed, not monotonic.

use std::borrow::Cow;

use crate::types::Seq;

/// How a surface event changes the surface (dsh-spec.md section 4.1). The three surface types `user/message`,
/// `assistant/message` and `tool/result` must carry one; no other type may.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
/// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
/// use everlog::{NewEvent, SurfaceOp};
/// let text = br#"{"id":"m","role":"user","source":{"kind":"human"},"content":[]}"#;
/// let hi = NewEvent::new("user/message", text).with_surface_op(SurfaceOp::Append);
/// writer.append(&hi)?;
/// let instead = hi.with_surface_op(SurfaceOp::Replace { start: 0, end: 0 }).with_sources(vec![0]);
/// writer.append(&instead)?;
/// assert_eq!(writer.surface().iter().collect::<Vec<_>>(), [1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum SurfaceOp {
    /// Puts the event at the tail.
    Append,
    /// Puts the event in the place of the nodes from `start` to `end`, both inclusive.
    Replace {
        /// Seq of the first node that is replaced.
        start: Seq,
        /// Seq of the last node that is replaced.
        end: Seq,
    },
}

/// An event as a caller appends it: the store gives it its seq, and checks it when it is appended (dsh-spec.md
/// sections 2.1 and 4).
///
/// ```
/// use everlog::{NewEvent, SurfaceOp};
/// let event = NewEvent::new("assistant/message", b"{}")
///     .with_surface_op(SurfaceOp::Append)
///     .with_sources(vec![3, 4])
///     .with_time_ms(1_700_000_000_000)
///     .with_ignorable();
/// assert_eq!(&event.event_type[..], b"assistant/message");
/// assert_eq!(event.sources.as_deref(), Some(&[3, 4][..]));
/// assert!(event.ignorable && !event.surface_first);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewEvent<'a> {
    /// Event type as WTF-8 bytes, at most 1,024 of them.
    pub event_type: Cow<'a, [u8]>,
    /// JSON text of the data, stored exactly so: one value, 1 byte to `event_bytes_max` (48 MiB) long.
    pub data: Cow<'a, [u8]>,
    /// Time in Unix milliseconds, -(2^53 - 1) to 2^53 - 1; the store's clock when absent.
    pub time_ms: Option<i64>,
    /// Marker of a surface event.
    pub surface_op: Option<SurfaceOp>,
    /// Seqs that the event cites: earlier ones, each once (dsh-spec.md section 4.2).
    pub sources: Option<Cow<'a, [Seq]>>,
    /// Whether readers that do not know the type may step over the event.
    pub ignorable: bool,
    /// Whether an exported line has `surfaceOp` before `sourceEventSeqs`.
    pub surface_first: bool,
}

impl<'a> NewEvent<'a> {
    /// An event without surface marks, at the time of the append.
    #[must_use]
    pub fn new(event_type: &'a str, data: &'a [u8]) -> Self {
        Self {
            event_type: Cow::Borrowed(event_type.as_bytes()),
            data: Cow::Borrowed(data),
            time_ms: None,
            surface_op: None,
            sources: None,
            ignorable: false,
            surface_first: false,
        }
    }

    /// The same event with a surface marker, which the three surface types must have.
    #[must_use]
    pub fn with_surface_op(mut self, op: SurfaceOp) -> Self {
        self.surface_op = Some(op);
        self
    }

    /// The same event with citations: seqs of earlier events, in any order, each once (dsh-spec.md section 4.2).
    #[must_use]
    pub fn with_sources(mut self, sources: impl Into<Cow<'a, [Seq]>>) -> Self {
        self.sources = Some(sources.into());
        self
    }

    /// The same event at a time of the caller's, in Unix milliseconds, -(2^53 - 1) to 2^53 - 1.
    #[must_use]
    pub fn with_time_ms(mut self, time_ms: i64) -> Self {
        self.time_ms = Some(time_ms);
        self
    }

    /// The same event, marked so that readers may step over it.
    #[must_use]
    pub fn with_ignorable(mut self) -> Self {
        self.ignorable = true;
        self
    }
}

impl NewEvent<'_> {
    /// The same event with bytes of its own.
    ///
    /// ```
    /// let text = br#"{"turn":1}"#.to_vec();
    /// let event: everlog::NewEvent<'static> = everlog::NewEvent::new("turn/start", &text).into_owned();
    /// drop(text);
    /// assert_eq!(event.data[..], br#"{"turn":1}"#[..]);
    /// ```
    #[must_use]
    pub fn into_owned(self) -> NewEvent<'static> {
        NewEvent {
            event_type: Cow::Owned(self.event_type.into_owned()),
            data: Cow::Owned(self.data.into_owned()),
            time_ms: self.time_ms,
            surface_op: self.surface_op,
            sources: self.sources.map(|s| Cow::Owned(s.into_owned())),
            ignorable: self.ignorable,
            surface_first: self.surface_first,
        }
    }
}

/// A stored event, borrowed from the frame that holds it, as [`Session::with`](crate::Session::with) gives it.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
/// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
/// writer.append(&everlog::NewEvent::new("note", b"[1]").with_time_ms(5))?;
/// let event = writer.with(0, &mut |e| {
///     assert_eq!((e.seq, e.time_ms, e.event_type, e.data), (0, 5, &b"note"[..], &b"[1]"[..]));
///     e.to_owned()
/// })?;
/// assert_eq!(&event.data[..], b"[1]");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventRef<'a> {
    /// Position in the session.
    pub seq: Seq,
    /// Unix milliseconds.
    pub time_ms: i64,
    /// Event type as WTF-8 bytes.
    pub event_type: &'a [u8],
    /// Exact JSON text of the data.
    pub data: &'a [u8],
    /// Marker of a surface event.
    pub surface_op: Option<SurfaceOp>,
    /// Seqs that the event cites.
    pub sources: Option<Cow<'a, [Seq]>>,
    /// Whether readers that do not know the type may step over the event.
    pub ignorable: bool,
    /// Whether the line had `surfaceOp` before `sourceEventSeqs`.
    pub surface_first: bool,
}

impl EventRef<'_> {
    /// Tells two events of one place apart: a checksum of what was stored.
    pub(crate) fn mark(&self) -> u32 {
        let mut sum = crc32fast::Hasher::new();
        sum.update(&self.seq.to_le_bytes());
        sum.update(&self.time_ms.to_le_bytes());
        sum.update(self.event_type);
        sum.update(self.data);
        sum.finalize()
    }

    /// A copy that owns its bytes.
    #[must_use]
    pub fn to_owned(&self) -> Event {
        Event {
            seq: self.seq,
            time_ms: self.time_ms,
            event_type: self.event_type.into(),
            data: self.data.into(),
            surface_op: self.surface_op,
            sources: self.sources.as_deref().map(Into::into),
            ignorable: self.ignorable,
            surface_first: self.surface_first,
        }
    }
}

/// A stored event that owns its bytes.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
/// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
/// writer.append(&everlog::NewEvent::new("note", br#"{"a": 1}"#))?;
/// let event = writer.read(0)?;
/// assert_eq!((event.seq, &event.data[..]), (0, &br#"{"a": 1}"#[..]));
/// let mut line = Vec::new();
/// everlog::dsh::write_event(&mut line, &event.as_ref())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// Position in the session.
    pub seq: Seq,
    /// Unix milliseconds.
    pub time_ms: i64,
    /// Event type as WTF-8 bytes.
    pub event_type: Box<[u8]>,
    /// Exact JSON text of the data.
    pub data: Box<[u8]>,
    /// Marker of a surface event.
    pub surface_op: Option<SurfaceOp>,
    /// Seqs that the event cites.
    pub sources: Option<Box<[Seq]>>,
    /// Whether readers that do not know the type may step over the event.
    pub ignorable: bool,
    /// Whether the line had `surfaceOp` before `sourceEventSeqs`.
    pub surface_first: bool,
}

impl Event {
    /// The same event, borrowed.
    #[must_use]
    pub fn as_ref(&self) -> EventRef<'_> {
        EventRef {
            seq: self.seq,
            time_ms: self.time_ms,
            event_type: &self.event_type,
            data: &self.data,
            surface_op: self.surface_op,
            sources: self.sources.as_deref().map(Cow::Borrowed),
            ignorable: self.ignorable,
            surface_first: self.surface_first,
        }
    }
}
