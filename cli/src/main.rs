//! The everlog command line.

fn main() {}
