//! Writes `samples/fleet`: 100 small session logs, every tenth with packed rows.
//!
//! ```text
//! cargo run --release -p everlog-testkit --bin make-samples [FOLDER]
//! ```
//!
//! FOLDER is `samples/fleet` of this repository when it is not given. Files of the same names are written over.

use everlog_testkit::samples;
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let folder = std::env::args_os().nth(1).map_or_else(samples::fleet_folder, PathBuf::from);
    match samples::write_fleet(&folder) {
        Ok(bytes) => {
            println!("{} files, {bytes} bytes in {}", samples::FLEET_FILES, folder.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("make-samples: {}: {error}", folder.display());
            ExitCode::FAILURE
        }
    }
}
