//! Child processes of a test: started, spoken to by lines, stopped and killed.

use std::fmt::Display;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use everlog::StoreOptions;
use everlog_testkit::rng::Rng;
use rustix::process::{Pid, Signal};

/// Longest wait for a line: far beyond what a loaded machine needs, so that a hang is a failure.
const PATIENCE: Duration = Duration::from_secs(60);

/// A child process. Killed when dropped.
pub struct Kid {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    role: String,
}

impl Kid {
    /// Starts a child in a role; it finds `args` by [`arg`].
    pub fn start(role: &str, args: &[(&str, &dyn Display)]) -> Self {
        Self::start_planted(role, None, args)
    }

    /// The same with a planted fault in its stores.
    pub fn start_planted(role: &str, plant: Option<&str>, args: &[(&str, &dyn Display)]) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["child_entry", "--exact", "--nocapture", "--ignored"]);
        command.env("PROCS_ROLE", role).env_remove("PROCS_PLANT");
        command.env_remove("RUST_TEST_THREADS").env_remove("RUST_TEST_SHUFFLE");
        if let Some(plant) = plant {
            command.env("PROCS_PLANT", plant);
        }
        for (name, value) in args {
            command.env(format!("PROCS_ARG_{name}"), value.to_string());
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let output = child.stdout.take().unwrap();
        let (send, lines) = channel();
        std::thread::spawn(move || {
            let mut output = BufReader::new(output);
            let mut line = String::new();
            // A line without its end was cut off by a kill: nobody was told it.
            while output.read_line(&mut line).is_ok_and(|n| n > 0) && line.ends_with('\n') {
                if let Some((_, said)) = line.trim_end().split_once('@') {
                    let _gone = send.send(said.to_owned());
                }
                line.clear();
            }
        });
        let input = child.stdin.take();
        Self { child, input, lines, role: role.to_owned() }
    }

    /// The next line, which must come.
    pub fn line(&self) -> String {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => line,
            Err(e) => panic!("{} {}: {e}", self.role, self.child.id()),
        }
    }

    /// The rest of the next line, which must open with `word`.
    pub fn expect(&self, word: &str) -> String {
        let line = self.line();
        match line.strip_prefix(word) {
            Some(rest) => rest.trim_start().to_owned(),
            None => panic!("{} said {line:?}, not {word}", self.role),
        }
    }

    /// Lines that came and were not taken yet.
    pub fn said(&self) -> Vec<String> {
        self.lines.try_iter().collect()
    }

    /// All lines up to the end of the child.
    pub fn rest(&self) -> Vec<String> {
        let until = Instant::now() + 2 * PATIENCE;
        let mut out = Vec::new();
        loop {
            match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => out.push(line),
                Err(RecvTimeoutError::Disconnected) => return out,
                Err(e) => panic!("{} goes on for ever: {e}", self.role),
            }
        }
    }

    /// Tells the child a line.
    pub fn tell(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        input.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// The pipe to the child, to write a stream to it.
    pub fn input(&mut self) -> ChildStdin {
        self.input.take().unwrap()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn stop(&self) {
        signal(self.pid(), Signal::STOP);
    }

    pub fn go_on(&self) {
        signal(self.pid(), Signal::CONT);
    }

    pub fn wait(&mut self) -> ExitStatus {
        drop(self.input.take());
        self.child.wait().unwrap()
    }
}

impl Drop for Kid {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}

pub fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

/// In a child: says a line to the test.
pub fn say(line: impl Display) {
    let mut out = std::io::stdout().lock();
    let text = format!("\n@{line}\n");
    if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() {
        // The test is gone.
        std::process::exit(3);
    }
}

/// In a child: waits for a line of the test.
pub fn hear() -> String {
    let mut line = String::new();
    if std::io::stdin().read_line(&mut line).unwrap() == 0 {
        std::process::exit(3);
    }
    line.trim_end().to_owned()
}

/// In a child: an argument.
pub fn arg(name: &str) -> String {
    std::env::var(format!("PROCS_ARG_{name}")).unwrap_or_else(|_| panic!("no argument {name}"))
}

/// In a child: a number.
pub fn number(name: &str) -> u64 {
    arg(name).parse().unwrap()
}

/// In a child: ends with the test, even when the test is killed.
pub fn die_with_parent() {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
}

/// Options of a store, with the fault that this process is to have.
pub fn options() -> StoreOptions {
    let options = StoreOptions::default();
    #[cfg(feature = "planted")]
    if let Ok(name) = std::env::var("PROCS_PLANT") {
        use everlog::Planted;
        return options.with_planted(match name.as_str() {
            "ForkedDropUnlocks" => Planted::ForkedDropUnlocks,
            "CreateWithoutLock" => Planted::CreateWithoutLock,
            "DeadLaneNotRecovered" => Planted::DeadLaneNotRecovered,
            "FollowSkipsRotation" => Planted::FollowSkipsRotation,
            other => panic!("no fault {other}"),
        });
    }
    options
}

/// A number from the environment.
pub fn scale(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")),
        Err(_) => default,
    }
}

/// The generator of a test; its seed is printed, so that a failure can be replayed as far as the system allows.
pub fn rng(label: u64) -> Rng {
    let seed = everlog_testkit::rng::seed_from_env(1).unwrap();
    println!("SEED={seed}");
    Rng::new(seed).fork(label)
}

pub fn pause(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}
