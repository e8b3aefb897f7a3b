//! Old bytes where nothing was written: what some disks show in a new file after a power cut.
//!
//! 1. Sectors of a lane's newest segments that hold only zero bytes show what an earlier segment of that lane holds at
//!    the same offset; headers are left alone, and so is every byte that is there.
//! 2. It is for this that a segment has a salt.

use everlog_testkit::rng::Rng;
use everlog_testkit::sim::SimMachine;

const SECTOR: usize = 512;
const HEADER: usize = 4_096;
/// More than the longest zero end of a frame: unused fields of its header, or of what it holds, and padding.
const FRAME_END: usize = 64;

/// Fills holes of the newest segment of each lane, all of them or some.
pub fn show_old_bytes(machine: &SimMachine, store: &str, seed: u64) {
    let mut rng = Rng::new(seed).fork(5);
    for lane in machine.list(&format!("{store}/lanes")) {
        let dir = format!("{store}/lanes/{lane}");
        let names = machine.list(&dir);
        let segments: Vec<&String> = names.iter().filter(|n| n.ends_with(".seg")).collect();
        let Some((newest, older)) = segments.split_last() else { continue };
        if older.is_empty() {
            continue;
        }
        let old = machine.read_file(&format!("{dir}/{}", older[rng.index(older.len())]));
        let Some(old) = old else { continue };
        let (whole, seed) = (rng.chance(1, 2), rng.next_u64());
        machine.damage(&format!("{dir}/{newest}"), 0, usize::MAX, |bytes| {
            let mut rng = Rng::new(seed);
            let mut after_hole = false;
            for (i, sector) in bytes.chunks_mut(SECTOR).enumerate() {
                let hole = i * SECTOR >= HEADER && sector.iter().all(|b| *b == 0);
                // A frame may end in this sector with bytes that are zero.
                let skip = if after_hole { 0 } else { FRAME_END };
                let at = i * SECTOR + skip;
                if hole
                    && (whole || rng.chance(1, 2))
                    && let Some(from) = old.get(at..(i + 1) * SECTOR)
                    && let Some(to) = sector.get_mut(skip..)
                    && to.len() == from.len()
                {
                    to.copy_from_slice(from);
                }
                after_hole = hole;
            }
        });
    }
}
