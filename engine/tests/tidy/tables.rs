//! The tables of tidy: what may be changed when a file is added or moved.
//!
//! # Invariants
//! T1. A module of `engine/src` may use `crate::X` only when the rank of X is lower than its own.
//! T2. Modules of one folder may use each other.

/// Rank of a module, by the longest prefix of its path in `engine/src` without `.rs`. Steps of ten leave room.
pub(crate) const RANKS: &[(&str, u32)] = &[
    ("limits", 0),
    ("types", 5),
    ("error", 10),
    ("event", 10),
    ("sys", 15),
    ("json", 20),
    ("surface", 20),
    ("data", 25),
    ("format", 20),
    ("vfs", 30),
    ("options", 35),
    ("accept", 38),
    ("model", 40),
    ("dsh", 40),
    ("segment", 40),
    ("index", 45),
    ("recovery", 50),
    ("lane", 60),
    ("locks", 60),
    ("handle", 65),
    ("session", 70),
    ("store", 80),
    ("check", 90),
    ("fuzzing", 90),
    ("import", 90),
    ("export", 90),
    ("info", 90),
    ("lib", 100),
    ("main", 100),
];

/// Uses that go up all the same: (module, what it uses), each for a reason.
pub(crate) const UPWARD: &[(&str, &str)] = &[
    // Constructors of ids return the crate's own Result; error needs ids for its facts.
    ("types", "error"),
];

/// Files outside engine/src/sys that may hold `unsafe`.
pub(crate) const UNSAFE_FILES: &[&str] = &["engine/tests/procs/fork.rs"];

/// Prefixes of files that may speak to the operating system.
pub(crate) const OS_FILES: &[&str] =
    &["engine/src/vfs/os.rs", "engine/src/vfs/os/", "engine/src/sys/"];

/// Modules of std that only those files use.
pub(crate) const OS_MODULES: &[&str] = &["fs", "env", "process"];

/// Macros that the library does not call.
pub(crate) const PRINT_MACROS: &[&str] = &["println", "eprintln", "print", "eprint"];

/// Macros that nothing that ships calls.
pub(crate) const UNFINISHED_MACROS: &[&str] = &["dbg", "todo", "unimplemented"];

/// Words that no source holds. Joined here from halves, since this is a source too.
pub(crate) const BANNED_WORDS: &[&str] =
    &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX"), concat!("HA", "CK")];

/// Words that, with a number behind them, speak of a tracker.
pub(crate) const TRACKER_WORDS: &[&str] = &["issue", "bug", "ticket", "pr"];

/// Rank of a module, by the longest prefix that has one.
pub(crate) fn rank(module: &str) -> Option<u32> {
    let prefix = ranked_prefix(module)?;
    RANKS.iter().find(|(name, _)| *name == prefix).map(|(_, rank)| *rank)
}

/// The longest prefix of a path that has a rank.
pub(crate) fn ranked_prefix(module: &str) -> Option<&str> {
    let within = |name: &str| {
        module.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let name =
        RANKS.iter().map(|(name, _)| *name).filter(|name| within(name)).max_by_key(|n| n.len())?;
    module.get(..name.len())
}
