//! Exit codes, and the one failure type that every verb returns.
//!
//! # Invariants
//! X1. The message of a failure may hold foreign text; it is escaped when it is printed, in this file only.
//! X2. A closed pipe prints nothing.
//! X3. A standard error that takes nothing changes neither the work nor its exit code.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use everlog::{Error, ErrorKind, Holder};

use crate::args::ColorChoice;
use crate::json_out::Object;
use crate::text::{self, Style};
use crate::time;

/// Something failed; no more is known about what to do than the message says.
pub(crate) const FAILED: u8 = 1;
/// The command line is wrong.
pub(crate) const USAGE: u8 = 2;
/// Some inputs were refused.
pub(crate) const PARTLY: u8 = 3;
/// Nothing was found that was looked for.
pub(crate) const NOTHING_FOUND: u8 = 4;
/// There is no store.
pub(crate) const NO_STORE: u8 = 10;
/// Another writer holds the session or the store.
pub(crate) const LOCKED: u8 = 11;
/// Stored bytes are damaged.
pub(crate) const DAMAGE: u8 = 12;
/// Written by a newer format.
pub(crate) const NEWER: u8 = 13;
/// `--expect-seq` was not the next seq.
pub(crate) const CONFLICT: u8 = 14;
/// A required event is of a type that nobody knows.
pub(crate) const UNKNOWN_TYPE: u8 = 15;
/// The reader of standard output went away.
pub(crate) const CLOSED_PIPE: u8 = 141;

/// Facts of a failure that have a name of their own.
#[derive(Debug, Default, Clone)]
struct Facts {
    path: Option<PathBuf>,
    offset: Option<u64>,
    line: Option<u64>,
    field: Option<String>,
    session: Option<Vec<u8>>,
    seq: Option<u64>,
    expected: Option<u64>,
    holder: Option<Holder>,
    candidates: Vec<Vec<u8>>,
    hint: Option<String>,
}

/// Why a verb did not do what it was asked, and the exit code that says so.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    code: u8,
    kind: &'static str,
    message: String,
    facts: Box<Facts>,
}

impl Failure {
    pub(crate) fn new(code: u8, kind: &'static str, message: impl Into<String>) -> Self {
        Self { code, kind, message: message.into(), facts: Box::default() }
    }

