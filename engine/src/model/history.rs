//! The derived messages of a session, kept up to date as its events come in.
//!
//! # Invariants
//! Hi1. After any events the messages are those that a fold from the start gives.
//! Hi2. Each node is projected once, when it comes; a list that was given out never changes.
//! Hi3. A refused event leaves everything as it was.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::event::{Event, EventRef};
use crate::surface::Surface;
use crate::types::{Seq, SessionId};

use super::message::message_in;
use super::modern::{is_known, modern, unknown_type};

/// Surface and messages of a session as the events so far have left them. Memory: the text of the messages on the
/// surface.
///
/// ```
/// use everlog::{Event, History, NewEvent, SessionId, SurfaceOp};
/// # let folder = tempfile::tempdir()?;
/// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
/// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
/// let text = br#"{"id":"m","role":"user","source":{"kind":"user"},"content":[]}"#;
/// writer.append(&NewEvent::new("user/message", text).with_surface_op(SurfaceOp::Append))?;
/// let mut history = History::new(writer.id());
/// for event in writer.iter() {
///     history.apply(&event?.as_ref(), &mut |seq| writer.read(seq))?;
/// }
/// assert_eq!(&*history.messages()[0], text);
/// assert_eq!(history.surface().len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct History {
    session: SessionId,
    surface: Surface,
    /// Messages of the nodes; none for a node that gives none.
    texts: HashMap<Seq, Option<Arc<[u8]>>>,
}

impl History {
    /// The history of a session without events.
    #[must_use]
    pub fn new(session: &SessionId) -> Self {
        Self { session: session.clone(), surface: Surface::new(), texts: HashMap::new() }
    }

    /// The surface so far.
    #[must_use]
    pub fn surface(&self) -> &Surface {
        &self.surface
    }

    /// Takes the next event in. Events come in order; those that are not on the surface may be left out, when their
    /// types are known. `read` gives an earlier event, for tool results of an older shape.
    ///
    /// # Errors
    /// `UnknownType`, `Invalid` for an event that does not fit the surface or has a shape that nobody knows, and what
    /// `read` gives. The history is as it was.
    pub fn apply(
        &mut self,
        event: &EventRef<'_>,
        read: &mut dyn FnMut(Seq) -> Result<Event>,
    ) -> Result<()> {
        if !event.ignorable && !is_known(event.event_type) {
            return Err(unknown_type(event.event_type, event.seq).with_session(&self.session));
        }
        let Some(op) = event.surface_op else { return Ok(()) };
        let plan = self.surface.plan(event.seq, op).map_err(|refusal| {
            Error::invalid(refusal.field(), refusal).with_seq(event.seq).with_session(&self.session)
        })?;
        let view = modern(event, self.session.as_bytes(), read)?;
        let text = message_in(view.event_type, &view.data).map(Arc::from);
        self.surface.apply(&plan);
        for node in plan.shadowed() {
            self.texts.remove(node);
        }
        self.texts.insert(event.seq, text);
        Ok(())
    }

    /// The messages, in order, each as exact JSON text.
    #[must_use]
    pub fn messages(&self) -> Vec<Arc<[u8]>> {
        self.surface.iter().filter_map(|seq| self.texts.get(&seq).cloned().flatten()).collect()
    }
}
