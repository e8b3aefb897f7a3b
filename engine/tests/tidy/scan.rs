//! What the rules look at: the regions of tests, functions with their lengths, and paths through `use` and code.
//!
//! # Units
//! Token numbers are places in the list without comments. `line`: from 1. A length is in lines, first and last included.

use crate::lexer::{Kind, Token};

/// A function with a body.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) line: usize,
    pub(crate) lines: usize,
    pub(crate) in_test: bool,
}

/// A path in code such as `crate::a::b`, with where it stands.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct CodePath {
    pub(crate) names: Vec<String>,
    /// The name that `as` gives it.
    pub(crate) alias: Option<String>,
    pub(crate) line: usize,
    pub(crate) in_test: bool,
    /// Inline modules around it.
    pub(crate) depth: usize,
}

/// Code tokens of a file, each with whether it is test code.
pub(crate) struct Code<'a> {
    pub(crate) tokens: Vec<Token<'a>>,
    pub(crate) in_test: Vec<bool>,
}

impl<'a> Code<'a> {
    pub(crate) fn new(all: &[Token<'a>]) -> Self {
        let tokens: Vec<Token<'a>> =
            all.iter().filter(|t| t.kind != Kind::Comment).copied().collect();
        let mut in_test = vec![false; tokens.len()];
        let mut at = 0;
        while at < tokens.len() {
            match test_item_end(&tokens, at) {
                Some(end) => {
                    in_test[at..end].fill(true);
                    at = end;
                }
                None => at += 1,
            }
        }
        Self { tokens, in_test }
    }

    fn is(&self, at: usize, text: &str) -> bool {
        self.tokens.get(at).is_some_and(|t| t.is(text))
    }

    fn ident(&self, at: usize) -> Option<&'a str> {
        self.tokens.get(at).filter(|t| t.kind == Kind::Ident).map(|t| t.text)
    }

    /// Whether the tokens from `at` on read so.
    pub(crate) fn reads(&self, at: usize, texts: &[&str]) -> bool {
        texts.iter().enumerate().all(|(n, text)| self.is(at + n, text))
    }

    /// Modules that stand in files of their own and are compiled for tests only.
    pub(crate) fn test_modules(&self) -> Vec<&'a str> {
        (0..self.tokens.len())
            .filter(|at| self.in_test[*at] && self.is(*at, "mod") && self.is(at + 2, ";"))
            .filter_map(|at| self.ident(at + 1))
            .collect()
    }

    /// Every function that has a body.
    pub(crate) fn functions(&self) -> Vec<Function> {
        let mut found = Vec::new();
        for at in 0..self.tokens.len() {
            let (true, Some(name)) = (self.is(at, "fn"), self.ident(at + 1)) else { continue };
            let Some(open) = body_start(&self.tokens, at + 2) else { continue };
            let close = matching_close(&self.tokens, open);
            let last = self.tokens.get(close).or(self.tokens.last()).map_or(0, |t| t.line);
            found.push(Function {
                name: name.to_owned(),
                line: self.tokens[at].line,
                lines: last + 1 - self.tokens[at].line,
                in_test: self.in_test[at],
            });
        }
        found
    }

    /// Every path that starts at `crate`, `super` or `std`, with groups of `use` told apart.
    pub(crate) fn paths(&self) -> Vec<CodePath> {
        let mut found = Vec::new();
        let mut modules: Vec<usize> = Vec::new();
        for at in 0..self.tokens.len() {
            modules.retain(|close| *close > at);
            if self.is(at, "mod") && self.is(at + 2, "{") {
                modules.push(matching_close(&self.tokens, at + 2));
            }
            let root = ["crate", "super", "std"].iter().any(|root| self.is(at, root));
            let inside = at > 0 && self.is(at - 1, "::");
            if root && !inside && self.is(at + 1, "::") {
                self.paths_from(at, modules.len(), &mut found);
            }
        }
        found
    }

    /// What `use` brings into this file, relative paths included.
    pub(crate) fn imports(&self) -> Vec<CodePath> {
        let mut found = Vec::new();
        for at in 0..self.tokens.len() {
            if self.is(at, "use") && self.ident(at + 1).is_some() {
                self.paths_from(at + 1, 0, &mut found);
            }
        }
        found
    }

    /// Follows one path, and each branch of its groups.
    fn paths_from(&self, start: usize, depth: usize, found: &mut Vec<CodePath>) {
        let mut prefixes: Vec<Vec<String>> = Vec::new();
        let mut names: Vec<String> = Vec::new();
        let mut at = start;
        loop {
            let mut alias = None;
            if let Some(name) = self.ident(at) {
                names.push(name.to_owned());
                at += 1;
                if self.is(at, "as") {
                    alias = self.ident(at + 1).map(str::to_owned);
                    at += 2;
                }
            } else if self.is(at, "*") && self.is(at.wrapping_sub(1), "::") {
                names.push("*".to_owned());
                at += 1;
            }
            if self.is(at, "::") && self.is(at + 1, "{") {
                prefixes.push(names.clone());
                at += 2;
                continue;
            }
            if self.is(at, "::") && (self.ident(at + 1).is_some() || self.is(at + 1, "*")) {
                at += 1;
                continue;
            }
            if prefixes.last().is_none_or(|prefix| prefix.len() < names.len()) {
                let (line, in_test) = (self.tokens[start].line, self.in_test[start]);
                found.push(CodePath { names: names.clone(), alias, line, in_test, depth });
            }
            while self.is(at, "}") && prefixes.pop().is_some() {
                at += 1;
            }
            let (Some(prefix), true) = (prefixes.last(), self.is(at, ",")) else { return };
            names.clone_from(prefix);
            at += 1;
        }
    }
}

