//! An encoder for tests: small stores written by hand from the page, valid or hostile.
//!
//! 1. What the methods with a meaning write is valid; [`Segment::frame`] writes anything with good checksums.
//! 2. Sizes are those of the page; nothing is read back or checked here.

use super::bytes::{put_varint, put_zigzag, type_code};
use super::crc::{Crc, crc32};
use super::index;
use super::payload::{
    APPEND, COLUMNS, IGNORABLE, REPLACE, RESTARTS, SERIES, SOURCES, SURFACE_FIRST, TYPE_TEXT,
    body as decode_body,
};
use super::{EventId, FrameBody, NONE, OracleEvent, OracleFrame, SurfaceOp};
use std::collections::BTreeMap;

/// Magic of STORE.
pub const STORE_MAGIC: [u8; 8] = [0x89, 0x45, 0x56, 0x4C, 0x0D, 0x0A, 0x1A, 0x0A];
/// Magic of a slot.
pub const SLOT_MAGIC: [u8; 8] = [0x89, 0x45, 0x56, 0x4C, 0x4C, 0x4E, 0x0D, 0x0A];
/// Magic of a segment.
pub const SEGMENT_MAGIC: [u8; 8] = [0x89, 0x45, 0x56, 0x4C, 0x53, 0x47, 0x0D, 0x0A];
/// Magic of a trailer.
pub const TRAILER_MAGIC: [u8; 8] = [0x89, 0x45, 0x56, 0x4C, 0x54, 0x52, 0x0D, 0x0A];

/// The files of a store.
pub type Files = BTreeMap<String, Vec<u8>>;

fn put(b: &mut [u8], at: usize, bytes: &[u8]) {
    b[at..at + bytes.len()].copy_from_slice(bytes);
}

fn seal_crc(b: &mut [u8]) {
    let at = b.len() - 4;
    let crc = crc32(&b[..at]);
    put(b, at, &crc.to_le_bytes());
}

/// The 64 bytes of STORE.
#[must_use]
pub fn store_file(store_id: [u8; 16], created_ms: i64) -> Vec<u8> {
    let mut b = vec![0; 64];
    put(&mut b, 0, &STORE_MAGIC);
    put(&mut b, 8, &1u16.to_le_bytes());
    put(&mut b, 24, &store_id);
    put(&mut b, 40, &created_ms.to_le_bytes());
    put(&mut b, 48, &1u32.to_le_bytes());
    seal_crc(&mut b);
    b
}

/// What a slot says.
#[derive(Debug, Clone, Copy, Default)]
#[allow(missing_docs, reason = "named as on the page")]
pub struct SlotSpec {
    pub counter: u64,
    pub store_id: [u8; 16],
    pub lane: u16,
    pub state: u16,
    pub epoch: u32,
    pub segment: u64,
    pub salt: u64,
    pub written_end: u64,
    pub durable_end: u64,
    pub durable_gsn: u64,
    pub index_offset: u64,
}

/// The 256 bytes of a slot.
#[must_use]
pub fn slot(s: &SlotSpec) -> Vec<u8> {
    let mut b = vec![0; 256];
    put(&mut b, 0, &SLOT_MAGIC);
    put(&mut b, 8, &s.counter.to_le_bytes());
    put(&mut b, 16, &s.store_id);
    put(&mut b, 32, &s.lane.to_le_bytes());
    put(&mut b, 34, &s.state.to_le_bytes());
    put(&mut b, 36, &s.epoch.to_le_bytes());
    let longs = [s.segment, s.salt, s.written_end, s.durable_end, s.durable_gsn, s.index_offset];
    for (i, v) in longs.iter().enumerate() {
        put(&mut b, 40 + 8 * i, &v.to_le_bytes());
    }
    seal_crc(&mut b);
    b
}

/// A lane file: 8,192 bytes with `a` at 0 and `b` at 4,096.
#[must_use]
pub fn lane_file(a: &[u8], b: &[u8]) -> Vec<u8> {
    let mut out = vec![0; 8192];
    put(&mut out, 0, a);
    put(&mut out, 4096, b);
    out
}

