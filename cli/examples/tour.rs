//! A tour of the command line: `cargo run --release -p everlog-cli --example tour`.
//!
//! Makes a store in a temporary folder, appends to it, imports the samples of this repository, looks at them, and exports
//! every session again. Each export is compared with the file it came from; the tour fails at the first difference.
//!
//! It calls the `everlog` binary only, as anyone could, and says each command that it runs.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::value::RawValue;

/// Widest line that is shown; the rest is cut.
const SHOWN_CHARS_MAX: usize = 110;

/// What an export of a sample must give.
enum Expected {
    /// These bytes, in this format.
    Bytes(&'static str, Vec<u8>),
    /// The same in both formats, one line for each event and one for the header.
    OneLineAnEvent,
}

/// One line of `import -o jsonl`.
struct Imported {
    path: PathBuf,
    session: OsString,
    stored: u64,
    added: u64,
}

/// A store and the binary that speaks to it.
struct Everlog {
    binary: PathBuf,
    store: PathBuf,
}

fn main() -> ExitCode {
    match tour() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nThe tour stopped: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn tour() -> Result<()> {
    let binary = everlog_binary()?;
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../samples").canonicalize()?;
    let folder = tempfile::tempdir()?;
    let everlog = Everlog { binary, store: folder.path().join("store") };

    println!(
        "Everlog keeps the sessions of many agents in one store: a folder of append-only logs.\n"
    );
    say(1, "Make a store.");
    everlog.show(&["init"], Some(everlog.store.as_os_str()), 3)?;

    say(2, "Append events. Each line is acked when it would survive a power cut.");
    append(&everlog)?;

    say(
        3,
        "Import what agents left behind: 100 made-up sessions, and files that break most readers.",
    );
    let mut imported = import(&everlog, &samples.join("fleet"))?;
    imported.extend(import(&everlog, &samples.join("edge"))?);
    let events: u64 = imported.iter().map(|file| file.stored).sum();
    println!("   {} files, {events} events, each file whole or not at all\n", imported.len());

    say(4, "Import them again: nothing is stored twice.");
    let again = import(&everlog, &samples.join("fleet"))?;
    let added: u64 = again.iter().map(|file| file.added).sum();
    ensure!(added == 0, "the second import added {added} events");
    println!("   0 events added\n");

    say(5, "List the sessions, newest first.");
    list(&everlog, imported.len() + 1)?;

    say(6, "Look at the first events of one session, exactly as they were written.");
    let first = imported.first().context("no sample was imported")?;
    let mut range = first.session.clone();
    range.push("@0..3");
    everlog.show(&["cat"], Some(&range), 4)?;

    say(7, "Check every checksum and every invariant.");
    check(&everlog)?;

    say(8, "Export every session and compare it with the file it came from.");
    compare_exports(&everlog, &imported)?;

    say(9, "Send the fleet through packed rows and a second store, and back.");
    round_trip(&everlog, &imported, folder.path())?;

    println!("All is as promised. The store was {} and is gone now.", everlog.store.display());
    Ok(())
}

fn say(step: u32, what: &str) {
    println!("{step}. {what}");
}

/// The `everlog` binary next to this example, brought up to date when cargo runs the example.
fn everlog_binary() -> Result<PathBuf> {
    let example = std::env::current_exe()?;
    let profile_folder =
        example.parent().and_then(Path::parent).context("the example is in no target folder")?;
    let binary = profile_folder.join(format!("everlog{}", std::env::consts::EXE_SUFFIX));
    if let Some(cargo) = std::env::var_os("CARGO") {
        // A binary of an older build may lie there: cargo knows, and does nothing when it is current. The example is
        // named too so that both are built with the same features.
        let profile = match profile_folder.file_name().and_then(OsStr::to_str) {
            Some("debug") | None => "dev",
            Some(name) => name,
        };
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let built = Command::new(cargo)
            .args([
                "build",
                "--quiet",
                "-p",
                "everlog-cli",
                "--bin",
                "everlog",
                "--example",
                "tour",
            ])
            .args(["--profile", profile, "--manifest-path"])
            .arg(manifest)
            .status()
            .context("cargo could not be run")?;
        ensure!(built.success(), "the everlog binary could not be built");
    }
    ensure!(
        binary.is_file(),
        "{} is not there; build it: cargo build --release -p everlog-cli --bin everlog",
        binary.display()
    );
    Ok(binary)
}

impl Everlog {
    /// Runs one verb on this store and gives its stdout; anything but exit 0 is an error.
    fn run(&self, args: &[&str], last: Option<&OsStr>, stdin: &[u8]) -> Result<Vec<u8>> {
        let mut command = Command::new(&self.binary);
        command.env_remove("EVERLOG_STORE");
        if args.first() != Some(&"init") {
            command.arg("-s").arg(&self.store);
        }
        command.args(args).args(last);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("the everlog binary could not be run")?;
        if let Some(mut pipe) = child.stdin.take() {
            pipe.write_all(stdin)?;
        }
        let output = child.wait_with_output()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("everlog {}: {}: {}", args.join(" "), output.status, said.trim());
        }
        Ok(output.stdout)
    }

    /// Runs one verb, and shows the command and the first lines of what it says.
    fn show(&self, args: &[&str], last: Option<&OsStr>, lines_max: usize) -> Result<Vec<u8>> {
        let named = last.map(|last| format!(" '{}'", last.to_string_lossy())).unwrap_or_default();
        println!("   $ everlog {}{named}", args.join(" "));
        let out = self.run(args, last, b"")?;
        let text = String::from_utf8_lossy(&out);
        let lines: Vec<&str> = text.lines().collect();
        for line in lines.iter().take(lines_max) {
            println!("   {}", shown(line));
        }
        if lines.len() > lines_max {
            println!("   ... and {} more lines", lines.len() - lines_max);
        }
        println!();
        Ok(out)
    }

    fn export(&self, session: &OsStr, format: &str) -> Result<Vec<u8>> {
        self.run(&["export", "--format", format, "--out", "-"], Some(session), b"")
    }
}

/// A line as a terminal may see it: cut, and without control characters.
fn shown(line: &str) -> String {
    let plain: String = line
        .chars()
        .take(SHOWN_CHARS_MAX)
        .map(|c| match c {
            '\t' => ' ',
            c if c.is_control() => '?',
            c => c,
        })
        .collect();
    if line.chars().nth(SHOWN_CHARS_MAX).is_some() { plain + " ..." } else { plain }
}

fn append(everlog: &Everlog) -> Result<()> {
    let events: [&str; 2] = [
        r#"{"type":"turn/start","data":{"turn":1}}"#,
        r#"{"type":"user/message","data":{"id":"m1","role":"user","content":[{"type":"text","text":"Hello"}],"source":{"kind":"user"}},"surfaceOp":"append"}"#,
    ];
    for event in events {
        println!("   {}", shown(event));
    }
    println!("   $ everlog append my-first-session --create");
    let args = ["append", "my-first-session", "--create"];
    let acks = everlog.run(&args, None, (events.join("\n") + "\n").as_bytes())?;
    let acks = String::from_utf8(acks)?;
    for ack in acks.lines() {
        println!("   {}", shown(ack));
    }
    println!();
    let acks = acks.lines().map(fields).collect::<Result<Vec<_>>>()?;
    ensure!(acks.len() == events.len(), "{} acks for {} events", acks.len(), events.len());
    for (seq, ack) in acks.iter().enumerate() {
        ensure!(number(ack, "seq")? == seq as u64, "event {seq} was acked as {:?}", ack.get("seq"));
        ensure!(text_of(ack, "level") == "\"sync\"", "acked at {}", text_of(ack, "level"));
    }
    Ok(())
}

fn import(everlog: &Everlog, folder: &Path) -> Result<Vec<Imported>> {
    let args = ["import", "-o", "jsonl"];
    println!("   $ everlog {} {}", args.join(" "), folder.display());
    let out = String::from_utf8(everlog.run(&args, Some(folder.as_os_str()), b"")?)?;
    let mut imported = Vec::new();
    for line in out.lines() {
        let row = fields(line)?;
        ensure!(text_of(&row, "ok") == "true", "refused: {line}");
        imported.push(Imported {
            path: PathBuf::from(string(&row, "path")?),
            session: string(&row, "session")?,
            stored: number(&row, "stored")?,
            added: number(&row, "added")?,
        });
    }
    let files = std::fs::read_dir(folder)?.count();
    ensure!(imported.len() == files, "{} of {files} files were reported", imported.len());
    imported.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(imported)
}

fn list(everlog: &Everlog, sessions: usize) -> Result<()> {
    everlog.show(&["ls", "-n", "5"], None, 6)?;
    let all = String::from_utf8(everlog.run(&["ls", "-o", "jsonl"], None, b"")?)?;
    let listed = all.lines().count();
    ensure!(listed == sessions, "{listed} sessions are listed, {sessions} were stored");
    Ok(())
}

fn check(everlog: &Everlog) -> Result<()> {
    let out = everlog.show(&["check", "-o", "json"], None, 3)?;
    let report = String::from_utf8(out)?;
    ensure!(text_of(&fields(report.trim())?, "ok") == "true", "the store is damaged: {report}");
    Ok(())
}

/// What the export of a sample must give; samples/README.md says why.
fn expected(path: &Path) -> Result<Expected> {
    let input = std::fs::read(path).with_context(|| path.display().to_string())?;
    let name = path.file_stem().and_then(OsStr::to_str).context("a sample without a name")?;
    Ok(match name {
        "04-crlf" | "05-no-final-newline" | "06-blank-lines" | "07-torn-tail" | "08-nul-tail" => {
            Expected::Bytes("dsh", tidied(&input))
        }
        "10-packed-few" => Expected::OneLineAnEvent,
        "01-lone-surrogates" | "11-packed-many" => Expected::Bytes("dsh-packed", input),
        _ if name.ends_with("-packed") => Expected::Bytes("dsh-packed", input),
        _ => Expected::Bytes("dsh", input),
    })
}

/// The whole lines of a file, each ended by LF alone.
fn tidied(input: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(input.len());
    for line in input.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        // A line of these files is whole exactly when its object is closed.
        if line.ends_with(b"}") {
            out.extend_from_slice(line);
            out.push(b'\n');
        }
    }
    out
}

