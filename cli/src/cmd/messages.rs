//! `messages`: the history that the model is given, now or right after an event.
//!
//! # Invariants
//! Ms1. The JSON of a message has the value of the stored text; nothing is merged, left out or renamed.

use std::collections::HashMap;

use everlog::{Error, SessionView};

use super::view;
use crate::args::Globals;
use crate::args_view::{MessageShape, Messages};
use crate::exit::Failure;
use crate::json_out::Object;
use crate::message_text::{one_line, openai, readable, speaker};
use crate::out::Out;
use crate::signal;

pub(crate) fn run(globals: &Globals, args: &Messages) -> Result<(), Failure> {
    let shape = args.output.unwrap_or(MessageShape::Text);
    if args.explain && shape == MessageShape::Openai {
        return Err(Failure::usage("--explain has no form in the shape openai"));
    }
    let (_, of) = view::open(globals, &args.of)?;
    let shadowed: HashMap<u64, &[u64]> =
        of.replacements().iter().map(|r| (r.seq, &*r.shadowed)).collect();
    let mut out = Out::new();
    print(&mut out, shape, &of, |seq, message| match shape {
        MessageShape::Json | MessageShape::Jsonl if args.explain => {
            explained(&of, seq, message, shadowed.get(&seq).copied())
        }
        MessageShape::Json | MessageShape::Jsonl => one_line(message),
        MessageShape::Openai => openai(message),
        MessageShape::Text => {
            let mut head = format!("{seq} {}", speaker(message));
            if args.explain
                && let Some(seqs) = shadowed.get(&seq)
            {
                head.push_str(&format!(", for {} events: {seqs:?}", seqs.len()));
            }
            format!("{head}\n{}", readable(message)).into_bytes()
        }
    })?;
    out.finish()?;
    view::missing(&of)
}

/// Prints the messages in a shape, each as `of_one` makes it.
fn print(
    out: &mut Out,
    shape: MessageShape,
    of: &SessionView,
    of_one: impl Fn(u64, &[u8]) -> Vec<u8>,
) -> Result<(), Failure> {
    let list = matches!(shape, MessageShape::Json | MessageShape::Openai);
    let mut stop = None;
    let mut between: &[u8] = if list { b"[" } else { b"" };
    let printed = of.messages(&mut |seq, message| {
        let text = of_one(seq, message);
        let end: &[u8] = if list { b"" } else { b"\n" };
        let put = [std::mem::replace(&mut between, if list { b"," } else { b"" }), &text, end];
        let put = signal::check().and_then(|()| put.iter().try_for_each(|part| out.put(part)));
        put.map_err(|failure| {
            stop = Some(failure);
            Error::from_io("standard output", &std::io::Error::other("stopped"))
        })
    });
    if let Some(failure) = stop {
        return Err(failure);
    }
    printed?;
    match (list, between) {
        (true, b"[") => out.line("[]"),
        (true, _) => out.line("]"),
        _ => Ok(()),
    }
}

fn explained(of: &SessionView, seq: u64, message: &[u8], shadowed: Option<&[u64]>) -> Vec<u8> {
    let mut object = Object::new().number("seq", seq).raw("message", &one_line(message));
    if seq >= of.end() {
        object = object.flag("closer", true);
    }
    match shadowed {
        Some(seqs) => object.raw("shadowedSeqs", &view::seqs(seqs.iter().copied())).end(),
        None => object.end(),
    }
}