/// The header of a segment. `Default`: lane 1, segment 1, the first of its lane, 256 KiB.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs, reason = "named as on the page")]
pub struct SegmentSpec {
    pub store_id: [u8; 16],
    pub lane: u16,
    pub number: u64,
    pub salt: u64,
    pub epoch: u32,
    pub base_gsn: u64,
    pub next_session: u64,
    pub prev: u64,
    pub prev_end: u64,
    pub prev_salt: u64,
    pub capacity: u64,
    pub created_ms: i64,
}

impl Default for SegmentSpec {
    fn default() -> Self {
        Self {
            store_id: *b"everlog-testkit!",
            lane: 1,
            number: 1,
            salt: 0x5A17_5A17_0BAD_CAFE,
            epoch: 0,
            base_gsn: 0,
            next_session: 1,
            prev: NONE,
            prev_end: 0,
            prev_salt: 0,
            capacity: 262_144,
            created_ms: 1_700_000_000_000,
        }
    }
}

/// An event to write.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "named as in the model")]
pub struct Draft {
    pub ty: Vec<u8>,
    pub time: i64,
    pub data: Vec<u8>,
    pub surface_op: Option<SurfaceOp>,
    pub sources: Option<Vec<u64>>,
    pub ignorable: bool,
    pub surface_first: bool,
}

impl Draft {
    /// An event without surface metadata.
    #[must_use]
    pub fn new(ty: &str, time: i64, data: &str) -> Self {
        Self {
            ty: ty.into(),
            time,
            data: data.into(),
            surface_op: None,
            sources: None,
            ignorable: false,
            surface_first: false,
        }
    }

    /// The same with a `surfaceOp` and sources.
    #[must_use]
    pub fn surface(mut self, op: SurfaceOp, sources: Option<&[u64]>) -> Self {
        self.surface_op = Some(op);
        self.sources = sources.map(<[u64]>::to_vec);
        self
    }
}

impl From<&OracleEvent> for Draft {
    fn from(e: &OracleEvent) -> Self {
        Self {
            ty: e.ty.to_vec(),
            time: e.time,
            data: e.data.clone(),
            surface_op: e.surface_op,
            sources: e.sources.clone(),
            ignorable: e.ignorable,
            surface_first: e.surface_first,
        }
    }
}

fn record(out: &mut Vec<u8>, e: &Draft, seq: u64, delta: i64) {
    let code = type_code(&e.ty);
    let op = match e.surface_op {
        None => 0,
        Some(SurfaceOp::Append) => APPEND,
        Some(SurfaceOp::Replace { .. }) => REPLACE,
    };
    let bit = |on: bool, bit: u64| if on { bit } else { 0 };
    let head = op
        | bit(e.ignorable, IGNORABLE)
        | bit(e.sources.is_some(), SOURCES)
        | bit(e.surface_first, SURFACE_FIRST)
        | bit(code.is_none(), TYPE_TEXT);
    put_varint(out, head);
    match code {
        Some(code) => out.push(code),
        None => {
            put_varint(out, e.ty.len() as u64);
            out.extend(&e.ty);
        }
    }
    put_zigzag(out, delta);
    if let Some(SurfaceOp::Replace { start, end }) = e.surface_op {
        put_varint(out, start);
        put_varint(out, end);
    }
    if let Some(sources) = &e.sources {
        put_varint(out, sources.len() as u64);
        let mut before = seq;
        for &s in sources {
            put_zigzag(out, s.wrapping_sub(before) as i64);
            before = s;
        }
    }
    put_varint(out, e.data.len() as u64);
    out.extend(&e.data);
}

/// Payload of an EVENTS frame, with its restart table over 32 events.
#[must_use]
pub fn events_payload(first_seq: u64, events: &[Draft]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut time = events.first().map_or(0, |e| e.time);
    put_zigzag(&mut out, time);
    let mut table = Vec::new();
    for (i, e) in events.iter().enumerate() {
        if i > 0 && i % 16 == 0 {
            table.extend((out.len() as u32).to_le_bytes());
            table.extend(time.to_le_bytes());
        }
        record(&mut out, e, first_seq + i as u64, e.time.wrapping_sub(time));
        time = e.time;
    }
    if events.len() > 32 {
        out.extend(table);
    }
    out
}

/// What stands between `prefix` and `suffix`, when a series with that template may hold the event.
fn middle<'a>(e: &'a Draft, prefix: &str, suffix: &str) -> Option<&'a [u8]> {
    let text = e.data.strip_prefix(prefix.as_bytes())?.strip_suffix(suffix.as_bytes());
    text.filter(|_| e.surface_op.is_none() && e.sources.is_none() && !e.surface_first)
}

