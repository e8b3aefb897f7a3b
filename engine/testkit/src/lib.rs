//! Test tools of Everlog.
