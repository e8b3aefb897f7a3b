//! Payloads of control frames (docs/format.md section 7.3).
//!
//! # Invariants
//! K1. A decoder takes exactly the bytes of the payload: what is left over is a fault.

use super::codec::{Walk, put_varint};
use super::frame::kind;
use super::{Decoded, Fault};
use crate::limits;
use crate::types::{EventId, Seq, SessionNo};

#[cfg(test)]
pub(crate) const PREFIX_FIELDS: &[super::FieldRow] =
    &[(0, 4, "session_epoch"), (4, 4, "flags"), (8, 8, "time_ms")];

/// Flag of CREATE: the session is invisible until a PUBLISH.
pub(crate) const CREATE_PENDING: u32 = 1;

/// One owner of a fork's events: the seqs below `end` that no earlier owner has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Owner {
    pub(crate) session: SessionNo,
    pub(crate) end: Seq,
}

/// What a control frame says, beside the session and seq in its header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Body {
    Create {
        id: Box<[u8]>,
        header: Box<[u8]>,
    },
    Continue {
        prev: Option<EventId>,
    },
    Fork {
        parent: SessionNo,
        boundary: Seq,
        at: EventId,
        owners: Vec<Owner>,
        id: Box<[u8]>,
        header: Box<[u8]>,
    },
    Rm,
    Restore,
    Purge {
        first: Seq,
        last: Seq,
    },
    Redact {
        first: Seq,
        last: Seq,
    },
    Publish,
    Tag {
        bytes: Box<[u8]>,
    },
}

/// A control frame's payload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Control {
    pub(crate) session_epoch: u32,
    pub(crate) flags: u32,
    pub(crate) time_ms: i64,
    pub(crate) body: Body,
}

impl Control {
    /// Frame kind of this payload.
    pub(crate) fn kind(&self) -> u8 {
        match self.body {
            Body::Create { .. } => kind::CREATE,
            Body::Continue { .. } => kind::CONTINUE,
            Body::Fork { .. } => kind::FORK,
            Body::Rm => kind::RM,
            Body::Restore => kind::RESTORE,
            Body::Purge { .. } => kind::PURGE,
            Body::Redact { .. } => kind::REDACT,
            Body::Publish => kind::PUBLISH,
            Body::Tag { .. } => kind::TAG,
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64);
        out.extend_from_slice(&self.session_epoch.to_le_bytes());
        out.extend_from_slice(&self.flags.to_le_bytes());
        out.extend_from_slice(&self.time_ms.to_le_bytes());
        match &self.body {
            Body::Create { id, header } => put_named(&mut out, id, header),
            Body::Continue { prev } => put_event(&mut out, *prev),
            Body::Fork { parent, boundary, at, owners, id, header } => {
                out.extend_from_slice(&parent.0.to_le_bytes());
                out.extend_from_slice(&boundary.to_le_bytes());
                put_event(&mut out, Some(*at));
                out.extend_from_slice(&(owners.len() as u16).to_le_bytes());
                for o in owners {
                    out.extend_from_slice(&o.session.0.to_le_bytes());
                    out.extend_from_slice(&o.end.to_le_bytes());
                }
                put_named(&mut out, id, header);
            }
            Body::Purge { first, last } | Body::Redact { first, last } => {
                out.extend_from_slice(&first.to_le_bytes());
                out.extend_from_slice(&last.to_le_bytes());
            }
            Body::Tag { bytes } => {
                out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
                out.extend_from_slice(bytes);
            }
            Body::Rm | Body::Restore | Body::Publish => {}
        }
        out
    }

    pub(crate) fn decode(kind: u8, payload: &[u8]) -> Decoded<Self> {
        let mut w = Walk::new(payload);
        let out = decode_walk(kind, &mut w).ok_or(Fault::Field("a control frame is cut short"))?;
        if w.left() != 0 {
            return Err(Fault::Field("a control frame has bytes left over"));
        }
        Ok(out)
    }

    /// The payload as an INDEX frame keeps it: without the text of the header.
    pub(crate) fn summary(&self) -> Vec<u8> {
        match &self.body {
            Body::Create { id, .. } => {
                let body = Body::Create { id: id.clone(), header: Box::default() };
                Self { body, ..self.clone() }.encode()
            }
            Body::Fork { parent, boundary, at, owners, id, .. } => {
                let body = Body::Fork {
                    parent: *parent,
                    boundary: *boundary,
                    at: *at,
                    owners: owners.clone(),
                    id: id.clone(),
                    header: Box::default(),
                };
                Self { body, ..self.clone() }.encode()
            }
            _ => self.encode(),
        }
    }
}

fn put_named(out: &mut Vec<u8>, id: &[u8], header: &[u8]) {
    out.extend_from_slice(&(id.len() as u16).to_le_bytes());
    out.extend_from_slice(id);
    out.extend_from_slice(&(header.len() as u32).to_le_bytes());
    out.extend_from_slice(header);
}

