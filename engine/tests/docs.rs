//! What the docs of public items must hold, read from the sources.
//!
//! # Rules
//! a. Every `pub` item, `pub fn` of a type and method of a `pub` trait has docs that begin with a sentence.
//! b. A type has an example that runs, in its own docs or in those of a method; a free function has its own.
//! c. What returns a `Result` says in `# Errors` which.
//! d. What writes says in `# Durability` what survives: the table [`WRITERS`].
//! e. No example is left out of the run.
//!
//! In this crate a plain `pub` is public: the compiler denies one that cannot be reached. That the scan misses no item is
//! shown by the names that are exported: each is found. Sources are laid out by rustfmt; the scan counts on that.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, reason = "tests")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Calls that write, by type.
const WRITERS: [(&str, &[&str]); 6] = [
    (
        "Store",
        &[
            "create",
            "create_on",
            "create_session",
            "writer",
            "import_dsh",
            "sync",
            "upkeep",
            "close",
        ],
    ),
    ("SessionWriter", &["append", "append_json", "append_batch", "append_expecting", "close"]),
    ("Receipt", &["wait"]),
    ("Vfs", &["create_root"]),
    ("VfsDir", &["create_dir", "open", "link", "remove", "remove_dir", "sync"]),
    ("VfsFile", &["write_at", "sync_data", "allocate", "punch", "set_read_only"]),
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Type,
    Fn,
    Method,
    Other,
}

#[derive(Debug)]
struct Item {
    place: String,
    kind: Kind,
    /// Type or trait of a method.
    owner: String,
    name: String,
    docs: Vec<String>,
    is_fallible: bool,
}

impl Item {
    fn section(&self, title: &str) -> bool {
        let after = self.docs.iter().skip_while(|line| line.trim() != title).skip(1);
        after.take_while(|line| !line.starts_with('#')).any(|line| !line.trim().is_empty())
    }

    /// What stands behind the opening fences of the examples.
    fn fences(&self) -> Vec<&str> {
        let fences = self.docs.iter().filter_map(|line| line.trim().strip_prefix("```"));
        fences.step_by(2).collect()
    }

    fn has_example(&self) -> bool {
        self.fences().iter().any(|info| matches!(*info, "" | "rust"))
    }
}

fn word(text: &str) -> &str {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_')).next().unwrap_or_default()
}

/// The item that a line begins, behind its `pub`: kind and name.
fn item_of(line: &str) -> Option<(Kind, &str)> {
    for (start, kind) in [
        ("struct ", Kind::Type),
        ("enum ", Kind::Type),
        ("trait ", Kind::Type),
        ("type ", Kind::Other),
        ("fn ", Kind::Fn),
        ("const fn ", Kind::Fn),
        ("unsafe fn ", Kind::Fn),
        ("const ", Kind::Other),
        ("static ", Kind::Other),
    ] {
        if let Some(rest) = line.strip_prefix(start) {
            return Some((kind, word(rest)));
        }
    }
    None
}

/// The type of an `impl` block without a trait.
fn impl_of(line: &str) -> Option<&str> {
    let mut rest = line.strip_prefix("impl")?;
    if line.contains(" for ") {
        return None;
    }
    if rest.starts_with('<') {
        rest = rest.split_once("> ")?.1;
    }
    Some(word(rest.trim_start()))
}

/// Whether a signature returns a `Result`, seen outside of its parentheses.
fn is_fallible(signature: &str) -> bool {
    let mut depth = 0;
    let mut returned = "";
    for (at, c) in signature.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            '-' if depth == 0 => returned = signature[at..].strip_prefix("-> ").unwrap_or(returned),
            '{' | ';' if depth == 0 => break,
            _ => {}
        }
    }
    let path = returned.split('<').next().unwrap_or_default();
    path.rsplit("::").next() == Some("Result")
}

