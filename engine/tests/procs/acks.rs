//! What was acked, and whether a store holds it.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use everlog::{CheckOptions, Level, NewEvent, SessionId, SessionWriter, Store, StoreOptions};
use everlog_testkit::rng::Rng;

use crate::kid::say;

/// FNV-1a of type and data.
pub fn digest(event_type: &[u8], data: &[u8]) -> u64 {
    let bytes = event_type.iter().chain(&[0]).chain(data);
    bytes.fold(0xCBF2_9CE4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01B3))
}

/// Data that no other event has: who wrote it, its number there, and some length.
pub fn data(who: &str, n: u64, pad: usize) -> Vec<u8> {
    format!("{{\"who\":\"{who}\",\"n\":{n},\"pad\":\"{}\"}}", "x".repeat(pad)).into_bytes()
}

/// Acks of sessions: seq to digest.
#[derive(Default)]
pub struct Acks {
    pub sessions: BTreeMap<String, HashMap<u64, u64>>,
    pub by_level: BTreeMap<String, u64>,
}

impl Acks {
    /// Takes a line `ack <session> <seq> <level> <digest>`; `false` for another line.
    pub fn take(&mut self, line: &str) -> bool {
        let Some(rest) = line.strip_prefix("ack ") else { return false };
        let words: Vec<&str> = rest.split(' ').collect();
        let [session, seq, level, digest] = words[..] else { panic!("{line}") };
        let (seq, digest) = (seq.parse().unwrap(), digest.parse().unwrap());
        let before = self.sessions.entry(session.to_owned()).or_default().insert(seq, digest);
        assert!(before.is_none(), "two acks of {session} {seq}");
        *self.by_level.entry(level.to_owned()).or_default() += 1;
        true
    }

    pub fn count(&self) -> u64 {
        self.sessions.values().map(|s| s.len() as u64).sum()
    }

    /// Opens the store anew and compares: every acked event is there with its content, no seq is missing, and a check
    /// is clean. Returns events in all.
    pub fn verify(&self, path: &Path) -> Result<u64, String> {
        let store = Store::open(path, StoreOptions::default().with_read_only())
            .map_err(|e| format!("open: {e:?}"))?;
        let mut total = 0;
        for (name, acked) in &self.sessions {
            let session = store
                .session(&SessionId::new(name).unwrap())
                .map_err(|e| format!("session {name}: {e:?}"))?;
            let mut missing = acked.len();
            for (n, event) in session.iter().enumerate() {
                let event = event.map_err(|e| format!("{name} {n}: {e:?}"))?;
                if event.seq != n as u64 {
                    return Err(format!("{name}: seq {} at place {n}", event.seq));
                }
                match acked.get(&event.seq) {
                    Some(d) if *d == digest(&event.event_type, &event.data) => missing -= 1,
                    Some(_) => return Err(format!("{name} {n}: other content than acked")),
                    None => {}
                }
                total += 1;
            }
            if missing > 0 {
                return Err(format!("{name}: {missing} of {} acked are lost", acked.len()));
            }
        }
        clean(&store)?;
        Ok(total)
    }
}

/// A whole check that finds no damage.
pub fn clean(store: &Store) -> Result<(), String> {
    let report = store
        .check(&CheckOptions::default(), &mut |_, _| true)
        .map_err(|e| format!("check: {e:?}"))?;
    if report.is_clean() { Ok(()) } else { Err(format!("check: {:?}", report.damage)) }
}

/// In a child: appends a batch of new events and says the acks of it.
pub fn append_said(
    w: &mut SessionWriter,
    who: &str,
    n: &mut u64,
    rng: &mut Rng,
    level: Level,
) -> everlog::Result<()> {
    let many = rng.range(1, 6);
    let texts: Vec<Vec<u8>> = (0..many).map(|i| data(who, *n + i, rng.index(900))).collect();
    *n += many;
    let events: Vec<NewEvent<'_>> = texts.iter().map(|d| NewEvent::new("note", d)).collect();
    let receipt = w.append_batch(&events, level)?;
    let session = w.id().as_str().unwrap().to_owned();
    let lines: Vec<String> = (receipt.first_seq()..)
        .zip(&texts)
        .map(|(seq, d)| format!("ack {session} {seq} {} {}", level.name(), digest(b"note", d)))
        .collect();
    say(lines.join("\n@"));
    Ok(())
}