/// End of the item that begins at `at`, when an attribute makes it test code.
fn test_item_end(tokens: &[Token<'_>], at: usize) -> Option<usize> {
    if !tokens[at].is("#") || !tokens.get(at + 1)?.is("[") {
        return None;
    }
    let close = matching_close(tokens, at + 1);
    let inside = tokens.get(at + 2..close)?;
    let named = |name: &str| inside.iter().any(|t| t.is(name));
    let plain = inside.len() == 1 && inside[0].is("test");
    let cfg = inside.first()?.is("cfg") && named("test") && !named("not");
    if !(plain || cfg) {
        return None;
    }
    let mut end = close + 1;
    while tokens.get(end)?.is("#") {
        end = matching_close(tokens, end + 1) + 1;
    }
    let body = body_start(tokens, end);
    let semicolon = (end..tokens.len()).find(|n| tokens[*n].is(";"));
    match (body, semicolon) {
        (Some(open), Some(stop)) if stop < open => Some(stop + 1),
        (Some(open), _) => Some(matching_close(tokens, open) + 1),
        (None, Some(stop)) => Some(stop + 1),
        (None, None) => Some(tokens.len()),
    }
}

/// The brace that opens the body of the item at `at`; nothing when a semicolon comes first.
fn body_start(tokens: &[Token<'_>], at: usize) -> Option<usize> {
    let mut end = at;
    while end < tokens.len() {
        match tokens[end].text {
            ";" => return None,
            "{" if tokens[end].kind == Kind::Punct => return Some(end),
            "(" | "[" if tokens[end].kind == Kind::Punct => end = matching_close(tokens, end) + 1,
            _ => end += 1,
        }
    }
    None
}

/// The bracket that closes the one at `open`; the end of the list when there is none.
fn matching_close(tokens: &[Token<'_>], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        if token.kind != Kind::Punct {
            continue;
        }
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at;
                }
            }
            _ => {}
        }
    }
    tokens.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexer::lex;

    fn paths(source: &str) -> Vec<String> {
        Code::new(&lex(source)).paths().into_iter().map(|path| path.names.join("::")).collect()
    }

    #[test]
    fn groups_of_use_are_told_apart() {
        assert_eq!(
            paths("use crate::{a::{b, c as d, e::*}, f};"),
            ["crate::a::b", "crate::a::c", "crate::a::e::*", "crate::f"]
        );
        assert_eq!(paths("use std::{fs, io::Write,};"), ["std::fs", "std::io::Write"]);
        assert_eq!(
            paths("fn f() -> crate::Result<std::fs::File> { $crate::m!() }"),
            ["crate::Result", "std::fs::File", "crate::m"]
        );
        assert_eq!(paths("use everlog::crate_name; pub(crate) fn f() {}"), Vec::<String>::new());
    }

    #[test]
    fn test_regions_end_where_their_item_ends() {
        let source = "fn a() {} #[cfg(test)] mod t { fn b() {} } #[test] #[ignore] fn c() {} \
                      #[cfg(not(test))] fn d() {} #[cfg(all(test, unix))] mod u; fn e() {}";
        let all = lex(source);
        let code = Code::new(&all);
        let in_test: Vec<(String, bool)> =
            code.functions().into_iter().map(|f| (f.name, f.in_test)).collect();
        let wanted = [("a", false), ("b", true), ("c", true), ("d", false), ("e", false)];
        assert_eq!(in_test, wanted.map(|(name, test)| (name.to_owned(), test)));
        assert_eq!(code.test_modules(), ["u"]);
    }

    #[test]
    fn functions_are_measured_from_name_to_brace() {
        let source = "trait T {\n fn no_body(&self) -> [u8; 2];\n}\nfn long(\n f: fn(u8) -> u8,\n) {\n \"}\";\n}\n";
        let found = Code::new(&lex(source)).functions();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].name.as_str(), found[0].line, found[0].lines), ("long", 4, 5));
    }

    #[test]
    fn inline_modules_count_as_depth() {
        let found = Code::new(&lex("mod a { use super::x; } use super::y;")).paths();
        assert_eq!(found.iter().map(|path| path.depth).collect::<Vec<_>>(), [1, 0]);
    }
}
