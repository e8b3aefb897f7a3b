//! The everlog command line: an embedded event store, used from a shell.
//!
//! # Invariants
//! C1. Data goes to standard output; everything that is said about it goes to standard error.
//! C2. Foreign text reaches neither stream raw, except through the verbs whose output is exact bytes.
//! C3. Every way out goes through `run`, so that a failure is one printed error and one exit code.

// `println!` and `eprintln!` panic when the stream takes nothing.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod append_line;
mod args;
mod args_read;
mod args_view;
mod cmd;
mod entries;
mod exit;
mod find;
mod inputs;
mod json_out;
mod json_text;
mod message_text;
mod naming;
mod out;
mod pager;
mod pool;
mod progress;
mod safe_name;
mod signal;
mod state;
mod stdin;
mod summary;
mod table;
mod text;
mod time;
mod width;

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
