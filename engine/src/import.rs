//! Taking in a log of dsh: a session that is invisible until its last event is durable.
//!
//! # Invariants
//! Im1. An input goes in whole or not at all: PUBLISH follows the last event, and is durable when the import returns.
//! Im2. Memory is bounded: one line, and one batch of events.
//! Im3. The same input again changes nothing; one that goes on behind the stored end adds the rest as one batch, all or
//!     none; another one under the same id is refused.

use std::borrow::Cow;
use std::io::Read;

use crate::accept::TOOL_RESULT;
use crate::dsh::{self, ImportHeader, ImportOutcome, ImportSink, LineRange};
use crate::error::{Error, ErrorKind, Result};
use crate::event::NewEvent;
use crate::format::columns::shared_bytes;
use crate::format::control::{Body, Control};
use crate::limits;
use crate::options::planted;
use crate::session::{NewSession, Session, SessionWriter};
use crate::store::Store;
use crate::types::{Seq, SessionId};

/// Events and bytes of one frame of an import: large enough that the header costs little, small enough that reading
/// one event verifies few others. What events share with the one before is not counted: columns store it once.
const BATCH_EVENTS: usize = 64;
const BATCH_BYTES: usize = 4 << 10;

/// How an input is read and named.
///
/// ```
/// let options = everlog::ImportOptions { dry_run: true, ..Default::default() };
/// assert_eq!(options.line_bytes_max, everlog::limits::LINE_BYTES_MAX);
/// assert_eq!(options.decoded_bytes_max, 64 << 30);
/// ```
#[derive(Clone, Debug)]
pub struct ImportOptions {
    /// Name of the file without its endings: takes the place of an id that is a placeholder.
    pub name: String,
    /// Put before the session's id; the whole stays within 1,024 bytes.
    pub id_prefix: Option<String>,
    /// Longest line, in bytes; 64 MiB by default.
    pub line_bytes_max: usize,
    /// Most bytes that a compressed input may unpack to; 64 GiB by default.
    pub decoded_bytes_max: u64,
    /// Reads and judges everything, stores nothing.
    pub dry_run: bool,
    /// Keeps what would refuse the input: the events up to the first line that cannot take its place, then that line
    /// and all after it as ignorable events of type `everlog/salvaged`, with line, offset and text.
    pub salvage: bool,
}

impl Default for ImportOptions {
    fn default() -> Self {
        Self {
            name: String::new(),
            id_prefix: None,
            line_bytes_max: limits::LINE_BYTES_MAX,
            decoded_bytes_max: 64 << 30,
            dry_run: false,
            salvage: false,
        }
    }
}

/// Something about an input that the user should know; it went in all the same.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
/// let log = concat!(
///     r#"{"type":"session","version":0,"id":"a","createdAt":1,"delegationDepth":0}"#, "\n",
///     r#"{"type":"turn/start","seq":0,"time":2,"data":{"turn":1}}"#, "\n",
///     r#"{"type":"turn/e"#,
/// );
/// let report = store.import_dsh(log.as_bytes(), &Default::default(), &mut |_| true)?;
/// assert_eq!((report.stored, report.added, report.torn_bytes), (1, 1, 15));
/// assert_eq!((report.warnings[0].line, report.warnings[0].offset), (Some(3), Some(131)));
/// assert!(report.warnings[0].message.contains("no whole event"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[non_exhaustive]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImportWarning {
    /// Line where it was met first, from 1.
    pub line: Option<u64>,
    /// Offset in the input, for a torn tail.
    pub offset: Option<u64>,
    /// What it is.
    pub message: String,
}

