//! Tests of the simulated machine: each promise of the disk below, each way in which it may break, and that a program
//! which leaves out a step is found out.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod contract;
mod crash;
mod faults;
mod fork;
mod kill;
mod planted;
mod random;

use std::path::Path;
use std::sync::Arc;

use everlog::vfs::{Access, OpenHow, Vfs, VfsDir, VfsFile};

use super::{CrashPlan, Names, SimMachine, SimProcess, Survival};

const NEW: OpenHow = OpenHow::CreateNew(Access::Private);

/// A machine, a process on it, and its open folder `/s`.
fn store(seed: u64) -> (SimMachine, SimProcess, Arc<dyn VfsDir>) {
    let machine = SimMachine::new(seed);
    let process = machine.process("p");
    let dir = process.create_root(Path::new("/s"), Access::Private).unwrap();
    (machine, process, dir)
}

/// A new file with a durable name.
fn file(dir: &dyn VfsDir, name: &str) -> Arc<dyn VfsFile> {
    let file = dir.open(name, NEW).unwrap();
    dir.sync().unwrap();
    file
}

/// A new file of `len` durable bytes of one value.
fn filled(dir: &dyn VfsDir, name: &str, byte: u8, len: usize) -> Arc<dyn VfsFile> {
    let file = file(dir, name);
    file.write_at(&vec![byte; len], 0).unwrap();
    file.sync_data().unwrap();
    file
}

fn opened(process: &SimProcess) -> Arc<dyn VfsDir> {
    process.open_root(Path::new("/s")).unwrap()
}

fn read(file: &dyn VfsFile) -> Vec<u8> {
    let mut bytes = vec![0; file.len().unwrap() as usize];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
    bytes
}

/// Every way to lose bytes and names, with some seeds each.
fn plans(seeds: u64) -> impl Iterator<Item = CrashPlan> {
    (0..seeds).flat_map(|seed| {
        Survival::EACH.into_iter().flat_map(move |data| {
            Names::EACH.into_iter().map(move |names| CrashPlan::new(seed, data, names))
        })
    })
}

#[test]
#[ignore = "measures; run it alone with --release --nocapture"]
fn images_per_second() {
    let (machine, _, dir) = store(1);
    for i in 0..6 {
        let file = file(&*dir, &format!("f{i}"));
        file.allocate(4 << 20).unwrap();
        file.write_at(&vec![i; 100 << 10], 0).unwrap();
        file.sync_data().unwrap();
        for at in 0..40 {
            file.write_at(&[9; 700], (100 << 10) + at * 700).unwrap();
        }
        dir.link(&format!("f{i}"), &format!("g{i}")).unwrap();
    }
    let snapshot = machine.snapshot();
    let count = 20_000_u64;
    let start = std::time::Instant::now();
    for seed in 0..count {
        let image = snapshot.power_loss(&CrashPlan::new(seed, Survival::Mixed, Names::Subset));
        assert!(!image.is_down());
    }
    let took = start.elapsed().as_secs_f64();
    println!("{} unsynced choices: {:.0} images/s", snapshot.unsynced(), count as f64 / took);
    let start = std::time::Instant::now();
    let rounds = 200_000_u64;
    let file = dir.open("f0", OpenHow::Read).unwrap();
    let other = self::file(&*dir, "log");
    machine.set_log(false);
    for i in 0..rounds {
        other.write_at(&[1; 256], i % 4096 * 256).unwrap();
        let mut buf = [0; 256];
        file.read_at(&mut buf, i % 400 * 256).unwrap();
        if i % 16 == 0 {
            other.sync_data().unwrap();
        }
    }
    println!("{:.0} calls/s", rounds as f64 * 2.06 / start.elapsed().as_secs_f64());
}
