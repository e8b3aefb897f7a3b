//! The structure of one Zstandard frame, followed byte by byte without decompressing anything.
//!
//! # Invariants
//! F1. Pure: the result depends on the bytes only, not on how they are cut.
//! F2. A frame is `done` at the byte after its last block or its checksum, never later.
//!
//! # Units
//! `window`: bytes that the decoder must keep.

use memchr::memchr;

/// First four bytes of a frame.
pub(super) const MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];

/// Largest block that a frame may hold, in bytes.
const BLOCK_BYTES_MAX: u32 = 128 << 10;

/// Whether four bytes start a skippable frame.
pub(super) fn is_skippable(magic: [u8; 4]) -> bool {
    matches!(magic, [0x50..=0x5F, 0x2A, 0x4D, 0x18])
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Gathers the magic and the frame header descriptor.
    Start,
    /// Gathers the rest of the frame header.
    Header,
    /// Gathers a block header.
    Block,
    /// Steps over the content of a block.
    Body { last: bool },
    /// Steps over the checksum.
    Checksum,
    /// The frame is whole.
    Done,
}

/// Follows one frame from its first byte.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameScan {
    step: Step,
    /// Bytes that the step still wants.
    want: u32,
    head: [u8; 18],
    have: usize,
    window: Option<u64>,
    checksum: bool,
}

impl FrameScan {
    pub(super) fn new() -> Self {
        Self { step: Step::Start, want: 5, head: [0; 18], have: 0, window: None, checksum: false }
    }

    /// Whether the frame is whole.
    pub(super) fn done(&self) -> bool {
        matches!(self.step, Step::Done)
    }

    /// Window that the decoder needs, once the frame header is read.
    pub(super) fn window(&self) -> Option<u64> {
        self.window
    }

    /// Takes bytes up to the end of the frame and says how many.
    ///
    /// # Errors
    /// How many bytes were taken, and what is wrong with the structure. The scan is of no use after
    /// that.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<usize, (usize, &'static str)> {
        let mut used = 0;
        while !self.done() {
            let rest = bytes.get(used..).unwrap_or_default();
            if rest.is_empty() && self.want > 0 {
                break;
            }
            let take = rest.len().min(self.want as usize);
            if !matches!(self.step, Step::Body { .. } | Step::Checksum) {
                for byte in rest.iter().take(take) {
                    if let Some(slot) = self.head.get_mut(self.have) {
                        *slot = *byte;
                    }
                    self.have += 1;
                }
            }
            used += take;
            self.want -= take as u32;
            if self.want == 0 {
                self.next_step().map_err(|what| (used, what))?;
            }
        }
        Ok(used)
    }

    fn next_step(&mut self) -> Result<(), &'static str> {
        match self.step {
            Step::Start => {
                let descriptor = self.head[4];
                if descriptor & 0x08 != 0 {
                    return Err("a reserved bit of the frame header is set");
                }
                self.checksum = descriptor & 0x04 != 0;
                self.go(Step::Header, header_rest(descriptor));
            }
            Step::Header => {
                self.window = Some(window_of(&self.head));
                self.have = 0;
                self.go(Step::Block, 3);
            }
            Step::Block => {
                let word = u32::from_le_bytes([self.head[0], self.head[1], self.head[2], 0]);
                let (last, kind, size) = (word & 1 == 1, word >> 1 & 3, word >> 3);
                if kind == 3 {
                    return Err("a block is of a type that does not exist");
                }
                if size > BLOCK_BYTES_MAX {
                    return Err("a block is larger than a block may be");
                }
                self.have = 0;
                self.go(Step::Body { last }, if kind == 1 { 1 } else { size });
            }
            Step::Body { last: false } => self.go(Step::Block, 3),
            Step::Body { last: true } => {
                self.go(Step::Checksum, if self.checksum { 4 } else { 0 });
            }
            Step::Checksum | Step::Done => self.go(Step::Done, 0),
        }
        Ok(())
    }

    fn go(&mut self, step: Step, want: u32) {
        self.step = step;
        self.want = want;
    }
}

/// Bytes of the header after its descriptor: window, dictionary id and content size.
fn header_rest(descriptor: u8) -> u32 {
    let single = descriptor & 0x20 != 0;
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let content = match descriptor >> 6 {
        0 => u32::from(single),
        1 => 2,
        2 => 4,
        _ => 8,
    };
    u32::from(!single) + dictionary + content
}

/// Window that a whole header asks for. `head` starts with the magic.
fn window_of(head: &[u8; 18]) -> u64 {
    let descriptor = head[4];
    let single = descriptor & 0x20 != 0;
    if !single {
        let base = 1_u64 << (10 + (head[5] >> 3));
        return base + base / 8 * u64::from(head[5] & 7);
    }
    let at = 5 + [0, 1, 2, 4][usize::from(descriptor & 3)];
    let mut raw = [0; 8];
    raw.copy_from_slice(&head[at..at + 8]);
    let value = u64::from_le_bytes(raw);
    match descriptor >> 6 {
        0 => value & 0xFF,
        1 => (value & 0xFFFF) + 256,
        2 => value & 0xFFFF_FFFF,
        _ => value,
    }
}

/// Looks for a whole frame that starts inside another one, which a cut frame may have swallowed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    /// Bytes of the outer frame's own magic still to step over.
    skip: usize,
    /// Bytes of a magic seen so far.
    matched: usize,
    scan: Option<FrameScan>,
    found: bool,
}

impl Probe {
    pub(super) fn new() -> Self {
        Self { skip: MAGIC.len(), matched: 0, scan: None, found: false }
    }

    /// Whether a whole frame was met.
    pub(super) fn found(&self) -> bool {
        self.found
    }

    /// Takes the next bytes of the outer frame.
    pub(super) fn feed(&mut self, mut bytes: &[u8]) {
        let skipped = self.skip.min(bytes.len());
        self.skip -= skipped;
        bytes = bytes.get(skipped..).unwrap_or_default();
        while !bytes.is_empty() && !self.found {
            let used = match &mut self.scan {
                Some(scan) => match scan.feed(bytes) {
                    Ok(used) => {
                        self.found = scan.done();
                        used
                    }
                    Err((used, _)) => {
                        self.scan = None;
                        used
                    }
                },
                None => self.seek(bytes),
            };
            bytes = bytes.get(used..).unwrap_or_default();
        }
    }

    /// Looks for the magic; its bytes differ from each other, so a miss starts over.
    fn seek(&mut self, bytes: &[u8]) -> usize {
        if self.matched == 0 {
            let Some(at) = memchr(MAGIC[0], bytes) else { return bytes.len() };
            self.matched = 1;
            return at + 1;
        }
        if bytes.first() != MAGIC.get(self.matched) {
            self.matched = 0;
            return 0;
        }
        self.matched += 1;
        if self.matched == MAGIC.len() {
            self.matched = 0;
            let mut scan = FrameScan::new();
            // The magic is a part of the frame that the scan follows.
            if scan.feed(&MAGIC).is_ok() {
                self.scan = Some(scan);
            }
        }
        1
    }
}
