//! The figures of a session: turns, steps, times and tokens.
//!
//! # Invariants
//! Fg1. Figures are of what a view shows: with the closers that it shows, without those that it does not.

use super::read::Session;
use super::view::{SessionView, ViewOptions, is_damage};
use crate::error::Result;
use crate::event::EventRef;
use crate::model::{ContextFigures, ContextFold, SplitStats, Stats, message_in};
use crate::types::Seq;

/// Figures of a session.
///
/// ```
/// let none = everlog::SessionStats::default();
/// assert_eq!((none.whole, none.own, none.context), Default::default());
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct SessionStats {
    /// Over the whole log, what was inherited included.
    pub whole: Stats,
    /// From the first event on that was not inherited.
    pub own: Stats,
    /// How full the model's context is; none when a replacement does not cover what the compaction before it says.
    pub context: Option<ContextFigures>,
}

impl Session {
    /// Turns, steps, times and tokens, as [`Session::view`] shows the session by default. Reads every event.
    ///
    /// # Errors
    /// As [`Session::view`].
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
    /// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
    /// use everlog::NewEvent;
    /// for (time_ms, event_type, data) in [
    ///     (1_000, "turn/start", r#"{"turn":1}"#),
    ///     (1_000, "step/start", r#"{"turn":1,"step":1}"#),
    ///     (1_900, "step/end", r#"{"turn":1,"step":1}"#),
    ///     (1_900, "turn/end", r#"{"turn":1,"reason":{"kind":"completed"}}"#),
    /// ] {
    ///     writer.append(&NewEvent::new(event_type, data.as_bytes()).with_time_ms(time_ms))?;
    /// }
    /// let stats = writer.stats()?;
    /// assert_eq!((stats.whole.turns, stats.whole.steps, stats.whole.events), (1, 1, 4));
    /// assert_eq!(stats.own, stats.whole);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stats(&self) -> Result<SessionStats> {
        self.view(ViewOptions::default())?.stats()
    }

    /// How many leading events the header says were inherited.
    fn seed_length(&self) -> Result<Seq> {
        let header = self.header()?;
        let view = crate::accept::check_header_template(&header).ok();
        Ok(view.and_then(|v| v.seed_length).unwrap_or(0))
    }
}

impl SessionView {
    /// The figures of what the view shows. Reads every event up to its end.
    ///
    /// # Errors
    /// As [`Session::view`].
    pub fn stats(&self) -> Result<SessionStats> {
        let own_from = self.session.seed_length()?;
        let mut fold = SplitStats::new(own_from);
        let mut context = Some(ContextFold::default());
        let (mut messages, mut own_messages) = (0, 0);
        let mut take = |event: &EventRef<'_>| {
            let view = self.session.modern(event)?;
            fold.apply(event.seq, event.time_ms, &view);
            if let Some(c) = &mut context
                && c.apply(event.seq, event.surface_op, &view).is_err()
            {
                context = None;
            }
            if event.surface_op.is_some()
                && self.surface.contains(event.seq)
                && message_in(view.event_type, &view.data).is_some()
            {
                messages += 1;
                own_messages += u64::from(event.seq >= own_from);
            }
            Ok(())
        };
        if self.end > 0 && self.options.allow_gaps {
            for event in self.session.range(0, self.end - 1) {
                match event.and_then(|event| take(&event.as_ref())) {
                    Err(e) if is_damage(&e) => {}
                    other => other?,
                }
            }
        } else if self.end > 0 {
            self.session.for_each(0, self.end - 1, &mut take)?;
        }
        for event in &self.closers {
            take(&event.as_ref())?;
        }
        let (mut whole, mut own) = fold.stats();
        (whole.events, whole.messages) = (self.end, messages);
        (own.events, own.messages) = (self.end.saturating_sub(own_from), own_messages);
        Ok(SessionStats { whole, own, context: context.map(|c| c.figures()) })
    }
}
