//! What becomes of processes: real trees of real processes below a real guard, ended in every
//! way. The judge is `/proc`: each tree carries a mark in its environment, and nothing that
//! carries it may be left. Linux only, as guards are.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "in a test, a panic is the report")]
#![expect(clippy::disallowed_methods, reason = "tests play hosts, and look at clock and environment")]
#![expect(clippy::disallowed_macros, reason = "figures of many rounds go to stdout, which libtest keeps")]

mod audit;
mod guard_death;
mod host_death;
mod reports;
mod sandbox;
mod shared;
mod starts;
mod stops;
#[expect(dead_code, unused_imports, reason = "it serves the integration tests, which use more of it")]
#[path = "../it/support/mod.rs"]
mod support;
mod surroundings;
mod trees;
mod writes;
