//! Ctrl-C and SIGTERM as a flag that is looked at between batches.
//!
//! # Invariants
//! I1. The first signal only sets the flag: the verb ends its batch, closes the store and exits with 128 + signal.
//! I2. The second signal ends the process at once. The store is safe to kill at any time.
//! I3. A file that may not grow (`ulimit -f`) is a failed write, not the end of the process.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;

use crate::exit::{FAILED, Failure};

static SEEN: OnceLock<Arc<AtomicUsize>> = OnceLock::new();

/// Installs the handlers, once a process.
pub(crate) fn install() -> Result<(), Failure> {
    let seen = SEEN.get_or_init(Arc::default);
    let again = Arc::new(AtomicBool::new(false));
    let failed =
        |e: std::io::Error| Failure::new(FAILED, "io", format!("install signal handlers: {e}"));
    for signal in [SIGINT, SIGTERM] {
        // The order counts: the first signal finds `again` unset, then sets it.
        flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&again))
            .map_err(failed)?;
        flag::register(signal, Arc::clone(&again)).map_err(failed)?;
        let number = usize::try_from(signal).unwrap_or_default();
        flag::register_usize(signal, Arc::clone(seen), number).map_err(failed)?;
    }
    // Any handler will do: the write then fails with EFBIG. An ignored signal would be inherited.
    flag::register(SIGXFSZ, Arc::default()).map(drop).map_err(failed)
}

/// Fails once a signal asked to stop.
pub(crate) fn check() -> Result<(), Failure> {
    match SEEN.get().map_or(0, |seen| seen.load(Ordering::Relaxed)) {
        0 => Ok(()),
        signal => Err(Failure::interrupted(u8::try_from(signal).unwrap_or_default())),
    }
}
