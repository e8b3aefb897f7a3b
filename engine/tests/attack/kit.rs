//! What the attacks share: a machine with a store on it, and notes to append.

use std::path::Path;
use std::sync::Arc;

use everlog::{NewEvent, NewSession, SessionId, SessionWriter, Store, StoreOptions};
use everlog_testkit::sim::{SimMachine, SimProcess};

pub(crate) const STORE: &str = "/data/store";

pub(crate) fn id(s: &str) -> SessionId {
    SessionId::new(s).unwrap()
}

/// JSON of about `len` bytes that differs for each `n`.
pub(crate) fn note(n: usize, len: usize) -> Vec<u8> {
    format!("{{\"n\":{n},\"pad\":\"{}\"}}", "x".repeat(len)).into_bytes()
}

pub(crate) fn event(data: &[u8]) -> NewEvent<'_> {
    NewEvent::new("note", data)
}

pub(crate) fn process(machine: &SimMachine, name: &str) -> Arc<SimProcess> {
    Arc::new(machine.process(name))
}

pub(crate) fn create(machine: &SimMachine, options: StoreOptions) -> (Arc<SimProcess>, Store) {
    let p = process(machine, "maker");
    let store = Store::create_on(p.clone(), Path::new(STORE), options).unwrap();
    (p, store)
}

pub(crate) fn open(p: &Arc<SimProcess>, options: StoreOptions) -> Store {
    Store::open_on(p.clone(), Path::new(STORE), options).unwrap()
}

pub(crate) fn session(store: &Store, name: &str) -> SessionWriter {
    store.create_session(&NewSession::new(name).unwrap()).unwrap()
}

/// Path of the only segment file of lane 0 with that number.
pub(crate) fn segment(no: u64) -> String {
    format!("{STORE}/lanes/0000/{no:016x}.seg")
}
