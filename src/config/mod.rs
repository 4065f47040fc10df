//! Floors 1 and 2. Configuration: `raw` mirrors the files, `validate` turns it into
//! [`spec::ServerSpec`] values and reports every issue with its place, `load` (the
//! only part with I/O) reads the sources in their order. Called by the edges.

pub mod spec;
