//! The command line of the verbs that show events to people: `log`, `show`, `ps`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgGroup, ValueEnum};

use crate::args::Shape;

/// What the model's history makes of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum SurfaceClass {
    /// On the surface: the model sees it
    Current,
    /// Was on it, and was replaced
    Shadowed,
    /// Never on it
    LogOnly,
}

#[derive(clap::Args, Debug)]
#[command(after_help = LOG_HELP)]
pub(crate) struct Log {
    /// Session, with events if you like (`S@10..20`); all sessions without it, merged by time
    #[arg(value_name = "SESSION", conflicts_with = "id")]
    pub(crate) target: Option<OsString>,
    /// Full id, read as it stands
    #[arg(long, value_name = "ID", allow_hyphen_values = true)]
    pub(crate) id: Option<OsString>,
    /// The newest N lines [default: all; 100 for all sessions, unless -o is json or jsonl]
    #[arg(short = 'n', long = "lines", value_name = "N")]
    pub(crate) count: Option<usize>,
    /// Newest first
    #[arg(short, long)]
    pub(crate) reverse: bool,
    /// Events of this type; `*` and `?` stand for any text and any byte; may come several times
    #[arg(short = 't', long = "type", value_name = "GLOB")]
    pub(crate) types: Vec<OsString>,
    /// Lines whose whole text, or JSON, holds this regular expression; exit 4 when there is none
    #[arg(short, long, value_name = "RE")]
    pub(crate) grep: Option<String>,
    /// Events from then on: RFC 3339, a date, `2h`, `30d`, `yesterday`
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// Events up to then
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,
    /// Events that the model sees, saw, or never saw
    #[arg(long, value_enum, value_name = "CLASS")]
    pub(crate) surface: Option<SurfaceClass>,
    /// Go on with events as they are appended, until interrupted
    #[arg(short, long, conflicts_with_all = ["reverse", "surface"])]
    pub(crate) follow: bool,
    /// Wait until there is something to show, also for a session that is not there yet
    #[arg(long, conflicts_with_all = ["reverse", "surface", "count"])]
    pub(crate) wait: bool,
    /// Begin behind this position, as a line of -o jsonl gives it
    #[arg(long, value_name = "C", conflicts_with_all = ["reverse", "surface", "count"])]
    pub(crate) cursor: Option<String>,
    /// Begin behind the position in this file, and save there how far it went
    #[arg(long, value_name = "FILE", conflicts_with_all = ["reverse", "surface", "count", "cursor"])]
    pub(crate) cursor_file: Option<PathBuf>,
    /// Hold back what a power loss could undo
    #[arg(long, conflicts_with_all = ["reverse", "surface", "count"])]
    pub(crate) durable: bool,
    /// Shape of the output; with json and jsonl every chunk is an object of its own
    #[arg(short, long, value_enum, value_name = "SHAPE")]
    pub(crate) output: Option<Shape>,
}

#[derive(clap::Args, Debug)]
#[command(after_help = SHOW_HELP, group = ArgGroup::new("name").args(["target", "id"]).required(true))]
pub(crate) struct Show {
    /// The event: `S@7`, `S@turn:2`, `S@step:3` (their last events)
    #[arg(value_name = "SESSION@SEQ")]
    pub(crate) target: Option<OsString>,
    /// Full id, read as it stands
    #[arg(long, value_name = "ID", allow_hyphen_values = true, requires = "seq")]
    pub(crate) id: Option<OsString>,
    /// The event of the session named by --id
    #[arg(long, value_name = "N", requires = "id")]
    pub(crate) seq: Option<u64>,
    /// Shape of the output
    #[arg(short, long, value_enum, value_name = "SHAPE")]
    pub(crate) output: Option<Shape>,
}

#[derive(clap::Args, Debug)]
#[command(after_help = PS_HELP)]
pub(crate) struct Ps {
    /// Shape of the output
    #[arg(short, long, value_enum, value_name = "SHAPE")]
    pub(crate) output: Option<Shape>,
}

const LOG_HELP: &str = "\
A run of stream chunks is one line of their joined text.

Examples:
  everlog log s-7                           all of a session
  everlog log -n 20 --since 2h              the newest 20 lines of all sessions
  everlog log s-7 -t 'tool/*' -g 'error|failed'
  everlog log -f -n 5 -t '*/message'        five messages, and those to come
  everlog log --cursor-file at --durable -o jsonl | ship";

const SHOW_HELP: &str = "\
Examples:
  everlog show s-7@42                       what it says, cites, shadows, and what shadows it
  everlog show s-7@turn:3                   the last event of the third turn
  everlog show s-7@42 -o json | jq .shadowedBy";

const PS_HELP: &str = "\
Examples:
  everlog ps                                who writes now, and what they wait for
  everlog ps -o jsonl | jq -r .pid";
