//! Floor 5. The examples under each `--help`, the manual that people read first, and what the
//! help of a verb leaves to that of the program. Used by `args` and `cli::main`.

use clap::{Command, CommandFactory};

use super::args::Cli;

/// What stands below the help of a verb in place of the options that every command has.
const EVERYWHERE: &str = "Options of every command, such as --json and -C DIR: `callboard --help`.";

/// The command tree as the help shows it: only the top of it has the options of every command,
/// so that a verb shows its own words and its examples alone.
pub fn command() -> Command {
    let mut top = Cli::command();
    top.build();
    top.mut_subcommands(own_words)
}

fn own_words(verb: Command) -> Command {
    let below = match verb.get_after_help() {
        Some(text) => format!("{text}\n\n{EVERYWHERE}"),
        // The demo, a show that goes by none of them.
        None => String::new(),
    };
    verb.mut_args(|arg| if arg.is_global_set() { arg.hide(true) } else { arg })
        .after_help(below)
        .mut_subcommands(own_words)
}

pub(super) const TOP: &str = "\
Examples:
  callboard                                      a prompt, with all servers
  callboard demo                                 see it work at once
  callboard mcp add fs -- npx -y @modelcontextprotocol/server-filesystem .
  callboard mcp status                           start the servers, look at them
  callboard mcp why fs                           whose fault it is, and the cure
  callboard mcp tools fs                         what a server offers
  callboard mcp call fs list_directory path=.    use it
  callboard --mcp-serve                          serve them as one to a client
  callboard doctor                               what is wrong, and the cure

Exit codes:
  0 done   1 tool said isError, or not healthy   2 usage or invalid arguments
  3 configuration   4 no such server or tool   5 refused by policy
  6 needs auth   7 unavailable, not sent (safe to retry)
  8 sent, outcome unknown   130 interrupted";

pub(super) const MCP: &str = "\
See:   list  get  status  why  config  check
Use:   tools  resources  read  prompts  prompt  call
Edit:  add  add-json  remove  enable (on)  disable (off)  import  approve
       revoke  allow  rules  pin
Run:   start  stop  restart  reconnect  reload  logs  wait
       (they act on the host that `callboard --mcp-serve` starts)

In the verbs of `use`, and in `check`, `-- COMMAND…` or a URL in place of the server runs \
a server once that is not configured:
  callboard mcp tools -- npx -y @modelcontextprotocol/server-everything
  callboard mcp call https://example.com/mcp echo message=hello";

pub(super) const SERVE: &str = "\
All clients of a user share one host, a process of its own that the first of them starts and that \
ends serve.linger after the last; those whose configurations come to the same share its servers. \
The servers of the project's files are served only with serve.read_project_mcp. SIGHUP reads the \
configuration again, SIGTERM lets running calls end first. The host's own tools (serve.builtins) are \
served beside them; `mcp tools` and `mcp call` know configured servers only.
Examples:
  callboard --mcp-serve                      the command of an MCP client
  callboard --mcp-serve --private            with a host of its own
  callboard --mcp-serve --only fs --only 'git/git_log'
                                             a part: server, server/item, name
  callboard --mcp-serve --approval client    the client asks its user by itself
  callboard --mcp-http                       at http://127.0.0.1:8931/mcp";

pub(super) const EXPLAIN: &str = "\
Examples:
  callboard explain                     all codes
  callboard explain connection_lost     what happened, whether it ran, the cure
  callboard explain 7                   an exit code
  callboard explain policy              what runs, what asks, what is refused";

pub(super) const COMPLETIONS: &str = "\
Completes verbs, options, codes, the names of servers as the files configure them, and what a server \
was last seen to offer: tools for `call` and `why`, resources for `read`, prompts for `prompt`. \
Completing starts nothing: of a server that never ran nothing is known. Names that a shell would not \
take as they are must be typed.
Examples:
  bash:        source <(callboard completions bash)
  zsh:         source <(callboard completions zsh)
  fish:        callboard completions fish | source
  elvish:      eval (callboard completions elvish | slurp)
  powershell:  callboard completions powershell | Out-String | Invoke-Expression
Put the line into your shell's start-up file to keep it.";

pub(super) const DOCTOR: &str = "\
Looks at files, permissions, commands and variables; starts nothing. Ends with 1 if anything is \
wrong.
Examples:
  callboard doctor
  callboard doctor --json";

