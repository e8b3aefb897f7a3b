//! Lane files, segment headers, and the scan of a segment for frames (sections 4 to 6).
//!
//! 1. A frame counts only below the end that the next segment of the chain names.
//! 2. Frames never reach into the last 64 bytes of a segment.
//! 3. Where a frame is not valid, the next valid one is looked for at every multiple of 8; a header that
//!    holds makes `len` known, so its payload is stepped over, not searched.
//! 4. The gsn of every frame is that of the next event.

use super::build::{SEGMENT_MAGIC, SLOT_MAGIC, TRAILER_MAGIC};
use super::bytes::{all_zero, first_nonzero, le16, le32, le64};
use super::crc::{Crc, crc32};
use super::payload::{self, Refusal};
use super::{
    Finding, FindingKind, FrameBody, Image, NONE, OracleFrame, OracleLane, OracleSegment, Slot,
    Trailer,
};
use std::borrow::Cow;

const HEADER: usize = 4096;

/// A number of exactly `digits` lower-case hex digits.
pub(super) fn hex(s: &str, digits: usize) -> Option<u64> {
    let good = s.len() == digits && s.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    if good { u64::from_str_radix(s, 16).ok() } else { None }
}

/// A segment with a valid header, not scanned yet.
struct Loaded<'a> {
    bytes: Cow<'a, [u8]>,
    seg: OracleSegment,
    prev_end: u64,
    prev_salt: u64,
}

/// Decodes the lane in folder `dir`.
pub(super) fn decode(image: &dyn Image, number: u16, dir: &str, store_id: &[u8; 16]) -> OracleLane {
    let mut findings = Vec::new();
    let mut names: Vec<u64> = image
        .list(dir)
        .iter()
        .filter_map(|n| n.strip_suffix(".seg").and_then(|n| hex(n, 16)))
        .collect();
    names.sort_unstable();
    let mut loaded = Vec::new();
    for n in names {
        let path = format!("{dir}/{n:016x}.seg");
        let Some(bytes) = image.read(&path) else { continue };
        match header(&bytes, number, n, store_id) {
            Ok(None) => {}
            Ok(Some((mut seg, prev_end, prev_salt))) => {
                seg.path = path;
                let reserved = le32(&bytes, 60) | le32(&bytes, 120);
                if reserved != 0 || !all_zero(&bytes[128..HEADER]) {
                    let what = "reserved bytes of the header";
                    seg.findings.push(finding(FindingKind::Header, &seg.path, 128, what));
                }
                loaded.push(Loaded { bytes, seg, prev_end, prev_salt });
            }
            Err((kind, what)) => findings.push(finding(kind, &path, 0, what)),
        }
    }
    let slot = slots(image, dir, number, store_id, !loaded.is_empty(), &mut findings);
    chain(&loaded, &mut findings);
    let limits: Vec<Option<u64>> = (0..loaded.len())
        .map(|i| {
            let (next, this) = (loaded.get(i + 1)?, &loaded[i].seg);
            let named = next.seg.prev == Some(this.number) && next.prev_salt == this.salt;
            named.then_some(next.prev_end)
        })
        .collect();
    let mut segments: Vec<OracleSegment> = Vec::new();
    for (l, limit) in loaded.into_iter().zip(limits) {
        let mut seg = l.seg;
        if let Some(before) = segments.last().filter(|b| b.next_gsn != seg.base_gsn) {
            let what = format!("base_gsn {}, not {}", seg.base_gsn, before.next_gsn);
            seg.findings.push(finding(FindingKind::Gsn, &seg.path, 64, what));
        }
        if let Some(s) = slot.filter(|s| s.segment == seg.number && s.salt == seg.salt) {
            seg.durable = s.durable_end;
        }
        let newer = Scan::new(&l.bytes, number, limit, &mut seg).run();
        segments.push(seg);
        if newer {
            break;
        }
    }
    OracleLane { number, slot, segments, findings }
}

fn finding(kind: FindingKind, path: &str, offset: u64, what: impl Into<String>) -> Finding {
    Finding { kind, path: path.into(), offset, what: what.into() }
}

