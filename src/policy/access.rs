//! Whether a call may run: one decision in a fixed order, as data that names the rule
//! which decided. Enabled → approved → denied → not among the allowed → read-only
//! server → plan mode → allow rule → `allowedTools` / `allowAllTools` → read-only hint of a
//! trusted server → mode → ask. A person's grant answers *ask* and nothing else.
//! Called by the front end for every call, and by edges that explain or list rights.

use super::rules::AllowRules;
use super::verbs::{Look, look_of};
use crate::call::{ErrorCode, Grant, ItemKind};
use crate::catalog::items::Hints;
use crate::config::spec::{Entry, EntryState, Scope, ServerSpec, Trust};
use crate::id::shell_word;

/// How much runs without asking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Nothing with an effect runs, allowed or not.
    Plan,
    /// As `ReadOnly`, and no resources or prompts from servers that are not trusted.
    Safe,
    /// Read-only tools of trusted servers run, everything else asks.
    #[default]
    ReadOnly,
    /// Nothing asks; what is denied stays denied.
    Auto,
}

impl Mode {
    /// All modes, strictest first.
    pub const ALL: [Self; 4] = [Self::Plan, Self::Safe, Self::ReadOnly, Self::Auto];

    /// The word in configuration and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Safe => "safe",
            Self::ReadOnly => "readonly",
            Self::Auto => "auto",
        }
    }

    /// The mode of that word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == word)
    }
}

/// One call before the policy.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The server, as configured.
    pub entry: &'a Entry,
    /// What is called.
    pub kind: ItemKind,
    /// Its raw name or URI.
    pub name: &'a str,
    /// The server's own hints about it.
    pub hints: Hints,
    /// The mode in force.
    pub mode: Mode,
    /// The allow rules in force.
    pub rules: &'a AllowRules,
    /// A person's approval that came with the call.
    pub grant: Option<&'a Grant>,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may run.
    Run(Rule),
    /// It may not, whoever asks.
    Refuse(Refusal),
    /// A person has to say; with nobody there it is a refusal with this text.
    Ask(Refusal),
}

/// Why not, or not yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The stable code.
    pub code: ErrorCode,
    /// The rule that decided.
    pub rule: Rule,
    /// One sentence for a person or a model.
    pub text: String,
    /// What would change it.
    pub fix: Option<String>,
}

/// What decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The entry is turned off.
    Disabled,
    /// Nobody approved the project's entry.
    PendingApproval,
    /// The entry is not usable as written.
    ConfigError,
    /// This pattern of `deniedTools`.
    DeniedTools(String),
    /// `allowedTools` is there and has no pattern for it.
    NotAmongAllowed,
    /// `trust: read-only`, and the name looks like a change.
    ReadOnlyServer,
    /// This allow rule.
    AllowRule(String),
    /// This pattern of `allowedTools`.
    AllowedTools(String),
    /// `allowAllTools`
    AllowAllTools,
    /// `readOnlyHint` of a trusted server.
    ReadOnlyHint,
    /// A resource or prompt of an approved server: these have no effect.
    NoEffect,
    /// The mode.
    Mode(Mode),
    /// A person said yes to exactly this tool.
    Granted,
}

impl Rule {
    /// A stable word for audit and JSON, with the pattern where there is one.
    pub fn describe(&self) -> String {
        match self {
            Self::Disabled => "disabled".to_owned(),
            Self::PendingApproval => "pending_approval".to_owned(),
            Self::ConfigError => "config_error".to_owned(),
            Self::DeniedTools(pattern) => format!("deniedTools {pattern}"),
            Self::NotAmongAllowed => "allowedTools".to_owned(),
            Self::ReadOnlyServer => "trust read-only".to_owned(),
            Self::AllowRule(rule) => format!("allow {rule}"),
            Self::AllowedTools(pattern) => format!("allowedTools {pattern}"),
            Self::AllowAllTools => "allowAllTools".to_owned(),
            Self::ReadOnlyHint => "readOnlyHint of a trusted server".to_owned(),
            Self::NoEffect => "no effect".to_owned(),
            Self::Mode(mode) => format!("mode {}", mode.as_str()),
            Self::Granted => "granted".to_owned(),
        }
    }
}

