//! Other MCP clients of this machine: where their files are, what their words mean in ours, and
//! how their files are changed without touching anything else. Pure but for `files`, which
//! keeps backups. Called by `mcp import`, `install` and `uninstall`.

pub mod client;
pub mod document;
pub mod files;
pub mod map;
pub mod ours;
pub mod rewrite;
mod rewrite_toml;
pub mod variables;