pub(super) const SECRET: &str = "\
A secret is kept in `secrets.json` in the home of Callboard, a file that only you can read (0600); the \
keyring of the system is not used. An entry reads it as ${secret:NAME} in `args`, `env`, `url` or \
`headers`. No verb ever shows a value.
Examples:
  callboard secret set GITHUB_TOKEN           asks for it, without showing it
  callboard mcp add github -e GITHUB_TOKEN='${secret:GITHUB_TOKEN}' -- \\
    github-mcp-server stdio
  callboard secret list
  callboard secret rm GITHUB_TOKEN";

pub(super) const SECRET_SET: &str = "\
On a terminal it asks and shows nothing of what is typed; in a pipe it reads one line. A secret of \
that name is replaced; servers see the new value at their next start.
Examples:
  callboard secret set GITHUB_TOKEN
  pass show github | callboard secret set GITHUB_TOKEN";

pub(super) const SECRET_LIST: &str = "\
Examples:
  callboard secret list
  callboard secret list --json";

pub(super) const SECRET_RM: &str = "\
Refuses (exit 5) while an entry reads it, in force or not, because that entry could not start any more.
Examples:
  callboard secret rm GITHUB_TOKEN
  callboard secret rm GITHUB_TOKEN --force    remove it all the same";

pub(super) const TOKEN: &str = "\
A token lets a program in that does not run as you: in a container, on another machine, as another user. \
It is sent as `Authorization: Bearer TOKEN`. It carries a name for the audit log, and limits.
Examples:
  callboard token add ci --only 'git' --rate 5 --mode safe --expires 30d
  callboard token list
  callboard token rm ci          a running host notices within two seconds";

pub(super) const TOKEN_ADD: &str = "\
The token is printed on stdout, this once; only a hash of it is kept. A running host takes it within \
two seconds.
Examples:
  callboard token add ci
  callboard token add box --only 'git' --only 'fs/read_*' --rate 5
  callboard token add guest --expires 12h";

pub(super) const TOKEN_LIST: &str = "\
Examples:
  callboard token list
  callboard token list --json";

pub(super) const TOKEN_RM: &str = "\
Sessions that it opened end, too.
Examples:
  callboard token rm ci";

pub(super) const AUDIT: &str = "\
Every call is written to `audit/audit.jsonl` in the home of Callboard (0600): a line before it is sent, \
one when it has ended; a refusal is one line. So are answers to questions, and changes of trust: \
approvals, allow rules, pins. Arguments are in it as a keyed hash, never as text. `audit.mode` says \
what happens when it can't be written.
Examples:
  callboard audit verify
  callboard audit tail -f --server github
  callboard audit export --format csv --since 30d > audit.csv";

pub(super) const AUDIT_VERIFY: &str = "\
Ends with 1 when the log is broken, and names file, line, number and kind of each break. Lines are \
chained with a key that lies beside the log: who has it can write any log. So keep number and mac of the \
last line elsewhere.
Examples:
  callboard audit verify
  callboard audit verify --json";

pub(super) const AUDIT_TAIL: &str = "\
Shows lines as they are, verified or not.
Examples:
  callboard audit tail
  callboard audit tail -f --outcome refused
  callboard audit tail -n 100 --since 2h --json";

pub(super) const AUDIT_EXPORT: &str = "\
Verifies the log first, and writes nothing (exit 1) when it is broken.
Examples:
  callboard audit export > audit.jsonl
  callboard audit export --format csv --server github > github.csv";

pub(super) const LIST: &str = "\
Reads the configuration and starts nothing. `state` in --json is usable (may be started as it is \
written), disabled, pending_approval or config_error; how servers are is what `mcp status` says.
Examples:
  callboard mcp list
  callboard mcp list --json
  callboard mcp list --mcp-config servers.json --strict-mcp-config";

pub(super) const GET: &str = "\
Reads the configuration and starts nothing. Secret values are masked; an entry of the project is shown as \
written, except for what looks like a credential.
Examples:
  callboard mcp get github
  callboard mcp get github --json";

pub(super) const STATUS: &str = "\
Starts the approved servers, shows them when all have settled or 2 s after the last became ready, \
and ends them. Ends with 1 if a server that should run can't be used. One that is off or waits for \
approval should not run, unless its entry says `required: true`, or it is the one that was named.
Examples:
  callboard mcp status
  callboard mcp status github             one server in detail
  callboard mcp status --wait 30s         give slow servers time
  callboard mcp status --watch            keep them running, show every change";

