//! Floor 1. Turns an entry whose types are right ([`RawServer`]) into a [`ServerSpec`]:
//! expands it, checks what only expanded text can show, and fills in the host's defaults.
//! Must never run for an entry that waits for approval. Called by `config::merge`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::document::Definition;
use super::expand::{self, Expanded, Lookup};
use super::host::HostSettings;
use super::issue::{Issue, IssueCode, Severity};
use super::literal;
use super::raw::{RawServer, RawTarget};
use super::secret::Collector;
use super::spec::{
    BreakerSpec, Limits, RestartSpec, Sandbox, Scope, SecretText, ServerSpec, Timeouts, TransportSpec,
};
use super::suggest;
use crate::id::ServerId;

/// What validation may ask of the machine.
pub trait World: Lookup {
    /// Whether a folder exists.
    fn is_dir(&self, path: &Path) -> bool;
    /// Whether a path is a file that may be executed.
    fn is_program(&self, path: &Path) -> bool;
    /// The first program of that name in the folders of a `PATH`; relative ones are below `cwd`.
    fn search(&self, name: &str, path: &str, cwd: &Path) -> Option<PathBuf>;
}

/// What is the same for all entries.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The machine.
    pub world: &'a dyn World,
    /// Defaults.
    pub settings: &'a HostSettings,
    /// The folder that Callboard was started in, absolute.
    pub cwd: &'a Path,
}

impl std::fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("cwd", &self.cwd).finish_non_exhaustive()
    }
}

/// One entry being resolved: collects issues and secrets.
struct Resolver<'a> {
    definition: &'a Definition,
    context: Context<'a>,
    issues: Vec<Issue>,
    secrets: Collector,
}

/// Expands and checks one entry; `hash` is that of the unexpanded one. The issues hold an
/// error exactly when there is no spec. The values for the redactor go to `secrets`.
pub fn resolve(
    definition: &Definition,
    raw: &RawServer,
    hash: &str,
    context: Context<'_>,
    secrets: &mut Collector,
) -> (Option<Arc<ServerSpec>>, Vec<Issue>) {
    let mut resolver = Resolver { definition, context, issues: Vec::new(), secrets: std::mem::take(secrets) };
    let transport = match &raw.target {
        Some(RawTarget::Stdio { command, args, env, cwd }) => {
            resolver.stdio(command, args, env, cwd.as_deref())
        }
        Some(RawTarget::Http { url, headers, bearer_token_env, sse }) => {
            resolver.http(url, headers, bearer_token_env.as_deref(), *sse)
        }
        None => None,
    };
    let spec = transport.map(|transport| Arc::new(resolver.spec(raw, hash, transport)));
    *secrets = resolver.secrets;
    let failed = resolver.issues.iter().any(|issue| issue.severity == Severity::Error);
    (spec.filter(|_| !failed), resolver.issues)
}

/// The program that a stdio entry would start, as a path, in this environment; `None` when it
/// can't be found. What an approval is bound to besides the hash.
pub fn program(definition: &Definition, raw: &RawServer, context: Context<'_>) -> Option<PathBuf> {
    let Some(RawTarget::Stdio { command, args: _, env, cwd }) = &raw.target else { return None };
    let mut resolver = Resolver { definition, context, issues: Vec::new(), secrets: Collector::default() };
    let cwd = resolver.cwd(cwd.as_deref());
    let command = resolver.command(command, cwd.as_deref())?;
    find_program(&command, env, cwd.as_deref().unwrap_or(context.cwd), context)
}

/// Finds a program as the launch will: as a path, or in the PATH that the server gets.
fn find_program(
    command: &str,
    env: &[(String, String)],
    cwd: &Path,
    context: Context<'_>,
) -> Option<PathBuf> {
    if has_separator(command) {
        return context.world.is_program(Path::new(command)).then(|| PathBuf::from(command));
    }
    let own_path = env.iter().find(|(name, _)| name == "PATH");
    let path = match own_path {
        Some((_, value)) => expand::expand(value, context.world).ok()?.text,
        None => context.world.var("PATH")?,
    };
    context.world.search(command, &path, cwd)
}

