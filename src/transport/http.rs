//! Floor 2: Streamable HTTP.
