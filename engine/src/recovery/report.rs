//! What a recovery found and did, for the caller and for `info --recoveries`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::types::LaneNo;

/// A range of a segment that does not verify although it was acked, or is followed by what does verify.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
/// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
/// writer.close()?;
/// let report = store.recovery_report().unwrap_or_default();
/// for range in &report.damage {
///     eprintln!("{}: {} bytes at {}", range.path.display(), range.len, range.offset);
/// }
/// assert!(report.damage.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[non_exhaustive]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DamagedRange {
    /// The segment file.
    pub path: PathBuf,
    /// First byte, from the start of the file.
    pub offset: u64,
    /// Bytes up to the next valid frame, or to the end of what was acked.
    pub len: u64,
}

/// What opening a lane for writing found and did (recovery.md, "Verdicts"). A handle has one after its first write:
/// [`Store::recovery_report`](crate::Store::recovery_report).
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
/// assert!(store.recovery_report().is_none());
/// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
/// let report = store.recovery_report().unwrap();
/// assert_eq!((report.dropped_bytes, report.rewritten_bytes, report.epoch), (0, 0, 0));
/// assert!(report.quarantine.is_none() && report.damage.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
    /// One line of JSON, without a newline: `v` (1), `lane`, `time`, `clean`, `frames`, `droppedBytes`, `rewrittenBytes`,
    /// `epoch`, `quarantine` where there is one, and `damage` as `path`, `offset`, `len`. Paths that are no UTF-8 are shown
    /// with replacement characters.
    ///
    /// ```
    /// let line = everlog::RecoveryReport::default().to_json();
    /// assert!(line.starts_with(r#"{"v":1,"lane":0,"#) && line.ends_with(r#""damage":[]}"#));
    /// ```
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
