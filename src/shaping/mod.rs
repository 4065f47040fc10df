//! Floor 1. What becomes of text before anyone sees it: secrets are taken out, and
//! nothing that a server wrote can steer a terminal. Pure.

pub mod redact;
pub mod render;
mod shapes;
mod terminal;
