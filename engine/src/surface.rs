//! The surface: the ordered events that make up a model's history, folded from append and replace.
//!
//! # Invariants
//! U1. Nodes are seqs of surface events, each at most once; a node that was replaced never returns.
//! U2. `plan` changes nothing; `apply` cannot fail on a plan made from the surface as it is.
//! U3. An append costs the same at any length; a replace costs what it covers, wherever it stands.
//! U4. `undo` of the newest applied plan gives back the surface from before it.
//!
//! # Units
//! Nodes: seqs. `generation`: replacements that were applied, from 0.

use std::collections::HashMap;
use std::fmt;

use crate::event::SurfaceOp;
use crate::types::Seq;

/// Place of no node: above every seq.
const NONE: Seq = Seq::MAX;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Links {
    before: Seq,
    after: Seq,
}

/// The surface of one session (dsh-spec.md section 4): the seqs of its nodes, in order.
///
/// Feed it every surface event in log order: [`Surface::plan`] judges the next one, [`Surface::apply`]
/// takes it in.
///
/// ```
/// use everlog::{Surface, SurfaceOp};
/// let mut surface = Surface::new();
/// for seq in 0..5 {
///     let plan = surface.plan(seq, SurfaceOp::Append).unwrap();
///     surface.apply(&plan);
/// }
/// let plan = surface.plan(9, SurfaceOp::Replace { start: 1, end: 3 }).unwrap();
/// assert_eq!(plan.shadowed(), [1, 2, 3]);
/// surface.apply(&plan);
/// assert_eq!(surface.iter().collect::<Vec<_>>(), [0, 9, 4]);
/// assert_eq!((surface.generation(), surface.len(), surface.last()), (1, 3, Some(4)));
/// assert!(surface.contains(9) && !surface.contains(2) && !surface.is_empty());
/// ```
#[derive(Clone, Debug)]
pub struct Surface {
    nodes: HashMap<Seq, Links>,
    first: Seq,
    last: Seq,
    /// Lowest seq that may come next.
    next_min: Seq,
    generation: u64,
}

/// A judged step of the surface: what one event will do to it.
///
/// ```
/// use everlog::{Surface, SurfaceOp};
/// let plan = Surface::new().plan(3, SurfaceOp::Append).unwrap();
/// assert_eq!((plan.seq(), plan.op(), plan.shadowed()), (3, SurfaceOp::Append, &[][..]));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SurfacePlan {
    seq: Seq,
    op: SurfaceOp,
    shadowed: Vec<Seq>,
    /// `next_min` of the surface that the plan was made from.
    next_min: Seq,
    /// `generation` of that surface.
    generation: u64,
}

impl SurfacePlan {
    /// The event that the plan is for.
    #[must_use]
    pub fn seq(&self) -> Seq {
        self.seq
    }

    /// What the event does.
    #[must_use]
    pub fn op(&self) -> SurfaceOp {
        self.op
    }

    /// Nodes that the event replaces, in surface order; none for an append.
    #[must_use]
    pub fn shadowed(&self) -> &[Seq] {
        &self.shadowed
    }
}

/// Why an event cannot change the surface so (dsh-spec.md section 4.1).
///
/// ```
/// use everlog::{Surface, SurfaceOp, SurfaceRefusal};
/// let refused = Surface::new().plan(1, SurfaceOp::Replace { start: 0, end: 0 }).unwrap_err();
/// assert_eq!(refused, SurfaceRefusal::StartMissing { start: 0 });
/// assert_eq!(refused.field(), "surfaceOp.start");
/// assert_eq!(refused.to_string(), "event 0 is not on the surface");
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SurfaceRefusal {
    /// The event's seq is not above those of the events before it.
    NotNext {
        /// Seq of the event.
        seq: Seq,
        /// Lowest seq that may come next.
        min: Seq,
    },
    /// The first node of the range is not on the surface.
    StartMissing {
        /// Seq that was named.
        start: Seq,
    },
    /// The last node of the range is not on the surface.
    EndMissing {
        /// Seq that was named.
        end: Seq,
    },
    /// The first node of the range stands after the last one.
    Reversed {
        /// Seq named as first.
        start: Seq,
        /// Seq named as last.
        end: Seq,
    },
}