/// What an import did.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
/// let log = r#"{"type":"session","version":0,"id":"a","createdAt":1,"delegationDepth":0}"#.to_owned() + "\n";
/// let event = r#"{"type":"turn/start","seq":0,"time":2,"data":{"turn":1}}"#.to_owned() + "\n";
/// let options = everlog::ImportOptions { id_prefix: Some("x-".into()), ..Default::default() };
/// store.import_dsh(log.as_bytes(), &options, &mut |_| true)?;
/// let more = store.import_dsh((log + &event).as_bytes(), &options, &mut |_| true)?;
/// assert_eq!((more.session.as_str(), more.stored, more.added), (Some("x-a"), 1, 1));
/// assert!(more.torn_bytes == 0 && more.warnings.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[non_exhaustive]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImportReport {
    /// The session.
    pub session: SessionId,
    /// Events that it holds now.
    pub stored: u64,
    /// Events that this import added.
    pub added: u64,
    /// Bytes at the end of the input that held no whole event.
    pub torn_bytes: u64,
    /// Lines, and damaged zstd frames, that were kept as events of type `everlog/salvaged`.
    pub salvaged: u64,
    /// Which lines these are: one entry a line; after 1,000 neighbours share one, and after 10,000 none is added.
    pub aside: Vec<LineRange>,
    /// What the user should know.
    pub warnings: Vec<ImportWarning>,
}

impl Store {
    /// Imports one log of dsh, plain or compressed, whole or not at all. `progress` is told how many bytes of the
    /// input were read; when it gives `false` the import ends with kind `Io` and nothing is stored.
    ///
    /// # Errors
    /// As [`read_log`](crate::dsh::read_log): `Corrupt`, `Unsupported`, `Invalid`, `Limit` with line, offset, seq and field.
    /// `Exists` when a session of that id holds something else, `Locked` when it is being imported or written by another,
    /// `Limit` when the input adds more than one batch to a session that is there. `Io`, `StorageFull`, `ReadOnly`,
    /// `OutcomeUnknown`, `Poisoned`, `ForkedHandle`.
    ///
    /// # Durability
    /// All that was added survives the machine when this returns; a dry run adds nothing. After an error, or a crash
    /// before, the store holds what it held.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
    /// use everlog::ImportOptions;
    /// let log = b"{\"type\":\"session\",\"version\":0,\"id\":\"a\",\"createdAt\":1,\"delegationDepth\":0}\n";
    /// let report = store.import_dsh(&log[..], &ImportOptions::default(), &mut |_| true)?;
    /// assert_eq!((report.session.as_str(), report.stored), (Some("a"), 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn import_dsh(
        &self,
        input: impl Read,
        options: &ImportOptions,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<ImportReport> {
        self.inner.guard_write()?;
        let mut sink = Sink::new(self, options);
        let counted = Counted { input, read: 0, progress };
        let outcome = dsh::read_log(counted, &self.reading(options), &mut sink)?;
        let (session, added) = sink.finish(outcome.events)?;
        Ok(report(session, added, outcome))
    }

    /// Imports a JSONL file of any tool, plain or compressed, whole: every line that is a JSON object becomes one
    /// ignorable event `jsonl/<its type>` whose data is the line, all else events `everlog/salvaged`. The session is
    /// named by [`ImportOptions::name`]. [`Store::export_jsonl`] gives the bytes back. `progress` is as for
    /// [`Store::import_dsh`].
    ///
    /// # Errors
    /// As [`read_jsonl`](crate::dsh::read_jsonl), and those of [`Store::import_dsh`] that come from the store.
    ///
    /// # Durability
    /// As [`Store::import_dsh`].
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everlog::Store::create(folder.path().join("s"), everlog::StoreOptions::default())?;
    /// let log = b"{\"type\":\"user\",\"time\":7}\n{\"cut\n";
    /// let options = everlog::ImportOptions { name: "chat".into(), ..Default::default() };
    /// let report = store.import_jsonl(&log[..], &options, &mut |_| true)?;
    /// assert_eq!((report.stored, report.salvaged), (2, 1));
    /// assert_eq!(&*store.session(&report.session)?.read(0)?.event_type, b"jsonl/user");
    /// let mut out = Vec::new();
    /// store.export_jsonl(&report.session, &mut out)?;
    /// assert_eq!(out, log);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn import_jsonl(
        &self,
        input: impl Read,
        options: &ImportOptions,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<ImportReport> {
        self.inner.guard_write()?;
        let mut sink = Sink::new(self, options);
        let counted = Counted { input, read: 0, progress };
        let outcome = dsh::read_jsonl(counted, &self.reading(options), &mut sink)?;
        let (session, added) = sink.finish(outcome.events)?;
        Ok(report(session, added, outcome))
    }

