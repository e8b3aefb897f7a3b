//! `import`: session logs from files, folders and standard input, each whole or not at all.
//!
//! # Invariants
//! I1. Reports stand in the order of the inputs, however many are read at the same time.
//! I2. What a report calls stored survives the machine: the library syncs a session before it gives its report.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use everlog::{ErrorKind, ImportOptions, ImportReport, ImportWarning, Store};

use crate::args::{Globals, Import, Shape};
use crate::exit::{FAILED, Failure, NEWER, PARTLY};
use crate::inputs::{self, Input};
use crate::json_out::{Object, array};
use crate::out::Out;
use crate::progress::Progress;
use crate::{find, pool, signal, text};

/// How often an input is tried again whose session another input of this command is just bringing in.
const AGAIN_EVERY: Duration = Duration::from_millis(20);

pub(crate) fn run(globals: &Globals, args: &Import) -> Result<(), Failure> {
    if !matches!(args.format.as_str(), "auto" | "dsh") {
        let message = format!("--format {}: not in this version", args.format);
        return Err(Failure::usage(message).with_hint("formats of this version: auto, dsh"));
    }
    if args.paths.iter().filter(|p| p.as_os_str() == "-").count() > 1 {
        return Err(Failure::usage("standard input is named twice"));
    }
    let (store, _) = find::open_write(globals, "everlog import")?;
    let inputs = inputs::collect(&args.paths);
    if inputs.is_empty() && !globals.quiet {
        eprintln!("nothing to import: no file ends in .jsonl, .jsonl.zstd or .zst");
    }
    let done = import_all(&store, globals, args, &inputs);
    let closed = store.close().map_err(Failure::from);
    done.and(closed)
}

fn import_all(
    store: &Store,
    globals: &Globals,
    args: &Import,
    inputs: &[Input],
) -> Result<(), Failure> {
    let (read, all) = (AtomicU64::new(0), inputs.iter().map(Input::bytes).sum());
    let progress = std::cell::RefCell::new(Progress::new("importing", globals.quiet));
    let mut reporter = Reporter::new(globals, args);
    let done = pool::run(
        inputs.len(),
        pool::jobs(args.jobs, inputs.len()),
        |i| inputs.get(i).map(|input| import_one(store, args, input, &read)),
        |i, result| match (inputs.get(i), result) {
            (Some(input), Some(result)) => {
                progress.borrow().aside(|| reporter.report(input, &result))
            }
            _ => Ok(()),
        },
        || progress.borrow_mut().show(read.load(Ordering::Relaxed), all),
    );
    drop(progress);
    let ended = reporter.end();
    done.and(ended)
}

fn import_one(
    store: &Store,
    args: &Import,
    input: &Input,
    read: &AtomicU64,
) -> Result<ImportReport, Failure> {
    let options = ImportOptions {
        name: input.name(),
        id_prefix: args.id_prefix.clone(),
        dry_run: args.dry_run,
        ..ImportOptions::default()
    };
    loop {
        let mut reader = input.open(read)?;
        match store.import_dsh(&mut reader, &options, &mut |_| signal::check().is_ok()) {
            Ok(report) => return Ok(report),
            Err(_) if signal::check().is_err() => signal::check()?,
            Err(e) if is_sibling(&e) && matches!(input, Input::File(..)) => {
                thread::sleep(AGAIN_EVERY)
            }
            Err(e) => return Err(refusal(e)),
        }
    }
}

/// Whether another input of this very command holds the session.
fn is_sibling(error: &everlog::Error) -> bool {
    error.kind() == ErrorKind::Locked && error.holder().is_some_and(|h| h.pid == std::process::id())
}

/// The failure with the kind that reports of imports use.
fn refusal(error: everlog::Error) -> Failure {
    let kind = match error.kind() {
        ErrorKind::Corrupt | ErrorKind::Diverged => "corrupt",
        ErrorKind::Unsupported => "unsupported",
        ErrorKind::Invalid | ErrorKind::Limit => "invalid",
        ErrorKind::Exists => "exists",
        ErrorKind::Locked => "locked",
        _ => "io",
    };
    let failure = Failure::from(error).with_kind(kind);
    match kind {
        "corrupt" => failure
            .with_hint("nothing of it was stored; repair the line, or cut the file before it"),
        "exists" => failure
            .with_hint("the session holds other events; --id-prefix gives the input another id"),
        "invalid" => failure.with_hint("nothing of it was stored"),
        _ => failure,
    }
}

