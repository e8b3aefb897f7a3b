//! Standard output, buffered, with its failures kept apart from those of the store.
//!
//! # Invariants
//! O1. A failed write is kept: whoever wrote through `io::Write` finds it again in `failure`.
//! O2. Nothing is lost silently: `finish` must be called, and reports what the last flush said.

use std::io::{self, BufWriter, Write};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::args::Globals;
use crate::exit::{FAILED, Failure};
use crate::pager::Pager;
use crate::signal;

const BUFFER_BYTES: usize = 256 << 10;

/// Standard output, or the pager that stands before it.
pub(crate) struct Out {
    inner: BufWriter<Box<dyn Write>>,
    failure: Option<Failure>,
}

impl Out {
    pub(crate) fn new() -> Self {
        Self::over(Box::new(io::stdout().lock()))
    }

    /// For people: through the pager when standard output is a terminal. The pager has ended when this is dropped.
    pub(crate) fn paged(globals: &Globals) -> Self {
        match Pager::start(globals) {
            Some(pager) => Self::over(Box::new(pager)),
            None => Self::new(),
        }
    }

    fn over(sink: Box<dyn Write>) -> Self {
        Self { inner: BufWriter::with_capacity(BUFFER_BYTES, sink), failure: None }
    }

    /// Writes bytes as they are.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.inner.write_all(bytes).map_err(|e| failure_of(&e))
    }

    /// Writes bytes and a newline.
    pub(crate) fn line(&mut self, bytes: impl AsRef<[u8]>) -> Result<(), Failure> {
        self.put(bytes.as_ref())?;
        self.put(b"\n")
    }

    /// Hands everything to the operating system.
    pub(crate) fn finish(&mut self) -> Result<(), Failure> {
        self.inner.flush().map_err(|e| failure_of(&e))
    }

    /// Whether the reader of standard output went away: seen without a write, for who waits for something to write.
    pub(crate) fn is_closed(&self) -> bool {
        let stdout = io::stdout();
        let mut fds = [PollFd::new(&stdout, PollFlags::empty())];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut fds, Some(&now)).is_ok_and(|n| n > 0)
            && fds.iter().any(|fd| fd.revents().contains(PollFlags::ERR))
    }

    /// The failure of a write through `io::Write`, which its caller saw only as an `io::Error`.
    pub(crate) fn failure(&mut self) -> Option<Failure> {
        self.failure.take()
    }

    fn keep<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        if let Err(e) = &result {
            self.failure = Some(failure_of(e));
        }
        result
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Err(stop) = signal::check() {
            self.failure = Some(stop);
            return Err(io::Error::other("interrupted"));
        }
        let result = self.inner.write(bytes);
        self.keep(result)
    }

    fn flush(&mut self) -> io::Result<()> {
        let result = self.inner.flush();
        self.keep(result)
    }
}

fn failure_of(error: &io::Error) -> Failure {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return Failure::closed_pipe();
    }
    Failure::new(FAILED, "io", format!("write to standard output: {error}"))
}
