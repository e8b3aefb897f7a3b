//! Columns of a terminal: how many there are, and cutting foreign text to them.
//!
//! # Invariants
//! W1. What `cut` gives is escaped (text.rs T1, T2) and takes at most the columns asked for.
//! W2. The work of a cut goes by the columns, not by the length of the text.
//!
//! # Units
//! Columns: cells of a terminal; a wide character takes two, a combining mark none.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::text;

/// Characters without a width of their own that may follow one another: more would climb over other lines.
const MARKS_MAX: usize = 4;
/// Bytes of the longest character.
const CHAR_BYTES_MAX: usize = 4;

/// Columns of standard output: `$COLUMNS`, else what the terminal says; nothing when it is no terminal.
pub(crate) fn of_stdout() -> Option<usize> {
    let set = std::env::var("COLUMNS").ok().and_then(|c| c.parse::<u16>().ok());
    let asked = || {
        let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
        Some(size.ws_col)
    };
    set.or_else(asked).filter(|c| *c > 0).map(usize::from)
}

/// Columns that escaped text takes.
pub(crate) fn columns(text: &str) -> usize {
    text.width()
}

/// Foreign bytes as one line of at most `columns`, with an ellipsis where something was left out.
pub(crate) fn cut(bytes: &[u8], columns: usize) -> String {
    // Enough for the columns: whatever takes none is left out by and by.
    let room = columns.saturating_add(1).saturating_mul(CHAR_BYTES_MAX * (MARKS_MAX + 1));
    let (head, more) = match bytes.get(..room) {
        Some(head) if room < bytes.len() => (head, true),
        _ => (bytes, false),
    };
    shorten(&text::line(head), columns, more)
}

/// Escaped text in at most `columns`; `more` says that text was left out behind it.
pub(crate) fn shorten(escaped: &str, columns: usize, more: bool) -> String {
    if !more && escaped.len() <= columns {
        return escaped.to_owned();
    }
    let (mut out, mut used, mut marks) = (String::new(), 0, 0);
    // The end of what still leaves room for the ellipsis.
    let mut fits = 0;
    for c in escaped.chars() {
        let width = c.width().unwrap_or(1);
        marks = if width == 0 { marks + 1 } else { 0 };
        if marks > MARKS_MAX {
            continue;
        }
        if used + width > columns {
            out.truncate(fits);
            out.push('\u{2026}');
            return out;
        }
        used += width;
        out.push(c);
        if used < columns {
            fits = out.len();
        }
    }
    if more {
        out.truncate(fits);
        out.push('\u{2026}');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w1_cuts_go_by_columns() {
        assert_eq!(cut(b"abcdef", 6), "abcdef");
        assert_eq!(cut(b"abcdefg", 6), "abcde\u{2026}");
        let wide = "\u{4f60}\u{597d}\u{4f60}\u{597d}";
        assert_eq!(cut(wide.as_bytes(), 8), wide);
        assert_eq!(cut(wide.as_bytes(), 7), "\u{4f60}\u{597d}\u{4f60}\u{2026}");
        assert_eq!(cut(wide.as_bytes(), 6), "\u{4f60}\u{597d}\u{2026}");
        assert_eq!(cut(b"\x1b\x1b", 12), "\\u{1b}\\u{1b}");
        assert_eq!(columns(&cut(b"\x1b\x1b\x1b", 12)), 12);
        assert_eq!(cut("e\u{301}".repeat(3).as_bytes(), 3), "e\u{301}".repeat(3));
    }

    #[test]
    fn w2_marks_and_length_are_bounded() {
        let climbing = format!("x{}y", "\u{301}".repeat(100));
        assert_eq!(cut(climbing.as_bytes(), 10), format!("x{}y", "\u{301}".repeat(MARKS_MAX)));
        let long = vec![b'a'; 1 << 20];
        assert_eq!(columns(&cut(&long, 40)), 40);
        let flood = "\u{301}".repeat(1 << 20);
        assert!(cut(flood.as_bytes(), 40).len() < 1_000);
    }
}