/// As [`events_payload`], with series of those events that begin with `prefix` and end with `suffix` (section 7.1.1): the
/// first series holds this template, the others point at it.
#[must_use]
pub fn columns_payload(first_seq: u64, events: &[Draft], prefix: &str, suffix: &str) -> Vec<u8> {
    let fits = |e: &Draft| middle(e, prefix, suffix).is_some();
    let (mut out, mut table, mut template) = (Vec::new(), Vec::new(), None);
    let mut time = events.first().map_or(0, |e| e.time);
    put_zigzag(&mut out, time);
    let mut i = 0;
    while i < events.len() {
        if i > 0 && i % 16 == 0 {
            table.extend((out.len() as u32).to_le_bytes());
            table.extend(time.to_le_bytes());
        }
        let first = &events[i];
        let series = events[i..events.len().min(i - i % 16 + 16)]
            .iter()
            .take_while(|e| fits(e) && (&e.ty, e.ignorable) == (&first.ty, first.ignorable));
        let series: Vec<&Draft> = series.collect();
        if series.is_empty() {
            record(&mut out, first, first_seq + i as u64, first.time.wrapping_sub(time));
            time = first.time;
            i += 1;
            continue;
        }
        let start = out.len();
        let code = type_code(&first.ty);
        let head = SERIES | if first.ignorable { IGNORABLE } else { 0 };
        put_varint(&mut out, head | if code.is_none() { TYPE_TEXT } else { 0 });
        if let Some(code) = code {
            out.push(code);
        } else {
            put_varint(&mut out, first.ty.len() as u64);
            out.extend(&first.ty);
        }
        out.push(series.len() as u8);
        put_varint(&mut out, template.map_or(0, |at| (start - at) as u64));
        if template.is_none() {
            template = Some(out.len());
            for part in [prefix, suffix] {
                put_varint(&mut out, part.len() as u64);
                out.extend(part.bytes());
            }
        }
        for e in &series {
            put_zigzag(&mut out, e.time.wrapping_sub(time));
            time = e.time;
        }
        let texts: Vec<&[u8]> = series.iter().filter_map(|e| middle(e, prefix, suffix)).collect();
        texts.iter().for_each(|t| put_varint(&mut out, t.len() as u64));
        texts.iter().for_each(|t| out.extend(*t));
        i += series.len();
    }
    if events.len() > 32 {
        out.extend(table);
    }
    out
}

/// The control prefix.
#[must_use]
pub fn prefix(epoch: u32, flags: u32, time: i64) -> Vec<u8> {
    let mut out = epoch.to_le_bytes().to_vec();
    out.extend(flags.to_le_bytes());
    out.extend(time.to_le_bytes());
    out
}

fn put_id(out: &mut Vec<u8>, id: EventId) {
    out.extend(id.lane.to_le_bytes());
    out.extend([0, 0]);
    out.extend(id.epoch.to_le_bytes());
    out.extend(id.gsn.to_le_bytes());
}

fn put_create(out: &mut Vec<u8>, id: &[u8], header: &[u8]) {
    out.extend((id.len() as u16).to_le_bytes());
    out.extend(id);
    out.extend((header.len() as u32).to_le_bytes());
    out.extend(header);
}

/// A segment being written.
#[derive(Debug, Clone)]
pub struct Segment {
    /// Its header.
    pub spec: SegmentSpec,
    /// The file; at most its capacity, zeros behind the frames left out until [`Segment::bytes`].
    pub file: Vec<u8>,
    /// Gsn of the next event.
    pub gsn: u64,
    /// Time written into control frames.
    pub time: i64,
    /// Frames so far, for INDEX.
    frames: Vec<OracleFrame>,
    indexed: u64,
    last_index: u64,
    trailer: Option<Vec<u8>>,
}

