//! Power cuts: what each plan may and may not leave.

use std::collections::BTreeSet;

use everlog::vfs::{OpenHow, Vfs};

use super::super::{CrashPlan, MAX_SUBSET_BITS, Names, SimMachine, Survival};
use super::{NEW, filled, opened, plans, store};

fn with(data: Survival) -> impl Iterator<Item = CrashPlan> {
    (0..400).map(move |seed| CrashPlan::new(seed, data, Names::All))
}

/// 40 durable sectors of `a`, then unsynced `b` over 20 of them, from the middle of one on.
fn overwritten() -> SimMachine {
    let (machine, _, dir) = store(3);
    let f = filled(&*dir, "f", b'a', 40 * 512);
    f.write_at(&[b'b'; 20 * 512], 5 * 512 + 100).unwrap();
    machine
}

fn bytes(machine: &SimMachine) -> Vec<u8> {
    machine.read_file("/s/f").unwrap()
}

#[test]
fn d3_bytes_beside_a_write_stay_whatever_happens_to_it() {
    let machine = overwritten();
    let (start, end) = (5 * 512 + 100, 25 * 512 + 100);
    let mut seen = BTreeSet::new();
    for plan in plans(50) {
        let after = bytes(&machine.power_loss(&plan));
        assert_eq!(after.len(), 40 * 512);
        assert!(after[..start].iter().chain(&after[end..]).all(|b| *b == b'a'), "{plan:?}");
        seen.extend(after[start..end].iter().copied());
    }
    assert!(seen.len() > 200, "noise is among the fates");
}

#[test]
fn each_way_to_lose_bytes_does_what_it_says() {
    let machine = overwritten();
    let (start, end) = (5 * 512 + 100, 25 * 512 + 100);
    // Sectors of the write: the first and the last are parts.
    let borders: Vec<usize> =
        std::iter::once(start).chain((6..=25).map(|i| i * 512)).chain([end]).collect();
    let whole = |bytes: &[u8], value| bytes.iter().all(|b| *b == value);
    for data in [Survival::Subset, Survival::Torn, Survival::Zeroed, Survival::Garbage] {
        let (mut kept, mut lost, mut odd) = (0, 0, 0);
        for plan in with(data) {
            let after = bytes(&machine.power_loss(&plan));
            for pair in borders.windows(2) {
                let sector = &after[pair[0]..pair[1]];
                if whole(sector, b'b') {
                    kept += 1;
                } else if whole(sector, b'a') {
                    lost += 1;
                } else {
                    odd += 1;
                    match data {
                        Survival::Zeroed => assert!(whole(sector, 0)),
                        Survival::Torn => {
                            assert!(sector.iter().all(|b| *b == b'a' || *b == b'b'));
                            assert_eq!(sector.windows(2).filter(|w| w[0] != w[1]).count(), 1);
                        }
                        Survival::Garbage => {}
                        _ => panic!("{data:?} leaves sectors as they were or as written"),
                    }
                }
            }
        }
        assert!(kept > 1000 && lost > 1000, "{data:?} {kept} {lost}");
        assert_eq!(odd > 500, data != Survival::Subset, "{data:?} {odd}");
    }
}

#[test]
fn a_prefix_keeps_the_order_of_the_whole_machine() {
    let (machine, _, dir) = store(3);
    let (f, g) = (filled(&*dir, "f", 0, 4096), filled(&*dir, "g", 0, 4096));
    for i in 0..8_u64 {
        f.write_at(&[1; 100], i * 100).unwrap();
        g.write_at(&[1; 100], i * 100).unwrap();
        dir.open(&format!("n{i}"), NEW).unwrap();
    }
    let mut cuts = BTreeSet::new();
    for seed in 0..500 {
        let plan = CrashPlan::new(seed, Survival::Prefix, Names::Prefix);
        let image = machine.power_loss(&plan);
        let ones = |path| {
            let all = image.read_file(path).unwrap();
            let count = all.iter().take_while(|b| **b == 1).count();
            assert!(all[count..].iter().all(|b| *b == 0), "a prefix");
            count
        };
        let (in_f, in_g, names) = (ones("/s/f"), ones("/s/g"), image.list("/s").len() - 2);
        assert!(in_f % 100 == 0 || in_g % 100 == 0, "one write is torn");
        assert!(in_g <= in_f && in_f <= in_g + 100);
        assert!(names == in_g / 100 || names + 1 == in_g / 100, "{names} {in_g}");
        cuts.insert(in_f);
    }
    assert!(cuts.len() > 100, "torn at many bytes");
}

