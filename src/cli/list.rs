//! Floor 5. `list`, `get`, `config`: what the configuration says, where it says it, and
//! what is wrong with it. Reads files that are loaded already; starts nothing. Called
//! by `cli::run`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::approve::{dangers, replacing, theirs};
use super::ctx::{Ctx, first_error};
use super::exit::Exit;
use super::failure::Failure;
use super::out::{Answer, Style, Tone};
use super::pin::{held_when_seen, held_words};
use super::table::{Column, Field, sheet, table};
use super::text;
use crate::config::approvals::replaces;
use crate::config::effective::{Setting, effective, masked_entry, state_word};
use crate::config::spec::{Entry, EntryState, Issue, Scope, Severity, Source};
use crate::id::ServerId;
use crate::shaping::render::printable;
use crate::transport::guard;
use crate::view::{label, named};

/// What is shown when nothing is configured.
const NOTHING: &str = "No server is configured. Add one:\n  \
    callboard mcp add files -- npx -y @modelcontextprotocol/server-filesystem .\n  \
    callboard mcp add docs https://example.com/mcp\n\
    Or see Callboard work without any: callboard demo";

/// What is shown when no server is known because a source can't be read.
const UNREADABLE: &str = "No server could be read: correct the file that the warning names.";

/// Where something was written.
#[derive(Serialize)]
pub struct SourceView<'a> {
    scope: &'static str,
    origin: &'a str,
}

impl<'a> From<&'a Source> for SourceView<'a> {
    fn from(source: &'a Source) -> Self {
        Self { scope: source.scope.as_str(), origin: &source.origin }
    }
}

/// One issue.
#[derive(Serialize)]
pub struct IssueView<'a> {
    code: &'static str,
    severity: &'static str,
    scope: &'static str,
    origin: &'a str,
    line: Option<usize>,
    column: Option<usize>,
    path: &'a str,
    message: &'a str,
    fix: Option<&'a str>,
}

impl<'a> From<&'a Issue> for IssueView<'a> {
    fn from(issue: &'a Issue) -> Self {
        Self {
            code: issue.code.as_str(),
            severity: severity_word(issue.severity),
            scope: issue.source.scope.as_str(),
            origin: &issue.source.origin,
            line: issue.position.map(|(line, _)| line),
            column: issue.position.map(|(_, column)| column),
            path: &issue.path,
            message: &issue.message,
            fix: issue.fix.as_deref(),
        }
    }
}

fn severity_word(severity: Severity) -> &'static str {
    match severity {
        Severity::Warning => "warning",
        Severity::Error => "error",
    }
}

#[derive(Serialize)]
struct EntryView<'a> {
    name: &'a str,
    label: Option<String>,
    description: Option<Cow<'a, str>>,
    required: bool,
    state: &'static str,
    transport: &'a str,
    source: SourceView<'a>,
    shadows: Vec<SourceView<'a>>,
    /// How it would be confined on this machine, in words.
    sandbox: Option<String>,
    summary: &'a str,
    entry_sha256: &'a str,
    /// Tools that were held when it was last seen; none when it was never seen.
    tools_held: Option<usize>,
    issues: Vec<IssueView<'a>>,
}

impl<'a> From<&'a Entry> for EntryView<'a> {
    fn from(entry: &'a Entry) -> Self {
        Self {
            name: entry.id.as_str(),
            label: label(entry),
            description: entry.description.as_deref().map(printable),
            required: entry.required,
            state: state_word(entry),
            transport: entry.transport,
            source: (&entry.source).into(),
            shadows: entry.shadows.iter().map(SourceView::from).collect(),
            sandbox: confined(entry),
            summary: &entry.summary,
            entry_sha256: &entry.hash,
            tools_held: None,
            issues: entry.issues.iter().map(IssueView::from).collect(),
        }
    }
}

/// The level of confinement that an entry would run with, or why it would not run.
fn confined(entry: &Entry) -> Option<String> {
    let EntryState::Ready(spec) = &entry.state else { return None };
    guard::level(spec).map(|level| level.unwrap_or_else(|lack| lack))
}

#[derive(Serialize)]
struct FileView<'a> {
    path: String,
    scope: &'a str,
    found: bool,
}

#[derive(Serialize)]
struct ListView<'a> {
    servers: Vec<EntryView<'a>>,
    pending_beside: Vec<EntryView<'a>>,
    issues: Vec<IssueView<'a>>,
    files: Vec<FileView<'a>>,
}