impl Segment {
    /// An empty segment.
    #[must_use]
    pub fn new(spec: &SegmentSpec) -> Self {
        let mut b = vec![0; 128];
        put(&mut b, 0, &SEGMENT_MAGIC);
        put(&mut b, 8, &1u16.to_le_bytes());
        put(&mut b, 20, &spec.lane.to_le_bytes());
        put(&mut b, 24, &spec.store_id);
        put(&mut b, 40, &spec.number.to_le_bytes());
        put(&mut b, 48, &spec.salt.to_le_bytes());
        put(&mut b, 56, &spec.epoch.to_le_bytes());
        let longs = [
            spec.base_gsn,
            spec.next_session,
            spec.prev,
            spec.prev_end,
            spec.prev_salt,
            spec.capacity,
            spec.created_ms as u64,
        ];
        for (i, v) in longs.iter().enumerate() {
            put(&mut b, 64 + 8 * i, &v.to_le_bytes());
        }
        seal_crc(&mut b);
        b.resize(4096, 0);
        Self {
            spec: *spec,
            file: b,
            gsn: spec.base_gsn,
            time: spec.created_ms,
            frames: Vec::new(),
            indexed: 4096,
            last_index: 0,
            trailer: None,
        }
    }

    /// The segment after this one, `drop_from` being the end that it names.
    #[must_use]
    pub fn next(&self, number: u64, epoch: u32, salt: u64, drop_from: u64, base_gsn: u64) -> Self {
        Self::new(&SegmentSpec {
            number,
            epoch,
            salt,
            base_gsn,
            prev: self.spec.number,
            prev_end: drop_from,
            prev_salt: self.spec.salt,
            ..self.spec
        })
    }

