//! The order of the policy, rule by rule.

use std::sync::Arc;

use super::*;
use crate::config::spec::{Globs, Source, TransportSpec};

pub(super) fn spec() -> ServerSpec {
    let transport = TransportSpec::Stdio { command: "x".into(), args: vec![], env: vec![], cwd: None };
    ServerSpec::new("s", transport)
}

pub(super) fn entry(state: EntryState) -> Entry {
    Entry {
        id: "s".into(),
        source: Source { scope: Scope::User, origin: "mcp.json".into() },
        project: None,
        shadows: vec![],
        state,
        issues: vec![],
        hash: String::new(),
        transport: "stdio",
        summary: String::new(),
        label: None,
        description: None,
        required: false,
        down: None,
    }
}

pub(super) fn globs(patterns: &[&str]) -> Globs {
    Globs::compile(&patterns.iter().map(|p| (*p).to_owned()).collect::<Vec<_>>()).unwrap()
}

struct Case {
    spec: ServerSpec,
    mode: Mode,
    rules: AllowRules,
    hints: Hints,
    held: Option<Held>,
    granted: bool,
}

fn case() -> Case {
    Case {
        spec: spec(),
        mode: Mode::ReadOnly,
        rules: AllowRules::default(),
        hints: Hints::default(),
        held: None,
        granted: false,
    }
}

impl Case {
    fn of(&self, kind: ItemKind, name: &str) -> Verdict {
        let entry = entry(EntryState::Ready(Arc::new(self.spec.clone())));
        decide(&Question {
            entry: &entry,
            kind,
            name,
            hints: self.hints,
            mode: self.mode,
            rules: &self.rules,
            held: self.held.as_ref(),
            granted: self.granted,
        })
    }

    fn tool(&self, name: &str) -> Verdict {
        self.of(ItemKind::Tool, name)
    }
}

fn rule(verdict: &Verdict) -> (&'static str, Rule) {
    match verdict {
        Verdict::Run(rule) => ("run", rule.clone()),
        Verdict::Refuse(refusal) => ("refuse", refusal.rule.clone()),
        Verdict::Ask(refusal) => ("ask", refusal.rule.clone()),
    }
}

#[test]
fn the_cure_names_the_flag_for_scripts_where_it_counts() {
    let fix = |scope| {
        let case = case();
        let mut entry = entry(EntryState::Ready(Arc::new(case.spec.clone())));
        entry.source.scope = scope;
        let verdict = decide(&Question {
            entry: &entry,
            kind: ItemKind::Tool,
            name: "t",
            hints: case.hints,
            mode: case.mode,
            rules: &case.rules,
            held: None,
            granted: false,
        });
        match verdict {
            Verdict::Ask(refusal) => refusal.fix.unwrap(),
            other => panic!("{other:?}"),
        }
    };
    assert!(fix(Scope::User).contains("give -y in a script"));
    assert!(fix(Scope::Flag).contains("give -y in a script"));
    assert!(!fix(Scope::Project).contains("-y"));
    assert!(fix(Scope::Project).contains("callboard mcp allow s t"));
}

const READ: Hints = Hints { read_only: Some(true), destructive: None, idempotent: None, open_world: None };

fn allow(rules: &[&str]) -> AllowRules {
    let mut out = AllowRules::default();
    for rule in rules {
        let (server, tool) = rule.split_once('/').unwrap();
        out.allow(Scope::User, server.into(), tool);
    }
    out
}

#[test]
fn entry_that_may_not_run_refuses_everything_even_with_a_grant() {
    for (state, code, want) in [
        (EntryState::Disabled, ErrorCode::Disabled, Rule::Disabled),
        (EntryState::Pending, ErrorCode::PendingApproval, Rule::PendingApproval),
        (EntryState::Invalid, ErrorCode::ConfigError, Rule::ConfigError),
    ] {
        let entry = entry(state);
        for kind in [ItemKind::Tool, ItemKind::Resource, ItemKind::Prompt] {
            let rules = allow(&["s/*"]);
            let verdict = decide(&Question {
                entry: &entry,
                kind,
                name: "t",
                hints: READ,
                mode: Mode::Auto,
                rules: &rules,
                held: None,
                granted: true,
            });
            let Verdict::Refuse(refusal) = verdict else { panic!("{verdict:?}") };
            assert_eq!((refusal.code, refusal.rule.clone()), (code, want.clone()));
            assert!(refusal.fix.unwrap().starts_with("callboard mcp "));
        }
    }
}

