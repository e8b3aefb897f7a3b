//! Clocks, medians and pairs.

use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};

/// What some work took, per unit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timing {
    /// By the clock.
    pub wall: f64,
    /// Spent by all threads of this process, in user and kernel mode.
    pub cpu: f64,
}

impl Timing {
    /// Both, one after the other.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { wall: self.wall + other.wall, cpu: self.cpu + other.cpu }
    }
}

/// Two sides of a comparison.
#[derive(Clone, Copy, Debug, Default)]
pub struct Paired {
    /// Medians of our side.
    pub ours: Timing,
    /// Medians of the bare side.
    pub bare: Timing,
    /// Median over the pairs of bare / ours: our share of the bare speed.
    pub share: Timing,
}

fn cpu_ns() -> f64 {
    let t = clock_gettime(ClockId::ProcessCPUTime);
    t.tv_sec as f64 * 1e9 + t.tv_nsec as f64
}

/// What `work` takes, divided by `units`.
pub fn timed(units: u64, work: impl FnOnce()) -> Timing {
    let (cpu, begun) = (cpu_ns(), Instant::now());
    work();
    let (wall, cpu) = (begun.elapsed().as_nanos() as f64, cpu_ns() - cpu);
    let n = units.max(1) as f64;
    Timing { wall: wall / n, cpu: cpu / n }
}

/// Runs both sides `rounds` times in turn; every other round begins with the other side.
pub fn alternate(
    rounds: usize,
    mut ours: impl FnMut() -> Timing,
    mut bare: impl FnMut() -> Timing,
) -> Paired {
    let mut pairs = Vec::with_capacity(rounds);
    for round in 0..rounds {
        if round % 2 == 0 {
            let o = ours();
            pairs.push((o, bare()));
        } else {
            let b = bare();
            pairs.push((ours(), b));
        }
    }
    let over = |f: &dyn Fn(&(Timing, Timing)) -> f64| median(pairs.iter().map(f).collect());
    Paired {
        ours: Timing { wall: over(&|p| p.0.wall), cpu: over(&|p| p.0.cpu) },
        bare: Timing { wall: over(&|p| p.1.wall), cpu: over(&|p| p.1.cpu) },
        share: Timing {
            wall: over(&|p| p.1.wall / p.0.wall.max(1e-9)),
            cpu: over(&|p| p.1.cpu / p.0.cpu.max(1e-9)),
        },
    }
}

/// Medians of one side, `rounds` times.
pub fn repeat(rounds: usize, mut work: impl FnMut() -> Timing) -> Timing {
    let got: Vec<Timing> = (0..rounds).map(|_| work()).collect();
    Timing {
        wall: median(got.iter().map(|t| t.wall).collect()),
        cpu: median(got.iter().map(|t| t.cpu).collect()),
    }
}

/// Median of some measurements; the mean of the middle two of an even number, 0 for none.
#[must_use]
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    let at = |i: usize| values.get(i).copied().unwrap_or(0.0);
    if n % 2 == 1 { at(n / 2) } else { (at(n / 2) + at((n / 2).saturating_sub(1))) / 2.0 }
}

/// Value at a fraction of the measurements, which are sorted by this.
#[must_use]
pub fn quantile(values: &mut [f64], fraction: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = (values.len() as f64 * fraction) as usize;
    values.get(at.min(values.len().saturating_sub(1))).copied().unwrap_or(0.0)
}

/// One-minute load average of the machine, 0 where it is not known.
#[must_use]
pub fn load() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|l| l.parse().ok()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_quantiles() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(Vec::new()), 0.0);
        let mut v: Vec<f64> = (0..100).map(f64::from).collect();
        assert_eq!((quantile(&mut v, 0.5), quantile(&mut v, 0.99)), (50.0, 99.0));
    }

    #[test]
    fn bm1_ratios_are_of_pairs() {
        // The machine slows down tenfold after each pair; ours takes twice the time of bare all along.
        let calls = std::cell::Cell::new(0);
        let pace = || {
            calls.set(calls.get() + 1);
            10_f64.powi((calls.get() - 1) / 2)
        };
        let both = |times: f64| Timing { wall: times, cpu: 3.0 * times };
        let got = alternate(4, || both(2.0 * pace()), || both(pace()));
        assert!((got.share.wall - 0.5).abs() < 1e-9 && (got.share.cpu - 0.5).abs() < 1e-9);
    }
}
