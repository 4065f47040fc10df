//! Floor 2: stdio.
