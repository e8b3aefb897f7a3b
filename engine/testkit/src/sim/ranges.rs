//! A set of numbers kept as sorted ranges: allocated blocks, and bytes that a failed sync lost.
//!
//! # Invariants
//! N1. Ranges are half open, not empty, sorted, and neither overlap nor touch.

/// A set of `u64`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many numbers are in the set.
    pub(crate) fn count(&self) -> u64 {
        self.0.iter().map(|(start, end)| end - start).sum()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter().copied()
    }

    /// How many numbers of `[start, end)` are in the set.
    pub(crate) fn count_in(&self, start: u64, end: u64) -> u64 {
        self.0.iter().map(|&(s, e)| e.min(end).saturating_sub(s.max(start))).sum()
    }

    pub(crate) fn contains(&self, n: u64) -> bool {
        self.count_in(n, n + 1) == 1
    }

    pub(crate) fn add(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let first = self.0.partition_point(|&(_, e)| e < start);
        let last = self.0.partition_point(|&(s, _)| s <= end);
        let merged =
            self.0[first..last].iter().fold((start, end), |(a, b), &(s, e)| (a.min(s), b.max(e)));
        self.0.splice(first..last, [merged]);
    }

    pub(crate) fn remove(&mut self, start: u64, end: u64) {
        if start >= end || self.0.is_empty() {
            return;
        }
        let first = self.0.partition_point(|&(_, e)| e <= start);
        let last = self.0.partition_point(|&(s, _)| s < end);
        if first >= last {
            return;
        }
        let before = (self.0[first].0, start);
        let after = (end, self.0[last - 1].1);
        self.0.splice(first..last, [before, after].into_iter().filter(|(s, e)| s < e));
    }
}
