//! Rules for citations: not empty but on model messages, no duplicate, only earlier events, and all that is replaced.
//!
//! # Invariants
//! C1. A list of any order costs one sort; a rising one costs one pass.

use std::borrow::Cow;

use super::refusal::{Refusal, some_of};
use crate::types::Seq;

/// Checks the citations of the event `own` that takes `shadowed` off the surface.
pub(super) fn check(
    own: Seq,
    sources: Option<&[Seq]>,
    empty_allowed: bool,
    shadowed: &[Seq],
) -> Result<(), Refusal> {
    if sources.is_some_and(<[Seq]>::is_empty) && !empty_allowed {
        return Err(Refusal::SourcesEmpty);
    }
    let sorted = sort(sources.unwrap_or_default());
    for pair in sorted.windows(2) {
        if let [one, other] = pair
            && one == other
        {
            return Err(Refusal::SourceTwice { source: *one });
        }
    }
    if let Some(source) = sorted.last()
        && *source >= own
    {
        return Err(Refusal::SourceNotEarlier { source: *source });
    }
    let missing: Vec<Seq> =
        shadowed.iter().filter(|node| sorted.binary_search(node).is_err()).copied().collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Refusal::SourceMissing { named: some_of(&missing), count: missing.len() })
}

fn sort(sources: &[Seq]) -> Cow<'_, [Seq]> {
    if sources.is_sorted() {
        return Cow::Borrowed(sources);
    }
    let mut sorted = sources.to_vec();
    sorted.sort_unstable();
    Cow::Owned(sorted)
}
