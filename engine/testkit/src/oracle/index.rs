//! INDEX payloads (section 7.2): decode, encode, and compare with the frames that they cover.
//!
//! 1. An INDEX is derived: what is wrong here costs time, never an event, so [`super::decode`] ignores it.
//! 2. Only segments without other findings are checked: an index may list frames that were damaged since.

use super::bytes::{Cur, le64, put_varint, put_zigzag, type_code};
use super::{
    ControlBody, Finding, FindingKind, FrameBody, Image, OracleEvent, OracleFrame, OracleSegment,
    OracleStore,
};

/// EVENTS frames of one session without a gap in seq.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as on the page")]
pub struct Run {
    pub session: u64,
    pub first_seq: u64,
    pub last_time: i64,
    pub bytes: u64,
    /// (offset, number of events).
    pub frames: Vec<(u64, u64)>,
    /// (seq, class).
    pub marks: Vec<(u64, u8)>,
}

/// A control frame as an INDEX lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as on the page")]
pub struct Listed {
    pub offset: u64,
    pub kind: u8,
    pub seq: u64,
    pub session: u64,
    pub payload: Vec<u8>,
}

/// What an INDEX says.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as on the page")]
pub struct View {
    pub prev_index: u64,
    pub from: u64,
    pub next_session: u64,
    pub runs: Vec<Run>,
    pub controls: Vec<Listed>,
}

/// The class of which a frame has the first only.
const OTHER: u8 = 7;

/// Classes of an event, ascending.
fn classes(e: &OracleEvent) -> impl Iterator<Item = u8> {
    let by_type = match &e.ty[..] {
        b"turn/start" => Some(1),
        b"turn/end" => Some(2),
        b"step/start" => Some(3),
        b"step/end" => Some(4),
        b"request/header" | b"request/context" => Some(5),
        b"session/end-seed" => Some(6),
        ty if !e.ignorable && type_code(ty).is_none() && e.surface_op.is_none() => Some(OTHER),
        _ => None,
    };
    e.surface_op.is_some().then_some(0).into_iter().chain(by_type)
}

/// The INDEX that lists `frames`. Payloads of control frames are encoded anew.
#[must_use]
pub fn expected(frames: &[&OracleFrame], prev_index: u64, from: u64, next_session: u64) -> View {
    let mut runs: Vec<(Run, u64)> = Vec::new();
    let mut controls = Vec::new();
    for f in frames {
        match &f.body {
            FrameBody::Events(events) => {
                let open =
                    runs.iter().rposition(|(r, next)| r.session == f.session && *next == f.seq);
                let at = open.unwrap_or(runs.len());
                if open.is_none() {
                    let run = Run {
                        session: f.session,
                        first_seq: f.seq,
                        last_time: 0,
                        bytes: 0,
                        frames: Vec::new(),
                        marks: Vec::new(),
                    };
                    runs.push((run, f.seq));
                }
                let (run, next) = &mut runs[at];
                run.frames.push((f.offset, events.len() as u64));
                run.bytes += u64::from(f.len);
                *next += events.len() as u64;
                let mut other = false;
                for e in events {
                    run.last_time = e.time;
                    let first = |c: &u8| *c != OTHER || !std::mem::replace(&mut other, true);
                    run.marks.extend(classes(e).filter(first).map(|c| (e.seq, c)));
                }
            }
            FrameBody::Control(c) => controls.push(Listed {
                offset: f.offset,
                kind: f.kind,
                seq: f.seq,
                session: f.session,
                payload: without_header(c),
            }),
            _ => {}
        }
    }
    let mut runs: Vec<Run> = runs.into_iter().map(|r| r.0).collect();
    runs.sort_by_key(|r| (r.session, r.first_seq));
    View { prev_index, from, next_session, runs, controls }
}

fn put_event_id(p: &mut Vec<u8>, id: super::EventId) {
    p.extend(id.lane.to_le_bytes());
    p.extend([0, 0]);
    p.extend(id.epoch.to_le_bytes());
    p.extend(id.gsn.to_le_bytes());
}

fn without_header(c: &super::Control) -> Vec<u8> {
    let mut p = super::build::prefix(c.epoch, c.flags, c.time);
    match &c.body {
        ControlBody::Create { id, fork, .. } => {
            if let Some(f) = fork {
                p.extend(f.parent.to_le_bytes());
                p.extend(f.boundary.to_le_bytes());
                put_event_id(&mut p, f.event);
                p.extend((f.owners.len() as u16).to_le_bytes());
                for (session, below) in &f.owners {
                    p.extend(session.to_le_bytes());
                    p.extend(below.to_le_bytes());
                }
            }
            p.extend((id.len() as u16).to_le_bytes());
            p.extend(id);
            p.extend([0; 4]);
        }
        ControlBody::Continue(id) => put_event_id(&mut p, *id),
        ControlBody::Range { first, last } => {
            p.extend(first.to_le_bytes());
            p.extend(last.to_le_bytes());
        }
        ControlBody::Tag(bytes) => {
            p.extend((bytes.len() as u32).to_le_bytes());
            p.extend(bytes);
        }
        ControlBody::Nothing => {}
    }
    p
}

