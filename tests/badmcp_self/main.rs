//! The judge is judged: badmcp, driven through plain pipes and raw sockets, does what each of its flags says,
//! and is a correct server without flags. Owns no product code, must never use our own client.

#![expect(
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "the whole binary is a test, and it needs clocks of its own"
)]

mod base;
mod calls;
mod catalog;
mod framing;
mod handshake;
mod hostile;
mod http;
mod http_dialects;
mod ids;
mod life;
mod modern;
mod pipe;
mod reports;
mod results;
mod web;
