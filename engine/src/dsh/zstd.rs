//! Text out of a sequence of Zstandard frames, as a stream.
//!
//! # Invariants
//! Z1. Memory is one input buffer and the window of a frame, never more than `window_log_max` allows.
//! Z2. After the last whole frame, fewer than four bytes, a frame cut short or nothing but NUL are a
//!     torn tail; what a cut frame still decodes to is given out. Anything else is corrupt, and so is
//!     a cut frame that holds another whole frame.
//! Z3. A whole frame that does not decode, or fails its checksum, is corrupt wherever it stands.
//! Z4. Skippable and empty frames give no text.
//! Z5. Past 16 MiB of text, no more than 1,000 bytes of text are given for one byte of input.
//!
//! # Units
//! Offsets in errors: bytes of the compressed input.

use std::io::Read;

use zstd::stream::raw::{DParameter, Decoder, InBuffer, Operation, OutBuffer};

use super::frame::{FrameScan, MAGIC, Probe, is_skippable};
use super::lines::Source;
use crate::{Error, ErrorKind, Result};

/// Bytes of input held at once.
const INPUT_BYTES: usize = 128 << 10;
/// Text that any ratio may reach.
const RATIO_FREE_BYTES: u64 = 16 << 20;
/// Most bytes of text for one byte of input after that.
const RATIO_MAX: u64 = 1_000;
/// Header of a skippable frame: magic and size.
const SKIPPABLE_HEAD_BYTES: usize = 8;

/// Bytes at the end of the input that hold no whole frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TornFrame {
    /// Offset of the first of them.
    pub(super) offset: u64,
    /// How many there are.
    pub(super) bytes: u64,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// At the start of a frame, or at the end.
    Between,
    /// Inside a frame.
    Frame,
    /// Inside a skippable frame, with so many bytes to go.
    Skip(u64),
    /// Inside a run of NUL.
    Nul,
    /// The last frame is cut: what the decoder still holds comes out.
    Flush,
    /// Nothing more will come.
    End,
}

/// Decodes frames from a reader.
pub(super) struct ZstdSource<R> {
    reader: R,
    input: Vec<u8>,
    pos: usize,
    len: usize,
    /// Offset of the first byte of `input`.
    base: u64,
    decoder: Decoder<'static>,
    state: State,
    scan: FrameScan,
    probe: Probe,
    frame_offset: u64,
    /// Bytes from `pos` on that the scan has passed and the decoder has not.
    pending: usize,
    /// How many bytes the decoder takes next, so that one call decodes one block at most.
    hint: usize,
    /// Why the decoder gave the frame up.
    failed: Option<String>,
    text_bytes: u64,
    text_bytes_max: u64,
    window_log_max: u32,
    torn: Option<TornFrame>,
}

/// Whether the first bytes of an input start a Zstandard stream.
pub(super) fn is_zstd(start: [u8; 4]) -> bool {
    start == MAGIC || is_skippable(start)
}

fn corrupt(what: &str, offset: u64) -> Error {
    Error::corrupt(format!(
        "zstd frame damaged: {what}; nothing was imported, take another copy of the file"
    ))
    .with_offset(offset)
}

impl<R: Read> ZstdSource<R> {
    pub(super) fn new(reader: R, window_log_max: u32, text_bytes_max: u64) -> Result<Self> {
        let mut decoder =
            Decoder::new().map_err(|e| Error::io("cannot make a zstd decoder", &e))?;
        decoder
            .set_parameter(DParameter::WindowLogMax(window_log_max))
            .map_err(|e| Error::invalid("window_log_max", e))?;
        Ok(Self {
            reader,
            input: vec![0; INPUT_BYTES],
            pos: 0,
            len: 0,
            base: 0,
            decoder,
            state: State::Between,
            scan: FrameScan::new(),
            probe: Probe::new(),
            frame_offset: 0,
            pending: 0,
            hint: 1,
            failed: None,
            text_bytes: 0,
            text_bytes_max,
            window_log_max,
            torn: None,
        })
    }

    /// What was left over at the end; known once the text has ended.
    pub(super) fn torn(&self) -> Option<TornFrame> {
        self.torn
    }

    /// Decodes the rest of the frame in which the reader stands, and drops its text.
    ///
    /// # Errors
    /// `Corrupt` when the frame is damaged.
    pub(super) fn settle(&mut self) -> Result<()> {
        let mut text = vec![0; INPUT_BYTES];
        while let State::Frame = self.state {
            self.decode(&mut text)?;
        }
        Ok(())
    }

    fn offset(&self) -> u64 {
        self.base + self.pos as u64
    }

    fn rest(&self) -> &[u8] {
        self.input.get(self.pos..self.len).unwrap_or_default()
    }

    /// Reads on until `wanted` bytes stand at `pos`, or the input ends; says how many stand there.
    fn want(&mut self, wanted: usize) -> Result<usize> {
        while self.len - self.pos < wanted {
            self.input.copy_within(self.pos..self.len, 0);
            self.base += self.pos as u64;
            self.len -= self.pos;
            self.pos = 0;
            let Some(room) = self.input.get_mut(self.len..) else { break };
            let got = read_some(&mut self.reader, room)?;
            if got == 0 {
                break;
            }
            self.len += got;
        }
        Ok(self.len - self.pos)
    }