    fn reading(&self, options: &ImportOptions) -> dsh::ImportOptions {
        dsh::ImportOptions {
            name: SessionId::new(&options.name).ok(),
            line_bytes_max: options.line_bytes_max,
            event_bytes_max: self.inner.options.event_bytes_max,
            depth_max: self.inner.options.json_depth_max,
            decoded_bytes_max: options.decoded_bytes_max,
            salvage: options.salvage,
            ..dsh::ImportOptions::default()
        }
    }
}

fn report(session: SessionId, added: u64, outcome: ImportOutcome) -> ImportReport {
    let mut warnings: Vec<_> = outcome
        .warnings
        .iter()
        .map(|w| ImportWarning {
            line: Some(w.line),
            offset: w.torn.map(|t| t.offset),
            message: w.to_string(),
        })
        .collect();
    let mut cause = outcome.aside_cause.map(|why| format!(": {why}")).unwrap_or_default();
    for range in &outcome.aside {
        let message = match range.last - range.first {
            0 => format!("line {} was kept aside as everlog/salvaged", range.first),
            _ => format!(
                "lines {} to {} were kept aside as everlog/salvaged",
                range.first, range.last
            ),
        };
        let message = message + &std::mem::take(&mut cause);
        warnings.push(ImportWarning {
            line: Some(range.first),
            offset: Some(range.offset),
            message,
        });
    }
    ImportReport {
        session,
        stored: outcome.events,
        added,
        torn_bytes: outcome.torn_bytes,
        salvaged: outcome.salvaged,
        aside: outcome.aside,
        warnings,
    }
}

/// Tells how far the reading is.
struct Counted<'p, R> {
    input: R,
    read: u64,
    progress: &'p mut dyn FnMut(u64) -> bool,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let n = self.input.read(buf)?;
        self.read += n as u64;
        if !(self.progress)(self.read) {
            return Err(std::io::Error::other("the import was stopped"));
        }
        Ok(n)
    }
}

/// Where the events go.
enum Target {
    Nowhere,
    New(Box<SessionWriter>),
    /// A session of that id is there: every event must equal the one stored.
    Same(Session),
    /// It is there and the input goes on behind its end: the rest becomes one batch.
    Grown(Box<SessionWriter>),
}

struct Sink<'s> {
    store: &'s Store,
    options: &'s ImportOptions,
    id: Option<SessionId>,
    target: Target,
    batch: Vec<NewEvent<'static>>,
    batch_bytes: usize,
    columns: bool,
    /// Data of tool results, for a dry run only.
    results: std::collections::HashMap<Seq, Vec<u8>>,
}

impl<'s> Sink<'s> {
    fn new(store: &'s Store, options: &'s ImportOptions) -> Self {
        Self {
            store,
            options,
            id: None,
            target: Target::Nowhere,
            batch: Vec::new(),
            batch_bytes: 0,
            columns: store.inner.options.columns,
            results: std::collections::HashMap::new(),
        }
    }

    fn flush(&mut self) -> Result<()> {
        if !matches!(self.target, Target::New(_)) {
            return Ok(());
        }
        let batch = std::mem::take(&mut self.batch);
        self.batch_bytes = 0;
        match &mut self.target {
            Target::New(writer) if !batch.is_empty() => writer.append_imported(&batch)?,
            _ => {}
        }
        self.batch = batch;
        self.batch.clear();
        Ok(())
    }

