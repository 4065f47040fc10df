//! Floor 3. The actors: thin shells around the decisions of floor 1.

pub mod frontend;
