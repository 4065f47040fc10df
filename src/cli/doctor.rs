//! Floor 5. `doctor`: looks at configuration and machine and says what is wrong and how
//! to cure it. Starts and contacts nothing. Called by `cli::run`.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::ctx::Ctx;
use super::exit::Exit;
use super::failure::Failure;
use super::out::{Answer, Style, Tone};
use super::{state_folders, text};
use crate::config::document::Definition;
use crate::config::load::Env;
use crate::config::spec::{Entry, EntryState, Issue, IssueCode, Scope, Severity, TransportSpec};
use crate::config::{approvals, literal, secret_store};
use crate::id::shell_word;
use crate::shaping::redact::Redactor;
use crate::store;
use crate::transport::guard;

/// How a look at one thing came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Ok,
    Note,
    Warning,
    Error,
}

impl Level {
    fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }

    fn tone(self) -> Tone {
        match self {
            Self::Ok => Tone::Good,
            Self::Note => Tone::Dim,
            Self::Warning => Tone::Warn,
            Self::Error => Tone::Bad,
        }
    }
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Finding {
    check: &'static str,
    level: Level,
    message: String,
    /// Of an issue of the configuration: the word that `explain` knows.
    code: Option<&'static str>,
    fix: Option<String>,
}

impl Finding {
    fn new(check: &'static str, level: Level, message: impl Into<String>) -> Self {
        Self { check, level, message: message.into(), code: None, fix: None }
    }

    fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }
}

#[derive(Serialize)]
struct FindingView<'a> {
    check: &'static str,
    level: &'static str,
    message: &'a str,
    code: Option<&'static str>,
    fix: Option<&'a str>,
}

#[derive(Serialize)]
struct DoctorView<'a> {
    healthy: bool,
    findings: Vec<FindingView<'a>>,
}

/// `doctor`
pub fn doctor(ctx: &Ctx) -> Result<Answer, Failure> {
    let mut findings = files(ctx);
    findings.extend(state(ctx));
    findings.extend(permissions(ctx));
    findings.extend(credentials_in_clear(ctx));
    findings.extend(ctx.loaded.issues().map(|issue| of_issue(ctx, issue)));
    let entries = &ctx.loaded.servers.entries;
    findings.extend(entries.iter().flat_map(|entry| of_entry(ctx, entry)));
    findings.extend(runners(entries, &ctx.options.env));
    findings.extend(toxic_flow(ctx));
    findings.extend(left_overs(ctx));
    let healthy = findings.iter().all(|finding| finding.level < Level::Error);
    let view = DoctorView {
        healthy,
        findings: findings
            .iter()
            .map(|f| FindingView {
                check: f.check,
                level: f.level.as_str(),
                message: &f.message,
                code: f.code,
                fix: f.fix.as_deref(),
            })
            .collect(),
    };
    let exit = if healthy { Exit::Ok } else { Exit::Unhealthy };
    Ok(Answer::new("callboard.doctor/1", &view, report(&findings, ctx.style()))?.ending(exit))
}

fn report(findings: &[Finding], style: Style) -> String {
    let mut lines = Vec::with_capacity(findings.len() + 1);
    for finding in findings {
        let word = format!("{:<7}", finding.level.as_str());
        let mut line = format!("{} {}", style.paint(finding.level.tone(), &word), finding.message);
        if let Some(code) = finding.code {
            line.push_str(&style.paint(Tone::Dim, &format!(" [{code}]")));
        }
        if let Some(fix) = &finding.fix {
            line.push_str(&format!("\n        {} {fix}", style.paint(Tone::Good, "fix:")));
        }
        lines.push(line);
    }
    let count = |level| findings.iter().filter(|f| f.level == level).count();
    let (errors, warnings) = (count(Level::Error), count(Level::Warning));
    lines.push(match (errors, warnings) {
        (0, 0) => style.paint(Tone::Good, "\nNothing is wrong."),
        (0, n) => format!("\nNothing is broken; {} to look at.", text::count(n, "thing")),
        (n, _) => style.paint(Tone::Bad, &format!("\n{} to cure.", text::count(n, "error"))),
    });
    lines.join("\n")
}