fn compare_exports(everlog: &Everlog, imported: &[Imported]) -> Result<()> {
    println!("   $ everlog export SESSION --format dsh|dsh-packed --out -");
    let (mut files, mut bytes) = (0, 0);
    for file in imported {
        match expected(&file.path)? {
            Expected::Bytes(format, wanted) => {
                let got = everlog.export(&file.session, format)?;
                same(&file.path, format, &wanted, &got)?;
                bytes += got.len();
            }
            Expected::OneLineAnEvent => {
                let (plain, packed) = (
                    everlog.export(&file.session, "dsh")?,
                    everlog.export(&file.session, "dsh-packed")?,
                );
                same(&file.path, "dsh-packed", &plain, &packed)?;
                let lines = plain.iter().filter(|byte| **byte == b'\n').count() as u64;
                let path = file.path.display();
                ensure!(lines == 1 + file.stored, "{path}: {lines} lines, {} events", file.stored);
                bytes += plain.len();
            }
        }
        files += 1;
    }
    println!(
        "   {files} sessions, {bytes} bytes, no difference but those that samples/README.md names\n"
    );
    Ok(())
}

fn same(path: &Path, format: &str, wanted: &[u8], got: &[u8]) -> Result<()> {
    if wanted == got {
        return Ok(());
    }
    let at = wanted.iter().zip(got).take_while(|(a, b)| a == b).count();
    let line = 1 + wanted[..at].iter().filter(|byte| **byte == b'\n').count();
    bail!(
        "{} comes back changed as {format}: {} bytes, not {}; first difference at byte {at}, line {line}",
        path.display(),
        got.len(),
        wanted.len()
    )
}

