//! Cuts a stream of text into lines, with one buffer for lines that cross a chunk.
//!
//! # Invariants
//! L1. Only 0x0A ends a line; the text given never holds it.
//! L2. Memory is one chunk and one line of at most `line_bytes_max`; runs of NUL cost nothing.
//! L3. How the source cuts its reads changes nothing: neither texts, nor numbers, nor offsets.
//!
//! # Units
//! `offset`: bytes from the start of the text, after decompression. `no`: lines from 1.

use memchr::memchr;

use crate::{Error, ErrorKind, Result};

/// Bytes asked from the source at once.
const CHUNK_BYTES: usize = 1 << 20;

/// Where text comes from.
pub(super) trait Source {
    /// Fills a part of `buf` and says how much; 0 only at the end.
    fn read(&mut self, buf: &mut [u8]) -> Result<usize>;
}

/// One line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'a> {
    /// The bytes before the newline. Without one, NUL bytes at the end are left out, see `nuls`.
    pub(super) text: &'a [u8],
    /// Number of the line.
    pub(super) no: u64,
    /// Offset of its first byte.
    pub(super) offset: u64,
    /// Whether a newline ended it.
    pub(super) ended: bool,
    /// NUL bytes after `text`, when no newline ended the line.
    pub(super) nuls: u64,
}

/// The lines of a source.
pub(super) struct Lines<S> {
    source: S,
    chunk: Vec<u8>,
    pos: usize,
    len: usize,
    /// Offset of the first byte of `chunk`.
    base: u64,
    /// Start of a line whose end is not in the chunk, without NUL bytes at its end.
    carry: Vec<u8>,
    /// NUL bytes after `carry`.
    nuls: u64,
    lines: u64,
    line_bytes_max: usize,
    at_end: bool,
}

impl<S: Source> Lines<S> {
    pub(super) fn new(source: S, line_bytes_max: usize) -> Self {
        Self {
            source,
            chunk: vec![0; CHUNK_BYTES],
            pos: 0,
            len: 0,
            base: 0,
            carry: Vec::new(),
            nuls: 0,
            lines: 0,
            line_bytes_max,
            at_end: false,
        }
    }

    /// Bytes of text taken so far; all of them after the last line.
    pub(super) fn offset(&self) -> u64 {
        self.base + self.pos as u64
    }

    /// The source, for what it knows about the end.
    pub(super) fn source(&mut self) -> &mut S {
        &mut self.source
    }

    /// The next line; none at the end of the text.
    ///
    /// # Errors
    /// `Limit` for a line that is too long, and what the source gives.
    pub(super) fn next(&mut self) -> Result<Option<Line<'_>>> {
        let offset = self.offset();
        self.carry.clear();
        self.nuls = 0;
        let ended = loop {
            if self.pos == self.len && !self.fill()? {
                if self.carry.is_empty() && self.nuls == 0 {
                    return Ok(None);
                }
                break false;
            }
            let rest = self.chunk.get(self.pos..self.len).unwrap_or_default();
            let Some(end) = memchr(b'\n', rest) else {
                self.hold(self.pos, self.len, offset)?;
                self.pos = self.len;
                continue;
            };
            let start = self.pos;
            self.pos += end + 1;
            if self.carry.is_empty() && self.nuls == 0 && end <= self.line_bytes_max {
                self.lines += 1;
                let text = self.chunk.get(start..start + end).unwrap_or_default();
                return Ok(Some(Line { text, no: self.lines, offset, ended: true, nuls: 0 }));
            }
            self.hold(start, start + end, offset)?;
            break true;
        };
        if ended && self.nuls > 0 {
            // The line is damaged whatever stands beside the run: one NUL stands for all of it.
            self.carry.push(0);
            self.nuls = 0;
        }
        self.lines += 1;
        let text = &self.carry;
        Ok(Some(Line { text, no: self.lines, offset, ended, nuls: self.nuls }))
    }

    /// Moves a part of the chunk to `carry`. Of a run of NUL one is kept, when something follows it: the
    /// line is damaged then, whatever the length of the run.
    fn hold(&mut self, start: usize, end: usize, offset: u64) -> Result<()> {
        let mut at = start;
        while at < end {
            let part = self.chunk.get(at..end).unwrap_or_default();
            let lead = part.iter().take_while(|byte| **byte == 0).count();
            self.nuls += lead as u64;
            let body = part.get(lead..).unwrap_or_default();
            let body = body.get(..memchr(0, body).unwrap_or(body.len())).unwrap_or_default();
            at += lead + body.len();
            if body.is_empty() {
                continue;
            }
            let joint = usize::from(self.nuls > 0);
            self.fits(self.carry.len() + joint + body.len(), offset)?;
            if std::mem::take(&mut self.nuls) > 0 {
                self.carry.push(0);
            }
            self.carry.extend_from_slice(body);
        }
        Ok(())
    }

    fn fits(&self, bytes: usize, offset: u64) -> Result<()> {
        if bytes <= self.line_bytes_max {
            return Ok(());
        }
        let max = self.line_bytes_max;
        let what = format!("a line is longer than {max} bytes: raise the limit of line bytes");
        Err(Error::new(ErrorKind::Limit, what)
            .with_field("line_bytes_max")
            .with_line(self.lines + 1)
            .with_offset(offset))
    }

    /// Reads the next chunk; false at the end.
    fn fill(&mut self) -> Result<bool> {
        if self.at_end {
            return Ok(false);
        }
        self.base += self.len as u64;
        self.pos = 0;
        self.len = 0;
        self.len = self.source.read(&mut self.chunk)?;
        self.at_end = self.len == 0;
        Ok(!self.at_end)
    }
}