/// Decides about one call.
pub fn decide(q: &Question<'_>) -> Verdict {
    let spec = match usable(q) {
        Ok(spec) => spec,
        Err(refusal) => return Verdict::Refuse(*refusal),
    };
    let verdict = match q.kind {
        ItemKind::Tool => decide_tool(q, spec),
        ItemKind::Resource | ItemKind::Prompt => decide_reading(q, spec),
    };
    match verdict {
        Verdict::Ask(_) if is_granted(q) => Verdict::Run(Rule::Granted),
        other => other,
    }
}

fn is_granted(q: &Question<'_>) -> bool {
    q.kind == ItemKind::Tool && q.grant.is_some_and(|g| g.server == q.entry.id && g.tool == q.name)
}

fn usable<'a>(q: &Question<'a>) -> Result<&'a ServerSpec, Box<Refusal>> {
    let server = &q.entry.id;
    let word = shell_word(server.as_str());
    let (code, rule, text, fix) = match &q.entry.state {
        EntryState::Ready(spec) => return Ok(spec),
        EntryState::Disabled => (
            ErrorCode::Disabled,
            Rule::Disabled,
            format!("{server} is turned off in the configuration"),
            format!("callboard mcp enable {word}"),
        ),
        EntryState::Pending => (
            ErrorCode::PendingApproval,
            Rule::PendingApproval,
            format!("{server} comes from the project and nobody has approved it"),
            format!("callboard mcp approve {word}"),
        ),
        EntryState::Invalid => (
            ErrorCode::ConfigError,
            Rule::ConfigError,
            format!("{server} can't be used as it is configured"),
            format!("callboard mcp get {word}"),
        ),
    };
    Err(Box::new(Refusal { code, rule, text, fix: Some(fix) }))
}

fn decide_tool(q: &Question<'_>, spec: &ServerSpec) -> Verdict {
    let (server, tool) = (&q.entry.id, q.name);
    let refuse = |rule: Rule, why: String, fix: &str| {
        let text = format!("{tool} on {server} is refused: {why}");
        Verdict::Refuse(Refusal { code: ErrorCode::Denied, rule, text, fix: Some(fix.to_owned()) })
    };
    if let Some(pattern) = spec.denied_tools.first_match(tool) {
        let why = format!("deniedTools has {pattern:?}");
        return refuse(Rule::DeniedTools(pattern.to_owned()), why, "take it out of the server's deniedTools");
    }
    let allowed = spec.allowed_tools.as_ref().map(|globs| globs.first_match(tool));
    if allowed == Some(None) {
        let why = "allowedTools of the server does not have it".to_owned();
        return refuse(Rule::NotAmongAllowed, why, "add it to the server's allowedTools");
    }
    // Only a read-only server's tools are judged by their names.
    let look = (spec.trust == Trust::ReadOnly).then(|| look_of(tool));
    if look == Some(Look::Mutates) {
        let why = "the server is read-only and the name looks like a change".to_owned();
        return refuse(Rule::ReadOnlyServer, why, "give the server another `trust` if this tool is wanted");
    }
    let hinted = spec.trust == Trust::Trusted && q.hints.read_only == Some(true);
    // Plan mode promises that nothing has an effect: it goes before everything that allows.
    if q.mode == Mode::Plan && !hinted {
        let why = "in plan mode only read-only tools of trusted servers run".to_owned();
        return refuse(Rule::Mode(Mode::Plan), why, "leave plan mode");
    }
    if let Some(rule) = q.rules.rule_for(server, tool) {
        return Verdict::Run(Rule::AllowRule(rule));
    }
    if let Some(Some(pattern)) = allowed {
        return Verdict::Run(Rule::AllowedTools(pattern.to_owned()));
    }
    if spec.allow_all_tools {
        return Verdict::Run(Rule::AllowAllTools);
    }
    if hinted {
        return Verdict::Run(Rule::ReadOnlyHint);
    }
    // What a read-only server's tool does must be known from its name; unknown means ask.
    let must_ask = look == Some(Look::Unknown);
    if q.mode == Mode::Auto && !must_ask {
        return Verdict::Run(Rule::Mode(Mode::Auto));
    }
    let rule = if q.mode == Mode::Auto { Rule::ReadOnlyServer } else { Rule::Mode(q.mode) };
    Verdict::Ask(Refusal {
        code: ErrorCode::NeedsApproval,
        text: format!(
            "{tool} on {server} needs approval ({}), and nobody was there to give it",
            rule.describe()
        ),
        rule,
        fix: Some(approving(q.entry.source.scope).to_owned()),
    })
}

