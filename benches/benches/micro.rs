//! Small costs, by criterion: one append, one frame of many, one read, one line out, one check, one replace.
#![allow(clippy::unwrap_used, missing_docs, reason = "a measurement that fails has no result")]

use criterion::{Criterion, criterion_group, criterion_main};
use everlog::{
    Level, NewEvent, NewSession, PreparedBatch, Store, StoreOptions, Surface, SurfaceOp,
};

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
    let mut batch = PreparedBatch::new();
    (0..256).for_each(|_| batch.push(event[0].clone()).unwrap());
    c.bench_function("encode and stage a frame of 256", |b| {
        b.iter(|| w.append_prepared(&batch, Level::Buffered).unwrap().first_seq())
    });
    let first = w.append_prepared(&batch, Level::Os).unwrap().first_seq();
    c.bench_function("decode a frame of 256", |b| {
        b.iter(|| {
            let mut bytes = 0;
            w.for_each(first, first + 255, &mut |e| {
                bytes += e.data.len();
                Ok(())
            })
            .unwrap();
            bytes
        });
    });
    surface(c);
    drop(w);
    drop(store);
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A replace of the oldest half of 2,000 nodes, and its undoing.
fn surface(c: &mut Criterion) {
    let mut surface = Surface::new();
    for seq in 0..2_000 {
        let plan = surface.plan(seq, SurfaceOp::Append).unwrap();
        surface.apply(&plan);
    }
    c.bench_function("replace 1,000 of 2,000 nodes and undo it", |b| {
        b.iter(|| {
            let op = SurfaceOp::Replace { start: 0, end: 999 };
            let plan = surface.plan(2_000, op).unwrap();
            surface.apply(&plan);
            surface.undo(&plan);
        });
    });
}

criterion_group!(benches, micro);
criterion_main!(benches);
