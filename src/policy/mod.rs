//! Floor 1. Decisions as plain values: they take `now`, return verdicts or actions,
//! and touch nothing. The actors perform what they say.

pub mod access;
pub mod budget;
pub mod lifecycle;
pub mod rules;
pub mod verbs;
