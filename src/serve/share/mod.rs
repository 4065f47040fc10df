//! One host for all clients of a user: a process of its own behind a socket in Callboard's folder. A
//! client's process finds it or starts it (`join`) and lends it its pipes (`lent`), or is one from then on
//! (`bridge`); the host
//! (`keeper`) puts clients whose configurations come to the same into one house (`pool`), and ends
//! `serve.linger` after the last of them.

pub mod bridge;
pub mod hello;
pub mod join;
pub mod keeper;
mod lent;
pub mod place;
pub mod pool;
pub mod union;

pub use hello::{Command, Deed, Failing, Hello, Join, Reply, Wants};
pub use keeper::{Hold, Keeper, Planned, Plans};
pub use place::Place;
pub use pool::{HouseId, Pool, Same, Sameness};
pub use union::{Member, Union, Wanted};
