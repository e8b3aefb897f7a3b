//! Benchmarks of Everlog: ours and the bare operation, alternated in one run, medians of rounds.
//!
//! # Units
//! Times are nanoseconds of wall clock unless a name says otherwise; rates are per second.

use std::time::Instant;

/// Median of some measurements; 0 for none.
#[must_use]
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// Value at a fraction of the sorted measurements.
#[must_use]
pub fn quantile(values: &mut [f64], fraction: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = (values.len() as f64 * fraction) as usize;
    values.get(at.min(values.len().saturating_sub(1))).copied().unwrap_or(0.0)
}

/// Runs `ours` and `bare` in turn, `rounds` times, and gives the medians of what they return (nanoseconds a unit).
pub fn alternate(
    rounds: usize,
    mut ours: impl FnMut() -> f64,
    mut bare: impl FnMut() -> f64,
) -> (f64, f64) {
    let mut a = Vec::new();
    let mut b = Vec::new();
    for _ in 0..rounds {
        a.push(ours());
        b.push(bare());
    }
    (median(a), median(b))
}

/// Nanoseconds that `work` takes, divided by `units`.
pub fn timed(units: u64, work: impl FnOnce()) -> f64 {
    let begun = Instant::now();
    work();
    begun.elapsed().as_nanos() as f64 / units.max(1) as f64
}

/// One-minute load average of the machine, 0 where it is not known.
#[must_use]
pub fn load() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|l| l.parse().ok()).unwrap_or(0.0)
}

/// One row of the table.
#[derive(Debug)]
pub struct Row {
    /// What was done.
    pub work: &'static str,
    /// Ours, with its unit.
    pub ours: String,
    /// The bare operation, with its unit.
    pub bare: String,
    /// Ratio as the goal is stated.
    pub ratio: String,
    /// The goal.
    pub goal: &'static str,
}

/// Prints rows as Markdown.
pub fn print_table(rows: &[Row]) {
    println!("| work | ours | bare, same run | ratio | goal |\n|---|---|---|---|---|");
    for r in rows {
        println!("| {} | {} | {} | {} | {} |", r.work, r.ours, r.bare, r.ratio, r.goal);
    }
}
