//! Cuts a stream of text into lines, with one buffer for lines that cross a chunk.
//!
//! # Invariants
//! L1. Only 0x0A ends a line; the text given never holds it.
//! L2. Memory is one chunk and one line of at most `line_bytes_max`; runs of NUL cost nothing.
//! L3. How the source cuts its reads changes nothing: neither texts, nor numbers, nor offsets.
//! L4. Exact lines give every byte: runs of NUL are not shortened, and a line that is too long comes in parts.
//!
//! # Units
//! `offset`: bytes from the start of the text, after decompression. `no`: lines from 1.

use memchr::memchr;

use crate::{Error, ErrorKind, Result};

/// Bytes asked from the source at once.
const CHUNK_BYTES: usize = 1 << 20;

/// Where text comes from.
pub(super) trait Source {
    /// Fills a part of `buf` and says how much; 0 only at the end, or where bytes are missing.
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
    /// Whether a part of the line came before.
    pub(super) goes_on: bool,
    /// Whether a part of the line comes next.
    pub(super) unfinished: bool,
}

impl Line<'_> {
    /// Whether this is the line, and no part of it.
    pub(super) fn is_whole(&self) -> bool {
        !self.goes_on && !self.unfinished
    }
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
    exact: bool,
    /// Whether the last part given was not the end of its line.
    in_line: bool,
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
            exact: false,
            in_line: false,
        }
    }

    /// Gives every byte (L4) from here on.
    pub(super) fn exact(mut self) -> Self {
        self.exact = true;
        self
    }

    /// Goes on behind a place where the source ended for now.
    pub(super) fn resume(&mut self) {
        self.at_end = false;
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
        if self.exact {
            return self.next_exact();
        }
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
                return Ok(Some(whole(text, self.lines, offset, true, 0)));
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
        Ok(Some(whole(&self.carry, self.lines, offset, ended, self.nuls)))
    }

    /// The next line or part of one, with every byte of it.
    fn next_exact(&mut self) -> Result<Option<Line<'_>>> {
        let offset = self.offset() - self.nuls;
        self.carry.clear();
        let goes_on = std::mem::take(&mut self.in_line);
        self.lines += u64::from(!goes_on);
        let mut ended = false;
        loop {
            if self.pos == self.len && !self.fill()? {
                if self.carry.is_empty() && self.nuls == 0 && !goes_on {
                    self.lines -= 1;
                    return Ok(None);
                }
                break;
            }
            let rest = self.chunk.get(self.pos..self.len).unwrap_or_default();
            let newline = memchr(b'\n', rest);
            let body = newline.unwrap_or(rest.len());
            let bare = self.carry.is_empty() && self.nuls == 0;
            if newline.is_some() && bare && !goes_on && body <= self.line_bytes_max {
                let start = self.pos;
                self.pos += body + 1;
                let text = self.chunk.get(start..start + body).unwrap_or_default();
                return Ok(Some(whole(text, self.lines, offset, true, 0)));
            }
            let used = self.absorb(self.pos, self.pos + body);
            self.pos += used;
            if used < body || (newline.is_some() && !self.settle_nuls()) {
                self.in_line = true;
                break;
            }
            if newline.is_some() {
                self.pos += 1;
                ended = true;
                break;
            }
        }
        let unfinished = self.in_line;
        let nuls = if unfinished { 0 } else { std::mem::take(&mut self.nuls) };
        let line = whole(&self.carry, self.lines, offset, ended, nuls);
        Ok(Some(Line { goes_on, unfinished, ..line }))
    }

    /// Moves bytes of the chunk to `carry` while they fit, and says how many. NUL bytes are counted until
    /// something follows them.
    fn absorb(&mut self, start: usize, end: usize) -> usize {
        let mut at = start;
        while at < end {
            let part = self.chunk.get(at..end).unwrap_or_default();
            let lead = part.iter().take_while(|byte| **byte == 0).count();
            self.nuls += lead as u64;
            at += lead;
            if lead == part.len() {
                break;
            }
            if !self.settle_nuls() {
                break;
            }
            let part = self.chunk.get(at..end).unwrap_or_default();
            let run = memchr(0, part).unwrap_or(part.len());
            let take = run.min(self.line_bytes_max - self.carry.len());
            if take == 0 {
                break;
            }
            grow(&mut self.carry, take);
            self.carry.extend_from_slice(part.get(..take).unwrap_or_default());
            at += take;
        }
        at - start
    }

    /// Moves counted NUL bytes to `carry`; false when they do not all fit.
    fn settle_nuls(&mut self) -> bool {
        let room = (self.line_bytes_max - self.carry.len()) as u64;
        let add = self.nuls.min(room) as usize;
        self.carry.resize(self.carry.len() + add, 0);
        self.nuls -= add as u64;
        self.nuls == 0
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
            grow(&mut self.carry, body.len());
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

fn whole(text: &[u8], no: u64, offset: u64, ended: bool, nuls: u64) -> Line<'_> {
    Line { text, no, offset, ended, nuls, goes_on: false, unfinished: false }
}

/// Makes room by a quarter more, not by twice: the longest line decides how much memory an import takes.
fn grow(carry: &mut Vec<u8>, add: usize) {
    if carry.capacity() - carry.len() < add {
        carry.reserve_exact(add.max(carry.len() / 4));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    struct Bits<'a>(&'a [u8], usize);

    impl Source for Bits<'_> {
        fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
            let n = self.1.min(self.0.len()).min(buf.len());
            let (now, rest) = self.0.split_at(n);
            buf[..n].copy_from_slice(now);
            self.0 = rest;
            Ok(n)
        }
    }

    #[test]
    fn l3_l4_exact_lines_give_every_byte_however_they_are_cut() {
        let texts: [&[u8]; 8] = [
            b"",
            b"\n",
            b"a\nbb\n",
            b"abcdefgh\nij",
            b"\0\0\0\0\0\0\0\0\0x\n\0\0",
            b"abcd\0\0\n\0y\0\0\0\0\0\0\0\0\0\0\n",
            b"abcd\nabcde\nabcdefghi",
            b"\0\0\0",
        ];
        for text in texts {
            for cut in 1..6 {
                let mut lines = Lines::new(Bits(text, cut), 4).exact();
                let (mut back, mut no) = (Vec::new(), 0);
                let mut was_unfinished = false;
                while let Some(line) = lines.next().unwrap() {
                    assert_eq!(line.offset, back.len() as u64, "{text:?}");
                    assert_eq!(line.goes_on, was_unfinished);
                    assert!(line.text.len() <= 4 && !(line.unfinished && line.ended));
                    was_unfinished = line.unfinished;
                    no += u64::from(!line.goes_on);
                    assert_eq!(line.no, no);
                    back.extend_from_slice(line.text);
                    back.extend(std::iter::repeat_n(0, line.nuls as usize));
                    if line.ended {
                        back.push(b'\n');
                    }
                }
                assert_eq!(back, text);
                let ended = text.iter().filter(|byte| **byte == b'\n').count() as u64;
                assert_eq!(no, ended + u64::from(!text.is_empty() && !text.ends_with(b"\n")));
            }
        }
    }
}
