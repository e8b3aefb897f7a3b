//! An independent decoder of Everlog stores, written from `docs/format.md` alone.
//!
//! 1. It shares no code and no types with the engine: where the two agree, the page is right.
//! 2. Any bytes are decoded without a panic; what breaks the page becomes a [`Finding`], never an error.
//! 3. Nothing is chosen between two claims: contested events stand in `contested`, not in `events`.
//! 4. Offsets and lengths are bytes in their file, times are Unix milliseconds.
//!
//! ```
//! use everlog_testkit::oracle::{build, decode};
//! let mut seg = build::Segment::new(&build::SegmentSpec::default());
//! seg.create(1 << 48 | 1, b"s", br#"{"id":"s"}"#);
//! seg.events(1 << 48 | 1, 0, &[build::Draft::new("note", 5, "{}")]);
//! let store = decode(&build::store(vec![seg]));
//! assert!(store.findings.is_empty());
//! assert_eq!(store.sessions[&b"s"[..]].events[0].data, b"{}");
//! ```

pub mod build;
mod bytes;
mod crc;
mod image;
pub mod index;
pub mod jsonl;
mod lane;
mod payload;
mod resolve;
mod session;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

pub use crc::crc32;
pub use image::{DirImage, Image, write_out};

/// "None" where a gsn or a segment number may be absent.
pub const NONE: u64 = u64::MAX;
/// Largest seq and gsn.
pub const MAX_SEQ: u64 = (1 << 53) - 1;

/// What sort of thing a [`Finding`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FindingKind {
    /// STORE is missing or breaks its table.
    Store,
    /// No slot of a lane file is valid.
    LaneFile,
    /// A segment header that is not all zero breaks its table, or is of another store, lane or number.
    Header,
    /// A segment that the chain names is not there.
    Missing,
    /// Segments whose headers do not fit together.
    Chain,
    /// Bytes below a known durable end, or followed by valid frames, are no valid frame.
    Damage,
    /// The last nonzero bytes of a segment are no valid frame, and nothing says that they were durable.
    TornTail,
    /// A frame with good checksums whose content breaks section 7.
    Payload,
    /// A gsn that is not the one before plus the count before.
    Gsn,
    /// A trailer with a good checksum that says something wrong.
    Trailer,
    /// An INDEX that says something wrong (only from [`index::check`]).
    Index,
    /// Something of a newer format: the rest of the lane is not read.
    Newer,
    /// A session has frames and no CREATE or FORK, or two.
    Orphan,
    /// Two CONTINUE frames of one session name one session epoch.
    SessionEpoch,
    /// Two visible sessions have one id.
    DuplicateId,
    /// Two claims of one seq, or a CONTINUE or FORK whose event before is not there.
    Diverged,
    /// A seq is missing.
    Gap,
}

/// Something that the page does not allow, or that was lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The sort.
    pub kind: FindingKind,
    /// File, relative to the store.
    pub path: String,
    /// Offset in it.
    pub offset: u64,
    /// For people.
    pub what: String,
}

/// `surfaceOp` of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SurfaceOp {
    /// `"append"`.
    Append,
    /// A replace of the nodes bounded by two seqs.
    Replace {
        /// First node.
        start: u64,
        /// Last node.
        end: u64,
    },
}

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OracleEvent {
    /// Number of the session whose frame holds it (of an ancestor, for inherited events).
    pub session: u64,
    /// Seq.
    pub seq: u64,
    /// Unix milliseconds.
    pub time: i64,
    /// Type, WTF-8.
    pub ty: Cow<'static, [u8]>,
    /// JSON text.
    pub data: Vec<u8>,
    /// `surfaceOp`.
    pub surface_op: Option<SurfaceOp>,
    /// `sourceEventSeqs`.
    pub sources: Option<Vec<u64>>,
    /// `ignorable`.
    pub ignorable: bool,
    /// `surfaceOp` stood before `sourceEventSeqs`.
    pub surface_first: bool,
    /// Lane that holds it.
    pub lane: u16,
    /// Epoch of that lane.
    pub epoch: u32,
    /// Its gsn there.
    pub gsn: u64,
}

