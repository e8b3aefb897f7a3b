//! Whether damaged bytes hold a whole event: what tells a torn tail from lost events.
//!
//! # Invariants
//! D1. An event counts wherever it starts on a line: behind a cut one, behind NUL, before garbage.
//! D2. Work is bounded by a multiple of the length; past it the answer is yes, which loses nothing.

use memchr::memchr_iter;

use super::record::Fields;
use crate::Seq;
use crate::json::{JsonFaultKind, check, check_prefix, is_space};

/// Bytes scanned for one byte of text, at most.
const WORK_FACTOR: usize = 32;
/// Bytes that may be scanned whatever the length.
const WORK_FREE_BYTES: usize = 16 << 10;

/// Whether `text` holds a whole event. `placed` tells whether events here have a seq, when that is known;
/// `next` is the seq that would come next.
pub(super) fn holds_event(text: &[u8], depth_max: usize, placed: Option<bool>, next: Seq) -> bool {
    // A prefix of something valid is what a cut leaves. An object inside it that looks like an event is
    // mostly data; it is an event of its own only if its seq goes on from here.
    let cut = matches!(check(text, depth_max), Err(f) if f.what == JsonFaultKind::Truncated);
    let counts = |fields: &Fields<'_>| {
        let goes_on = || {
            let seq = fields.claimed_seq().and_then(|seq| Seq::try_from(seq).ok());
            seq.is_some_and(|seq| seq >= next)
        };
        let is_event = match placed {
            Some(placed) => fields.is_event(placed),
            None => fields.is_event(true) || fields.is_event(false),
        };
        is_event && (!cut || goes_on())
    };
    let mut work = text.len().saturating_mul(WORK_FACTOR).saturating_add(WORK_FREE_BYTES);
    let mut from = 0;
    for at in memchr_iter(b'{', text) {
        // An object that was taken as a whole holds no events of its own.
        if at < from || !opens_member(text.get(at + 1..).unwrap_or_default()) {
            continue;
        }
        let rest = text.get(at..).unwrap_or_default();
        let (spent, end) = match check_prefix(rest, depth_max) {
            Ok(end) => (end, Some(end)),
            Err(fault) => (fault.offset, None),
        };
        let Some(left) = work.checked_sub(spent.saturating_add(1)) else { return true };
        work = left;
        let Some(end) = end else { continue };
        let object = rest.get(..end).unwrap_or_default();
        if Fields::split(object, depth_max).is_ok_and(|fields| counts(&fields)) {
            return true;
        }
        from = at + end;
    }
    false
}

/// Whether a line is one whole object but for bytes that are not UTF-8.
pub(super) fn is_whole_but_utf8(text: &[u8], depth_max: usize) -> bool {
    let lossy = String::from_utf8_lossy(text);
    Fields::split(lossy.as_bytes(), depth_max).is_ok()
}

/// Whether what follows a brace can be a key.
fn opens_member(after: &[u8]) -> bool {
    after.iter().find(|byte| !is_space(**byte)) == Some(&b'"')
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENT: &str = r#"{"type":"turn/end","seq":4,"time":-1,"data":{"turn":1}}"#;
    const ROW: &str = r#"{"type":"text-chunks","seq0":4,"time0":1,"data":{}}"#;

    fn holds(text: &str) -> bool {
        holds_event(text.as_bytes(), 64, Some(true), 4)
    }

    #[test]
    fn d1_an_event_counts_wherever_it_starts() {
        for event in [EVENT, ROW] {
            assert!(holds(event));
            assert!(holds(&format!("\0\0{event}")));
            assert!(holds(&format!("{event}{{\"type\":\"tu")));
            let torn =
                r#"{"type":"user/message","seq":4,"time":1,"data":{"id":"m","n":[1,{"x":"y"}]}}"#;
            for cut in 0..torn.len() {
                assert!(!holds(&torn[..cut]), "{cut}");
                assert!(holds(&format!("{}{event}", &torn[..cut])), "{cut}");
            }
        }
    }

    #[test]
    fn d1_data_that_looks_like_an_older_event_is_data() {
        assert!(!holds(r#"{"type":"x","data":{"log":[{"type":"a","seq":3,"time":0,"data":1},"#));
        assert!(holds(r#"{"type":"x","data":{"log":[{"type":"a","seq":4,"time":0,"data":1},"#));
    }

    #[test]
    fn rows_of_projections_count_without_seq() {
        let line = br#"{"type":"turn/end","data":{"turn":1}}"#;
        assert!(holds_event(line, 64, Some(false), 9));
        assert!(holds_event(line, 64, None, 9));
        assert!(!holds_event(line, 64, Some(true), 9));
    }

    #[test]
    fn d2_work_is_bounded() {
        let nested = "{\"a\":".repeat(200_000);
        assert!(holds_event(nested.as_bytes(), usize::MAX, Some(true), 0));
    }

    #[test]
    fn bytes_that_are_not_utf8_do_not_hide_a_whole_line() {
        assert!(is_whole_but_utf8(b"{\"a\":\"\xff\"}", 8));
        assert!(!is_whole_but_utf8(b"{\"a\":\"\xff", 8));
    }
}
