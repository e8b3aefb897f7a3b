//! What an append gives back: where the events are, and how far they have come.

use std::sync::Arc;

use crate::error::Result;
use crate::lane::Lane;
use crate::options::Level;
use crate::types::{EventId, Seq};

/// Proof of an append: its seqs, and a way to wait for a higher level. Dropping it changes nothing.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
/// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
/// use everlog::{Level, NewEvent};
/// let receipt = writer.append(&NewEvent::new("note", b"1"))?;
/// assert_eq!((receipt.first_seq(), receipt.last_seq(), receipt.level()), (0, 0, Level::Os));
/// assert_eq!(receipt.first_id(), writer.event_id(0)?);
/// receipt.wait(Level::Sync)?;
/// assert!(receipt.poll(Level::Sync)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a receipt says whether the events are safe"]
pub struct Receipt {
    pub(super) lane: Arc<Lane>,
    generation: u64,
    pub(super) pos: u64,
    first_seq: Seq,
    last_seq: Seq,
    first_id: EventId,
    level: Level,
}

impl Receipt {
    pub(crate) fn new(
        lane: Arc<Lane>,
        pos: u64,
        seqs: (Seq, Seq),
        first_id: EventId,
        level: Level,
    ) -> Self {
        let generation = lane.vfs.fork_generation();
        Self { lane, generation, pos, first_seq: seqs.0, last_seq: seqs.1, first_id, level }
    }

    /// Seq of the first event of the append.
    #[must_use]
    pub fn first_seq(&self) -> Seq {
        self.first_seq
    }

    /// Seq of the last event of the append.
    #[must_use]
    pub fn last_seq(&self) -> Seq {
        self.last_seq
    }

    /// Identity of the first event; those after it have the next gsns.
    #[must_use]
    pub fn first_id(&self) -> EventId {
        self.first_id
    }

    /// Level that the append had reached when it returned.
    #[must_use]
    pub fn level(&self) -> Level {
        self.level
    }

    /// Waits until the events have reached a level, doing the write and the sync if nobody else does.
    ///
    /// # Errors
    /// `OutcomeUnknown` when the write or the sync fails or failed, `ForkedHandle`.
    ///
    /// # Durability
    /// With [`Level::Sync`] the events survive the machine when this returns.
    pub fn wait(&self, level: Level) -> Result<()> {
        self.guard()?;
        match level {
            Level::Buffered => Ok(()),
            Level::Os => self.lane.flush_to(self.pos),
            Level::Sync => self.lane.sync_to(self.pos),
        }
    }

    pub(super) fn guard(&self) -> Result<()> {
        if self.lane.vfs.fork_generation() == self.generation {
            return Ok(());
        }
        Err(crate::Error::new(
            crate::ErrorKind::ForkedHandle,
            "the receipt was made before fork; open the store again in the child",
        ))
    }

    /// Whether the events have reached a level, without waiting.
    ///
    /// # Errors
    /// `Poisoned` when they have not and never will, `ForkedHandle`.
    pub fn poll(&self, level: Level) -> Result<bool> {
        self.guard()?;
        let reached = match level {
            Level::Buffered => true,
            Level::Os => self.lane.is_written(self.pos),
            Level::Sync => self.lane.is_durable(self.pos),
        };
        if !reached {
            self.lane.alive()?;
        }
        Ok(reached)
    }
}
