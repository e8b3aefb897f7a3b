//! Why an event or a header is not accepted, as data: the rule, the field and the numbers.
//!
//! # Invariants
//! R1. A refusal holds no event data, only names of fields, seqs, sizes and offsets.

use std::fmt;

use crate::error::{Error, ErrorKind};
use crate::json::{JsonFault, JsonFaultKind};
use crate::limits;
use crate::surface::SurfaceRefusal;
use crate::types::Seq;

/// Most missing seqs that a message names.
const NAMED_MAX: usize = 8;

/// A rule that was broken.
#[derive(Clone, Debug)]
pub(crate) enum Refusal {
    /// The type is empty or too long.
    TypeLength {
        /// Its length.
        bytes: usize,
    },
    /// The data is too long.
    DataLength {
        /// Its length.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// The data is not one JSON value within the depth limit.
    Json(JsonFault),
    /// The header line is not one JSON object within the depth limit.
    HeaderJson(JsonFault),
    /// Vocabulary that is always refused.
    Retired {
        /// Path of the field that holds it.
        field: &'static str,
        /// What it is.
        what: &'static str,
    },
    /// A field of surface events on another event.
    NotSurface {
        /// Name of the field.
        field: &'static str,
    },
    /// A surface event without marker.
    MarkerMissing,
    /// The surface cannot be changed so.
    Surface(SurfaceRefusal),
    /// An empty list of citations on an event that may not have one.
    SourcesEmpty,
    /// A citation that stands twice.
    SourceTwice {
        /// The seq cited.
        source: Seq,
    },
    /// A citation of the event itself or of a later one.
    SourceNotEarlier {
        /// The seq cited.
        source: Seq,
    },
    /// Nodes that are replaced and not cited.
    SourceMissing {
        /// Some of them, in surface order.
        named: Vec<Seq>,
        /// How many there are.
        count: usize,
    },
    /// A tool result that replaces more than one node.
    ResultRange {
        /// How many it would replace.
        count: usize,
    },
    /// A tool result that replaces another kind of event.
    ResultTarget {
        /// The event that it would replace.
        target: Seq,
    },
    /// A tool result that changes more than the content of the result it replaces.
    ResultChanged {
        /// The event that it would replace.
        target: Seq,
        /// The part that differs.
        field: &'static str,
    },
    /// A field that lacks the form that readers rely on.
    Shape {
        /// Path of the field.
        field: String,
        /// What it must be.
        wanted: &'static str,
    },
    /// A header longer than the limit.
    HeaderLength,
    /// A header of another format version.
    HeaderVersion,
    /// The event to compare with could not be read.
    Lookup(Error),
}

impl Refusal {
    pub(super) fn shape(field: impl Into<String>, wanted: &'static str) -> Self {
        Self::Shape { field: field.into(), wanted }
    }

    /// Path of the field that is wrong.
    pub(crate) fn field(&self) -> &str {
        match self {
            Self::TypeLength { .. } => "type",
            Self::DataLength { .. } | Self::Json(_) => "data",
            Self::HeaderJson(_) => "header",
            Self::Retired { field, .. }
            | Self::NotSurface { field }
            | Self::ResultChanged { field, .. } => field,
            Self::MarkerMissing | Self::ResultRange { .. } | Self::ResultTarget { .. } => {
                "surfaceOp"
            }
            Self::Surface(refusal) => refusal.field(),
            Self::SourcesEmpty
            | Self::SourceTwice { .. }
            | Self::SourceNotEarlier { .. }
            | Self::SourceMissing { .. } => "sourceEventSeqs",
            Self::Shape { field, .. } => field,
            Self::HeaderVersion => "version",
            Self::HeaderLength => "header",
            Self::Lookup(err) => err.field().unwrap_or("data"),
        }
    }

    /// The error for the caller of a store.
    pub(crate) fn into_error(self, seq: Seq) -> Error {
        match self {
            Self::Lookup(err) => err,
            other => other.header_error().with_seq(seq),
        }
    }

    /// The error for a header, which has no seq.
    pub(crate) fn header_error(self) -> Error {
        match self {
            Self::HeaderVersion => {
                Error::new(ErrorKind::Unsupported, self.to_string()).with_field("version")
            }
            other if other.is_limit() => {
                Error::invalid(other.field(), &other).with_kind(ErrorKind::Limit)
            }
            other => Error::invalid(other.field(), &other),
        }
    }

    /// Whether a limit was passed, and no rule broken.
    pub(super) fn is_limit(&self) -> bool {
        match self {
            // An empty type is no type: that breaks a rule.
            Self::TypeLength { bytes } => *bytes > 0,
            Self::DataLength { .. } | Self::HeaderLength => true,
            Self::Json(fault) | Self::HeaderJson(fault) => {
                matches!(fault.what, JsonFaultKind::Depth { .. })
            }
            _ => false,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TypeLength { bytes } => {
                write!(f, "it has {bytes} bytes, allowed are 1 to {}", limits::EVENT_TYPE_BYTES_MAX)
            }
            Self::DataLength { bytes, max } => {
                write!(f, "it has {bytes} bytes, the size limit is {max}")
            }
            Self::Json(fault) | Self::HeaderJson(fault) => write!(f, "{fault}"),
            Self::Retired { what, .. } => write!(f, "{what} is no longer supported"),
            Self::NotSurface { field } => {
                write!(f, "{field} may stand on surface events only, and this type is none")
            }
            Self::MarkerMissing => f.write_str("a surface event needs a surfaceOp"),
            Self::Surface(refusal) => write!(f, "{refusal}"),
            Self::SourcesEmpty => f.write_str("it may be empty on assistant/message only"),
            Self::SourceTwice { source } => write!(f, "event {source} is cited twice"),
            Self::SourceNotEarlier { source } => {
                write!(f, "event {source} is not earlier than the event that cites it")
            }
            Self::SourceMissing { named, count } => missing(f, named, *count),
            Self::ResultRange { count } => {
                write!(f, "a tool/result replaces exactly one event, not {count}")
            }
            Self::ResultTarget { target } => {
                write!(f, "a tool/result replaces only a tool/result, and event {target} is none")
            }
            Self::ResultChanged { target, field } => write!(
                f,
                "only the content of the result may differ from event {target}, and {field} differs"
            ),
            Self::Shape { wanted, .. } => write!(f, "it {wanted}"),
            Self::HeaderLength => {
                write!(f, "it is longer than the limit of {} bytes", limits::HEADER_BYTES_MAX)
            }
            Self::HeaderVersion => f.write_str(
                "the header has another format version than 0; use the program that wrote it",
            ),
            Self::Lookup(err) => write!(f, "{err}"),
        }
    }
}

/// The first nodes of a list that is too long to name whole.
pub(super) fn some_of(missing: &[Seq]) -> Vec<Seq> {
    missing.iter().take(NAMED_MAX).copied().collect()
}

fn missing(f: &mut fmt::Formatter<'_>, named: &[Seq], count: usize) -> fmt::Result {
    write!(f, "it must cite every event that is replaced; {count} missing:")?;
    for seq in named {
        write!(f, " {seq}")?;
    }
    if named.len() < count {
        f.write_str(" ...")?;
    }
    Ok(())
}