/// Exports the plain files of the fleet as packed rows, imports those into another store, and exports them plain.
fn round_trip(everlog: &Everlog, imported: &[Imported], folder: &Path) -> Result<()> {
    let rows = folder.join("rows");
    std::fs::create_dir(&rows)?;
    let mut originals = BTreeMap::new();
    for file in
        imported.iter().filter(|file| file.path.parent().is_some_and(|p| p.ends_with("fleet")))
    {
        if let Expected::Bytes("dsh", original) = expected(&file.path)? {
            let name = file.path.file_name().context("a sample without a name")?;
            std::fs::write(rows.join(name), everlog.export(&file.session, "dsh-packed")?)?;
            originals.insert(file.session.clone(), (file.path.clone(), original));
        }
    }
    let second = Everlog { binary: everlog.binary.clone(), store: folder.join("second") };
    second.run(&["init"], Some(second.store.as_os_str()), b"")?;
    for file in import(&second, &rows)? {
        let (path, original) = originals
            .remove(&file.session)
            .with_context(|| format!("{} came back under another id", file.path.display()))?;
        same(&path, "dsh", &original, &second.export(&file.session, "dsh")?)?;
    }
    ensure!(originals.is_empty(), "{} sessions did not come back", originals.len());
    let report = String::from_utf8(second.run(&["check", "-o", "json"], None, b"")?)?;
    ensure!(
        text_of(&fields(report.trim())?, "ok") == "true",
        "the second store is damaged: {report}"
    );
    println!("   no difference\n");
    Ok(())
}

