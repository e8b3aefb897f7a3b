//! Every case of the shared corpus, and the real logs beside it.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{ImportOptions, Kept, read_with, sha256};
use crate::{ErrorKind, SessionId};

/// A folder of the shared material, wherever above the crate it lies. Without it the test has nothing to
/// run on: it says so, and fails where it must not be skipped.
pub(super) fn shared(name: &str) -> Option<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let found = here.ancestors().map(|dir| dir.join("shared").join(name)).find(|dir| dir.is_dir());
    if found.is_none() {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "shared/{name} is missing");
        eprintln!("SKIPPED, NOTHING TESTED: no folder shared/{name} above {}", here.display());
    }
    found
}

/// The kind as the command line prints it.
fn printed(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Limit => "invalid",
        other => other.name(),
    }
}

/// A description of a case. Surrogates, which the parser refuses when they are alone, are not looked at.
pub(super) fn json(path: PathBuf) -> Value {
    let text = fs::read_to_string(path).unwrap().replace("\\ud", "\\u0");
    serde_json::from_str(&text).unwrap()
}

struct Case {
    expected: Value,
    ours: Value,
    input: Vec<u8>,
    bad: Vec<String>,
}

impl Case {
    fn same(&mut self, what: &str, want: String, got: String) {
        if want != got {
            self.bad.push(format!("{what}: want {want:?} got {got:?}"));
        }
    }

    fn run(&mut self) {
        let result = read_with(&self.input[..], &ImportOptions::default());
        let accepted = self.ours["accepted"].as_bool().unwrap();
        match result {
            Ok((outcome, kept)) => {
                self.same("accepted", accepted.to_string(), true.to_string());
                self.same("stored", self.ours["stored"].to_string(), outcome.events.to_string());
                if accepted {
                    self.export(&kept);
                }
            }
            Err(e) => {
                if accepted {
                    self.bad.push(format!("refused: {e:?}"));
                    return;
                }
                let want = self.ours["kind"].as_str().unwrap_or("none").to_owned();
                let got = printed(e.kind());
                let any = want == "any" && ["corrupt", "invalid", "unsupported"].contains(&got);
                if !any {
                    self.same("kind", want, got.to_owned());
                }
                if e.line().is_none() && e.offset().is_none() {
                    self.bad.push(format!("no place: {e:?}"));
                }
            }
        }
    }

    fn export(&mut self, kept: &Kept) {
        if let Some(format) = self.ours["export"].as_str() {
            if format != "skip" && kept.export(format == "dsh-packed") != self.input {
                self.bad.push(format!("export as {format} differs from the input"));
            }
            return;
        }
        let differs = !self.ours["differs"].is_null() || !self.ours["messages"].is_null();
        let closers = self.expected["closers"].as_array().is_some_and(|c| !c.is_empty());
        if self.ours["compare"] != "text" || differs || closers {
            return;
        }
        for (packed, key) in [(false, "reencoded_unpacked"), (true, "reencoded_packed")] {
            if let Some(want) = self.expected[key]["sha256"].as_str().map(str::to_owned) {
                self.same(key, want, sha256::hex(&kept.export(packed)));
            }
        }
    }
}

#[test]
fn corpus_is_accepted_and_refused_as_it_says() {
    let Some(root) = shared("conformance") else { return };
    let (mut ran, mut exports, mut bad) = (0, 0, Vec::new());
    for base in ["fixtures", "cases"] {
        for entry in fs::read_dir(root.join(base)).unwrap() {
            let dir = entry.unwrap().path();
            let ours = json(dir.join("ours.json"));
            if !ours["skip"].is_null() {
                continue;
            }
            let expected = json(dir.join("expected.json"));
            let input = fs::read(dir.join(expected["input"].as_str().unwrap())).unwrap();
            exports +=
                usize::from(!ours["export"].is_null() || !expected["reencoded_packed"].is_null());
            let mut case = Case { expected, ours, input, bad: Vec::new() };
            case.run();
            ran += 1;
            bad.extend(case.bad.iter().map(|b| format!("{}: {b}", dir.display())));
        }
    }
    assert!(bad.is_empty(), "{} failures\n{}", bad.len(), bad.join("\n"));
    assert!(ran > 200 && exports > 80, "only {ran} cases and {exports} exports");
}

#[test]
fn real_projections_are_read() {
    let Some(root) = shared("real") else { return };
    let mut files: Vec<PathBuf> =
        fs::read_dir(root.join("dsh")).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    let mut counts = Vec::new();
    for file in files {
        let name = file.file_stem().unwrap().to_str().unwrap();
        let options = ImportOptions { name: SessionId::new(name).ok(), ..ImportOptions::default() };
        let (outcome, kept) = read_with(fs::File::open(&file).unwrap(), &options).unwrap();
        assert!(outcome.projection && outcome.torn_bytes == 0, "{name}");
        let header = kept.header.as_ref().unwrap();
        assert!(header.placeholder_cwd && !header.view.id.as_bytes().starts_with(b"{{"), "{name}");
        counts.push(outcome.events);
        // What is exported has seq and time, and reads back as the same events.
        let mut text = kept.export(false);
        let cwd = b"{{cwd}}";
        let at = text.windows(cwd.len()).position(|w| w == cwd).unwrap();
        text.splice(at..at + 1, *b"/");
        let (again, kept_again) = read_with(&text[..], &options).unwrap();
        assert!(!again.projection && again.warnings.is_empty(), "{name}");
        assert_eq!(kept_again.events, kept.events);
    }
    assert_eq!(counts, [18, 31, 99, 200, 2098, 813, 77, 34]);
}