/// Which files there are.
fn files(ctx: &Ctx) -> Vec<Finding> {
    // A file that can't be used has its own finding.
    let broken = |path: &Path| {
        let mut errors = ctx.loaded.issues().filter(|issue| issue.severity == Severity::Error);
        errors.any(|issue| issue.path.is_empty() && *issue.source.origin == *path.display().to_string())
    };
    let found: Vec<String> = ctx
        .loaded
        .files
        .iter()
        .filter(|file| file.found && !broken(&file.path))
        .map(|file| format!("{} ({})", file.path.display(), file.scope.as_str()))
        .collect();
    let servers = ctx.loaded.servers.entries.len();
    let any = ctx.loaded.files.iter().any(|file| file.found);
    if !any && servers == 0 {
        return vec![
            Finding::new("files", Level::Note, "no configuration file, and no server configured")
                .fix("callboard mcp add NAME -- COMMAND…"),
        ];
    }
    let mut findings: Vec<Finding> =
        found.into_iter().map(|file| Finding::new("files", Level::Ok, format!("read {file}"))).collect();
    findings.push(Finding::new("files", Level::Ok, format!("{} configured", text::count(servers, "server"))));
    findings
}

/// The folders in which Callboard keeps what it learned.
fn state(ctx: &Ctx) -> Vec<Finding> {
    let Ok(home) = &ctx.loaded.home else { return Vec::new() };
    let told =
        |fault: state_folders::Fault| Finding::new("state", Level::Error, fault.message).fix(fault.fix);
    state_folders::faults(home).into_iter().map(told).collect()
}

/// What Callboard keeps for one user must be writable by nobody else, and what holds a secret
/// readable by nobody else.
fn permissions(ctx: &Ctx) -> Vec<Finding> {
    let Ok(home) = &ctx.loaded.home else { return Vec::new() };
    let own =
        [home.join("mcp.json"), home.join("callboard.toml"), approvals::file(home), secret_store::file(home)];
    let holds_secret = |path: &Path| {
        path == secret_store::file(home)
            || ctx.loaded.definitions.iter().any(|definition| {
                *definition.source.origin == *path.to_string_lossy() && !in_clear(definition).is_empty()
            })
    };
    own.iter()
        .filter_map(|path| {
            let shown = path.display();
            let (level, message) = if store::is_writable_by_others(path) {
                (Level::Error, format!("{shown} can be written by other users"))
            } else if !store::is_readable_by_others(path) {
                return None;
            } else if holds_secret(path) {
                (Level::Error, format!("{shown} holds secrets and can be read by other users"))
            } else {
                (Level::Note, format!("{shown} can be read by other users; no secret was found in it"))
            };
            Some(Finding::new("permissions", level, message).fix(format!("chmod 600 {}", shell(path))))
        })
        .collect()
}

/// The key paths of an entry at which a credential stands in clear.
fn in_clear(definition: &Definition) -> Vec<String> {
    let forms = Redactor::default();
    let has_form = |text: &str| forms.text(text) != text;
    definition.value.as_object().map(|entry| literal::credentials(entry, &has_form)).unwrap_or_default()
}

/// Credentials that stand in files where a reference could stand. Their values are not shown.
fn credentials_in_clear(ctx: &Ctx) -> Vec<Finding> {
    let in_files = ctx.loaded.definitions.iter().filter(|definition| {
        matches!(definition.source.scope, Scope::User | Scope::Project | Scope::EnvFile | Scope::Flag)
    });
    let of_one = |definition: &Definition| -> Vec<Finding> {
        let shared = definition.source.scope == Scope::Project;
        let message =
            if shared { "a credential in clear, in a file that is shared" } else { "a credential in clear" };
        let told = |path: String| {
            let issue = definition.issue(IssueCode::Value, Severity::Warning, &path, message);
            let name = path.strip_prefix("env.").unwrap_or("NAME");
            Finding::new("credentials", Level::Warning, ctx.clean(&issue.to_string())).fix(ctx.clean(
                &format!("write ${{{name}}} in its place, and set that variable; or ${{secret:{name}}}"),
            ))
        };
        in_clear(definition).into_iter().map(told).collect()
    };
    in_files.flat_map(of_one).collect()
}

fn shell(path: &Path) -> String {
    shell_word(&path.display().to_string()).into_owned()
}

fn of_issue(ctx: &Ctx, issue: &Issue) -> Finding {
    let level = match issue.severity {
        Severity::Error => Level::Error,
        Severity::Warning => Level::Warning,
    };
    let bare = Issue { fix: None, ..issue.clone() };
    let finding = Finding::new("configuration", level, ctx.clean(&bare.to_string()));
    Finding { code: Some(issue.code.as_str()), fix: issue.fix.as_ref().map(|fix| ctx.clean(fix)), ..finding }
}