/// The public items of a source.
fn items(path: &str, source: &str) -> Vec<Item> {
    let lines: Vec<&str> = source.lines().collect();
    let mut found = Vec::new();
    let mut docs = Vec::new();
    let mut owner = String::new();
    let mut in_trait = false;
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        at += 1;
        let text = line.trim_start();
        let indent = line.len() - text.len();
        if text.is_empty() {
            continue;
        }
        if let Some(doc) = text.strip_prefix("///") {
            docs.push(doc.strip_prefix(' ').unwrap_or(doc).to_owned());
            continue;
        }
        if text.starts_with("#[") {
            while !lines[at - 1].ends_with(']') {
                at += 1;
            }
            let opens = lines.get(at).is_some_and(|next| next.ends_with('{'));
            if text == "#[cfg(test)]" && indent == 0 && opens {
                at += lines[at..].iter().take_while(|line| **line != "}").count();
            }
            continue;
        }
        let docs = std::mem::take(&mut docs);
        let public = text.strip_prefix("pub ");
        let item = match (indent, public) {
            (0, Some(text)) => item_of(text),
            (4, Some(text)) if !owner.is_empty() => item_of(text),
            (4, None) if in_trait => item_of(text).filter(|(kind, _)| *kind == Kind::Fn),
            _ => None,
        };
        if indent == 0 && !matches!(text, "where" | "{") {
            in_trait = public.is_some_and(|text| text.starts_with("trait "));
            owner = impl_of(text).unwrap_or_default().to_owned();
            if let (true, Some((_, name))) = (in_trait, item) {
                owner = name.to_owned();
            }
        }
        let Some((kind, name)) = item else { continue };
        let method = indent > 0 && kind == Kind::Fn;
        found.push(Item {
            place: format!("{path}:{at}"),
            kind: if method { Kind::Method } else { kind },
            owner: if method { owner.clone() } else { String::new() },
            name: name.to_owned(),
            docs,
            is_fallible: kind == Kind::Fn && is_fallible(&lines[at - 1..].join("\n")),
        });
    }
    found
}

/// What breaks a rule, as `place: name: what`.
fn violations(items: &[Item]) -> Vec<String> {
    let mut found = Vec::new();
    for item in items {
        let mut report = |what: &str| {
            let sep = if item.owner.is_empty() { "" } else { "::" };
            found.push(format!("{}: {}{sep}{}: {what}", item.place, item.owner, item.name));
        };
        let sentence = |line: &String| line.starts_with(|c: char| c.is_alphanumeric() || c == '[');
        if !item.docs.first().is_some_and(sentence) {
            report("no docs");
        }
        let of_method = || items.iter().any(|m| m.owner == item.name && m.has_example());
        let lacks_example = match item.kind {
            Kind::Type => !item.has_example() && !of_method(),
            Kind::Fn => !item.has_example(),
            Kind::Method | Kind::Other => false,
        };
        if lacks_example {
            report("no example");
        }
        if item.fences().iter().any(|info| !matches!(*info, "" | "rust" | "text")) {
            report("an example that does not run");
        }
        if item.is_fallible && !item.section("# Errors") {
            report("no # Errors");
        }
        let mut writers = WRITERS.iter().filter(|(owner, _)| *owner == item.owner);
        if writers.any(|(_, names)| names.contains(&&*item.name)) && !item.section("# Durability") {
            report("no # Durability");
        }
    }
    found
}

/// Names that a source gives out by `pub use`.
fn exports(source: &str) -> BTreeSet<String> {
    let uses = source.split("\npub use ").skip(1).map(|rest| rest.split(';').next().unwrap());
    let names = uses.flat_map(|path| match path.split_once('{') {
        Some((_, list)) => list.trim_end_matches('}').split(',').collect(),
        None => vec![path.rsplit("::").next().unwrap()],
    });
    names.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
}

fn src(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(path);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Every source of the library but its tests, by its path inside `src`.
fn sources() -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(&folder);
        for entry in fs::read_dir(root).unwrap() {
            let entry = entry.unwrap();
            let path = format!("{folder}{}", entry.file_name().to_str().unwrap());
            if entry.file_type().unwrap().is_dir() {
                folders.push(path + "/");
            } else if !path.contains("tests") {
                let text = src(&path);
                found.push((path, text));
            }
        }
    }
    found
}

