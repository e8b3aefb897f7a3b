//! The workloads: what processes do with a store, in an order that the seed decides.

use std::sync::Arc;

use everlog::{Level, SurfaceOp};
use everlog_testkit::fleet::{Fleet, FleetOp};
use everlog_testkit::sim::SimProcess;

use super::model::Ev;
use super::run::{Handle, Run, Step, Writing};

fn batch(run: &mut Run, w: &mut Writing, count_max: usize, len: usize) -> Step {
    let count = 1 + run.rng.index(count_max);
    let events = run.events(count, len);
    let level = run.level();
    run.append(w, events, level)
}

/// One writer, three sessions, all levels, small and large batches.
pub fn append(run: &mut Run) -> Step {
    let a = run.process("a");
    let handle = run.create(&a)?;
    let mut writing = Vec::new();
    for id in ["s0", "s1", "s2"] {
        writing.push(run.create_session(&handle, id)?);
        batch(run, &mut writing[0], 2, 200)?;
    }
    for step in 0..24 {
        let at = run.rng.index(writing.len());
        match step {
            7 => {
                let events = run.events(40, 120);
                let level = run.level();
                run.append(&mut writing[at], events, level)?;
            }
            15 => {
                let event = Ev::note(run.text(140 << 10), None);
                let level = run.level();
                run.append(&mut writing[at], vec![event], level)?;
            }
            _ => batch(run, &mut writing[at], 4, 900)?,
        }
        match run.rng.below(12) {
            0 => run.sync(&handle)?,
            1 => run.upkeep(&handle)?,
            2 => run.machine.advance_ms(150),
            _ => {}
        }
    }
    Ok(())
}

/// Segments that fill, are sealed and left, with and without one made ahead.
pub fn rotate(run: &mut Run) -> Step {
    let a = run.process("a");
    let handle = run.create(&a)?;
    let mut s0 = run.create_session(&handle, "s0")?;
    let mut s1 = run.create_session(&handle, "s1")?;
    for step in 0..26 {
        let len = 8_000 + run.rng.index(50_000);
        let event = Ev::note(run.text(len), None);
        let level = run.level();
        run.append(&mut s0, vec![event], level)?;
        if step % 3 == 0 {
            batch(run, &mut s1, 40, 80)?;
        }
        if run.rng.chance(1, 3) {
            run.upkeep(&handle)?;
        }
    }
    if run.rng.chance(1, 2) {
        run.let_go(s0)?;
        run.let_go(s1)?;
        run.close(handle)?;
    }
    Ok(())
}

fn fleet_events(fleet: &Fleet, k: usize) -> Vec<Arc<Ev>> {
    let op = |op: FleetOp| match op {
        FleetOp::Append => SurfaceOp::Append,
        FleetOp::Replace { start, end } => SurfaceOp::Replace { start, end },
    };
    let event = |e: everlog_testkit::fleet::FleetEvent| {
        Arc::new(Ev {
            event_type: e.event_type.to_owned(),
            data: e.data.into_bytes(),
            time_ms: Some(e.time_ms),
            surface_op: e.surface_op.map(op),
            sources: e.sources,
        })
    };
    fleet.events(k).into_iter().map(event).collect()
}

/// Imports of whole logs, beside appends; a second time, which adds nothing; and appends to what was imported.
pub fn import(run: &mut Run) -> Step {
    let a = run.process("a");
    let handle = run.create(&a)?;
    let mut s0 = run.create_session(&handle, "s0")?;
    batch(run, &mut s0, 3, 300)?;
    for (k, length) in [(0, 40), (4, 420), (7, 60)] {
        let fleet = Fleet { seed: run.rng.next_u64(), sessions: 9, events_per_session: length };
        let (id, events) = (fleet.session_id(k), fleet_events(&fleet, k));
        let packed = run.rng.chance(1, 2);
        let log = if packed { fleet.packed_session(k) } else { fleet.session(k) };
        run.import(&handle, &id, &log, &events)?;
        batch(run, &mut s0, 3, 300)?;
        if run.rng.chance(1, 2) {
            run.import(&handle, &id, &log, &events)?;
        }
        if run.rng.chance(1, 2) {
            let mut w = run.take(&handle, &id)?;
            batch(run, &mut w, 2, 200)?;
        }
    }
    Ok(())
}

