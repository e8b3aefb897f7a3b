//! A bar on standard error, for people who wait.
//!
//! # Invariants
//! B1. Nothing is drawn before half a second has passed, when standard error is no terminal, or with `-q`.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

const QUIET_FOR: Duration = Duration::from_millis(500);

/// A bar over a number of bytes.
pub(crate) struct Progress {
    what: &'static str,
    begun: Instant,
    wanted: bool,
    bar: Option<ProgressBar>,
}

impl Progress {
    pub(crate) fn new(what: &'static str, quiet: bool) -> Self {
        let wanted = !quiet && std::io::stderr().is_terminal();
        Self { what, begun: Instant::now(), wanted, bar: None }
    }

    /// Shows `done` of `all` bytes; `all` is 0 when it is not known.
    pub(crate) fn show(&mut self, done: u64, all: u64) {
        if !self.wanted || (self.bar.is_none() && self.begun.elapsed() < QUIET_FOR) {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| bar(self.what, all));
        if all > 0 {
            bar.set_length(all.max(done));
        }
        bar.set_position(done);
    }

    /// Runs `print` with the bar out of the way.
    pub(crate) fn aside<T>(&self, print: impl FnOnce() -> T) -> T {
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn bar(what: &'static str, all: u64) -> ProgressBar {
    let (bar, template) = if all > 0 {
        (
            ProgressBar::new(all),
            "{msg} {wide_bar} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec}",
        )
    } else {
        (ProgressBar::no_length(), "{msg} {binary_bytes} {binary_bytes_per_sec}")
    };
    let style = ProgressStyle::with_template(template);
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar())).with_message(what)
}
