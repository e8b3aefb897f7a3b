//! Rows of figures: as Markdown for people, as JSON lines for programs.

use crate::LOAD_MAX;
use crate::measure::{Paired, Timing, load};

/// What a row must reach.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Goal {
    /// Our share of the bare speed, at least.
    Share(f64),
    /// Our time in times of the bare one, at most.
    Times(f64),
    /// Our value, at most.
    AtMost(f64),
    /// Our value, at least.
    AtLeast(f64),
    /// Our value in times of the bare one, at most.
    RatioAtMost(f64),
    /// Shown for comparison.
    None,
}

/// One row of the table. Values of both sides are in `unit`.
#[derive(Clone, Debug)]
pub struct Row {
    /// Short name, for programs and `--only`.
    pub id: &'static str,
    /// What was done, and what the bare side is.
    pub work: String,
    /// Unit of both values.
    pub unit: &'static str,
    /// Ours.
    pub ours: f64,
    /// The bare operation.
    pub bare: Option<f64>,
    /// Our share of the bare speed, of pairs.
    pub share: Option<Timing>,
    /// What must be reached.
    pub goal: Goal,
    /// More figures of the row.
    pub note: String,
    /// Load average when it began.
    pub load: f64,
}

impl Row {
    /// A row with our value only.
    #[must_use]
    pub fn value(id: &'static str, work: &str, ours: f64, unit: &'static str, goal: Goal) -> Self {
        let (bare, share, note) = (None, None, String::new());
        Self { id, work: work.to_owned(), unit, ours, bare, share, goal, note, load: load() }
    }

    /// A row of times per unit, in nanoseconds.
    #[must_use]
    pub fn times(id: &'static str, work: &str, p: Paired, goal: Goal) -> Self {
        let mut row = Self::value(id, work, p.ours.wall, "ns", goal);
        row.bare = Some(p.bare.wall);
        row.share = Some(p.share);
        row.note = format!("CPU {:.0} / {:.0} ns", p.ours.cpu, p.bare.cpu);
        row
    }

    /// A row of speeds: the times are nanoseconds a byte.
    #[must_use]
    pub fn speeds(id: &'static str, work: &str, p: Paired, goal: Goal) -> Self {
        let mut row = Self::value(id, work, 1e3 / p.ours.wall, "MB/s", goal);
        row.bare = Some(1e3 / p.bare.wall);
        row.share = Some(p.share);
        row.note = format!("by CPU time {:.0} / {:.0} MB/s", 1e3 / p.ours.cpu, 1e3 / p.bare.cpu);
        row
    }

    /// The same row with a bare value beside ours.
    #[must_use]
    pub fn beside(mut self, bare: f64) -> Self {
        self.bare = Some(bare);
        self
    }

    /// The same row with more figures.
    #[must_use]
    pub fn noting(mut self, note: String) -> Self {
        self.note = note;
        self
    }

    /// What is compared with the goal.
    fn reached(&self) -> Option<f64> {
        match self.goal {
            Goal::Share(_) => self.share.map(|s| s.wall),
            Goal::Times(_) => self.share.map(|s| 1.0 / s.wall),
            Goal::AtMost(_) | Goal::AtLeast(_) => Some(self.ours),
            Goal::RatioAtMost(_) => self.bare.map(|b| self.ours / b),
            Goal::None => None,
        }
    }

    /// How far the goal is reached: 1 or more is met. None without a goal.
    #[must_use]
    pub fn score(&self) -> Option<f64> {
        let got = self.reached()?;
        match self.goal {
            Goal::Share(g) | Goal::AtLeast(g) => Some(got / g),
            Goal::Times(g) | Goal::AtMost(g) | Goal::RatioAtMost(g) => Some(g / got),
            Goal::None => None,
        }
    }

    fn goal_text(&self) -> String {
        match self.goal {
            Goal::Share(g) => format!(">= {g} of bare speed"),
            Goal::Times(g) => format!("<= {g} x bare"),
            Goal::AtMost(g) => format!("<= {} {}", figure(g), self.unit),
            Goal::AtLeast(g) => format!(">= {} {}", figure(g), self.unit),
            Goal::RatioAtMost(g) => format!("<= {g} of bare"),
            Goal::None => "-".to_owned(),
        }
    }

    fn ratio_text(&self) -> String {
        match (self.share, self.bare) {
            (Some(s), _) => format!("{:.2} (CPU {:.2})", s.wall, s.cpu),
            (None, Some(b)) if b > 0.0 => format!("{:.2}", self.ours / b),
            _ => "-".to_owned(),
        }
    }

    /// Whether its figures may be claimed.
    #[must_use]
    pub fn is_claimed(&self) -> bool {
        self.load <= LOAD_MAX
    }

    fn verdict(&self) -> String {
        let score = self.score().map_or("-".to_owned(), |s| format!("{s:.2}"));
        if self.is_claimed() { score } else { format!("{score}, not claimed") }
    }

    /// The row as Markdown.
    #[must_use]
    pub fn markdown(&self) -> String {
        let bare = self.bare.map_or("-".to_owned(), |b| format!("{} {}", figure(b), self.unit));
        format!(
            "| {} | {} {} | {bare} | {} | {} | {} | {} | {:.1} |",
            self.work,
            figure(self.ours),
            self.unit,
            self.ratio_text(),
            self.goal_text(),
            self.verdict(),
            self.note,
            self.load
        )
    }

    /// The row as one line of JSON.
    #[must_use]
    pub fn json(&self) -> String {
        serde_json::json!({
            "id": self.id, "work": self.work, "unit": self.unit, "ours": self.ours, "bare": self.bare,
            "share": self.share.map(|s| s.wall), "share_cpu": self.share.map(|s| s.cpu),
            "goal": self.goal_text(), "score": self.score(), "claimed": self.is_claimed(),
            "load": self.load, "note": self.note,
        })
        .to_string()
    }
}

/// Head of the Markdown table.
pub const HEAD: &str = "| work (bare operation) | ours | bare | share of bare speed | goal | of goal | more | load |\n|---|---|---|---|---|---|---|---|";

/// A number with three or four digits that count.
#[must_use]
pub fn figure(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_say_how_far_a_goal_is_reached() {
        let two = Timing { wall: 0.35, cpu: 0.5 };
        let mut row = Row::value("x", "x", 10.0, "ns", Goal::Share(0.7));
        row.share = Some(two);
        assert!(row.score().is_some_and(|s| (s - 0.5).abs() < 1e-9));
        row.goal = Goal::AtMost(20.0);
        assert_eq!(row.score(), Some(2.0));
        row.goal = Goal::RatioAtMost(0.5);
        row.bare = Some(10.0);
        assert_eq!(row.score(), Some(0.5));
        row.load = LOAD_MAX + 0.1;
        assert!(row.verdict().contains("not claimed"));
    }
}
