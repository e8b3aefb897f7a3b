//! What a refresh sees and what it costs: everything that was acknowledged, whatever the writers did meanwhile, and next
//! to nothing when nobody wrote.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, reason = "tests")]

use std::path::Path;
use std::sync::Arc;

use everlog::{
    Level, NewEvent, NewSession, ReadMode, SessionId, SessionWriter, Store, StoreOptions,
};
use everlog_testkit::rng::Rng;
use everlog_testkit::sim::{Call, SimMachine, SimProcess};

const PATH: &str = "/data/store";
const LANES: usize = 5;

fn options() -> StoreOptions {
    StoreOptions::default().with_segment_bytes(256 << 10, 256 << 10).with_read_mode(ReadMode::Pread)
}

fn id(k: usize) -> SessionId {
    SessionId::new(&k.to_string()).unwrap()
}

/// A writer of one session, alive or not.
struct Writer {
    process: Arc<SimProcess>,
    open: Option<(SessionWriter, Store)>,
    acked: u64,
}

impl Writer {
    fn begin(machine: &SimMachine, k: usize) -> Self {
        let process = Arc::new(machine.process("writer"));
        let store = Store::open_on(process.clone(), Path::new(PATH), options()).unwrap();
        let w = store.create_session(&NewSession::with_id(id(k))).unwrap();
        Self { process, open: Some((w, store)), acked: 0 }
    }

    fn append(&mut self, len: usize) {
        let Some((w, _)) = &mut self.open else { return };
        let data = format!("\"{}\"", "x".repeat(len));
        let _receipt =
            w.append_batch(&[NewEvent::new("note", data.as_bytes())], Level::Os).unwrap();
        self.acked += 1;
    }

    /// Closes or kills the writer.
    fn end(&mut self, machine: &SimMachine, killed: bool) {
        let Some((w, store)) = self.open.take() else { return };
        if killed {
            machine.kill(&self.process);
            return;
        }
        w.close().unwrap();
        store.close().unwrap();
    }

    /// Opens the session again, in whichever lane is free.
    fn again(&mut self, machine: &SimMachine, k: usize) {
        if self.open.is_none() {
            self.process = Arc::new(machine.process("writer"));
            let store = Store::open_on(self.process.clone(), Path::new(PATH), options()).unwrap();
            self.open = Some((store.writer(&id(k)).unwrap(), store));
        }
    }
}

#[test]
fn lf1_a_refresh_sees_all_that_was_acknowledged() {
    for seed in 0..6 {
        let machine = SimMachine::new(seed);
        let mut rng = Rng::new(seed);
        let made = Arc::new(machine.process("maker"));
        drop(Store::create_on(made, Path::new(PATH), options()).unwrap());
        let mut writers: Vec<_> = (0..LANES).map(|k| Writer::begin(&machine, k)).collect();
        let process = Arc::new(machine.process("reader"));
        let reader = Store::open_on(process, Path::new(PATH), options().with_read_only()).unwrap();
        for step in 0..400 {
            let k = rng.below(LANES as u64) as usize;
            match rng.below(12) {
                // Few of these fill a segment.
                0..6 => writers[k].append(20_000 + rng.below(60_000) as usize),
                6..8 => writers[k].append(1),
                8 => writers[k].end(&machine, true),
                9 => writers[k].end(&machine, false),
                10 => writers[k].again(&machine, k),
                _ => {}
            }
            if rng.below(3) > 0 {
                reader.refresh().unwrap();
                for (k, w) in writers.iter().enumerate() {
                    let seen = reader.session(&id(k)).unwrap().next_seq();
                    assert_eq!(seen, w.acked, "seed {seed}, step {step}, session {k}");
                }
            }
        }
        assert!(reader.info().unwrap().segments > LANES as u64);
    }
}

#[test]
fn a_quiet_refresh_reads_two_slots_and_one_header_a_lane() {
    let machine = SimMachine::new(7);
    let made = Arc::new(machine.process("maker"));
    drop(Store::create_on(made, Path::new(PATH), options()).unwrap());
    let mut writers: Vec<_> = (0..LANES).map(|k| Writer::begin(&machine, k)).collect();
    writers.iter_mut().for_each(|w| w.append(100));
    writers[0].end(&machine, false);
    writers[1].end(&machine, true);
    let process = Arc::new(machine.process("reader"));
    let reader = Store::open_on(process, Path::new(PATH), options().with_read_only()).unwrap();
    reader.refresh().unwrap();
    machine.count_reads(true);
    machine.clear_log();
    reader.refresh().unwrap();
    let log = machine.log();
    let of = |call: Call| log.iter().filter(move |op| op.call == call);
    assert_eq!(of(Call::List).count(), 1, "the folder of the lanes: {log:?}");
    // The closed one has no news while its slot says so.
    assert_eq!(of(Call::Read).count(), 2 * LANES - 1, "{log:?}");
    assert!(of(Call::Read).map(|op| op.len).sum::<u64>() < 4_500 * LANES as u64, "{log:?}");
    assert_eq!(log.len(), 2 * LANES, "{log:?}");
}
