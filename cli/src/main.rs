//! The everlog command line: an embedded event store, used from a shell.
//!
//! # Invariants
//! C1. Data goes to standard output; everything that is said about it goes to standard error.
//! C2. Foreign text reaches neither stream raw, except through the verbs whose output is exact bytes.
//! C3. Every way out goes through `run`, so that a failure is one printed error and one exit code.

mod append_line;
mod args;
mod args_view;
mod cmd;
mod exit;
mod find;
mod inputs;
mod json_out;
mod message_text;
mod naming;
mod out;
mod pool;
mod progress;
mod safe_name;
mod signal;
mod stdin;
mod table;
mod text;
mod time;

use std::process::ExitCode;

use clap::Parser;

use crate::args::Args;
use crate::exit::Failure;

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return exit::usage(&error),
    };
    let json = args.command.wants_json();
    let style = text::Style::for_stderr(args.globals.color);
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.print(json, style);
            ExitCode::from(failure.code())
        }
    }
}

fn run(args: &Args) -> Result<(), Failure> {
    signal::install()?;
    cmd::run(args)
}
