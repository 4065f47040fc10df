//! Floor 2: handshake.
