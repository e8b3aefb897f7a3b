//! The command line: verbs, flags and the examples that teach them.
//!
//! # Invariants
//! G1. `-o` is always the shape of the output, `--out` a path, `--format` a log format, `-s` the store.
//! G2. Ids and paths are bytes of the operating system, never text that must be UTF-8.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgGroup, Parser, Subcommand, ValueEnum};

use crate::args_read::{Log, Ps, Show};
use crate::args_view;

/// An embedded event store for the sessions of agents.
#[derive(Parser, Debug)]
#[command(name = "everlog", version, max_term_width = 100, subcommand_required = true)]
#[command(arg_required_else_help = true, after_help = TOP_HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) globals: Globals,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Flags of every verb.
#[derive(clap::Args, Debug)]
pub(crate) struct Globals {
    /// The store [default: $EVERLOG_STORE, else the nearest .everlog upwards, else the user's data folder]
    #[arg(short, long, global = true, value_name = "PATH")]
    pub(crate) store: Option<PathBuf>,
    /// Say less: no bars; `ls` prints ids only, `append` the last receipt only
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// Colours; NO_COLOR is obeyed
    #[arg(long, global = true, value_enum, default_value = "auto", value_name = "WHEN")]
    pub(crate) color: ColorChoice,
    /// Print long output to the terminal itself, not through $EVERLOG_PAGER, $PAGER or less
    #[arg(long, global = true)]
    pub(crate) no_pager: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum ColorChoice {
    Auto,
    Always,
    Never,
}

/// Shape of the output.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Shape {
    /// Aligned columns; the default on a terminal
    Table,
    /// Tab-separated lines; the default in a pipe
    Text,
    /// One JSON value
    Json,
    /// One JSON object a line
    Jsonl,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum DurableLevel {
    Os,
    Sync,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum AppendLevel {
    Buffered,
    Os,
    Sync,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Shared {
    Group,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum ExportFormat {
    /// One event a line
    Dsh,
    /// Runs of chunks packed into one row
    DshPacked,
    /// Packed, and compressed as dsh does
    DshZstd,
    /// The lines that were imported; of other logs, one event a line
    Jsonl,
}

/// Format of inputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum ImportFormat {
    /// Told by content
    Auto,
    /// Logs of dsh, plain or zstd
    Dsh,
    /// Any JSONL: one event a line, the session named by the file
    Jsonl,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum SortBy {
    Updated,
    Created,
    Events,
    Bytes,
    Id,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Make a store
    Init(Init),
    /// Append events from standard input, or one from the command line
    Append(Append),
    /// Bring session logs in, whole or not at all
    Import(Import),
    /// Show who writes now
    Ps(Ps),
    /// List sessions, newest first
    Ls(Ls),
    /// Show events for people
    Log(Log),
    /// Show one event with what it cites, shadows and is shadowed by
    Show(Show),
    /// Print exact events, one JSON line each
    Cat(Cat),
    /// Write session logs out
    Export(Export),
    /// Verify every checksum and every invariant
    Check(Check),
    /// Show facts about the store
    Info(Info),
    /// Print the history that the model is given
    Messages(args_view::Messages),
    /// Print what people saw
    Transcript(args_view::Transcript),
    /// Print the seqs of the events that make the history
    Surface(args_view::Surface),
    /// Count turns, steps, tokens and times
    Stats(args_view::Stats),
    /// Close what was cut off, and say where to go on
    Resume(args_view::Resume),
    /// Make a child that shares the events of a session
    Fork(args_view::Fork),
}

impl Command {
    /// Whether errors are printed as objects.
    pub(crate) fn wants_json(&self) -> bool {
        let shape = match self {
            Self::Init(a) => a.output,
            Self::Append(a) => a.output,
            Self::Import(a) => a.output,
            Self::Ps(a) => a.output,
            Self::Ls(a) => a.output,
            Self::Log(a) => a.output,
            Self::Show(a) => a.output,
            Self::Cat(a) => a.output,
            Self::Export(a) => a.output,
            Self::Check(a) => a.output,
            Self::Info(a) => a.output,
            Self::Messages(a) => return args_view::message_shape_is_json(a.output),
            Self::Transcript(a) => return args_view::transcript_shape_is_json(a.output),
            Self::Surface(a) => a.output,
            Self::Stats(a) => a.output,
            Self::Resume(a) => a.output,
            Self::Fork(a) => a.output,
        };
        matches!(shape, Some(Shape::Json | Shape::Jsonl))
    }
}

#[derive(clap::Args, Debug)]
#[command(after_help = INIT_HELP)]
pub(crate) struct Init {
    /// Where to make it [default: --store, else $EVERLOG_STORE, else .everlog here]
    pub(crate) path: Option<PathBuf>,
    /// Succeed when there is a store already
    #[arg(long)]
    pub(crate) if_missing: bool,
    /// Level of writers that name none: survive the death of the process, or of the machine
    #[arg(long, value_enum, default_value = "os")]
    pub(crate) level: DurableLevel,
    /// Let the group read and write
    #[arg(long, value_enum, value_name = "WITH")]
    pub(crate) shared: Option<Shared>,
    /// Shape of the output
    #[arg(short, long, value_enum, value_name = "SHAPE")]
    pub(crate) output: Option<Shape>,
}

#[derive(clap::Args, Debug)]
#[command(after_help = APPEND_HELP, group = ArgGroup::new("name").args(["session", "id"]).required(true))]
pub(crate) struct Append {
    /// Full id, or a unique prefix of at least 4 characters
    pub(crate) session: Option<OsString>,
    /// Full id, never read as a prefix
    #[arg(long, value_name = "ID", allow_hyphen_values = true)]
    pub(crate) id: Option<OsString>,
    /// Make the session if there is none of that full id
    #[arg(long)]
    pub(crate) create: bool,
    /// Refuse (exit 14) unless the first event gets this seq
    #[arg(long, value_name = "N")]
    pub(crate) expect_seq: Option<u64>,
    /// All lines or none
    #[arg(long)]
    pub(crate) atomic: bool,
    /// What an acknowledged event survives; lines that wait together share one sync
    #[arg(long, value_enum, default_value = "sync")]
    pub(crate) level: AppendLevel,
    /// Type of a single event
    #[arg(short = 't', long = "type", requires = "data", value_name = "TYPE")]
    pub(crate) event_type: Option<OsString>,
    /// Data of a single event, as JSON
    #[arg(short, long, requires = "event_type", value_name = "JSON", allow_hyphen_values = true)]
    pub(crate) data: Option<OsString>,
    /// Shape of errors; receipts are always JSON lines
    #[arg(short, long, value_enum, value_name = "SHAPE")]
    pub(crate) output: Option<Shape>,
}

#[derive(clap::Args, Debug)]
#[command(after_help = IMPORT_HELP)]
pub(crate) struct Import {
    /// Files, folders (searched for *.jsonl, *.jsonl.zstd and *.zst) or `-` for standard input
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Format of the logs
    #[arg(long, value_enum, default_value = "auto")]
    pub(crate) format: ImportFormat,
    /// Text put before every session id
    #[arg(long, value_name = "TEXT")]
    pub(crate) id_prefix: Option<String>,
    /// Keep what would refuse a log: lines that cannot take their place become events (exit 3)
    #[arg(long)]
    pub(crate) salvage: bool,
    /// Inputs read at the same time [default: one a core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) jobs: Option<u16>,
    /// Read and check everything, store nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Shape of the output
    #[arg(short, long, value_enum, value_name = "SHAPE")]
    pub(crate) output: Option<Shape>,
}

#[derive(clap::Args, Debug)]
#[command(after_help = LS_HELP)]
pub(crate) struct Ls {
    /// At most so many sessions
    #[arg(short = 'n', value_name = "N")]
    pub(crate) count: Option<usize>,
    /// Order: newest, largest or first id first
    #[arg(long, value_enum, default_value = "updated", value_name = "BY")]
    pub(crate) sort: SortBy,
    /// Changed at or after: RFC 3339, a date, `2h`, `30d`, `yesterday`
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// Changed at or before
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,
    /// Children of this session only
    #[arg(long, value_name = "SESSION")]
    pub(crate) parent: Option<OsString>,
    /// Shape of the output
    #[arg(short, long, value_enum, value_name = "SHAPE")]
    pub(crate) output: Option<Shape>,
}

#[derive(clap::Args, Debug)]
#[command(after_help = CAT_HELP, group = ArgGroup::new("name").args(["target", "id"]).required(true))]
pub(crate) struct Cat {
    /// Session, with events: `S`, `S@7`, `S@10..20`, `S@10..`, `S@..20`, `S@-5..`, `S@turn:2`, `S@step:3`
    #[arg(value_name = "SESSION[@RANGE]")]
    pub(crate) target: Option<OsString>,
    /// Full id, read as it stands
    #[arg(long, value_name = "ID", allow_hyphen_values = true)]
    pub(crate) id: Option<OsString>,
    /// One event of the session named by --id
    #[arg(long, value_name = "N", requires = "id")]
    pub(crate) seq: Option<u64>,
    /// Go on with events as they are appended, until interrupted or to the end of the range
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Hold back what a power loss could undo
    #[arg(long)]
    pub(crate) durable: bool,
    /// Shape of errors; events are always exact lines
    #[arg(short, long, value_enum, value_name = "SHAPE")]
    pub(crate) output: Option<Shape>,
}

#[derive(clap::Args, Debug)]
#[command(after_help = EXPORT_HELP, group = ArgGroup::new("what").args(["sessions", "id", "all"]).multiple(true).required(true))]
pub(crate) struct Export {
    /// Sessions, by full id or unique prefix
    #[arg(value_name = "SESSION")]
    pub(crate) sessions: Vec<OsString>,
    /// Full id, never read as a prefix
    #[arg(long, value_name = "ID", allow_hyphen_values = true)]
    pub(crate) id: Vec<OsString>,
    /// Every session
    #[arg(long, conflicts_with_all = ["sessions", "id"])]
    pub(crate) all: bool,
    /// Format of the logs
    #[arg(long, value_enum, default_value = "dsh")]
    pub(crate) format: ExportFormat,
    /// A file for one session, a folder for several, `-` for standard output
    #[arg(long, value_name = "PATH", default_value = "-")]
    pub(crate) out: PathBuf,
    /// Replace files that are there
    #[arg(long)]
    pub(crate) force: bool,
    /// Sessions written at the same time [default: one a core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) jobs: Option<u16>,
    /// Shape of errors
    #[arg(short, long, value_enum, value_name = "SHAPE")]
    pub(crate) output: Option<Shape>,
}

#[derive(clap::Args, Debug)]
#[command(after_help = CHECK_HELP)]
pub(crate) struct Check {
    /// Headers and structure only
    #[arg(long)]
    pub(crate) quick: bool,
    /// One part of the whole, such as 1/7 on Mondays
    #[arg(long, value_name = "I/N", value_parser = part)]
    pub(crate) part: Option<(u32, u32)>,
    /// Segments and sessions checked at the same time [default: one a core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) jobs: Option<u16>,
    /// Shape of the output
    #[arg(short, long, value_enum, value_name = "SHAPE")]
    pub(crate) output: Option<Shape>,
}

#[derive(clap::Args, Debug)]
#[command(after_help = INFO_HELP)]
pub(crate) struct Info {
    /// Also what was repaired when the store was opened after a stop
    #[arg(long)]
    pub(crate) recoveries: bool,
    /// Shape of the output
    #[arg(short, long, value_enum, value_name = "SHAPE")]
    pub(crate) output: Option<Shape>,
}

fn part(text: &str) -> Result<(u32, u32), String> {
    let parsed = text.split_once('/').and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
    match parsed {
        Some((i, n)) if (1..=n).contains(&i) => Ok((i, n)),
        _ => Err("a part is I/N with 1 <= I <= N, such as 1/7".to_owned()),
    }
}

const TOP_HELP: &str = "\
Examples:
  everlog init                              make a store in .everlog
  everlog import ~/.dsh/sessions            bring logs in
  everlog ls -n 5                           the five newest sessions
  everlog log 7f3a91c2                      what happened in a session
  everlog cat 7f3a91c2@-5.. | jq .type      its last five events

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 partly done, 4 nothing found, 10 no store,
11 locked by another writer, 12 damage found, 13 written by a newer format, 14 conflict,
15 events of an unknown type,
130 interrupted, 141 closed pipe. Any other code is a failure too.";

const INIT_HELP: &str = "\
Examples:
  everlog init                              make .everlog in this folder
  everlog init /srv/log --level sync        writers sync unless they say otherwise
  everlog init --if-missing && everlog ls   in scripts";

const APPEND_HELP: &str = "\
A line is an object: {\"type\",\"data\",\"surfaceOp\"?,\"sourceEventSeqs\"?,\"ignorable\"?,\"time\"?}.
A refused line stops the command; the lines before it stay.

Examples:
  everlog append s-7 --create -t todo/write -d '{\"todos\":[]}'
  generate | everlog append s-7 --level os
  everlog append s-7 --atomic --expect-seq 42 < turn.jsonl";

const IMPORT_HELP: &str = "\
The same file again adds nothing; a file that grew adds the rest.

Examples:
  everlog import ~/.dsh/sessions            a whole folder
  zstdcat a.zst | everlog import -          from a pipe
  everlog import chat.jsonl --format jsonl  any lines of JSON, one event each
  everlog import torn.jsonl --salvage       every whole line, damaged ones kept aside
  everlog import logs --dry-run -o jsonl    what would happen, for machines";

const LS_HELP: &str = "\
Examples:
  everlog ls -n 10                          the ten newest
  everlog ls --sort bytes --since 30d       the largest of this month
  everlog ls -q | xargs -d '\\n' -n1 everlog export --out logs/ --id
  everlog ls -o jsonl | jq -r .session";

const CAT_HELP: &str = "\
Examples:
  everlog cat s-7                           every event
  everlog cat s-7@10..20                    events 10 to 20, both included
  everlog cat s-7@-5..                      the last five
  everlog cat -f s-7@-1.. | jq .type        the last one and those to come
  everlog cat --id 'odd@7' --seq 3          an id that holds an @";

const EXPORT_HELP: &str = "\
Files are readable by you only, and appear under their name when they are whole.

Examples:
  everlog export s-7 > s-7.jsonl            one session to standard output
  everlog export s-7 --format dsh-packed --out s-7.jsonl
  everlog export s-7 --format dsh-zstd --out s-7.jsonl.zstd
  everlog export --all --out logs/          one file a session";

const CHECK_HELP: &str = "\
Examples:
  everlog check                             everything; exit 12 if anything is damaged
  everlog check --quick                     structure only
  everlog check --part 1/7 -o json          a seventh, for machines";

const INFO_HELP: &str = "\
Examples:
  everlog info                              sizes and counts
  everlog info -o json | jq .bytes
  everlog info --recoveries                 what was repaired after a stop";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn parts_are_counted_from_one() {
        assert_eq!(part("1/7"), Ok((1, 7)));
        for bad in ["0/7", "8/7", "1/0", "1", "a/b", "1/7/2"] {
            assert!(part(bad).is_err(), "{bad}");
        }
    }
}
