//! Floor 1. The lossless wire: frames, envelopes, splices, SSE, eras. Pure.
//! A message is `Bytes` plus the spans of its envelope; the payload is never
//! rebuilt. Called by the links and the edges; knows no socket and no clock.

pub mod envelope;
pub mod era;
pub mod frame;
#[doc(hidden)]
pub mod fuzz_checks;
pub mod rounds;
pub mod scan;
pub mod splice;
pub mod sse;

#[cfg(test)]
mod corpus_tests;
#[cfg(test)]
mod golden_tests;
#[cfg(test)]
mod property_tests;
