//! Floor 5. The pages of `callboard explain` for what can be wrong with a configuration: one
//! for each kind of issue. Text only; a test holds it complete. Used by `pages`.

use super::pages::{Page, page};

const FILE_LEFT: &str = "Nothing of that source is in force; all other sources are.";
const ENTRY_LEFT: &str = "An error: that entry starts nothing, all others do. A warning: the entry is used.";
const USED: &str = "The rest is used as it stands.";

/// The pages of configuration, in the order of their kinds.
pub(super) const CONFIG_PAGES: [Page; 19] = [
    page(
        "config_unreadable",
        "a file or variable can't be read",
        "A file that somebody named is not there, may not be read, is too large, or is not UTF-8.",
        FILE_LEFT,
        "Check the path and its permissions. `callboard mcp config --json` lists every file that was looked for.",
    ),
    page(
        "config_syntax",
        "a file is not valid JSON or TOML",
        "The text breaks off or has a character where none may stand. Comments and trailing commas are fine in JSON files.",
        FILE_LEFT,
        "Repair it at the line and column that are named. No command overwrites a broken file.",
    ),
    page(
        "config_shape",
        "a file is valid, and no configuration",
        "Its top level is not an object, or servers stand where none are read.",
        FILE_LEFT,
        "Write the servers into {\"mcpServers\": {…}}.",
    ),
    page(
        "config_duplicate",
        "something is written twice",
        "A name of a server, a key, or two spellings of one key stand in the same place. One of them would be lost without a word.",
        "The message says which one counts.",
        "Keep one of them, or give the second another name.",
    ),
    page(
        "config_unknown_key",
        "a key that means nothing here",
        "It is spelt in another way, or belongs to another program or to another place of the file.",
        USED,
        "Correct the spelling, or take the key out. `config/default.toml` has every setting of the host.",
    ),
    page(
        "config_value",
        "a value that can't be used",
        "It is of another type than the key wants, out of its range, or no word of its set.",
        ENTRY_LEFT,
        "Write what the message asks for.",
    ),
    page(
        "config_conflict",
        "two keys stand against each other",
        "Both can't hold, such as `command` and `url`; or one makes the other useless.",
        ENTRY_LEFT,
        "Keep the one that is meant.",
    ),
    page(
        "config_missing",
        "a key is missing",
        "The entry says too little to be used, such as neither `command` nor `url`.",
        ENTRY_LEFT,
        "Write the key that is named.",
    ),
    page(
        "config_reference",
        "`${…}` is not written right",
        "It is not closed, or what stands in it is no name of a variable.",
        ENTRY_LEFT,
        "Write ${VAR}, ${VAR:-default} or ${secret:NAME}; $$ is a plain $.",
    ),
    page(
        "config_unset",
        "a variable or secret is not set",
        "The entry reads a variable of your environment, or a stored secret, and it is not there.",
        ENTRY_LEFT,
        "A variable: set it where Callboard is started, or give a default: ${VAR:-default}. A secret: `callboard secret set NAME`.",
    ),
    page(
        "config_not_utf8",
        "a variable is not UTF-8",
        "The variable is set, and its bytes are no text in UTF-8. Nothing is guessed in its place, and a default does not stand in for it.",
        ENTRY_LEFT,
        "Set the variable to a text in UTF-8.",
    ),
    page(
        "config_name",
        "a name that no server can have",
        "It is empty, too long, begins or ends with a space, or holds `/` or a character that can't be seen.",
        ENTRY_LEFT,
        "Take a name of letters, digits, `-`, `_` and `.`.",
    ),
    page(
        "config_not_allowed",
        "a source says more than it may",
        "A project may set little and raise nothing; nobody can override a managed entry.",
        "What it says there has no effect.",
        "Write it into your own file, or ask who manages this machine.",
    ),
    page(
        "config_waits",
        "an entry of the project waits for your approval",
        "What a project brings along starts, contacts and hides nothing before you have approved exactly that.",
        "The entry starts nothing; an entry of yours with the same name stays in force.",
        "Read it with `callboard mcp get SERVER`, then `callboard mcp approve SERVER`.",
    ),
    page(
        "config_not_yet",
        "a key of a later version",
        "It is known and checked, and this version does nothing by it; where that would break a promise, such as confinement, the entry does not run.",
        ENTRY_LEFT,
        "Take it out, or leave it for later.",
    ),
    page(
        "config_no_home",
        "there is no place for your own files",
        "HOME and CALLBOARD_HOME name no absolute folder of yours. A relative one would be another folder in each working directory, and might be one that a project brought along.",
        "Your own files are neither read nor written; project files, variables and flags are read.",
        "Set HOME, or CALLBOARD_HOME, to an absolute path.",
    ),
    page(
        "config_store",
        "a file that Callboard keeps can't be used",
        "The file of approvals, of allow rules or of secrets is broken, can't be read, or can be read by others. It is not overwritten.",
        "Nothing counts as approved or allowed, or no secret can be read.",
        "Do what the message says: repair or delete it, or `chmod 600` it.",
    ),
    page(
        "config_spawn",
        "the command of a server may not be started",
        "`spawn.enabled` is false, or its command is not on `spawn.allow` in safe mode or under `spawn.check = \"always\"`.",
        ENTRY_LEFT,
        "Add the absolute path of the command to `spawn.allow` in your callboard.toml, or set `trust` to trusted or `allowHostProcess` in the entry.",
    ),
    page(
        "config_rule",
        "an allow rule that can't act",
        "A rule of allow.json is not `tool` or `*`, its block names no server or scope, or no such server is configured.",
        "It allows nothing; the other rules are in force. It stays in the file.",
        "`callboard mcp rules` shows all of them; `callboard mcp allow SERVER TOOL --revoke` takes one out.",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::issue::IssueCode;

    #[test]
    fn every_kind_of_issue_has_its_page_in_order() {
        let pages: Vec<&str> = CONFIG_PAGES.iter().map(|page| page.code).collect();
        let codes: Vec<&str> = IssueCode::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(pages, codes);
    }
}
