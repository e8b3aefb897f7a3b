//! Events made ready ahead of their append: their text is made and checked once, on any thread, for any session.
//!
//! # Invariants
//! Pr1. The data of every event here is JSON within `json_depth_max` of the defaults; nothing can change it afterwards.

use serde::Serialize;

use crate::error::{Error, Result};
use crate::event::NewEvent;
use crate::limits;

/// Events whose data is known to be JSON, for [`SessionWriter::append_prepared`](crate::SessionWriter::append_prepared).
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
/// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
/// use everlog::{Level, NewEvent, PreparedBatch};
/// let mut batch = PreparedBatch::new();
/// batch.push_json("turn/start", &std::collections::BTreeMap::from([("turn", 1)]))?;
/// batch.push(NewEvent::new("note", b"[1, 2]"))?;
/// assert!(batch.push(NewEvent::new("note", b"[1, 2")).is_err());
/// let receipt = writer.append_prepared(&batch, Level::Os)?;
/// assert_eq!((batch.len() as u64, receipt.last_seq()), (2, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct PreparedBatch {
    events: Vec<NewEvent<'static>>,
}

impl PreparedBatch {
    /// A batch of no events.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an event.
    ///
    /// # Errors
    /// `Invalid` when its data is not JSON, `Limit` when it is nested more than 4,096 deep.
    pub fn push(&mut self, event: NewEvent<'_>) -> Result<()> {
        crate::json::check(&event.data, limits::JSON_DEPTH_MAX).map_err(|fault| {
            match fault.what {
                crate::json::JsonFaultKind::Depth { max } => {
                    Error::limit("data", max as u64 + 1, max as u64)
                }
                _ => Error::invalid("data", fault),
            }
        })?;
        self.events.push(event.into_owned());
        Ok(())
    }

    /// Adds an event whose data is made from a value, as by [`SessionWriter::append_json`](crate::SessionWriter::append_json).
    ///
    /// # Errors
    /// `Invalid` when the value has no JSON form; else as [`PreparedBatch::push`].
    pub fn push_json<T: Serialize + ?Sized>(&mut self, event_type: &str, data: &T) -> Result<()> {
        let text = crate::json::to_text(data)?;
        self.push(NewEvent::new(event_type, &text))
    }

    /// How many events are in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether no event is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Takes all events out.
    pub fn clear(&mut self) {
        self.events.clear();
    }

    /// The events.
    #[must_use]
    pub fn events(&self) -> &[NewEvent<'static>] {
        &self.events
    }
}