    /// Keeps an event for the one batch that a grown input adds: all of it or nothing.
    fn hold_back(&mut self, event: NewEvent<'static>) -> Result<()> {
        self.batch_bytes += event.data.len() + event.event_type.len() + 64;
        self.batch.push(event);
        let (count, bytes) = (self.batch.len(), self.batch_bytes);
        if count > limits::BATCH_EVENTS_MAX || bytes > limits::BATCH_BYTES_MAX {
            let message = format!(
                "the input adds more than one batch ({} events, {} bytes) to a session that is there; \
                 import it under another id",
                limits::BATCH_EVENTS_MAX,
                limits::BATCH_BYTES_MAX
            );
            return Err(Error::new(ErrorKind::Limit, message));
        }
        Ok(())
    }

    fn exists(&self, seq: Option<Seq>) -> Error {
        let mut e = Error::new(
            ErrorKind::Exists,
            "a session of that id holds something else; choose another id with --id-prefix",
        );
        if let Some(id) = &self.id {
            e = e.with_session(id);
        }
        match seq {
            Some(seq) => e.with_seq(seq),
            None => e,
        }
    }

    /// Makes the session visible, durably.
    fn publish(&self, writer: &mut SessionWriter) -> Result<()> {
        let control = Control {
            session_epoch: 0,
            flags: 0,
            time_ms: self.store.inner.vfs.now_ms(),
            body: Body::Publish,
        };
        let pos = writer.control(&control)?;
        writer.lane().sync_to(pos)
    }

    /// Ends the import: publishes what is new. Returns the session and how many events were added.
    fn finish(mut self, events: u64) -> Result<(SessionId, u64)> {
        self.flush()?;
        let id =
            self.id.clone().ok_or_else(|| Error::corrupt("the input has no session header"))?;
        let target = std::mem::replace(&mut self.target, Target::Nowhere);
        match target {
            Target::Nowhere => Ok((id, events)),
            Target::Same(session) if session.next_seq() == events => Ok((id, 0)),
            Target::Grown(mut writer) => {
                writer.append_imported(&self.batch)?;
                writer.lane().sync_to(writer.lane().staged_pos())?;
                writer.close()?;
                Ok((id, self.batch.len() as u64))
            }
            Target::Same(_) => Err(self.exists(Some(events))),
            Target::New(mut writer) => {
                // The events first: a PUBLISH on the disk without them would show a session that is cut short.
                writer.lane().sync_to(writer.lane().staged_pos())?;
                if !planted!(self.store.inner.options, PublishEarly) {
                    self.publish(&mut writer)?;
                }
                writer.close()?;
                Ok((id, events))
            }
        }
    }
}

