//! The rules of tidy, each a function from one file to the places that break it.
//!
//! # Invariants
//! R1. A finding names the file, the line and what to do about it.
//! R2. Rules of layers and calls look at code that ships; test code is measured only.

use crate::lexer::{Kind, Token, lex};
use crate::scan::{Code, CodePath};
use crate::tables;
use std::collections::{BTreeMap, BTreeSet};

const FILE_LINES_MAX: usize = 600;
const FN_LINES_MAX: usize = 70;
const TEST_FN_LINES_MAX: usize = 100;

/// Sources by path from the root of the workspace, with `/` between folders.
pub(crate) type Sources = BTreeMap<String, Vec<u8>>;

/// One broken rule.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Finding {
    pub(crate) path: String,
    pub(crate) line: usize,
    pub(crate) what: String,
}

/// Everything that one file's rules need.
struct File<'a> {
    path: &'a str,
    text: &'a str,
    all: &'a [Token<'a>],
    code: Code<'a>,
    is_test: bool,
}

/// Checks a whole workspace.
pub(crate) fn check(sources: &Sources) -> Vec<Finding> {
    let exports = exports(sources);
    let test_files = test_files(sources);
    let mut found = Vec::new();
    for (path, bytes) in sources {
        let mut report = |line: usize, what: String| {
            found.push(Finding { path: path.clone(), line, what });
        };
        if let Some(line) = first_line_beyond_ascii(bytes) {
            report(line, "only ASCII in sources; write \\u{..} escapes".to_owned());
        }
        let Ok(text) = std::str::from_utf8(bytes) else {
            report(1, "not UTF-8".to_owned());
            continue;
        };
        let all = lex(text);
        let is_test = test_files.contains(path) || in_test_folder(path);
        let file = File { path, text, all: &all, code: Code::new(&all), is_test };
        sizes(&file, &mut report);
        head(&file, &mut report);
        words(&file, &mut report);
        unsafe_code(&file, &mut report);
        calls(&file, &mut report);
        layers(&file, &exports, &mut report);
    }
    found
}

/// Whether a path is a test by its place.
fn in_test_folder(path: &str) -> bool {
    path.split('/').any(|part| part == "tests" || part == "tests.rs")
}

fn first_line_beyond_ascii(bytes: &[u8]) -> Option<usize> {
    let at = bytes.iter().position(|byte| !byte.is_ascii())?;
    Some(1 + bytes[..at].iter().filter(|byte| **byte == b'\n').count())
}

/// Rule b: lengths.
fn sizes(file: &File<'_>, report: &mut impl FnMut(usize, String)) {
    let lines = file.text.lines().count();
    if lines > FILE_LINES_MAX {
        report(FILE_LINES_MAX + 1, format!("{lines} lines; a file has at most {FILE_LINES_MAX}"));
    }
    for function in file.code.functions() {
        let in_test = file.is_test || function.in_test;
        let max = if in_test { TEST_FN_LINES_MAX } else { FN_LINES_MAX };
        if function.lines > max {
            let name = function.name;
            report(function.line, format!("fn {name}: {} lines; at most {max}", function.lines));
        }
    }
}

/// Rule c: a file says first what it is.
fn head(file: &File<'_>, report: &mut impl FnMut(usize, String)) {
    if !file.text.starts_with("//! ") {
        report(1, "a file opens with `//! ` and what it is".to_owned());
    }
}

/// Rule f: no notes to self, no numbers of a tracker.
fn words(file: &File<'_>, report: &mut impl FnMut(usize, String)) {
    for (n, line) in file.text.lines().enumerate() {
        let mut words = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        if let Some(word) = words.find(|word| tables::BANNED_WORDS.contains(word)) {
            report(n + 1, format!("{word}: do it, or leave it out"));
        }
    }
    for comment in file.all.iter().filter(|t| t.kind == Kind::Comment) {
        if let Some(number) = tracker_number(comment.text) {
            report(comment.line, format!("{number}: a comment gives the reason itself"));
        }
    }
}

/// A number of a tracker in a comment: a hash and digits, or the word and a number.
fn tracker_number(comment: &str) -> Option<String> {
    let words: Vec<&str> = comment.split_whitespace().collect();
    for (n, word) in words.iter().enumerate() {
        let bare = word.trim_matches(|c: char| !c.is_ascii_alphanumeric() && c != '#');
        let digits = bare.strip_prefix('#').unwrap_or("");
        if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
            return Some(bare.to_owned());
        }
        let numbered =
            words.get(n + 1).is_some_and(|next| next.starts_with(|c: char| c.is_ascii_digit()));
        let lower = bare.to_ascii_lowercase();
        if numbered && tables::TRACKER_WORDS.contains(&lower.as_str()) {
            return Some(format!("{bare} {}", words[n + 1]));
        }
    }
    None
}

/// Rule d: `unsafe` in one place.
fn unsafe_code(file: &File<'_>, report: &mut impl FnMut(usize, String)) {
    if file.path.starts_with("engine/src/sys/") || tables::UNSAFE_FILES.contains(&file.path) {
        return;
    }
    for token in file.code.tokens.iter().filter(|t| t.is("unsafe")) {
        report(token.line, "unsafe is for engine/src/sys (or the list in tables.rs)".to_owned());
    }
}