    /// Ends the text with everything from the start of the last frame left over.
    fn tear(&mut self, then: State) {
        let bytes = self.base + self.len as u64 - self.frame_offset;
        self.torn = Some(TornFrame { offset: self.frame_offset, bytes });
        self.pos = self.len;
        self.state = then;
    }

    /// Looks at what follows a frame.
    fn start_frame(&mut self) -> Result<()> {
        let have = self.want(MAGIC.len())?;
        self.frame_offset = self.offset();
        let Some(magic) = self.rest().first_chunk::<4>().copied() else {
            if have == 0 {
                self.state = State::End;
            } else {
                self.tear(State::End);
            }
            return Ok(());
        };
        if magic == MAGIC {
            self.scan = FrameScan::new();
            self.probe = Probe::new();
            self.hint = 1;
            self.decoder.reinit().map_err(|e| Error::io("cannot reset the zstd decoder", &e))?;
            self.state = State::Frame;
        } else if is_skippable(magic) {
            if self.want(SKIPPABLE_HEAD_BYTES)? < SKIPPABLE_HEAD_BYTES {
                self.tear(State::End);
                return Ok(());
            }
            let size = self.rest().get(4..).and_then(|r| r.first_chunk::<4>().copied());
            self.pos += SKIPPABLE_HEAD_BYTES;
            self.state = State::Skip(u64::from(u32::from_le_bytes(size.unwrap_or_default())));
        } else if magic == [0; 4] {
            self.state = State::Nul;
        } else {
            return Err(corrupt("no frame starts here", self.frame_offset));
        }
        Ok(())
    }

    fn skip(&mut self, left: u64) -> Result<()> {
        if left == 0 {
            self.state = State::Between;
            return Ok(());
        }
        let have = self.want(1)? as u64;
        if have == 0 {
            self.tear(State::End);
            return Ok(());
        }
        let step = have.min(left);
        self.pos += step as usize;
        self.state = State::Skip(left - step);
        Ok(())
    }

    fn skip_nul(&mut self) -> Result<()> {
        if self.want(1)? == 0 {
            self.tear(State::End);
            return Ok(());
        }
        if let Some(at) = self.rest().iter().position(|byte| *byte != 0) {
            return Err(corrupt("bytes follow a run of NUL", self.offset() + at as u64));
        }
        self.pos = self.len;
        Ok(())
    }

    /// Lets the scan pass what is in the input; false when the input has ended inside the frame.
    fn advance_scan(&mut self) -> Result<bool> {
        if self.want(1)? == 0 {
            if self.probe.found() {
                let what = "a whole frame follows inside a frame that was cut";
                return Err(corrupt(what, self.frame_offset));
            }
            let then = if self.failed.is_some() { State::End } else { State::Flush };
            self.tear(then);
            return Ok(false);
        }
        let rest = self.input.get(self.pos..self.len).unwrap_or_default();
        let used = self.scan.feed(rest).map_err(|(_, what)| corrupt(what, self.frame_offset))?;
        self.probe.feed(rest.get(..used).unwrap_or_default());
        self.pending = used;
        let max = 1_u64 << self.window_log_max;
        if let Some(window) = self.scan.window()
            && window > max
        {
            let what = format!(
                "a zstd frame wants a window of {window} bytes, allowed are {max}: \
                 compress it again with a smaller window"
            );
            return Err(Error::new(ErrorKind::Limit, what)
                .with_field("window_log_max")
                .with_offset(self.frame_offset));
        }
        Ok(true)
    }

    /// Ends a frame whose bytes the decoder has all got.
    fn end_frame(&mut self) -> Result<()> {
        if let Some(why) = self.failed.take() {
            return Err(corrupt(&why, self.frame_offset));
        }
        self.state = State::Between;
        Ok(())
    }

    /// One step inside a frame; says how many bytes of text it gave.
    fn decode(&mut self, out: &mut [u8]) -> Result<usize> {
        if self.pending == 0 && !self.scan.done() && !self.advance_scan()? {
            return Ok(0);
        }
        if self.failed.is_some() {
            self.pos += std::mem::take(&mut self.pending);
            if self.scan.done() {
                self.end_frame()?;
            }
            return Ok(0);
        }
        let give = self.pending.min(self.hint.max(1));
        let part = self.input.get(self.pos..self.pos + give).unwrap_or_default();
        let (mut input, mut output) = (InBuffer::around(part), OutBuffer::around(out));
        let result = self.decoder.run(&mut input, &mut output);
        let (used, made) = (input.pos(), output.pos());
        self.pos += used;
        self.pending -= used;
        match result {
            Err(e) => self.failed = Some(e.to_string()),
            Ok(0) if self.pending == 0 && self.scan.done() => self.end_frame()?,
            Ok(_) if used == 0 && made == 0 => {
                self.failed = Some("its blocks do not make up its content".to_owned());
            }
            Ok(hint) => self.hint = hint,
        }
        self.count(made)?;
        Ok(made)
    }