/// A store that is closed, dropped or left, and opened again, with or without its old sessions.
pub fn reopen(run: &mut Run) -> Step {
    let a = run.process("a");
    let mut handle = run.create(&a)?;
    let first = run.create_session(&handle, "s0")?;
    run.let_go(first)?;
    for turn in 1..6 {
        let id = format!("s{turn}");
        let mut new = run.create_session(&handle, &id)?;
        let mut old = run.take(&handle, "s0")?;
        for _ in 0..3 {
            batch(run, &mut old, 3, 500)?;
            batch(run, &mut new, 40, 60)?;
        }
        if turn == 3 {
            let event = Ev::note(run.text(90_000), None);
            run.append(&mut old, vec![event], Level::Os)?;
        }
        if run.rng.chance(2, 3) {
            run.let_go(new)?;
            run.let_go(old)?;
        } else {
            drop((new, old));
        }
        run.close(handle)?;
        let process = if run.rng.chance(1, 2) { a.clone() } else { run.process("next") };
        handle = run.open(&process)?;
    }
    Ok(())
}

/// Processes that make the same ids, one of them killed in the midst of it.
pub fn same_id(run: &mut Run) -> Step {
    let (a, b) = (run.process("a"), run.process("b"));
    let one = run.create(&a)?;
    let two = run.open(&b)?;
    for turn in 0..4 {
        let id = format!("same-{turn}");
        let mut w = run.create_session(&one, &id)?;
        batch(run, &mut w, 3, 200)?;
        run.let_go(w)?;
        let mut w = run.create_or_take(&two, &id)?;
        batch(run, &mut w, 3, 200)?;
        run.let_go(w)?;
    }
    let op = run.machine.ops() + 1 + run.rng.below(12);
    kill(run, &a, op);
    let died = make_some(run, &one, &["x", "y", "z"]);
    run.outlive(died)?;
    drop(one);
    run.machine.kill(&a);
    for id in ["z", "y", "x"] {
        let mut w = run.create_or_take(&two, id)?;
        batch(run, &mut w, 3, 200)?;
    }
    Ok(())
}

fn make_some(run: &mut Run, handle: &Handle, ids: &[&str]) -> Step {
    for id in ids {
        let mut w = run.create_session(handle, id)?;
        batch(run, &mut w, 2, 300)?;
    }
    Ok(())
}

fn kill(run: &mut Run, process: &SimProcess, op: u64) {
    if run.rng.chance(1, 2) {
        run.machine.kill_at(process, op);
    } else {
        run.machine.kill_during(process, op, None);
    }
}

/// A session that goes from one living process to another and back, beside sessions that stay.
pub fn hand_over(run: &mut Run) -> Step {
    let (a, b) = (run.process("a"), run.process("b"));
    let one = run.create(&a)?;
    let two = run.open(&b)?;
    let mut stays_one = run.create_session(&one, "stays-1")?;
    let mut stays_two = run.create_session(&two, "stays-2")?;
    let moving = run.create_session(&one, "moves")?;
    run.let_go(moving)?;
    for turn in 0..6 {
        let handle = if turn % 2 == 0 { &two } else { &one };
        let mut w = run.take(handle, "moves")?;
        for _ in 0..1 + run.rng.index(3) {
            batch(run, &mut w, 3, 300)?;
            batch(run, &mut stays_one, 2, 200)?;
            batch(run, &mut stays_two, 2, 200)?;
        }
        if run.rng.chance(1, 4) {
            drop(w);
        } else {
            run.let_go(w)?;
        }
        if run.rng.chance(1, 4) {
            run.upkeep(handle)?;
        }
    }
    Ok(())
}

/// Writers that are killed at any call; others take over what they wrote.
pub fn take_over(run: &mut Run) -> Step {
    let a = run.process("a");
    let handle = run.create(&a)?;
    let b = run.process("b");
    let living = run.open(&b)?;
    let mut own = run.create_session(&living, "own")?;
    let ids = ["s0", "s1", "s2"];
    let mut writing = Vec::new();
    for id in ids {
        let mut w = run.create_session(&handle, id)?;
        batch(run, &mut w, 3, 300)?;
        writing.push(w);
    }
    let op = run.machine.ops() + 1 + run.rng.below(14);
    kill(run, &a, op);
    let died = write_on(run, &mut writing, 20);
    run.outlive(died)?;
    run.machine.kill(&a);
    drop((writing, handle));
    batch(run, &mut own, 3, 300)?;
    let mut taken = Vec::new();
    for id in ids {
        let mut w = run.take(&living, id)?;
        batch(run, &mut w, 3, 300)?;
        taken.push(w);
    }
    let c = run.process("c");
    let third = run.open(&c)?;
    let mut other = run.create_session(&third, "third")?;
    batch(run, &mut other, 2, 100)?;
    let op = run.machine.ops() + 1 + run.rng.below(8);
    kill(run, &b, op);
    let died = write_on(run, &mut taken, 20);
    run.outlive(died)?;
    run.machine.kill(&b);
    drop((taken, own, living));
    for id in ["own", "s2", "s0"] {
        let mut w = run.take(&third, id)?;
        batch(run, &mut w, 2, 300)?;
    }
    Ok(())
}

