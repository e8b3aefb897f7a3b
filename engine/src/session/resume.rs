//! Going on with a session: its open turn is closed for good, and the end of what was is marked.
//!
//! # Invariants
//! Re1. Closers and the mark go in as one append: all or none.
//! Re2. A session that nothing was added to since its last resumption does not grow.

use super::read::Session;
use super::view::ViewOptions;
use super::write::SessionWriter;
use crate::data;
use crate::error::{Error, Result};
use crate::event::{Event, NewEvent};
use crate::options::Level;
use crate::session::LandmarkKind;
use crate::types::Seq;

/// Type of the event that marks where a session was taken up again.
const END_SEED: &str = "session/end-seed";

/// A tool call of which nobody knows whether it took effect.
///
/// ```
/// let call = everlog::UnknownCall { call_id: b"c1".to_vec(), seq: 7 };
/// assert_eq!((&call.call_id[..], call.seq), (&b"c1"[..], 7));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownCall {
    /// The provider's id of the call, WTF-8.
    pub call_id: Vec<u8>,
    /// The `tool/call` event.
    pub seq: Seq,
}

/// What a resumption did and found. [`SessionWriter::resume`] has another example.
///
/// ```
/// let none = everlog::Resumption::default();
/// assert_eq!((none.next_seq, none.closers, none.marked, none.last_request), (0, 0, false, None));
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Resumption {
    /// Seq that the next event gets.
    pub next_seq: Seq,
    /// How many events were appended to close an open turn.
    pub closers: u64,
    /// Whether the mark `session/end-seed` was appended; not when the session ended with one.
    pub marked: bool,
    /// The last `request/header` event.
    pub last_request: Option<Seq>,
    /// Calls of the open turn whose outcome is unknown, in the order of their announcement.
    pub unknown_calls: Vec<UnknownCall>,
}

impl SessionWriter {
    /// Takes the session up again: appends the closers of an open turn and the mark `session/end-seed`, at `level`. Of
    /// the options, only [`ViewOptions::with_unknown_kept`] counts.
    ///
    /// # Errors
    /// `UnknownType` for a required event of an unknown type, `Corrupt` when the open turn cannot be read, else as
    /// [`SessionWriter::append_batch`]. Nothing was appended.
    ///
    /// # Durability
    /// As [`SessionWriter::append_batch`].
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
    /// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
    /// use everlog::{Level, NewEvent, Resumption, SurfaceOp, UnknownCall, ViewOptions};
    /// let said = br#"{"turn":1,"step":1,"message":{"id":"m","role":"assistant","content":
    ///     [{"type":"tool-call","id":"c","name":"rm","arguments":"{}"}],
    ///     "source":{"kind":"model","provider":"p","model":"m"}}}"#;
    /// writer.append(&NewEvent::new("turn/start", br#"{"turn":1}"#))?;
    /// writer.append(&NewEvent::new("assistant/message", said).with_surface_op(SurfaceOp::Append))?;
    /// writer.append(&NewEvent::new("tool/call", br#"{"turn":1,"step":1,"callId":"c"}"#))?;
    /// let done: Resumption = writer.resume(ViewOptions::default(), Level::Sync)?;
    /// assert_eq!((done.closers, done.marked, done.next_seq), (2, true, 6));
    /// assert_eq!(done.unknown_calls, [UnknownCall { call_id: b"c".to_vec(), seq: 2 }]);
    /// let again = writer.resume(ViewOptions::default(), Level::Sync)?;
    /// assert_eq!((again.closers, again.marked, again.next_seq), (0, false, 6));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn resume(&mut self, options: ViewOptions, level: Level) -> Result<Resumption> {
        let end = self.next_seq();
        if !options.keep_unknown {
            self.refuse_unknown(end, false)?;
        }
        let closers = self.closers(end, false)?;
        let ended = match end.checked_sub(1) {
            Some(last) => self.with(last, &mut |e| e.event_type == END_SEED.as_bytes())?,
            None => false,
        };
        let marked = !ended || !closers.is_empty();
        let mut events: Vec<NewEvent<'_>> = closers.iter().map(as_new).collect::<Result<_>>()?;
        if marked {
            events.push(NewEvent::new(END_SEED, b"{}"));
        }
        let unknown_calls = closers.iter().filter_map(unknown_call).collect();
        let last_request = self.last_request()?;
        if !events.is_empty() {
            let receipt = self.append_batch(&events, level)?;
            debug_assert_eq!(receipt.first_seq(), end);
        }
        Ok(Resumption {
            next_seq: self.next_seq(),
            closers: closers.len() as u64,
            marked,
            last_request,
            unknown_calls,
        })
    }
}

impl Session {
    fn last_request(&self) -> Result<Option<Seq>> {
        for mark in self.landmarks()?.iter().rev() {
            if mark.kind == LandmarkKind::Request
                && self.with(mark.seq, &mut |e| e.event_type == b"request/header")?
            {
                return Ok(Some(mark.seq));
            }
        }
        Ok(None)
    }
}

fn unknown_call(closer: &Event) -> Option<UnknownCall> {
    let [seq] = **closer.sources.as_ref()? else { return None };
    let id = data::at(&closer.data, &["message", "source", "callId"]).and_then(data::text)?;
    Some(UnknownCall { call_id: id.into_owned(), seq })
}

/// A closer as an event to append.
fn as_new(closer: &Event) -> Result<NewEvent<'_>> {
    let event_type = std::str::from_utf8(&closer.event_type)
        .map_err(|_| Error::corrupt("a closer has no type"))?;
    let mut new = NewEvent::new(event_type, &closer.data).with_time_ms(closer.time_ms);
    new.surface_op = closer.surface_op;
    new.sources = closer.sources.as_deref().map(Into::into);
    new.surface_first = closer.surface_first;
    Ok(new)
}
