//! `transcript`: what people saw, in the order of the log; no compaction hides anything.

use everlog::Error;

use super::view;
use crate::args::Globals;
use crate::args_view::{Transcript, TranscriptShape};
use crate::exit::Failure;
use crate::json_out::Object;
use crate::message_text::{markdown, one_line, readable, speaker};
use crate::out::Out;
use crate::signal;

pub(crate) fn run(globals: &Globals, args: &Transcript) -> Result<(), Failure> {
    let shape = args.output.unwrap_or(TranscriptShape::Text);
    let (_, of) = view::open(globals, &args.of)?;
    let mut out = Out::new();
    let (mut first, mut stop) = (true, None);
    let printed = of.transcript(&mut |seq, message| {
        let before = match (shape, std::mem::replace(&mut first, false)) {
            (TranscriptShape::Json, true) => "[",
            (TranscriptShape::Json, false) => ",",
            _ => "",
        };
        let put = signal::check()
            .and_then(|()| out.put(before.as_bytes()))
            .and_then(|()| out.put(&entry(shape, seq, message)));
        put.map_err(|failure| {
            stop = Some(failure);
            Error::from_io("standard output", &std::io::Error::other("stopped"))
        })
    });
    if let Some(failure) = stop {
        return Err(failure);
    }
    printed?;
    if shape == TranscriptShape::Json {
        out.line(if first { "[]" } else { "]" })?;
    }
    out.finish()?;
    view::missing(&of)
}

fn entry(shape: TranscriptShape, seq: u64, message: &[u8]) -> Vec<u8> {
    let object = || Object::new().number("seq", seq).raw("message", &one_line(message)).end();
    match shape {
        TranscriptShape::Json => object(),
        TranscriptShape::Jsonl => [object(), b"\n".to_vec()].concat(),
        TranscriptShape::Text => {
            format!("{seq} {}\n{}\n", speaker(message), readable(message)).into_bytes()
        }
        TranscriptShape::Md => {
            format!("## {}\n\n{}", speaker(message), markdown(message)).into_bytes()
        }
    }
}
