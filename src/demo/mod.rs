//! Floor 5. `callboard demo`: small MCP servers that this binary itself contains, run as
//! real child processes, and a tour that shows what supervision does for them. Needs no
//! configuration, no Node, no key and no terminal. Called by the command line only.

mod clock;
mod fleet;
mod notes;
mod peer;
mod screen;
mod tour;
mod trouble;

use std::io;
use std::process::ExitCode;

pub use screen::Look;
pub use tour::{DemoOptions, run, run_on};

/// The verb under which the binary runs one of its demo servers: `callboard __demo-server NAME`.
pub const SERVER_VERB: &str = "__demo-server";

/// The demo servers, by name.
pub const SERVERS: [&str; 4] = ["clock", "crashy", "hang", "notes"];

/// Runs the demo server `name` on stdin and stdout until stdin ends. Exit code 2 for a name that
/// is none of [`SERVERS`], 1 when a pipe broke, else what the server wants.
pub fn serve(name: &str) -> ExitCode {
    let Some(server) = server(name) else {
        complain(&format!("no demo server is called {name:?}; there are {}", SERVERS.join(", ")));
        return ExitCode::from(2);
    };
    match peer::run(server, &mut io::stdin().lock(), io::stdout()) {
        Ok(peer::End::Eof) => ExitCode::SUCCESS,
        Ok(peer::End::Died { code, last_words }) => {
            complain(last_words);
            ExitCode::from(code)
        }
        Err(error) => {
            complain(&format!("demo server {name}: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn server(name: &str) -> Option<Box<dyn peer::Server>> {
    match name {
        "notes" => Some(Box::new(notes::Notes::default())),
        "clock" => Some(Box::new(clock::Clock)),
        "crashy" => Some(Box::new(trouble::Crashy)),
        "hang" => Some(Box::new(trouble::Hang)),
        _ => None,
    }
}

/// One line on stderr; nobody may be listening any more, and that is fine.
fn complain(text: &str) {
    use std::io::Write;
    let _ = writeln!(io::stderr(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_server_exists_and_no_other() {
        for name in SERVERS {
            assert_eq!(server(name).map(|s| s.name()), Some(name));
        }
        assert!(server("nobody").is_none());
        assert!(SERVERS.is_sorted(), "as the runtime sorts them");
    }
}
