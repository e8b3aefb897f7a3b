//! One session from its frames: order by session epoch, pending and published, removed and restored.
//!
//! 1. Frames of higher session epochs come later; within one lane the order is that of the log.
//! 2. An event is pending when PENDING (or a pending CREATE) was in force as it came; a PUBLISH above it
//!    shows it, a CONTINUE at or below it makes it void.
//! 3. A seq with two claims that are not void is in `contested`, never in `events`.

use super::{
    Control, ControlBody, EventId, Finding, FindingKind, FrameBody, NONE, OracleEvent, OracleFrame,
    OracleSession,
};
use std::sync::Arc;

/// A frame of a session where it stands.
pub(super) struct Item<'a> {
    pub(super) epoch: u32,
    pub(super) lane: u16,
    pub(super) path: &'a str,
    pub(super) frame: &'a OracleFrame,
}

/// Do the ranges (first, last) hold every seq from `at` to `to`, without `to`?
pub(super) fn covers(ranges: &[(u64, u64)], mut at: u64, to: u64) -> bool {
    while at < to {
        let holding = ranges.iter().filter(|(a, b)| (*a..=*b).contains(&at));
        let Some(last) = holding.map(|r| r.1).max() else { return false };
        at = last.saturating_add(1);
    }
    true
}

struct Claim {
    event: Arc<OracleEvent>,
    pending: bool,
    void: bool,
}

#[derive(Default)]
struct Walk {
    claims: Vec<Claim>,
    pending_from: Option<u64>,
    created: bool,
    create_pending: bool,
    last_continue: u32,
    /// CONTINUE frames whose event before was not found: seq and finding.
    unproven: Vec<(u64, Finding)>,
}

/// Resolves session `no`; the flag says whether its CREATE or FORK is there.
pub(super) fn resolve(no: u64, items: &mut [Item]) -> (OracleSession, bool) {
    items.sort_by_key(|i| i.epoch);
    let mut s = OracleSession { no, ..OracleSession::default() };
    let mut walk = Walk::default();
    for item in items.iter() {
        match &item.frame.body {
            FrameBody::Events(events) => {
                for event in events {
                    let pending = walk.pending_from.is_some_and(|p| event.seq >= p);
                    walk.claims.push(Claim { event: Arc::clone(event), pending, void: false });
                }
            }
            FrameBody::Control(c) => control(&mut s, &mut walk, item, c),
            _ => {}
        }
    }
    let created = walk.created;
    settle(&mut s, walk, items);
    (s, created)
}

fn find(kind: FindingKind, item: &Item, what: String) -> Finding {
    Finding { kind, path: item.path.to_owned(), offset: item.frame.offset, what }
}

fn control(s: &mut OracleSession, walk: &mut Walk, item: &Item, c: &Control) {
    s.epoch = s.epoch.max(c.epoch);
    let seq = item.frame.seq;
    match (&c.body, item.frame.kind) {
        (ControlBody::Create { id, header, fork }, _) => {
            if walk.created || s.no >> 48 != u64::from(item.lane) {
                let what = format!("session {:x}: created twice or by another lane", s.no);
                s.findings.push(find(FindingKind::Orphan, item, what));
            }
            if walk.created {
                return;
            }
            walk.created = true;
            (s.id, s.header_text, s.fork) = (id.clone(), header.clone(), fork.clone());
            s.own_from = seq;
            s.since = c.time;
            s.visible = c.flags & 1 == 0;
            walk.create_pending = !s.visible;
            walk.pending_from = walk.create_pending.then_some(0);
        }
        (ControlBody::Continue(before), _) => take_over(s, walk, item, *before, c.epoch),
        (ControlBody::Range { first, last }, _) => s.purged.push((*first, *last)),
        (ControlBody::Tag(bytes), _) => s.tags.push(bytes.clone()),
        (ControlBody::Nothing, 19) => s.hidden = true,
        (ControlBody::Nothing, 20) => s.hidden = false,
        (ControlBody::Nothing, _) => {
            walk.pending_from = None;
            for claim in walk.claims.iter_mut().filter(|c| c.event.seq < seq) {
                claim.pending = false;
            }
            if walk.create_pending {
                walk.create_pending = false;
                s.visible = true;
                s.since = c.time;
            }
        }
    }
}

fn take_over(s: &mut OracleSession, walk: &mut Walk, item: &Item, before: EventId, epoch: u32) {
    let seq = item.frame.seq;
    if epoch == walk.last_continue {
        let what = format!("session {:x}: two CONTINUE frames of session epoch {epoch}", s.no);
        s.findings.push(find(FindingKind::SessionEpoch, item, what));
    }
    walk.last_continue = epoch;
    for claim in &mut walk.claims {
        claim.void |= claim.pending && claim.event.seq >= seq;
    }
    if !walk.create_pending && walk.pending_from.is_some_and(|p| p >= seq) {
        walk.pending_from = None;
    }
    let proven = if seq == s.own_from {
        match (&s.fork, before.gsn) {
            (_, NONE) => true,
            (Some(fork), _) => fork.event == before,
            (None, _) => false,
        }
    } else {
        walk.claims.iter().any(|c| {
            let e = &c.event;
            let id = EventId { lane: e.lane, epoch: e.epoch, gsn: e.gsn };
            !c.void && id == before && e.seq.checked_add(1) == Some(seq)
        })
    };
    if !proven {
        let what =
            format!("session {:x}: the event before the CONTINUE at {seq} is not there", s.no);
        walk.unproven.push((seq, find(FindingKind::Diverged, item, what)));
    }
}

/// Sorts the claims into visible, pending and contested events, and looks for gaps.
fn settle(s: &mut OracleSession, walk: Walk, items: &[Item]) {
    let Some(first) = items.first() else { return };
    for (seq, finding) in walk.unproven {
        if seq == 0 || !covers(&s.purged, seq - 1, seq) {
            s.diverged = true;
            s.findings.push(finding);
        }
    }
    let mut claims: Vec<Claim> = walk.claims.into_iter().filter(|c| !c.void).collect();
    claims.sort_by_key(|c| c.event.seq);
    let mut next = s.own_from;
    for same in claims.chunk_by(|a, b| a.event.seq == b.event.seq) {
        let seq = same[0].event.seq;
        if !covers(&s.purged, next, seq) {
            let what = format!("session {:x}: no events {next} to {}", s.no, seq - 1);
            s.findings.push(find(FindingKind::Gap, first, what));
        }
        next = next.max(seq + 1);
        if seq < s.own_from || same.len() > 1 {
            s.diverged = true;
            let what = format!("session {:x}: {} claims of seq {seq}", s.no, same.len());
            s.findings.push(find(FindingKind::Diverged, first, what));
            s.contested.extend(same.iter().map(|c| Arc::clone(&c.event)));
        } else if !covers(&s.purged, seq, seq + 1) {
            let list = if same[0].pending { &mut s.pending } else { &mut s.events };
            list.push(Arc::clone(&same[0].event));
        }
    }
}