/// An event id as CONTINUE and FORK write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventId {
    /// Lane.
    pub lane: u16,
    /// Lane epoch.
    pub epoch: u32,
    /// Gsn, [`NONE`] for no event.
    pub gsn: u64,
}

/// What FORK says of the parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForkPoint {
    /// Session number of the parent.
    pub parent: u64,
    /// Last inherited seq.
    pub boundary: u64,
    /// Its event.
    pub event: EventId,
    /// (session, seqs below this are its own).
    pub owners: Vec<(u64, u64)>,
}

/// What follows the control prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as on the page")]
pub enum ControlBody {
    Create { id: Vec<u8>, header: Vec<u8>, fork: Option<ForkPoint> },
    Continue(EventId),
    Range { first: u64, last: u64 },
    Tag(Vec<u8>),
    Nothing,
}

/// A control frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Control {
    /// Session epoch.
    pub epoch: u32,
    /// Control flags; 1 = pending.
    pub flags: u32,
    /// Unix milliseconds.
    pub time: i64,
    /// The rest.
    pub body: ControlBody,
}

/// What a frame holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FrameBody {
    /// EVENTS.
    Events(Vec<Arc<OracleEvent>>),
    /// Kinds 16 to 25.
    Control(Control),
    /// SYNCMARK, INDEX, CLOSE.
    Lane,
    /// A kind from 128 up, stepped over.
    Unknown,
    /// Valid checksums, content against section 7.
    Bad,
}

/// One valid frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OracleFrame {
    /// Offset in the segment.
    pub offset: u64,
    /// Bytes of payload.
    pub len: u32,
    /// Kind.
    pub kind: u8,
    /// Flags.
    pub flags: u8,
    /// Number of events.
    pub count: u16,
    /// Session number.
    pub session: u64,
    /// Seq.
    pub seq: u64,
    /// Gsn.
    pub gsn: u64,
    /// Decoded payload.
    pub body: FrameBody,
}

/// A valid trailer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as on the page")]
pub struct Trailer {
    pub index_offset: u64,
    pub frames_end: u64,
    pub next_gsn: u64,
    pub next_session: u64,
}

/// One segment with a valid header.
#[derive(Debug, Clone)]
pub struct OracleSegment {
    /// Path in the store.
    pub path: String,
    /// Own number.
    pub number: u64,
    /// Lane epoch.
    pub epoch: u32,
    /// Salt.
    pub salt: u64,
    /// Gsn of the first event.
    pub base_gsn: u64,
    /// Gsn after the last event.
    pub next_gsn: u64,
    /// End of the last valid frame that counts.
    pub end: u64,
    /// Highest durable offset that anything says.
    pub durable: u64,
    /// Number of the segment before.
    pub prev: Option<u64>,
    /// Size in its header.
    pub capacity: u64,
    /// Valid trailer.
    pub trailer: Option<Trailer>,
    /// Frames by offset.
    pub frames: Vec<OracleFrame>,
    /// Findings in this file.
    pub findings: Vec<Finding>,
}

/// A valid slot of a lane file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as on the page")]
pub struct Slot {
    pub counter: u64,
    pub state: u16,
    pub epoch: u32,
    pub segment: u64,
    pub salt: u64,
    pub written_end: u64,
    pub durable_end: u64,
    pub durable_gsn: u64,
    pub index_offset: u64,
}

/// One lane.
#[derive(Debug, Clone)]
pub struct OracleLane {
    /// Number.
    pub number: u16,
    /// The slot that counts.
    pub slot: Option<Slot>,
    /// Segments by number; those made ahead or with a bad header are not here.
    pub segments: Vec<OracleSegment>,
    /// Findings about the lane as a whole.
    pub findings: Vec<Finding>,
}

