//! Contents of a simulated file: sparse pages that clones share until one of them writes.
//!
//! # Invariants
//! P1. A page that is absent reads as zero; pages past the end of the list are absent.
//! P2. Bytes of a page past the length of the file are zero.
//! P3. A clone costs one counter, whatever the size.
//!
//! # Units
//! `offset`, `len`: bytes.

use std::fmt;
use std::sync::Arc;

const PAGE: usize = 4096;
const PAGE_U64: u64 = 4096;
static ZERO: [u8; PAGE] = [0; PAGE];

type Page = Arc<[u8; PAGE]>;

/// Bytes of a file at one moment. Cloning is cheap.
///
/// ```
/// let machine = everlog_testkit::sim::SimMachine::new(1);
/// machine.write_file("/a", b"abc");
/// let pages = machine.files().remove("/a").unwrap();
/// assert_eq!((pages.size(), pages.to_vec()), (3, b"abc".to_vec()));
/// ```
#[derive(Clone, Default)]
pub struct Pages {
    pages: Arc<Vec<Option<Page>>>,
    size: u64,
}

impl Pages {
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        let mut pages = Self::default();
        pages.write(0, bytes);
        pages
    }

    /// Size of the file in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Copies bytes from `offset` on into `buf`: fewer than its length only at the end of the file.
    #[must_use]
    pub fn read(&self, offset: u64, buf: &mut [u8]) -> usize {
        let len = self.size.saturating_sub(offset).min(buf.len() as u64) as usize;
        let (mut done, mut at) = (0, offset);
        while done < len {
            let start = (at % PAGE_U64) as usize;
            let part = (PAGE - start).min(len - done);
            let page = self.page((at / PAGE_U64) as usize);
            buf[done..done + part].copy_from_slice(&page[start..start + part]);
            done += part;
            at += part as u64;
        }
        len
    }

    /// All bytes of the file.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.size as usize];
        let len = self.read(0, &mut bytes);
        bytes.truncate(len);
        bytes
    }

    fn page(&self, index: usize) -> &[u8; PAGE] {
        self.pages.get(index).and_then(Option::as_deref).unwrap_or(&ZERO)
    }

    /// Writes `bytes`, growing the file where they end past it.
    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let end = offset + bytes.len() as u64;
        self.size = self.size.max(end);
        let pages = Arc::make_mut(&mut self.pages);
        let needed = end.div_ceil(PAGE_U64) as usize;
        if pages.len() < needed {
            pages.resize(needed, None);
        }
        let (mut done, mut at) = (0, offset);
        while done < bytes.len() {
            let start = (at % PAGE_U64) as usize;
            let part = (PAGE - start).min(bytes.len() - done);
            let slot = &mut pages[(at / PAGE_U64) as usize];
            let page = Arc::make_mut(slot.get_or_insert_with(|| Arc::new(ZERO)));
            page[start..start + part].copy_from_slice(&bytes[done..done + part]);
            done += part;
            at += part as u64;
        }
    }

    /// Makes `[offset, offset + len)` zero inside the file; the size stays.
    pub(crate) fn zero(&mut self, offset: u64, len: u64) {
        let end = offset.saturating_add(len).min(self.pages.len() as u64 * PAGE_U64);
        if offset >= end {
            return;
        }
        let pages = Arc::make_mut(&mut self.pages);
        let mut at = offset;
        while at < end {
            let start = (at % PAGE_U64) as usize;
            let part = (PAGE_U64 - start as u64).min(end - at) as usize;
            let slot = &mut pages[(at / PAGE_U64) as usize];
            if part == PAGE {
                *slot = None;
            } else if let Some(page) = slot {
                Arc::make_mut(page)[start..start + part].fill(0);
            }
            at += part as u64;
        }
    }

    /// Cuts the file, or makes it longer with zeros.
    pub(crate) fn set_size(&mut self, size: u64) {
        if size < self.size {
            self.zero(size, self.size - size);
            let keep = size.div_ceil(PAGE_U64) as usize;
            if self.pages.len() > keep {
                Arc::make_mut(&mut self.pages).truncate(keep);
            }
        }
        self.size = size;
    }

    /// Takes `[start, end)` from `other`, reading past its end as zero; the size stays.
    pub(crate) fn copy_from(&mut self, other: &Self, start: u64, end: u64) {
        let end = end.min(self.size);
        let mut at = start;
        let mut buf = [0; PAGE];
        while at < end {
            let part = (PAGE_U64 - at % PAGE_U64).min(end - at) as usize;
            buf[..part].fill(0);
            let _ = other.read(at, &mut buf[..part]);
            self.write(at, &buf[..part]);
            at += part as u64;
        }
    }

    /// Indexes of the pages that hold something.
    pub(crate) fn present(&self) -> impl Iterator<Item = u64> + '_ {
        self.pages.iter().enumerate().filter_map(|(i, page)| page.as_ref().map(|_| i as u64))
    }

    /// Adds the size and the bytes to a checksum; absent and zero pages count the same.
    pub(crate) fn digest(&self, mut sum: u64) -> u64 {
        sum = mix(sum, self.size);
        for (i, page) in self.pages.iter().enumerate() {
            let Some(page) = page.as_deref().filter(|page| **page != ZERO) else { continue };
            sum = mix(sum, i as u64);
            for word in page.chunks_exact(8) {
                let mut bytes = [0; 8];
                bytes.copy_from_slice(word);
                sum = mix(sum, u64::from_le_bytes(bytes));
            }
        }
        sum
    }
}

/// One step of the checksum of an image.
pub(crate) fn mix(sum: u64, word: u64) -> u64 {
    let mixed = (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 29)
}

impl PartialEq for Pages {
    fn eq(&self, other: &Self) -> bool {
        let count = self.pages.len().max(other.pages.len());
        self.size == other.size
            && (Arc::ptr_eq(&self.pages, &other.pages)
                || (0..count).all(|i| self.page(i) == other.page(i)))
    }
}

impl Eq for Pages {}

impl fmt::Debug for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pages({} bytes, {} pages)", self.size, self.present().count())
    }
}
