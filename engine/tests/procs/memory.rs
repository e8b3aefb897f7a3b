//! How much memory an import takes, however large its input.
//!
//! `IMPORT_MIB`: size of the input in MiB (default 64; CI takes 256, a full run 4096).

use std::io::{BufWriter, Write};

use everlog::{Store, StoreOptions};

use crate::kid::{Kid, scale};

/// Memory that an import may take beside its longest line.
const FREE_BYTES: u64 = 64 << 20;
/// The longest line of the inputs.
const LONG_BYTES: usize = 24 << 20;

/// Writes a log of a size with one long line in its middle, and a line that is cut, where it is to be salvaged.
fn write_log(out: impl Write, bytes: u64, cut: bool) -> std::io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, out);
    let header = r#"{"type":"session","version":0,"id":"big","createdAt":1,"delegationDepth":0}"#;
    writeln!(out, "{header}")?;
    let pad = "lorem ipsum \\n".repeat(60);
    let (mut done, mut seq, mut long) = (0, 0_u64, false);
    while done < bytes {
        let text = if !long && done > bytes / 2 {
            long = true;
            if cut {
                writeln!(out, "{{\"type\":\"note\",\"seq\":{seq}")?;
            }
            "x".repeat(LONG_BYTES - 100)
        } else {
            pad.clone()
        };
        let time = 1_700_000_000_000 + seq;
        let line =
            format!(r#"{{"type":"note","seq":{seq},"time":{time},"data":{{"t":"{text}"}}}}"#);
        writeln!(out, "{line}")?;
        done += line.len() as u64 + 1;
        seq += 1;
    }
    out.flush()
}

fn peak_of(how: &'static str, mib: u64) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    drop(Store::create(&path, StoreOptions::default()).unwrap());
    let mut kid = Kid::start("import", &[("path", &path.display()), ("how", &how)]);
    kid.expect("ready");
    let input = kid.input();
    let feeder = std::thread::spawn(move || write_log(input, mib << 20, how != "dsh"));
    kid.expect("reading");
    // The input takes as long as it takes; what comes after it does not.
    feeder.join().unwrap().unwrap();
    let stored: u64 = kid.expect("stored").parse().unwrap();
    let peak: u64 = kid.expect("peak").parse().unwrap();
    println!("{how}: {mib} MiB, {stored} events, peak {} MiB", peak >> 20);
    peak
}

#[test]
fn an_import_takes_no_more_than_its_longest_line_allows() {
    let mib = scale("IMPORT_MIB", 64);
    for how in ["dsh", "salvage", "jsonl"] {
        let peak = peak_of(how, mib);
        assert!(peak < FREE_BYTES + 2 * LONG_BYTES as u64, "{how}: {peak} bytes");
    }
}
