//! The fleet in memory: events as an agent appends them, logs as an import reads them.

use everlog::{NewEvent, SurfaceOp};
use everlog_testkit::fleet::{Fleet, FleetEvent, FleetOp};

use crate::config::Config;

/// The fleet of a configuration.
#[must_use]
pub fn fleet(config: &Config) -> Fleet {
    let events_per_session = (config.events / config.sessions).max(1);
    Fleet { seed: config.seed, sessions: config.sessions, events_per_session }
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