fn write_on(run: &mut Run, writing: &mut [Writing], steps: usize) -> Step {
    for _ in 0..steps {
        let at = run.rng.index(writing.len());
        batch(run, &mut writing[at], 4, 700)?;
    }
    Ok(())
}

/// Events that nobody waits for, and the work that is done when nobody asks.
pub fn quiet(run: &mut Run) -> Step {
    let a = run.process("a");
    let handle = run.create(&a)?;
    let mut s0 = run.create_session(&handle, "s0")?;
    let mut s1 = run.create_session(&handle, "s1")?;
    for step in 0..16 {
        let count = 1 + run.rng.index(5);
        let events = run.events(count, 3_000);
        let level = if run.rng.chance(1, 2) { Level::Buffered } else { Level::Os };
        run.append(if step % 2 == 0 { &mut s0 } else { &mut s1 }, events, level)?;
        match run.rng.below(4) {
            0 => run.quiet(&handle)?,
            1 => {
                run.quiet(&handle)?;
                run.upkeep(&handle)?;
            }
            2 => {
                run.machine.advance_ms(100);
                run.upkeep(&handle)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Processes that die one after the other in the midst of writing, or of recovering what the one before left.
pub fn recovery(run: &mut Run) -> Step {
    let a = run.process("a");
    let handle = run.create(&a)?;
    let mut w = run.create_session(&handle, "s0")?;
    let events = run.events(3, 400);
    run.append(&mut w, events, Level::Os)?;
    let op = run.machine.ops() + 1 + run.rng.below(10);
    kill(run, &a, op);
    let died = write_on(run, std::slice::from_mut(&mut w), 12);
    run.outlive(died)?;
    run.machine.kill(&a);
    drop((w, handle));
    for turn in 0..5 {
        let process = run.process("next");
        let op = run.machine.ops() + 1 + run.rng.below(25);
        kill(run, &process, op);
        let died = one_life(run, &process, turn);
        run.outlive(died)?;
        run.machine.kill(&process);
    }
    let last = run.process("last");
    let handle = run.open(&last)?;
    let mut w = run.take(&handle, "s0")?;
    batch(run, &mut w, 3, 300)
}

fn one_life(run: &mut Run, process: &SimProcess, turn: usize) -> Step {
    let handle = run.open(process)?;
    let mut w = run.take(&handle, "s0")?;
    batch(run, &mut w, 3, 500)?;
    let mut new = run.create_session(&handle, &format!("n{turn}"))?;
    batch(run, &mut new, 3, 500)?;
    write_on(run, std::slice::from_mut(&mut w), 6)
}

/// Sessions that go on from others: of the own lane, of one that a living process writes, of one whose process died.
pub fn fork(run: &mut Run) -> Step {
    let (a, b) = (run.process("a"), run.process("b"));
    let one = run.create(&a)?;
    let mut s0 = run.create_session(&one, "s0")?;
    batch(run, &mut s0, 3, 300)?;
    let two = run.open(&b)?;
    let mut kids = vec![run.create_session(&two, "other")?];
    for turn in 0..4 {
        batch(run, &mut s0, 4, 500)?;
        let at = run.rng.below(s0.writer.next_seq());
        if let Some(mut kid) = run.fork(&one, ("s0", at), &format!("a{turn}"), false)? {
            batch(run, &mut kid, 3, 300)?;
            // A fork of a fork, behind its mark or before it.
            let at = run.rng.below(kid.writer.next_seq());
            let id = format!("a{turn}-kid");
            let grand = run.fork(&one, (&kid.id.clone(), at), &id, false)?;
            drop((kid, grand));
        }
        if run.rng.chance(1, 2) {
            // What follows a sync in the lane says so to others.
            run.sync(&one)?;
            batch(run, &mut s0, 2, 100)?;
        }
        let at = run.rng.below(s0.writer.next_seq());
        kids.extend(run.fork(&two, ("s0", at), &format!("b{turn}"), true)?);
        let at = run.rng.index(kids.len());
        batch(run, &mut kids[at], 3, 300)?;
    }
    let op = run.machine.ops() + 1 + run.rng.below(10);
    kill(run, &a, op);
    let died = write_on(run, std::slice::from_mut(&mut s0), 12);
    run.outlive(died)?;
    let end = s0.writer.next_seq();
    run.machine.kill(&a);
    drop((s0, one));
    for turn in 0..3 {
        let at = run.rng.below(end);
        kids.extend(run.fork(&two, ("s0", at), &format!("late{turn}"), true)?);
    }
    write_on(run, &mut kids, 4)
}
