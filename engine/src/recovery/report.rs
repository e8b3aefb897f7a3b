//! What a recovery found and did, for the caller and for `info --recoveries`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::types::LaneNo;

/// A range of a segment that does not verify although it was acked, or followed by what does.
#[non_exhaustive]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DamagedRange {
    /// The segment file.
    pub path: PathBuf,
    /// First byte.
    pub offset: u64,
    /// Bytes up to the next valid frame, or to the end of what was acked.
    pub len: u64,
}

/// What opening a lane found and did (docs/recovery.md).
#[non_exhaustive]
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RecoveryReport {
    /// The lane.
    pub lane: LaneNo,
    /// When, in Unix milliseconds.
    pub time_ms: i64,
    /// Whether the lane had been closed, so that there was nothing to do.
    pub clean: bool,
    /// Frames of the active segment that verified.
    pub frames: u64,
    /// Bytes of a torn tail that were dropped.
    pub dropped_bytes: u64,
    /// Where a copy of them is.
    pub quarantine: Option<PathBuf>,
    /// Bytes that were written and synced again.
    pub rewritten_bytes: u64,
    /// Damage: nothing was cut, see `check`.
    pub damage: Vec<DamagedRange>,
    /// The epoch that the lane goes on with.
    pub epoch: u32,
}

impl RecoveryReport {
    /// One line of JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut out = format!(
            "{{\"v\":1,\"lane\":{},\"time\":{},\"clean\":{},\"frames\":{},\"droppedBytes\":{},\"rewrittenBytes\":{},\"epoch\":{}",
            self.lane,
            self.time_ms,
            self.clean,
            self.frames,
            self.dropped_bytes,
            self.rewritten_bytes,
            self.epoch
        );
        if let Some(q) = &self.quarantine {
            let _infallible = write!(out, ",\"quarantine\":{}", quoted(q));
        }
        out.push_str(",\"damage\":[");
        for (i, d) in self.damage.iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            let _infallible = write!(
                out,
                "{comma}{{\"path\":{},\"offset\":{},\"len\":{}}}",
                quoted(&d.path),
                d.offset,
                d.len
            );
        }
        out.push_str("]}");
        out
    }
}

fn quoted(path: &Path) -> String {
    serde_json::Value::from(path.to_string_lossy().into_owned()).to_string()
}
