//! `check`: every checksum, every invariant.

use everlog::{CheckOptions, CheckReport, Damage};

use crate::args::{Check, Globals, Shape};
use crate::exit::{DAMAGE, Failure};
use crate::json_out::{Object, array};
use crate::out::Out;
use crate::progress::Progress;
use crate::{find, signal, text};

/// Seqs of one damaged place that are listed one by one; `seqRanges` always names all of them.
const SEQS_LISTED_MAX: u64 = 100_000;

pub(crate) fn run(globals: &Globals, args: &Check) -> Result<(), Failure> {
    let (store, _) = find::open_read(globals)?;
    let options =
        CheckOptions { quick: args.quick, part: args.part, jobs: args.jobs.map_or(0, usize::from) };
    let mut progress = Progress::new("checking", globals.quiet);
    let report = store.check(&options, &mut |done, all| {
        progress.show(done, all);
        signal::check().is_ok()
    });
    drop(progress);
    signal::check()?;
    let report = report?;
    let mut out = Out::new();
    match args.output {
        Some(Shape::Json | Shape::Jsonl) => out.line(object(&report))?,
        _ => print(&mut out, globals, &report)?,
    }
    out.finish()?;
    if report.is_clean() {
        return Ok(());
    }
    let message = format!("damage found in {} places; all else is whole", report.damage.len());
    Err(Failure::new(DAMAGE, "corrupt", message))
}

fn object(report: &CheckReport) -> Vec<u8> {
    Object::new()
        .flag("ok", report.is_clean())
        .number("segments", report.segments)
        .number("frames", report.frames)
        .number("events", report.events)
        .number("sessions", report.sessions)
        .number("bytes", report.bytes)
        .raw("damage", &array(report.damage.iter().map(place)))
        .raw("notes", &array(report.notes.iter().map(place)))
        .end()
}

fn place(d: &Damage) -> Vec<u8> {
    let sessions: Vec<&[u8]> = d.sessions.iter().map(|id| id.as_bytes()).collect();
    let number = |n: u64| n.to_string().into_bytes();
    let mut listed = Vec::new();
    for &(first, last) in &d.seqs {
        let room = SEQS_LISTED_MAX.saturating_sub(listed.len() as u64);
        listed.extend((first..=last).take(usize::try_from(room).unwrap_or_default()).map(number));
    }
    let ranges = d.seqs.iter().map(|&(first, last)| array([number(first), number(last)]));
    Object::nested()
        .text("path", d.path.as_os_str().as_encoded_bytes())
        .number("offset", d.offset)
        .text("kind", d.kind)
        .texts("sessions", &sessions)
        .raw("seqs", &array(listed))
        .raw("seqRanges", &array(ranges))
        .text("message", &d.message)
        .end()
}

fn print(out: &mut Out, globals: &Globals, report: &CheckReport) -> Result<(), Failure> {
    for damage in &report.damage {
        out.line(described("damage", damage))?;
    }
    if globals.quiet {
        return Ok(());
    }
    for note in &report.notes {
        out.line(described("note", note))?;
    }
    let state = if report.is_clean() { "ok" } else { "verified, but for the damage above" };
    out.line(format!(
        "{state}: {} events in {} sessions, {} frames, {} segments, {}",
        text::count(report.events),
        text::count(report.sessions),
        text::count(report.frames),
        text::count(report.segments),
        text::size(report.bytes)
    ))
}

fn described(what: &str, d: &Damage) -> String {
    let path = text::line(d.path.as_os_str().as_encoded_bytes());
    let message = text::line(d.message.as_bytes());
    let mut line = format!("{what}: {path}, byte {}: {}: {message}", d.offset, d.kind);
    for id in &d.sessions {
        line.push_str(&format!(", session {}", text::quoted(id.as_bytes())));
    }
    for (first, last) in &d.seqs {
        line.push_str(&format!(", seqs {first}..{last}"));
    }
    line
}