fn put_event(out: &mut Vec<u8>, event: Option<EventId>) {
    let e = event.unwrap_or(EventId { lane: 0, epoch: 0, gsn: u64::MAX });
    out.extend_from_slice(&e.lane.to_le_bytes());
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(&e.epoch.to_le_bytes());
    out.extend_from_slice(&e.gsn.to_le_bytes());
}

fn event(w: &mut Walk<'_>) -> Option<Option<EventId>> {
    let lane = w.u16()?;
    (w.u16()? == 0).then_some(())?;
    let (epoch, gsn) = (w.u32()?, w.u64()?);
    if gsn == u64::MAX {
        return Some(None);
    }
    super::codec::is_safe(gsn).then_some(Some(EventId { lane, epoch, gsn }))
}

/// An id and a header text.
type Named = (Box<[u8]>, Box<[u8]>);

fn named(w: &mut Walk<'_>) -> Option<Named> {
    let id_len = usize::from(w.u16()?);
    if id_len == 0 || id_len > limits::SESSION_ID_BYTES_MAX {
        return None;
    }
    let id = w.take(id_len)?;
    let header_len = w.u32()? as usize;
    if header_len > limits::HEADER_BYTES_MAX || !crate::types::is_wtf8(id) {
        return None;
    }
    Some((id.into(), w.take(header_len)?.into()))
}

fn decode_walk(kind: u8, w: &mut Walk<'_>) -> Option<Control> {
    let (session_epoch, flags, time_ms) = (w.u32()?, w.u32()?, w.u64()? as i64);
    if session_epoch == u32::MAX {
        return None;
    }
    let body = match kind {
        kind::CREATE => {
            let (id, header) = named(w)?;
            Body::Create { id, header }
        }
        kind::CONTINUE => Body::Continue { prev: event(w)? },
        kind::FORK => {
            let (parent, boundary, at) = (SessionNo(w.u64()?), w.u64()?, event(w)??);
            let n = usize::from(w.u16()?);
            if w.left() < n * 16 {
                return None;
            }
            let mut owners = Vec::with_capacity(n);
            for _ in 0..n {
                owners.push(Owner { session: SessionNo(w.u64()?), end: w.u64()? });
            }
            // The bounds rise up to the seq behind the boundary: every shared event has one owner.
            let rising = owners.is_sorted_by(|a: &Owner, b| a.end < b.end);
            let last = owners.last().map(|o| o.end);
            if !rising || boundary >= limits::SAFE_INTEGER_MAX || last != Some(boundary + 1) {
                return None;
            }
            let (id, header) = named(w)?;
            Body::Fork { parent, boundary, at, owners, id, header }
        }
        kind::RM => Body::Rm,
        kind::RESTORE => Body::Restore,
        kind::PURGE => Body::Purge { first: w.u64()?, last: w.u64()? },
        kind::REDACT => Body::Redact { first: w.u64()?, last: w.u64()? },
        kind::PUBLISH => Body::Publish,
        kind::TAG => {
            let len = w.u32()? as usize;
            Body::Tag { bytes: w.take(len)?.into() }
        }
        _ => return None,
    };
    Some(Control { session_epoch, flags, time_ms, body })
}

/// Appends a control frame's row of an INDEX frame.
pub(crate) fn put_row(
    out: &mut Vec<u8>,
    offset_delta: u64,
    kind: u8,
    seq: Seq,
    no: SessionNo,
    summary: &[u8],
) {
    put_varint(out, offset_delta >> 3);
    out.push(kind);
    put_varint(out, seq);
    put_varint(out, no.0);
    put_varint(out, summary.len() as u64);
    out.extend_from_slice(summary);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn all() -> Vec<Body> {
        let at = EventId { lane: 2, epoch: 3, gsn: 4 };
        let (id, header): (Box<[u8]>, Box<[u8]>) = (b"s-1"[..].into(), b"{\"a\":1}"[..].into());
        vec![
            Body::Create { id: id.clone(), header: header.clone() },
            Body::Continue { prev: Some(at) },
            Body::Continue { prev: None },
            Body::Fork {
                parent: SessionNo(7),
                boundary: 9,
                at,
                owners: vec![Owner { session: SessionNo(7), end: 10 }],
                id,
                header,
            },
            Body::Rm,
            Body::Restore,
            Body::Purge { first: 1, last: 2 },
            Body::Redact { first: 1, last: 2 },
            Body::Publish,
            Body::Tag { bytes: b"xyz"[..].into() },
        ]
    }

    #[test]
    fn k1_controls_round_trip_and_every_cut_is_refused() {
        for body in all() {
            let c = Control { session_epoch: 5, flags: 0, time_ms: -6, body };
            let bytes = c.encode();
            assert_eq!(Control::decode(c.kind(), &bytes).unwrap(), c);
            for cut in 0..bytes.len() {
                assert!(Control::decode(c.kind(), &bytes[..cut]).is_err());
            }
            let mut long = bytes.clone();
            long.push(0);
            assert!(Control::decode(c.kind(), &long).is_err());
            assert!(Control::decode(c.kind(), &c.summary()).is_ok());
        }
    }
}