#[test]
fn unsynced_sizes_are_old_or_new_or_between() {
    let (machine, _, dir) = store(3);
    let f = filled(&*dir, "f", b'a', 1000);
    f.write_at(&[b'b'; 1000], 1000).unwrap();
    f.allocate(8192).unwrap();
    let mut sizes = BTreeSet::new();
    for plan in with(Survival::Subset) {
        let after = bytes(&machine.power_loss(&plan));
        assert!(after[..1000].iter().all(|b| *b == b'a'));
        assert!(after.len() >= 1000 && after.len() <= 8192);
        assert!(after.iter().skip(2000).all(|b| *b == 0));
        sizes.insert(after.len());
    }
    assert!(sizes.contains(&1000) && sizes.contains(&2000) && sizes.contains(&8192));
    assert!(sizes.len() > 10);
}

#[test]
fn a_name_may_outlive_the_bytes_of_its_file() {
    let (machine, _, dir) = store(3);
    let f = dir.open("f", NEW).unwrap();
    f.write_at(&[5; 600], 0).unwrap();
    let mut seen = BTreeSet::new();
    for plan in plans(60) {
        let image = machine.power_loss(&plan);
        seen.insert(image.read_file("/s/f").map(|b| (b.len(), b.iter().all(|b| *b == 5))));
    }
    assert!(seen.contains(&None));
    assert!(seen.contains(&Some((0, true))), "empty");
    assert!(seen.contains(&Some((600, false))), "long and not filled");
    assert!(seen.contains(&Some((600, true))));
}

#[test]
fn names_are_kept_and_dropped_one_by_one() {
    let (machine, _, dir) = store(3);
    filled(&*dir, "old", 1, 1);
    dir.link("old", "new").unwrap();
    dir.remove("old").unwrap();
    let mut seen = BTreeSet::new();
    for seed in 0..200 {
        let image = machine.power_loss(&CrashPlan::new(seed, Survival::All, Names::Subset));
        let names = image.list("/s");
        let reopened = opened(&image.process("q"));
        for name in &names {
            let twice = reopened.open(name, OpenHow::ReadWrite).is_err();
            assert_eq!(twice, names.len() == 2, "a file with two names is not opened to write");
        }
        seen.insert(names);
    }
    assert_eq!(seen.len(), 4, "both, either, none: {seen:?}");
}

#[test]
fn a_removed_name_may_come_back_with_its_durable_bytes() {
    let (machine, _, dir) = store(3);
    let f = filled(&*dir, "f", 4, 3);
    drop(f);
    dir.remove("f").unwrap();
    let g = dir.open("f", NEW).unwrap();
    g.write_at(&[9; 2], 0).unwrap();
    g.sync_data().unwrap();
    let back = machine.power_loss(&CrashPlan::nothing());
    assert_eq!(bytes(&back), [4, 4, 4]);
    dir.sync().unwrap();
    assert_eq!(bytes(&machine.power_loss(&CrashPlan::nothing())), [9, 9]);
}

#[test]
fn the_mode_is_never_sure() {
    let (machine, _, dir) = store(3);
    let f = filled(&*dir, "f", 4, 3);
    f.set_read_only().unwrap();
    f.sync_data().unwrap();
    let writable = |plan: &CrashPlan| {
        let image = machine.power_loss(plan);
        opened(&image.process("q")).open("f", OpenHow::ReadWrite).is_ok()
    };
    assert!(writable(&CrashPlan::nothing()));
    assert!(!writable(&CrashPlan::all()));
}

#[test]
fn in_an_image_all_is_durable_and_the_boot_is_new() {
    let machine = overwritten();
    let before = machine.process("a");
    for plan in plans(4) {
        let image = machine.power_loss(&plan);
        let after = image.process("b");
        assert_ne!(before.boot_id(), after.boot_id());
        assert_ne!(machine.snapshot().process_crash_image().process("c").random_u64(), 0);
        assert_eq!(image.power_loss(&CrashPlan::nothing()).digest(), image.digest());
        assert_eq!(image.snapshot().unsynced(), 0);
    }
    assert_eq!(machine.process_crash_image().process("d").boot_id(), before.boot_id());
}

