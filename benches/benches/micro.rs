//! Small costs, by criterion: one append, one read, one line out.
#![allow(clippy::unwrap_used, missing_docs, reason = "a measurement that fails has no result")]

use criterion::{Criterion, criterion_group, criterion_main};
use everlog::{Level, NewEvent, NewSession, Store, StoreOptions};

fn micro(c: &mut Criterion) {
    let folder = std::env::temp_dir().join(format!("everlog-micro-{}", std::process::id()));
    let store = Store::create(&folder, StoreOptions::default()).unwrap();
    let mut w = store.create_session(&NewSession::new("a").unwrap()).unwrap();
    let event = [NewEvent::new(
        "assistant/chunk",
        br#"{"turn":1,"step":1,"chunk":{"type":"text-delta","index":0,"text":"abc"}}"#,
    )];
    c.bench_function("append buffered", |b| {
        b.iter(|| w.append_batch(&event, Level::Buffered).unwrap().first_seq())
    });
    c.bench_function("append os", |b| {
        b.iter(|| w.append_batch(&event, Level::Os).unwrap().first_seq())
    });
    c.bench_function("read first", |b| b.iter(|| w.with(0, &mut |e| e.data.len()).unwrap()));
    let stored = w.read(0).unwrap();
    let mut out = Vec::new();
    c.bench_function("write line", |b| {
        b.iter(|| {
            out.clear();
            everlog::dsh::write_event(&mut out, &stored.as_ref()).unwrap();
            out.len()
        });
    });
    c.bench_function("check json", |b| b.iter(|| everlog::dsh::is_json(&event[0].data)));
    drop(w);
    drop(store);
    std::fs::remove_dir_all(&folder).unwrap();
}

criterion_group!(benches, micro);
criterion_main!(benches);
