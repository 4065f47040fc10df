//! Floor 5. The host as a server of MCP clients: one `Host` with the servers, one `Client` for each
//! that is attached, and the transports (`stdio`, HTTP, the socket of a shared host) that carry their
//! frames. Names the runtime, its typed refs and snapshots; never an actor or a message. Bytes of
//! calls pass through it unchanged.

pub mod caller;
pub mod client;
pub mod host;
pub mod sink;

pub use caller::{Caller, ClientEra, Globs, Identity};
pub use client::{Client, Leave};
pub use host::{Host, HostPlan, ServeSettings};
pub use sink::{Outgoing, Outlet, Sink};
