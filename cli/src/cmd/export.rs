//! `export`: session logs to standard output, to one file, or to a folder with one file a session.
//!
//! # Invariants
//! E1. A file appears under its name when it is whole and synced; until then it is a temporary file of mode 0600.
//! E2. Nothing is overwritten without `--force`, and nothing but a regular file ever is.
//! E3. File names come from `safe_name`: no id reaches a path as it is.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use everlog::{SessionId, Store};
use tempfile::NamedTempFile;

use crate::args::{Export, ExportFormat, Globals, Shape};
use crate::exit::{DAMAGE, FAILED, Failure, PARTLY, say};
use crate::out::Out;
use crate::{find, naming, pool, safe_name, signal, text};

const BUFFER_BYTES: usize = 256 << 10;

pub(crate) fn run(globals: &Globals, args: &Export) -> Result<(), Failure> {
    let (store, _) = find::open_read(globals)?;
    let ids = chosen(&store, args)?;
    let format = args.format;
    if args.out.as_os_str() == "-" {
        return match ids.as_slice() {
            [] if store.damage_met() > 0 => Err(find::may_miss_sessions()),
            [] => Ok(()),
            [id] => to_stdout(&store, id, format),
            many => Err(Failure::usage(format!("{} logs do not fit one stream", many.len()))
                .with_hint("name a folder with --out, which gets one file a session")),
        };
    }
    let several = args.all || ids.len() > 1 || args.out.is_dir();
    match ids.as_slice() {
        [id] if !several => to_file(&store, id, format, &args.out, args.force)?,
        ids => to_folder(&store, ids, format, args)?,
    }
    if args.all && store.damage_met() > 0 {
        return Err(find::may_miss_sessions());
    }
    if !globals.quiet {
        say(&format!("exported {} sessions to {}", ids.len(), shown(&args.out)));
    }
    Ok(())
}

fn shown(path: &Path) -> String {
    text::line(path.as_os_str().as_encoded_bytes())
}

/// The sessions that are named, each once.
fn chosen(store: &Store, args: &Export) -> Result<Vec<SessionId>, Failure> {
    let mut ids = Vec::new();
    if args.all {
        ids.extend(store.sessions()?.into_iter().map(|s| s.id));
    }
    for name in &args.sessions {
        ids.push(naming::session(store, name)?.id().clone());
    }
    for id in &args.id {
        ids.push(naming::session_by_id(store, id)?.id().clone());
    }
    ids.sort();
    ids.dedup();
    Ok(ids)
}

fn write(
    store: &Store,
    id: &SessionId,
    format: ExportFormat,
    out: &mut dyn Write,
) -> everlog::Result<u64> {
    match format {
        ExportFormat::Dsh => store.export_dsh(id, false, out),
        ExportFormat::DshPacked => store.export_dsh(id, true, out),
        ExportFormat::DshZstd => store.export_dsh_zstd(id, out),
        ExportFormat::Jsonl => store.export_jsonl(id, out),
    }
}

fn to_stdout(store: &Store, id: &SessionId, format: ExportFormat) -> Result<(), Failure> {
    let mut out = Out::new();
    let done = write(store, id, format, &mut out);
    let flushed = out.finish();
    if let Some(failure) = out.failure() {
        return Err(failure);
    }
    done.map_err(|e| Failure::from(e).with_session(id.as_bytes()))?;
    flushed
}

