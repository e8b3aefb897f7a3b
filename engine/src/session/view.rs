//! What a session looks like to those who do not want its events: surface, messages, transcript, statistics.
//!
//! # Invariants
//! V1. Views are of what is stored; closers are shown only at the end of a session that nobody writes, and never stored.
//! V2. A surface and its messages cost the surface events and the open turn: INDEX frames say where they are.
//! V3. A required event of an unknown type, and damage, refuse a view unless the caller said otherwise.
//!
//! # Units
//! Memory: 8 bytes for each surface event, and one frame.

use std::ops::Range;

use super::read::Session;
use crate::error::{Error, ErrorKind, Result};
use crate::event::{Event, EventRef, SurfaceOp};
use crate::format::event_types::mark;
use crate::model::{self, Closers};
use crate::surface::Surface;
use crate::types::Seq;

use super::fold::marks_in;

/// How often the end of a session is looked for while writers come and go.
const SETTLE_TRIES: u32 = 4;

/// What a view is to show. The default is the end of the session, with closers when nobody writes it.
///
/// ```
/// let at = everlog::ViewOptions::default().with_at(7);
/// assert_ne!(at, everlog::ViewOptions::default().with_raw());
/// assert_ne!(at.with_unknown_kept(), at.with_gaps());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ViewOptions {
    pub(super) at: Option<Seq>,
    pub(super) raw: bool,
    pub(super) keep_unknown: bool,
    pub(super) allow_gaps: bool,
}

impl ViewOptions {
    /// The session as it was right after the event `seq`, without closers.
    #[must_use]
    pub fn with_at(mut self, seq: Seq) -> Self {
        self.at = Some(seq);
        self
    }

    /// Never closers.
    #[must_use]
    pub fn with_raw(mut self) -> Self {
        self.raw = true;
        self
    }

    /// Steps over required events of unknown types as over those marked as ignorable.
    #[must_use]
    pub fn with_unknown_kept(mut self) -> Self {
        self.keep_unknown = true;
        self
    }

    /// Shows what is whole around damage: [`SessionView::gaps`] says what is missing.
    #[must_use]
    pub fn with_gaps(mut self) -> Self {
        self.allow_gaps = true;
        self
    }
}

/// A replacement on the surface.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
/// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
/// use everlog::{Level, NewEvent, SurfaceOp};
/// let text = br#"{"id":"m","role":"user","source":{"kind":"user"},"content":[]}"#;
/// let hi = NewEvent::new("user/message", text).with_surface_op(SurfaceOp::Append);
/// writer.append_batch(&[hi.clone(), hi.clone()], Level::Os)?;
/// let both = SurfaceOp::Replace { start: 0, end: 1 };
/// writer.append(&hi.with_surface_op(both).with_sources(vec![0, 1]))?;
/// let view = writer.view(Default::default())?;
/// let one = &view.replacements()[0];
/// assert_eq!((one.seq, one.start, one.end, &one.shadowed[..]), (2, 0, 1, &[0, 1][..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Replacement {
    /// The event that replaces.
    pub seq: Seq,
    /// First node of the range.
    pub start: Seq,
    /// Last node of the range.
    pub end: Seq,
    /// The nodes that were replaced, in surface order.
    pub shadowed: Box<[Seq]>,
}

/// The surface of a session at one place, with closers where they belong, and the way to its messages.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
/// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
/// use everlog::{NewEvent, SurfaceOp, ViewOptions};
/// let text = br#"{"id":"m","role":"user","source":{"kind":"user"},"content":[]}"#;
/// writer.append(&NewEvent::new("turn/start", br#"{"turn":1}"#))?;
/// writer.append(&NewEvent::new("user/message", text).with_surface_op(SurfaceOp::Append))?;
/// let view = writer.view(ViewOptions::default())?;
/// assert_eq!((view.nodes().collect::<Vec<_>>(), view.generation()), (vec![1], 0));
/// assert_eq!((view.end(), view.closers().len(), view.gaps().len()), (2, 0, 0));
/// let session = store.session(writer.id())?;
/// writer.close()?;
/// assert_eq!(&*session.view(ViewOptions::default())?.closers()[0].event_type, b"turn/end");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SessionView {
    pub(super) session: Session,
    pub(super) surface: Surface,
    pub(super) replacements: Vec<Replacement>,
    /// Surface events that append, replaced since or not, in order.
    appended: Vec<Seq>,
    pub(super) closers: Vec<Event>,
    pub(super) end: Seq,
    gaps: Vec<Range<Seq>>,
    pub(super) options: ViewOptions,
}

