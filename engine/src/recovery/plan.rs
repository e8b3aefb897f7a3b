//! The verdicts of docs/recovery.md as a pure function: from what is there to what it means and what to do.
//!
//! # Invariants
//! Q1. Pure and total.
//! Q2. Nothing below the watermark is ever cut; what does not verify there is damage.
//! Q3. In the boot that wrote it, bytes that do not verify are damage when a valid frame follows: the page cache does
//!     not reorder. After another boot they are a torn tail, unless they are below the watermark.

use super::survey::{Gap, Survey};

/// What one gap means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// V2: never acked as durable; dropped, with all behind it.
    TornTail,
    /// V3: below the watermark, or followed by valid frames in the same boot; kept and reported.
    Damage,
}

/// What is to be done with the active segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Plan {
    /// Gaps that are damage.
    pub(crate) damage: Vec<Gap>,
    /// Where frames end from now on.
    pub(crate) end: u64,
    /// Range that is dropped, copied aside first.
    pub(crate) dropped: Option<(u64, u64)>,
    /// Range that must be written and synced again, because the page cache may show what the disk never got. After
    /// another boot what reads is what the disk holds, and it is left alone.
    pub(crate) rewrite: (u64, u64),
    /// Whether the lane goes on in a new segment with the next epoch.
    pub(crate) new_epoch: bool,
    /// gsn of the next event.
    pub(crate) next_gsn: u64,
    pub(crate) next_session: u64,
}

/// The verdict on one gap.
pub(crate) fn verdict(gap: &Gap, survey: &Survey, same_boot: bool) -> Verdict {
    if gap.start < survey.watermark
        || gap.gsn < survey.marked_gsn
        || (same_boot && gap.next.is_some())
    {
        Verdict::Damage
    } else {
        Verdict::TornTail
    }
}

/// Decides what to do with the active segment of a lane.
pub(crate) fn plan(survey: &Survey, same_boot: bool) -> Plan {
    let mut damage = Vec::new();
    let torn = survey.gaps.iter().find(|gap| {
        let torn = verdict(gap, survey, same_boot) == Verdict::TornTail;
        if !torn {
            damage.push(**gap);
        }
        torn
    });
    let (mut end, next_gsn, next_session) = match torn {
        Some(gap) => (gap.start, gap.gsn, gap.next_session),
        None => (survey.valid_end, survey.next_gsn, survey.next_session),
    };
    let dropped = torn.map(|gap| (gap.start, gap.start + survey.bytes_behind(gap.start)));
    if damage.iter().any(|g| g.next.is_none()) {
        // Acked bytes are gone at the very end: the log goes on behind the place they had.
        end = end.max(survey.watermark).next_multiple_of(8);
    }
    Plan {
        new_epoch: !damage.is_empty() || dropped.is_some(),
        rewrite: (if same_boot { survey.watermark.min(end) } else { end }, end),
        next_gsn: next_gsn.max(if damage.is_empty() { 0 } else { survey.marked_gsn }),
        damage,
        end,
        dropped: dropped.filter(|(a, b)| b > a),
        next_session,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn survey(gaps: Vec<Gap>, watermark: u64) -> Survey {
        Survey {
            gaps,
            valid_end: 9_000,
            watermark,
            next_gsn: 50,
            next_session: 3,
            closed: false,
            last_nonzero: None,
            frames: 9,
            marked_gsn: 0,
        }
    }

    fn gap(start: u64, next: Option<u64>) -> Gap {
        Gap { start, next, gsn: 40, next_session: 2 }
    }

    #[test]
    fn v1_a_clean_end_goes_on_in_place() {
        let p = plan(&survey(vec![], 5_000), false);
        assert_eq!(
            (p.end, p.new_epoch, p.dropped, p.rewrite),
            (9_000, false, None, (9_000, 9_000))
        );
    }

    #[test]
    fn v1_in_the_same_boot_the_end_is_written_again() {
        let p = plan(&survey(vec![], 5_000), true);
        assert_eq!((p.end, p.new_epoch, p.rewrite), (9_000, false, (5_000, 9_000)));
    }

    #[test]
    fn v2_a_torn_tail_is_dropped_with_all_behind_it() {
        let s = survey(vec![gap(6_000, Some(7_000)), gap(8_000, Some(8_500))], 5_000);
        let p = plan(&s, false);
        assert_eq!((p.end, p.dropped, p.next_gsn), (6_000, Some((6_000, 9_000)), 40));
        assert!(p.new_epoch && p.damage.is_empty());
    }

    #[test]
    fn v3_below_the_watermark_is_damage_and_nothing_is_cut() {
        let s = survey(vec![gap(6_000, Some(7_000))], 6_500);
        let p = plan(&s, false);
        assert_eq!((p.end, p.dropped, p.damage.len(), p.next_gsn), (9_000, None, 1, 50));
        assert!(p.new_epoch);
    }

    #[test]
    fn v3_in_the_same_boot_a_gap_before_valid_frames_is_damage() {
        let s = survey(vec![gap(6_000, Some(7_000))], 5_000);
        assert_eq!(plan(&s, true).damage.len(), 1);
        assert_eq!(plan(&s, false).damage.len(), 0);
    }

    #[test]
    fn v2_in_the_same_boot_a_gap_at_the_end_is_torn() {
        let mut s = survey(vec![gap(9_000, None)], 5_000);
        s.last_nonzero = Some(9_100);
        let p = plan(&s, true);
        assert_eq!((p.end, p.dropped), (9_000, Some((9_000, 9_100))));
    }

    #[test]
    fn v4_acked_bytes_lost_at_the_end_are_damage() {
        let mut s = survey(vec![gap(9_000, None)], 9_600);
        s.last_nonzero = None;
        let p = plan(&s, false);
        assert_eq!((p.end, p.damage.len(), p.dropped), (9_600, 1, None));
    }
}