#[test]
fn every_public_item_is_documented() {
    let found: Vec<Item> =
        sources().iter().flat_map(|(path, text)| items(&format!("src/{path}"), text)).collect();
    let named: BTreeSet<&str> = found.iter().map(|item| &*item.name).collect();
    let exported: BTreeSet<String> = ["lib.rs", "dsh/mod.rs", "vfs/mod.rs"]
        .iter()
        .flat_map(|path| exports(&src(path)))
        .collect();
    assert!(exported.len() > 45, "{exported:?}");
    let missed: Vec<&String> = exported.iter().filter(|name| !named.contains(&***name)).collect();
    assert!(missed.is_empty(), "exported, not found: {missed:?}");
    for (owner, names) in WRITERS {
        for name in names {
            let seen = found.iter().any(|item| item.owner == owner && item.name == *name);
            assert!(seen, "{owner}::{name} is not found");
        }
    }
    let broken = violations(&found);
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

const PLANTED: &str = r#"
/// A type with an example on a method only.
#[derive(Debug)]
#[cfg_attr(
    any(),
    allow(dead_code)
)]
pub struct Receipt<'a>(&'a u8);

impl<'a> Receipt<'a> {
    /// Waits.
    ///
    /// ```
    /// let lines = 1;
    /// ```
    pub fn wait(
        &self,
        f: &mut dyn FnMut() -> Result<()>,
    ) -> crate::Result<()> {
        todo()
    }

    pub const fn bare(&self) {}

    /// Takes a function that may fail, and cannot fail itself.
    pub fn calm(&self, f: fn() -> Result<u8>) -> u8 {
        0
    }

    fn private() {}
}

/// Nothing runs here.
///
/// ```no_run
/// let lines = 1;
/// ```
pub enum Idle {
    A,
}

pub(crate) struct Inner;

impl Inner {
    pub(crate) fn f() -> Result<()> {}
}

impl std::fmt::Display for Idle {
    fn fmt(&self) -> std::fmt::Result {}
}

/// A door.
///
/// ```
/// let lines = 1;
/// ```
pub trait Vfs: Send {
    /// Makes.
    ///
    /// # Errors
    ///
    /// # Durability
    /// All.
    fn create_root(&self) -> Result<u8, E>;
    fn pid(&self);
}

/// Reads.
///
/// # Errors
/// `Io`.
pub fn read() -> Result<()> {}

#[cfg(test)]
mod tests {
    pub fn undocumented() {}
}

pub type Seq = u64;
"#;

#[test]
fn planted_violations_are_found() {
    let found = items("p.rs", PLANTED);
    let names: Vec<&str> = found.iter().map(|item| &*item.name).collect();
    let all =
        ["Receipt", "wait", "bare", "calm", "Idle", "Vfs", "create_root", "pid", "read", "Seq"];
    assert_eq!(names, all);
    let expected = [
        "p.rs:16: Receipt::wait: no # Errors",
        "p.rs:16: Receipt::wait: no # Durability",
        "p.rs:23: Receipt::bare: no docs",
        "p.rs:38: Idle: no example",
        "p.rs:38: Idle: an example that does not run",
        "p.rs:64: Vfs::create_root: no # Errors",
        "p.rs:65: Vfs::pid: no docs",
        "p.rs:72: read: no example",
        "p.rs:79: Seq: no docs",
    ];
    assert_eq!(violations(&found), expected);
}

#[test]
fn exports_are_read_in_every_form() {
    let text =
        "mod a;\npub use a::B;\npub use c::{\n    D,\n    E as F,\n};\npub(crate) use g::H;\n";
    assert_eq!(exports(text).into_iter().collect::<Vec<_>>(), ["B", "D", "E as F"]);
}
