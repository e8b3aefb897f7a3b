//! Names of files and folders: one builder and one parser a kind.

use crate::limits::SAFE_INTEGER_MAX;
use crate::types::{LaneNo, SegmentNo};

pub(crate) const STORE: &str = "STORE";
pub(crate) const LOCKS: &str = "locks";
pub(crate) const STORE_LOCK: &str = "store.lock";
pub(crate) const LANES: &str = "lanes";
pub(crate) const LANE: &str = "lane";
pub(crate) const RECOVERIES: &str = "recoveries.jsonl";
pub(crate) const QUARANTINE: &str = "quarantine";
pub(crate) const TMP_SUFFIX: &str = ".tmp";

/// Folder of a lane.
pub(crate) fn lane_dir(lane: LaneNo) -> String {
    format!("{lane:04x}")
}

/// Lane of a folder name.
pub(crate) fn parse_lane_dir(name: &[u8]) -> Option<LaneNo> {
    let n = parse_hex(name, 4)?;
    LaneNo::try_from(n).ok()
}

/// File of the session locks of a home lane.
pub(crate) fn session_locks(lane: LaneNo) -> String {
    format!("{lane:04x}.lock")
}

/// File of a segment.
pub(crate) fn segment(no: SegmentNo) -> String {
    format!("{no:016x}.seg")
}

/// Segment of a file name.
pub(crate) fn parse_segment(name: &[u8]) -> Option<SegmentNo> {
    parse_hex(name.strip_suffix(b".seg")?, 16).filter(|no| *no <= SAFE_INTEGER_MAX)
}

/// File of bytes that a recovery dropped.
pub(crate) fn quarantine(lane: LaneNo, segment: SegmentNo, offset: u64, unique: u64) -> String {
    format!("{lane:04x}-{segment:016x}-{offset:08x}-{unique:016x}.bin")
}

fn parse_hex(name: &[u8], digits: usize) -> Option<u64> {
    if name.len() != digits {
        return None;
    }
    name.iter().try_fold(0u64, |acc, b| {
        let d = match b {
            b'0'..=b'9' => b - b'0',
            b'a'..=b'f' => b - b'a' + 10,
            _ => return None,
        };
        Some(acc << 4 | u64::from(d))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for no in [0, 1, 0xabc, SAFE_INTEGER_MAX] {
            assert_eq!(parse_segment(segment(no).as_bytes()), Some(no));
        }
        assert_eq!(parse_lane_dir(lane_dir(0xbeef).as_bytes()), Some(0xbeef));
        for bad in ["", "000", "000G", "00000", "000A"] {
            assert_eq!(parse_lane_dir(bad.as_bytes()), None);
        }
        assert_eq!(parse_segment(b"0000000000000001.seg.tmp"), None);
        assert_eq!(parse_segment(b"ffffffffffffffff.seg"), None);
    }
}