    /// Takes what the decoder still holds of a cut frame.
    fn flush(&mut self, out: &mut [u8]) -> Result<usize> {
        let mut output = OutBuffer::around(out);
        let result = self.decoder.run(&mut InBuffer::around(&[]), &mut output);
        let made = output.pos();
        if result.is_err() || made == 0 {
            self.state = State::End;
        }
        self.count(made)?;
        Ok(made)
    }

    /// Counts text against the caps.
    fn count(&mut self, made: usize) -> Result<()> {
        self.text_bytes += made as u64;
        let ratio_cap = RATIO_FREE_BYTES.max(self.offset().saturating_mul(RATIO_MAX));
        let what = if self.text_bytes > self.text_bytes_max {
            format!(
                "the zstd input decodes to more than {} bytes: raise the limit of decoded bytes",
                self.text_bytes_max
            )
        } else if self.text_bytes > ratio_cap {
            format!(
                "the zstd input decodes to more than {RATIO_MAX} times its size: \
                 decompress it first if it is to be trusted"
            )
        } else {
            return Ok(());
        };
        Err(Error::new(ErrorKind::Limit, what)
            .with_field("decoded_bytes_max")
            .with_offset(self.offset()))
    }
}

impl<R: Read> ZstdSource<R> {
    /// One step: looks at what comes next, or gives some text. Says how many bytes of it.
    pub(super) fn step(&mut self, buf: &mut [u8]) -> Result<usize> {
        match self.state {
            State::Between => self.start_frame().map(|()| 0),
            State::Skip(left) => self.skip(left).map(|()| 0),
            State::Nul => self.skip_nul().map(|()| 0),
            State::Frame => self.decode(buf),
            State::Flush => self.flush(buf),
            State::End => Ok(0),
        }
    }

    /// Whether a frame may start here.
    pub(super) fn is_between(&self) -> bool {
        matches!(self.state, State::Between)
    }

    /// Whether it is inside a frame with text.
    pub(super) fn is_in_frame(&self) -> bool {
        matches!(self.state, State::Frame)
    }

    /// Whether nothing more will come.
    pub(super) fn is_at_end(&self) -> bool {
        matches!(self.state, State::End)
    }

    /// Offset of the frame that was started last.
    pub(super) fn frame_offset(&self) -> u64 {
        self.frame_offset
    }

    /// What was read and not yet used, and its offset.
    pub(super) fn unused(&self) -> (u64, &[u8]) {
        (self.offset(), self.rest())
    }

    /// Starts anew at an offset, from which the reader goes on to give bytes.
    pub(super) fn restart(&mut self, offset: u64) -> &mut R {
        (self.base, self.pos, self.len, self.pending) = (offset, 0, 0, 0);
        (self.failed, self.torn, self.state) = (None, None, State::Between);
        &mut self.reader
    }

    /// The reader.
    pub(super) fn reader(&mut self) -> &mut R {
        &mut self.reader
    }
}

impl<R: Read> Source for ZstdSource<R> {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        loop {
            let made = self.step(buf)?;
            if made > 0 || self.is_at_end() {
                return Ok(made);
            }
        }
    }
}

/// Reads once, again after an interruption.
pub(super) fn read_some(reader: &mut impl Read, buf: &mut [u8]) -> Result<usize> {
    loop {
        match reader.read(buf) {
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(Error::io("cannot read the input", &e)),
            // A reader that claims more than there is room for is not believed.
            Ok(got) => return Ok(got.min(buf.len())),
        }
    }
}

/// Makes frames as dsh writes them (dsh-spec.md section 8.5): each with a checksum, at the level that is zstd's default.
///
/// ```
/// use everlog::dsh::FrameWriter;
/// let mut frames = FrameWriter::new()?;
/// let mut out = Vec::new();
/// frames.frame(b"a header line\n", &mut out)?;
/// frames.frame(b"the lines of a batch\n", &mut out)?;
/// assert_eq!(out[..4], 0xFD2F_B528_u32.to_le_bytes());
/// # Ok::<(), everlog::Error>(())
/// ```
pub struct FrameWriter {
    encoder: zstd::bulk::Compressor<'static>,
}

impl FrameWriter {
    /// Makes a writer.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] when zstd has no memory.
    pub fn new() -> Result<Self> {
        let fail = |e| Error::io("cannot make a zstd encoder", &e);
        let mut encoder = zstd::bulk::Compressor::new(0).map_err(fail)?;
        encoder.include_checksum(true).map_err(fail)?;
        Ok(Self { encoder })
    }

    /// Appends one frame that holds `text`: the header line alone, or the lines of one batch.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] when zstd has no memory.
    pub fn frame(&mut self, text: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let frame =
            self.encoder.compress(text).map_err(|e| Error::io("cannot compress a frame", &e))?;
        out.extend_from_slice(&frame);
        Ok(())
    }
}
