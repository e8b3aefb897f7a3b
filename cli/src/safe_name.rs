//! File names for sessions whose ids are arbitrary strings.
//!
//! # Invariants
//! F1. A name holds only `[A-Za-z0-9_%-]` and the suffix `.jsonl`: no separator, no dot before it, no control.
//! F2. A name is at most `STEM_BYTES_MAX` + 18 + suffix bytes, whatever the id.
//! F3. The hash covers the whole id, so ids that differ only by case or beyond the cut get different names.

use std::fmt::Write;

const STEM_BYTES_MAX: usize = 100;
const RESERVED: [&str; 4] = ["con", "prn", "aux", "nul"];

/// The file name for an id.
pub(crate) fn file_name(id: &[u8]) -> String {
    let mut stem = String::new();
    for &byte in id {
        let mut piece = String::new();
        if byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-' {
            piece.push(char::from(byte));
        } else {
            write!(piece, "%{byte:02x}").unwrap_or_default();
        }
        if stem.len() + piece.len() > STEM_BYTES_MAX {
            break;
        }
        stem.push_str(&piece);
    }
    if is_reserved(&stem) {
        stem.insert(0, '_');
    }
    format!("{stem}-{:016x}.jsonl", hash(id))
}

/// Device names that Windows gives no file.
fn is_reserved(stem: &str) -> bool {
    let lower = stem.to_ascii_lowercase();
    let device = |prefix| {
        lower
            .strip_prefix(prefix)
            .is_some_and(|n: &str| n.len() == 1 && n.bytes().all(|b| b.is_ascii_digit()))
    };
    RESERVED.contains(&lower.as_str()) || device("com") || device("lpt")
}

/// FNV-1a over the bytes, then mixed so that every bit of the input reaches every bit of the name.
fn hash(id: &[u8]) -> u64 {
    let mut h = 0xcbf2_9ce4_8422_2325_u64;
    for &byte in id {
        h = (h ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    h = (h ^ (h >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    h = (h ^ (h >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    h ^ (h >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn f1_hostile_ids_make_harmless_names() {
        let long = "y".repeat(1024);
        let ids: Vec<Vec<u8>> =
            ["../x", "/etc/x", "a\0b", "CON", "con", "Com1", "..", ".", "~", "a", "A", &long]
                .iter()
                .map(|id| id.as_bytes().to_vec())
                .chain([b"\xed\xa0\x80".to_vec(), "\u{e9}".repeat(512).into_bytes()])
                .collect();
        let mut names = BTreeSet::new();
        for id in &ids {
            let name = file_name(id);
            let stem = name.strip_suffix(".jsonl").unwrap_or_default();
            assert!(!stem.is_empty() && stem.len() <= STEM_BYTES_MAX + 18, "{name}");
            assert!(
                stem.bytes().all(|b| b.is_ascii_alphanumeric() || b"_%-".contains(&b)),
                "{name}"
            );
            assert!(names.insert(name.to_ascii_lowercase()), "{name} twice");
        }
        assert!(file_name(b"con").starts_with("_con-"));
        assert!(file_name(b"s-7").starts_with("s-7-"));
    }

    #[test]
    fn f3_the_hash_sees_what_the_cut_hides() {
        let (a, b) = ("z".repeat(200), format!("{}w", "z".repeat(199)));
        assert_ne!(file_name(a.as_bytes()), file_name(b.as_bytes()));
    }
}
