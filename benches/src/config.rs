//! What is measured, and how much of it.

use std::path::PathBuf;

/// Sizes of a run. Counts of operations are of one round.
#[derive(Clone, Debug)]
pub struct Config {
    /// Sessions of the fleet.
    pub sessions: usize,
    /// Events of the fleet.
    pub events: usize,
    /// Seed of the fleet.
    pub seed: u64,
    /// Rounds of a pair.
    pub rounds: usize,
    /// Events of a round that appends in batches.
    pub batch_events: u64,
    /// Appends of a round, one event a call.
    pub singles: u64,
    /// Syncs of a round.
    pub syncs: u64,
    /// Reads of single events.
    pub points: u64,
    /// Sessions of the large stores.
    pub large_sessions: usize,
    /// Events of the large stores.
    pub large_events: usize,
    /// Lanes whose writers were killed.
    pub killed_lanes: usize,
    /// Parts to run; all when empty.
    pub only: Vec<String>,
    /// A folder of logs, `*.jsonl`, that the part columns imports in place of the fleet.
    pub logs: Option<PathBuf>,
    /// Where the stores are made.
    pub folder: PathBuf,
}

/// How to call it.
pub const USAGE: &str = "everlog-bench [--smoke] [--sessions N] [--events N] [--lanes N] [--seed N] [--rounds N] [--only PART[,PART]] [--logs FOLDER] [FOLDER]
parts: append, columns, sync, procs, read, transfer, open, open-large (4 GB of disk), disk; --logs is for columns";

impl Config {
    /// The whole run.
    #[must_use]
    pub fn full() -> Self {
        Self {
            sessions: 200,
            events: 500_000,
            seed: 7,
            rounds: 5,
            batch_events: 256 * 1_000,
            singles: 50_000,
            syncs: 200,
            points: 200_000,
            large_sessions: 100_000,
            large_events: 10_000_000,
            killed_lanes: 200,
            only: Vec::new(),
            logs: None,
            folder: std::env::temp_dir(),
        }
    }

    /// As little as shows that everything runs.
    #[must_use]
    pub fn smoke() -> Self {
        Self {
            sessions: 4,
            events: 800,
            rounds: 2,
            batch_events: 1_024,
            singles: 200,
            syncs: 4,
            points: 500,
            large_sessions: 40,
            large_events: 4_000,
            killed_lanes: 4,
            ..Self::full()
        }
    }

    /// Reads the arguments of the program.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn parse(args: &[String]) -> Result<Self, String> {
        let mut out =
            if args.iter().any(|a| a == "--smoke") { Self::smoke() } else { Self::full() };
        let mut args = args.iter().filter(|a| *a != "--smoke");
        while let Some(arg) = args.next() {
            if !arg.starts_with("--") {
                out.folder = PathBuf::from(arg);
                continue;
            }
            let value = args.next().ok_or_else(|| format!("{arg} wants a value\n{USAGE}"))?;
            if arg == "--logs" {
                out.logs = Some(PathBuf::from(value));
                continue;
            }
            let number = value.parse::<u64>().map_err(|e| format!("{arg} {value}: {e}\n{USAGE}"));
            match arg.as_str() {
                "--sessions" => out.sessions = number?.clamp(1, 1_000_000) as usize,
                "--events" => out.events = number?.clamp(1, 1 << 32) as usize,
                "--lanes" => out.killed_lanes = number?.clamp(1, 1_000) as usize,
                "--seed" => out.seed = number?,
                "--rounds" => out.rounds = number?.clamp(1, 1_000) as usize,
                "--only" => out.only = value.split(',').map(str::to_owned).collect(),
                _ => return Err(format!("{arg} is not known\n{USAGE}")),
            }
        }
        Ok(out)
    }

    /// Whether a part is to be run.
    #[must_use]
    pub fn wants(&self, part: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|o| o == part)
    }
}
