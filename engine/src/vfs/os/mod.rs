//! The real disk of a Linux machine. Elsewhere only reading is offered.
//!
//! # Invariants
//! Os1. Everything below the root is opened relative to an open folder, by one component, never through a link.
//! Os2. Modes are given when a file is made, never widened afterwards; the umask can only narrow them.

mod dir;
mod file;
#[cfg(test)]
mod tests;

use std::io::Read;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::{Access, Vfs, VfsDir};
use crate::error::{Error, Result};
use crate::sys::atfork;
use dir::OsDir;

/// The real disk and process. All values are the same door: cloning costs nothing.
///
/// ```
/// use everlog::vfs::{OsVfs, Vfs};
/// let disk = OsVfs::new();
/// assert!(disk.now_ms() > 0 && disk.pid() == std::process::id());
/// ```
#[derive(Debug, Clone, Default)]
pub struct OsVfs(());

impl OsVfs {
    /// The disk and process that this program runs in.
    #[must_use]
    pub fn new() -> Self {
        Self(())
    }

    pub(crate) fn shared() -> Arc<dyn Vfs> {
        Arc::new(Self::new())
    }
}

/// Descriptors that this process may have, where the system has a limit.
pub(crate) fn files_max() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current
}

impl Vfs for OsVfs {
    fn open_root(&self, path: &Path) -> Result<Arc<dyn VfsDir>> {
        atfork::install().map_err(|e| Error::io("pthread_atfork", &e).with_path(path))?;
        Ok(Arc::new(OsDir::open_path(path)?))
    }

    fn create_root(&self, path: &Path, access: Access) -> Result<Arc<dyn VfsDir>> {
        let mut missing = Vec::new();
        let mut at = path;
        while !at.exists() {
            missing.push(at);
            match at.parent().filter(|p| !p.as_os_str().is_empty()) {
                Some(p) => at = p,
                None => break,
            }
        }
        // Who made it may have ended before its name was durable. A folder above that cannot be read is not ours.
        if let Ok(above) = OsDir::open_path(dir::above(at)) {
            above.sync()?;
        }
        for dir in missing.into_iter().rev() {
            dir::make_path(dir, access)?;
        }
        self.open_root(path)
    }

    fn now_ms(&self) -> i64 {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(d) => i64::try_from(d.as_millis()).unwrap_or(i64::MAX),
            Err(e) => i64::try_from(e.duration().as_millis()).map_or(i64::MIN, |ms| -ms),
        }
    }

    fn monotonic_ns(&self) -> u64 {
        static START: OnceLock<Instant> = OnceLock::new();
        u64::try_from(START.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn sleep_ms(&self, ms: u64) {
        std::thread::sleep(Duration::from_millis(ms));
    }

    fn random_u64(&self) -> u64 {
        #[cfg(target_os = "linux")]
        {
            let mut b = [0; 8];
            let call =
                |b: &mut [u8]| rustix::rand::getrandom(b, rustix::rand::GetRandomFlags::empty());
            if rustix::io::retry_on_intr(|| call(&mut b)) == Ok(8) {
                return u64::from_le_bytes(b);
            }
        }
        // Seeded by the system as well; distinct for each call.
        use std::hash::{BuildHasher, Hasher, RandomState};
        RandomState::new().build_hasher().finish()
    }

    fn boot_id(&self) -> [u8; 16] {
        static BOOT: OnceLock<[u8; 16]> = OnceLock::new();
        *BOOT.get_or_init(|| {
            read_boot_id().unwrap_or_else(|| {
                let mut id = [0; 16];
                id[..8].copy_from_slice(&self.random_u64().to_le_bytes());
                id[8..].copy_from_slice(&self.random_u64().to_le_bytes());
                id
            })
        })
    }

    fn host(&self) -> String {
        rustix::system::uname().nodename().to_string_lossy().into_owned()
    }

    fn pid(&self) -> u32 {
        std::process::id()
    }

    fn fork_generation(&self) -> u64 {
        // Handles exist only after `open_root`, which does not return without the handler.
        let _installed = atfork::install();
        atfork::generation()
    }

    fn has_threads(&self) -> bool {
        true
    }
}

/// The kernel's id of this boot.
fn read_boot_id() -> Option<[u8; 16]> {
    let file = std::fs::File::open("/proc/sys/kernel/random/boot_id").ok()?;
    let mut text = Vec::new();
    file.take(64).read_to_end(&mut text).ok()?;
    parse_boot_id(&text)
}

fn parse_boot_id(text: &[u8]) -> Option<[u8; 16]> {
    let digits: Vec<u8> = text.iter().copied().filter(u8::is_ascii_hexdigit).collect();
    let mut out = [0; 16];
    if digits.len() != 32 {
        return None;
    }
    for (byte, pair) in out.iter_mut().zip(digits.chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(out)
}

/// An error of a call on a path.
fn failed(call: &str, path: &Path, e: rustix::io::Errno) -> Error {
    Error::io(call, &std::io::Error::from(e)).with_path(path)
}