pub(super) const WHY: &str = "\
Starts the server, if it may run, and waits until it is settled, late, or its next start is more \
than 10 s away. Then tells whose fault its state is, what happens next, what cures it, and below \
that what happened, in order: times since the first event, and the number of the connection (g1, g2 …). \
With a tool: also whether it is listed, and which rule decides about a call of it. Ends with 1 if \
the server can't be used.
Examples:
  callboard mcp why github
  callboard mcp why github create_issue   what policy says to that tool
  callboard mcp why github --wait 2m      give a slow server time
  callboard mcp why github --json         everything, for scripts";

pub(super) const CONFIG: &str = "\
The effective configuration, each value with the file it comes from; secret values are masked.
Examples:
  callboard mcp config
  callboard mcp config --json";

pub(super) const TOOLS: &str = "\
Starts only the servers it needs.
Examples:
  callboard mcp tools
  callboard mcp tools github
  callboard mcp tools github -v           and what deserves a second look
  callboard mcp tools github --json       whole definitions, as they were sent
  callboard mcp tools -- uvx mcp-server-time";

pub(super) const RESOURCES: &str = "\
Examples:
  callboard mcp resources docs
  callboard mcp resources docs --json
  callboard mcp resources -- npx -y @modelcontextprotocol/server-everything";

pub(super) const READ: &str = "\
Examples:
  callboard mcp read docs file:///intro.md
  callboard mcp read docs demo://logo.png -o logo.png
  callboard mcp read demo://resource/dynamic/text/1 -- \\
    npx -y @modelcontextprotocol/server-everything";

pub(super) const PROMPTS: &str = "\
Examples:
  callboard mcp prompts docs
  callboard mcp prompts docs --json";

pub(super) const PROMPT: &str = "\
Arguments of a prompt are texts; missing and unknown ones are refused and never sent.
Examples:
  callboard mcp prompt docs summarise topic=wind
  callboard mcp prompt docs summarise '{\"topic\":\"wind\"}'
  callboard mcp prompt docs summarise @arguments.json";

pub(super) const CALL: &str = "\
ARGS is a JSON object, `key=value …` typed by the tool's schema, `@file`, or `-` for stdin.
  key=value      the schema says whether it is text, number, boolean or JSON
  key:='[1,2]'   JSON, whatever the schema says
Invalid arguments are refused and never sent.

On a terminal it asks before a tool runs that policy would ask about; without one such a call is \
refused (exit 5). Ctrl-C cancels the call, and the server is told.

Examples:
  callboard mcp call fs read_text_file path=README.md
  callboard mcp call fs read_text_file '{\"path\":\"README.md\",\"head\":5}'
  callboard mcp call fs read_text_file --help          its parameters
  echo '{\"path\":\".\"}' | callboard mcp call fs list_directory -
  callboard mcp call draw render size=64 -o out.png    save the binary parts
  callboard mcp call fs list_directory --as-model      as a model gets it
  callboard mcp call echo message=hi -- \\
    npx -y @modelcontextprotocol/server-everything
  callboard mcp call fs list_directory path=. --json | jq .data.result";

pub(super) const ADD: &str = "\
Everything after the command belongs to the command.
Examples:
  callboard mcp add fs -- npx -y @modelcontextprotocol/server-filesystem /data
  callboard mcp add github -e GITHUB_TOKEN='${GITHUB_TOKEN}' -- \\
    github-mcp-server stdio
  callboard mcp add docs https://example.com/mcp \\
    -H 'Authorization=Bearer ${DOCS_TOKEN}'
  callboard mcp add -s project time -- uvx mcp-server-time
  callboard mcp add time stdio uvx mcp-server-time --project
  callboard mcp add docs http https://example.com/mcp
`${NAME}` is read from the environment when the server starts; quote it, so that the shell leaves \
it alone.";

pub(super) const ADD_JSON: &str = "\
Examples:
  callboard mcp add-json time '{\"command\":\"uvx\",\"args\":[\"mcp-server-time\"]}'
  callboard mcp add-json docs '{\"url\":\"https://example.com/mcp\"}'
  callboard mcp add-json time - < entry.json";

