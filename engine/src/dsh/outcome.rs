//! What an import says about its input when it went in.
//!
//! # Invariants
//! O1. There is at most one warning of a kind; it counts the places and names the first.
//!
//! # Units
//! `offset`, bytes of torn tails: as [`Place`] says. `line`: lines from 1.

use std::fmt;

use super::aside::LineRange;
use crate::Seq;

/// What an offset counts.
///
/// ```
/// use everlog::dsh;
/// # use everlog::{NewEvent, Result, Seq};
/// # struct Nowhere;
/// # impl dsh::ImportSink for Nowhere {
/// #     fn header(&mut self, _: &dsh::ImportHeader) -> Result<()> { Ok(()) }
/// #     fn event(&mut self, _: NewEvent<'_>, _: Seq, _: u64) -> Result<()> { Ok(()) }
/// #     fn tool_result_data(&mut self, _: Seq) -> Result<Option<Vec<u8>>> { Ok(None) }
/// # }
/// # let header = r#"{"type":"session","version":0,"id":"s","createdAt":1,"delegationDepth":0}"#;
/// let mut log = Vec::new();
/// dsh::FrameWriter::new()?.frame(format!("{header}\n").as_bytes(), &mut log)?;
/// log.extend_from_slice(&[0x28, 0xB5]); // the next frame, cut
/// let outcome = dsh::read_log(&log[..], &Default::default(), &mut Nowhere)?;
/// let torn = outcome.warnings.iter().find_map(|warning| warning.torn).unwrap();
/// assert_eq!((torn.place, torn.offset, torn.bytes), (dsh::Place::Compressed, log.len() as u64 - 2, 2));
/// # Ok::<(), everlog::Error>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Bytes of the text; of the decompressed text, when the input is compressed.
    Text,
    /// Bytes of a compressed input.
    Compressed,
}

/// Bytes at the end of the input that hold no whole event (dsh-spec.md section 8.6). They were left out, unless `kept`.
///
/// ```
/// use everlog::dsh;
/// # use everlog::{NewEvent, Result, Seq};
/// # struct Nowhere;
/// # impl dsh::ImportSink for Nowhere {
/// #     fn header(&mut self, _: &dsh::ImportHeader) -> Result<()> { Ok(()) }
/// #     fn event(&mut self, _: NewEvent<'_>, _: Seq, _: u64) -> Result<()> { Ok(()) }
/// #     fn tool_result_data(&mut self, _: Seq) -> Result<Option<Vec<u8>>> { Ok(None) }
/// # }
/// # let header = r#"{"type":"session","version":0,"id":"s","createdAt":1,"delegationDepth":0}"#;
/// let log = format!("{header}\n\0\0\0");
/// let outcome = dsh::read_log(log.as_bytes(), &Default::default(), &mut Nowhere)?;
/// let torn: dsh::TornTail = outcome.warnings[0].torn.unwrap();
/// assert_eq!((torn.bytes, torn.line, torn.nul), (3, 2, true));
/// assert!(torn.to_string().starts_with("3 NUL bytes after the last record"));
/// # Ok::<(), everlog::Error>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TornTail {
    /// Offset of the first of them.
    pub offset: u64,
    /// How many there are.
    pub bytes: u64,
    /// What the two count.
    pub place: Place,
    /// Line in which they start; for a compressed input, the last line that began before them.
    pub line: u64,
    /// Whether they are nothing but NUL.
    pub nul: bool,
    /// Whether they were kept as an event `everlog/salvaged`.
    pub kept: bool,
}

/// Kinds of [`Warning`].
///
/// ```
/// assert_eq!(everlog::dsh::WarningKind::TornTail.name(), "torn-tail");
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum WarningKind {
    /// The file starts with a byte order mark, which was stepped over.
    ByteOrderMark,
    /// Lines are empty or hold only whitespace and were stepped over.
    BlankLine,
    /// Lines end in CR LF; exported ones end in LF.
    CarriageReturn,
    /// The end of the file holds no whole event and was left out.
    TornTail,
    /// The file is a projection: seq and time were given by position.
    Projection,
    /// The directory in the header is a placeholder, which counts as absolute.
    PlaceholderDirectory,
    /// The id in the header is a placeholder; the name of the file takes its place, if there is one.
    PlaceholderId,
    /// No header holds: the session has the id that the first line names, or the name of the file.
    HeaderMade,
    /// The input holds no event.
    Empty,
}

/// Something about the input that the user should know; it went in all the same. `Display` says it in a sentence.
///
/// ```
/// use everlog::dsh;
/// # use everlog::{NewEvent, Result, Seq};
/// # struct Nowhere;
/// # impl dsh::ImportSink for Nowhere {
/// #     fn header(&mut self, _: &dsh::ImportHeader) -> Result<()> { Ok(()) }
/// #     fn event(&mut self, _: NewEvent<'_>, _: Seq, _: u64) -> Result<()> { Ok(()) }
/// #     fn tool_result_data(&mut self, _: Seq) -> Result<Option<Vec<u8>>> { Ok(None) }
/// # }
/// # let header = r#"{"type":"session","version":0,"id":"s","createdAt":1,"delegationDepth":0}"#;
/// let log = format!("{header}\n\n\n");
/// let outcome = dsh::read_log(log.as_bytes(), &Default::default(), &mut Nowhere)?;
/// let blank = &outcome.warnings[0];
/// assert_eq!((blank.kind, blank.line, blank.count), (dsh::WarningKind::BlankLine, 2, 2));
/// assert_eq!(blank.to_string(), "2 blank lines were stepped over, the first is line 2");
/// # Ok::<(), everlog::Error>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Warning {
    /// What it is.
    pub kind: WarningKind,
    /// Line where it was met first, from 1.
    pub line: u64,
    /// How often it was met; for a torn tail, its bytes.
    pub count: u64,
    /// For a torn tail, where it is.
    pub torn: Option<TornTail>,
}

