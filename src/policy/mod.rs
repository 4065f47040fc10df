//! Floor 1. Decisions as plain values: they take `now`, return verdicts or actions,
//! and touch nothing. The actors perform what they say.

pub mod budget;
pub mod lifecycle;
