//! Floor 2: list.
