//! The `callboard` program: everything is in the library's `cli`.

use std::process::ExitCode;

fn main() -> ExitCode {
    callboard::cli::main()
}
