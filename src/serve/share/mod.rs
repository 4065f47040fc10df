//! One host for all clients of a user: a process of its own behind a socket in Callboard's folder. A
//! client's process finds it or starts it (`join`) and lends it its pipes (`lent`), or is one from then on (`bridge`); the
//! host (`keeper`) runs the servers of all its clients together, each once for all to whom its entry comes to the
//! same (`same`, `union`), and gives each client its own part of them (`hall`). It ends `serve.linger` after
//! the last of them.

pub mod bridge;
mod hall;
pub mod hello;
pub mod join;
pub mod keeper;
mod lent;
pub mod place;
mod same;
mod union;

pub use hall::{Hold, Lent, Planned, Scene};
pub use hello::{Command, Deed, Failing, Hello, Join, Reply, Screen, Wants};
pub use keeper::{Keeper, Plans};
pub use place::Place;
pub use same::{Common, Same, Served};
pub use union::Wanted;
