//! Floor 1. What becomes of text before anyone sees it: secrets are taken out, nothing that a
//! server wrote can steer a terminal, and what a model reads stands in a fence. Pure.

pub mod caps;
#[cfg(test)]
mod corpus_tests;
mod detect;
pub mod fence;
mod fold;
pub mod fuzz_checks;
mod hidden;
mod markers;
pub mod model;
pub mod redact;
pub mod render;
pub mod sanitise;
mod shapes;
mod terminal;
pub mod tokens;