/// Whether an error says that stored bytes are not whole.
pub(super) fn is_damage(e: &Error) -> bool {
    matches!(e.kind(), ErrorKind::Corrupt | ErrorKind::Diverged)
}

impl Session {
    /// The surface at the end of the session or at an event, and the way to messages and transcript.
    ///
    /// # Errors
    /// `NotFound` when the options name an event past the end, `UnknownType` for a required event of an unknown type,
    /// `Corrupt` or `Diverged` when events are damaged, `Invalid` for an older shape that nobody knows, `Io`,
    /// `ForkedHandle`.
    ///
    /// [`SessionView`] has an example.
    pub fn view(&self, options: ViewOptions) -> Result<SessionView> {
        self.store.guard()?;
        if options.at.is_some() || options.raw {
            return self.view_of(options, false);
        }
        for _ in 0..SETTLE_TRIES {
            let view = self.view_of(options, false)?;
            if self.open_turn()?.is_none() {
                return Ok(view);
            }
            // Who let go wrote all before; what was written since the view was made shows in the refresh. A writer in
            // between leaves more events or holds the lock still.
            if self.store.locks.is_written(self.no)? {
                return Ok(view);
            }
            self.store.refresh()?;
            if self.next_seq() == view.end && !self.store.locks.is_written(self.no)? {
                return self.view_of(options, true);
            }
        }
        self.view_of(options, false)
    }

    fn view_of(&self, options: ViewOptions, closers: bool) -> Result<SessionView> {
        let next = self.next_seq();
        let end = match options.at {
            None => next,
            Some(seq) if seq < next => seq + 1,
            Some(seq) => {
                return Err(Error::new(
                    ErrorKind::NotFound,
                    "the session has no event of that seq",
                )
                .with_session(self.id())
                .with_seq(seq));
            }
        };
        if !options.keep_unknown {
            self.refuse_unknown(end, options.allow_gaps)?;
        }
        let mut view = SessionView {
            session: self.clone(),
            surface: Surface::new(),
            replacements: Vec::new(),
            appended: Vec::new(),
            closers: Vec::new(),
            end,
            gaps: Vec::new(),
            options,
        };
        view.cover()?;
        view.fold()?;
        if closers {
            view.close()?;
        }
        Ok(view)
    }

