//! Payloads of EVENTS and control frames (sections 7.1 and 7.3).
//!
//! 1. A payload is taken whole or refused whole.
//! 2. Counts are bounded by the bytes that are left before anything is allocated for them.
//! 3. Whether `data` is JSON is not looked at.

use super::bytes::{Cur, TYPES, is_wtf8, le32, le64, type_code};
use super::{
    Control, ControlBody, EventId, ForkPoint, FrameBody, MAX_SEQ, NONE, OracleEvent, OracleFrame,
    SurfaceOp,
};
use std::borrow::Cow;
use std::sync::Arc;

pub(super) const IGNORABLE: u64 = 1;
pub(super) const APPEND: u64 = 2;
pub(super) const REPLACE: u64 = 4;
pub(super) const SOURCES: u64 = 8;
pub(super) const SURFACE_FIRST: u64 = 16;
pub(super) const TYPE_TEXT: u64 = 32;
const VALUE_REF: u64 = 64;
pub(super) const SERIES: u64 = 128;

pub(super) const RESTARTS: u8 = 1;
pub(super) const COLUMNS: u8 = 4;

/// Why a payload was refused.
pub(super) enum Refusal {
    /// It breaks the page.
    Bad(&'static str),
    /// It is of a newer format.
    Newer(&'static str),
}

use Refusal::{Bad, Newer};

/// Decodes the payload of a frame with valid checksums.
pub(super) fn body(f: &OracleFrame, p: &[u8], lane: u16, epoch: u32) -> Result<FrameBody, Refusal> {
    match f.kind {
        1 if f.flags & !(RESTARTS | COLUMNS) != 0 => return Err(Newer("unknown flag")),
        2..=4 | 16..=22 | 24..=25 if f.flags != 0 => return Err(Newer("unknown flag")),
        1..=4 | 16..=22 | 24..=25 => {}
        128.. => return Ok(FrameBody::Unknown),
        _ => return Err(Newer("unknown kind")),
    }
    if f.gsn > MAX_SEQ + 1 {
        return Err(Bad("gsn over the limit"));
    }
    if f.kind == 1 {
        return events(f, p, lane, epoch).map(FrameBody::Events);
    }
    if f.count != 0 {
        return Err(Bad("count in a frame without events"));
    }
    if f.kind <= 4 {
        if f.session != 0 {
            return Err(Bad("session in a frame of the lane"));
        }
        if f.kind != 3 && !p.is_empty() {
            return Err(Bad("payload in SYNCMARK or CLOSE"));
        }
        return Ok(FrameBody::Lane); // what an INDEX says is for index::check
    }
    control(f, p).map(FrameBody::Control)
}

fn events(
    f: &OracleFrame,
    p: &[u8],
    lane: u16,
    epoch: u32,
) -> Result<Vec<Arc<OracleEvent>>, Refusal> {
    let count = usize::from(f.count);
    if count == 0 {
        return Err(Bad("EVENTS without events"));
    }
    if f.seq > MAX_SEQ - (count as u64 - 1) || f.gsn > MAX_SEQ - (count as u64 - 1) {
        return Err(Bad("seq or gsn over the limit"));
    }
    if count > 32 && f.flags & RESTARTS == 0 {
        return Err(Bad("more than 32 events without a restart table"));
    }
    let entries = if f.flags & RESTARTS == 0 { 0 } else { (count - 1) / 16 };
    let Some(body_len) = p.len().checked_sub(entries * 12) else {
        return Err(Bad("payload shorter than its restart table"));
    };
    let (records, table) = p.split_at(body_len);
    let mut c = Cur::new(records);
    let mut time = c.zigzag().ok_or(Bad("first time"))?;
    let mut out = Vec::with_capacity(count.min(16 * records.len()));
    while out.len() < count {
        let i = out.len();
        if entries > 0 && i > 0 && i % 16 == 0 {
            let at = (i / 16 - 1) * 12;
            if le32(table, at) as usize != c.at || le64(table, at + 4) as i64 != time {
                return Err(Bad("restart table"));
            }
        }
        let start = c.at;
        let head = c.varint().ok_or(Bad("head"))?;
        let more = if head & SERIES == 0 {
            vec![event(&mut c, head, f.seq + i as u64, &mut time, i == 0)?]
        } else if f.flags & COLUMNS != 0 {
            let room = (16 - i % 16).min(count - i);
            series(&mut c, head, &records[..start], &mut time, i == 0, room)?
        } else {
            return Err(Bad("a series without its flag"));
        };
        for mut e in more {
            let k = out.len() as u64;
            (e.seq, e.gsn) = (f.seq + k, f.gsn + k);
            (e.session, e.lane, e.epoch) = (f.session, lane, epoch);
            out.push(Arc::new(e));
        }
    }
    if c.left() != 0 { Err(Bad("bytes after the last record")) } else { Ok(out) }
}

/// The events of a series (section 7.1.1), of which `before` is all that stands before its head.
fn series(
    c: &mut Cur,
    head: u64,
    before: &[u8],
    time: &mut i64,
    first: bool,
    room: usize,
) -> Result<Vec<OracleEvent>, Refusal> {
    if head & !(SERIES | IGNORABLE | TYPE_TEXT) != 0 {
        return Err(Bad("head bits of a series"));
    }
    let ty = event_type(c, head)?;
    let n = usize::from(c.u8().ok_or(Bad("n of a series"))?);
    if n == 0 || n > room {
        return Err(Bad("n of a series"));
    }
    let back = c.varint().ok_or(Bad("back"))?;
    let (prefix, suffix) = if back == 0 {
        (c.counted(), c.counted())
    } else {
        let at = (before.len() as u64).checked_sub(back).ok_or(Bad("back"))?;
        let mut there = Cur::new(&before[at as usize..]);
        (there.counted(), there.counted())
    };
    let (Some(prefix), Some(suffix)) = (prefix, suffix) else { return Err(Bad("template")) };
    if prefix.len() + suffix.len() > 1024 {
        return Err(Bad("template over the limit"));
    }
    let mut times = Vec::new();
    for k in 0..n {
        let delta = c.zigzag().ok_or(Bad("times of a series"))?;
        if first && k == 0 && delta != 0 {
            return Err(Bad("first time delta"));
        }
        *time = time.checked_add(delta).ok_or(Bad("time"))?;
        times.push(*time);
    }
    let lengths: Option<Vec<u64>> = (0..n).map(|_| c.varint()).collect();
    let lengths = lengths.ok_or(Bad("lengths of a series"))?;
    let mut out = Vec::new();
    for (time, length) in times.into_iter().zip(lengths) {
        let text = usize::try_from(length).ok().and_then(|n| c.take(n));
        let data = [prefix, text.ok_or(Bad("texts of a series"))?, suffix].concat();
        if data.is_empty() {
            return Err(Bad("empty data"));
        }
        out.push(OracleEvent {
            session: 0,
            seq: 0,
            time,
            ty: ty.clone(),
            data,
            surface_op: None,
            sources: None,
            ignorable: head & IGNORABLE != 0,
            surface_first: false,
            lane: 0,
            epoch: 0,
            gsn: 0,
        });
    }
    Ok(out)
}

fn event_type(c: &mut Cur, head: u64) -> Result<Cow<'static, [u8]>, Refusal> {
    if head & TYPE_TEXT != 0 {
        let text = c.counted().ok_or(Bad("type"))?;
        if text.len() > 1024 || !is_wtf8(text) || type_code(text).is_some() {
            return Err(Bad("type text"));
        }
        return Ok(Cow::Owned(text.to_vec()));
    }
    let code = usize::from(c.u8().ok_or(Bad("type"))?);
    let name = code.checked_sub(1).and_then(|i| TYPES.get(i)).ok_or(Bad("type code"))?;
    Ok(Cow::Borrowed(name.as_bytes()))
}

fn event(
    c: &mut Cur,
    head: u64,
    seq: u64,
    time: &mut i64,
    first: bool,
) -> Result<OracleEvent, Refusal> {
    if head & !0x7F != 0 || head & (APPEND | REPLACE) == APPEND | REPLACE {
        return Err(Bad("head bits"));
    }
    if head & VALUE_REF != 0 {
        return Err(Newer("VALUE_REF"));
    }
    let ty = event_type(c, head)?;
    let delta = c.zigzag().ok_or(Bad("time"))?;
    if first && delta != 0 {
        return Err(Bad("first time delta"));
    }
    *time = time.checked_add(delta).ok_or(Bad("time"))?;
    let surface_op = if head & REPLACE != 0 {
        let start = c.varint().ok_or(Bad("replace"))?;
        let end = c.varint().ok_or(Bad("replace"))?;
        if start.max(end) > MAX_SEQ {
            return Err(Bad("replace over the limit"));
        }
        Some(SurfaceOp::Replace { start, end })
    } else {
        (head & APPEND != 0).then_some(SurfaceOp::Append)
    };
    let sources = if head & SOURCES != 0 { Some(sources(c, seq)?) } else { None };
    let data = c.counted().ok_or(Bad("data"))?.to_vec();
    if data.is_empty() {
        return Err(Bad("empty data"));
    }
    Ok(OracleEvent {
        session: 0,
        seq,
        time: *time,
        ty,
        data,
        surface_op,
        sources,
        ignorable: head & IGNORABLE != 0,
        surface_first: head & SURFACE_FIRST != 0,
        lane: 0,
        epoch: 0,
        gsn: 0,
    })
}

fn sources(c: &mut Cur, seq: u64) -> Result<Vec<u64>, Refusal> {
    let n = c.varint().ok_or(Bad("sources"))?;
    if n > c.left() as u64 {
        return Err(Bad("sources"));
    }
    let mut out = Vec::with_capacity(n as usize);
    let mut at = seq as i64;
    for _ in 0..n {
        at = c.zigzag().and_then(|d| at.checked_add(d)).ok_or(Bad("sources"))?;
        if !(0..=MAX_SEQ as i64).contains(&at) {
            return Err(Bad("sources over the limit"));
        }
        out.push(at as u64);
    }
    Ok(out)
}

fn event_id(c: &mut Cur) -> Option<EventId> {
    let lane = c.u16()?;
    if c.u16()? != 0 {
        return None;
    }
    Some(EventId { lane, epoch: c.u32()?, gsn: c.u64()? })
}

fn create(c: &mut Cur, fork: Option<ForkPoint>) -> Option<ControlBody> {
    let n = usize::from(c.u16()?);
    let id = c.take(n)?.to_vec();
    let n = c.u32()? as usize;
    let header = c.take(n)?.to_vec();
    let good = id.len() <= 1024
        && is_wtf8(&id)
        && header.len() <= 1 << 20
        && std::str::from_utf8(&header).is_ok();
    good.then_some(ControlBody::Create { id, header, fork })
}

fn fork_point(c: &mut Cur) -> Option<ForkPoint> {
    let (parent, boundary, event) = (c.u64()?, c.u64()?, event_id(c)?);
    let n = usize::from(c.u16()?);
    let mut owners = Vec::with_capacity(n.min(c.left() / 16));
    for _ in 0..n {
        owners.push((c.u64()?, c.u64()?));
    }
    let rising = owners.windows(2).all(|w| w[0].1 < w[1].1);
    let whole = owners.last().is_some_and(|o| Some(o.1) == boundary.checked_add(1));
    (rising && whole && event.gsn != NONE).then_some(ForkPoint { parent, boundary, event, owners })
}

fn control(f: &OracleFrame, p: &[u8]) -> Result<Control, Refusal> {
    let mut c = Cur::new(p);
    let prefix = (c.u32(), c.u32(), c.u64());
    let (Some(epoch), Some(flags), Some(time)) = prefix else { return Err(Bad("prefix")) };
    if flags > u32::from(f.kind == 16) {
        return Err(Bad("control flags"));
    }
    let body = match f.kind {
        16 => create(&mut c, None).filter(|_| f.seq == 0 && epoch == 0),
        17 => event_id(&mut c).filter(|_| epoch > 0).map(ControlBody::Continue),
        18 => match fork_point(&mut c) {
            Some(point) if f.seq == point.boundary.wrapping_add(1) && epoch == 0 => {
                create(&mut c, Some(point))
            }
            _ => None,
        },
        21 | 22 => match (c.u64(), c.u64()) {
            (Some(first), Some(last)) if first <= last => Some(ControlBody::Range { first, last }),
            _ => None,
        },
        25 => {
            let n = c.u32().unwrap_or(0) as usize;
            c.take(n).filter(|_| p.len() >= 20).map(|b| ControlBody::Tag(b.to_vec()))
        }
        _ => Some(ControlBody::Nothing),
    };
    match body {
        Some(body) if c.left() == 0 && f.seq <= MAX_SEQ + 1 => {
            Ok(Control { epoch, flags, time: time as i64, body })
        }
        _ => Err(Bad("control payload")),
    }
}