/// The payload.
#[must_use]
pub fn encode(view: &View) -> Vec<u8> {
    let mut head = view.prev_index.to_le_bytes().to_vec();
    head.extend(view.from.to_le_bytes());
    head.extend(view.next_session.to_le_bytes());
    head.extend((view.runs.len() as u32).to_le_bytes());
    head.extend((view.controls.len() as u32).to_le_bytes());
    let mut controls = Vec::new();
    let mut before = view.from;
    for c in &view.controls {
        put_varint(&mut controls, (c.offset - before) / 8);
        before = c.offset;
        controls.push(c.kind);
        put_varint(&mut controls, c.seq);
        put_varint(&mut controls, c.session);
        put_varint(&mut controls, c.payload.len() as u64);
        controls.extend(&c.payload);
    }
    let base = head.len() + 16 * view.runs.len() + controls.len();
    let mut entries = Vec::new();
    for r in &view.runs {
        head.extend(r.session.to_le_bytes());
        head.extend(((base + entries.len()) as u32).to_le_bytes());
        let events: u64 = r.frames.iter().map(|f| f.1).sum();
        head.extend((events as u32).to_le_bytes());
        put_varint(&mut entries, r.first_seq);
        put_zigzag(&mut entries, r.last_time);
        put_varint(&mut entries, r.bytes);
        put_varint(&mut entries, r.frames.len() as u64);
        let mut before = view.from;
        for (offset, count) in &r.frames {
            put_varint(&mut entries, (offset - before) / 8);
            put_varint(&mut entries, *count);
            before = *offset;
        }
        put_varint(&mut entries, r.marks.len() as u64);
        let mut before = r.first_seq;
        for (seq, class) in &r.marks {
            put_varint(&mut entries, (seq - before) * 8 + u64::from(*class));
            before = *seq;
        }
    }
    [head, controls, entries].concat()
}

/// Reads a payload; `None` where it is no INDEX.
#[must_use]
pub fn decode(p: &[u8]) -> Option<View> {
    let mut c = Cur::new(p);
    let (prev_index, from, next_session) = (c.u64()?, c.u64()?, c.u64()?);
    let (runs, controls) = (c.u32()? as usize, c.u32()? as usize);
    let mut directory = Vec::new();
    for _ in 0..runs {
        directory.push((c.u64()?, c.u32()? as usize, u64::from(c.u32()?)));
    }
    let mut view = View { prev_index, from, next_session, runs: Vec::new(), controls: Vec::new() };
    let mut offset = from;
    for _ in 0..controls {
        offset = offset.checked_add(c.varint()?.checked_mul(8)?)?;
        let (kind, seq, session) = (c.u8()?, c.varint()?, c.varint()?);
        let payload = c.counted()?.to_vec();
        view.controls.push(Listed { offset, kind, seq, session, payload });
    }
    for (session, at, events) in directory {
        if at < c.at {
            return None;
        }
        let run = entry(p.get(at..)?, session, from)?;
        if run.frames.iter().map(|f| f.1).sum::<u64>() != events {
            return None;
        }
        view.runs.push(run);
    }
    Some(view)
}

fn entry(p: &[u8], session: u64, from: u64) -> Option<Run> {
    let mut c = Cur::new(p);
    let (first_seq, last_time, bytes) = (c.varint()?, c.zigzag()?, c.varint()?);
    let mut run =
        Run { session, first_seq, last_time, bytes, frames: Vec::new(), marks: Vec::new() };
    let mut offset = from;
    for _ in 0..c.varint()? {
        offset = offset.checked_add(c.varint()?.checked_mul(8)?)?;
        let count = c.varint()?;
        if count > 65_535 {
            return None;
        }
        run.frames.push((offset, count));
    }
    let mut seq = first_seq;
    for _ in 0..c.varint()? {
        let v = c.varint()?;
        seq = seq.checked_add(v / 8)?;
        run.marks.push((seq, (v % 8) as u8));
    }
    Some(run)
}

/// The same without marks of class OTHER, which the first writers of the format did not make.
fn without_other(view: &View) -> View {
    let mut view = view.clone();
    view.runs.iter_mut().for_each(|r| r.marks.retain(|(_, class)| *class != OTHER));
    view
}

/// Compares every INDEX with the frames before it.
#[must_use]
pub fn check(image: &dyn Image, store: &OracleStore) -> Vec<Finding> {
    let mut out = Vec::new();
    for segment in store.lanes.iter().flat_map(|l| &l.segments) {
        let bytes = if segment.findings.is_empty() { image.read(&segment.path) } else { None };
        if let Some(bytes) = bytes {
            check_segment(&bytes, segment, &mut out);
        }
    }
    out
}

fn check_segment(bytes: &[u8], segment: &OracleSegment, out: &mut Vec<Finding>) {
    let (mut last, mut from) = (0, 4096);
    for (i, f) in segment.frames.iter().enumerate().filter(|(_, f)| f.kind == 3) {
        let start = f.offset as usize + 48;
        let payload = bytes.get(start..start + f.len as usize).unwrap_or_default();
        let covered: Vec<&OracleFrame> =
            segment.frames[..i].iter().filter(|g| g.offset >= from).collect();
        let want = expected(&covered, last, from, le64(payload, 16));
        let what = match decode(payload) {
            None => "cannot be read".to_owned(),
            Some(have) if (have == want || have == without_other(&want)) && f.seq == from => {
                String::new()
            }
            Some(have) => format!("says {have:?}, not {want:?}"),
        };
        if !what.is_empty() {
            let path = segment.path.clone();
            out.push(Finding { kind: FindingKind::Index, path, offset: f.offset, what });
        }
        last = f.offset;
        from = (f.offset + 48 + u64::from(f.len)).next_multiple_of(8);
    }
}
