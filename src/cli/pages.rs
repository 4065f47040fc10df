//! Floor 5. The pages of `callboard explain`: one for every code that an error can
//! carry. Text only; a test holds it complete. Used by `explain`.

use super::config_pages::CONFIG_PAGES;

/// What one code means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// The code, as in `error.code`.
    pub code: &'static str,
    /// In a few words.
    pub title: &'static str,
    /// What happened.
    pub meaning: &'static str,
    /// What it says about execution: whether the call ran.
    pub execution: &'static str,
    /// What to do.
    pub cure: &'static str,
}

const NOT_RUN: &str = "The call did not run: nothing was sent to the server.";
const MAYBE_RUN: &str = "`delivery` says what is known. not_sent: it did not run, send it again. unknown: it may have run, so look before you repeat it. executed: it ran.";
const NO_CALL: &str = "No call was under way.";

pub(super) const fn page(
    code: &'static str,
    title: &'static str,
    meaning: &'static str,
    execution: &'static str,
    cure: &'static str,
) -> Page {
    Page { code, title, meaning, execution, cure }
}

/// The codes of calls in their order, then those of the command line.
const PAGES: [Page; 53] = [
    page(
        "unknown_server",
        "no server of that name",
        "The name is in no configuration file that was read, or its file could not be read. Names are case-sensitive.",
        NOT_RUN,
        "Look at `callboard mcp list`. `callboard doctor` names files that could not be read. `callboard mcp add` adds a server.",
    ),
    page(
        "unknown_tool",
        "the server has no such tool",
        "The server was asked, and its list has no tool of that name; or a filter (`tools.include`, `tools.exclude`) hides it, or its definition is quarantined because it is broken.",
        NOT_RUN,
        "Look at `callboard mcp tools SERVER`. Use the raw name of the tool, as listed there.",
    ),
    page(
        "unknown_resource",
        "the server has no such resource",
        "Neither a resource nor a resource template of the server matches the URI.",
        NOT_RUN,
        "Look at `callboard mcp resources SERVER`. For a template, fill in its {parts}.",
    ),
    page(
        "unknown_prompt",
        "the server has no such prompt",
        "The server's list has no prompt of that name.",
        NOT_RUN,
        "Look at `callboard mcp prompts SERVER`.",
    ),
    page(
        "ambiguous_name",
        "several servers offer that name",
        "A name without its server was used, and more than one server offers it. None is picked silently.",
        NOT_RUN,
        "Name the server too; the message lists the candidates.",
    ),
    page(
        "invalid_arguments",
        "the arguments do not fit the tool",
        "The arguments are not a JSON object, or violate the tool's own schema. The message names the place.",
        NOT_RUN,
        "`callboard mcp call SERVER TOOL --help` shows the parameters. Correct the named place.",
    ),
    page(
        "denied",
        "refused by policy",
        "A rule refuses this tool: `deniedTools`, an `allowedTools` list that does not name it, `trust: read-only` with a tool that looks mutating, or a managed rule.",
        NOT_RUN,
        "`callboard mcp get SERVER` shows the rules of the entry and where they are written. A person's approval does not lift a denial.",
    ),
    page(
        "needs_approval",
        "a person would have to approve it",
        "Policy asks before this tool runs, and nobody said yes: there was no terminal to ask on, the answer was no, or it did not come in time.",
        NOT_RUN,
        "Run it on a terminal and answer y; or give `-y` in a script, for servers of your own configuration; or allow it for good with `callboard mcp allow SERVER TOOL`.",
    ),
    page(
        "secret_in_arguments",
        "the arguments hold a credential of another server",
        "A value that the configuration gives to one server as a credential stands in the arguments of a call to another, plainly or encoded. Such a call is refused in every mode, whatever is allowed: whoever wrote the arguments may have been talked into passing it on.",
        NOT_RUN,
        "Take the value out of the arguments. If this server is to have it, give it to the server in `env` or `headers` of its entry: then it is its own.",
    ),
    page(
        "pending_approval",
        "a server of the project waits for your approval",
        "Entries that a project brings along start, contact and expand nothing until you have approved them; an edited entry waits again.",
        NOT_RUN,
        "Read the entry with `callboard mcp get SERVER`, then `callboard mcp approve SERVER`.",
    ),
    page(
        "held",
        "the tool is not what it was when it was pinned",
        "What a tool says of itself (name, title, description, schemas, annotations) is pinned when it is first seen. This tool's definition has changed since, or what was pinned can't be read. It is held until a person has looked at it, also where a rule, a mode or an earlier approval would let it run. A definition that goes back to what was pinned is free again.",
        NOT_RUN,
        "`callboard mcp pin review SERVER TOOL` shows what changed; `callboard mcp pin accept SERVER TOOL` takes the new definition.",
    ),
    page(
        "disabled",
        "the server is turned off",
        "Its entry says `enabled: false` or `disabled: true`, perhaps in a source that wins over the one you look at.",
        NOT_RUN,
        "`callboard mcp on SERVER`; `callboard mcp get SERVER` shows which file turns it off.",
    ),
    page(
        "config_error",
        "the configuration can't be used as written",
        "An entry is not valid, a variable it needs is not set, its command is not there or not executable, or a whole file is broken. It is not tried again by itself.",
        NOT_RUN,
        "The message names file and key. `callboard doctor` checks everything at once.",
    ),
    page(
        "needs_auth",
        "the server wants credentials",
        "It answered 401 or 403, or said so in its own way. It is not tried again by itself, so that an account is not locked.",
        "The call did not run: the server refused it.",
        "Set the header or `bearer_token_env` that the server expects, and check that the token is still valid.",
    ),
    page(
        "given_up",
        "too many restarts",
        "The server ended again and again, or never became ready, until its restart budget was spent.",
        NOT_RUN,
        "`callboard mcp why SERVER` tells what happened, with its last words on stderr. Run its command by hand to see why it ends.",
    ),
    page(
        "not_ready",
        "the server is not ready yet",
        "It is being started or waits for its next attempt, and the longest wait of this call ended.",
        NOT_RUN,
        "Try again later, or wait longer with `--timeout`. `callboard mcp why SERVER --wait 60s` shows whether it comes up at all, and what keeps it.",
    ),
    page(
        "breaker_open",
        "too many failures in a row",
        "The circuit breaker of the server is open: calls are refused without trying until it closes again.",
        NOT_RUN,
        "Wait for `retry_after_ms`. `callboard mcp why SERVER` tells what happens to the server.",
    ),
    page(
        "busy",
        "too many calls at once",
        "As many calls as allowed run already, and as many as allowed wait.",
        NOT_RUN,
        "Try again after `retry_after_ms`, with fewer calls at once; or raise `limits` of the entry.",
    ),
    page(
        "rate_limited",
        "too many calls in that time",
        "The rate limit of the entry, or of the server itself, is used up.",
        NOT_RUN,
        "Try again after `retry_after_ms`; or change `rate` of the entry.",
    ),
    page(
        "draining",
        "the host or the server is going away",
        "A shutdown or the removal of the server is under way; calls that run may finish, new ones are refused.",
        NOT_RUN,
        "Try again when it is back.",
    ),
    page(
        "connect_failed",
        "no connection to the server",
        "The process could not be started or did not finish its handshake, or the address could not be reached.",
        NOT_RUN,
        "`callboard mcp why SERVER` tells the reason, whose fault it is, and the last lines of stderr; `callboard doctor` checks commands and files.",
    ),
    page(
        "connection_lost",
        "the connection ended during the call",
        "The process ended, or the connection broke, while the call was running.",
        MAYBE_RUN,
        "Look at the stderr of the server. Repeat the call only if it did not run, or if running twice does no harm.",
    ),
    page(
        "timeout_idle",
        "no sign of life for too long",
        "Neither an answer nor progress came within the idle limit (`timeout` of the entry). The server was told to stop working on it.",
        MAYBE_RUN,
        "Raise `timeout` of the entry if the tool is slow and reports no progress.",
    ),
    page(
        "timeout_total",
        "the call took too long in all",
        "The limit on the whole call passed: `--timeout`, or `max_timeout` of the entry. The server was told to stop working on it.",
        MAYBE_RUN,
        "Give more time with `--timeout`, or raise `max_timeout` of the entry.",
    ),
    page(
        "cancelled",
        "cancelled",
        "Ctrl-C, or the caller went away. The server was told, if the call had been sent.",
        MAYBE_RUN,
        "Nothing, if that was meant.",
    ),
    page(
        "malformed_answer",
        "an answer that breaks the protocol",
        "The server answered with something that is not valid JSON or JSON-RPC. Only this call failed.",
        MAYBE_RUN,
        "Report it to the server's author. `callboard mcp check SERVER` looks at its definitions too.",
    ),
    page(
        "frame_too_large",
        "a message over the size limit",
        "An answer, or a request, is larger than `limits.frame_max` of the entry (16 MiB by default).",
        MAYBE_RUN,
        "Ask the tool for less, or raise `limits.frame_max`.",
    ),
    page(
        "http_status",
        "an HTTP status without an answer",
        "The server, or a proxy before it, answered with an HTTP error and no JSON-RPC message. The message names the status.",
        MAYBE_RUN,
        "404: check the URL (it usually ends in /mcp). 5xx: look at the server's own log. 429, 503: wait for `retry_after_ms`.",
    ),
    page(
        "audit_unavailable",
        "the audit log can't be written",
        "Every call is written down before it is sent. The log could not be written (no space, no right, no key), and with `audit.mode = \"strict\"`, the default, only what is known to change nothing runs then: resources, prompts, and tools that a trusted server hints to be read-only.",
        NOT_RUN,
        "The message names the file and what is wrong with it. Free space or correct its rights; `callboard audit verify` looks at the log. With `audit.mode = \"best-effort\"` calls go on without a line, and \"off\" writes none.",
    ),
    page(
        "internal",
        "a fault of Callboard",
        "Something happened here that must not happen. Other servers and calls are not concerned.",
        MAYBE_RUN,
        "Please report it with the message and the output of `--log-level debug`.",
    ),
    page(
        "audit_broken",
        "the audit log is not as it was written",
        "`callboard audit verify` found lines that were changed, removed, moved or added, or an end that is missing. The answer names each with its file, line and kind.",
        NO_CALL,
        "Keep the files as they are, and compare them with a copy. To begin a new log, move the folder `audit` of Callboard's home away. Who has the key can write any log: keep number and mac of the last line elsewhere, and check them with `--expect`.",
    ),
    page(
        "server_error",
        "the server answered with an error",
        "The call arrived, and the server answered with a JSON-RPC error. `rpc_error` has it as sent. (A tool that fails says `isError` in its result instead, and that is no error of the call.)",
        "The server has seen the call; whether the tool did a part of its work is known to the server alone.",
        "Read the message of the server. -32602 usually means arguments it does not accept, -32601 something it does not offer.",
    ),
    page(
        "usage",
        "the command is not written right",
        "An unknown verb or option, or one that is missing. The message names it.",
        NO_CALL,
        "`--help` after any verb shows its form with examples.",
    ),
    page(
        "needs_host",
        "the verb needs a running host",
        "The verb acts on the host that the clients of a user share, and none runs: the first client of `callboard --mcp-serve` starts it.",
        NO_CALL,
        "`callboard mcp status` starts the servers for a look; `on S` and `off S` change the configuration.",
    ),
    page(
        "no_model",
        "no chat model is configured",
        "The agent was asked something, and neither the configuration nor a flag says which model answers.",
        NO_CALL,
        "`callboard --base-url URL --model NAME`, or `provider`, `base_url` and `name` below [model] in callboard.toml.",
    ),
    page(
        "model_auth",
        "the model's endpoint refused the key",
        "It answered 401 or 403.",
        NO_CALL,
        "Set model.api_key to a reference such as ${secret:NAME}, or the variable of the provider.",
    ),
    page(
        "model_rate_limited",
        "the model's endpoint asks to wait",
        "It answered 429, again after the tries of model.retries.",
        "Calls of tools that ran before stay done; none is repeated.",
        "Try again later; `--continue` goes on with the conversation.",
    ),
    page(
        "model_overloaded",
        "the model's endpoint is overloaded or broken",
        "It answered 5xx, again after the tries of model.retries.",
        "Calls of tools that ran before stay done; none is repeated.",
        "Try again later; `--continue` goes on with the conversation.",
    ),
    page(
        "model_context_too_long",
        "the conversation is longer than the model can look at",
        "The endpoint said so, and making room did not help.",
        "Calls of tools that ran before stay done.",
        "Begin a new conversation (/clear), or set model.context_window to what the model has.",
    ),
    page(
        "model_bad_request",
        "the model's endpoint does not take the request",
        "It has no such model, or does not take a definition or an image.",
        "Calls of tools that ran before stay done.",
        "Read its message; `callboard mcp check` says which definitions clients reject.",
    ),
    page(
        "model_network",
        "the model's endpoint was not reached, or its answer broke off",
        "The connection failed or ended early.",
        "Calls of tools that ran before stay done; none is repeated.",
        "Look at model.base_url and whether the endpoint runs; `--continue` goes on with the conversation.",
    ),
    page(
        "host_gone",
        "the shared host ended the connection",
        "A client of `callboard --mcp-serve` was joined to the host of its user, and that host ended, or ended this client.",
        "Calls that ran then may have been done.",
        "Start the client again: it gets a fresh host. `~/.callboard/log/host.log` may say why; `--private` needs no shared host.",
    ),
    page(
        "not_in_this_version",
        "not part of this version",
        "The verb or option belongs to Callboard, and this version does not have it yet.",
        NO_CALL,
        "`callboard --help` and `callboard mcp --help` show what there is.",
    ),
    page(
        "not_approved",
        "nobody confirmed it",
        "A question was answered with no, or could not be asked because there is no terminal.",
        "Nothing was done.",
        "Run it on a terminal and answer y, or give `-y`.",
    ),
    page(
        "exists",
        "the name is taken",
        "The file has an entry of that name already.",
        NO_CALL,
        "Take another name, remove the entry first, or replace it with `--force`.",
    ),
    page(
        "no_client",
        "that MCP client is not here",
        "Neither its file nor its folder is where the client keeps it. The message names the path that was looked at.",
        NO_CALL,
        "Start the client once. For `mcp import`, `--from FILE` names another file.",
    ),
    page(
        "unknown_secret",
        "no secret of that name",
        "Nothing is stored under that name in `secrets.json` of the home of Callboard. Names are case-sensitive.",
        NO_CALL,
        "Look at `callboard secret list`; `callboard secret set NAME` stores one.",
    ),
    page(
        "secret_in_use",
        "an entry reads the secret",
        "A configured entry says ${secret:NAME}, in force or not, and could not start without it.",
        "Nothing was removed.",
        "Take the reference out of the entry first; or `callboard secret rm NAME --force`.",
    ),
    page(
        "token_exists",
        "a token has that name already",
        "Names of tokens are unique, because the audit log tells who called by them.",
        NO_CALL,
        "Take another name, or remove the old token first: `callboard token rm NAME`.",
    ),
    page(
        "unknown_token",
        "no token of that name",
        "The file of tokens has none of that name. Names are case-sensitive.",
        NO_CALL,
        "Look at `callboard token list`.",
    ),
    page(
        "too_many_tokens",
        "there are as many tokens as there may be",
        "The message says how many. Those that expired count until they are removed.",
        NO_CALL,
        "Remove what nobody uses: `callboard token list`, `callboard token rm NAME`.",
    ),
    page(
        "port_unavailable",
        "the host can't listen there",
        "Another program has the port, or this machine does not have the address. The message says which.",
        NO_CALL,
        "Take another port (`--mcp-port`, `http.port`), or 0 for a free one, which is told on stderr.",
    ),
    page(
        "io_error",
        "a file can't be read or written",
        "The message names the file and the reason.",
        "A call whose output could not be saved did run.",
        "Check the path, its permissions and the free space.",
    ),
];

