//! Many threads at `sync` through one store share syncs; one alone needs one write and one sync.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use everlog::{Level, NewEvent, NewSession, Store, StoreOptions};
use everlog_testkit::rng::Rng;

use crate::acks::{Acks, data, digest};
use crate::kid::{pause, scale};

#[test]
fn thirty_two_threads_share_syncs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Store::create(&path, StoreOptions::default()).unwrap();
    let acks = Mutex::new(Acks::default());
    let writers: Vec<_> = (0..32)
        .map(|k| store.create_session(&NewSession::new(&format!("g{k}")).unwrap()).unwrap())
        .collect();
    let (writes_before, syncs_before) = store.io_counts();
    let begun = Instant::now();
    let until = begun + Duration::from_secs(scale("SECONDS", 2).div_ceil(2));
    std::thread::scope(|scope| {
        for (k, mut w) in writers.into_iter().enumerate() {
            let acks = &acks;
            scope.spawn(move || {
                let mut rng = Rng::new(k as u64);
                let mut said = Vec::new();
                let mut n = 0;
                while Instant::now() < until {
                    let text = data("g", n, rng.index(500));
                    let event = NewEvent::new("note", &text);
                    let receipt =
                        w.append_batch(std::slice::from_ref(&event), Level::Sync).unwrap();
                    assert!(receipt.poll(Level::Sync).unwrap());
                    let seq = receipt.first_seq();
                    said.push(format!("ack g{k} {seq} sync {}", digest(b"note", &text)));
                    n += 1;
                }
                let mut acks = acks.lock().unwrap();
                assert!(said.iter().all(|line| acks.take(line)));
                drop(acks);
                w.close().unwrap();
            });
        }
    });
    let took = begun.elapsed();
    let (writes, syncs) = store.io_counts();
    let (writes, syncs) = (writes - writes_before, syncs - syncs_before);
    store.close().unwrap();
    let acks = acks.into_inner().unwrap();
    assert_eq!(acks.verify(&path).unwrap(), acks.count());
    let each = acks.count() as f64 / syncs as f64;
    println!(
        "32 threads, {:.1} s: {} acks at sync, {syncs} syncs, {writes} writes: {each:.1} acks a sync",
        took.as_secs_f64(),
        acks.count()
    );
    assert!(each >= 4.0, "{each:.1} acks a sync");
}

#[test]
fn one_append_at_sync_is_one_write_and_one_sync() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create(folder.path().join("store"), StoreOptions::default()).unwrap();
    let mut w = store.create_session(&NewSession::new("s").unwrap()).unwrap();
    let mut found = Vec::new();
    for n in 0..10 {
        // The marks of a quiet lane are on the disk after this.
        pause(150);
        let text = data("one", n, 200);
        let event = NewEvent::new("note", &text);
        let before = store.io_counts();
        let _receipt = w.append_batch(std::slice::from_ref(&event), Level::Sync).unwrap();
        let after = store.io_counts();
        found.push((after.0 - before.0, after.1 - before.1));
    }
    // The upkeep may come in between, now and then.
    let exact = found.iter().filter(|d| **d == (1, 1)).count();
    assert!(exact >= 7 && found.iter().all(|d| d.0 >= 1 && d.1 >= 1), "{found:?}");
}
