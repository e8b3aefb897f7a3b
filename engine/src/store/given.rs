//! What a subscription gives, and what it must know of a frame before.

use crate::event::Event;
use crate::format::Fault;
use crate::format::events::Events as FrameEvents;
use crate::format::frame::FrameHeader;
use crate::index::Place;
use crate::types::{EventId, Seq, SessionId};

/// An event of any session, as a [`Subscription`](crate::Subscription) gives it.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
/// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
/// writer.append(&everlog::NewEvent::new("note", b"1"))?;
/// let mut all = store.subscribe(&everlog::Cursor::default(), Default::default())?;
/// let given: everlog::StoreEvent = all.try_next()?.expect("there is one");
/// assert_eq!((&given.session, given.event.seq), (writer.id(), 0));
/// assert_eq!(given.id, writer.event_id(0)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoreEvent {
    /// The session.
    pub session: SessionId,
    /// Identity of the event.
    pub id: EventId,
    /// The event.
    pub event: Event,
}

/// What a frame needs to know of its session.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) id: SessionId,
    pub(crate) is_given: bool,
    pub(crate) published: Option<(Place, Seq)>,
    pub(crate) is_split: bool,
}

/// Hands on the events of a frame.
pub(crate) fn each_event(
    h: &FrameHeader,
    payload: &[u8],
    f: &mut dyn FnMut(Event),
) -> std::result::Result<(), Fault> {
    let mut events = FrameEvents::open(payload, h.count, h.flags, h.seq)?;
    while let Some(event) = events.next_event() {
        f(event?.to_owned());
    }
    Ok(())
}