    /// Refuses when an event below `end` is of a type that may not be stepped over.
    pub(super) fn refuse_unknown(&self, end: Seq, allow_gaps: bool) -> Result<()> {
        for (owner, extent) in self.extents() {
            let runs = self.runs_at(owner, &extent)?;
            let firsts = marks_in(&runs, &extent).filter(|m| m.class == mark::OTHER && m.seq < end);
            for first in firsts {
                // The mark names the first of its frame.
                let found = self.with(first.seq, &mut |e| {
                    let unknown = !e.ignorable && !model::is_known(e.event_type);
                    unknown.then(|| model::unknown_type(e.event_type, e.seq))
                });
                match found {
                    Ok(Some(e)) => return Err(e.with_session(self.id())),
                    Err(e) if !(allow_gaps && is_damage(&e)) => return Err(e),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// The surface at the end, closers included, as [`Session::view`] gives it by default.
    ///
    /// # Errors
    /// As [`Session::view`].
    pub fn surface(&self) -> Result<Surface> {
        Ok(self.view(ViewOptions::default())?.surface)
    }

    /// The messages that a model is given at the end of the session: a JSON array of their exact texts. While nobody
    /// writes the session, an open turn is shown with its closers.
    ///
    /// # Errors
    /// As [`Session::view`].
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
    /// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
    /// use everlog::{NewEvent, SurfaceOp};
    /// let text = br#"{"id":"m","role":"user","source":{"kind":"user"},"content":[]}"#;
    /// assert_eq!(writer.messages()?, b"[]");
    /// writer.append(&NewEvent::new("user/message", text).with_surface_op(SurfaceOp::Append))?;
    /// assert_eq!(writer.messages()?, [b"[", &text[..], b"]"].concat());
    /// assert_eq!(writer.messages_at(0)?, writer.messages()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn messages(&self) -> Result<Vec<u8>> {
        self.view(ViewOptions::default())?.messages_json()
    }

    /// The messages right after the event `seq`, without closers. [`Session::messages`] has an example.
    ///
    /// # Errors
    /// As [`Session::view`].
    pub fn messages_at(&self, seq: Seq) -> Result<Vec<u8>> {
        self.view(ViewOptions::default().with_at(seq))?.messages_json()
    }
}

impl SessionView {
    /// Seqs of the nodes, in surface order. Those from [`SessionView::end`] on are closers.
    pub fn nodes(&self) -> impl Iterator<Item = Seq> + '_ {
        self.surface.iter()
    }

    /// How many replacements the surface has seen.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.surface.generation()
    }

    /// All replacements, in order of seq.
    #[must_use]
    pub fn replacements(&self) -> &[Replacement] {
        &self.replacements
    }

    /// The events that would balance the open turn, when the view shows them. Their seqs go on from the last event.
    #[must_use]
    pub fn closers(&self) -> &[Event] {
        &self.closers
    }

    /// How many stored events the view is of.
    #[must_use]
    pub fn end(&self) -> Seq {
        self.end
    }

    /// Seqs that are missing, where [`ViewOptions::with_gaps`] allows it: damaged events, and replacements of such.
    #[must_use]
    pub fn gaps(&self) -> &[Range<Seq>] {
        &self.gaps
    }

    /// Looks for events that the index has lost.
    fn cover(&mut self) -> Result<()> {
        let extents = self.session.extents();
        let mut next = 0;
        for (first, end) in
            extents.iter().map(|(_, e)| (e.first_seq, e.end_seq())).chain([(self.end, self.end)])
        {
            if first > next && next < self.end {
                let gap = next..first.min(self.end);
                if !self.options.allow_gaps {
                    // The error of the read says more than could be said here.
                    self.session.with(gap.start, &mut |_| ())?;
                    return Err(Error::corrupt("events of the session are lost; run check")
                        .with_session(self.session.id())
                        .with_seq(gap.start));
                }
                self.gaps.push(gap);
            }
            next = next.max(end);
        }
        Ok(())
    }

    fn fold(&mut self) -> Result<()> {
        let session = self.session.clone();
        let seqs = session.surface_seqs(self.end)?;
        if !self.options.allow_gaps {
            return session.visit(&seqs, &mut |event| self.take(event));
        }
        for seq in seqs {
            let taken = session.with(seq, &mut |event| self.take(event)).and_then(|taken| taken);
            match taken {
                Err(e) if is_damage(&e) => self.gaps.push(seq..seq + 1),
                other => other?,
            }
        }
        self.gaps.sort_by_key(|gap| gap.start);
        Ok(())
    }

    fn take(&mut self, event: &EventRef<'_>) -> Result<()> {
        let Some(op) = event.surface_op else { return Ok(()) };
        let plan = self.surface.plan(event.seq, op).map_err(|refusal| {
            Error::corrupt(format!(
                "a stored surface event does not fit the surface ({refusal}); run check"
            ))
            .with_session(self.session.id())
            .with_seq(event.seq)
        })?;
        self.surface.apply(&plan);
        match op {
            SurfaceOp::Append => self.appended.push(event.seq),
            SurfaceOp::Replace { start, end } => self.replacements.push(Replacement {
                seq: event.seq,
                start,
                end,
                shadowed: plan.shadowed().into(),
            }),
        }
        Ok(())
    }

    /// Adds the closers of the turn that is open at the end.
    fn close(&mut self) -> Result<()> {
        for event in self.session.closers(self.end, self.options.allow_gaps)? {
            self.take(&event.as_ref())?;
            self.closers.push(event);
        }
        Ok(())
    }

    /// Hands on the messages in order: the seq of each node that gives one, and the exact JSON text.
    ///
    /// # Errors
    /// As [`Session::view`], and what `f` gives, which ends it.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
    /// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
    /// use everlog::{NewEvent, SurfaceOp};
    /// let text = br#"{"id":"m","role":"user","source":{"kind":"user"},"content":[]}"#;
    /// writer.append(&NewEvent::new("user/message", text).with_surface_op(SurfaceOp::Append))?;
    /// let mut seen = Vec::new();
    /// writer.view(Default::default())?.messages(&mut |seq, message| {
    ///     seen.push((seq, message.len()));
    ///     Ok(())
    /// })?;
    /// assert_eq!(seen, [(0, text.len())]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn messages(&self, f: &mut dyn FnMut(Seq, &[u8]) -> Result<()>) -> Result<()> {
        let nodes: Vec<Seq> = self.surface.iter().collect();
        self.project(&nodes, f)
    }

