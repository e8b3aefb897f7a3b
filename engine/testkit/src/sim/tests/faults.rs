//! Injected failures: which call they hit, what is left, and what a later sync is worth.

use everlog::vfs::Vfs;
use everlog::{Error, ErrorKind};

use super::super::{Call, CrashPlan, FaultError, FaultPlan, SimMachine};
use super::{NEW, file, filled, opened, read, store};

fn nothing(machine: &SimMachine) -> Vec<u8> {
    machine.power_loss(&CrashPlan::nothing()).read_file("/s/f").unwrap()
}

#[test]
fn the_kth_call_fails_once_or_from_then_on() {
    for sticky in [false, true] {
        let (machine, _, dir) = store(1);
        let f = file(&*dir, "f");
        let plan = FaultPlan::new(&[Call::Write, Call::Punch], 3, FaultError::Io);
        let id = machine.fail(if sticky { plan.sticky() } else { plan });
        let results: Vec<bool> = (0..6).map(|i| f.write_at(b"x", i).is_ok()).collect();
        assert_eq!(results, [true, true, false, !sticky, !sticky, !sticky]);
        assert_eq!(machine.fault_hits(id), if sticky { 4 } else { 1 });
        assert_eq!(machine.fault_seen(id), 6);
        f.sync_data().unwrap();
        machine.clear_faults();
        f.write_at(b"x", 0).unwrap();
        assert_eq!(machine.fault_seen(id), 6);
    }
}

#[test]
fn a_loop_over_k_ends_when_nothing_fails() {
    let work = |machine: &SimMachine| -> Result<(), Error> {
        let process = machine.process("p");
        let dir = process.create_root("/s".as_ref(), Default::default())?;
        let f = dir.open("f", NEW)?;
        f.allocate(4096)?;
        f.write_at(b"x", 0)?;
        f.sync_data()?;
        dir.sync()
    };
    let mut failed = Vec::new();
    for k in 1.. {
        let machine = SimMachine::new(1);
        let fault = machine.fail(FaultPlan::new(&[], k, FaultError::Io));
        let result = work(&machine);
        assert_eq!(result.is_err(), machine.fault_hits(fault) > 0);
        if result.is_ok() {
            break;
        }
        failed.push(machine.log().last().unwrap().call);
    }
    let calls = [
        Call::CreateDir,
        Call::SyncDir,
        Call::Create,
        Call::Allocate,
        Call::Write,
        Call::SyncData,
        Call::SyncDir,
    ];
    assert_eq!(failed, calls);
}

#[test]
fn errors_look_like_those_of_the_operating_system() {
    let errors = [
        (FaultError::Io, ErrorKind::Io, 5),
        (FaultError::NoSpace, ErrorKind::StorageFull, 28),
        (FaultError::Quota, ErrorKind::StorageFull, 122),
    ];
    for (fault, kind, code) in errors {
        let (machine, _, dir) = store(1);
        let f = file(&*dir, "f");
        machine.fail(FaultPlan::new(&[Call::Write], 1, fault));
        let err = f.write_at(b"x", 0).unwrap_err();
        assert_eq!((err.kind(), err.os_code()), (kind, Some(code)));
        assert_eq!(f.len().unwrap(), 0, "no effect");
        let last = machine.log().pop().unwrap();
        assert_eq!((last.call, last.result), (Call::Write, Err(kind)));
    }
}

#[test]
fn scope_is_a_process_and_a_path() {
    let (machine, process, dir) = store(1);
    let other = machine.process("q");
    let there = opened(&other);
    let fault = |plan: FaultPlan| machine.fail(plan.sticky());
    fault(FaultPlan::new(&[Call::Create], 1, FaultError::Io).only(&process));
    fault(FaultPlan::new(&[], 1, FaultError::Io).on_path("/bad"));
    assert!(dir.open("a", NEW).is_err());
    there.open("a", NEW).unwrap();
    assert!(there.open("bad", NEW).is_err());
}

#[test]
fn reads_fail_as_well() {
    let (machine, _, dir) = store(1);
    let f = filled(&*dir, "f", 1, 3);
    let map = f.map().unwrap().unwrap();
    machine.fail(FaultPlan::new(&[Call::Read, Call::CopyOut], 1, FaultError::Io).sticky());
    assert_eq!(f.read_at(&mut [0; 3], 0).unwrap_err().kind(), ErrorKind::Io);
    assert!(!map.copy_out(&mut [0; 3], 0));
    assert_eq!(f.len().unwrap(), 3);
}

#[test]
fn a_partial_write_leaves_a_prefix() {
    let mut lens = std::collections::BTreeSet::new();
    for seed in 0..60 {
        let (machine, _, dir) = store(seed);
        let f = file(&*dir, "f");
        machine.fail(FaultPlan::new(&[Call::Write], 1, FaultError::NoSpace).partial());
        assert!(f.write_at(b"abcd", 0).is_err());
        let left = read(&*f);
        assert_eq!(left, b"abcd"[..left.len()]);
        lens.insert(left.len());
    }
    assert_eq!(lens.len(), 5);
}

