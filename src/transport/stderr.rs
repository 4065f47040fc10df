//! Floor 2: stderr.