fn slots(
    image: &dyn Image,
    dir: &str,
    number: u16,
    store_id: &[u8; 16],
    used: bool,
    findings: &mut Vec<Finding>,
) -> Option<Slot> {
    let path = format!("{dir}/lane");
    let bytes = image.read(&path).unwrap_or_default();
    let read = |at: usize| {
        let b = bytes.get(at..at + 256)?;
        let good = b[..8] == SLOT_MAGIC
            && le32(b, 252) == crc32(&b[..252])
            && (*store_id == [0; 16] || b[16..32] == store_id[..])
            && le16(b, 32) == number
            && le16(b, 34) <= 2
            && le32(b, 108) == 0
            && le32(b, 248) == 0;
        good.then(|| Slot {
            counter: le64(b, 8),
            state: le16(b, 34),
            epoch: le32(b, 36),
            segment: le64(b, 40),
            salt: le64(b, 48),
            written_end: le64(b, 56),
            durable_end: le64(b, 64),
            durable_gsn: le64(b, 72),
            index_offset: le64(b, 80),
        })
    };
    let best = [read(0), read(HEADER)].into_iter().flatten().max_by_key(|s| s.counter);
    if best.is_none() && (used || !all_zero(&bytes)) {
        findings.push(finding(FindingKind::LaneFile, &path, 0, "no valid slot"));
    }
    best
}

type Header = (OracleSegment, u64, u64);

/// `Ok(None)` for a file made ahead.
fn header(
    b: &[u8],
    lane: u16,
    number: u64,
    store_id: &[u8; 16],
) -> Result<Option<Header>, (FindingKind, &'static str)> {
    let head = &b[..b.len().min(HEADER)];
    if all_zero(head) {
        return Ok(None);
    }
    if head.len() < HEADER || head[..8] != SEGMENT_MAGIC || le32(head, 124) != crc32(&head[..124]) {
        return Err((FindingKind::Header, "size, magic or checksum of the segment header"));
    }
    if le16(head, 8) != 1 || le32(head, 12) != 0 || le16(head, 22) != 0 {
        return Err((FindingKind::Newer, "format_major, incompat_flags or kind of the segment"));
    }
    if *store_id != [0; 16] && head[24..40] != store_id[..] {
        return Err((FindingKind::Header, "segment of another store"));
    }
    if le16(head, 20) != lane || le64(head, 40) != number {
        return Err((FindingKind::Header, "lane or number is not that of the name"));
    }
    let prev = le64(head, 80);
    let seg = OracleSegment {
        path: String::new(),
        number,
        epoch: le32(head, 56),
        salt: le64(head, 48),
        base_gsn: le64(head, 64),
        next_gsn: le64(head, 64),
        end: HEADER as u64,
        durable: 0,
        prev: (prev != NONE).then_some(prev),
        capacity: le64(head, 104),
        trailer: None,
        frames: Vec::new(),
        findings: Vec::new(),
    };
    Ok(Some((seg, le64(head, 88), le64(head, 96))))
}

fn chain(loaded: &[Loaded], findings: &mut Vec<Finding>) {
    for (i, l) in loaded.iter().enumerate() {
        let before = i.checked_sub(1).and_then(|j| loaded.get(j));
        let (kind, what) = match (l.seg.prev, before) {
            (None, None) => continue,
            (None, Some(_)) => (FindingKind::Chain, "names no segment before it".to_owned()),
            (Some(p), Some(b)) if p == b.seg.number => {
                if l.prev_salt == b.seg.salt && l.seg.epoch >= b.seg.epoch {
                    continue;
                }
                (FindingKind::Chain, "salt or epoch does not follow".to_owned())
            }
            (Some(p), _) if loaded.iter().any(|x| x.seg.number == p) => {
                (FindingKind::Chain, format!("names {p:016x}, steps over another segment"))
            }
            (Some(p), _) => (FindingKind::Missing, format!("names {p:016x}, which is not there")),
        };
        findings.push(finding(kind, &l.seg.path, 80, what));
    }
}

