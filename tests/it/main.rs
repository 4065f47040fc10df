//! The one integration binary: what holds across modules, and for the built program.

mod calls;
mod cli;
mod cli_home;
mod demo;
mod support;
