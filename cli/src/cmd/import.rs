//! `import`: session logs from files, folders and standard input, each whole or not at all.
//!
//! # Invariants
//! I1. Reports stand in the order of the inputs, however many are read at the same time.
//! I2. What a report calls stored survives the machine: the library syncs a session before it gives its report.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use everlog::{ErrorKind, ImportOptions, ImportReport, Store};

use super::import_report::Reporter;
use crate::args::{Globals, Import, ImportFormat};
use crate::exit::{Failure, say};
use crate::inputs::{self, Input};
use crate::progress::Progress;
use crate::{find, pool, signal};

/// How often an input is tried again whose session another input of this command may be just bringing in.
const AGAIN_EVERY: Duration = Duration::from_millis(20);

pub(crate) fn run(globals: &Globals, args: &Import) -> Result<(), Failure> {
    if args.paths.iter().filter(|p| p.as_os_str() == "-").count() > 1 {
        return Err(Failure::usage("standard input is named twice"));
    }
    let (store, _) = find::open_write(globals, "everlog import")?;
    let inputs = inputs::collect(&args.paths);
    if inputs.is_empty() && !globals.quiet {
        say("nothing to import: no file ends in .jsonl, .jsonl.zstd or .zst");
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
    let crowd = Crowd::default();
    let progress = std::cell::RefCell::new(Progress::new("importing", globals.quiet));
    let mut reporter = Reporter::new(globals, args);
    let done = pool::run(
        inputs.len(),
        pool::jobs(args.jobs, inputs.len()),
        |i| inputs.get(i).map(|input| import_one(store, args, input, &read, &crowd)),
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

/// The imports that run at the same time in this process. Two inputs may hold one session: the second finds it locked
/// by the first, which no message names, and must wait for it instead of being refused.
#[derive(Default)]
struct Crowd {
    running: AtomicUsize,
    begun: AtomicUsize,
    again: Mutex<()>,
}

impl Crowd {
    /// Runs `import`, and says whether no other one ran at any time meanwhile.
    fn run<R>(&self, import: impl FnOnce() -> R) -> (R, bool) {
        let first = self.running.fetch_add(1, Ordering::SeqCst) == 0;
        let begun = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let result = import();
        let alone = first && self.begun.load(Ordering::SeqCst) == begun;
        self.running.fetch_sub(1, Ordering::SeqCst);
        (result, alone)
    }
}

fn import_one(
    store: &Store,
    args: &Import,
    input: &Input,
    read: &AtomicU64,
    crowd: &Crowd,
) -> Result<ImportReport, Failure> {
    let lines = args.format == ImportFormat::Jsonl;
    let options = ImportOptions {
        name: if lines { input.stem() } else { input.name() },
        id_prefix: args.id_prefix.clone(),
        dry_run: args.dry_run,
        salvage: args.salvage,
        ..ImportOptions::default()
    };
    let attempt = || {
        let mut reader = input.open(read)?;
        let progress = &mut |_| signal::check().is_ok();
        let done = match lines {
            true => store.import_jsonl(&mut reader, &options, progress),
            false => store.import_dsh(&mut reader, &options, progress),
        };
        signal::check()?;
        Ok::<_, Failure>(done)
    };
    let (mut done, mut alone) = crowd.run(attempt);
    while let Ok(Err(e)) = &done
        && e.kind() == ErrorKind::Locked
        && !alone
        && matches!(input, Input::File(..))
    {
        // One at a time, or two that wait would never find themselves alone.
        let _turn = crowd.again.lock();
        thread::sleep(AGAIN_EVERY);
        (done, alone) = crowd.run(attempt);
    }
    done?.map_err(refusal)
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
        "corrupt" => failure.with_hint(
            "nothing of it was stored; repair the line, or keep it aside with --salvage",
        ),
        "exists" => failure
            .with_hint("the session holds other events; --id-prefix gives the input another id"),
        "invalid" => failure.with_hint("nothing of it was stored"),
        _ => failure,
    }
}
