//! Text of the fleet: prose, listings and names, written straight as the inside of a JSON string.
//!
//! # Invariants
//! X1. What is written is escaped as ECMAScript's `JSON.stringify` does it, so an exporter that re-encodes it gives
//!     the same bytes: short escapes where they exist, lower-case hex for other controls, all else raw.
//! X2. Pieces may be joined: no piece ends inside an escape.
//!
//! # Units
//! `bytes_min`: bytes of the escaped form.

use crate::rng::Rng;

const SYLLABLES: [&str; 32] = [
    "ar", "be", "con", "da", "el", "fi", "gra", "ho", "in", "jo", "ka", "lem", "mi", "no", "or",
    "pa", "qui", "re", "sol", "ta", "um", "ve", "wi", "xe", "yo", "za", "chi", "dro", "fle",
    "stra", "tion", "ply",
];

/// Words and signs that need care: other scripts, a combining accent, a line separator, characters beyond 16 bits.
const FOREIGN: [&str; 12] = [
    "na\u{ef}ve",
    "\u{6771}\u{4eac}",
    "\u{43f}\u{440}\u{438}\u{432}\u{435}\u{442}",
    "\u{1f680}",
    "e\u{301}t\u{e9}",
    "\u{2028}",
    "\u{645}\u{631}\u{62d}\u{628}\u{627}",
    "\u{1d4d0}",
    "\u{2713}",
    "\u{1f469}\u{200d}\u{1f4bb}",
    "\u{a3}20",
    "\u{7f}",
];

/// Escapes, as they stand in the file.
const ESCAPES: [&str; 8] =
    ["\\\"", "\\\\", "\\n", "\\t", "\\u001b[1m", "\\u0000", "\\r\\n", "\\u001f"];

/// Appends one made-up word; frequent words are short.
pub(super) fn word(rng: &mut Rng, out: &mut String) {
    // The lowest of three draws: a few words make most of the text, as in real prose.
    let mut rank = rng.below(8_192).min(rng.below(8_192)).min(rng.below(8_192)) as usize;
    loop {
        out.push_str(SYLLABLES[rank % 32]);
        rank /= 32;
        if rank == 0 {
            return;
        }
    }
}

/// Appends prose of at least `bytes_min` bytes, with a foreign word or an escape now and then.
pub(super) fn prose(rng: &mut Rng, bytes_min: usize, out: &mut String) {
    let end = out.len() + bytes_min;
    while out.len() < end {
        match rng.below(64) {
            0 => out.push_str(FOREIGN[rng.index(FOREIGN.len())]),
            1 => out.push_str(ESCAPES[rng.index(ESCAPES.len())]),
            _ => word(rng, out),
        }
        out.push_str(match rng.below(12) {
            0 => ", ",
            1 => ".\\n",
            _ => " ",
        });
    }
}

/// Appends prose of plain words only, fit for a title or a path.
pub(super) fn plain(rng: &mut Rng, words: u64, joiner: &str, out: &mut String) {
    for n in 0..words {
        if n > 0 {
            out.push_str(joiner);
        }
        word(rng, out);
    }
}

/// Appends what a tool prints: source lines, file lists, search hits. At least `bytes_min` bytes.
pub(super) fn listing(rng: &mut Rng, bytes_min: usize, out: &mut String) {
    let end = out.len() + bytes_min;
    let mut line = rng.range(1, 400);
    while out.len() < end {
        match rng.below(4) {
            0 => {
                out.push_str(&format!("{line:>5}  let "));
                plain(rng, 2, "_", out);
                out.push_str(" = ");
                plain(rng, 2, "::", out);
                out.push_str(&format!("({}, \\\"", rng.below(10_000)));
                word(rng, out);
                out.push_str("\\\");\\n");
            }
            1 => {
                let size = rng.below(100_000);
                let minute = rng.below(60);
                out.push_str(&format!("-rw-r--r-- 1 user user {size:>6} Oct 14 09:{minute:02} "));
                plain(rng, 3, "/", out);
                out.push_str(".rs\\n");
            }
            2 => {
                plain(rng, 3, "/", out);
                out.push_str(&format!(".rs:{line}:{}: ", rng.range(1, 90)));
                prose(rng, 40, out);
                out.push_str("\\n");
            }
            _ => {
                out.push_str("\\t}\\n\\n\\tfn ");
                plain(rng, 2, "_", out);
                out.push_str("(&self) -> Option<u64> {\\n");
            }
        }
        line += 1;
    }
}

/// A name in the shape of a UUID of version 4.
pub(super) fn uuid(rng: &mut Rng) -> String {
    let (high, low) = (rng.next_u64(), rng.next_u64());
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xFFFF,
        high & 0xFFF,
        ((low >> 48) & 0x3FFF) | 0x8000,
        low & 0xFFFF_FFFF_FFFF
    )
}
