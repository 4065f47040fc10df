//! Floor 5. What a line at the prompt means: text for the model, one of our commands, a prompt of a
//! server, or a slip. Also the table of commands that help, completion and docs go by. Pure. Used by
//! `repl` and `candidates`.

use crate::config::suggest::nearest;

/// What a line means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Nothing was typed.
    Empty,
    /// Text for the model.
    Say(String),
    /// A command of ours, and what follows it, as typed.
    Command(Deed, String),
    /// A prompt of a server by its exposed name (`/mcp__server__prompt`), and what follows it.
    Prompt(String, String),
    /// A command that nobody knows, and the closest one.
    Unknown(String, Option<&'static str>),
}

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Shows the commands.
    Help,
    /// The verbs of `callboard mcp`.
    Mcp,
    /// The tools.
    Tools,
    /// One call by the exposed name.
    Tool,
    /// The model.
    Model,
    /// How much runs without asking.
    Mode,
    /// Tokens, and what they cost.
    Usage,
    /// The last calls, as the audit log has them.
    Log,
    /// A fresh conversation.
    Clear,
    /// The conversation made shorter.
    Compact,
    /// An earlier conversation.
    Resume,
    /// The end.
    Exit,
}

/// One command.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// Its names, the usual one first, without the slash.
    pub names: &'static [&'static str],
    /// What follows it.
    pub takes: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// The same for us.
    pub deed: Deed,
}

/// Every command, as `/help` shows them.
pub const COMMANDS: &[Command] = &[
    Command {
        names: &["help", "?"],
        takes: "[COMMAND]",
        about: "the commands; of one, how it is used",
        deed: Deed::Help,
    },
    Command {
        names: &["mcp", "capabilities"],
        takes: "[VERB …]",
        about: "servers and tools; the verbs of `callboard mcp`",
        deed: Deed::Mcp,
    },
    Command {
        names: &["tools"],
        takes: "[SERVER]",
        about: "the tools, of all servers or one",
        deed: Deed::Tools,
    },
    Command {
        names: &["tool"],
        takes: "NAME [ARGS]",
        about: "call a tool by the name the model knows it by",
        deed: Deed::Tool,
    },
    Command {
        names: &["model"],
        takes: "[NAME]",
        about: "which model answers; with a name, another one",
        deed: Deed::Model,
    },
    Command {
        names: &["mode"],
        takes: "[MODE]",
        about: "how much runs without asking: plan, safe, readonly, auto",
        deed: Deed::Mode,
    },
    Command {
        names: &["usage", "cost"],
        takes: "",
        about: "tokens of this conversation, and what they cost",
        deed: Deed::Usage,
    },
    Command {
        names: &["log"],
        takes: "[N]",
        about: "the last operations: who, what, which rule",
        deed: Deed::Log,
    },
    Command { names: &["clear", "new"], takes: "", about: "begin a new conversation", deed: Deed::Clear },
    Command { names: &["compact"], takes: "", about: "make the conversation shorter", deed: Deed::Compact },
    Command {
        names: &["resume"],
        takes: "[ID]",
        about: "earlier conversations; with an id, go on with one",
        deed: Deed::Resume,
    },
    Command {
        names: &["exit", "quit", "q"],
        takes: "",
        about: "leave (Ctrl-D does it too)",
        deed: Deed::Exit,
    },
];

/// Every name of a command.
pub fn names() -> impl Iterator<Item = &'static str> {
    COMMANDS.iter().flat_map(|command| command.names.iter().copied())
}

/// The command of that name, without its slash.
pub fn command(name: &str) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.names.contains(&name))
}

/// What begins the name of a server's prompt.
pub const PROMPT_PREFIX: &str = "mcp__";

/// Reads a line. A backslash before a line's end is how it was typed, and goes; two slashes at the
/// start mean a text that begins with one.
pub fn read(line: &str) -> Input {
    let line = line.replace("\\\n", "\n");
    let line = line.trim();
    let Some(rest) = line.strip_prefix('/') else {
        return if line.is_empty() { Input::Empty } else { Input::Say(line.to_owned()) };
    };
    if rest.starts_with('/') {
        return Input::Say(rest.to_owned());
    }
    let (name, after) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let after = after.trim().to_owned();
    if let Some(command) = command(name) {
        return Input::Command(command.deed, after);
    }
    if name.starts_with(PROMPT_PREFIX) {
        return Input::Prompt(name.to_owned(), after);
    }
    Input::Unknown(name.to_owned(), nearest(name, names()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_text_a_command_or_a_slip() {
        assert_eq!(read("  \n "), Input::Empty);
        assert_eq!(read(" hello\\\nworld "), Input::Say("hello\nworld".into()));
        assert_eq!(read("//etc/hosts"), Input::Say("/etc/hosts".into()));
        assert_eq!(
            read("/mcp  call s t {\"a\":  1}"),
            Input::Command(Deed::Mcp, "call s t {\"a\":  1}".into())
        );
        assert_eq!(read("/q"), Input::Command(Deed::Exit, String::new()));
        assert_eq!(read("/mcp__docs__ask x=1"), Input::Prompt("mcp__docs__ask".into(), "x=1".into()));
        assert_eq!(read("/toools"), Input::Unknown("toools".into(), Some("tools")));
        assert_eq!(read("/xyzzy"), Input::Unknown("xyzzy".into(), None));
        assert_eq!(read("/"), Input::Unknown(String::new(), None));
    }

    #[test]
    fn no_two_commands_share_a_name_and_each_says_what_it_does() {
        let mut all: Vec<&str> = names().collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
        assert!(COMMANDS.iter().all(|command| !command.about.is_empty() && !command.names.is_empty()));
        for name in names() {
            assert!(matches!(read(&format!("/{name}")), Input::Command(..)), "{name}");
        }
    }
}
