//! Callboard runs MCP servers the way Erlang runs processes: every configured
//! server is one supervised actor, a registry merges the catalogues, a front end
//! routes calls. `ARCHITECTURE.md` has the picture and the reading order.

pub mod actors;
pub mod agent;
pub mod audit;
pub mod builtins;
pub mod call;
pub mod catalog;
pub mod cli;
pub mod clients;
pub mod config;
pub mod demo;
pub mod fence_id;
pub mod id;
pub mod outputs;
pub mod policy;
pub mod runtime;
pub mod serve;
pub mod shaping;
pub mod store;
pub mod telemetry;
pub mod time;
pub mod transport;
pub mod view;
pub mod wire;