#[test]
fn subsets_are_all_of_them() {
    let (machine, _, dir) = store(3);
    let f = filled(&*dir, "f", b'a', 4096);
    f.write_at(&[b'b'; 1200], 100).unwrap();
    f.write_at(&[b'c'; 10], 200).unwrap();
    f.allocate(8192).unwrap();
    dir.open("n", NEW).unwrap();
    f.punch(2048, 512).unwrap();
    // 3 sectors, 1 sector, 1 size, 1 name, 1 punch.
    assert_eq!(machine.snapshot().unsynced(), 7);
    let subsets = machine.crash_subsets().unwrap();
    assert_eq!(subsets.len(), 128);
    let images: BTreeSet<u64> = subsets.map(|image| image.digest()).collect();
    assert_eq!(images.len(), 128, "each choice shows");
    assert!(images.contains(&machine.power_loss(&CrashPlan::nothing()).digest()));
    assert!(images.contains(&machine.power_loss(&CrashPlan::all()).digest()));
    assert!(images.contains(&machine.digest()));

    f.write_at(&[b'd'; 4096], 0).unwrap();
    assert!(machine.snapshot().unsynced() > MAX_SUBSET_BITS);
    assert!(machine.crash_subsets().is_none());
}

#[test]
fn random_subsets_are_among_the_exhaustive_ones() {
    let (machine, _, dir) = store(3);
    let f = filled(&*dir, "f", b'a', 4096);
    f.write_at(&[b'b'; 1200], 100).unwrap();
    f.allocate(8192).unwrap();
    dir.link("f", "g").unwrap();
    dir.remove("f").unwrap();
    let exhaustive: BTreeSet<u64> =
        machine.crash_subsets().unwrap().map(|image| image.digest()).collect();
    let mut seen = BTreeSet::new();
    for seed in 0..2000 {
        let plan = CrashPlan::new(seed, Survival::Subset, Names::Subset);
        let digest = machine.power_loss(&plan).digest();
        assert!(exhaustive.contains(&digest), "{plan:?}");
        seen.insert(digest);
    }
    assert_eq!(seen, exhaustive);
}

#[test]
fn snapshots_branch_and_restore() {
    let (machine, process, dir) = store(3);
    let f = filled(&*dir, "f", 1, 10);
    let then = machine.snapshot();
    let digest = machine.digest();
    f.write_at(&[2; 10], 0).unwrap();
    dir.remove("f").unwrap();
    assert_eq!(then.digest(), digest);
    let branch = then.process_crash_image();
    assert_eq!(bytes(&branch), [1; 10]);
    let g = opened(&branch.process("q")).open("f", OpenHow::ReadWrite).unwrap();
    g.write_at(&[3; 10], 0).unwrap();
    assert_eq!(then.digest(), digest);
    assert!(machine.read_file("/s/f").is_none());
    machine.restore(&then);
    assert_eq!(bytes(&machine), [1; 10]);
    assert!(!machine.is_alive(&process));
    assert!(f.read_at(&mut [0; 1], 0).is_err());
}

#[test]
fn unsynced_order_is_kept_across_the_death_of_processes() {
    let (machine, _, dir) = store(3);
    let f = filled(&*dir, "f", 0, 512);
    for _ in 0..20 {
        f.write_at(&[1; 512], 0).unwrap();
    }
    let image = machine.process_crash_image();
    let g = opened(&image.process("q")).open("f", OpenHow::ReadWrite).unwrap();
    g.write_at(&[2; 512], 0).unwrap();
    for seed in 0..300 {
        let plan = CrashPlan::new(seed, Survival::Prefix, Names::Prefix);
        let after = bytes(&image.power_loss(&plan));
        if after[511] == 2 {
            assert!(after.iter().all(|b| *b == 2));
        }
        assert!(after[0] != 2 || after[511] != 0, "the later write needs the earlier ones");
    }
}
