//! Floor 5. What stands for a server that is not configured, in commands that messages suggest:
//! its URL, or its command after `--`. Such a server has no name that a verb could take. Pure.
//! Used by `once`, `session` and the help of a tool.

use crate::id::shell_word;

/// Verbs that take a URL, or a command after `--`, in place of a name.
const VERBS: [&str; 7] = ["tools", "resources", "prompts", "call", "read", "prompt", "check"];
/// How every such command begins.
const PROGRAM: &str = "callboard mcp ";
/// What is said of advice that needs an entry.
const KEEP: &str = "for that, keep the server under a name";

/// A server that runs for one command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StandIn {
    /// Reached at this URL, as it may be shown.
    Url(String),
    /// Started by these words, as they may be shown.
    Command(Vec<String>),
}

impl StandIn {
    /// The command line of a verb with these words, which are quoted already.
    pub fn command(&self, verb: &str, words: &str) -> String {
        let gap = if words.is_empty() { "" } else { " " };
        match self {
            Self::Url(url) => format!("{PROGRAM}{verb} {}{gap}{words}", shell_word(url)),
            Self::Command(_) => format!("{PROGRAM}{verb}{gap}{words} -- {}", self.words()),
        }
    }

    /// How to keep it.
    pub fn keep(&self) -> String {
        match self {
            Self::Url(url) => format!("{PROGRAM}add NAME {}", shell_word(url)),
            Self::Command(_) => format!("{PROGRAM}add NAME -- {}", self.words()),
        }
    }

    fn words(&self) -> String {
        let Self::Command(words) = self else { return String::new() };
        words.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ")
    }

    /// A fix that speaks of the server as `name`, in commands that can be typed.
    pub fn working(&self, fix: &str, name: &str) -> String {
        let mut out = String::with_capacity(fix.len());
        let (mut rest, mut kept) = (fix, false);
        while let Some(at) = rest.find(PROGRAM) {
            let (before, from) = rest.split_at(at);
            let end = from.find(['`', ';', ',', '\n']).unwrap_or(from.len());
            let (command, after) = from.split_at(end);
            let mut words = command[PROGRAM.len()..].splitn(3, ' ');
            let (verb, server) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
            out.push_str(before);
            match (server == name, VERBS.contains(&verb)) {
                (true, true) => out.push_str(&self.command(verb, words.next().unwrap_or_default())),
                (true, false) => {
                    out.push_str(&self.keep());
                    kept = true;
                }
                (false, _) => out.push_str(command),
            }
            rest = after;
        }
        out.push_str(rest);
        let wants_entry =
            ["entry", "of this server", "allowedTools", "`trust`"].iter().any(|word| fix.contains(word));
        if wants_entry && !kept {
            out.push_str(&format!("; {KEEP}: {}", self.keep()));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url() -> StandIn {
        StandIn::Url("https://h/mcp?a=1".into())
    }

    fn command() -> StandIn {
        StandIn::Command(["npx", "-y", "a b"].map(str::to_owned).into())
    }

    #[test]
    fn every_command_that_is_suggested_can_be_typed() {
        for (fix, with_url, with_command) in [
            (
                "callboard mcp call once t --help",
                "callboard mcp call 'https://h/mcp?a=1' t --help",
                "callboard mcp call t --help -- npx -y 'a b'",
            ),
            (
                "did you mean x? `callboard mcp tools once` lists all",
                "did you mean x? `callboard mcp tools 'https://h/mcp?a=1'` lists all",
                "did you mean x? `callboard mcp tools -- npx -y 'a b'` lists all",
            ),
            (
                "callboard mcp why once",
                "callboard mcp add NAME 'https://h/mcp?a=1'",
                "callboard mcp add NAME -- npx -y 'a b'",
            ),
            ("callboard mcp call other t", "callboard mcp call other t", "callboard mcp call other t"),
            ("wait a while", "wait a while", "wait a while"),
        ] {
            assert_eq!(url().working(fix, "once"), with_url);
            assert_eq!(command().working(fix, "once"), with_command);
        }
    }

    #[test]
    fn advice_about_an_entry_says_how_to_have_one() {
        let told = url().working("raise `timeout` of this server", "once");
        assert!(
            told.starts_with("raise `timeout`")
                && told.ends_with("callboard mcp add NAME 'https://h/mcp?a=1'"),
            "{told}"
        );
    }
}