/// Rule e: calls that the library, or anything that ships, does not make.
fn calls(file: &File<'_>, report: &mut impl FnMut(usize, String)) {
    let library = file.path.starts_with("engine/src/");
    let ships = library || file.path.starts_with("cli/src/");
    if file.is_test || !ships {
        return;
    }
    let code = &file.code;
    for (at, token) in code.tokens.iter().enumerate().filter(|(at, _)| !code.in_test[*at]) {
        let bang = code.reads(at + 1, &["!"]) && !code.reads(at + 2, &["="]);
        if token.kind == Kind::Ident && bang {
            let banned = library && tables::PRINT_MACROS.contains(&token.text);
            if banned || tables::UNFINISHED_MACROS.contains(&token.text) {
                report(token.line, format!("{}! has no place here", token.text));
            }
        }
        for method in ["unwrap", "expect"] {
            if code.reads(at, &[".", method, "("]) {
                report(token.line, format!(".{method}() can panic; return an error"));
            }
        }
    }
    let os = tables::OS_FILES.iter().any(|prefix| file.path.starts_with(prefix));
    if library && !os {
        for path in code.paths().iter().filter(|path| !path.in_test) {
            if let Some(module) = banned_module(path) {
                report(
                    path.line,
                    format!("std::{module} is for vfs/os and sys; go through the Vfs"),
                );
            }
        }
    }
}

fn banned_module(path: &CodePath) -> Option<&str> {
    let [root, module, ..] = path.names.as_slice() else { return None };
    let banned = root == "std" && tables::OS_MODULES.contains(&module.as_str());
    banned.then_some(module)
}

/// Rule a: a file uses files of lower rank only.
fn layers(
    file: &File<'_>,
    exports: &BTreeMap<String, String>,
    report: &mut impl FnMut(usize, String),
) {
    let Some(module) = file.path.strip_prefix("engine/src/") else { return };
    let module = module.trim_end_matches(".rs").trim_end_matches("/mod");
    let Some(own) = tables::rank(module) else {
        return report(
            1,
            format!("{module} has no rank; add it to RANKS in engine/tests/tidy/tables.rs"),
        );
    };
    if file.is_test {
        return;
    }
    let depth = module_depth(file.path);
    for path in file.code.paths().iter().filter(|path| !path.in_test) {
        let Some(used) = used_module(path, depth, exports) else { continue };
        let sibling = folder(module) == folder(&used);
        if sibling || tables::UPWARD.contains(&(module, used.as_str())) {
            continue;
        }
        match tables::rank(&used) {
            None => {
                report(path.line, format!("crate::{used} is neither ranked nor exported by lib.rs"))
            }
            Some(rank) if rank >= own => report(
                path.line,
                format!("{module} (rank {own}) uses {used} (rank {rank}); only lower ranks"),
            ),
            Some(_) => {}
        }
    }
}

fn folder(module: &str) -> &str {
    module.split('/').next().unwrap_or(module)
}

/// How many `super` lead from a file to the root of the crate.
fn module_depth(path: &str) -> usize {
    let parts = path.split('/').count() - 2;
    if path.ends_with("/mod.rs") { parts - 1 } else { parts }
}

/// The module a path leads to, when it goes through the root of the crate.
fn used_module(
    path: &CodePath,
    depth: usize,
    exports: &BTreeMap<String, String>,
) -> Option<String> {
    let supers = path.names.iter().take_while(|name| *name == "super").count();
    let names = match path.names.first()?.as_str() {
        "crate" => &path.names[1..],
        "super" if supers == depth + path.depth => &path.names[supers..],
        _ => return None,
    };
    let first = names.first()?;
    if let Some(module) = exports.get(first) {
        return Some(module.clone());
    }
    // The longest ranked prefix, so that `vfs/os` may have a rank of its own.
    let joined = names.join("/");
    Some(tables::ranked_prefix(&joined).unwrap_or(first).to_owned())
}

/// Names that lib.rs exports, each with its module.
fn exports(sources: &Sources) -> BTreeMap<String, String> {
    let text = sources.get("engine/src/lib.rs").map(|bytes| String::from_utf8_lossy(bytes));
    let text = text.unwrap_or_default();
    let all = lex(&text);
    let mut found = BTreeMap::new();
    for path in Code::new(&all).imports() {
        let names: Vec<String> = path.names.into_iter().filter(|name| name != "crate").collect();
        if let (Some(module), Some(name)) = (names.first(), names.last())
            && names.len() > 1
        {
            let used = tables::ranked_prefix(&names.join("/")).unwrap_or(module).to_owned();
            found.insert(path.alias.unwrap_or(name.clone()), used);
        }
    }
    found
}

/// Files that a `#[cfg(test)] mod name;` declares.
fn test_files(sources: &Sources) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (path, bytes) in sources {
        let text = String::from_utf8_lossy(bytes);
        let all = lex(&text);
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        let stem = name.trim_end_matches(".rs");
        let own = matches!(stem, "mod" | "lib" | "main");
        let home = if own { parent.to_owned() } else { format!("{parent}/{stem}") };
        for module in Code::new(&all).test_modules() {
            found.insert(format!("{home}/{module}.rs"));
            let inside = format!("{home}/{module}/");
            found.extend(sources.keys().filter(|path| path.starts_with(&inside)).cloned());
        }
    }
    found
}