impl WarningKind {
    /// Stable name of the kind, for machines.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ByteOrderMark => "byte-order-mark",
            Self::BlankLine => "blank-line",
            Self::CarriageReturn => "carriage-return",
            Self::TornTail => "torn-tail",
            Self::Projection => "projection",
            Self::PlaceholderDirectory => "placeholder-cwd",
            Self::PlaceholderId => "placeholder-id",
            Self::HeaderMade => "header-made",
            Self::Empty => "empty",
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, count, .. } = self;
        match (self.kind, self.torn) {
            (WarningKind::ByteOrderMark, _) => {
                write!(f, "a byte order mark at the start was stepped over")
            }
            (WarningKind::BlankLine, _) => {
                write!(f, "{count} blank lines were stepped over, the first is line {line}")
            }
            (WarningKind::CarriageReturn, _) => write!(
                f,
                "{count} lines end in CR LF, the first is line {line}; exported lines end in LF"
            ),
            (WarningKind::TornTail, Some(torn)) => torn.fmt(f),
            (WarningKind::TornTail, None) => write!(f, "{count} bytes at the end were left out"),
            (WarningKind::Projection, _) => {
                write!(
                    f,
                    "the events have no seq and time; their place gives seq, time starts at 0"
                )
            }
            (WarningKind::PlaceholderDirectory, _) => {
                write!(f, "cwd is a placeholder and counts as an absolute path")
            }
            (WarningKind::PlaceholderId, _) => {
                write!(f, "the session id is a placeholder; the file name is taken if there is one")
            }
            (WarningKind::Empty, _) => write!(f, "the input is empty, and so is the session"),
            (WarningKind::HeaderMade, _) => {
                write!(f, "there is no session header that holds; the session got one of its own")
            }
        }
    }
}

impl fmt::Display for TornTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { offset, bytes, line, .. } = self;
        let done = if self.kept { "kept aside" } else { "left out" };
        match (self.place, self.nul) {
            (Place::Text, true) => write!(
                f,
                "{bytes} NUL bytes after the last record (line {line}, offset {offset}) were {done}"
            ),
            (Place::Text, false) => write!(
                f,
                "{bytes} bytes at the end hold no whole event (line {line}, offset {offset}) and were \
                 {done}"
            ),
            (Place::Compressed, _) => write!(
                f,
                "the last {bytes} bytes (offset {offset}) hold no whole zstd frame; what they decode \
                 to is kept up to its last whole event"
            ),
        }
    }
}

/// What [`read_log`](super::read_log) read.
///
/// ```
/// use everlog::{NewEvent, Result, Seq, dsh};
///
/// /// Takes everything, keeps nothing.
/// struct Nowhere;
/// impl dsh::ImportSink for Nowhere {
///     fn header(&mut self, _: &dsh::ImportHeader) -> Result<()> {
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
/// let header = r#"{"type":"session","version":0,"id":"s","createdAt":1,"delegationDepth":0}"#;
/// let text = format!("{header}\r\n{{\"type\"");
/// let outcome = dsh::read_log(text.as_bytes(), &Default::default(), &mut Nowhere)?;
/// assert_eq!((outcome.events, outcome.lines, outcome.torn_bytes), (0, 2, 7));
/// assert!(!outcome.compressed && !outcome.projection);
/// let [returns, tail] = &outcome.warnings[..] else { panic!() };
/// assert_eq!((returns.kind, returns.line), (dsh::WarningKind::CarriageReturn, 1));
/// let torn: dsh::TornTail = tail.torn.unwrap();
/// assert_eq!((torn.place, torn.offset, torn.bytes, torn.line), (dsh::Place::Text, 75, 7, 2));
/// # Ok::<(), everlog::Error>(())
/// ```
#[non_exhaustive]
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ImportOutcome {
    /// Events that were given to the sink.
    pub events: Seq,
    /// Lines of the text.
    pub lines: u64,
    /// Bytes of the text; of the decompressed text, when the input is compressed.
    pub text_bytes: u64,
    /// Bytes that were left out at the end.
    pub torn_bytes: u64,
    /// Whether the input is compressed.
    pub compressed: bool,
    /// Whether the input is a projection, without seq and time.
    pub projection: bool,
    /// What the user should know.
    pub warnings: Vec<Warning>,
    /// Lines, and damaged zstd frames, that were kept as events of type `everlog/salvaged`.
    pub salvaged: u64,
    /// Which they are: one entry a line; after 1,000 neighbours share one, and after 10,000 none is added.
    pub aside: Vec<LineRange>,
    /// Why the first of them could not take its place.
    pub aside_cause: Option<String>,
}

impl ImportOutcome {
    /// Counts one more place of a kind.
    pub(super) fn warn(&mut self, kind: WarningKind, line: u64) {
        match self.warnings.iter_mut().find(|warning| warning.kind == kind) {
            Some(warning) => warning.count += 1,
            None => self.warnings.push(Warning { kind, line, count: 1, torn: None }),
        }
    }

    /// Reports bytes that were left out.
    pub(super) fn warn_torn(&mut self, torn: TornTail) {
        self.warnings.push(Warning {
            kind: WarningKind::TornTail,
            line: torn.line,
            count: torn.bytes,
            torn: Some(torn),
        });
    }
}
