//! The workloads: what processes do with a store, in an order that the seed decides.

use super::run::{Run, Step};

/// One writer, three sessions, all levels, small and large batches.
pub fn append(run: &mut Run) -> Step {
    let a = run.process("a");
    let handle = run.create(&a)?;
    let mut writing = Vec::new();
    for id in ["s0", "s1", "s2"] {
        writing.push(run.create_session(&handle, id)?);
        let events = run.events(2, 200);
        let level = run.level();
        run.append(&mut writing[0], events, level)?;
    }
    for step in 0..24 {
        let at = run.rng.index(writing.len());
        let events = match step {
            7 => run.events(40, 120),
            15 => {
                let pad = run.text(140 << 10);
                vec![super::model::Ev::note(pad, None)]
            }
            _ => {
                let count = 1 + run.rng.index(4);
                run.events(count, 900)
            }
        };
        let level = run.level();
        run.append(&mut writing[at], events, level)?;
        match run.rng.below(12) {
            0 => run.sync(&handle)?,
            1 => handle.store.upkeep().map_err(|e| super::run::stop("upkeep", &e))?,
            2 => run.machine.advance_ms(150),
            _ => {}
        }
    }
    Ok(())
}