fn has_separator(command: &str) -> bool {
    command.contains('/') || (cfg!(windows) && command.contains('\\'))
}

impl Resolver<'_> {
    fn error(&mut self, code: IssueCode, within: &str, message: impl Into<String>, fix: Option<String>) {
        self.issues.push(Issue { fix, ..self.definition.issue(code, Severity::Error, within, message) });
    }

    fn warn(&mut self, code: IssueCode, within: &str, message: impl Into<String>) {
        self.issues.push(self.definition.issue(code, Severity::Warning, within, message));
    }

    fn expand(&mut self, within: &str, text: &str) -> Option<Expanded> {
        match expand::expand(text, self.context.world) {
            Ok(expanded) if expanded.text.contains('\0') => {
                self.error(IssueCode::Value, within, "contains a NUL character", None);
                None
            }
            Ok(expanded) => Some(expanded),
            Err(error) => {
                self.error(error_code(&error), within, error.to_string(), Some(error.fix()));
                None
            }
        }
    }

    fn not_utf8(&mut self, within: &str, variable: &str) {
        let error = expand::ExpandError::NotUtf8(variable.to_owned());
        self.error(error_code(&error), within, error.to_string(), Some(error.fix()));
    }

    /// `~` and `~/…` at the start of a path.
    fn tilde(&mut self, within: &str, path: String) -> Option<String> {
        let rest = match path.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => rest,
            _ => return Some(path),
        };
        match self.context.world.var("HOME").filter(|home| !home.is_empty()) {
            Some(home) => Some(format!("{home}{rest}")),
            None if self.context.world.is_unreadable("HOME") => {
                self.not_utf8(within, "HOME");
                None
            }
            None => {
                self.error(
                    IssueCode::Unset,
                    within,
                    "needs the variable HOME for \"~\", which is not set",
                    None,
                );
                None
            }
        }
    }

    /// Whether the entry has a login, or a credential in clear: whoever uses the server acts as that person.
    fn acts_as_one_person(&self) -> bool {
        let Some(entry) = self.definition.value.as_object() else { return false };
        let login = entry.get("oauth").is_some_and(|oauth| !oauth.is_null());
        login || !literal::credentials(entry, &|_| false).is_empty()
    }

    /// The working directory: absolute and existing; that of the project for its own entries.
    fn cwd(&mut self, cwd: Option<&str>) -> Option<PathBuf> {
        let Some(cwd) = cwd else {
            return (self.definition.source.scope == Scope::Project).then(|| self.definition.base.clone());
        };
        let text = self.expand("cwd", cwd)?.text;
        let path = self.definition.base.join(self.tilde("cwd", text)?);
        if !self.context.world.is_dir(&path) {
            let message = format!("no such folder: {}", path.display());
            self.error(IssueCode::Value, "cwd", message, Some("create it, or correct the path".into()));
            return None;
        }
        Some(path)
    }

    /// The program: a plain name, or an absolute path.
    fn command(&mut self, command: &str, cwd: Option<&Path>) -> Option<String> {
        let expanded = self.expand("command", command)?;
        self.secrets.expanded(&expanded);
        let command = self.tilde("command", expanded.text)?;
        if command.trim().is_empty() {
            self.error(IssueCode::Value, "command", "is empty once expanded", Some("name a program".into()));
            return None;
        }
        if !has_separator(&command) {
            return Some(command);
        }
        let path = cwd.unwrap_or(self.context.cwd).join(&command);
        Some(path.to_string_lossy().into_owned())
    }

    fn approved_program(&self, command: String, env: &[(String, String)], cwd: Option<&Path>) -> String {
        let found = find_program(&command, env, cwd.unwrap_or(self.context.cwd), self.context);
        found.map_or(command, |path| path.to_string_lossy().into_owned())
    }

    fn stdio(
        &mut self,
        command: &str,
        args: &[String],
        env: &[(String, String)],
        cwd: Option<&str>,
    ) -> Option<TransportSpec> {
        let cwd = self.cwd(cwd);
        let command = self.command(command, cwd.as_deref());
        let command = match self.definition.source.scope {
            // Approved was this very program, so no other one may run in its place.
            Scope::Project => command.map(|command| self.approved_program(command, env, cwd.as_deref())),
            _ => command,
        };
        let mut plain = Vec::with_capacity(args.len());
        for (index, arg) in args.iter().enumerate() {
            if let Some(expanded) = self.expand(&format!("args[{index}]"), arg) {
                self.secrets.expanded(&expanded);
                plain.push(expanded.text);
            }
        }
        self.secrets.args(&plain);
        let mut variables = Vec::with_capacity(env.len());
        for (name, value) in env {
            if let Some(expanded) = self.expand(&suggest::join("env", name), value) {
                self.secrets.expanded(&expanded);
                self.secrets.named(name, &expanded.text);
                variables.push((name.clone(), SecretText::new(expanded.text)));
            }
        }
        let args = plain.into_iter().map(SecretText::new).collect();
        Some(TransportSpec::Stdio { command: command?, args, env: variables, cwd })
    }

    fn http(
        &mut self,
        url: &str,
        headers: &[(String, String)],
        bearer_token_env: Option<&str>,
        sse: bool,
    ) -> Option<TransportSpec> {
        let url = self.url(url);
        let mut plain: Vec<(String, SecretText)> = Vec::with_capacity(headers.len() + 1);
        for (name, value) in headers {
            if let Some(header) = self.header(name, value, &plain) {
                plain.push(header);
            }
        }
        if let Some(variable) = bearer_token_env {
            match self.context.world.var(variable).filter(|token| !token.trim().is_empty()) {
                None if self.context.world.is_unreadable(variable) => {
                    self.not_utf8("bearer_token_env", variable)
                }
                None => {
                    let message = format!("needs the variable {variable}, which is not set");
                    self.error(
                        IssueCode::Unset,
                        "bearer_token_env",
                        message,
                        Some(format!("set {variable}")),
                    );
                }
                Some(token) if !is_header_value(token.trim()) => {
                    let message = format!("the variable {variable} holds characters that no header may have");
                    self.error(IssueCode::Value, "bearer_token_env", message, None);
                }
                Some(token) => {
                    let token = token.trim();
                    self.secrets.certain(token);
                    if plain.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization")) {
                        self.warn(
                            IssueCode::Conflict,
                            "bearer_token_env",
                            "replaces the header \"Authorization\"",
                        );
                        plain.retain(|(name, _)| !name.eq_ignore_ascii_case("authorization"));
                    }
                    plain.push(("Authorization".into(), SecretText::new(format!("Bearer {token}"))));
                }
            }
        }
        let url = SecretText::new(url?);
        Some(if sse { TransportSpec::LegacySse { url } } else { TransportSpec::Http { url, headers: plain } })
    }

    fn url(&mut self, url: &str) -> Option<String> {
        let expanded = self.expand("url", url)?;
        let text = expanded.text.trim();
        let fix = Some("write an absolute address such as https://example.com/mcp".to_owned());
        let lower = text.to_ascii_lowercase();
        if !lower.starts_with("http://") && !lower.starts_with("https://") {
            self.error(IssueCode::Value, "url", "must start with http:// or https://", fix);
            return None;
        }
        if text.contains(|c: char| c.is_whitespace() || c.is_control() || c == '\\') {
            self.error(IssueCode::Value, "url", "contains a space, a backslash or a control character", fix);
            return None;
        }
        match url::Url::parse(text) {
            Ok(parsed) if parsed.host_str().is_some_and(|host| !host.is_empty()) => {
                self.secrets.expanded(&expanded);
                self.secrets.url(text);
                Some(text.to_owned())
            }
            Ok(_) => {
                self.error(IssueCode::Value, "url", "has no host", fix);
                None
            }
            Err(error) => {
                self.error(IssueCode::Value, "url", format!("not an address: {error}"), fix);
                None
            }
        }
    }

    fn header(
        &mut self,
        name: &str,
        value: &str,
        earlier: &[(String, SecretText)],
    ) -> Option<(String, SecretText)> {
        /// Headers that the transport itself writes.
        const OWN: [&str; 9] = [
            "accept",
            "content-type",
            "content-length",
            "transfer-encoding",
            "connection",
            "host",
            "last-event-id",
            "mcp-session-id",
            "mcp-protocol-version",
        ];
        let within = suggest::join("headers", name);
        if name.is_empty() || !name.bytes().all(is_token_byte) {
            self.error(IssueCode::Value, &within, "can't be the name of a header", None);
            return None;
        }
        if OWN.iter().any(|own| name.eq_ignore_ascii_case(own)) {
            self.warn(IssueCode::Conflict, &within, "is written by Callboard itself; ignored");
            return None;
        }
        if earlier.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)) {
            self.error(IssueCode::Duplicate, &within, "is written twice", Some("keep one of them".into()));
            return None;
        }
        let expanded = self.expand(&within, value)?;
        if expanded.text.contains(['\r', '\n']) {
            self.error(
                IssueCode::Value,
                &within,
                "contains a line break",
                Some("write the value on one line".into()),
            );
            return None;
        }
        let text = expanded.text.trim();
        if !is_header_value(text) {
            self.error(IssueCode::Value, &within, "holds characters that no header may have", None);
            return None;
        }
        self.secrets.expanded(&expanded);
        self.secrets.named(name, text);
        Some((name.to_owned(), SecretText::new(text)))
    }

    /// The sandbox with its paths expanded and absolute; relative ones are below the working folder.
    fn sandbox(&mut self, raw: &Sandbox, transport: &TransportSpec) -> Sandbox {
        let Sandbox::Custom { read, write, net } = raw else { return raw.clone() };
        let base = match transport {
            TransportSpec::Stdio { cwd: Some(cwd), .. } => cwd.clone(),
            _ => self.context.cwd.to_path_buf(),
        };
        let mut paths = |key: &str, list: &[String]| -> Vec<String> {
            let mut found = Vec::with_capacity(list.len());
            for (index, path) in list.iter().enumerate() {
                let within = format!("sandbox.{key}[{index}]");
                let text = self.expand(&within, path).map(|expanded| expanded.text);
                let Some(path) = text.and_then(|text| self.tilde(&within, text)) else { continue };
                if path.trim().is_empty() {
                    self.error(IssueCode::Value, &within, "is empty", Some("name a path".into()));
                }
                let path = base.join(path);
                found.push(path.components().collect::<PathBuf>().to_string_lossy().into_owned());
            }
            found
        };
        Sandbox::Custom { read: paths("read", read), write: paths("write", write), net: *net }
    }

    fn spec(&mut self, raw: &RawServer, hash: &str, transport: TransportSpec) -> ServerSpec {
        let sandbox = self.sandbox(&raw.sandbox, &transport);
        let (own, host) = (&raw.overrides, self.context.settings);
        let timeouts = Timeouts {
            idle: own.idle.unwrap_or(host.timeouts.idle),
            connect: own.connect.unwrap_or(host.timeouts.connect),
            total: own.total.unwrap_or(host.timeouts.total),
            ..host.timeouts
        };
        let restart = RestartSpec {
            max: own.restart_max.unwrap_or(host.restart.max),
            window: own.restart_window.unwrap_or(host.restart.window),
            min_delay: own.restart_min.unwrap_or(host.restart.min_delay),
            max_delay: own.restart_max_delay.unwrap_or(host.restart.max_delay),
        };
        if own.idle.is_some() && timeouts.idle > timeouts.total {
            self.warn(IssueCode::Conflict, "timeout", "longer than max_timeout, which ends a call first");
        }
        if own.connect.is_some() && timeouts.connect > timeouts.max_start {
            self.warn(
                IssueCode::Conflict,
                "connect_timeout",
                "longer than timeouts.max_start, which ends a start first",
            );
        }
        if restart.min_delay > restart.max_delay {
            self.error(IssueCode::Conflict, "restart", "min is longer than max_delay", None);
        }
        ServerSpec {
            id: ServerId::new(&self.definition.name),
            hash: hash.to_owned(),
            transport,
            filter: raw.filter.clone(),
            allowed_tools: raw.allowed_tools.clone(),
            denied_tools: raw.denied_tools.clone(),
            trust: raw.trust,
            allow_all_tools: raw.allow_all_tools,
            allow_host_process: raw.allow_host_process,
            timeouts,
            protocol: raw.protocol,
            breaker: BreakerSpec {
                failures: own.breaker_failures.unwrap_or(host.breaker.failures),
                open_for: own.breaker_open_for.unwrap_or(host.breaker.open_for),
                count_tool_errors: own.breaker_count_tool_errors.unwrap_or(host.breaker.count_tool_errors),
            },
            restart,
            limits: Limits {
                in_flight: own.in_flight.unwrap_or(host.limits.in_flight),
                queue: own.queue.unwrap_or(host.limits.queue),
                frame_max: own.frame_max.unwrap_or(host.limits.frame_max),
                result_max: own.result_max.unwrap_or(host.limits.result_max),
            },
            rate: own.rate.unwrap_or(host.rate),
            start: raw.start.unwrap_or(host.start),
            idle_stop: raw.idle_stop,
            watch: raw.watch.clone(),
            sharing: raw.sharing,
            is_personal: !raw.shared_identity && self.acts_as_one_person(),
            env_passthrough: raw.env_passthrough.clone(),
            sandbox,
        }
    }
}