pub(super) const IMPORT: &str = "\
Clients: claude-desktop, claude-code, cursor, vscode, codex, gemini, zed, windsurf. Its file stays \
as it is; for each server it is said what was written differently and what has no counterpart.
Examples:
  callboard mcp import claude-desktop --dry-run     what would be taken over
  callboard mcp import codex github --secrets store
  callboard mcp import cursor --rename              where names are taken
  callboard mcp import vscode --from ./mcp.json";

pub(super) const INSTALL: &str = "\
Shows what it would change, asks, and keeps the file as it was in `backups` of Callboard's folder. \
Comments, order and layout of the file stay.
Examples:
  callboard install cursor               one entry that serves all servers
  callboard install claude-code --split  one entry for each, names stay
  callboard install codex --dry-run      show it only
  callboard install vscode --project -y  .vscode/mcp.json, without asking
  callboard uninstall cursor             and back";

pub(super) const UNINSTALL: &str = "\
A file that nobody changed since is byte for byte what it was; otherwise only our own entries go. \
The servers that were moved stay in Callboard too.
Examples:
  callboard uninstall cursor
  callboard uninstall cursor --dry-run";

pub(super) const REMOVE: &str = "\
Examples:
  callboard mcp remove time
  callboard mcp rm time -s project";

pub(super) const ENABLE: &str = "\
Keeps the change in the file that defines the server (`enable` and `on S` are the same).
Examples:
  callboard mcp enable time
  callboard mcp on time";

pub(super) const DISABLE: &str = "\
Keeps the entry, and starts nothing of it (`disable` and `off S` are the same).
Examples:
  callboard mcp disable time
  callboard mcp off time";

pub(super) const APPROVE: &str = "\
Shows the whole entry, the command it resolves to and the host variables it reads, and asks. The approval \
holds for exactly this entry: an edit makes it pending again. It is kept outside the project.
Examples:
  callboard mcp approve build-tools
  callboard mcp approve build-tools -y    without a question, for scripts";

pub(super) const REVOKE: &str = "\
Examples:
  callboard mcp revoke build-tools";

pub(super) const ALLOW: &str = "\
Calls of these tools run without asking, in every mode but plan. What is denied, held, or looks like \
a change on a read-only server stays refused. A rule is for the entry of that name in its own scope \
and project.
Examples:
  callboard mcp allow github search_issues get_issue
  callboard mcp allow time '*'             every tool of exactly this server
  callboard mcp allow time now --revoke    one back; without a tool: all";

pub(super) const RULES: &str = "\
Examples:
  callboard mcp rules
  callboard mcp rules --json";

pub(super) const PIN: &str = "\
What a tool says of itself (name, title, description, schemas, annotations) is pinned when it is first \
seen. When that changes, the tool is held: no call of it runs, whatever allows it, until you have looked \
at the change and accepted it. Going back to what was pinned frees it again.
Examples:
  callboard mcp pin review                what is held, and what changed
  callboard mcp pin accept fs read_file   take its new definition
  callboard mcp pin list                  what is pinned";

pub(super) const PIN_REVIEW: &str = "\
Starts only the servers it needs. Ends with 1 if a tool is held.
Examples:
  callboard mcp pin review
  callboard mcp pin review fs
  callboard mcp pin review fs read_file   one tool, held or not";

pub(super) const PIN_ACCEPT: &str = "\
Shows each change and asks. What is accepted is exactly what was shown: another change holds again.
Examples:
  callboard mcp pin accept fs read_file
  callboard mcp pin accept fs --all -y    without a question, for scripts";

pub(super) const PIN_LIST: &str = "\
Pins belong to the scope and the name of a server; those of a project's servers to that project. They \
are kept in the folder `pins` of Callboard's home.
Examples:
  callboard mcp pin list
  callboard mcp pin list fs --json";

pub(super) const CHECK: &str = "\
Starts the server, reads its definitions, and says which clients would reject what. Ends with 1 if \
any would.
Examples:
  callboard mcp check github
  callboard mcp check github --json
  callboard mcp check -- node my-server.js";

pub(super) const START: &str = "\
Acts on the host that the clients of this user share: the first `callboard --mcp-serve` starts it. \
Without a host it ends with 7, as all verbs of `run` do.

Examples:
  callboard mcp start git
  callboard mcp start git github && callboard mcp wait git github";

