//! `surface`: the seqs of the events that make the model's history, and what was replaced on the way.

use super::view;
use crate::args::{Globals, Shape};
use crate::args_view::Surface;
use crate::exit::Failure;
use crate::json_out::{Object, array};
use crate::out::Out;

pub(crate) fn run(globals: &Globals, args: &Surface) -> Result<(), Failure> {
    let (_, of) = view::open(globals, &args.of)?;
    let mut out = Out::new();
    match args.output {
        Some(Shape::Json | Shape::Jsonl) => {
            let replacements = of.replacements().iter().map(|r| {
                let object = Object::nested().number("seq", r.seq).number("start", r.start);
                let object = object.number("end", r.end);
                object.raw("shadowedSeqs", &view::seqs(r.shadowed.iter().copied())).end()
            });
            let object = Object::new()
                .raw("nodes", &view::seqs(of.nodes()))
                .number("generation", of.generation())
                .raw("replacements", &array(replacements))
                .number("closers", of.closers().len() as u64);
            out.line(object.end())?;
        }
        _ => {
            for seq in of.nodes() {
                out.line(if seq < of.end() { seq.to_string() } else { format!("{seq}\tcloser") })?;
            }
        }
    }
    out.finish()?;
    view::missing(&of)
}