fn of_entry(ctx: &Ctx, entry: &Entry) -> Vec<Finding> {
    let name = &entry.id;
    let mut findings = Vec::new();
    if !entry.shadows.is_empty() {
        let hidden: Vec<String> = entry.shadows.iter().map(ToString::to_string).collect();
        let message =
            format!("{name} is defined more than once: {} hides {}", entry.source, hidden.join(", "));
        findings.push(Finding::new("duplicates", Level::Note, message));
    }
    match &entry.state {
        EntryState::Ready(spec) => {
            findings.extend(command(ctx, entry, &spec.transport));
            findings.extend(guard::level(spec).map(|level| {
                match level {
                    Ok(level) => Finding::new("sandbox", Level::Ok, format!("{name}: {level}")),
                    Err(lack) => Finding::new("sandbox", Level::Error, format!("{name}: {lack}"))
                        .fix("use a kernel that can, or \"sandbox\": \"off\" to run it unconfined"),
                }
            }));
        }
        EntryState::Pending => {
            let (message, fix) = ctx.pending(entry);
            findings.push(Finding::new("approval", Level::Warning, message).fix(fix));
        }
        EntryState::Disabled => {
            findings.push(Finding::new("entries", Level::Note, format!("{name} is turned off")));
        }
        // Its errors are among the issues.
        EntryState::Invalid => {}
    }
    findings
}

/// Whether the program of an entry is there.
fn command(ctx: &Ctx, entry: &Entry, transport: &TransportSpec) -> Option<Finding> {
    let TransportSpec::Stdio { command, env, cwd, .. } = transport else { return None };
    let own_path = env.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.reveal().to_owned());
    let path = own_path.or_else(|| ctx.options.env.get("PATH").map(str::to_owned)).unwrap_or_default();
    let base = cwd.clone().unwrap_or_else(|| ctx.options.cwd.clone());
    Some(match find_program(command, &path, &base) {
        Some(found) => Finding::new("commands", Level::Ok, format!("{}: {}", entry.id, found.display())),
        None => {
            let shown = ctx.clean(command);
            Finding::new("commands", Level::Error, format!("{}: command not found: {shown}", entry.id))
                .fix(cure(command))
        }
    })
}

fn cure(command: &str) -> String {
    match command {
        "npx" | "node" | "npm" => {
            "install Node.js (https://nodejs.org), or write an absolute path".to_owned()
        }
        "uvx" | "uv" => "install uv (https://docs.astral.sh/uv), or write an absolute path".to_owned(),
        "docker" => "install Docker, or write an absolute path".to_owned(),
        _ => "install it, put its folder on PATH, or write an absolute path".to_owned(),
    }
}

/// The program that a command means: a path, or the first hit on PATH.
fn find_program(command: &str, path: &str, base: &Path) -> Option<PathBuf> {
    if command.contains('/') {
        let program = base.join(command);
        return is_program(&program).then_some(program);
    }
    std::env::split_paths(path).map(|folder| base.join(folder).join(command)).find(|p| is_program(p))
}

fn is_program(path: &Path) -> bool {
    let Ok(metadata) = path.metadata() else { return false };
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        metadata.is_file() && metadata.permissions().mode() & 0o111 != 0
    }
    #[cfg(not(unix))]
    metadata.is_file()
}

/// Servers that are sound one by one, and together could carry private data away.
fn toxic_flow(ctx: &Ctx) -> Option<Finding> {
    let found = super::pin::flow_when_seen(ctx, None)?;
    Some(Finding::new("flow", Level::Warning, found.to_string()).fix(
        "filter out one of these tools (`tools.exclude`), turn one server off, or let none of them run unasked",
    ))
}

/// Processes that a crash of a host, together with a guard, left running.
fn left_overs(ctx: &Ctx) -> Vec<Finding> {
    let folder = ctx.loaded.home.as_deref().ok().map(guard::leases);
    let found = folder.map(|folder| guard::left_overs(&folder)).unwrap_or_default();
    found
        .into_iter()
        .filter(|left| !left.processes.is_empty())
        .map(|left| {
            let processes: Vec<String> = left.processes.iter().map(ToString::to_string).collect();
            let (host, processes) = (left.host, processes.join(", "));
            let message = format!("a host that crashed (process {host}) left processes running: {processes}");
            Finding::new("left-overs", Level::Warning, message)
                .fix("the next start of any server ends them: callboard mcp status")
        })
        .collect()
}