/// What stands at an offset.
enum At {
    /// A frame with valid checksums: its end and header.
    Frame(usize, OracleFrame),
    /// A valid header with a broken payload, whose end is known.
    Broken(usize),
    /// No valid header.
    Nothing,
}

struct Scan<'a> {
    b: &'a [u8],
    lane: u16,
    seg: &'a mut OracleSegment,
    crc: Crc,
    /// Frames end at or below this offset.
    limit: usize,
    /// The end that the next segment names.
    named_end: Option<u64>,
}

impl<'a> Scan<'a> {
    fn new(bytes: &'a [u8], lane: u16, named: Option<u64>, seg: &'a mut OracleSegment) -> Self {
        if bytes.len() as u64 != seg.capacity {
            let what = format!("{} bytes, the header says {}", bytes.len(), seg.capacity);
            seg.findings.push(finding(FindingKind::Damage, &seg.path, 104, what));
        }
        let size = seg.capacity.min(bytes.len() as u64);
        if size == seg.capacity && size >= HEADER as u64 + 64 {
            seg.trailer = trailer(&bytes[size as usize - 64..size as usize], seg);
        }
        let room = size.saturating_sub(if size == seg.capacity { 64 } else { 0 });
        let limit = room.min(named.unwrap_or(u64::MAX)).max(HEADER as u64) as usize & !7;
        let limit = limit.min(bytes.len());
        let crc = Crc::new().add(&seg.salt.to_le_bytes());
        Self { b: bytes, lane, crc, limit, named_end: named, seg }
    }

    fn say(&mut self, kind: FindingKind, offset: usize, what: impl Into<String>) {
        self.seg.findings.push(finding(kind, &self.seg.path, offset as u64, what));
    }

    /// Scans all frames; `true` when something newer stops the lane.
    fn run(mut self) -> bool {
        let durable = self.named_end.or(self.seg.trailer.map(|t| t.frames_end)).unwrap_or(0);
        self.seg.durable = self.seg.durable.max(durable);
        let mut pos = HEADER;
        loop {
            match self.at(pos) {
                At::Frame(end, frame) => {
                    if self.take(pos, frame) {
                        return true;
                    }
                    pos = end;
                    self.seg.end = end as u64;
                }
                At::Broken(end) => match self.search(end) {
                    Some(next) => {
                        self.say(FindingKind::Damage, pos, format!("bad payload up to {next}"));
                        pos = next;
                    }
                    None => {
                        self.tail(pos);
                        break;
                    }
                },
                At::Nothing => match self.search(pos + 8) {
                    Some(next) => {
                        self.say(FindingKind::Damage, pos, format!("no frame up to {next}"));
                        pos = next;
                    }
                    None => {
                        self.tail(pos);
                        break;
                    }
                },
            }
        }
        self.close();
        false
    }

    /// Nothing valid follows `pos`.
    fn tail(&mut self, pos: usize) {
        let rest = self.b.get(pos..self.limit).unwrap_or_default();
        let lost = (pos as u64) < self.seg.durable;
        if lost {
            let what = format!("no frame, though durable up to {}", self.seg.durable);
            self.say(FindingKind::Damage, pos, what);
        } else if let Some(i) = first_nonzero(rest) {
            let last = rest.iter().rposition(|&x| x != 0).unwrap_or(i);
            self.say(FindingKind::TornTail, pos, format!("{} bytes are no frame", last + 1));
        }
    }

    /// Position of the next valid frame header at or after `from`.
    fn search(&self, from: usize) -> Option<usize> {
        let mut pos = from;
        while pos + 48 <= self.limit {
            if le64(self.b, pos) == 0 {
                // A frame has a kind, so it cannot start more than 15 bytes before a nonzero byte.
                let next = pos + first_nonzero(&self.b[pos..self.limit])?;
                pos = pos.max(next.saturating_sub(15) & !7);
            }
            match self.at(pos) {
                At::Frame(..) => return Some(pos),
                At::Broken(end) => pos = end,
                At::Nothing => pos += 8,
            }
        }
        None
    }