/// How to say yes. A script may for every server but the project's: that file could be anybody's.
fn approving(scope: Scope) -> &'static str {
    if scope == Scope::Project {
        return "answer y on a terminal, or name the tool in the server's allowedTools";
    }
    "answer y on a terminal, give -y in a script, or name the tool in the server's allowedTools"
}

/// Reading a resource or getting a prompt has no effect on the world, but brings text of the server in.
fn decide_reading(q: &Question<'_>, spec: &ServerSpec) -> Verdict {
    if q.mode == Mode::Safe && spec.trust != Trust::Trusted {
        let server = &q.entry.id;
        let what = if q.kind == ItemKind::Prompt { "prompts" } else { "resources" };
        return Verdict::Refuse(Refusal {
            code: ErrorCode::Denied,
            rule: Rule::Mode(Mode::Safe),
            text: format!(
                "{} on {server} is refused: safe mode takes {what} from trusted servers only",
                q.name
            ),
            fix: Some("leave safe mode, or set `trust` of the server to \"trusted\"".to_owned()),
        });
    }
    Verdict::Run(Rule::NoEffect)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::config::spec::{Globs, Source, TransportSpec};
    use crate::id::ServerId;

    fn spec() -> ServerSpec {
        let transport = TransportSpec::Stdio { command: "x".into(), args: vec![], env: vec![], cwd: None };
        ServerSpec::new("s", transport)
    }

    fn entry(state: EntryState) -> Entry {
        Entry {
            id: "s".into(),
            source: Source { scope: Scope::User, origin: "mcp.json".into() },
            shadows: vec![],
            state,
            issues: vec![],
            hash: String::new(),
            transport: "stdio",
            summary: String::new(),
            label: None,
            description: None,
            required: false,
        }
    }

    fn globs(patterns: &[&str]) -> Globs {
        Globs::compile(&patterns.iter().map(|p| (*p).to_owned()).collect::<Vec<_>>()).unwrap()
    }

    struct Case {
        spec: ServerSpec,
        mode: Mode,
        rules: AllowRules,
        hints: Hints,
        grant: Option<Grant>,
    }

    fn case() -> Case {
        Case {
            spec: spec(),
            mode: Mode::ReadOnly,
            rules: AllowRules::default(),
            hints: Hints::default(),
            grant: None,
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
                grant: self.grant.as_ref(),
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
                grant: None,
            });
            match verdict {
                Verdict::Ask(refusal) => refusal.fix.unwrap(),
                other => panic!("{other:?}"),
            }
        };
        assert!(fix(Scope::User).contains("give -y in a script"));
        assert!(fix(Scope::Flag).contains("give -y in a script"));
        assert!(!fix(Scope::Project).contains("-y"));
    }

    const READ: Hints =
        Hints { read_only: Some(true), destructive: None, idempotent: None, open_world: None };

    fn allow(rules: &[&str]) -> AllowRules {
        AllowRules::parse(rules.iter().copied(), &BTreeSet::from(["s".into()])).0
    }

    #[test]
    fn entry_that_may_not_run_refuses_everything_even_with_a_grant() {
        let grant = Grant { server: "s".into(), tool: "t".into() };
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
                    grant: Some(&grant),
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
        case.grant = Some(Grant { server: "s".into(), tool: "delete".into() });
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
        case.grant = Some(Grant { server: "s".into(), tool: "t".into() });
        assert_eq!(rule(&case.tool("t")), ("refuse", Rule::Mode(Mode::Plan)));
        case.hints = READ;
        assert_eq!(rule(&case.tool("t")), ("refuse", Rule::Mode(Mode::Plan)), "an untrusted hint");
        case.spec.trust = Trust::Trusted;
        assert_eq!(rule(&case.tool("t")).0, "run");
        assert_eq!(rule(&case.of(ItemKind::Resource, "a://b")), ("run", Rule::NoEffect));
    }

    #[test]
    fn grant_answers_ask_for_exactly_its_own_tool() {
        let mut case = case();
        for (server, tool, want) in
            [("s", "t", "run"), ("s", "T", "ask"), ("S", "t", "ask"), ("s", "*", "ask")]
        {
            case.grant = Some(Grant { server: server.into(), tool: tool.into() });
            assert_eq!(rule(&case.tool("t")).0, want, "{server}/{tool}");
        }
    }

    #[test]
    fn reading_is_open_but_for_untrusted_servers_in_safe_mode() {
        let mut case = case();
        case.grant = Some(Grant { server: "s".into(), tool: "a://b".into() });
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
            grant: None,
        };
        let Verdict::Refuse(refusal) = decide(&q) else { panic!() };
        assert_eq!(refusal.fix.as_deref(), Some(r"callboard mcp approve 'Bob'\''s server'"));
    }

    /// The order of the specification, written down a second time as a table of conditions.
    fn expected(c: &Case, name: &str) -> &'static str {
        let listed = c.spec.allowed_tools.as_ref().map(|g| g.matches(name));
        let hinted = c.spec.trust == Trust::Trusted && c.hints.read_only == Some(true);
        let rows = [
            (c.spec.denied_tools.matches(name), "refuse"),
            (listed == Some(false), "refuse"),
            (c.spec.trust == Trust::ReadOnly && look_of(name) == Look::Mutates, "refuse"),
            (c.mode == Mode::Plan && !hinted, "refuse"),
            (c.rules.rule_for(&ServerId::from("s"), name).is_some(), "run"),
            (listed == Some(true) || c.spec.allow_all_tools, "run"),
            (hinted, "run"),
            (
                c.mode == Mode::Auto && (c.spec.trust != Trust::ReadOnly || look_of(name) == Look::Reads),
                "run",
            ),
            (c.grant.as_ref().is_some_and(|g| g.server.as_str() == "s" && g.tool == name), "run"),
        ];
        rows.iter().find(|(holds, _)| *holds).map_or("ask", |(_, verdict)| verdict)
    }

    fn pattern() -> impl Strategy<Value = &'static str> {
        proptest::sample::select(vec!["*", "get_*", "delete_file", "*er", "none"])
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(5_000))]
        #[test]
        fn order_holds_for_every_combination(
            name in proptest::sample::select(vec!["get_x", "delete_file", "weather", "Get_x"]),
            denied in proptest::option::weighted(0.2, pattern()),
            allowed in proptest::option::weighted(0.4, pattern()),
            trust in proptest::sample::select(vec![Trust::Untrusted, Trust::ReadOnly, Trust::Trusted]),
            mode in proptest::sample::select(Mode::ALL.to_vec()),
            all in any::<bool>(),
            read_only in proptest::option::of(any::<bool>()),
            rule_text in proptest::option::weighted(0.3, proptest::sample::select(vec!["s/*", "s/get_x", "t/*", "s/weather"])),
            granted in proptest::option::weighted(0.3, proptest::sample::select(vec!["get_x", "weather", "delete_file"])),
        ) {
            let mut case = case();
            case.spec.denied_tools = denied.map(|p| globs(&[p])).unwrap_or_default();
            case.spec.allowed_tools = allowed.map(|p| globs(&[p]));
            case.spec.trust = trust;
            case.spec.allow_all_tools = all;
            case.mode = mode;
            case.hints = Hints { read_only, ..Hints::default() };
            case.rules = rule_text.map(|r| allow(&[r])).unwrap_or_default();
            case.grant = granted.map(|tool| Grant { server: "s".into(), tool: tool.into() });
            let verdict = case.tool(name);
            prop_assert_eq!(rule(&verdict).0, expected(&case, name), "{:?}", verdict);
            if let Verdict::Refuse(refusal) | Verdict::Ask(refusal) = verdict {
                prop_assert!(refusal.text.contains(name) && refusal.text.contains(" s ") && refusal.fix.is_some());
                prop_assert!(!refusal.rule.describe().is_empty());
            }
        }
    }
}
