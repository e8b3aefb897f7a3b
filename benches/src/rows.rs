//! The rows of the table, in parts.

pub mod append;
pub mod columns;
pub mod data;
pub mod open;
pub mod open_large;
pub mod procs;
pub mod read;
pub mod sync;
pub mod transfer;

use std::path::PathBuf;

use everlog::{NewSession, SessionWriter, Store, StoreOptions};

use crate::config::Config;
use crate::table::Row;

/// A run: its sizes, its folder, and the rows so far.
#[derive(Debug)]
pub struct Run {
    /// Sizes.
    pub config: Config,
    /// A folder of its own.
    pub folder: PathBuf,
    /// Rows so far.
    pub rows: Vec<Row>,
    made: u64,
}

impl Run {
    /// Begins a run in a new folder below that of the configuration.
    ///
    /// # Panics
    /// When the folder cannot be made.
    #[must_use]
    pub fn begin(config: Config) -> Self {
        let folder = config.folder.join(format!("everlog-bench-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self { config, folder, rows: Vec::new(), made: 0 }
    }

    /// Removes the folder.
    ///
    /// # Panics
    /// When it cannot be removed.
    pub fn end(self) -> Vec<Row> {
        std::fs::remove_dir_all(&self.folder).unwrap();
        self.rows
    }

    /// A name in the folder that was not used before.
    pub fn path(&mut self) -> PathBuf {
        self.made += 1;
        self.folder.join(self.made.to_string())
    }

    /// Adds a row, and shows that it is done.
    pub fn add(&mut self, row: Row) {
        eprintln!("{}", row.markdown());
        self.rows.push(row);
    }
}

/// A new store.
///
/// # Panics
/// When it cannot be made.
#[must_use]
pub fn new_store(path: &std::path::Path) -> Store {
    Store::create(path, StoreOptions::default()).unwrap()
}

/// A new session of a store.
///
/// # Panics
/// When it cannot be made.
#[must_use]
pub fn new_session(store: &Store, id: &str) -> SessionWriter {
    store.create_session(&NewSession::new(id).unwrap()).unwrap()
}
