//! The random numbers of all generators and harnesses: SplitMix64, from one printed seed.
//!
//! # Invariants
//! N1. A seed gives the same numbers on every machine and in every release: samples and found cases depend on it.
//! N2. [`Rng::fork`] gives a stream that does not depend on how much of the parent was used before.
//!
//! # Units
//! `seed`: any u64. Ranges are inclusive at both ends where they say `first` and `last`.

/// A stream of pseudo-random numbers. Not for secrets.
///
/// ```
/// let mut a = everlog_testkit::rng::Rng::new(7);
/// let mut b = everlog_testkit::rng::Rng::new(7);
/// assert_eq!(a.next_u64(), b.next_u64());
/// ```
#[derive(Clone, Debug)]
pub struct Rng {
    seed: u64,
    state: u64,
}

impl Rng {
    /// A stream that begins at `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { seed, state: seed }
    }

    /// Another stream, named by `label`: the same for the same seed and label (N2).
    #[must_use]
    pub fn fork(&self, label: u64) -> Self {
        Self::new(mix(self.seed ^ mix(label.wrapping_add(0x9E37_79B9_7F4A_7C15))))
    }

    /// The seed that the stream began at, to be printed when a test fails.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.state)
    }

    /// A number below `count`; 0 when `count` is 0.
    pub fn below(&mut self, count: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(count)) >> 64) as u64
    }

    /// A place in a list of `len` items; 0 when the list is empty.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// A number from `first` to `last`, both inclusive; `first` when the range is empty.
    pub fn range(&mut self, first: u64, last: u64) -> u64 {
        first + self.below(last.saturating_sub(first).saturating_add(1))
    }

    /// True in `part` of `whole` cases.
    pub fn chance(&mut self, part: u64, whole: u64) -> bool {
        self.below(whole) < part
    }

    /// Fills a buffer.
    pub fn fill(&mut self, buffer: &mut [u8]) {
        for chunk in buffer.chunks_mut(8) {
            let bytes = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
    }

    /// Puts a list in random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.index(last + 1);
            items.swap(last, other);
        }
    }
}

/// The seed of a test: `SEED` of the environment (decimal or `0x` hex), else `default`.
///
/// # Errors
/// The text of `SEED`, when it is no number: a test that was to replay a seed must not run another one.
pub fn seed_from_env(default: u64) -> Result<u64, String> {
    match std::env::var("SEED") {
        Ok(text) => parse_seed(&text).ok_or(text),
        Err(_) => Ok(default),
    }
}

fn parse_seed(text: &str) -> Option<u64> {
    let text = text.trim();
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n1_numbers_are_those_of_splitmix64() {
        // The first outputs for seed 1234567, as published with the algorithm.
        let mut rng = Rng::new(1_234_567);
        let got: Vec<u64> = (0..3).map(|_| rng.next_u64()).collect();
        assert_eq!(
            got,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn n2_a_fork_does_not_depend_on_use() {
        let fresh = Rng::new(5);
        let mut used = Rng::new(5);
        used.next_u64();
        assert_eq!(fresh.fork(3).next_u64(), used.fork(3).next_u64());
        assert_ne!(fresh.fork(3).next_u64(), fresh.fork(4).next_u64());
    }

    #[test]
    fn ranges_reach_both_ends_and_nothing_else() {
        let mut rng = Rng::new(1);
        let mut seen = [false; 5];
        for _ in 0..1_000 {
            let n = rng.range(3, 7);
            assert!((3..=7).contains(&n));
            seen[(n - 3) as usize] = true;
        }
        assert_eq!(seen, [true; 5]);
        assert_eq!(rng.below(0), 0);
        assert_eq!(rng.range(9, 9), 9);
        assert_eq!(rng.range(9, 2), 9);
    }

    #[test]
    fn shuffling_keeps_every_item() {
        let mut items: Vec<u32> = (0..50).collect();
        Rng::new(2).shuffle(&mut items);
        assert_ne!(items, (0..50).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..50).collect::<Vec<_>>());
    }

    #[test]
    fn seeds_are_read_in_both_bases() {
        assert_eq!(parse_seed("0x10"), Some(16));
        assert_eq!(parse_seed(" 10 "), Some(10));
        assert_eq!(parse_seed("ten"), None);
    }
}