/// The state of an entry for people.
pub fn state_field(entry: &Entry) -> Field {
    match entry.state {
        EntryState::Ready(_) => Field::toned("on", Tone::Good),
        EntryState::Disabled => Field::toned("off", Tone::Dim),
        EntryState::Pending => Field::toned("pending", Tone::Warn),
        EntryState::Invalid => Field::toned("error", Tone::Bad),
    }
}

/// An entry with what was last seen of its server.
fn seen<'a>(held: &BTreeMap<ServerId, usize>, entry: &'a Entry) -> EntryView<'a> {
    EntryView { tools_held: held.get(&entry.id).copied(), ..EntryView::from(entry) }
}

/// `list`
pub fn list(ctx: &Ctx) -> Result<Answer, Failure> {
    let servers = &ctx.loaded.servers;
    let held = held_when_seen(ctx);
    let view = ListView {
        servers: servers.entries.iter().map(|entry| seen(&held, entry)).collect(),
        pending_beside: servers.pending.iter().map(EntryView::from).collect(),
        issues: servers.issues.iter().map(IssueView::from).collect(),
        files: files(ctx),
    };
    let all: Vec<&Entry> = servers.entries.iter().chain(&servers.pending).collect();
    let human = if all.is_empty() { nothing(ctx).to_owned() } else { list_text(ctx, &all) };
    let answer = Answer::new("callboard.list/1", &view, human)?.warn(ctx.warnings()).warn(held_words(&held));
    Ok(answer.ending(source_exit(ctx)))
}

/// What is said when no server is known: a file that can't be read is not an empty one.
pub fn nothing(ctx: &Ctx) -> &'static str {
    if ctx.has_broken_source() { UNREADABLE } else { NOTHING }
}

/// A source that can't be used leaves the answer incomplete.
pub fn source_exit(ctx: &Ctx) -> Exit {
    if ctx.has_broken_source() { Exit::Config } else { Exit::Ok }
}

fn files(ctx: &Ctx) -> Vec<FileView<'_>> {
    let seen = ctx.loaded.files.iter();
    seen.map(|file| FileView {
        path: file.path.display().to_string(),
        scope: file.scope.as_str(),
        found: file.found,
    })
    .collect()
}

const COLUMNS: [Column; 5] = [
    Column::wide("server", 8),
    Column::wide("state", 7),
    Column::wide("transport", 9),
    Column::wide("scope", 8),
    Column::wide("command or url", 20),
];

fn list_text(ctx: &Ctx, entries: &[&Entry]) -> String {
    let rows: Vec<Vec<Field>> = entries
        .iter()
        .map(|entry| {
            let last = match (&entry.state, first_error(entry)) {
                (EntryState::Invalid, Some(issue)) => Field::toned(ctx.clean(&place(issue)), Tone::Bad),
                _ => Field::new(ctx.clean(&entry.summary)),
            };
            vec![
                Field::toned(ctx.clean(&name(entry)), Tone::Strong),
                state_field(entry),
                Field::new(entry.transport),
                Field::new(entry.source.scope.as_str()),
                last,
            ]
        })
        .collect();
    table(&COLUMNS, &rows, ctx.style())
}

/// The name of an entry, with its label beside it.
fn name(entry: &Entry) -> String {
    named(&entry.id, label(entry).as_deref())
}

/// An issue of an entry without its file: key path and message.
fn place(issue: &Issue) -> String {
    let line = issue.position.map(|(line, _)| format!("line {line}: ")).unwrap_or_default();
    let path = if issue.path.is_empty() { String::new() } else { format!("{}: ", issue.path) };
    format!("{line}{path}{}", issue.message)
}

#[derive(Serialize)]
struct GetView<'a> {
    #[serde(flatten)]
    head: EntryView<'a>,
    entry: Option<Value>,
    pending_beside: Option<BesideView<'a>>,
}

#[derive(Serialize)]
struct BesideView<'a> {
    #[serde(flatten)]
    head: EntryView<'a>,
    entry: Option<Value>,
}

/// `get S`
pub fn get(ctx: &Ctx, name: &str) -> Result<Answer, Failure> {
    let beside = ctx.loaded.servers.pending.iter().find(|entry| entry.id.as_str() == name);
    let entry = ctx.entry(name)?;
    let Shown { text: mut human, entry: shown, mut dangers } = entry_text(ctx, entry, ctx.style());
    let mut beside_view = None;
    if let Some(beside) = beside {
        human.push_str("\n\nAnother definition of the same name waits for approval");
        if let Some(own) = replaces(&ctx.loaded, name) {
            let words = replacing(ctx, name, &own);
            human.push_str(&format!("; {words}"));
            dangers.push(words);
        }
        let shown = entry_text(ctx, beside, ctx.style());
        human.push_str(&format!(":\n{}", shown.text));
        dangers.extend(shown.dangers);
        beside_view = Some(BesideView { head: beside.into(), entry: shown.entry });
    }
    let view = GetView { head: entry.into(), entry: shown, pending_beside: beside_view };
    let answer = Answer::new("callboard.get/1", &view, human)?.warn(ctx.source_warnings());
    // A person reads them with the entry.
    Ok(if ctx.global.json { answer.warn(dangers) } else { answer })
}

