//! Floor 1. Decisions as plain values: they take `now`, return verdicts or actions,
//! and touch nothing. The actors perform what they say.

pub mod access;
pub mod approve;
pub mod backoff;
pub mod blame;
pub mod breaker;
pub mod budget;
pub mod bulkhead;
pub mod classify;
#[cfg(test)]
pub(crate) mod explore;
pub mod lifecycle;
pub mod net;
pub mod outbound;
pub mod pause;
pub mod refresh;
pub mod replay;
pub mod restart;
pub mod sandbox;
pub mod share;
pub mod verbs;
