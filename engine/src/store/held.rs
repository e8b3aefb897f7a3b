//! Sessions that somebody writes now.

use super::Store;
use crate::error::{Holder, Result};
use crate::types::{LaneNo, SessionId};

/// A session whose lock is held, and by whom, as [`Store::held_sessions`] gives it.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// use everlog::{NewSession, Store, StoreOptions};
/// let options = StoreOptions::default().with_label("agent");
/// let store = Store::create(folder.path().join("s"), options)?;
/// let writer = store.create_session(&NewSession::new("a")?)?;
/// let held = store.held_sessions()?;
/// assert_eq!((held.len(), &held[0].id), (1, writer.id()));
/// assert_eq!((held[0].holder.pid, &held[0].holder.label[..]), (std::process::id(), "agent"));
/// drop(writer);
/// assert!(store.held_sessions()?.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[non_exhaustive]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeldSession {
    /// Name of the session.
    pub id: SessionId,
    /// What is known of the holder. Pid, lane and time are from the lock's record, host and label from the lane.
    pub holder: Holder,
}

impl Store {
    /// Visible sessions that somebody writes now, sorted by id: this process or another. Takes no lock, so no writer
    /// meets the question; costs a few system calls a lane and one for each holder. [`HeldSession`] has an example.
    ///
    /// # Errors
    /// `Io`, `ForkedHandle`.
    pub fn held_sessions(&self) -> Result<Vec<HeldSession>> {
        self.inner.guard()?;
        let homes: Vec<LaneNo> = self.inner.lanes.read().views.keys().copied().collect();
        let mut out = Vec::new();
        for home in homes {
            let held = self.inner.locks.held(home)?;
            if held.is_empty() {
                continue;
            }
            let lanes = self.inner.lanes.read();
            let own = lanes.index.table.iter().filter(|r| r.no.home_lane() == home);
            out.extend(own.filter(|r| r.is_visible()).filter_map(|r| {
                let holder = held.holder(r.no)?;
                Some(HeldSession { id: r.id.clone(), holder })
            }));
        }
        for held in &mut out {
            self.inner.name_holder(&mut held.holder);
        }
        out.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(out)
    }
}
