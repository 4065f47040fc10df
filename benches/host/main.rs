//! What the host costs a client, against the same client on the server itself: over stdio as a
//! process of its own (`--mcp-serve --private`) and joined to the user's host (`--mcp-serve`). Ratios
//! of medians; each round measures every way, in turns.
//!
//! `cargo bench --bench host [-- QUICK]`. This same binary is the server (`--child`).

#![expect(clippy::unwrap_used, reason = "in a bench, a panic is the report")]
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a bench measures, plays peers and prints"
)]

#[path = "../call_path/peer.rs"]
mod peer;
mod pipe;

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;

use pipe::{Measured, Pipe};

/// What an answer looks like; `peer` knows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One text block without escapes.
    Plain,
    /// One text block full of escapes.
    Escaped,
    /// `structuredContent` of small objects.
    Structured,
}

/// The ways to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The client's own child.
    Direct,
    /// A host of its own in between.
    Private,
    /// The host of the user in between.
    Joined,
}

const WAYS: [Way; 3] = [Way::Direct, Way::Private, Way::Joined];
const ROUNDS: usize = 5;
/// (bytes of an answer, calls in flight, calls of one round)
const LOADS: [(usize, usize, usize); 5] =
    [(1024, 1, 10_000), (1024, 16, 40_000), (1024, 64, 60_000), (64, 16, 40_000), (1 << 20, 16, 400)];

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if args.get(1).map(String::as_str) == Some("--child") {
        peer::child(&args[2..]);
        return;
    }
    let quick = args.iter().any(|arg| arg.eq_ignore_ascii_case("quick"));
    let scale = if quick { 10 } else { 1 };
    println!(
        "{:>8} {:>3}  {:<8} {:>9} {:>11} {:>7} {:>7} {:>12}",
        "bytes", "in", "way", "p50 µs", "calls/s", "× p50", "× thr", "cpu µs a call"
    );
    for (size, in_flight, calls) in LOADS {
        let home = Home::new(size);
        let mut rounds: Vec<Vec<Measured>> = WAYS.iter().map(|_| Vec::new()).collect();
        for round in 0..ROUNDS {
            for at in 0..WAYS.len() {
                let at = (at + round) % WAYS.len();
                rounds[at].push(home.measure(WAYS[at], in_flight, (calls / scale).max(100)));
            }
        }
        let direct = Middle::of(&rounds[0]);
        for (way, measured) in WAYS.iter().zip(&rounds) {
            let middle = Middle::of(measured);
            println!(
                "{size:>8} {in_flight:>3}  {:<8} {:>9.2} {:>11.0} {:>7.2} {:>7.2} {:>12.2}",
                format!("{way:?}"),
                middle.p50 * 1e6,
                middle.per_second,
                middle.p50 / direct.p50,
                middle.per_second / direct.per_second,
                middle.cpu * 1e6,
            );
        }
    }
}

/// Medians over the rounds.
struct Middle {
    p50: f64,
    per_second: f64,
    cpu: f64,
}

impl Middle {
    fn of(rounds: &[Measured]) -> Self {
        let middle = |read: fn(&Measured) -> f64| {
            let mut values: Vec<f64> = rounds.iter().map(read).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        Self {
            p50: middle(|m| m.p50.as_secs_f64()),
            per_second: middle(|m| m.per_second),
            cpu: middle(|m| m.cpu.as_secs_f64()),
        }
    }
}

/// A folder with the configuration of one server.
struct Home {
    folder: tempfile::TempDir,
    child: Vec<String>,
}

impl Home {
    fn new(size: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let me = std::env::current_exe().unwrap().to_string_lossy().into_owned();
        let child = vec![me, "--child".to_owned(), "Plain".to_owned(), size.to_string()];
        let own = folder.path().join(".callboard");
        std::fs::create_dir(&own).unwrap();
        let entry = json!({"command": child[0], "args": child[1..], "allowedTools": ["*"]});
        std::fs::write(own.join("mcp.json"), json!({"mcpServers": {"toy": entry}}).to_string()).unwrap();
        let settings = "[serve]\nnaming = \"bare\"\nbuiltins = \"none\"\nlinger = \"0s\"\n";
        std::fs::write(own.join("callboard.toml"), settings).unwrap();
        Self { folder, child }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn command(&self, way: Way) -> Command {
        let mut command = match way {
            Way::Direct => {
                let mut command = Command::new(&self.child[0]);
                command.args(&self.child[1..]);
                return command;
            }
            Way::Private | Way::Joined => Command::new(env!("CARGO_BIN_EXE_callboard")),
        };
        command.arg("--mcp-serve").args((way == Way::Private).then_some("--private"));
        command.env("HOME", self.path()).env("CALLBOARD_HOME", self.path().join(".callboard"));
        command.current_dir(self.path());
        command
    }

    fn measure(&self, way: Way, in_flight: usize, calls: usize) -> Measured {
        let mut command = self.command(way);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut pipe = Pipe::open(command);
        pipe.greet();
        pipe.drive(in_flight, (calls / 10).max(50));
        pipe.drive(in_flight, calls)
    }
}
