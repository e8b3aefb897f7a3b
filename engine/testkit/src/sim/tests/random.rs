//! Random calls against naive models: what is durable, what room is left, and that a seed decides everything.

use std::collections::BTreeMap;
use std::sync::Arc;

use everlog::vfs::{OpenHow, Vfs, VfsDir, VfsFile};

use super::super::ranges::Ranges;
use super::super::rng::Rng;
use super::super::{Call, CrashPlan, FaultError, FaultPlan, SimMachine};
use super::{NEW, plans, read, store};

const MAX: u64 = 20_000;

/// What the naive model knows of one file: a list of bytes, and which of them are sure.
#[derive(Clone, Default)]
struct Model {
    cache: Vec<u8>,
    /// The byte that is on the disk for sure, or `None` where anything may be.
    disk: Vec<Option<u8>>,
    sure_size: usize,
}

impl Model {
    fn grow(&mut self, len: usize) {
        if self.cache.len() < len {
            self.cache.resize(len, 0);
        }
        if self.disk.len() < len {
            self.disk.resize(len, Some(0));
        }
    }

    fn sync(&mut self) {
        self.disk = self.cache.iter().copied().map(Some).collect();
        self.sure_size = self.cache.len();
    }
}

fn change(rng: &mut Rng, file: &dyn VfsFile, model: &mut Model) {
    let offset = rng.below(MAX / 2);
    let longest = if rng.chance(1, 4) { 6000 } else { 300 };
    let len = rng.below(longest);
    let range = offset as usize..(offset + len) as usize;
    match rng.below(10) {
        0..=5 => {
            let byte = rng.next() as u8;
            file.write_at(&vec![byte; len as usize], offset).unwrap();
            if len > 0 {
                model.grow(range.end);
                model.cache[range.clone()].fill(byte);
                model.disk[range.clone()].fill(None);
            }
        }
        6 => {
            file.allocate(offset + len).unwrap();
            model.grow(range.end);
        }
        7 => {
            file.punch(offset, len).unwrap();
            let end = range.end.min(model.cache.len());
            if range.start < end {
                model.cache[range.start..end].fill(0);
                model.disk[range.start..end].fill(None);
            }
        }
        _ => {
            file.sync_data().unwrap();
            model.sync();
        }
    }
}

fn check(machine: &SimMachine, models: &BTreeMap<String, Model>) {
    for plan in plans(2) {
        let image = machine.power_loss(&plan);
        for (name, model) in models {
            let bytes = image.read_file(&format!("/s/{name}")).unwrap();
            assert!(bytes.len() >= model.sure_size && bytes.len() <= model.cache.len());
            for (i, sure) in model.disk.iter().enumerate().take(bytes.len()) {
                assert!(sure.is_none_or(|b| b == bytes[i]), "{plan:?} {name} {i}");
            }
        }
    }
}

#[test]
fn what_is_durable_is_in_every_image() {
    for seed in 0..25 {
        let (machine, _, dir) = store(seed);
        let mut rng = Rng::derived(seed, 99);
        let mut models = BTreeMap::new();
        let files: Vec<(String, Arc<dyn VfsFile>)> =
            (0..3).map(|i| (format!("f{i}"), dir.open(&format!("f{i}"), NEW).unwrap())).collect();
        dir.sync().unwrap();
        for _ in 0..60 {
            let (name, file) = &files[rng.below(3) as usize];
            let model = models.entry(name.clone()).or_insert_with(Model::default);
            change(&mut rng, &**file, model);
            assert_eq!(read(&**file), model.cache);
        }
        check(&machine, &models);
        let all = machine.power_loss(&CrashPlan::all());
        assert_eq!(all.digest(), machine.digest());
        assert_eq!(all.free_bytes(), machine.free_bytes());
        for (name, file) in &files {
            file.sync_data().unwrap();
            let none = machine.power_loss(&CrashPlan::nothing());
            assert_eq!(none.read_file(&format!("/s/{name}")).unwrap(), read(&**file));
        }
    }
}

