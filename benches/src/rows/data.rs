//! The fleet in memory: events as an agent appends them, logs as an import reads them.

use everlog::{NewEvent, SurfaceOp};
use everlog_testkit::fleet::{Fleet, FleetEvent, FleetOp};
use everlog_testkit::rng::Rng;

use crate::config::Config;

/// The fleet of a configuration.
#[must_use]
pub fn fleet(config: &Config) -> Fleet {
    let events_per_session = (config.events / config.sessions).max(1);
    Fleet { seed: config.seed, sessions: config.sessions, events_per_session }
}

/// The logs of a folder, in order of their names.
///
/// # Panics
/// When one cannot be read.
#[must_use]
pub fn logs_of(folder: &std::path::Path) -> Vec<Vec<u8>> {
    let entries = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path());
    let mut paths: Vec<_> =
        entries.filter(|p| p.extension().is_some_and(|e| e == "jsonl")).collect();
    paths.sort();
    paths.iter().map(|p| std::fs::read(p).unwrap()).collect()
}

/// All its logs.
#[must_use]
pub fn logs(config: &Config) -> Vec<Vec<u8>> {
    fleet(config).logs().collect()
}

/// An event of the fleet as it is appended.
#[must_use]
pub fn new_event(e: &FleetEvent) -> NewEvent<'_> {
    let mut out = NewEvent::new(e.event_type, e.data.as_bytes()).with_time_ms(e.time_ms);
    if let Some(sources) = &e.sources {
        out = out.with_sources(&sources[..]);
    }
    match e.surface_op {
        None => out,
        Some(FleetOp::Append) => out.with_surface_op(SurfaceOp::Append),
        Some(FleetOp::Replace { start, end }) => {
            out.with_surface_op(SurfaceOp::Replace { start, end })
        }
    }
}

/// JSON text of 256 bytes, as the data of a small event.
#[must_use]
pub fn text_256() -> String {
    format!("{{\"turn\":1,\"step\":1,\"text\":\"{}\"}}", "x".repeat(227))
}

/// `n` different texts of 256 bytes, which have nothing in common but their keys.
#[must_use]
pub fn texts_256(n: usize) -> Vec<String> {
    let mut rng = Rng::new(256);
    let mut letter = || char::from(b'a' + rng.below(26) as u8);
    (0..n)
        .map(|_| {
            let text: String = (0..227).map(|_| letter()).collect();
            format!("{{\"turn\":1,\"step\":1,\"text\":\"{text}\"}}")
        })
        .collect()
}
