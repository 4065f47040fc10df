//! badmcp, the misbehaving MCP server of the tests. Without flags it is correct; each flag isolates one fault, and flags combine.
//! Owns the order of start, must never be installed. Run by the tests over stdio or HTTP on 127.0.0.1.
//!
//! It is deterministic by `--seed`, uses no network beyond loopback, and never guesses the product's texts.
//! `badmcp --help` prints all flags; `args.rs` is the table.

#![expect(
    clippy::disallowed_methods,
    reason = "this program stands outside the house: it has clocks and environment of its own"
)]

mod args;
mod calls;
mod catalog;
mod conn;
mod control;
mod escape;
mod http;
mod life;
mod methods;
mod post;
mod results;
mod rpc;
mod server;
mod sse;
mod stdio;
mod trace;
mod values;
mod wire;

use std::sync::Arc;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let flags = match args::parse(&words) {
        Ok(flags) => flags,
        Err(text) => {
            life::complain(&text);
            std::process::exit(64);
        }
    };
    if let Some(Err(e)) = flags.escape.as_deref().map(escape::try_all) {
        life::complain(&format!("badmcp: --escape: {e}"));
        std::process::exit(66);
    }
    let over_http = flags.http.on();
    let server = match server::Server::new(flags) {
        Ok(server) => Arc::new(server),
        Err(e) => {
            life::complain(&format!("badmcp: cannot open a file that a flag names: {e}"));
            std::process::exit(66);
        }
    };
    life::start(&server);
    control::start(&server);
    stdio::storm(&server);
    if over_http { http::serve(&server) } else { stdio::serve(server) }
}