/// One session.
#[derive(Debug, Clone, Default)]
pub struct OracleSession {
    /// Session number.
    pub no: u64,
    /// Id, WTF-8.
    pub id: Vec<u8>,
    /// Header line.
    pub header_text: Vec<u8>,
    /// Published (or never pending).
    pub visible: bool,
    /// Removed, and not restored.
    pub hidden: bool,
    /// Highest session epoch.
    pub epoch: u32,
    /// When it became visible (or was created).
    pub since: i64,
    /// Where it was forked.
    pub fork: Option<ForkPoint>,
    /// First seq of its own.
    pub own_from: u64,
    /// Visible events by seq, inherited ones first.
    pub events: Vec<Arc<OracleEvent>>,
    /// Own events that no PUBLISH covers and no CONTINUE made void.
    pub pending: Vec<Arc<OracleEvent>>,
    /// Own events whose seq has two claims.
    pub contested: Vec<Arc<OracleEvent>>,
    /// Payloads of TAG, in order.
    pub tags: Vec<Vec<u8>>,
    /// Ranges (first, last) of PURGE and REDACT.
    pub purged: Vec<(u64, u64)>,
    /// Two claims, or an event before that is not there.
    pub diverged: bool,
    /// Findings about it.
    pub findings: Vec<Finding>,
}

/// A whole store.
#[derive(Debug, Clone, Default)]
pub struct OracleStore {
    /// Random id of STORE, zero without a valid one.
    pub store_id: [u8; 16],
    /// Lanes by number.
    pub lanes: Vec<OracleLane>,
    /// The session that each id means.
    pub sessions: BTreeMap<Vec<u8>, OracleSession>,
    /// Sessions whose id means another one.
    pub shadowed: Vec<OracleSession>,
    /// All findings: of the store, its lanes, segments and sessions, in this order.
    pub findings: Vec<Finding>,
}

impl OracleStore {
    /// The sessions that a listing shows: published and not removed.
    pub fn listed(&self) -> impl Iterator<Item = &OracleSession> {
        self.sessions.values().filter(|s| s.visible && !s.hidden)
    }

    /// Findings without those of `kinds`.
    #[must_use]
    pub fn findings_but(&self, kinds: &[FindingKind]) -> Vec<&Finding> {
        self.findings.iter().filter(|f| !kinds.contains(&f.kind)).collect()
    }
}

/// Decodes the store that `image` holds.
#[must_use]
pub fn decode(image: &dyn Image) -> OracleStore {
    let mut store = OracleStore::default();
    if !read_store(image, &mut store) {
        return store;
    }
    let mut lanes: Vec<(u16, String)> = image
        .list("lanes")
        .into_iter()
        .filter_map(|name| lane::hex(&name, 4).map(|n| (n as u16, format!("lanes/{name}"))))
        .collect();
    lanes.sort();
    store.lanes = lanes.iter().map(|(n, p)| lane::decode(image, *n, p, &store.store_id)).collect();
    for lane in &store.lanes {
        store.findings.extend(lane.findings.iter().cloned());
        for segment in &lane.segments {
            store.findings.extend(segment.findings.iter().cloned());
        }
    }
    resolve::sessions(&mut store);
    store
}

/// Checks STORE; `false` where the rest must not be read.
fn read_store(image: &dyn Image, store: &mut OracleStore) -> bool {
    let mut say = |kind, what: &str| {
        store.findings.push(Finding { kind, path: "STORE".into(), offset: 0, what: what.into() });
    };
    let Some(b) = image.read("STORE") else {
        say(FindingKind::Store, "no STORE: this is no store");
        return false;
    };
    if b.len() != 64 || b[..8] != build::STORE_MAGIC || bytes::le32(&b, 60) != crc32(&b[..60]) {
        say(FindingKind::Store, "size, magic or checksum");
        return b.len() >= 64;
    }
    if bytes::le16(&b, 8) != 1 || bytes::le32(&b, 12) != 0 {
        say(FindingKind::Newer, "format_major or incompat_flags");
        return false;
    }
    if bytes::le32(&b, 20) > 1
        || !(1..=2).contains(&bytes::le32(&b, 48))
        || !bytes::all_zero(&b[52..60])
    {
        say(FindingKind::Store, "access, default_level or reserved");
    }
    store.store_id.copy_from_slice(&b[24..40]);
    true
}
