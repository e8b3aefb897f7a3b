//! Importing any bytes as a log of dsh.
//!
//! 1. What is taken comes back: the export is taken too, as the same session, and changes nothing.
//! 2. What is refused leaves nothing to see, and the store stays sound in both cases.

use std::path::Path;
use std::sync::Arc;

use everlog::{CheckOptions, ImportOptions, Store, StoreOptions};

use crate::sim::SimMachine;

const PATH: &str = "/data/store";

fn options() -> StoreOptions {
    StoreOptions::default().with_segment_bytes(256 << 10, 1 << 20)
}

/// Bounds that keep one run short.
fn limits() -> ImportOptions {
    let mut options = ImportOptions { name: "name".to_owned(), ..ImportOptions::default() };
    options.line_bytes_max = 1 << 20;
    options.decoded_bytes_max = 8 << 20;
    options
}

fn store(machine: &SimMachine) -> Option<Store> {
    Store::create_on(Arc::new(machine.process("p")), Path::new(PATH), options()).ok()
}

pub(super) fn run(data: &[u8]) {
    let machine = SimMachine::new(1);
    machine.set_log(false);
    let Some(store) = store(&machine) else { return };
    let outcome = store.import_dsh(data, &limits(), &mut |_| true);
    if let Ok(report) = &outcome {
        let mut text = Vec::new();
        let events = store.export_dsh(&report.session, false, &mut text);
        assert_eq!(events.as_ref().ok(), Some(&report.stored), "{events:?}");
        let again = store.import_dsh(&text[..], &limits(), &mut |_| true);
        let again = again.map(|r| (r.session, r.stored, r.added));
        assert_eq!(again.ok(), Some((report.session.clone(), report.stored, 0)), "of {text:?}");
    }
    let listed = store.sessions().map(|s| s.len());
    assert_eq!(listed.ok(), Some(usize::from(outcome.is_ok())), "{outcome:?}");
    let report = store.check(&CheckOptions::default(), &mut |_, _| true);
    assert!(report.as_ref().is_ok_and(everlog::CheckReport::is_clean), "{report:?}");
}
