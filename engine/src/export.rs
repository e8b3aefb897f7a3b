//! Giving a session back as a log of dsh: its exact header line, then its events.

use std::io::Write;

use crate::dsh::{PackWriter, write_event};
use crate::error::{Error, Result};
use crate::store::Store;
use crate::types::SessionId;

/// Bytes gathered before they are handed to the writer.
const CHUNK_BYTES: usize = 256 << 10;

impl Store {
    /// Writes a session as JSONL: one event a line, or runs of stream chunks as packed rows. Returns how many events it
    /// wrote.
    ///
    /// The bytes equal those of an imported file that has LF ends, no blank lines, rows as one batch packs them and one of
    /// the key orders of [`write_event`].
    ///
    /// # Errors
    /// `NotFound`, `Corrupt` or `Diverged` when an event cannot be read: what was written before it is whole lines. `Io` from
    /// `out`. `Invalid` for an event whose type is the tag of a packed row (dsh-spec.md section 8.4). `ForkedHandle`.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
    /// # let mut writer = store.create_session(&everlog::NewSession::new("a")?.with_created_at_ms(1))?;
    /// writer.append(&everlog::NewEvent::new("note", b"[1, 2]").with_time_ms(5))?;
    /// let mut out = Vec::new();
    /// store.export_dsh(writer.id(), false, &mut out)?;
    /// let text = String::from_utf8(out)?;
    /// assert!(text.ends_with("{\"type\":\"note\",\"seq\":0,\"time\":5,\"data\":[1, 2]}\n"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn export_dsh(&self, id: &SessionId, packed: bool, out: &mut dyn Write) -> Result<u64> {
        let session = self.session(id)?;
        let mut buf = session.header()?;
        buf.push(b'\n');
        let mut pack = PackWriter::new();
        let mut events = 0;
        let mut flush = |buf: &mut Vec<u8>, limit: usize| -> Result<()> {
            if buf.len() < limit {
                return Ok(());
            }
            let wrote = out.write_all(buf).map_err(|e| Error::io("writing the export", &e));
            buf.clear();
            wrote
        };
        let end = session.next_seq();
        let done = session.for_each(0, end.saturating_sub(1), &mut |event| {
            if packed {
                pack.push(event, &mut buf)?;
            } else {
                write_event(&mut buf, event)?;
            }
            events += 1;
            flush(&mut buf, CHUNK_BYTES)
        });
        if end == 0 || done.is_ok() {
            pack.finish(&mut buf);
        }
        flush(&mut buf, 1)?;
        if end > 0 {
            done?;
        }
        Ok(events)
    }
}
