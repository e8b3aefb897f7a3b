//! A folder with a store in it, and the binary run against it with a clean environment.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

pub(crate) struct Place {
    dir: TempDir,
}

/// What a run left behind.
pub(crate) struct Done {
    pub(crate) code: i32,
    pub(crate) out: Vec<u8>,
    pub(crate) err: String,
}

impl Done {
    fn of(output: Output) -> Self {
        let code = output.status.code().or(output.status.signal().map(|s| -s)).unwrap();
        Self { code, out: output.stdout, err: String::from_utf8_lossy(&output.stderr).into_owned() }
    }

    /// Fails the test unless the exit code is `code`.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(
            self.code,
            code,
            "out: {}\nerr: {}",
            String::from_utf8_lossy(&self.out),
            self.err
        );
        self
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.out.clone()).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.out).unwrap()
    }

    pub(crate) fn jsonl(&self) -> Vec<Value> {
        self.text().lines().map(|l| serde_json::from_str(l).unwrap()).collect()
    }

    /// The object on standard error.
    pub(crate) fn error(&self) -> Value {
        let line = self.err.lines().last().unwrap_or_default();
        let value: Value = serde_json::from_str(line).unwrap();
        assert_eq!(value["v"], 1);
        value["error"].clone()
    }
}

impl Place {
    /// A folder without a store.
    pub(crate) fn bare() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    /// A folder with the store `store`.
    pub(crate) fn new() -> Self {
        let place = Self::bare();
        place.run(&["init", "store"]).exits(0);
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// The binary in this folder, with nothing of the caller's environment that it could look at.
    pub(crate) fn command(&self, args: &[impl AsRef<OsStr>]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_everlog"));
        command.args(args).current_dir(self.dir.path()).stdin(Stdio::null());
        command.env_clear().env("HOME", self.path("home")).env("TZ", "UTC");
        command
    }

    /// Runs without naming the store.
    pub(crate) fn run(&self, args: &[impl AsRef<OsStr>]) -> Done {
        Done::of(self.command(args).output().unwrap())
    }

    /// The arguments of a run against the store `store`.
    pub(crate) fn with_store(args: &[impl AsRef<OsStr>]) -> Vec<OsString> {
        let store = ["-s", "store"].map(OsString::from);
        store.into_iter().chain(args.iter().map(|a| a.as_ref().to_owned())).collect()
    }

    /// Runs against the store `store`.
    pub(crate) fn ever(&self, args: &[impl AsRef<OsStr>]) -> Done {
        self.run(&Self::with_store(args))
    }

    /// Runs against the store `store` with something on standard input.
    pub(crate) fn feed(&self, args: &[impl AsRef<OsStr>], input: impl AsRef<[u8]>) -> Done {
        let mut command = self.command(&Self::with_store(args));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.as_ref().to_vec();
        // The process may refuse early and close its end.
        let feeder = std::thread::spawn(move || stdin.write_all(&input).is_ok());
        let output = child.wait_with_output().unwrap();
        feeder.join().unwrap();
        Done::of(output)
    }

    /// Appends `n` events to the session `id`, made if it is missing.
    pub(crate) fn grow(&self, id: impl AsRef<OsStr>, n: usize) {
        let lines: String = (0..n).map(|i| event(&format!("{{\"todos\":[{i}]}}"))).collect();
        let args = [
            OsStr::new("append"),
            OsStr::new("--create"),
            OsStr::new("-q"),
            OsStr::new("--id"),
            id.as_ref(),
        ];
        self.feed(&args, lines).exits(0);
    }

    /// Every file below the store.
    pub(crate) fn store_files(&self) -> Vec<PathBuf> {
        let (mut files, mut folders) = (Vec::new(), vec![self.path("store")]);
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() { folders.push(path) } else { files.push(path) }
            }
        }
        files.sort();
        files
    }
}

/// A line for `append`.
pub(crate) fn event(data: &str) -> String {
    format!("{{\"type\":\"todo/write\",\"data\":{data}}}\n")
}

/// A dsh log with `n` events.
pub(crate) fn log(id: &str, n: usize) -> String {
    let mut text = format!(
        "{{\"type\":\"session\",\"version\":0,\"id\":\"{id}\",\"createdAt\":1700000000000,\"cwd\":\"/w\",\"delegationDepth\":0}}\n"
    );
    for seq in 0..n {
        let time = 1_700_000_000_000_u64 + seq as u64;
        text.push_str(&format!(
            "{{\"type\":\"todo/write\",\"seq\":{seq},\"time\":{time},\"data\":{{\"todos\":[\"canary-{seq}\"]}}}}\n"
        ));
    }
    text
}

pub(crate) fn os(bytes: &[u8]) -> &OsStr {
    OsStr::from_bytes(bytes)
}

pub(crate) fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).unwrap().mode() & 0o7777
}