    /// Hands on what people saw, in log order: the message of every surface event that appended, replaced since or not.
    ///
    /// # Errors
    /// As [`SessionView::messages`].
    pub fn transcript(&self, f: &mut dyn FnMut(Seq, &[u8]) -> Result<()>) -> Result<()> {
        self.project(&self.appended, f)
    }

    /// The messages as one JSON array.
    ///
    /// # Errors
    /// As [`SessionView::messages`].
    pub fn messages_json(&self) -> Result<Vec<u8>> {
        let mut out = vec![b'['];
        self.messages(&mut |_, message| {
            if out.len() > 1 {
                out.push(b',');
            }
            out.extend_from_slice(message);
            Ok(())
        })?;
        out.push(b']');
        Ok(out)
    }

    fn project(&self, seqs: &[Seq], f: &mut dyn FnMut(Seq, &[u8]) -> Result<()>) -> Result<()> {
        let mut one = |event: &EventRef<'_>| {
            let view = self.session.modern(event)?;
            match model::message_in(view.event_type, &view.data) {
                Some(message) => f(event.seq, message),
                None => Ok(()),
            }
        };
        // Replacements break the order of seqs; each rising stretch reads a frame once.
        for stretch in seqs.chunk_by(|a, b| a < b) {
            let stored = stretch.partition_point(|seq| *seq < self.end);
            let (stored, closers) = stretch.split_at(stored);
            if self.options.allow_gaps {
                for seq in stored {
                    let event = self.session.read(*seq)?;
                    one(&event.as_ref())?;
                }
            } else {
                self.session.visit(stored, &mut one)?;
            }
            let wanted = |event: &&Event| closers.contains(&event.seq);
            for event in self.closers.iter().filter(wanted) {
                one(&event.as_ref())?;
            }
        }
        Ok(())
    }
}

impl Session {
    /// The closers of the turn that is open at the end, which is at `end`.
    pub(super) fn closers(&self, end: Seq, allow_gaps: bool) -> Result<Vec<Event>> {
        let Some(start) = self.open_turn()? else { return Ok(Vec::new()) };
        let mut closers = Closers::default();
        let mut take = |event: &EventRef<'_>| {
            let view = self.modern(event)?;
            closers.apply(event.seq, event.time_ms, &view);
            Ok(())
        };
        if !allow_gaps {
            self.for_each(start, end.saturating_sub(1), &mut take)?;
            return Ok(closers.events());
        }
        for event in self.range(start, end.saturating_sub(1)) {
            match event.and_then(|event| take(&event.as_ref())) {
                Err(e) if is_damage(&e) => {}
                other => other?,
            }
        }
        Ok(closers.events())
    }

    /// An event of this session in today's shape.
    pub(super) fn modern<'a>(&self, event: &EventRef<'a>) -> Result<model::View<'a>> {
        model::modern(event, self.id().as_bytes(), &mut |seq| self.read(seq))
            .map_err(|e| e.with_session(self.id()))
    }
}