impl SurfaceRefusal {
    /// Name of the field that is wrong, as [`Error::field`](crate::Error::field) gives it.
    #[must_use]
    pub fn field(&self) -> &'static str {
        match self {
            Self::NotNext { .. } => "seq",
            Self::EndMissing { .. } => "surfaceOp.end",
            Self::StartMissing { .. } | Self::Reversed { .. } => "surfaceOp.start",
        }
    }
}

impl fmt::Display for SurfaceRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotNext { seq, min } => {
                write!(f, "seq {seq} is below the next possible one, {min}")
            }
            Self::StartMissing { start } => write!(f, "event {start} is not on the surface"),
            Self::EndMissing { end } => write!(f, "event {end} is not on the surface"),
            Self::Reversed { start, end } => {
                write!(f, "event {start} stands after event {end} on the surface")
            }
        }
    }
}

impl std::error::Error for SurfaceRefusal {}

impl Default for Surface {
    fn default() -> Self {
        Self::new()
    }
}

impl Surface {
    /// A surface without nodes.
    #[must_use]
    pub fn new() -> Self {
        Self { nodes: HashMap::new(), first: NONE, last: NONE, next_min: 0, generation: 0 }
    }

    /// A surface as it was saved: its nodes in order, its generation, and the seq that the log goes on
    /// with. Nothing when a node stands twice or is not below that seq.
    ///
    /// ```
    /// use everlog::Surface;
    /// let surface = Surface::restore([0, 9, 4], 1, 10).unwrap();
    /// assert_eq!((surface.len(), surface.generation()), (3, 1));
    /// assert!(Surface::restore([0, 0], 0, 10).is_none() && Surface::restore([10], 0, 10).is_none());
    /// ```
    #[must_use]
    pub fn restore(
        nodes: impl IntoIterator<Item = Seq>,
        generation: u64,
        next_seq: Seq,
    ) -> Option<Self> {
        let mut surface = Self::new();
        for seq in nodes {
            if seq >= next_seq || surface.contains(seq) {
                return None;
            }
            surface.push(seq);
        }
        surface.generation = generation;
        surface.next_min = next_seq;
        Some(surface)
    }

    /// How many nodes there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is no node.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// How many replacements were applied, from 0.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Whether the event is a node now.
    #[must_use]
    pub fn contains(&self, seq: Seq) -> bool {
        self.nodes.contains_key(&seq)
    }

    /// The node at the tail.
    #[must_use]
    pub fn last(&self) -> Option<Seq> {
        (self.last != NONE).then_some(self.last)
    }

