//! The one integration binary: what holds across modules, and for the built program.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "in a test, a panic is the report")]
#![expect(clippy::disallowed_methods, reason = "tests play peers and callers, and look at the clock")]

mod aggregation;
mod approving;
mod arguments;
mod audited;
mod breaker;
mod calls;
mod catalogs;
mod cli;
mod cli_audit;
mod cli_call;
mod cli_config;
mod cli_edit;
mod cli_home;
mod cli_terminal;
mod concurrency;
mod configuration;
mod crashes;
mod deadlines;
mod demo;
mod fencing;
mod floors;
mod following;
mod framing;
mod freshness;
mod handshake;
mod http;
mod idling;
mod isolation;
mod keeping;
mod naming;
mod network;
mod noise;
mod paging;
mod permissions;
mod pins;
mod programs;
mod promises;
mod reload;
mod resilience;
mod rpc;
mod schemas;
mod secrets;
mod settings;
mod settling;
mod starting;
mod supervision;
mod support;
mod surroundings;
mod throttling;
mod versions;
mod watching;
mod why;
