//! Lines of standard input, and one line as an event.
//!
//! # Invariants
//! K1. The text of `data` reaches the store byte for byte.
//! K2. A line longer than `LINE_BYTES_MAX` is refused before it is held whole.

use std::io;

use everlog::NewEvent;
use everlog::limits::LINE_BYTES_MAX;

use crate::exit::{FAILED, Failure};
use crate::stdin::Blocks;

/// Lines that share one sync hold at most so many bytes together.
const GROUP_BYTES_MAX: usize = 4 << 20;

/// One line and its number, counted from 1.
pub(crate) struct Line {
    pub(crate) number: u64,
    pub(crate) bytes: Vec<u8>,
}

/// Splits blocks of input at newlines and steps over blank lines.
pub(crate) struct Lines {
    blocks: Blocks,
    partial: Vec<u8>,
    number: u64,
    ended: bool,
    failure: Option<Failure>,
}

impl Lines {
    pub(crate) fn new(blocks: Blocks) -> Self {
        Self { blocks, partial: Vec::new(), number: 0, ended: false, failure: None }
    }

    /// The lines that wait already, at least one unless the input ends; none at the end. A failure of the input
    /// comes after the whole lines before it.
    pub(crate) fn group(&mut self) -> Result<Vec<Line>, Failure> {
        let mut group = Vec::new();
        if self.failure.is_none()
            && let Err(failure) = self.fill(&mut group)
        {
            self.failure = Some(failure);
        }
        match self.failure.take_if(|_| group.is_empty()) {
            Some(failure) => Err(failure),
            None => Ok(group),
        }
    }

    fn fill(&mut self, group: &mut Vec<Line>) -> Result<(), Failure> {
        while group.is_empty() && !self.ended {
            match self.blocks.next().map_err(|e| broken(&e))? {
                Some(block) => self.split(&block, group)?,
                None => self.end(group),
            }
        }
        let mut held: usize = group.iter().map(|l| l.bytes.len()).sum();
        while held < GROUP_BYTES_MAX {
            let Some(block) = self.blocks.waiting().map_err(|e| broken(&e))? else { break };
            held += block.len();
            self.split(&block, group)?;
        }
        Ok(())
    }

    fn split(&mut self, block: &[u8], group: &mut Vec<Line>) -> Result<(), Failure> {
        for piece in block.split_inclusive(|b| *b == b'\n') {
            if self.partial.len() + piece.len() > LINE_BYTES_MAX {
                let message = format!("the line is longer than {LINE_BYTES_MAX} bytes");
                return Err(Failure::new(FAILED, "limit", message).with_line(self.number + 1));
            }
            self.partial.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                self.partial.pop();
                self.emit(group);
            }
        }
        Ok(())
    }

    fn end(&mut self, group: &mut Vec<Line>) {
        self.ended = true;
        if !self.partial.is_empty() {
            self.emit(group);
        }
    }

    fn emit(&mut self, group: &mut Vec<Line>) {
        self.number += 1;
        let bytes = std::mem::take(&mut self.partial);
        if !bytes.trim_ascii().is_empty() {
            group.push(Line { number: self.number, bytes });
        }
    }
}

fn broken(error: &io::Error) -> Failure {
    if let Err(stop) = crate::signal::check() {
        return stop;
    }
    Failure::new(FAILED, "io", format!("read standard input: {error}"))
}

/// One line as an event.
pub(crate) fn parse_event_line(line: &Line) -> Result<NewEvent<'static>, Failure> {
    everlog::dsh::json_event_line(&line.bytes).map_err(|e| Failure::from(e).with_line(line.number))
}
