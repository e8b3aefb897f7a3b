//! Aligned columns for a terminal.
//!
//! # Invariants
//! A1. Cells are escaped by whoever fills them; a cell longer than `CELL_CHARS_MAX` is cut and ends in an ellipsis.

use crate::text::Style;

const CELL_CHARS_MAX: usize = 48;

/// Rows under a header; a column whose name begins with `>` stands to the right.
pub(crate) struct Table {
    names: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(names: &[&'static str]) -> Self {
        Self { names: names.to_vec(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells.into_iter().map(|c| cut(&c)).collect());
    }

    /// The lines of the table, header first.
    pub(crate) fn lines(&self, style: Style) -> Vec<String> {
        let bare = |name: &&'static str| name.trim_start_matches('>').to_owned();
        let header: Vec<String> = self.names.iter().map(bare).collect();
        let mut widths: Vec<usize> = header.iter().map(|c| c.chars().count()).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let mut lines = vec![style.head(&self.line(&header, &widths))];
        lines.extend(self.rows.iter().map(|row| self.line(row, &widths)));
        lines
    }

    fn line(&self, cells: &[String], widths: &[usize]) -> String {
        let mut line = String::new();
        for ((cell, width), name) in cells.iter().zip(widths).zip(&self.names) {
            if name.starts_with('>') {
                line.push_str(&format!("{cell:>width$}  "));
            } else {
                line.push_str(&format!("{cell:<width$}  "));
            }
        }
        line.trim_end().to_owned()
    }
}

fn cut(cell: &str) -> String {
    if cell.chars().count() <= CELL_CHARS_MAX {
        return cell.to_owned();
    }
    let mut short: String = cell.chars().take(CELL_CHARS_MAX - 1).collect();
    short.push('\u{2026}');
    short
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
        let lines = t.lines(Style::for_stdout(ColorChoice::Never));
        assert_eq!(lines[1].chars().count(), lines[2].chars().count());
        assert!(lines[0].starts_with("NAME ") && lines[2].contains('\u{2026}'));
    }
}
