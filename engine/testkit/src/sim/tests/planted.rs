//! Programs that leave out a step, which some plan must find out, and one that does not, which none may fault.

use everlog::vfs::OpenHow;

use super::super::{Call, CrashPlan, FaultError, FaultPlan, SimMachine};
use super::{NEW, opened, plans, store};

#[derive(Clone, Copy, PartialEq, Debug)]
enum Flaw {
    None,
    NoSync,
    NoDirSync,
    SyncBeforeWrite,
    RetriesSync,
}

/// Appends records of 100 bytes, each with a checksum, to a new file. Gives the number of acknowledged records.
fn run(machine: &SimMachine, flaw: Flaw) -> everlog::Result<u8> {
    let process = machine.process("writer");
    let dir = opened(&process);
    let f = dir.open("log", NEW)?;
    f.allocate(8192)?;
    if flaw != Flaw::NoDirSync {
        f.sync_data()?;
        dir.sync()?;
    }
    let mut acked = 0;
    for i in 0..12_u8 {
        if flaw == Flaw::SyncBeforeWrite {
            f.sync_data()?;
        }
        f.write_at(&[i + 1; 100], u64::from(i) * 100)?;
        match flaw {
            Flaw::NoSync | Flaw::SyncBeforeWrite => {}
            Flaw::RetriesSync => f.sync_data().or_else(|_| f.sync_data())?,
            Flaw::None | Flaw::NoDirSync => {
                if f.sync_data().is_err() {
                    break;
                }
            }
        }
        acked = i + 1;
    }
    Ok(acked)
}

/// Records that are there, from the first on.
fn recovered(machine: &SimMachine) -> u8 {
    let Ok(f) = opened(&machine.process("reader")).open("log", OpenHow::Read) else { return 0 };
    let mut count = 0;
    let mut record = [0; 100];
    while f.read_at(&mut record, u64::from(count) * 100).unwrap() == 100
        && record.iter().all(|byte| *byte == count + 1)
    {
        count += 1;
    }
    count
}

/// How many power cuts lose an acknowledged record.
fn losses(flaw: Flaw, faulty: bool) -> usize {
    let mut losses = 0;
    let faults = if faulty { 1..12 } else { 1..2 };
    for kth in faults {
        let (machine, _, _) = store(kth);
        if faulty {
            machine.fail(FaultPlan::new(&[Call::SyncData], kth + 1, FaultError::Io));
        }
        let acked = run(&machine, flaw).unwrap_or(0);
        losses += plans(8)
            .chain((100..200).map(CrashPlan::random))
            .filter(|plan| recovered(&machine.power_loss(plan)) < acked)
            .count();
        assert!(recovered(&machine.process_crash_image()) >= acked);
    }
    losses
}

#[test]
fn a_right_program_loses_nothing_that_it_acknowledged() {
    assert_eq!(losses(Flaw::None, false), 0);
    assert_eq!(losses(Flaw::None, true), 0);
}

#[test]
fn programs_that_forget_a_step_are_found_out() {
    for flaw in [Flaw::NoSync, Flaw::NoDirSync, Flaw::SyncBeforeWrite] {
        assert!(losses(flaw, false) > 20, "{flaw:?}");
    }
}

#[test]
fn a_program_that_retries_a_failed_sync_is_found_out() {
    assert_eq!(losses(Flaw::RetriesSync, false), 0, "only a failure shows it");
    assert!(losses(Flaw::RetriesSync, true) > 1000);
}
