//! CRC-32 (IEEE, reflected, as in zlib), eight bytes a step.
//!
//! 1. Shares nothing with the engine: the tables are computed here at compile time from the polynomial.
//! 2. `Crc` may be fed in pieces; the result equals the one of the pieces joined.

const POLY: u32 = 0xEDB8_8320;

const fn tables() -> [[u32; 256]; 8] {
    let mut t = [[0u32; 256]; 8];
    let mut i = 0;
    while i < 256 {
        let mut c = i as u32;
        let mut bit = 0;
        while bit < 8 {
            c = if c & 1 == 1 { (c >> 1) ^ POLY } else { c >> 1 };
            bit += 1;
        }
        t[0][i] = c;
        i += 1;
    }
    let mut k = 1;
    while k < 8 {
        let mut i = 0;
        while i < 256 {
            let c = t[k - 1][i];
            t[k][i] = (c >> 8) ^ t[0][(c & 0xFF) as usize];
            i += 1;
        }
        k += 1;
    }
    t
}

static TABLES: [[u32; 256]; 8] = tables();

/// A running CRC-32.
#[derive(Clone, Copy)]
pub(super) struct Crc(u32);

impl Crc {
    pub(super) fn new() -> Self {
        Self(!0)
    }

    pub(super) fn add(mut self, bytes: &[u8]) -> Self {
        let t = &TABLES;
        let mut c = self.0;
        let mut chunks = bytes.chunks_exact(8);
        for b in &mut chunks {
            let lo = c ^ u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
            c = t[7][(lo & 0xFF) as usize]
                ^ t[6][(lo >> 8 & 0xFF) as usize]
                ^ t[5][(lo >> 16 & 0xFF) as usize]
                ^ t[4][(lo >> 24) as usize]
                ^ t[3][b[4] as usize]
                ^ t[2][b[5] as usize]
                ^ t[1][b[6] as usize]
                ^ t[0][b[7] as usize];
        }
        for &b in chunks.remainder() {
            c = (c >> 8) ^ t[0][((c ^ u32::from(b)) & 0xFF) as usize];
        }
        self.0 = c;
        self
    }

    pub(super) fn end(self) -> u32 {
        !self.0
    }
}

/// CRC-32 of `bytes`.
#[must_use]
pub fn crc32(bytes: &[u8]) -> u32 {
    Crc::new().add(bytes).end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_values_and_pieces() {
        assert_eq!(crc32(b""), 0);
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
        assert_eq!(crc32(b"The quick brown fox jumps over the lazy dog"), 0x414F_A339);
        let data: Vec<u8> = (0..1000u32).map(|i| (i * 7 % 251) as u8).collect();
        for cut in [0, 1, 7, 8, 9, 500, 999, 1000] {
            assert_eq!(Crc::new().add(&data[..cut]).add(&data[cut..]).end(), crc32(&data));
        }
    }
}