    /// The nodes in order.
    pub fn iter(&self) -> impl Iterator<Item = Seq> + '_ {
        std::iter::successors((self.first != NONE).then_some(self.first), |seq| self.after(*seq))
    }

    /// Judges what the event `seq` would do, and changes nothing. `start` may be numerically above `end`: only their order
    /// on the surface counts.
    ///
    /// # Errors
    /// The [`SurfaceRefusal`] that applies first, in the order of that type.
    ///
    /// ```
    /// use everlog::{Surface, SurfaceOp, SurfaceRefusal};
    /// let surface = Surface::restore([0, 9, 4], 1, 10).unwrap();
    /// assert!(surface.plan(10, SurfaceOp::Replace { start: 9, end: 4 }).is_ok());
    /// let reversed = surface.plan(10, SurfaceOp::Replace { start: 4, end: 9 });
    /// assert_eq!(reversed, Err(SurfaceRefusal::Reversed { start: 4, end: 9 }));
    /// let late = surface.plan(8, SurfaceOp::Append);
    /// assert_eq!(late, Err(SurfaceRefusal::NotNext { seq: 8, min: 10 }));
    /// ```
    pub fn plan(&self, seq: Seq, op: SurfaceOp) -> Result<SurfacePlan, SurfaceRefusal> {
        if seq < self.next_min || seq == NONE {
            return Err(SurfaceRefusal::NotNext { seq, min: self.next_min });
        }
        let shadowed = match op {
            SurfaceOp::Append => Vec::new(),
            SurfaceOp::Replace { start, end } => self.range(start, end)?,
        };
        Ok(SurfacePlan { seq, op, shadowed, next_min: self.next_min, generation: self.generation })
    }

    /// Takes the planned event in.
    ///
    /// Does nothing and gives false when the surface has changed since the plan was made.
    ///
    /// ```
    /// use everlog::{Surface, SurfaceOp};
    /// let mut surface = Surface::new();
    /// let plan = surface.plan(0, SurfaceOp::Append).unwrap();
    /// assert!(surface.apply(&plan) && !surface.apply(&plan));
    /// ```
    pub fn apply(&mut self, plan: &SurfacePlan) -> bool {
        if plan.next_min != self.next_min || plan.generation != self.generation {
            return false;
        }
        match (plan.shadowed.first(), plan.shadowed.last()) {
            (Some(start), Some(end)) => {
                let before = self.before(*start);
                let after = self.after(*end);
                for node in &plan.shadowed {
                    self.nodes.remove(node);
                }
                self.put(before, &[plan.seq], after);
                self.generation += 1;
            }
            _ => self.push(plan.seq),
        }
        self.next_min = plan.seq + 1;
        true
    }

    /// Takes the newest applied plan back.
    ///
    /// Does nothing and gives false when `plan` cannot be the newest one.
    ///
    /// ```
    /// use everlog::{Surface, SurfaceOp};
    /// let mut surface = Surface::restore([0, 1], 0, 2).unwrap();
    /// let plan = surface.plan(2, SurfaceOp::Replace { start: 0, end: 1 }).unwrap();
    /// assert!(surface.apply(&plan) && surface.undo(&plan));
    /// assert_eq!(surface.iter().collect::<Vec<_>>(), [0, 1]);
    /// ```
    pub fn undo(&mut self, plan: &SurfacePlan) -> bool {
        let generation = plan.generation + u64::from(!plan.shadowed.is_empty());
        if self.next_min != plan.seq + 1
            || self.generation != generation
            || !self.contains(plan.seq)
            || plan.shadowed.iter().any(|node| self.contains(*node))
        {
            return false;
        }
        let before = self.before(plan.seq);
        let after = self.after(plan.seq);
        self.nodes.remove(&plan.seq);
        self.put(before, &plan.shadowed, after);
        self.next_min = plan.next_min;
        self.generation = plan.generation;
        true
    }

    fn before(&self, seq: Seq) -> Option<Seq> {
        self.nodes.get(&seq).map(|links| links.before).filter(|before| *before != NONE)
    }

    fn after(&self, seq: Seq) -> Option<Seq> {
        self.nodes.get(&seq).map(|links| links.after).filter(|after| *after != NONE)
    }

    fn push(&mut self, seq: Seq) {
        self.put(self.last(), &[seq], None);
    }

    /// Puts nodes between two neighbours, either of which may be the end of the surface.
    fn put(&mut self, before: Option<Seq>, nodes: &[Seq], after: Option<Seq>) {
        let mut left = before.unwrap_or(NONE);
        for node in nodes {
            self.nodes.insert(*node, Links { before: left, after: NONE });
            self.link(left, *node);
            left = *node;
        }
        self.link(left, after.unwrap_or(NONE));
    }

    /// Makes two nodes neighbours; no node on one side means the end of the surface there.
    fn link(&mut self, left: Seq, right: Seq) {
        match self.nodes.get_mut(&left) {
            Some(links) => links.after = right,
            None => self.first = right,
        }
        match self.nodes.get_mut(&right) {
            Some(links) => links.before = left,
            None => self.last = left,
        }
    }

    /// The nodes from `start` to `end`. One walk goes forward from each of them, step by step, so the
    /// answer costs the distance between the two also when they are reversed.
    fn range(&self, start: Seq, end: Seq) -> Result<Vec<Seq>, SurfaceRefusal> {
        if !self.contains(start) {
            return Err(SurfaceRefusal::StartMissing { start });
        }
        if !self.contains(end) {
            return Err(SurfaceRefusal::EndMissing { end });
        }
        let mut shadowed = vec![start];
        let mut from_start = Some(start);
        let mut from_end = Some(end);
        while from_start != Some(end) {
            from_start = from_start.and_then(|seq| self.after(seq));
            from_end = from_end.and_then(|seq| self.after(seq));
            if from_start.is_none() || from_end == Some(start) {
                return Err(SurfaceRefusal::Reversed { start, end });
            }
            shadowed.extend(from_start);
        }
        Ok(shadowed)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

    use proptest::prelude::*;

    use super::*;

    fn appended(count: Seq) -> Surface {
        let mut surface = Surface::new();
        for seq in 0..count {
            assert!(surface.apply(&surface.plan(seq, SurfaceOp::Append).unwrap()));
        }
        surface
    }

    fn nodes(surface: &Surface) -> Vec<Seq> {
        surface.iter().collect()
    }

    fn replace(surface: &mut Surface, seq: Seq, start: Seq, end: Seq) -> Vec<Seq> {
        let plan = surface.plan(seq, SurfaceOp::Replace { start, end }).unwrap();
        assert!(surface.apply(&plan));
        plan.shadowed().to_vec()
    }

    #[test]
    fn replaces_at_every_place() {
        for (start, end, wanted) in [
            (0, 0, vec![9, 1, 2, 3, 4]),
            (1, 3, vec![0, 9, 4]),
            (4, 4, vec![0, 1, 2, 3, 9]),
            (0, 4, vec![9]),
            (2, 4, vec![0, 1, 9]),
        ] {
            let mut surface = appended(5);
            assert_eq!(replace(&mut surface, 9, start, end), (start..=end).collect::<Vec<_>>());
            assert_eq!(nodes(&surface), wanted);
            assert_eq!((surface.generation(), surface.len()), (1, wanted.len()));
            assert_eq!(surface.last(), wanted.last().copied());
        }
    }

    #[test]
    fn order_is_by_place_and_not_by_number() {
        let mut surface = appended(5);
        replace(&mut surface, 7, 0, 1);
        assert_eq!(nodes(&surface), [7, 2, 3, 4]);
        assert_eq!(replace(&mut surface, 8, 7, 3), [7, 2, 3]);
        assert_eq!(nodes(&surface), [8, 4]);
    }

    #[test]
    fn refusals_are_typed_and_change_nothing() {
        let mut surface = appended(5);
        replace(&mut surface, 6, 2, 2);
        let plan = |start, end| surface.plan(8, SurfaceOp::Replace { start, end }).unwrap_err();
        assert_eq!(plan(2, 3), SurfaceRefusal::StartMissing { start: 2 });
        assert_eq!(plan(8, 8), SurfaceRefusal::StartMissing { start: 8 });
        assert_eq!(plan(3, 2), SurfaceRefusal::EndMissing { end: 2 });
        assert_eq!(plan(3, 6), SurfaceRefusal::Reversed { start: 3, end: 6 });
        assert_eq!(plan(4, 0), SurfaceRefusal::Reversed { start: 4, end: 0 });
        let old = surface.plan(6, SurfaceOp::Append).unwrap_err();
        assert_eq!(old, SurfaceRefusal::NotNext { seq: 6, min: 7 });
        assert_eq!(nodes(&surface), [0, 1, 6, 3, 4]);
        let empty = Surface::new().plan(0, SurfaceOp::Replace { start: 0, end: 0 });
        assert_eq!(empty.unwrap_err(), SurfaceRefusal::StartMissing { start: 0 });
    }

    #[test]
    fn u2_a_stale_plan_is_not_applied() {
        let mut surface = appended(3);
        let stale = surface.plan(3, SurfaceOp::Replace { start: 0, end: 1 }).unwrap();
        replace(&mut surface, 3, 1, 2);
        assert!(!surface.apply(&stale));
        assert!(!surface.undo(&stale));
        assert_eq!(nodes(&surface), [0, 3]);
    }

    #[test]
    fn restore_takes_saved_nodes_and_refuses_impossible_ones() {
        let surface = Surface::restore([4, 2, 3], 2, 9).unwrap();
        assert_eq!((nodes(&surface), surface.generation()), (vec![4, 2, 3], 2));
        assert!(surface.plan(8, SurfaceOp::Append).is_err());
        assert!(surface.plan(9, SurfaceOp::Replace { start: 4, end: 3 }).is_ok());
        assert!(Surface::restore([1, 1], 0, 9).is_none());
        assert!(Surface::restore([9], 0, 9).is_none());
    }

    #[test]
    fn u3_replaces_in_a_long_surface_cost_what_they_cover() {
        const COUNT: Seq = 200_000;
        let mut surface = appended(COUNT);
        let begun = std::time::Instant::now();
        for step in 0..COUNT / 2 {
            replace(&mut surface, COUNT + step, 2 * step, 2 * step + 1);
            let (start, end) = (COUNT + step, step.saturating_sub(1) + COUNT);
            let reversed = surface.plan(2 * COUNT, SurfaceOp::Replace { start, end });
            assert_eq!(reversed.is_err(), step > 0);
        }
        assert_eq!(surface.len() as Seq, COUNT / 2);
        // A walk to the tail for each of them would be 10^10 steps.
        assert!(begun.elapsed() < std::time::Duration::from_secs(20));
    }

    proptest! {
        /// The fold against a plain vector, with every step also undone and done again.
        #[test]
        fn agrees_with_a_vector(steps in prop::collection::vec(any::<(u8, u8, bool)>(), 1..60)) {
            let mut surface = Surface::new();
            let mut model: Vec<Seq> = Vec::new();
            let mut replaced = 0;
            for (seq, (a, b, append)) in (0..).zip(steps) {
                let (a, b) = (Seq::from(a) % (seq + 1), Seq::from(b) % (seq + 1));
                let op = if append { SurfaceOp::Append } else { SurfaceOp::Replace { start: a, end: b } };
                let place = |wanted| model.iter().position(|node| *node == wanted);
                let wanted = match (append, place(a), place(b)) {
                    (true, _, _) => Some((model.len(), model.len())),
                    (false, Some(from), Some(to)) if from <= to => Some((from, to + 1)),
                    _ => None,
                };
                let plan = surface.plan(seq, op);
                prop_assert_eq!(plan.is_ok(), wanted.is_some());
                let (Ok(plan), Some((from, to))) = (plan, wanted) else { continue };
                prop_assert!(surface.apply(&plan));
                prop_assert!(surface.undo(&plan));
                prop_assert_eq!(nodes(&surface), model.clone());
                prop_assert_eq!(surface.generation(), replaced);
                prop_assert!(surface.apply(&plan));
                prop_assert!(!surface.apply(&plan));
                prop_assert_eq!(plan.shadowed(), model.splice(from..to, [seq]).collect::<Vec<_>>());
                replaced += u64::from(!append);
                prop_assert_eq!(nodes(&surface), model.clone());
                prop_assert_eq!((surface.len(), surface.last()), (model.len(), model.last().copied()));
                prop_assert_eq!(surface.generation(), replaced);
            }
        }
    }
}
