//! Floor 1. Catalogues: what each server offers, and the merged view of all.
//! Definitions are kept as the bytes that the server sent; only names are made
//! by us. Pure; the registry actor publishes what `merge` returns.

pub mod definition;
pub mod flow;
pub mod items;
mod json;
pub mod kept;
pub mod lint;
mod lint_words;
pub mod merge;
pub mod naming;
pub mod pages;
pub mod parse;
pub mod part;
pub mod pin;
pub mod pin_diff;
pub mod prompt;
pub mod schema;
#[cfg(test)]
mod schema_bombs;
mod schema_walk;
mod tree;
pub mod typed;
pub mod violation;
pub mod words;
