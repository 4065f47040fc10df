//! Floor 5. The host as a server of MCP clients: one `Host` with the servers, one `Client` for each
//! that is attached, and the transports (`stdio`, HTTP, the socket of a shared host) that carry their
//! frames. Names the runtime, its typed refs and snapshots; never an actor or a message. Bytes of
//! calls pass through it unchanged.

mod approve;
pub mod asks;
pub mod caller;
mod calls;
pub mod client;
mod handshake;
pub mod host;
pub mod http;
mod levels;
pub mod lists;
mod message;
mod notes;
mod park;
pub mod part;
#[cfg(unix)]
pub mod pipes;
mod refusal;
mod requests;
mod rounds;
#[cfg(unix)]
pub mod share;
pub mod sink;
pub mod stdio;
mod subscriptions;
pub mod talk;
mod tasks;
mod template;
pub mod tokens;
mod view;
pub mod visitor;

pub use crate::config::serve::{ServeApproval, ServeSettings};
pub use caller::{Caller, ClientEra, Globs, Identity};
pub use client::{Client, Leave};
pub use host::{Host, HostPlan};
pub use part::{Part, Reach};
pub use sink::{Outgoing, Outlet, Sink};
pub use talk::Talk;
pub use visitor::Visitor;