pub(super) const STOP: &str = "\
Acts on the host that the clients of this user share. What is stopped by hand stays so until it is \
started again, or the host ends; calls that run come to their end first.

Examples:
  callboard mcp stop git
  callboard mcp off git          for good, in the configuration";

pub(super) const RESTART: &str = "\
Ends servers of the running host and starts them anew; calls that run come to their end first.

Examples:
  callboard mcp restart git
  callboard mcp restart          all of them";

pub(super) const RECONNECT: &str = "\
Makes a fresh connection to servers of the running host, also where one was given up.

Examples:
  callboard mcp reconnect api
  callboard mcp reconnect        all of them";

pub(super) const RELOAD: &str = "\
The running host reads its files by itself within two seconds of a change; this makes it do so at once, \
and says what a changed setting needs besides.

Example:
  callboard mcp reload";

pub(super) const LOGS: &str = "\
Shows what a server of the running host wrote to stderr. With --wire: what passes between host and \
server, one line for each frame, with time, direction (→ to the server) and size. Secrets are taken out; \
a reader that is too slow loses frames and is told how many, and never slows the server.

Examples:
  callboard mcp logs git
  callboard mcp logs git -f
  callboard mcp logs git --wire --json | jq -r .data.frame";

pub(super) const WAIT: &str = "\
Waits until servers of the running host are ready; 1 when one is not in time.

Examples:
  callboard mcp wait git --timeout 30s && ./my-script
  callboard mcp wait";

pub(super) const ON: &str = "\
With a name: `enable`, in the configuration. Without one: takes back `mcp off`; with --save also an \
`off --save`.

Examples:
  callboard mcp on git
  callboard mcp on --save";

pub(super) const OFF: &str = "\
With a name: `disable`, in the configuration. Without one: ends all servers of the running host, for \
every client and command, until `mcp on` or its end. With --save it is kept in Callboard's folder and holds \
for every host and command to come, with a host or without one, until `mcp on --save`.

Examples:
  callboard mcp off git
  callboard mcp off
  callboard mcp off --save";

#[cfg(test)]
mod tests {
    use super::*;

    fn every_verb(of: &Command, path: &str, look: &mut dyn FnMut(&str, &str)) {
        for verb in of.get_subcommands() {
            let path = format!("{path} {}", verb.get_name());
            look(&path, &verb.clone().term_width(80).render_help().to_string());
            every_verb(verb, &path, look);
        }
    }

    #[test]
    fn the_help_of_a_verb_has_its_own_words_and_ends_with_where_the_others_are() {
        let mut seen = 0;
        every_verb(&command(), "callboard", &mut |verb, help| {
            seen += 1;
            for option in ["--log-format", "--log-level", "--no-color"] {
                assert!(!help.contains(option), "{verb} repeats {option}:\n{help}");
            }
            assert!(help.trim_end().ends_with(EVERYWHERE) || verb == "callboard demo", "{verb}:\n{help}");
            let examples = help.find("Examples:").map_or(0, |at| help[at..].lines().count());
            assert!(help.lines().count() <= 60 && (examples == 0 || examples < 24), "{verb}:\n{help}");
        });
        assert!(seen > 25, "{seen}");
        let top = command().render_help().to_string();
        assert!(top.contains("--strict-mcp-config") && top.contains("--log-level"), "{top}");
    }

    #[test]
    fn hidden_options_are_understood_all_the_same() {
        let words = ["callboard", "mcp", "list", "--json", "--strict-mcp-config", "-C", "."];
        assert!(command().try_get_matches_from(words).is_ok());
    }

    #[test]
    fn a_screen_of_eighty_columns_shows_every_example_in_one_line() {
        let mut texts = vec![TOP.to_owned()];
        gather(&command(), &mut texts);
        assert!(texts.len() > 40, "{}", texts.len());
        for line in texts.iter().flat_map(|text| text.lines()) {
            // Sentences are wrapped to the screen, and so must not be broken here.
            let sentence = line.ends_with(['.', ':']) && !line.starts_with(' ');
            assert!(sentence || line.chars().count() <= 80, "{line}");
        }
    }

    fn gather(of: &Command, texts: &mut Vec<String>) {
        for verb in of.get_subcommands() {
            texts.extend(verb.get_after_help().map(ToString::to_string));
            gather(verb, texts);
        }
    }
}
