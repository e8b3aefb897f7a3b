//! The input of an import: plain text or Zstandard frames, told apart by content.
//!
//! # Invariants
//! N1. Four bytes decide; a name plays no part.

use std::io::{Chain, Cursor, Read};

pub(super) use super::mend::Gap;

use super::lines::Source;
use super::mend::Mender;
use super::zstd::{TornFrame, ZstdSource, is_zstd, read_some};
use crate::Result;

/// A reader whose first bytes were looked at.
type Peeked<R> = Chain<Cursor<Vec<u8>>, R>;

/// Where the text comes from.
pub(super) enum Input<R> {
    /// It is the input.
    Plain(Peeked<R>),
    /// It is compressed.
    Zstd(Box<ZstdSource<Peeked<R>>>),
    /// It is compressed, and damaged frames are stepped over.
    Mended(Box<Mender<Peeked<R>>>),
}

impl<R: Read> Input<R> {
    /// Looks at the first bytes of a reader. `mend`: whether damaged frames are gaps and no error.
    ///
    /// # Errors
    /// `Io` when they cannot be read.
    pub(super) fn open(
        mut reader: R,
        window_log_max: u32,
        text_bytes_max: u64,
        mend: bool,
    ) -> Result<Self> {
        let mut start = vec![0; 4];
        let mut have = 0;
        while have < start.len() {
            let got = read_some(&mut reader, start.get_mut(have..).unwrap_or_default())?;
            if got == 0 {
                break;
            }
            have += got;
        }
        start.truncate(have);
        let compressed = start.first_chunk::<4>().is_some_and(|magic| is_zstd(*magic));
        let reader = Cursor::new(start).chain(reader);
        if !compressed {
            return Ok(Self::Plain(reader));
        }
        if mend {
            let mender = Mender::new(reader, window_log_max, text_bytes_max)?;
            return Ok(Self::Mended(Box::new(mender)));
        }
        let source = ZstdSource::new(reader, window_log_max, text_bytes_max)?;
        Ok(Self::Zstd(Box::new(source)))
    }

    /// Whether the input is compressed.
    pub(super) fn is_compressed(&self) -> bool {
        !matches!(self, Self::Plain(_))
    }

    /// Reads to the end of the frame in which the reader stands.
    ///
    /// # Errors
    /// `Corrupt` when the frame is damaged.
    pub(super) fn settle(&mut self) -> Result<()> {
        match self {
            Self::Plain(_) | Self::Mended(_) => Ok(()),
            Self::Zstd(source) => source.settle(),
        }
    }

    /// What was left over of a compressed input.
    pub(super) fn torn(&self) -> Option<TornFrame> {
        match self {
            Self::Plain(_) => None,
            Self::Zstd(source) => source.torn(),
            Self::Mended(source) => source.torn(),
        }
    }

    /// The damaged frames at which the text ended for now.
    pub(super) fn take_gap(&mut self) -> Option<Gap> {
        match self {
            Self::Plain(_) | Self::Zstd(_) => None,
            Self::Mended(source) => source.take_gap(),
        }
    }
}

impl<R: Read> Source for Input<R> {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        match self {
            Self::Plain(reader) => read_some(reader, buf),
            Self::Zstd(source) => source.read(buf),
            Self::Mended(source) => source.read(buf),
        }
    }
}