/// A workload with kills, faults, forks and sleeping; gives everything that can be seen of it.
fn everything(seed: u64) -> (u64, Vec<u64>, String) {
    let (machine, process, dir) = store(seed);
    let mut rng = Rng::derived(7, 7);
    let peer = machine.process("peer");
    let there = super::opened(&peer);
    machine.fail(FaultPlan::new(&[Call::Write], 9, FaultError::Io).partial());
    machine.fail(FaultPlan::new(&[Call::SyncData], 3, FaultError::Io).partial());
    machine.kill_during(&process, 60, None);
    machine.crash_during(150, None);
    let mut drawn = Vec::new();
    for i in 0..200 {
        let dir: &dyn VfsDir = if rng.chance(1, 2) { &*dir } else { &*there };
        let name = format!("f{}", rng.below(6));
        let opened = dir.open(&name, OpenHow::ReadWrite).or_else(|_| dir.open(&name, NEW));
        if let Ok(file) = opened {
            let _ = file.write_at(&vec![i; rng.below(3000) as usize], rng.below(9000));
            if rng.chance(1, 3) {
                let _ = file.sync_data();
            }
        }
        match rng.below(8) {
            0 => drop(dir.sync()),
            1 => drop(dir.remove(&name)),
            2 => drop(dir.link(&name, &format!("f{}", rng.below(6)))),
            _ => drawn.push(process.random_u64() ^ peer.monotonic_ns()),
        }
    }
    assert!(machine.is_down());
    drawn.push(machine.digest());
    drawn.extend((0..40).map(|s| {
        let image = machine.power_loss(&CrashPlan::random(s));
        let boot = u64::from(image.process("x").boot_id()[3]);
        image.digest() ^ boot ^ image.process("x").random_u64()
    }));
    (machine.ops(), drawn, format!("{:?}", machine.log()))
}

#[test]
fn a_seed_decides_everything() {
    for seed in 0..6 {
        assert_eq!(everything(seed), everything(seed));
    }
    assert_ne!(everything(1).1, everything(2).1);
}

#[test]
fn planning_a_fault_does_not_change_what_the_engine_draws() {
    let (a, p, _) = store(4);
    let (_, q, dir) = store(4);
    a.fail(FaultPlan::new(&[], 1000, FaultError::Io).partial());
    dir.open("x", NEW).unwrap();
    assert_eq!(p.random_u64(), q.random_u64());
}

#[test]
fn ranges_behave_as_a_set_of_numbers() {
    for seed in 0..200 {
        let mut rng = Rng::derived(seed, 1);
        let (mut ranges, mut naive) = (Ranges::default(), [false; 64]);
        for _ in 0..30 {
            let start = rng.below(64);
            let end = start + rng.below(65 - start);
            let add = rng.chance(1, 2);
            if add {
                ranges.add(start, end);
            } else {
                ranges.remove(start, end);
            }
            naive[start as usize..end as usize].fill(add);
            let listed: Vec<(u64, u64)> = ranges.iter().collect();
            assert!(listed.iter().all(|(s, e)| s < e));
            assert!(listed.windows(2).all(|w| w[0].1 < w[1].0));
            for (i, there) in naive.iter().enumerate() {
                assert_eq!(ranges.contains(i as u64), *there, "{seed} {i}");
            }
            let within = naive[start as usize..end as usize].iter().filter(|b| **b).count();
            assert_eq!(ranges.count_in(start, end), within as u64);
        }
    }
}

#[test]
fn one_machine_serves_many_threads() {
    let (machine, _, dir) = store(1);
    let threads: Vec<_> = (0..4_u8)
        .map(|i| {
            let process = machine.process("thread");
            std::thread::spawn(move || {
                let dir = super::opened(&process);
                let file = dir.open(&format!("t{i}"), NEW).unwrap();
                for at in 0..200 {
                    file.write_at(&[i; 64], at * 64).unwrap();
                    process.sleep_ms(1);
                }
                file.sync_data().unwrap();
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(dir.list().unwrap().len(), 4);
    for i in 0..4_u8 {
        assert_eq!(machine.read_file(&format!("/s/t{i}")).unwrap(), vec![i; 200 * 64]);
    }
}
