//! The bare operations that ours are compared with.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::measure::{Timing, timed};

/// Bytes of one write or read of the bare operations.
pub const BLOCK_BYTES: usize = 256 << 10;

/// A new file with room for `bytes`, allocated and never written.
///
/// # Panics
/// When it cannot be made.
#[must_use]
pub fn file(path: &Path, bytes: u64) -> File {
    let file =
        OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path).unwrap();
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes.max(4_096)).unwrap();
    file
}

/// Checksum of each text, its copy into a block, and a write of each full block; a unit is one text.
///
/// # Panics
/// When a write fails.
pub fn append_batches<'a>(
    file: &File,
    stage: &mut Vec<u8>,
    n: u64,
    texts: impl Iterator<Item = &'a [u8]>,
) -> Timing {
    let mut sum = 0u32;
    let spent = timed(n, || {
        let mut at = 0u64;
        stage.clear();
        stage.reserve(BLOCK_BYTES);
        for text in texts {
            if stage.len() + text.len() > BLOCK_BYTES {
                file.write_all_at(stage, at).unwrap();
                at += stage.len() as u64;
                stage.clear();
            }
            sum ^= crc32fast::hash(text);
            stage.extend_from_slice(text);
        }
        file.write_all_at(stage, at).unwrap();
    });
    std::hint::black_box(sum);
    spent
}

/// Reads the first `bytes` of each file in blocks and sums them in parts of `part` bytes; a unit is one byte.
///
/// # Panics
/// When a read fails.
pub fn scan(files: &[(File, u64)], part: usize, buf: &mut [u8]) -> Timing {
    let mut sum = 0u32;
    let bytes = files.iter().map(|(_, n)| n).sum();
    let spent = timed(bytes, || {
        for (file, upto) in files {
            let mut at = 0;
            while at < *upto {
                let want = usize::try_from(*upto - at).unwrap().min(buf.len());
                file.read_exact_at(&mut buf[..want], at).unwrap();
                buf[..want].chunks(part).for_each(|c| sum ^= crc32fast::hash(c));
                at += want as u64;
            }
        }
    });
    std::hint::black_box(sum);
    spent
}