#[test]
fn a_partial_allocation_keeps_the_size() {
    let (machine, _, dir) = store(5);
    let f = file(&*dir, "f");
    machine.fail(FaultPlan::new(&[Call::Allocate], 1, FaultError::NoSpace).partial());
    assert_eq!(f.allocate(1 << 20).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(f.len().unwrap(), 0);
    f.allocate(1 << 20).unwrap();
}

#[test]
fn a_partial_create_may_leave_the_name_and_no_handle() {
    let mut seen = [false; 2];
    for seed in 0..20 {
        let (machine, _, dir) = store(seed);
        let free = machine.free_bytes();
        machine.fail(FaultPlan::new(&[Call::Create], 1, FaultError::Io).partial());
        assert!(dir.open("f", NEW).is_err());
        let there = machine.read_file("/s/f").is_some();
        seen[usize::from(there)] = true;
        if there {
            dir.remove("f").unwrap();
        }
        assert_eq!(machine.free_bytes(), free, "nothing keeps it open");
    }
    assert_eq!(seen, [true; 2]);
}

#[test]
fn d5_a_sync_after_a_failed_one_proves_nothing() {
    let (machine, _, dir) = store(1);
    let f = filled(&*dir, "f", b'a', 2048);
    f.write_at(&[b'b'; 700], 100).unwrap();
    machine.fail(FaultPlan::new(&[Call::SyncData], 1, FaultError::Io));
    assert_eq!(f.sync_data().unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(machine.lost_bytes("/s/f"), 700);
    assert_eq!(&read(&*f)[100..800], &[b'b'; 700], "the page cache shows them");
    f.sync_data().unwrap();
    assert_eq!(nothing(&machine), [b'a'; 2048], "the sync said yes, the disk has nothing");
    assert_eq!(machine.process_crash_image().lost_bytes("/s/f"), 700, "whoever looks");

    // Bytes beside them are written and synced as ever.
    f.write_at(&[b'c'; 100], 0).unwrap();
    f.sync_data().unwrap();
    let disk = nothing(&machine);
    assert_eq!((&disk[..100], disk[100]), (&[b'c'; 100][..], b'a'));

    // Written again, they are durable.
    f.write_at(&[b'b'; 600], 200).unwrap();
    f.sync_data().unwrap();
    let disk = nothing(&machine);
    assert_eq!((&disk[100..200], &disk[200..800]), (&[b'a'; 100][..], &[b'b'; 600][..]));
    assert_eq!(machine.lost_bytes("/s/f"), 100);
    machine.drop_caches();
    assert_eq!(read(&*f), disk);
}

#[test]
fn d5_a_failed_sync_may_have_written_a_part() {
    let mut kept = 0;
    for seed in 0..50 {
        let (machine, _, dir) = store(seed);
        let f = filled(&*dir, "f", 0, 4 * 512);
        f.write_at(&[1; 4 * 512], 0).unwrap();
        machine.fail(FaultPlan::new(&[Call::SyncData], 1, FaultError::NoSpace).partial());
        assert_eq!(f.sync_data().unwrap_err().kind(), ErrorKind::StorageFull);
        let disk = nothing(&machine);
        kept += disk.iter().filter(|b| **b == 1).count();
        assert_eq!(machine.lost_bytes("/s/f"), disk.iter().filter(|b| **b == 0).count() as u64);
    }
    assert!(kept % 512 == 0 && (50 * 512..150 * 512).contains(&kept), "{kept}");
}

#[test]
fn d5_sizes_stay_pending_after_a_failed_sync() {
    let (machine, _, dir) = store(1);
    let f = file(&*dir, "f");
    f.allocate(8192).unwrap();
    f.write_at(b"abc", 0).unwrap();
    machine.fail(FaultPlan::new(&[Call::SyncData], 1, FaultError::Io));
    assert!(f.sync_data().is_err());
    assert_eq!(nothing(&machine), b"");
    f.sync_data().unwrap();
    assert_eq!(nothing(&machine), vec![0; 8192]);
}

#[test]
fn a_failed_sync_of_a_folder_leaves_its_changes_pending() {
    let (machine, _, dir) = store(1);
    for i in 0..10 {
        dir.open(&format!("f{i}"), NEW).unwrap();
    }
    machine.fail(FaultPlan::new(&[Call::SyncDir], 1, FaultError::Io).partial());
    assert!(dir.sync().is_err());
    let some = machine.power_loss(&CrashPlan::nothing()).list("/s").len();
    assert!((1..10).contains(&some), "{some}");
    dir.sync().unwrap();
    assert_eq!(machine.power_loss(&CrashPlan::nothing()).list("/s").len(), 10);
}

#[test]
fn damage_and_other_interventions_are_durable() {
    let (machine, process, dir) = store(1);
    let f = filled(&*dir, "f", 0, 100);
    f.write_at(&[1; 10], 0).unwrap();
    let ops = machine.ops();
    assert!(machine.damage("/s/f", 95, 10, |bytes| {
        assert_eq!(bytes.len(), 5);
        bytes[0] ^= 0x80;
    }));
    assert!(machine.copy_path("/s/f", "/t/copy"));
    assert!(machine.truncate("/t/copy", 9));
    assert!(machine.write_file("/u/v/w", b"planted"));
    assert!(machine.make_dir("/u/empty"));
    assert!(machine.remove_path("/u/v"));
    assert!(!machine.remove_path("/u/v") && !machine.damage("/none", 0, 1, |_| ()));
    let after = machine.power_loss(&CrashPlan::nothing());
    assert_eq!(after.digest(), machine.digest());
    let bytes = nothing(&machine);
    assert_eq!((bytes[0], bytes[94], bytes[95]), (1, 0, 0x80));
    assert_eq!(machine.read_file("/t/copy").unwrap(), [1; 9]);
    assert_eq!(machine.list("/u"), ["empty"]);
    let paths: Vec<String> = machine.files().into_keys().collect();
    assert_eq!(paths, ["/s/f", "/t/copy"]);
    assert_eq!(after.free_bytes(), machine.free_bytes());
    assert_eq!(machine.ops(), ops);
    assert!(machine.is_alive(&process) && read(&*f)[95] == 0x80);
}