impl ImportSink for Sink<'_> {
    fn header(&mut self, header: &ImportHeader) -> Result<()> {
        let (id, text) = match &self.options.id_prefix {
            None => (header.view.id.clone(), Cow::Borrowed(&header.text[..])),
            Some(prefix) => {
                let joined = [prefix.as_bytes(), header.view.id.as_bytes()].concat();
                let id = SessionId::from_wtf8(&joined)?;
                let text = dsh::with_id(&header.text, &id)?;
                (id, Cow::Owned(text))
            }
        };
        self.id = Some(id.clone());
        if self.options.dry_run {
            return Ok(());
        }
        let mut new = NewSession::from_view(&header.view, &text)?;
        new.rename(id.clone());
        match self.store.make_session(&new, true) {
            Ok(mut writer) => {
                if planted!(self.store.inner.options, PublishEarly) {
                    self.publish(&mut writer)?;
                }
                self.target = Target::New(Box::new(writer));
            }
            Err(e) if e.kind() == ErrorKind::Exists => {
                let session = self.store.session(&id)?;
                let stored = session.header()?;
                let lines = dsh::is_jsonl_header(&stored) && dsh::is_jsonl_header(&text);
                if stored != *text && !lines {
                    return Err(self.exists(None));
                }
                self.target = Target::Same(session);
            }
            Err(e) => return Err(e),
        }
        Ok(())
    }

    fn event(&mut self, mut event: NewEvent<'_>, seq: Seq, _line: u64) -> Result<()> {
        let loses = planted!(self.store.inner.options, SalvageLosesText);
        if loses && event.event_type == dsh::SALVAGED_TYPE {
            event.data = Cow::Borrowed(br#"{"line":1,"offset":0,"text":""}"#);
        }
        match &mut self.target {
            Target::Nowhere => {
                if event.event_type == TOOL_RESULT {
                    self.results.insert(seq, event.data.into_owned());
                }
                Ok(())
            }
            Target::Same(session) if seq >= session.next_seq() => {
                self.target = Target::Grown(Box::new(self.store.writer(session.id())?));
                self.event(event, seq, _line)
            }
            Target::Grown(writer) => {
                if writer.next_seq() + self.batch.len() as u64 != seq {
                    return Err(self.exists(Some(seq)));
                }
                self.hold_back(event.into_owned())
            }
            Target::Same(session) => {
                if seq < session.next_seq()
                    && session.with(seq, &mut |stored| same(stored, &event))?
                {
                    return Ok(());
                }
                Err(self.exists(Some(seq)))
            }
            Target::New(_) if event.data.len() > BATCH_BYTES => {
                // A large event goes on as it is: another copy of it would count in the bound of memory.
                self.flush()?;
                match &mut self.target {
                    Target::New(writer) => writer.append_imported(std::slice::from_ref(&event)),
                    _ => Ok(()),
                }
            }
            Target::New(_) => {
                let mut bytes = event.data.len();
                if let (true, Some(before)) = (self.columns, self.batch.last()) {
                    bytes -= shared_bytes(before, &event).min(bytes);
                }
                self.batch_bytes += bytes + 64;
                self.batch.push(event.into_owned());
                if self.batch.len() >= BATCH_EVENTS || self.batch_bytes >= BATCH_BYTES {
                    self.flush()?;
                }
                Ok(())
            }
        }
    }

    fn tool_result_data(&mut self, seq: Seq) -> Result<Option<Vec<u8>>> {
        if matches!(self.target, Target::New(_)) {
            self.flush()?;
        }
        let result = |e: crate::Event| (*e.event_type == *TOOL_RESULT).then(|| e.data.into_vec());
        match &self.target {
            Target::Nowhere => Ok(self.results.get(&seq).cloned()),
            Target::Same(session) => session.read(seq).map(result),
            Target::Grown(writer) => match seq.checked_sub(writer.next_seq()) {
                None => writer.read(seq).map(result),
                Some(i) => {
                    let event = usize::try_from(i).ok().and_then(|i| self.batch.get(i));
                    Ok(event.filter(|e| e.event_type == TOOL_RESULT).map(|e| e.data.to_vec()))
                }
            },
            Target::New(writer) => {
                writer.lane().flush_to(writer.lane().staged_pos())?;
                writer.read(seq).map(result)
            }
        }
    }
}

fn same(stored: &crate::EventRef<'_>, event: &NewEvent<'_>) -> bool {
    stored.event_type == &event.event_type[..]
        && same_data(stored, event)
        && Some(stored.time_ms) == event.time_ms
        && stored.surface_op == event.surface_op
        && stored.sources.as_deref() == event.sources.as_deref()
        && stored.ignorable == event.ignorable
}

/// Data of a line may differ by the mark that the input ended behind it: it may have gone on since.
fn same_data(stored: &crate::EventRef<'_>, event: &NewEvent<'_>) -> bool {
    let (old, new) = (stored.data, &event.data[..]);
    let bare = |data: &'_ [u8]| data.strip_suffix(b"\n").map_or(data.len(), <[u8]>::len);
    old == new
        || (dsh::is_jsonl_type(stored.event_type) && old.get(..bare(old)) == new.get(..bare(new)))
}