/// The two programs that most published servers are started with.
fn runners(entries: &[Entry], env: &Env) -> Vec<Finding> {
    let path = env.get("PATH").unwrap_or_default();
    let used = |words: &[&str]| {
        entries.iter().any(|entry| words.iter().any(|word| entry.summary.split(' ').next() == Some(word)))
    };
    [("node", ["npx", "node"]), ("uv", ["uvx", "uv"])]
        .into_iter()
        .filter_map(|(program, words)| {
            let found = find_program(program, path, Path::new("/"));
            match found {
                Some(found) => {
                    Some(Finding::new("runners", Level::Ok, format!("{program}: {}", found.display())))
                }
                // A server that needs it has its own finding.
                None if used(&words) => None,
                None => Some(
                    Finding::new(
                        "runners",
                        Level::Note,
                        format!(
                            "{program} is not installed; servers that are started with {} need it",
                            words[0]
                        ),
                    )
                    .fix(cure(words[0])),
                ),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_as_the_launch_finds_it() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("tool");
        std::fs::write(&program, "").unwrap();
        let path = format!("/nowhere:{}", dir.path().display());
        assert_eq!(find_program("tool", &path, Path::new("/")), None, "not executable");
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        assert_eq!(find_program("tool", &path, Path::new("/")), Some(program.clone()));
        assert_eq!(find_program("./tool", "", dir.path()), Some(dir.path().join("./tool")));
        assert_eq!(find_program("other", &path, Path::new("/")), None);
    }

    fn look(user: &str, project: &str, path: &Path) -> (Answer, serde_json::Value) {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("mcp.json");
        std::fs::write(&file, user).unwrap();
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        if !project.is_empty() {
            std::fs::write(home.path().join(".mcp.json"), project).unwrap();
        }
        let answer = doctor(&Ctx::for_test(home.path(), &[("PATH", path.to_str().unwrap())])).unwrap();
        let data = serde_json::from_str(answer.data.get()).unwrap();
        (answer, data)
    }

    fn levels(data: &serde_json::Value, check: &str) -> Vec<String> {
        let findings = data["findings"].as_array().unwrap().iter();
        findings.filter(|f| f["check"] == check).map(|f| f["level"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn every_kind_of_trouble_is_found_with_its_level() {
        let tools = tempfile::tempdir().unwrap();
        for name in ["tool", "node"] {
            let program = tools.path().join(name);
            std::fs::write(&program, "").unwrap();
            std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        }
        let user = r#"{"mcpServers":{"fine":{"command":"tool"},"py":{"command":"uvx","args":["x"]},
            "unset":{"command":"tool","args":["${NOT_SET}"]},"off":{"command":"tool","enabled":false},"odd":{"command":"tool","comand":1}}}"#;
        let (answer, data) = look(user, r#"{"mcpServers":{"theirs":{"command":"tool"}}}"#, tools.path());
        assert_eq!(answer.exit, Exit::Unhealthy);
        let mut commands = levels(&data, "commands");
        commands.sort();
        assert_eq!(commands, ["error", "ok", "ok"], "{data}");
        assert!(levels(&data, "configuration").contains(&"error".to_owned()), "the unset variable: {data}");
        assert!(levels(&data, "configuration").contains(&"warning".to_owned()), "the odd key: {data}");
        assert_eq!(levels(&data, "approval"), ["warning"]);
        assert_eq!(
            levels(&data, "runners"),
            ["ok"],
            "node is there, and uv is missing where it is used: {data}"
        );
        assert!(answer.human.contains("https://docs.astral.sh/uv"), "{}", answer.human);
    }

    #[test]
    fn credentials_in_clear_are_listed_with_their_place_and_never_shown() {
        let empty = tempfile::tempdir().unwrap();
        let user = r#"{"mcpServers":{"a":{"url":"https://h/","headers":{"Authorization":"Bearer canary-1"}},
            "b":{"url":"https://h/","headers":{"Authorization":"Bearer ${PATH}"}}}}"#;
        let project = r#"{"mcpServers":{"c":{"command":"x","args":["--token","canary-2"]}}}"#;
        let (answer, data) = look(user, project, empty.path());
        assert_eq!(levels(&data, "credentials"), ["warning", "warning"], "{data}");
        assert!(
            answer.human.contains("mcp.json:1:51: mcpServers.a.headers.Authorization"),
            "{}",
            answer.human
        );
        assert!(
            answer.human.contains("mcpServers.c.args[1]: a credential in clear, in a file that is shared")
        );
        assert!(!format!("{data}{}", answer.human).contains("canary"), "{}", answer.human);
    }

    #[test]
    fn a_file_that_others_can_read_is_an_error_only_where_it_holds_a_secret() {
        use std::os::unix::fs::PermissionsExt as _;
        let plain = r#"{"mcpServers":{"a":{"command":"x"}}}"#;
        let secret = r#"{"mcpServers":{"a":{"command":"x","args":["--token","canary-2"]}}}"#;
        for (text, mode, level) in
            [(plain, 0o644, "note"), (secret, 0o644, "error"), (plain, 0o664, "error"), (plain, 0o600, "")]
        {
            let home = tempfile::tempdir().unwrap();
            let file = home.path().join("mcp.json");
            std::fs::write(&file, text).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            let answer = doctor(&Ctx::for_test(home.path(), &[])).unwrap();
            let data: serde_json::Value = serde_json::from_str(answer.data.get()).unwrap();
            let want: Vec<String> = Some(level.to_owned()).into_iter().filter(|l| !l.is_empty()).collect();
            assert_eq!(levels(&data, "permissions"), want, "{text} {mode:o}");
        }
    }

    #[test]
    fn a_folder_that_can_not_hold_state_and_approvals_that_are_broken_are_told_as_such() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("cache"), "").unwrap();
        std::fs::write(home.path().join(".mcp.json"), r#"{"mcpServers":{"theirs":{"command":"x"}}}"#)
            .unwrap();
        let broken = approvals::file(home.path());
        std::fs::write(&broken, "{").unwrap();
        let ctx = Ctx::for_test(home.path(), &[]);
        let answer = doctor(&ctx).unwrap();
        assert!(answer.human.contains("cache is a file where a folder has to be"), "{}", answer.human);
        assert!(answer.human.contains("what you approved can't be read"), "{}", answer.human);
        let shown = broken.display().to_string();
        assert!(!answer.human.contains(&format!("{shown}: {shown}")), "{}", answer.human);
        let refused = ctx.runnable("theirs").unwrap_err();
        assert_eq!(refused.code, "pending_approval");
        assert!(refused.fix.as_ref().is_some_and(|fix| fix.contains("mv ")), "{refused:?}");
    }

    #[test]
    fn a_file_that_is_no_json_is_not_called_read() {
        let empty = tempfile::tempdir().unwrap();
        let (answer, data) = look("{ oops", r#"{"mcpServers":{}}"#, empty.path());
        assert_eq!(levels(&data, "files"), ["ok", "ok"], "the project's, and the count: {data}");
        assert_eq!(levels(&data, "configuration"), ["error"]);
        assert!(!answer.human.contains("(user)"), "{}", answer.human);
        let (alone, _) = look("{ oops", "", empty.path());
        assert!(!alone.human.contains("no configuration file"), "{}", alone.human);
        assert!(answer.human.contains("fix: repair it there"), "{}", answer.human);
    }

    #[test]
    fn a_missing_runner_that_nobody_uses_is_a_note() {
        let empty = tempfile::tempdir().unwrap();
        let (answer, data) = look(r#"{"mcpServers":{}}"#, "", empty.path());
        assert_eq!(answer.exit, Exit::Ok);
        assert_eq!(levels(&data, "runners"), ["note", "note"]);
    }

    #[test]
    fn a_report_ends_with_what_is_left_to_do() {
        let ok = Finding::new("files", Level::Ok, "read it");
        let bad = Finding::new("commands", Level::Error, "x: command not found: y").fix("install y");
        assert!(report(std::slice::from_ref(&ok), Style::PLAIN).ends_with("\nNothing is wrong."));
        let text = report(&[ok, bad], Style::PLAIN);
        assert!(text.contains("error   x: command not found: y\n        fix: install y"), "{text}");
        assert!(text.ends_with("\n1 error to cure."), "{text}");
    }

    #[test]
    fn a_path_in_a_fix_can_be_pasted() {
        assert_eq!(shell(Path::new("/a/b.json")), "/a/b.json");
        assert_eq!(shell(Path::new("/a b/it's")), "'/a b/it'\\''s'");
    }
}