#[test]
fn denied_beats_every_permission() {
    let mut case = case();
    case.spec.denied_tools = globs(&["x", "del*"]);
    case.spec.allowed_tools = Some(globs(&["*"]));
    case.spec.allow_all_tools = true;
    case.spec.trust = Trust::Trusted;
    case.hints = READ;
    case.mode = Mode::Auto;
    case.rules = allow(&["s/*", "s/delete"]);
    case.granted = true;
    assert_eq!(rule(&case.tool("delete")), ("refuse", Rule::DeniedTools("del*".into())));
    assert_eq!(rule(&case.tool("Delete")), ("run", Rule::AllowRule("s/*".into())));
}

#[test]
fn allowed_tools_is_the_only_door_when_present() {
    let mut case = case();
    case.spec.allowed_tools = Some(globs(&["get_*"]));
    case.rules = allow(&["s/put"]);
    assert_eq!(rule(&case.tool("put")), ("refuse", Rule::NotAmongAllowed));
    assert_eq!(rule(&case.tool("get_x")), ("run", Rule::AllowedTools("get_*".into())));
    case.spec.allowed_tools = Some(Globs::default());
    assert_eq!(rule(&case.tool("get_x")), ("refuse", Rule::NotAmongAllowed));
}

#[test]
fn read_only_server_refuses_what_looks_like_a_change_and_asks_about_the_unknown() {
    let mut case = case();
    case.spec.trust = Trust::ReadOnly;
    case.hints = READ;
    for mode in [Mode::Safe, Mode::ReadOnly, Mode::Auto] {
        case.mode = mode;
        for name in ["delete_file", "deleteFile", "DeleteFile", "drop_table"] {
            assert_eq!(rule(&case.tool(name)), ("refuse", Rule::ReadOnlyServer), "{name}");
        }
        assert_eq!(rule(&case.tool("weather")).0, "ask");
    }
    assert_eq!(rule(&case.tool("get_weather")), ("run", Rule::Mode(Mode::Auto)));
    case.spec.allow_all_tools = true;
    assert_eq!(rule(&case.tool("delete_file")), ("refuse", Rule::ReadOnlyServer));
    assert_eq!(rule(&case.tool("weather")), ("run", Rule::AllowAllTools));
}

#[test]
fn read_only_hint_counts_for_trusted_servers_only() {
    let mut case = case();
    case.hints = READ;
    for (trust, want) in [(Trust::Untrusted, "ask"), (Trust::ReadOnly, "ask"), (Trust::Trusted, "run")] {
        case.spec.trust = trust;
        for mode in [Mode::Safe, Mode::ReadOnly] {
            case.mode = mode;
            assert_eq!(rule(&case.tool("get_x")).0, want, "{trust:?}");
        }
    }
    case.hints = Hints { destructive: Some(false), idempotent: Some(true), ..Hints::default() };
    assert_eq!(rule(&case.tool("get_x")), ("ask", Rule::Mode(Mode::ReadOnly)), "trusted, but not hinted");
}

#[test]
fn plan_mode_runs_nothing_with_an_effect_however_it_is_allowed() {
    let mut case = case();
    case.mode = Mode::Plan;
    case.spec.allow_all_tools = true;
    case.spec.allowed_tools = Some(globs(&["*"]));
    case.rules = allow(&["s/*"]);
    case.granted = true;
    assert_eq!(rule(&case.tool("t")), ("refuse", Rule::Mode(Mode::Plan)));
    case.hints = READ;
    assert_eq!(rule(&case.tool("t")), ("refuse", Rule::Mode(Mode::Plan)), "an untrusted hint");
    case.spec.trust = Trust::Trusted;
    assert_eq!(rule(&case.tool("t")).0, "run");
    assert_eq!(rule(&case.of(ItemKind::Resource, "a://b")), ("run", Rule::NoEffect));
}

