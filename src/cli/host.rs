//! Floor 5. Verbs that act on a running host. This version has none, and says so.
//! Called by `cli::run`.

use super::exit::Exit;
use super::failure::Failure;

/// The failure of `verb`: exit 7, nothing was sent.
pub fn needs_host(verb: &str) -> Failure {
    let fix = match verb {
        "logs" => "`callboard mcp status SERVER` starts the server for a look and shows its stderr",
        "wait" => "`callboard mcp status --wait D` starts the servers and waits for them",
        "on" | "off" => "name a server to turn it on or off in the configuration",
        _ => {
            "`callboard mcp status` starts the servers for a look; changes of files count from the next start"
        }
    };
    let message =
        format!("`callboard mcp {verb}` needs a running host, which this version does not have yet");
    Failure::new("needs_host", Exit::Unavailable, message).fix(fix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verb_without_a_host_is_safe_to_retry() {
        for verb in ["start", "stop", "restart", "reload", "reconnect", "logs", "wait", "on", "off"] {
            let failure = needs_host(verb);
            assert_eq!(failure.exit.code(), 7);
            assert!(failure.message.contains(&format!("mcp {verb}`")));
            assert!(failure.fix.is_some());
        }
    }
}
