//! The guard as a program of its own: what `callboard __guard` does, without the rest of
//! `callboard`, so that each guard costs a fraction of the memory.

use std::process::ExitCode;

fn main() -> ExitCode {
    let argv: Vec<_> = std::env::args_os().collect();
    callboard::transport::guard::answer(&argv).unwrap_or(ExitCode::FAILURE)
}
