//! `resume`: closes what was cut off, marks the end of what was, and says where to go on.

use everlog::{Level, Resumption};

use super::view;
use crate::args::{Globals, Shape};
use crate::args_view::Resume;
use crate::exit::Failure;
use crate::json_out::{Object, array};
use crate::out::Out;
use crate::{find, naming, text};

pub(crate) fn run(globals: &Globals, args: &Resume) -> Result<(), Failure> {
    let (store, _) = find::open_write(globals, "resume")?;
    let session = match (&args.id, &args.session) {
        (Some(id), _) => naming::session_by_id(&store, id)?,
        (None, Some(name)) => naming::session(&store, name)?,
        (None, None) => return Err(Failure::usage("no session is named")),
    };
    let mut writer = store.writer(session.id())?;
    let done = writer.resume(view::unknown(args.unknown), Level::Sync)?;
    writer.close()?;
    let mut out = Out::new();
    match args.output {
        Some(Shape::Json | Shape::Jsonl) => out.line(object(session.id().as_bytes(), &done))?,
        _ => print(&mut out, &done)?,
    }
    out.finish()
}

fn object(id: &[u8], done: &Resumption) -> Vec<u8> {
    let calls = done
        .unknown_calls
        .iter()
        .map(|c| Object::nested().text("callId", &c.call_id).number("seq", c.seq).end());
    Object::new()
        .text("session", id)
        .number("nextSeq", done.next_seq)
        .number("closers", done.closers)
        .flag("endSeed", done.marked)
        .maybe_number("lastRequest", done.last_request)
        .raw("unknownCalls", &array(calls))
        .end()
}

fn print(out: &mut Out, done: &Resumption) -> Result<(), Failure> {
    out.line(format!("next seq\t{}", done.next_seq))?;
    out.line(format!("closers\t{}", done.closers))?;
    if let Some(seq) = done.last_request {
        out.line(format!("last request\t{seq}"))?;
    }
    for call in &done.unknown_calls {
        out.line(format!("unknown outcome\t{}\t{}", call.seq, text::line(&call.call_id)))?;
    }
    Ok(())
}