struct Reporter<'a> {
    globals: &'a Globals,
    shape: Shape,
    out: Out,
    printed: usize,
    imported: usize,
    refused: usize,
    unsupported: usize,
}

impl<'a> Reporter<'a> {
    fn new(globals: &'a Globals, args: &Import) -> Self {
        let shape = super::shape_or_default(args.output);
        Self {
            globals,
            shape,
            out: Out::new(),
            printed: 0,
            imported: 0,
            refused: 0,
            unsupported: 0,
        }
    }

    fn report(
        &mut self,
        input: &Input,
        result: &Result<ImportReport, Failure>,
    ) -> Result<(), Failure> {
        match result {
            Ok(_) => self.imported += 1,
            Err(stop) if stop.is_stop() => return Err(stop.clone()),
            Err(failure) => {
                self.refused += 1;
                self.unsupported += usize::from(failure.kind() == "unsupported");
            }
        }
        match self.shape {
            Shape::Json => {
                self.out.put(if self.printed == 0 { b"[" } else { b"," })?;
                self.out.put(&object(input, result))?;
            }
            Shape::Jsonl => self.out.line(object(input, result))?,
            Shape::Table | Shape::Text => self.tell(input, result)?,
        }
        self.printed += 1;
        self.out.finish()
    }

    /// For people: what came in on standard output, what did not on standard error.
    fn tell(
        &mut self,
        input: &Input,
        result: &Result<ImportReport, Failure>,
    ) -> Result<(), Failure> {
        let path = text::line(input.path().as_os_str().as_encoded_bytes());
        match result {
            Ok(report) => {
                for warning in report.warnings.iter().filter(|_| !self.globals.quiet) {
                    eprintln!("warning: {path}: {}", warned(warning));
                }
                let id = text::line(report.session.as_bytes());
                if self.shape == Shape::Text {
                    return self
                        .out
                        .line(format!("{id}\t{}\t{}\t{path}", report.stored, report.added));
                }
                let (stored, added) = (text::count(report.stored), text::count(report.added));
                self.out.line(format!("{id}  {stored} events, {added} new  {path}"))
            }
            Err(failure) => {
                eprintln!("refused: {path}: {}", failure.to_line());
                if let Some(hint) = failure.hint() {
                    eprintln!("hint: {hint}");
                }
                Ok(())
            }
        }
    }

    fn end(&mut self) -> Result<(), Failure> {
        if self.shape == Shape::Json {
            self.out.line(if self.printed == 0 { "[]" } else { "]" })?;
        }
        self.out.finish()?;
        let message = format!("{} of {} inputs were refused", self.refused, self.printed);
        match (self.refused, self.imported) {
            (0, _) => Ok(()),
            (n, 0) if n == self.unsupported => Err(Failure::new(NEWER, "unsupported", message)),
            (_, 0) => Err(Failure::new(FAILED, "refused", message)),
            _ => Err(Failure::new(PARTLY, "partly", message)),
        }
    }
}

fn object(input: &Input, result: &Result<ImportReport, Failure>) -> Vec<u8> {
    let path = input.path().as_os_str().as_encoded_bytes();
    let object = Object::new().text("kind", "import").text("path", path).flag("ok", result.is_ok());
    match result {
        Ok(report) => object
            .text("session", report.session.as_bytes())
            .text("format", "dsh")
            .number("stored", report.stored)
            .number("added", report.added)
            .number("torn_bytes", report.torn_bytes)
            .raw("warnings", &array(report.warnings.iter().map(warning)))
            .end(),
        Err(failure) => object.raw("error", &failure.to_json()).end(),
    }
}

fn warning(w: &ImportWarning) -> Vec<u8> {
    let place = Object::nested().maybe_number("line", w.line).maybe_number("offset", w.offset);
    place.text("message", &w.message).end()
}

fn warned(w: &ImportWarning) -> String {
    let mut line = text::line(w.message.as_bytes());
    if let Some(n) = w.line {
        line.push_str(&format!(", line {n}"));
    }
    if let Some(n) = w.offset {
        line.push_str(&format!(", byte {n}"));
    }
    line
}
