//! Soak tests with real servers below real guards: what is left after thousands of connections,
//! floods and calls, and the figures of supervision (`-- --show-output` prints them). A binary of
//! its own, because each test measures a whole process and wants the machine for itself: each runs
//! in a process of its own, one after the other. Linux only: `/proc` is the judge.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "in a test, a panic is the report")]
#![expect(clippy::disallowed_methods, reason = "tests play hosts, and look at clock and environment")]
#![expect(clippy::disallowed_macros, reason = "figures go to stdout, which libtest keeps")]

mod calls;
mod connections;
mod figures;
mod floods;
mod holdings;
mod sessions;
#[expect(dead_code, unused_imports, reason = "it serves the integration tests, which use more of it")]
#[path = "../it/support/mod.rs"]
mod support;
#[expect(dead_code, reason = "it serves the tests of process trees, which use more of it")]
#[path = "../process_cleanup/trees.rs"]
mod trees;
