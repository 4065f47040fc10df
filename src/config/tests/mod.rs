//! Tests of the configuration as a whole: real files in temporary folders. What concerns one
//! pure module alone is tested beside it.

mod approvals;
mod desk;
mod editing;
mod permits;
mod properties;
mod rows;
mod secrets;
mod settings;
mod sources;
mod targets;
