//! What a tool's name says about it: whether it reads, changes something, or can't be
//! told. A guess from words, used only to refuse or to ask, never to let a call
//! pass unasked. Called by `access`.

use crate::catalog::words::words;

/// What a name looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// It only reads.
    Reads,
    /// It changes, sends or runs something.
    Mutates,
    /// Nothing in it says.
    Unknown,
}

/// Words that change something wherever they stand in a name.
const CHANGING: &[&str] = &[
    "abort",
    "accept",
    "activate",
    "add",
    "allocate",
    "append",
    "apply",
    "approve",
    "archive",
    "assign",
    "attach",
    "ban",
    "cancel",
    "chmod",
    "chown",
    "cleanup",
    "clear",
    "clone",
    "commit",
    "connect",
    "convert",
    "copy",
    "create",
    "deactivate",
    "decline",
    "delete",
    "deploy",
    "destroy",
    "detach",
    "disable",
    "discard",
    "disconnect",
    "dismiss",
    "drag",
    "drop",
    "edit",
    "enable",
    "erase",
    "eval",
    "evict",
    "exec",
    "execute",
    "fill",
    "flush",
    "fork",
    "format",
    "generate",
    "grant",
    "import",
    "init",
    "initialize",
    "insert",
    "install",
    "invite",
    "invoke",
    "join",
    "kick",
    "kill",
    "launch",
    "leave",
    "login",
    "logout",
    "lock",
    "mark",
    "merge",
    "migrate",
    "mkdir",
    "modify",
    "move",
    "mutate",
    "mute",
    "mv",
    "navigate",
    "notify",
    "overwrite",
    "patch",
    "pay",
    "prune",
    "provision",
    "publish",
    "pull",
    "purge",
    "push",
    "put",
    "quit",
    "reboot",
    "rebase",
    "refund",
    "register",
    "reject",
    "reload",
    "remove",
    "rename",
    "reopen",
    "replace",
    "reply",
    "reset",
    "resize",
    "resolve",
    "restart",
    "restore",
    "resume",
    "retry",
    "revert",
    "revoke",
    "rm",
    "rmdir",
    "rollback",
    "rotate",
    "save",
    "scale",
    "sell",
    "send",
    "shutdown",
    "spawn",
    "squash",
    "stage",
    "stash",
    "submit",
    "subscribe",
    "suspend",
    "swap",
    "sync",
    "terminate",
    "toggle",
    "touch",
    "transfer",
    "trash",
    "trigger",
    "truncate",
    "unarchive",
    "unassign",
    "unban",
    "uninstall",
    "unlink",
    "unlock",
    "unmute",
    "unpublish",
    "unregister",
    "unsubscribe",
    "update",
    "upgrade",
    "upload",
    "upsert",
    "wipe",
    "withdraw",
    "write",
];

/// Words that change something in the place of the verb, and name a thing behind a reading word
/// (`order_item` orders, `get_order` reads).
const CHANGING_AS_VERB: &[&str] = &[
    "block", "book", "build", "buy", "call", "change", "charge", "checkout", "click", "close", "command",
    "comment", "email", "exit", "export", "follow", "hold", "like", "link", "load", "log", "mail", "make",
    "message", "open", "order", "pause", "payment", "pin", "play", "post", "press", "process", "purchase",
    "queue", "record", "release", "request", "run", "schedule", "script", "select", "set", "share", "shell",
    "sign", "star", "start", "stop", "store", "tag", "task", "trade", "tweet", "type", "use", "vote",
];

/// Words that only read.
const READING: &[&str] = &[
    "analyze",
    "browse",
    "calculate",
    "cat",
    "check",
    "compare",
    "compute",
    "count",
    "describe",
    "diff",
    "echo",
    "explain",
    "fetch",
    "find",
    "get",
    "grep",
    "head",
    "health",
    "help",
    "info",
    "inspect",
    "is",
    "has",
    "list",
    "locate",
    "lookup",
    "ls",
    "metadata",
    "peek",
    "ping",
    "preview",
    "query",
    "read",
    "schema",
    "search",
    "show",
    "stat",
    "stats",
    "status",
    "summarize",
    "tail",
    "tree",
    "validate",
    "verify",
    "version",
    "view",
    "whoami",
];

/// Looks at the words of a name.
pub fn look_of(name: &str) -> Look {
    let mut look = Look::Unknown;
    let mut verb_place = true;
    for word in words(name) {
        let word = word.as_str();
        if CHANGING.contains(&word) || (verb_place && CHANGING_AS_VERB.contains(&word)) {
            return Look::Mutates;
        }
        if READING.contains(&word) {
            look = Look::Reads;
            verb_place = false;
        }
        // `get_and_set`: what follows is a verb again.
        verb_place |= matches!(word, "and" | "or" | "then");
    }
    look
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn changing_names_are_seen_in_every_spelling() {
        for name in [
            "delete_file",
            "deleteFile",
            "DeleteFile",
            "delete-file",
            "delete.file",
            "DELETE_FILE",
            "file_delete",
            "drop_table",
            "move",
            "renameBranch",
            "kill_process",
            "set_value",
            "put-object",
            "post_message",
            "mergePullRequest",
            "uploadFile",
            "reset",
            "create_issue",
            "write_file",
            "run_command",
            "execute_sql",
            "get_or_create_user",
            "search_and_replace",
            "get_and_set",
            "browser_click",
            "sendEmail",
            "order_item",
            "git2push",
            "apply_patch",
        ] {
            assert_eq!(look_of(name), Look::Mutates, "{name}");
        }
    }

    #[test]
    fn reading_names_are_not_mistaken_for_changing_ones() {
        for name in [
            "get_order",
            "list_posts",
            "getEmail",
            "search_messages",
            "read_file",
            "list_deleted_files",
            "get_build_log",
            "status",
            "describe_task",
            "fetch_url",
            "query_database",
            "get_current_time",
            "count_records",
        ] {
            assert_eq!(look_of(name), Look::Reads, "{name}");
        }
        for name in ["weather", "sequentialthinking", "日本", "", "prepost", "settle", "recreated"] {
            assert_eq!(look_of(name), Look::Unknown, "{name}");
        }
    }

    #[test]
    fn lists_are_sorted_out_and_disjoint() {
        for list in [CHANGING, CHANGING_AS_VERB, READING] {
            for word in list {
                assert_eq!(words(word), [*word], "{word} is one lower-case word");
            }
        }
        for word in READING {
            assert!(!CHANGING.contains(word) && !CHANGING_AS_VERB.contains(word), "{word}");
        }
    }

    proptest! {
        #[test]
        fn a_changing_word_is_found_in_any_company(
            before in "[a-z]{2,6}", verb in proptest::sample::select(CHANGING), after in "[a-z]{2,6}",
            gap in proptest::sample::select(vec!["_", "-", ".", " ", "/", "2"]),
        ) {
            prop_assert_eq!(look_of(&format!("{before}{gap}{verb}{gap}{after}")), Look::Mutates);
            let camel = |w: &str| w[..1].to_uppercase() + &w[1..];
            let name = format!("{before}{}{}", camel(verb), camel(&after));
            prop_assert_eq!(look_of(&name), Look::Mutates, "{}", name);
        }
    }
}
