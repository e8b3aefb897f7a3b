//! Giving a session back as a log of dsh: its exact header line, then its events.

use std::io::Write;

use crate::dsh::{FrameWriter, JsonlWriter, PackWriter, is_jsonl_header, write_event, write_line};
use crate::error::{Error, Result};
use crate::event::EventRef;
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
        let mut pack = PackWriter::new();
        self.export_with(id, out, true, &mut Plain, &mut |step, buf| {
            match (step, packed) {
                (Some(event), true) => pack.push(event, buf)?,
                (Some(event), false) => write_event(buf, event)?,
                (None, _) => pack.finish(buf),
            }
            Ok(())
        })
    }

    /// Writes a session as dsh's compressed log (dsh-spec.md section 8.5): a frame with the header line, then frames of
    /// packed lines, each with a checksum. Returns how many events it wrote.
    ///
    /// # Errors
    /// As [`Store::export_dsh`]; what was written before it is whole frames.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
    /// # let mut writer = store.create_session(&everlog::NewSession::new("a")?)?;
    /// writer.append(&everlog::NewEvent::new("note", b"[1, 2]").with_time_ms(5))?;
    /// let mut out = Vec::new();
    /// store.export_dsh_zstd(writer.id(), &mut out)?;
    /// let options = everlog::ImportOptions { id_prefix: Some("again-".into()), ..Default::default() };
    /// assert_eq!(store.import_dsh(&out[..], &options, &mut |_| true)?.stored, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn export_dsh_zstd(&self, id: &SessionId, out: &mut dyn Write) -> Result<u64> {
        let mut pack = PackWriter::new();
        let mut frames = Frames { writer: FrameWriter::new()?, frame: Vec::new() };
        self.export_with(id, out, true, &mut frames, &mut |step, buf| {
            match step {
                Some(event) => pack.push(event, buf)?,
                // A run of chunks never goes on in another frame.
                None => pack.finish(buf),
            }
            Ok(())
        })
    }

    /// Writes a session as JSONL. One that [`Store::import_jsonl`] made comes out as the bytes it was made from, but for
    /// a byte order mark, blank lines and carriage returns before newlines; events added since are canonical lines. Any
    /// other session comes out as its header line and one canonical line an event, whatever its type. Returns how
    /// many events it wrote.
    ///
    /// # Errors
    /// `NotFound`, `Corrupt` or `Diverged` when an event cannot be read, `Io` from `out`, `ForkedHandle`.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
    /// let options = everlog::ImportOptions { name: "log".into(), ..Default::default() };
    /// let log = b"{\"n\": 1}\n{\"a\":1}{\"b\":2}\nno JSON\n{\"unended\":true}";
    /// let report = store.import_jsonl(&log[..], &options, &mut |_| true)?;
    /// let mut out = Vec::new();
    /// store.export_jsonl(&report.session, &mut out)?;
    /// assert_eq!(out, log);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn export_jsonl(&self, id: &SessionId, out: &mut dyn Write) -> Result<u64> {
        let lines = is_jsonl_header(&self.session(id)?.header()?);
        let mut writer = JsonlWriter::default();
        self.export_with(id, out, !lines, &mut Plain, &mut |step, buf| {
            match (step, lines) {
                (Some(event), true) => writer.push(event, buf)?,
                (Some(event), false) => write_line(buf, event),
                (None, true) => writer.finish(buf),
                (None, false) => {}
            }
            Ok(())
        })
    }

    /// Writes a session by `write`, which is given every event, and nothing where what it holds must come out.
    fn export_with(
        &self,
        id: &SessionId,
        out: &mut dyn Write,
        with_header: bool,
        wrap: &mut dyn Wrap,
        write: &mut WriteEvent<'_>,
    ) -> Result<u64> {
        let session = self.session(id)?;
        let mut buf = Vec::new();
        if with_header {
            buf = session.header()?;
            buf.push(b'\n');
            wrap.put(&mut buf, true, out)?;
        }
        let mut events = 0;
        let end = session.next_seq();
        let done = session.for_each(0, end.saturating_sub(1), &mut |event| {
            write(Some(event), &mut buf)?;
            events += 1;
            if buf.len() < CHUNK_BYTES {
                return Ok(());
            }
            if wrap.is_batch() {
                write(None, &mut buf)?;
            }
            wrap.put(&mut buf, false, out)
        });
        if end == 0 || done.is_ok() {
            write(None, &mut buf)?;
        }
        wrap.put(&mut buf, false, out)?;
        if end > 0 {
            done?;
        }
        Ok(events)
    }
}

/// Appends an event to text; without one, what it held back.
type WriteEvent<'f> = dyn FnMut(Option<&EventRef<'_>>, &mut Vec<u8>) -> Result<()> + 'f;

/// How text gets to the output.
trait Wrap {
    /// Whether each piece of text stands for itself.
    fn is_batch(&self) -> bool;

    /// Writes the text and empties the buffer.
    fn put(&mut self, text: &mut Vec<u8>, header: bool, out: &mut dyn Write) -> Result<()>;
}

/// Text as it is.
struct Plain;

impl Wrap for Plain {
    fn is_batch(&self) -> bool {
        false
    }

    fn put(&mut self, text: &mut Vec<u8>, header: bool, out: &mut dyn Write) -> Result<()> {
        if header {
            return Ok(());
        }
        let wrote = out.write_all(text).map_err(|e| Error::io("writing the export", &e));
        text.clear();
        wrote
    }
}

/// Text in frames.
struct Frames {
    writer: FrameWriter,
    frame: Vec<u8>,
}

impl Wrap for Frames {
    fn is_batch(&self) -> bool {
        true
    }

    fn put(&mut self, text: &mut Vec<u8>, _header: bool, out: &mut dyn Write) -> Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.frame.clear();
        self.writer.frame(text, &mut self.frame)?;
        text.clear();
        out.write_all(&self.frame).map_err(|e| Error::io("writing the export", &e))
    }
}