    /// Wrong usage that only a look at the store or at several flags together can find.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(USAGE, "usage", message)
    }

    /// A failed call of the operating system on `path`.
    pub(crate) fn io(what: &str, path: &Path, source: &std::io::Error) -> Self {
        Self::new(FAILED, "io", format!("{what}: {source}")).with_path(path)
    }

    /// Standard output was closed by its reader.
    pub(crate) fn closed_pipe() -> Self {
        Self::new(CLOSED_PIPE, "closed-pipe", "standard output was closed")
    }

    /// A signal asked to stop; the exit code is 128 and its number.
    pub(crate) fn interrupted(signal: u8) -> Self {
        let message = "interrupted: what was acknowledged is stored, the rest is not";
        Self::new(128 + (signal & 0x7f), "interrupted", message)
    }

    pub(crate) fn with_path(mut self, path: &Path) -> Self {
        self.facts.path = Some(path.to_path_buf());
        self
    }

    pub(crate) fn with_line(mut self, line: u64) -> Self {
        self.facts.line = Some(line);
        self
    }

    pub(crate) fn with_session(mut self, id: &[u8]) -> Self {
        self.facts.session = Some(id.to_vec());
        self
    }

    pub(crate) fn with_seq(mut self, seq: u64) -> Self {
        self.facts.seq = Some(seq);
        self
    }

    /// The next seq of the session, for a conflict.
    pub(crate) fn with_expected(mut self, seq: u64) -> Self {
        self.facts.expected = Some(seq);
        self
    }

    pub(crate) fn with_candidates(mut self, ids: Vec<Vec<u8>>) -> Self {
        self.facts.candidates = ids;
        self
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.facts.hint = Some(hint.into());
        self
    }

    pub(crate) fn with_kind(mut self, kind: &'static str) -> Self {
        self.kind = kind;
        self
    }

    pub(crate) fn with_code(mut self, code: u8) -> Self {
        self.code = code;
        self
    }

    pub(crate) fn code(&self) -> u8 {
        self.code
    }

    /// Line of the input, counted from 1.
    pub(crate) fn line(&self) -> Option<u64> {
        self.facts.line
    }

    /// Whether the work was broken off from outside: by a signal, or by the reader of the output.
    pub(crate) fn is_stop(&self) -> bool {
        self.code >= 128
    }

    pub(crate) fn kind(&self) -> &'static str {
        self.kind
    }

    /// The value of `"error"` in machine-readable output.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        let f = &self.facts;
        let mut o = Object::nested().text("kind", self.kind);
        o = o.maybe_text("path", f.path.as_ref().map(|p| p.as_os_str().as_encoded_bytes()));
        o = o.maybe_number("line", f.line).maybe_number("offset", f.offset);
        o = o.maybe_text("session", f.session.as_deref()).maybe_number("seq", f.seq);
        o = o.maybe_text("field", f.field.as_ref().map(String::as_bytes));
        o = o.maybe_number("expected", f.expected);
        if let Some(h) = &f.holder {
            o = o.raw("holder", &holder_json(h));
        }
        if !f.candidates.is_empty() {
            o = o.texts("candidates", &f.candidates);
        }
        o = o.text("message", &self.message);
        o.maybe_text("hint", f.hint.as_ref().map(String::as_bytes)).end()
    }

    /// One line for people: the message and where it happened, escaped.
    pub(crate) fn to_line(&self) -> String {
        let f = &self.facts;
        let mut line = text::line(self.message.as_bytes());
        if let Some(path) = &f.path {
            line.push_str(&format!(", in {}", text::line(path.as_os_str().as_encoded_bytes())));
        }
        if let Some(n) = f.line {
            line.push_str(&format!(", line {n}"));
        }
        if let Some(n) = f.offset {
            line.push_str(&format!(", byte {n}"));
        }
        if let Some(id) = &f.session {
            line.push_str(&format!(", session {}", text::quoted(id)));
        }
        if let Some(n) = f.seq {
            line.push_str(&format!(", seq {n}"));
        }
        if let Some(n) = f.expected {
            line.push_str(&format!(", next seq is {n}"));
        }
        if let Some(h) = &f.holder {
            line.push_str(&holder_line(h));
        }
        line
    }

    /// What to do about it, escaped, where something is known.
    pub(crate) fn hint(&self) -> Option<String> {
        self.facts.hint.as_ref().map(|hint| text::line(hint.as_bytes()))
    }

    /// Prints the failure of one part of the work, which goes on: an object, or a line that begins with `what`.
    pub(crate) fn tell(&self, what: &str, json: bool) {
        if json {
            say(&String::from_utf8_lossy(&Object::new().raw("error", &self.to_json()).end()));
        } else {
            say(&format!("{what}: {}", self.to_line()));
        }
    }

    /// Prints the failure on standard error, as an object or for people.
    pub(crate) fn print(&self, json: bool, style: Style) {
        if self.code == CLOSED_PIPE {
            return; // X2
        }
        let mut bytes = Vec::new();
        if json {
            bytes = Object::new().raw("error", &self.to_json()).end();
            bytes.push(b'\n');
        } else {
            bytes.extend(format!("{} {}\n", style.error("error:"), self.to_line()).bytes());
            for id in &self.facts.candidates {
                bytes.extend(format!("  {}\n", text::line(id)).bytes());
            }
            if let Some(hint) = self.hint() {
                bytes.extend(format!("hint: {hint}\n").bytes());
            }
        }
        // There is no other place to say that standard error is gone.
        std::io::stderr().write_all(&bytes).ok();
    }
}

/// Says a line to people, escaped already. That nobody can hear it is no failure of the work.
pub(crate) fn say(line: &str) {
    // One write, so that lines of several threads do not mix.
    std::io::stderr().write_all(format!("{line}\n").as_bytes()).ok();
}

fn holder_json(h: &Holder) -> Vec<u8> {
    let since = time::rfc3339(h.since_ms);
    Object::nested()
        .number("pid", u64::from(h.pid))
        .text("host", &h.host)
        .maybe_text("since", since.as_ref().map(String::as_bytes))
        .text("label", &h.label)
        .end()
}

fn holder_line(h: &Holder) -> String {
    let pid = if h.pid == 0 { "unknown".to_owned() } else { h.pid.to_string() };
    let since = time::rfc3339(h.since_ms).unwrap_or_else(|| "unknown".to_owned());
    let (host, label) = (text::line(h.host.as_bytes()), text::line(h.label.as_bytes()));
    format!(", held by pid {pid} on host {host} since {since}, label \"{label}\"")
}

fn code_of(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::Locked => LOCKED,
        ErrorKind::Corrupt | ErrorKind::Diverged => DAMAGE,
        ErrorKind::Unsupported => NEWER,
        ErrorKind::Conflict => CONFLICT,
        ErrorKind::UnknownType => UNKNOWN_TYPE,
        _ => FAILED,
    }
}

