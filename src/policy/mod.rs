//! Floor 1. Decisions as plain values: they take `now`, return verdicts or actions,
//! and touch nothing. The actors perform what they say.

pub mod access;
pub mod backoff;
pub mod budget;
pub mod bulkhead;
pub mod lifecycle;
pub mod restart;
pub mod rules;
pub mod verbs;