/// One entry in full.
struct Shown {
    /// For a person.
    text: String,
    /// As a value.
    entry: Option<Value>,
    /// What deserves a second look; the text has it too.
    dangers: Vec<String>,
}

/// One entry in full. That of a project is shown as written, because
/// it is to be judged; of others everything is masked that may be secret.
fn entry_text(ctx: &Ctx, entry: &Entry, style: Style) -> Shown {
    let project = entry.source.scope == Scope::Project;
    let seen = if project { theirs(ctx, entry.id.as_str(), &entry.source) } else { None };
    let clean = |text: &str| if seen.is_some() { printable(text).into_owned() } else { ctx.clean(text) };
    let dangers = seen.as_ref().map(dangers).unwrap_or_default();
    let shown = match &seen {
        Some(seen) => Some(seen.entry.clone()),
        None => masked_entry(&ctx.loaded, entry),
    };
    let mut rows = vec![
        ("state", state_field(entry)),
        ("from", Field::new(entry.source.to_string())),
        ("hides", Field::new(entry.shadows.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))),
    ];
    let keys: Vec<(String, String)> = match &shown {
        Some(Value::Object(map)) => map.iter().map(|(key, value)| (clean(key), plain(value))).collect(),
        Some(other) => vec![("entry".to_owned(), other.to_string())],
        None => Vec::new(),
    };
    rows.extend(keys.iter().map(|(key, value)| (key.as_str(), Field::new(clean(value)))));
    rows.push(("confined", Field::new(confined(entry).map(|level| ctx.clean(&level)).unwrap_or_default())));
    rows.push(("warning", Field::toned(dangers.join("\n"), Tone::Warn)));
    let issues: Vec<String> = entry.issues.iter().map(|issue| ctx.clean(&issue_text(issue))).collect();
    rows.push(("issues", Field::toned(issues.join("\n"), Tone::Warn)));
    let text = format!("{}\n{}", style.paint(Tone::Strong, &ctx.clean(&name(entry))), sheet(&rows, style));
    Shown { text, entry: shown, dangers }
}

fn issue_text(issue: &Issue) -> String {
    let fix = issue.fix.as_ref().map(|fix| format!(" ({fix})")).unwrap_or_default();
    format!("{}: {}{fix}", severity_word(issue.severity), place(issue))
}

/// A JSON value for a person: texts bare, lists of texts as words, objects one key per line.
fn plain(value: &Value) -> String {
    match value {
        // A line of a value must not pass for a line of ours.
        Value::String(text) if text.contains(['\n', '\r']) => text::quoted(text),
        Value::String(text) => text.clone(),
        Value::Array(items) if items.iter().all(Value::is_string) => {
            items.iter().filter_map(Value::as_str).map(word).collect::<Vec<_>>().join(" ")
        }
        Value::Object(map) => {
            map.iter().map(|(key, value)| format!("{key}={}", plain(value))).collect::<Vec<_>>().join("\n")
        }
        other => other.to_string(),
    }
}

/// A word as a shell would need it, for display.
fn word(text: &str) -> String {
    let bare = !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || "-_./:@=+,%~${}".contains(c));
    if bare { text.to_owned() } else { text::quoted(text) }
}

#[derive(Serialize)]
struct SettingView<'a> {
    key: &'a str,
    value: &'a Value,
    source: SourceView<'a>,
}

#[derive(Serialize)]
struct ConfigView<'a> {
    settings: Vec<SettingView<'a>>,
    issues: Vec<IssueView<'a>>,
    files: Vec<FileView<'a>>,
    /// Null when there is no place for the user's own files.
    home: Option<String>,
    project_root: String,
}

/// `config`
pub fn config(ctx: &Ctx) -> Result<Answer, Failure> {
    let settings = effective(&ctx.loaded);
    let view = ConfigView {
        settings: settings
            .iter()
            .map(|s| SettingView { key: &s.key, value: &s.value, source: (&s.source).into() })
            .collect(),
        issues: ctx.loaded.issues().map(IssueView::from).collect(),
        files: files(ctx),
        home: ctx.loaded.home.as_ref().ok().map(|home| home.display().to_string()),
        project_root: ctx.loaded.project_root.display().to_string(),
    };
    let human = config_text(ctx, &settings);
    Ok(Answer::new("callboard.config/1", &view, human)?.warn(ctx.warnings()).ending(source_exit(ctx)))
}

