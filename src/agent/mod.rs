//! Floor 5. The agent: a chat model whose tools are the supervised servers. `model` speaks to models,
//! `surface` says what they see of the servers, `turn` decides what comes next, `log` keeps the
//! conversation, `engine` does what they say. Shows nothing on a terminal: that is the command line's.

pub mod chat;
pub mod engine;
pub mod log;
pub mod model;
pub mod surface;
pub mod turn;