#[test]
fn a_grant_answers_ask_and_nothing_else() {
    let mut case = case();
    case.granted = true;
    assert_eq!(rule(&case.tool("t")), ("run", Rule::Granted));
    case.spec.denied_tools = globs(&["t"]);
    assert_eq!(rule(&case.tool("t")).0, "refuse");
}

#[test]
fn a_held_item_is_refused_whatever_allows_it() {
    let mut case = case();
    case.held = Some(Held::Full);
    case.granted = true;
    case.rules = allow(&["s/*"]);
    case.spec.allow_all_tools = true;
    case.spec.trust = Trust::Trusted;
    case.hints = READ;
    for mode in Mode::ALL {
        case.mode = mode;
        for kind in [ItemKind::Tool, ItemKind::Prompt, ItemKind::Resource] {
            assert_eq!(rule(&case.of(kind, "t")), ("refuse", Rule::Held), "{mode:?} {kind:?}");
        }
    }
}

#[test]
fn a_rule_for_the_entry_of_one_scope_says_nothing_about_that_of_another() {
    let mut case = case();
    case.rules = allow(&["s/*"]);
    let mut entry = entry(EntryState::Ready(Arc::new(case.spec.clone())));
    for scope in [Scope::Project, Scope::Flag, Scope::EnvInline, Scope::Managed] {
        entry.source.scope = scope;
        let q = Question {
            entry: &entry,
            kind: ItemKind::Tool,
            name: "t",
            hints: case.hints,
            mode: case.mode,
            rules: &case.rules,
            held: None,
            granted: false,
        };
        assert!(matches!(decide(&q), Verdict::Ask(_)), "{scope:?}");
    }
}

#[test]
fn reading_is_open_but_for_untrusted_servers_in_safe_mode() {
    let mut case = case();
    case.granted = true;
    for kind in [ItemKind::Resource, ItemKind::Prompt] {
        for mode in Mode::ALL {
            for trust in [Trust::Untrusted, Trust::ReadOnly, Trust::Trusted] {
                case.mode = mode;
                case.spec.trust = trust;
                let want = if mode == Mode::Safe && trust != Trust::Trusted { "refuse" } else { "run" };
                assert_eq!(rule(&case.of(kind, "a://b")).0, want, "{mode:?} {trust:?}");
            }
        }
    }
}

#[test]
fn mode_words_round_trip() {
    for mode in Mode::ALL {
        assert_eq!(Mode::parse(mode.as_str()), Some(mode));
    }
    assert_eq!(Mode::parse("Auto"), None);
}

#[test]
fn odd_server_names_are_quoted_in_what_cures() {
    let mut entry = entry(EntryState::Pending);
    entry.id = "Bob's server".into();
    let q = Question {
        entry: &entry,
        kind: ItemKind::Tool,
        name: "t",
        hints: READ,
        mode: Mode::Auto,
        rules: &AllowRules::default(),
        held: None,
        granted: false,
    };
    let Verdict::Refuse(refusal) = decide(&q) else { panic!() };
    assert_eq!(refusal.fix.as_deref(), Some(r"callboard mcp approve 'Bob'\''s server'"));
}

#[test]
fn the_cure_of_a_held_tool_is_a_command_that_does_nothing_else() {
    let held = |tool: &str| held_refusal(&"my server".into(), tool, &Held::Full).fix.unwrap();
    assert_eq!(held("read"), "callboard mcp pin review 'my server' read");
    assert_eq!(held("x; rm -rf ~"), "callboard mcp pin review 'my server' 'x; rm -rf ~'");
    assert_eq!(held("a\u{1b}[2J"), "callboard mcp pin review 'my server'");
    let unreadable = Held::Unreadable { why: "torn".into(), cure: "repair /p".into() };
    assert_eq!(held_refusal(&"s".into(), "t", &unreadable).fix.as_deref(), Some("repair /p"));
}
