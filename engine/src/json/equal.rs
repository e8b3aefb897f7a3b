//! Equality of JSON values: members in any order, elements in order, numbers by value, strings decoded.
//!
//! # Invariants
//! Q1. Both texts were checked. On others the answer is some boolean, never a panic.
//! Q2. Work is n log n in the length of the texts, and memory linear in it, at any nesting.

use std::borrow::Cow;

use super::scan::Scan;
use super::string::unescape;
use super::{Kind, kind_of, number_value, trim};

/// Whether two values are equal.
pub(crate) fn json_equal(a: &[u8], b: &[u8]) -> bool {
    let (a, b) = (trim(a), trim(b));
    a == b || compare(a, b, None)
}

/// Whether two objects are equal once the member with this decoded key is left out of both.
///
/// False when one of them is no object.
pub(crate) fn members_equal_except(a: &[u8], b: &[u8], key: &[u8]) -> bool {
    let (a, b) = (trim(a), trim(b));
    a.first() == Some(&b'{') && b.first() == Some(&b'{') && compare(a, b, Some(key))
}

/// A text and the ends of its arrays and objects, so that each is stepped over in one jump.
struct Side<'a> {
    text: &'a [u8],
    /// (start, end) of every array and object, by start.
    spans: Vec<(usize, usize)>,
}

impl<'a> Side<'a> {
    fn new(text: &'a [u8]) -> Option<Self> {
        let mut spans: Vec<(usize, usize)> = Vec::new();
        let mut open: Vec<usize> = Vec::new();
        let mut scan = Scan::new(text, 0, usize::MAX);
        scan.value_seen(&mut |offset, opens| {
            if opens {
                open.push(spans.len());
                spans.push((offset, 0));
            } else if let Some(span) = open.pop().and_then(|place| spans.get_mut(place)) {
                span.1 = offset;
            }
        })
        .ok()?;
        (scan.pos == text.len()).then_some(Self { text, spans })
    }

    /// End of the value that starts at `start`.
    fn end_of(&self, start: usize) -> Option<usize> {
        if matches!(self.text.get(start)?, b'{' | b'[') {
            let place = self.spans.binary_search_by_key(&start, |span| span.0).ok()?;
            return self.spans.get(place).map(|span| span.1);
        }
        let mut scan = Scan::new(self.text, start, 0);
        scan.value().ok()?;
        Some(scan.pos)
    }

    fn slice(&self, start: usize, end: usize) -> &'a [u8] {
        self.text.get(start..end).unwrap_or_default()
    }

    /// Starts of the elements of the array at `start`.
    fn elements(&self, start: usize) -> Option<Vec<usize>> {
        let mut out = Vec::new();
        let mut scan = Scan::new(self.text, start, 1);
        scan.enter(b'[', "").ok()?;
        while scan.next_element(out.is_empty()).ok()? {
            out.push(scan.pos);
            scan.pos = self.end_of(scan.pos)?;
        }
        Some(out)
    }

    /// Decoded keys with the starts of their values, by key, the last of equal keys only.
    fn members(&self, start: usize) -> Option<Vec<(Cow<'a, [u8]>, usize)>> {
        let mut out: Vec<(Cow<'a, [u8]>, usize)> = Vec::new();
        let mut scan = Scan::new(self.text, start, 1);
        scan.enter(b'{', "").ok()?;
        while let Some(key) = scan.next_key(out.is_empty()).ok()? {
            out.push((unescape(key), scan.pos));
            scan.pos = self.end_of(scan.pos)?;
        }
        // Later members first, so that the one that is kept is the last of the text.
        out.sort_unstable_by(|x, y| x.0.cmp(&y.0).then(y.1.cmp(&x.1)));
        out.dedup_by(|later, kept| later.0 == kept.0);
        Some(out)
    }
}

fn compare(a: &[u8], b: &[u8], except: Option<&[u8]>) -> bool {
    let (Some(a), Some(b)) = (Side::new(a), Side::new(b)) else { return false };
    let mut pending = vec![(0, 0)];
    let mut except = except;
    while let Some((at_a, at_b)) = pending.pop() {
        let same = match (kind_at(&a, at_a), kind_at(&b, at_b)) {
            (Some(Kind::Object), Some(Kind::Object)) => {
                pair_members(&a, at_a, &b, at_b, except.take(), &mut pending)
            }
            (Some(Kind::Array), Some(Kind::Array)) => {
                pair_elements(&a, at_a, &b, at_b, &mut pending)
            }
            (Some(x), Some(y)) if x == y => scalars_equal(x, &a, at_a, &b, at_b),
            _ => None,
        };
        if same.is_none() {
            return false;
        }
    }
    true
}

fn kind_at(side: &Side<'_>, at: usize) -> Option<Kind> {
    side.text.get(at).and_then(|byte| kind_of(*byte))
}

fn pair_elements(
    a: &Side<'_>,
    at_a: usize,
    b: &Side<'_>,
    at_b: usize,
    pending: &mut Vec<(usize, usize)>,
) -> Option<()> {
    let (xs, ys) = (a.elements(at_a)?, b.elements(at_b)?);
    if xs.len() != ys.len() {
        return None;
    }
    pending.extend(xs.into_iter().zip(ys));
    Some(())
}

fn pair_members(
    a: &Side<'_>,
    at_a: usize,
    b: &Side<'_>,
    at_b: usize,
    except: Option<&[u8]>,
    pending: &mut Vec<(usize, usize)>,
) -> Option<()> {
    let (mut xs, mut ys) = (a.members(at_a)?, b.members(at_b)?);
    if let Some(key) = except {
        xs.retain(|(found, _)| **found != *key);
        ys.retain(|(found, _)| **found != *key);
    }
    if xs.len() != ys.len() {
        return None;
    }
    for (x, y) in xs.into_iter().zip(ys) {
        if x.0 != y.0 {
            return None;
        }
        pending.push((x.1, y.1));
    }
    Some(())
}

fn scalars_equal(kind: Kind, a: &Side<'_>, at_a: usize, b: &Side<'_>, at_b: usize) -> Option<()> {
    let x = a.slice(at_a, a.end_of(at_a)?);
    let y = b.slice(at_b, b.end_of(at_b)?);
    let same = x == y
        || match kind {
            Kind::Number => number_value(x)? == number_value(y)?,
            Kind::String => unescape(x) == unescape(y),
            _ => false,
        };
    same.then_some(())
}