fn config_text(ctx: &Ctx, settings: &[Setting]) -> String {
    let rows: Vec<Vec<Field>> = settings
        .iter()
        .map(|setting| {
            let value = match &setting.value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            vec![
                Field::toned(ctx.clean(&setting.key), Tone::Strong),
                Field::new(ctx.clean(&value)),
                Field::toned(setting.source.to_string(), Tone::Dim),
            ]
        })
        .collect();
    let columns = [Column::wide("key", 16), Column::wide("value", 12), Column::wide("source", 16)];
    table(&columns, &rows, ctx.style())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn ctx(user: &str) -> (tempfile::TempDir, Ctx) {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("mcp.json"), user).unwrap();
        let ctx = Ctx::for_test(home.path(), &[]);
        (home, ctx)
    }

    #[test]
    fn a_list_has_one_line_per_entry_and_an_error_in_place_of_the_command() {
        let (_home, ctx) = ctx(
            r#"{"mcpServers":{"a":{"command":"run","args":["--it"]},"b":{"command":7},"c":{"url":"https://x/mcp","disabled":true}}}"#,
        );
        let answer = list(&ctx).unwrap();
        let lines: Vec<&str> = answer.human.lines().collect();
        assert_eq!(lines.len(), 4, "{}", answer.human);
        assert!(lines[1].starts_with("a") && lines[1].ends_with("run --it"), "{}", lines[1]);
        assert!(lines[2].contains("error") && lines[2].contains("mcpServers.b.command"), "{}", lines[2]);
        assert!(lines[3].contains("off") && lines[3].ends_with("https://x/mcp"), "{}", lines[3]);
        assert_eq!(answer.exit, Exit::Ok, "a bad entry is told, and the list is whole");
    }

    #[test]
    fn an_entry_in_full_shows_its_source_keys_and_doubts() {
        let (home, ctx) =
            ctx(r#"{"mcpServers":{"a":{"command":"run","args":["x y"],"comand":1,"env":{"A":"${HOME}"}}}}"#);
        let answer = get(&ctx, "a").unwrap();
        let file = home.path().join("mcp.json").display().to_string();
        for part in [file.as_str(), "command", "\"x y\"", "A=${HOME}", "warning: ", "comand"] {
            assert!(answer.human.contains(part), "{part:?} is missing in\n{}", answer.human);
        }
        let data: Value = serde_json::from_str(answer.data.get()).unwrap();
        assert_eq!(data["entry"]["args"], json!(["x y"]));
        assert_eq!(data["issues"][0]["severity"], "warning");
        assert_eq!(data["source"]["scope"], "user");
    }

    #[test]
    fn the_effective_configuration_names_every_source() {
        let (_home, ctx) = ctx(r#"{"mcpServers":{"a":{"command":"run"}}}"#);
        let answer = config(&ctx).unwrap();
        assert!(answer.human.lines().any(|l| l.starts_with("mcpServers.a.command") && l.contains("user")));
        assert!(answer.human.lines().any(|l| l.starts_with("timeouts.idle") && l.contains("default")));
        assert!(answer.human.lines().skip(1).all(|l| l.ends_with(')')), "a line without a source");
    }

    #[test]
    fn what_another_wrote_can_not_steer_the_terminal() {
        let (_home, ctx) = ctx(
            r#"{"mcpServers":{"a":{"command":"x\u001b[2J","args":["\u202e"],"label":"\u001b]0;t\u0007"}}}"#,
        );
        for text in [list(&ctx).unwrap().human, get(&ctx, "a").unwrap().human, config(&ctx).unwrap().human] {
            assert!(!text.contains(['\u{1b}', '\u{202e}', '\u{7}']), "{text:?}");
        }
    }

    #[test]
    fn values_of_an_entry_read_like_what_was_typed() {
        assert_eq!(plain(&json!(["-y", "a b", "${X}"])), "-y \"a b\" ${X}");
        assert_eq!(plain(&json!({"A": "1", "B": true})), "A=1\nB=true");
        assert_eq!(plain(&json!("x")), "x");
        assert_eq!(plain(&json!([1, "a"])), "[1,\"a\"]");
    }

    #[test]
    fn the_hint_for_beginners_shows_both_kinds_of_servers() {
        assert!(NOTHING.contains("mcp add files -- ") && NOTHING.contains("https://"));
    }
}