/// The page of that code.
pub fn find(code: &str) -> Option<&'static Page> {
    all().find(|page| page.code == code)
}

/// All pages: of calls, of the command line, of configuration.
pub fn all() -> impl Iterator<Item = &'static Page> + Clone {
    PAGES.iter().chain(&CONFIG_PAGES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::ErrorCode;

    #[test]
    fn every_code_of_a_call_has_a_page_in_its_order() {
        let pages: Vec<_> = PAGES.iter().map(|p| p.code).take(ErrorCode::ALL.len()).collect();
        let codes: Vec<_> = ErrorCode::ALL.iter().map(|c| c.as_str()).collect();
        assert_eq!(pages, codes);
    }

    #[test]
    fn no_page_is_empty_or_doubled() {
        let mut seen = std::collections::BTreeSet::new();
        for p in all() {
            assert!(seen.insert(p.code), "{} twice", p.code);
            for text in [p.title, p.meaning, p.execution, p.cure] {
                assert!(text.len() > 3, "{} has an empty part", p.code);
            }
        }
    }

    #[test]
    fn every_code_that_the_command_line_makes_has_a_page() {
        let sources = include_dir();
        assert!(sources.len() > 5, "the sources of this floor were not found");
        for (file, text) in sources {
            let text = text.split("#[cfg(test)]").next().unwrap_or_default();
            for part in text.split("Failure::new(").skip(1) {
                let Some(code) = part.trim_start().strip_prefix('"').and_then(|p| p.split('"').next()) else {
                    continue;
                };
                assert!(find(code).is_some(), "{file}: code {code} has no page");
            }
        }
    }

    fn include_dir() -> Vec<(String, String)> {
        let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cli");
        std::fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|e| e == "rs"))
            .map(|path| (path.display().to_string(), std::fs::read_to_string(&path).unwrap()))
            .collect()
    }
}