/// Writes the log beside its place and moves it there (E1, E2).
fn to_file(
    store: &Store,
    id: &SessionId,
    format: ExportFormat,
    path: &Path,
    force: bool,
) -> Result<(), Failure> {
    refuse_occupied(path, force)?;
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let failed = |what: &'static str| move |e: io::Error| Failure::io(what, path, &e);
    let temp =
        NamedTempFile::new_in(folder).map_err(failed("make a temporary file beside the export"))?;
    let mut writer = Watched { inner: BufWriter::with_capacity(BUFFER_BYTES, temp) };
    let done = write(store, id, format, &mut writer);
    signal::check()?;
    done.map_err(|e| Failure::from(e).with_session(id.as_bytes()))?;
    let temp = writer.inner.into_inner().map_err(|e| failed("write the export")(e.into_error()))?;
    temp.as_file().sync_all().map_err(failed("sync the export"))?;
    let placed = if force { temp.persist(path) } else { temp.persist_noclobber(path) };
    placed.map(drop).map_err(|e| match e.error.kind() {
        io::ErrorKind::AlreadyExists => occupied(path),
        _ => Failure::io("name the export", path, &e.error),
    })
}

fn occupied(path: &Path) -> Failure {
    Failure::new(FAILED, "exists", "there is a file already")
        .with_path(path)
        .with_hint("--force replaces it")
}

fn refuse_occupied(path: &Path, force: bool) -> Result<(), Failure> {
    match path.symlink_metadata() {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(Failure::io("look at the place of the export", path, &e)),
        Ok(_) if !force => Err(occupied(path)),
        Ok(m) if m.is_file() => Ok(()),
        Ok(_) => {
            let message = "only a regular file is replaced; write to standard output instead";
            Err(Failure::new(FAILED, "exists", message).with_path(path))
        }
    }
}

/// One file a session, several at the same time; a failure of one leaves the others.
fn to_folder(
    store: &Store,
    ids: &[SessionId],
    format: ExportFormat,
    args: &Export,
) -> Result<(), Failure> {
    make_folder(&args.out)?;
    let paths: Vec<PathBuf> = ids
        .iter()
        .map(|id| {
            let mut name = safe_name::file_name(id.as_bytes());
            if format == ExportFormat::DshZstd {
                name.push_str(".zstd");
            }
            args.out.join(name)
        })
        .collect();
    refuse_twins(&paths)?;
    let json = matches!(args.output, Some(Shape::Json | Shape::Jsonl));
    let (mut failures, mut damaged) = (0_usize, false);
    pool::run(
        ids.len(),
        pool::jobs(args.jobs, ids.len()),
        |i| match (ids.get(i), paths.get(i)) {
            (Some(id), Some(path)) => to_file(store, id, format, path, args.force),
            _ => Ok(()),
        },
        |_, result| match result {
            Err(stop) if stop.is_stop() => Err(stop),
            Err(failure) => {
                failures += 1;
                damaged |= failure.code() == DAMAGE;
                failure.tell("not exported", json);
                Ok(())
            }
            Ok(()) => Ok(()),
        },
        || {},
    )?;
    let message = format!("{failures} of {} sessions were not exported", ids.len());
    match failures {
        0 => Ok(()),
        _ if damaged => Err(Failure::new(DAMAGE, "corrupt", message)),
        n if n == ids.len() => Err(Failure::new(FAILED, "failed", message)),
        _ => Err(Failure::new(PARTLY, "partly", message)),
    }
}

fn make_folder(path: &Path) -> Result<(), Failure> {
    use std::os::unix::fs::DirBuilderExt;
    if path.is_dir() {
        return Ok(());
    }
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|e| Failure::io("make the folder", path, &e))
}

/// Two ids whose names collide: the second file would replace the first under `--force`.
fn refuse_twins(paths: &[PathBuf]) -> Result<(), Failure> {
    let mut names: Vec<&PathBuf> = paths.iter().collect();
    names.sort();
    match names.windows(2).find_map(|w| if w.first() == w.last() { w.first() } else { None }) {
        Some(path) => Err(Failure::new(
            FAILED,
            "exists",
            "two sessions have the same file name; export them one by one",
        )
        .with_path(path)),
        None => Ok(()),
    }
}

/// A file that ends with an error after a signal.
struct Watched {
    inner: BufWriter<NamedTempFile>,
}

impl Write for Watched {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if signal::check().is_err() {
            return Err(io::Error::other("interrupted"));
        }
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