fn hint_of(kind: ErrorKind) -> Option<&'static str> {
    Some(match kind {
        ErrorKind::Locked => "wait until the holder is done, or stop it",
        ErrorKind::Corrupt => "run `everlog check` to see all damage; the rest stays readable",
        ErrorKind::Diverged => {
            "run `everlog check`; two writers' events claim one seq, and nothing is chosen"
        }
        ErrorKind::Unsupported => {
            "use the program that wrote it, or a newer everlog; nothing was touched"
        }
        ErrorKind::UnknownType => "`--unknown keep` steps over such events",
        ErrorKind::Conflict => "read what was added, then decide again",
        ErrorKind::StorageFull => "free space and try again; nothing more was accepted",
        ErrorKind::OutcomeUnknown => {
            "look with `everlog cat` whether the events are there before appending again"
        }
        _ => return None,
    })
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let mut failure = Self::new(code_of(error.kind()), error.kind().name(), error.message());
        failure.facts = Box::new(Facts {
            path: error.path().map(Path::to_path_buf),
            offset: error.offset(),
            line: error.line(),
            field: error.field().map(str::to_owned),
            session: error.session().map(|id| id.as_bytes().to_vec()),
            seq: error.seq(),
            expected: error.expected(),
            holder: error.holder().cloned(),
            candidates: Vec::new(),
            hint: hint_of(error.kind()).map(str::to_owned),
        });
        failure
    }
}

/// Prints what the parser of the command line says: help as it is, complaints escaped.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        return match error.print() {
            Ok(()) => ExitCode::SUCCESS,
            Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::from(CLOSED_PIPE),
            Err(_) => ExitCode::from(FAILED),
        };
    }
    if wants_json(std::env::args_os().skip(1)) {
        let rendered = error.render().to_string();
        let said = rendered.lines().take_while(|l| !l.starts_with("Usage:"));
        let said: Vec<&str> =
            said.map(str::trim).filter(|l| !l.is_empty() && !l.starts_with("For more")).collect();
        let message = said.join(" ");
        let message = message.strip_prefix("error: ").unwrap_or(&message).to_owned();
        let hint = "`everlog help` and `everlog help VERB` list what there is";
        Failure::usage(message).with_hint(hint).print(true, Style::for_stderr(ColorChoice::Never));
        return ExitCode::from(USAGE);
    }
    let mut shown = String::new();
    for line in error.render().to_string().lines() {
        shown.push_str(&text::line(line.as_bytes()));
        shown.push('\n');
    }
    std::io::stderr().write_all(shown.as_bytes()).ok();
    ExitCode::from(USAGE)
}

/// Whether a command line that could not be parsed asks for objects, as far as it can be told.
fn wants_json(args: impl Iterator<Item = OsString>) -> bool {
    let is_json = |shape: &[u8]| matches!(shape, b"json" | b"jsonl" | b"=json" | b"=jsonl");
    let (mut asked, mut is_value) = (false, false);
    for arg in args {
        let arg = arg.as_encoded_bytes();
        if std::mem::take(&mut is_value) {
            asked = is_json(arg);
            continue;
        }
        let shape = match arg {
            b"--" => break,
            b"--output" => Some(&b""[..]),
            [b'-', b'-', ..] => arg.strip_prefix(b"--output="),
            // Of the flags of one letter only `q` takes no value and may stand before.
            [b'-', ..] => arg.strip_prefix(b"-qo").or_else(|| arg.strip_prefix(b"-o")),
            _ => None,
        };
        match shape {
            Some(b"") => is_value = true,
            Some(shape) => asked = is_json(shape),
            None => {}
        }
    }
    asked
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]
    use super::*;

    #[test]
    fn x1_foreign_text_is_escaped_when_printed() {
        let f = Failure::new(FAILED, "io", "a\x1b]52;c;AA\x07b").with_session(b"x\xed\xa0\x80\n");
        assert_eq!(f.to_line(), "a\\u{1b}]52;c;AA\\u{7}b, session \"x\\xed\\xa0\\x80\\n\"");
        assert!(String::from_utf8(f.to_json()).unwrap().contains("\"session\":\"x\\ud800\\n\""));
    }

    #[test]
    fn holders_are_named() {
        let mut f = Failure::new(LOCKED, "locked", "the session is held");
        f.facts.holder =
            Some(Holder { pid: 7, host: "h".into(), label: "agent".into(), ..Holder::default() });
        let line = f.to_line();
        assert!(line.contains("pid 7 on host h since 1970-01-01T00:00:00.000Z, label \"agent\""));
    }
}
