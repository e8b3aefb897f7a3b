//! One file a verb; this one sends each verb to its file.

mod append;
mod cat;
mod check;
mod export;
mod follow;
mod fork;
mod import;
mod import_report;
mod info;
mod init;
mod log;
mod log_line;
mod log_live;
mod ls;
mod messages;
mod ps;
mod resume;
mod show;
mod stats;
mod surface;
mod transcript;
mod view;

use crate::args::{Args, Command, Shape};
use crate::exit::Failure;

pub(crate) use cat::is_damage;

/// Does what the command line asks.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let globals = &args.globals;
    match &args.command {
        Command::Init(a) => init::run(globals, a),
        Command::Append(a) => append::run(globals, a),
        Command::Import(a) => import::run(globals, a),
        Command::Ps(a) => ps::run(globals, a),
        Command::Ls(a) => ls::run(globals, a),
        Command::Log(a) => log::run(globals, a),
        Command::Show(a) => show::run(globals, a),
        Command::Cat(a) => cat::run(globals, a),
        Command::Export(a) => export::run(globals, a),
        Command::Check(a) => check::run(globals, a),
        Command::Info(a) => info::run(globals, a),
        Command::Messages(a) => messages::run(globals, a),
        Command::Transcript(a) => transcript::run(globals, a),
        Command::Surface(a) => surface::run(globals, a),
        Command::Stats(a) => stats::run(globals, a),
        Command::Resume(a) => resume::run(globals, a),
        Command::Fork(a) => fork::run(globals, a),
    }
}

/// The shape that was asked for, or what suits the reader: columns for people, tabs for pipes.
fn shape_or_default(shape: Option<Shape>) -> Shape {
    use std::io::IsTerminal;
    let fitting = || if std::io::stdout().is_terminal() { Shape::Table } else { Shape::Text };
    shape.unwrap_or_else(fitting)
}

/// Bytes as lower-case hexadecimal digits.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