    /// Offset of the next frame.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.file.len() as u64
    }

    /// Writes any frame with good checksums; gives its offset.
    pub fn frame(&mut self, mut f: OracleFrame, payload: &[u8], raw_len: u32, key: u32) -> u64 {
        let at = self.end();
        let mut h = vec![0; 48];
        put(&mut h, 4, &(payload.len() as u32).to_le_bytes());
        put(&mut h, 8, &crc32(payload).to_le_bytes());
        (h[12], h[13]) = (f.kind, f.flags);
        put(&mut h, 14, &f.count.to_le_bytes());
        put(&mut h, 16, &f.session.to_le_bytes());
        put(&mut h, 24, &f.seq.to_le_bytes());
        put(&mut h, 32, &f.gsn.to_le_bytes());
        put(&mut h, 40, &raw_len.to_le_bytes());
        put(&mut h, 44, &key.to_le_bytes());
        let crc = Crc::new().add(&self.spec.salt.to_le_bytes()).add(&at.to_le_bytes());
        let crc = crc.add(&h[4..]).end();
        put(&mut h, 0, &crc.to_le_bytes());
        self.file.extend(h);
        self.file.extend(payload);
        self.file.resize(self.file.len().next_multiple_of(8), 0);
        (f.offset, f.len) = (at, payload.len() as u32);
        if let Ok(body) = decode_body(&f, payload, self.spec.lane, self.spec.epoch) {
            f.body = body;
        }
        self.frames.push(f);
        at
    }

    /// A frame header with this segment's next gsn and no content.
    #[must_use]
    pub fn head(&self, kind: u8, session: u64, seq: u64) -> OracleFrame {
        OracleFrame {
            offset: 0,
            len: 0,
            kind,
            flags: 0,
            count: 0,
            session,
            seq,
            gsn: self.gsn,
            body: FrameBody::Bad,
        }
    }

    /// EVENTS; gives the offset.
    pub fn events(&mut self, session: u64, first_seq: u64, events: &[Draft]) -> u64 {
        let mut f = self.head(1, session, first_seq);
        f.count = events.len() as u16;
        f.flags = if events.len() > 32 { RESTARTS } else { 0 };
        let at = self.frame(f, &events_payload(first_seq, events), 0, 0);
        self.gsn += events.len() as u64;
        at
    }

    /// EVENTS with flag COLUMNS, as [`columns_payload`] makes them; gives the offset.
    pub fn columns(&mut self, session: u64, first_seq: u64, events: &[Draft]) -> u64 {
        let mut f = self.head(1, session, first_seq);
        f.count = events.len() as u16;
        f.flags = COLUMNS | if events.len() > 32 { RESTARTS } else { 0 };
        let payload = columns_payload(first_seq, events, "{\"text\":\"", "\"}");
        let at = self.frame(f, &payload, 0, 0);
        self.gsn += events.len() as u64;
        at
    }

    /// Any control frame: its prefix with `epoch` and no flags, then `rest`.
    pub fn control(&mut self, kind: u8, session: u64, seq: u64, epoch: u32, rest: &[u8]) -> u64 {
        let mut p = prefix(epoch, 0, self.time);
        p.extend(rest);
        self.frame(self.head(kind, session, seq), &p, 0, 0)
    }

    /// CREATE.
    pub fn create(&mut self, session: u64, id: &[u8], header: &[u8]) -> u64 {
        let mut rest = Vec::new();
        put_create(&mut rest, id, header);
        self.control(16, session, 0, 0, &rest)
    }

    /// CREATE with the pending flag.
    pub fn create_pending(&mut self, session: u64, id: &[u8], header: &[u8]) -> u64 {
        let mut p = prefix(0, 1, self.time);
        put_create(&mut p, id, header);
        self.frame(self.head(16, session, 0), &p, 0, 0)
    }

    /// CONTINUE.
    pub fn take_over(&mut self, session: u64, seq: u64, epoch: u32, before: EventId) -> u64 {
        let mut rest = Vec::new();
        put_id(&mut rest, before);
        self.control(17, session, seq, epoch, &rest)
    }

    /// FORK.
    pub fn fork(&mut self, child: u64, point: &super::ForkPoint, id: &[u8], header: &[u8]) -> u64 {
        let mut rest = point.parent.to_le_bytes().to_vec();
        rest.extend(point.boundary.to_le_bytes());
        put_id(&mut rest, point.event);
        rest.extend((point.owners.len() as u16).to_le_bytes());
        for (session, below) in &point.owners {
            rest.extend(session.to_le_bytes());
            rest.extend(below.to_le_bytes());
        }
        put_create(&mut rest, id, header);
        self.control(18, child, point.boundary.wrapping_add(1), 0, &rest)
    }

    /// SYNCMARK (kind 2) or CLOSE (kind 4): all below is durable.
    pub fn mark(&mut self, kind: u8) -> u64 {
        self.frame(self.head(kind, 0, self.end()), &[], 0, 0)
    }

    /// INDEX of the frames since the last one.
    pub fn index(&mut self) -> u64 {
        let covered: Vec<&OracleFrame> =
            self.frames.iter().filter(|f| f.offset >= self.indexed).collect();
        let view = index::expected(&covered, self.last_index, self.indexed, self.spec.next_session);
        let payload = index::encode(&view);
        let at = self.frame(self.head(3, 0, self.indexed), &payload, 0, 0);
        (self.last_index, self.indexed) = (at, self.end());
        at
    }

    /// Writes the last INDEX and the trailer.
    pub fn seal(&mut self) {
        self.index();
        let mut b = vec![0; 64];
        put(&mut b, 0, &TRAILER_MAGIC);
        let s = &self.spec;
        let longs = [self.last_index, self.end(), self.gsn, s.salt, s.next_session, s.number];
        for (i, v) in longs.iter().enumerate() {
            put(&mut b, 8 + 8 * i, &v.to_le_bytes());
        }
        seal_crc(&mut b);
        self.trailer = Some(b);
    }

    /// Path of the file in its store.
    #[must_use]
    pub fn path(&self) -> String {
        format!("lanes/{:04x}/{:016x}.seg", self.spec.lane, self.spec.number)
    }

    /// The whole file.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = self.file.clone();
        out.resize(self.spec.capacity as usize, 0);
        if let Some(t) = &self.trailer {
            let at = out.len() - 64;
            put(&mut out, at, t);
        }
        out
    }
}

/// A store of these segments, with a STORE and lane files whose slots name the last segment of each lane.
#[must_use]
pub fn store(segments: Vec<Segment>) -> Files {
    let mut files = Files::new();
    let id = segments.first().map_or(SegmentSpec::default().store_id, |s| s.spec.store_id);
    files.insert("STORE".into(), store_file(id, 1_700_000_000_000));
    for s in segments {
        let spec = SlotSpec {
            counter: 1,
            store_id: id,
            lane: s.spec.lane,
            epoch: s.spec.epoch,
            segment: s.spec.number,
            salt: s.spec.salt,
            written_end: 4096,
            durable_end: 4096,
            durable_gsn: s.spec.base_gsn,
            ..SlotSpec::default()
        };
        files.insert(format!("lanes/{:04x}/lane", s.spec.lane), lane_file(&slot(&spec), &[]));
        files.insert(s.path(), s.bytes());
    }
    files
}