/// The kind of a fault of expansion.
fn error_code(error: &expand::ExpandError) -> IssueCode {
    use expand::ExpandError as E;
    match error {
        E::Unset(_) | E::NoSecret(_) => IssueCode::Unset,
        E::NotUtf8(_) => IssueCode::NotUtf8,
        E::Unclosed | E::BadName(_) => IssueCode::Reference,
    }
}

/// RFC 9110, `token`.
fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Visible ASCII, spaces and tabs: what every HTTP stack takes.
fn is_header_value(value: &str) -> bool {
    value.bytes().all(|byte| byte == b'\t' || (b' '..=b'~').contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::document::{self, Form};
    use crate::config::raw;
    use crate::config::spec::Source;
    use proptest::prelude::*;
    use serde_json::{Value, json};
    use std::collections::BTreeMap;

    /// A machine with variables, folders and programs of a list.
    #[derive(Default)]
    struct Machine {
        variables: BTreeMap<String, String>,
        folders: Vec<&'static str>,
        programs: Vec<&'static str>,
    }

    impl Machine {
        fn with(variables: &[(&str, &str)]) -> Self {
            let variables = variables.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
            Self { variables, folders: vec!["/base/sub", "/abs"], programs: Vec::new() }
        }
    }

    impl Lookup for Machine {
        fn var(&self, name: &str) -> Option<String> {
            self.variables.get(name).cloned()
        }
        fn secret(&self, name: &str) -> Option<String> {
            (name == "STORED").then(|| "stored-value-1".to_owned())
        }
    }

    impl World for Machine {
        fn is_dir(&self, path: &Path) -> bool {
            self.folders.iter().any(|folder| Path::new(folder) == path)
        }
        fn is_program(&self, path: &Path) -> bool {
            self.programs.iter().any(|program| Path::new(program) == path)
        }
        fn search(&self, name: &str, path: &str, cwd: &Path) -> Option<PathBuf> {
            let mut candidates = path.split(':').map(|folder| cwd.join(folder).join(name));
            candidates.find(|candidate| self.is_program(candidate))
        }
    }

    fn definition(scope: Scope, entry: &Value) -> Definition {
        let source = Source { scope, origin: "f".into() };
        let text = json!({"s": entry}).to_string();
        document::parse(&text, &source, Path::new("/base"), Form::Inline).definitions.remove(0)
    }

    struct Outcome {
        spec: Option<Arc<ServerSpec>>,
        messages: String,
        secrets: Vec<String>,
    }

    fn resolved(machine: &Machine, scope: Scope, entry: &Value) -> Outcome {
        let definition = definition(scope, entry);
        let (raw, issues) = raw::read(&definition);
        assert!(issues.iter().all(|issue| issue.severity == Severity::Warning), "{issues:?}");
        let settings = HostSettings::default();
        let context = Context { world: machine, settings: &settings, cwd: Path::new("/cwd") };
        let mut secrets = Collector::default();
        let (spec, issues) = resolve(&definition, &raw, "hash", context, &mut secrets);
        let messages: Vec<String> = issues.iter().map(ToString::to_string).collect();
        let secrets = secrets.finish().iter().map(|secret| secret.reveal().to_owned()).collect();
        Outcome { spec, messages: messages.join("\n"), secrets }
    }

    fn user(machine: &Machine, entry: Value) -> Outcome {
        resolved(machine, Scope::User, &entry)
    }

    fn launch(outcome: &Outcome) -> (String, Option<PathBuf>) {
        match &outcome.spec.as_ref().unwrap_or_else(|| panic!("{}", outcome.messages)).transport {
            TransportSpec::Stdio { command, cwd, .. } => (command.clone(), cwd.clone()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn programs_are_plain_names_or_absolute_paths() {
        let machine = Machine::with(&[("HOME", "/u"), ("DIR", "d")]);
        for (command, cwd, expected) in [
            ("run", Value::Null, "run"),
            ("/bin/run", Value::Null, "/bin/run"),
            ("./run", Value::Null, "/cwd/./run"),
            ("./run", json!("sub"), "/base/sub/./run"),
            ("../run", json!("/abs"), "/abs/../run"),
            ("~/run", json!("sub"), "/u/run"),
            ("~run", Value::Null, "~run"),
            ("${DIR}/run", Value::Null, "/cwd/d/run"),
        ] {
            let outcome = user(&machine, json!({"command": command, "cwd": cwd}));
            assert_eq!(launch(&outcome).0, expected);
        }
    }

    #[test]
    fn working_folders_must_exist_and_default_to_the_project_for_its_own_entries() {
        let machine = Machine::with(&[]);
        let entry = json!({"command": "x"});
        assert_eq!(launch(&resolved(&machine, Scope::User, &entry)).1, None);
        assert_eq!(launch(&resolved(&machine, Scope::Flag, &entry)).1, None);
        assert_eq!(launch(&resolved(&machine, Scope::Project, &entry)).1, Some("/base".into()));
        assert_eq!(
            launch(&user(&machine, json!({"command": "x", "cwd": "sub"}))).1,
            Some("/base/sub".into())
        );
        for (cwd, part) in [
            ("gone", "no such folder: /base/gone"),
            ("~", "needs the variable HOME"),
            ("${X}", "cwd: needs the variable X"),
        ] {
            let outcome = user(&machine, json!({"command": "x", "cwd": cwd}));
            assert!(outcome.spec.is_none() && outcome.messages.contains(part), "{}", outcome.messages);
        }
    }

    #[test]
    fn a_program_is_looked_for_where_the_child_will_look() {
        let mut machine = Machine::with(&[("PATH", "/one:/two"), ("OWN", "/three")]);
        machine.programs = vec!["/two/tool", "/three/tool", "/base/bin/tool", "/base/here"];
        let find = |entry: Value| {
            let definition = definition(Scope::Project, &entry);
            let settings = HostSettings::default();
            let context = Context { world: &machine, settings: &settings, cwd: Path::new("/cwd") };
            program(&definition, &raw::read(&definition).0, context)
        };
        assert_eq!(find(json!({"command": "tool"})), Some("/two/tool".into()));
        assert_eq!(
            find(json!({"command": "tool", "env": {"PATH": "${OWN}:/two"}})),
            Some("/three/tool".into())
        );
        assert_eq!(find(json!({"command": "tool", "env": {"PATH": "bin"}})), Some("/base/bin/tool".into()));
        assert_eq!(find(json!({"command": "/base/here"})), Some("/base/here".into()));
        for nothing in [
            json!({"command": "none"}),
            json!({"command": "/base/none"}),
            json!({"command": "${UNSET}"}),
            json!({"command": "tool", "env": {"PATH": "${UNSET}"}}),
            json!({"url": "http://h/"}),
        ] {
            assert_eq!(find(nothing.clone()), None, "{nothing}");
        }
    }

    #[test]
    fn nul_characters_reach_no_process() {
        let machine = Machine::with(&[]);
        for entry in [
            json!({"command": "a\u{0}b"}),
            json!({"command": "x", "args": ["a\u{0}b"]}),
            json!({"command": "x", "env": {"K": "a\u{0}b"}}),
        ] {
            let outcome = user(&machine, entry);
            assert!(outcome.spec.is_none() && outcome.messages.contains("NUL"), "{}", outcome.messages);
        }
    }

    #[test]
    fn stored_secrets_and_inserted_variables_go_to_the_redactor() {
        let machine = Machine::with(&[("TOK", "var-value-2"), ("HOME", "/u/home-folder")]);
        let outcome = user(
            &machine,
            json!({"command": "x", "args": ["${TOK}", "${HOME}/docs"], "env": {"A": "${secret:STORED}", "B": "literal-3"}}),
        );
        assert_eq!(outcome.secrets, ["stored-value-1", "var-value-2", "literal-3"]);
        let outcome =
            user(&machine, json!({"url": "https://h/${TOK}/x", "headers": {"X-Api-Key": "k-4-k-4"}}));
        assert_eq!(outcome.secrets, ["var-value-2", "k-4-k-4"]);
    }

    #[test]
    fn a_fault_in_one_field_does_not_hide_that_in_another() {
        let outcome = user(
            &Machine::with(&[]),
            json!({"command": "${A}", "args": ["${B}", "ok", "${C}"], "env": {"K": "${D}"}, "cwd": "gone"}),
        );
        for part in [
            "command: needs the variable A",
            "args[0]: needs",
            "args[2]: needs",
            "env.K: needs",
            "no such folder",
        ] {
            assert!(outcome.messages.contains(part), "{part}: {}", outcome.messages);
        }
    }

    proptest! {
        /// Whatever the variables hold: no panic, no value of them in any message, and a spec
        /// exactly when there is no error.
        #[test]
        fn values_never_get_into_messages(value in "[\\x00-\\x7f]{8,24}", field in 0usize..5) {
            let machine = Machine::with(&[("V", value.as_str())]);
            let entry = match field {
                0 => json!({"command": "x", "args": ["${V}", "${UNSET}"]}),
                1 => json!({"command": "x", "env": {"K": "${V}", "L": "${UNSET}"}}),
                2 => json!({"url": "https://h/", "headers": {"K": "${V}"}}),
                3 => json!({"url": "${V}"}),
                _ => json!({"url": "https://h/", "bearer_token_env": "V"}),
            };
            let outcome = user(&machine, entry);
            prop_assert!(!outcome.messages.contains(value.trim()) || value.trim().len() < 4, "{}", outcome.messages);
            prop_assert_eq!(outcome.spec.is_some(), outcome.messages.is_empty());
        }

        /// No header value can break out of its line.
        #[test]
        fn headers_that_pass_are_one_visible_line(value in ".{0,24}") {
            let machine = Machine::with(&[("V", value.as_str())]);
            let outcome = user(&machine, json!({"url": "https://h/", "headers": {"K": "${V}"}}));
            if let Some(spec) = &outcome.spec {
                let TransportSpec::Http { headers, .. } = &spec.transport else { panic!() };
                prop_assert!(headers[0].1.reveal().bytes().all(|b| b == b'\t' || (0x20..0x7f).contains(&b)));
            }
        }

        /// What is accepted as an address is one for the URL parser too, with a host.
        #[test]
        fn addresses_that_pass_have_a_host(url in "(http|https|HTTP|ftp)?(://|:|//)?[a-z@:\\[\\]./?#%\\\\ 0-9-]{0,20}") {
            let outcome = user(&Machine::with(&[]), json!({"url": url}));
            if let Some(spec) = &outcome.spec {
                let TransportSpec::Http { url, .. } = &spec.transport else { panic!() };
                let parsed = url::Url::parse(url.reveal()).unwrap();
                prop_assert!(matches!(parsed.scheme(), "http" | "https") && parsed.host_str().is_some());
            }
        }
    }
}
