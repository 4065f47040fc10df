//! Floors 1 and 2. Configuration: `document` and `raw` mirror the files, `validate` turns
//! them into [`spec::ServerSpec`] values and reports every issue with its place, `merge`
//! applies the order of the sources. Floor 1 and pure but for `load`, `approvals`, `edit`,
//! `effective` and `secret_store`, which stand on files (floor 2). Called by the edges.

mod agent_keys;
pub mod approval;
pub mod approvals;
mod bounds;
pub mod builtins;
pub mod canonical;
pub mod child_env;
pub mod decimal;
pub mod diff;
pub mod document;
pub mod duration;
pub mod edit;
pub mod edit_text;
pub mod effective;
pub mod expand;
pub mod fields;
pub mod host;
pub mod host_keys;
mod host_words;
pub mod issue;
pub mod literal;
pub mod load;
pub mod mask;
pub mod merge;
pub mod mode;
pub mod model;
pub mod raw;
mod raw_target;
pub mod reveal;
pub mod rule_book;
pub mod rule_file;
pub mod rules;
pub mod secret;
pub mod secret_store;
pub mod secret_uses;
pub mod serve;
pub mod spawn;
pub mod spec;
pub mod suggest;
pub mod validate;

#[cfg(test)]
mod tests;
