//! Aligned columns for a terminal.
//!
//! # Invariants
//! A1. Cells are escaped by whoever fills them; a cell wider than `CELL_COLUMNS_MAX` is cut and ends in an ellipsis.
//! A2. Cells align by the columns they take, not by their characters.

use crate::text::Style;
use crate::width::{columns, shorten};

const CELL_COLUMNS_MAX: usize = 48;

/// The last column keeps so much, however narrow the terminal is.
const LAST_COLUMNS_MIN: usize = 8;

/// How the cells of a column are coloured.
type Paint = fn(Style, &str) -> String;

/// Rows under a header; a column whose name begins with `>` stands to the right.
pub(crate) struct Table {
    names: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    paint: Option<(usize, Paint)>,
}

impl Table {
    pub(crate) fn new(names: &[&'static str]) -> Self {
        Self { names: names.to_vec(), rows: Vec::new(), paint: None }
    }

    /// Colours the cells of one column.
    pub(crate) fn with_paint(mut self, column: usize, paint: Paint) -> Self {
        self.paint = Some((column, paint));
        self
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells.into_iter().map(|c| shorten(&c, CELL_COLUMNS_MAX, false)).collect());
    }

    /// The lines of the table, header first, no wider than `room` columns where that can be had.
    pub(crate) fn lines(&self, style: Style, room: Option<usize>) -> Vec<String> {
        let bare = |name: &&'static str| name.trim_start_matches('>').to_owned();
        let header: Vec<String> = self.names.iter().map(bare).collect();
        let mut widths: Vec<usize> = header.iter().map(|c| columns(c)).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(columns(cell));
            }
        }
        if let (Some(room), Some((last, others))) = (room, widths.split_last_mut()) {
            let used: usize = others.iter().map(|w| w + 2).sum();
            *last = (*last).min(room.saturating_sub(used).max(LAST_COLUMNS_MIN));
        }
        let mut lines = vec![style.head(&self.line(&header, &widths, None))];
        lines.extend(self.rows.iter().map(|row| self.line(row, &widths, Some(style))));
        lines
    }

    fn line(&self, cells: &[String], widths: &[usize], style: Option<Style>) -> String {
        let mut line = String::new();
        for (i, ((cell, width), name)) in cells.iter().zip(widths).zip(&self.names).enumerate() {
            let cell = shorten(cell, *width, false);
            let room = " ".repeat(width.saturating_sub(columns(&cell)));
            let cell = match (self.paint, style) {
                (Some((column, paint)), Some(style)) if column == i => paint(style, &cell),
                _ => cell,
            };
            let (before, after) = if name.starts_with('>') { (&*room, "") } else { ("", &*room) };
            line.push_str(&[before, &cell, after, "  "].concat());
        }
        line.trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::ColorChoice;

    #[test]
    fn columns_align() {
        let mut t = Table::new(&["NAME", ">N"]);
        t.row(vec!["a".into(), "1".into()]);
        t.row(vec!["x".repeat(60), "1 000".into()]);
        let lines = t.lines(Style::for_stdout(ColorChoice::Never), None);
        assert_eq!(columns(&lines[1]), columns(&lines[2]));
        assert!(lines[0].starts_with("NAME ") && lines[2].contains('\u{2026}'));
        t.row(vec!["\u{4f60}".repeat(30), "2".into()]);
        let lines = t.lines(Style::for_stdout(ColorChoice::Never), None);
        assert_eq!(columns(&lines[1]), columns(&lines[3]));
    }

    #[test]
    fn the_last_column_gives_way() {
        let mut t = Table::new(&["ID", "CWD"]).with_paint(0, |style, cell| style.head(cell));
        t.row(vec!["abc".into(), "/a/long/path/to/work".into()]);
        let lines = t.lines(Style::for_stdout(ColorChoice::Never), Some(15));
        assert_eq!(lines, ["ID   CWD", "abc  /a/long/p\u{2026}"]);
        let lines = t.lines(Style::for_stdout(ColorChoice::Always), Some(1));
        assert_eq!(lines[1], "\u{1b}[1mabc\u{1b}[0m  /a/long\u{2026}");
    }
}
