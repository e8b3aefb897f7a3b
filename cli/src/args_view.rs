//! The command line of the verbs that show what events mean: `messages`, `transcript`, `surface`, `stats`.

use std::ffi::OsString;

use clap::{ArgGroup, ValueEnum};

use crate::args::Shape;

/// Which session, at which event, and what is to be done about what is in the way.
#[derive(clap::Args, Debug)]
#[command(group = ArgGroup::new("name").args(["target", "id"]).required(true))]
pub(crate) struct ViewOf {
    /// Session, as it was right after an event if you like: `S`, `S@7`
    #[arg(value_name = "SESSION[@SEQ]")]
    pub(crate) target: Option<OsString>,
    /// Full id, read as it stands
    #[arg(long, value_name = "ID", allow_hyphen_values = true)]
    pub(crate) id: Option<OsString>,
    /// Right after this event of the session named by --id
    #[arg(long, value_name = "N", requires = "id")]
    pub(crate) seq: Option<u64>,
    #[command(flatten)]
    pub(crate) how: ViewHow,
}

#[derive(clap::Args, Clone, Copy, Debug)]
pub(crate) struct ViewHow {
    /// Only what is stored: an open turn stays open
    #[arg(long)]
    pub(crate) raw: bool,
    /// Show what is whole around damaged events; exit code 12 all the same
    #[arg(long)]
    pub(crate) allow_gaps: bool,
    /// What to do about required events of unknown types
    #[arg(long, value_enum, default_value = "refuse", value_name = "WHAT")]
    pub(crate) unknown: Unknown,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Unknown {
    /// Exit with 15
    Refuse,
    /// Step over them
    Keep,
}

/// Shape of a list of messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum MessageShape {
    /// One JSON array
    Json,
    /// One JSON object a line
    Jsonl,
    /// For people
    Text,
    /// One JSON array, as OpenAI's chat completions take it
    Openai,
}

/// Shape of a transcript.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum TranscriptShape {
    /// One JSON array
    Json,
    /// One JSON object a line
    Jsonl,
    /// For people
    Text,
    /// Markdown
    Md,
}

#[derive(clap::Args, Debug)]
#[command(after_help = MESSAGES_HELP)]
pub(crate) struct Messages {
    #[command(flatten)]
    pub(crate) of: ViewOf,
    /// Say of each message which event it is of, and which events it stands for
    #[arg(long)]
    pub(crate) explain: bool,
    /// Shape of the output [default: text]
    #[arg(short, long, value_enum, value_name = "SHAPE")]
    pub(crate) output: Option<MessageShape>,
}

#[derive(clap::Args, Debug)]
#[command(after_help = TRANSCRIPT_HELP)]
pub(crate) struct Transcript {
    #[command(flatten)]
    pub(crate) of: ViewOf,
    /// Shape of the output [default: text]
    #[arg(short, long, value_enum, value_name = "SHAPE")]
    pub(crate) output: Option<TranscriptShape>,
}

#[derive(clap::Args, Debug)]
#[command(after_help = SURFACE_HELP)]
pub(crate) struct Surface {
    #[command(flatten)]
    pub(crate) of: ViewOf,
    /// Shape of the output
    #[arg(short, long, value_enum, value_name = "SHAPE")]
    pub(crate) output: Option<Shape>,
}

#[derive(clap::Args, Debug)]
#[command(after_help = STATS_HELP)]
pub(crate) struct Stats {
    /// Full id, or a unique prefix of at least 4 characters; all sessions without it
    #[arg(conflicts_with = "id")]
    pub(crate) session: Option<OsString>,
    /// Full id, read as it stands
    #[arg(long, value_name = "ID", allow_hyphen_values = true)]
    pub(crate) id: Option<OsString>,
    #[command(flatten)]
    pub(crate) how: ViewHow,
    /// Shape of the output
    #[arg(short, long, value_enum, value_name = "SHAPE")]
    pub(crate) output: Option<Shape>,
}

#[derive(clap::Args, Debug)]
#[command(after_help = RESUME_HELP, group = ArgGroup::new("name").args(["session", "id"]).required(true))]
pub(crate) struct Resume {
    /// Full id, or a unique prefix of at least 4 characters
    pub(crate) session: Option<OsString>,
    /// Full id, never read as a prefix
    #[arg(long, value_name = "ID", allow_hyphen_values = true)]
    pub(crate) id: Option<OsString>,
    /// What to do about required events of unknown types
    #[arg(long, value_enum, default_value = "refuse", value_name = "WHAT")]
    pub(crate) unknown: Unknown,
    /// Shape of the output
    #[arg(short, long, value_enum, value_name = "SHAPE")]
    pub(crate) output: Option<Shape>,
}

#[derive(clap::Args, Debug)]
#[command(after_help = FORK_HELP)]
pub(crate) struct Fork {
    /// Parent, with the last event that is shared if you like: `S`, `S@7`
    #[arg(value_name = "SESSION[@SEQ]")]
    pub(crate) target: OsString,
    /// Id of the child [default: a random one]
    #[arg(value_name = "NEW")]
    pub(crate) new: Option<OsString>,
    /// Fork inside a turn too: the child gets the events that close it
    #[arg(long)]
    pub(crate) close: bool,
    /// Shape of the output
    #[arg(short, long, value_enum, value_name = "SHAPE")]
    pub(crate) output: Option<Shape>,
}

/// Whether a shape asks for errors as objects.
pub(crate) fn message_shape_is_json(shape: Option<MessageShape>) -> bool {
    matches!(shape, Some(MessageShape::Json | MessageShape::Jsonl | MessageShape::Openai))
}

/// Whether a shape asks for errors as objects.
pub(crate) fn transcript_shape_is_json(shape: Option<TranscriptShape>) -> bool {
    matches!(shape, Some(TranscriptShape::Json | TranscriptShape::Jsonl))
}

const MESSAGES_HELP: &str = "\
While nobody writes the session, an open turn is shown as a resume would end it.

Examples:
  everlog messages s-7 -o json              what the model is given next
  everlog messages s-7@120 -o json          what it was given right after event 120
  everlog messages s-7 --explain -o jsonl   with the events behind each message";

const TRANSCRIPT_HELP: &str = "\
What people saw: compaction hides nothing here.

Examples:
  everlog transcript s-7                    to read
  everlog transcript s-7 -o md > s-7.md     to keep";

const SURFACE_HELP: &str = "\
Examples:
  everlog surface s-7                       the seqs that make messages now
  everlog surface s-7@120 -o json           with all that was replaced up to event 120";

const RESUME_HELP: &str = "\
A resumed session does not grow when it is resumed again.

Examples:
  everlog resume s-7                        where to go on, and what may have happened
  everlog resume s-7 -o json | jq .nextSeq";

const FORK_HELP: &str = "\
Nothing is copied; the parent may be written meanwhile.

Examples:
  everlog fork s-7                          go on from its end in a session of its own
  everlog fork s-7@120 try-2                from event 120 on, between two turns
  everlog fork s-7@90 try-3 --close         from inside a turn";

const STATS_HELP: &str = "\
Examples:
  everlog stats s-7                         turns, steps, tokens, times
  everlog stats -o json                     of all sessions; forks count once";
