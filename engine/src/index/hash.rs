//! Hashing of session numbers: one multiplication, with a seed of the process.
//!
//! # Invariants
//! Hs1. The seed is random, so that a store from a stranger cannot choose numbers that collide in this process.
//! Hs2. Every bit of the number reaches both halves of the product that are folded into the hash.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::OnceLock;

/// Odd, with bits spread evenly: the fraction of the golden ratio.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// Builds hashers for maps by session number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByNumber(u64);

impl Default for ByNumber {
    fn default() -> Self {
        static SEED: OnceLock<u64> = OnceLock::new();
        Self(*SEED.get_or_init(|| RandomState::new().build_hasher().finish() | 1))
    }
}

impl BuildHasher for ByNumber {
    type Hasher = Number;

    fn build_hasher(&self) -> Number {
        Number { seed: self.0, hash: self.0 }
    }
}

/// Hash of the numbers written so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Number {
    seed: u64,
    hash: u64,
}

impl Number {
    fn fold(a: u64, b: u64) -> u64 {
        let product = u128::from(a) * u128::from(b);
        (product >> 64) as u64 ^ product as u64
    }
}

impl Hasher for Number {
    fn finish(&self) -> u64 {
        self.hash
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            for (to, from) in word.iter_mut().zip(chunk) {
                *to = *from;
            }
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, n: u64) {
        self.hash = Self::fold(Self::fold(n ^ self.hash, SPREAD) ^ self.seed, self.seed);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::types::SessionNo;
    use std::collections::{HashMap, HashSet};

    #[test]
    fn hs2_numbers_in_a_row_and_in_the_high_bits_spread() {
        let build = ByNumber::default();
        for step in [1, 1 << 16, 1 << 48] {
            let hashes: Vec<u64> = (0..4_096_u64).map(|n| build.hash_one(n * step)).collect();
            let whole: HashSet<u64> = hashes.iter().copied().collect();
            assert_eq!(whole.len(), hashes.len());
            // What a map looks at: the low bits choose the place, the top seven tell entries apart.
            let low: HashSet<u64> = hashes.iter().map(|h| h & 4_095).collect();
            let top: HashSet<u64> = hashes.iter().map(|h| h >> 57).collect();
            assert!(low.len() > 2_200 && top.len() == 128, "{step}: {} {}", low.len(), top.len());
        }
    }

    #[test]
    fn maps_by_number_find_what_was_put_in() {
        let mut map: HashMap<SessionNo, u64, ByNumber> = HashMap::default();
        for n in 0..10_000 {
            map.insert(SessionNo::join((n % 7) as u16, n), n);
        }
        for n in 0..10_000 {
            assert_eq!(map.get(&SessionNo::join((n % 7) as u16, n)), Some(&n));
        }
        assert_eq!(map.get(&SessionNo::join(8, 1)), None);
    }
}