/// The members of a JSON object, each as its text: ids may hold what no Rust string can.
fn fields(line: &str) -> Result<BTreeMap<String, Box<RawValue>>> {
    serde_json::from_str(line).with_context(|| format!("no JSON object: {}", shown(line)))
}

fn text_of<'a>(row: &'a BTreeMap<String, Box<RawValue>>, name: &str) -> &'a str {
    row.get(name).map_or("", |value| value.get())
}

fn number(row: &BTreeMap<String, Box<RawValue>>, name: &str) -> Result<u64> {
    let text = text_of(row, name);
    text.parse().with_context(|| format!("{name} is no number: {text:?}"))
}

/// A JSON string as an argument of a command line: WTF-8, so that a lone surrogate keeps its place.
fn string(row: &BTreeMap<String, Box<RawValue>>, name: &str) -> Result<OsString> {
    let text = text_of(row, name);
    let inside = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    let mut rest = inside.with_context(|| format!("{name} is no string: {text:?}"))?;
    let mut out = Vec::new();
    while let Some(at) = rest.find('\\') {
        out.extend_from_slice(&rest.as_bytes()[..at]);
        let (unit, after) = escape(&rest[at + 1..])?;
        rest = after;
        if (0xD800..0xDC00).contains(&unit)
            && let Some(Ok((low @ 0xDC00..0xE000, after))) = rest.strip_prefix('\\').map(escape)
        {
            push_code(&mut out, 0x1_0000 + ((unit - 0xD800) << 10) + (low - 0xDC00));
            rest = after;
        } else {
            push_code(&mut out, unit);
        }
    }
    out.extend_from_slice(rest.as_bytes());
    Ok(OsString::from_vec(out))
}

/// The UTF-16 unit of an escape, without its backslash, and what follows it.
fn escape(text: &str) -> Result<(u32, &str)> {
    let (kind, rest) = text.split_at_checked(1).context("an escape without an end")?;
    let unit = match kind {
        "u" => {
            let (digits, rest) = rest.split_at_checked(4).context("an escape without an end")?;
            return Ok((u32::from_str_radix(digits, 16)?, rest));
        }
        "n" => '\n',
        "r" => '\r',
        "t" => '\t',
        "b" => '\u{8}',
        "f" => '\u{c}',
        "\"" | "\\" | "/" => char::from(kind.as_bytes()[0]),
        _ => bail!("no escape of JSON: \\{kind}"),
    };
    Ok((u32::from(unit), rest))
}

fn push_code(out: &mut Vec<u8>, code: u32) {
    match char::from_u32(code) {
        Some(c) => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        // A lone surrogate: three bytes, as UTF-8 would write it.
        None => out.extend(
            [0xE0 | (code >> 12), 0x80 | ((code >> 6) & 0x3F), 0x80 | (code & 0x3F)]
                .map(|b| b as u8),
        ),
    }
}
