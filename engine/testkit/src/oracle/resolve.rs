//! From lanes to sessions: which frames speak of which session, forks, and which session an id means.
//!
//! 1. Own events are resolved first; a fork then takes its prefix from the own events of its owners.
//! 2. Of two sessions with one id the listed one counts, then the one visible first, then the lower number.

use super::session::{Item, covers, resolve};
use super::{
    ControlBody, EventId, Finding, FindingKind, ForkPoint, FrameBody, OracleEvent, OracleLane,
    OracleSession, OracleStore,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Fills `sessions`, `shadowed` and the findings about sessions.
pub(super) fn sessions(store: &mut OracleStore) {
    let mut findings = Vec::new();
    let mut done: BTreeMap<u64, (OracleSession, bool)> = BTreeMap::new();
    for (no, mut items) in collect(&store.lanes, &mut findings) {
        let orphan = Finding {
            kind: FindingKind::Orphan,
            path: items.first().map_or("", |i| i.path).to_owned(),
            offset: items.first().map_or(0, |i| i.frame.offset),
            what: format!("session {no:x} has no CREATE or FORK"),
        };
        let (session, created) = resolve(no, &mut items);
        if !created {
            findings.push(orphan);
        }
        done.insert(no, (session, created));
    }
    let forks: Vec<(u64, ForkPoint)> =
        done.iter().filter_map(|(no, (s, _))| s.fork.clone().map(|f| (*no, f))).collect();
    let inherited: Vec<_> =
        forks.iter().map(|(no, fork)| inherit(*no, fork, &done, &store.lanes)).collect();
    for ((no, _), (mut events, found)) in forks.iter().zip(inherited) {
        if let Some((s, _)) = done.get_mut(no) {
            s.diverged |= found.iter().any(|f| f.kind == FindingKind::Diverged);
            s.findings.extend(found);
            events.append(&mut s.events);
            s.events = events;
        }
    }
    for (s, created) in done.into_values() {
        findings.extend(s.findings.iter().cloned());
        if created {
            place(store, s, &mut findings);
        }
    }
    store.findings.append(&mut findings);
}

fn collect<'a>(
    lanes: &'a [OracleLane],
    findings: &mut Vec<Finding>,
) -> BTreeMap<u64, Vec<Item<'a>>> {
    let mut by_session: BTreeMap<u64, Vec<Item>> = BTreeMap::new();
    for lane in lanes {
        let mut epochs: BTreeMap<u64, u32> = BTreeMap::new();
        for segment in &lane.segments {
            for frame in &segment.frames {
                let epoch = match &frame.body {
                    FrameBody::Events(_) => epochs.get(&frame.session).copied(),
                    FrameBody::Control(c) => {
                        let starts =
                            matches!(c.body, ControlBody::Create { .. } | ControlBody::Continue(_));
                        if starts || epochs.contains_key(&frame.session) {
                            epochs.insert(frame.session, c.epoch);
                        }
                        epochs.get(&frame.session).copied()
                    }
                    _ => continue,
                };
                if epoch.is_none() {
                    findings.push(Finding {
                        kind: FindingKind::Orphan,
                        path: segment.path.clone(),
                        offset: frame.offset,
                        what: format!("session {:x} not taken over by this lane", frame.session),
                    });
                    epochs.insert(frame.session, 0);
                }
                by_session.entry(frame.session).or_default().push(Item {
                    epoch: epoch.unwrap_or(0),
                    lane: lane.number,
                    path: &segment.path,
                    frame,
                });
            }
        }
    }
    by_session
}

/// The event that an id names.
fn event_at(lanes: &[OracleLane], id: EventId) -> Option<&OracleEvent> {
    let lane = lanes.iter().find(|l| l.number == id.lane)?;
    let frames = lane.segments.iter().filter(|s| s.epoch == id.epoch).flat_map(|s| &s.frames);
    frames
        .filter(|f| f.gsn <= id.gsn && id.gsn - f.gsn < u64::from(f.count))
        .find_map(|f| match &f.body {
            FrameBody::Events(events) => events.get((id.gsn - f.gsn) as usize),
            _ => None,
        })
        .map(Arc::as_ref)
}

type Inherited = (Vec<Arc<OracleEvent>>, Vec<Finding>);

/// The prefix of a fork, from its owners.
fn inherit(
    no: u64,
    fork: &ForkPoint,
    done: &BTreeMap<u64, (OracleSession, bool)>,
    lanes: &[OracleLane],
) -> Inherited {
    let (mut events, mut findings) = (Vec::new(), Vec::new());
    let mut say = |kind, what| {
        findings.push(Finding { kind, path: String::new(), offset: 0, what });
    };
    let mut from = 0;
    for &(owner, below) in &fork.owners {
        let owned = done.get(&owner).map(|(s, _)| s);
        let own = owned.map_or(&[][..], |s| &s.events[..]);
        let (a, b) =
            (own.partition_point(|e| e.seq < from), own.partition_point(|e| e.seq < below));
        let part = own.get(a..b).unwrap_or_default();
        let purged = owned.map_or(&[][..], |s| &s.purged[..]);
        let mut next = from;
        for q in part.iter().map(|e| e.seq).chain([below]) {
            if !covers(purged, next, q) {
                let what = format!("fork {no:x}: no events {next} to {} of {owner:x}", q - 1);
                say(FindingKind::Gap, what);
            }
            next = q + 1;
        }
        events.extend(part.iter().cloned());
        from = below;
    }
    let last = fork.owners.last().map(|o| o.0);
    let there = event_at(lanes, fork.event)
        .is_some_and(|e| e.seq == fork.boundary && Some(e.session) == last);
    let gone = last
        .and_then(|o| done.get(&o))
        .is_some_and(|(s, _)| covers(&s.purged, fork.boundary, fork.boundary.saturating_add(1)));
    if !there && !gone {
        say(FindingKind::Diverged, format!("fork {no:x}: its boundary event is not there"));
    }
    (events, findings)
}

fn place(store: &mut OracleStore, s: OracleSession, findings: &mut Vec<Finding>) {
    let rank = |s: &OracleSession| (!s.visible || s.hidden, !s.visible, s.since, s.no);
    let id = s.id.clone();
    let Some(other) = store.sessions.remove(&id) else {
        store.sessions.insert(id, s);
        return;
    };
    let (first, second) = if rank(&s) < rank(&other) { (s, other) } else { (other, s) };
    if second.visible && !second.hidden {
        findings.push(Finding {
            kind: FindingKind::DuplicateId,
            path: String::new(),
            offset: 0,
            what: format!("sessions {:x} and {:x} have one id", first.no, second.no),
        });
    }
    store.sessions.insert(id, first);
    store.shadowed.push(second);
}