    fn at(&self, pos: usize) -> At {
        let Some(h) = pos.checked_add(48).filter(|&e| e <= self.limit).map(|e| &self.b[pos..e])
        else {
            return At::Nothing;
        };
        if h[12] == 0 || le32(h, 0) != self.crc.add(&(pos as u64).to_le_bytes()).add(&h[4..]).end()
        {
            return At::Nothing;
        }
        let len = le32(h, 4) as usize;
        let Some(end) = len.checked_next_multiple_of(8).map(|n| n.saturating_add(pos + 48)) else {
            return At::Nothing;
        };
        if end > self.limit {
            return At::Nothing;
        }
        let payload = &self.b[pos + 48..pos + 48 + len];
        if crc32(payload) != le32(h, 8) || !all_zero(&self.b[pos + 48 + len..end]) {
            return At::Broken(end);
        }
        let frame = OracleFrame {
            offset: pos as u64,
            len: len as u32,
            kind: h[12],
            flags: h[13],
            count: le16(h, 14),
            session: le64(h, 16),
            seq: le64(h, 24),
            gsn: le64(h, 32),
            body: FrameBody::Bad,
        };
        At::Frame(end, frame)
    }

    /// Adds a frame; `true` when it is of a newer format.
    fn take(&mut self, pos: usize, mut f: OracleFrame) -> bool {
        let payload = &self.b[pos + 48..pos + 48 + f.len as usize];
        let mark = matches!(f.kind, 2 | 4);
        if f.gsn != self.seg.next_gsn {
            let what = format!("gsn {}, not {}", f.gsn, self.seg.next_gsn);
            self.say(FindingKind::Gsn, pos, what);
        }
        self.seg.next_gsn = f.gsn.saturating_add(u64::from(f.count));
        let transformed =
            f.kind < 128 && (le32(self.b, pos + 40) != 0 || le32(self.b, pos + 44) != 0);
        match payload::body(&f, payload, self.lane, self.seg.epoch) {
            Ok(_) if transformed => self.say(FindingKind::Payload, pos, "raw_len or key"),
            Ok(body) => f.body = body,
            Err(Refusal::Bad(what)) => self.say(FindingKind::Payload, pos, what),
            Err(Refusal::Newer(what)) => {
                self.say(FindingKind::Newer, pos, what);
                return true;
            }
        }
        if mark && f.body != FrameBody::Bad {
            if f.seq > pos as u64 {
                self.say(FindingKind::Payload, pos, "durable above itself");
            }
            self.seg.durable = self.seg.durable.max(f.seq.min(pos as u64));
        }
        self.seg.frames.push(f);
        false
    }

    /// Compares the end with what the next segment and the trailer say.
    fn close(&mut self) {
        if let Some(end) = self.named_end.filter(|&e| e < HEADER as u64 || e % 8 != 0) {
            self.say(FindingKind::Chain, HEADER, format!("the next segment ends it at {end}"));
        }
        let Some(t) = self.seg.trailer else { return };
        let last_index = self.seg.frames.iter().rfind(|f| f.kind == 3).map_or(0, |f| f.offset);
        let wrong = t.frames_end != self.seg.end
            || t.next_gsn != self.seg.next_gsn
            || t.index_offset != last_index;
        if wrong && self.seg.findings.is_empty() {
            let at = self.seg.capacity as usize - 64;
            self.say(FindingKind::Trailer, at, "does not fit the frames");
        }
    }
}

fn trailer(b: &[u8], seg: &OracleSegment) -> Option<Trailer> {
    let good = b[..8] == TRAILER_MAGIC
        && le32(b, 60) == crc32(&b[..60])
        && le64(b, 32) == seg.salt
        && le64(b, 48) == seg.number
        && le32(b, 56) == 0;
    good.then(|| Trailer {
        index_offset: le64(b, 8),
        frames_end: le64(b, 16),
        next_gsn: le64(b, 24),
        next_session: le64(b, 40),
    })
}
