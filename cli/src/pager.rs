//! The pager before a terminal, chosen as git chooses it.
//!
//! # Invariants
//! Pg1. It is started only for a terminal, and never through a shell: its command is cut at blanks.
//! Pg2. Dropping it closes its input and waits, so that nothing is printed over it.

use std::io::{self, IsTerminal, Write};
use std::process::{Child, Command, Stdio};

use crate::args::Globals;

/// What git gives less: colours, no pager for what fits on one screen, no clearing at the end.
const LESS: &str = "FRX";

/// A running pager.
pub(crate) struct Pager {
    child: Child,
}

impl Pager {
    /// Starts `$EVERLOG_PAGER`, else `$PAGER`, else `less -R`; nothing when that is empty or `cat`, cannot be started,
    /// when standard output is no terminal, or with `--no-pager`.
    pub(crate) fn start(globals: &Globals) -> Option<Self> {
        if globals.no_pager || !io::stdout().is_terminal() {
            return None;
        }
        let chosen = ["EVERLOG_PAGER", "PAGER"].iter().find_map(|name| std::env::var(name).ok());
        let command = chosen.unwrap_or_else(|| "less -R".to_owned());
        let words: Vec<&str> = command.split_whitespace().collect();
        let (program, args) = words.split_first().filter(|(program, _)| **program != "cat")?;
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::piped());
        if std::env::var_os("LESS").is_none() {
            command.env("LESS", LESS);
        }
        // What cannot be started is done without.
        command.spawn().ok().map(|child| Self { child })
    }
}

impl Write for Pager {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.child.stdin {
            Some(stdin) => stdin.write(bytes),
            None => Err(io::Error::from(io::ErrorKind::BrokenPipe)),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.child.stdin.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl Drop for Pager {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // A pager that cannot be waited for has ended.
        self.child.wait().ok();
    }
}
