//! Floor 1. Turns an entry whose types are right ([`RawServer`]) into a [`ServerSpec`]:
//! expands it, checks what only expanded text can show, and fills in the host's defaults.
//! Must never run for an entry that waits for approval. Called by `config::merge`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::document::Definition;
use super::expand::{self, Expanded, Lookup};
use super::host::HostSettings;
use super::raw::{RawServer, RawTarget};
use super::secret::Collector;
use super::spec::{
    BreakerSpec, Issue, Limits, RestartSpec, Scope, SecretText, ServerSpec, Severity, Timeouts, TransportSpec,
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
    fn error(&mut self, within: &str, message: impl Into<String>, fix: Option<String>) {
        self.issues.push(Issue { fix, ..self.definition.issue(Severity::Error, within, message) });
    }

    fn warn(&mut self, within: &str, message: impl Into<String>) {
        self.issues.push(self.definition.issue(Severity::Warning, within, message));
    }

    fn expand(&mut self, within: &str, text: &str) -> Option<Expanded> {
        match expand::expand(text, self.context.world) {
            Ok(expanded) if expanded.text.contains('\0') => {
                self.error(within, "contains a NUL character", None);
                None
            }
            Ok(expanded) => Some(expanded),
            Err(error) => {
                self.error(within, error.to_string(), Some(error.fix()));
                None
            }
        }
    }

    /// `~` and `~/…` at the start of a path.
    fn tilde(&mut self, within: &str, path: String) -> Option<String> {
        let rest = match path.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => rest,
            _ => return Some(path),
        };
        match self.context.world.var("HOME").filter(|home| !home.is_empty()) {
            Some(home) => Some(format!("{home}{rest}")),
            None => {
                self.error(within, "needs the variable HOME for \"~\", which is not set", None);
                None
            }
        }
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
            self.error("cwd", message, Some("create it, or correct the path".into()));
            return None;
        }
        Some(path)
    }

    /// The program: a plain name, or an absolute path.
    fn command(&mut self, command: &str, cwd: Option<&Path>) -> Option<String> {
        let expanded = self.expand("command", command)?;
        self.secrets.inserted(&expanded.inserted);
        let command = self.tilde("command", expanded.text)?;
        if command.trim().is_empty() {
            self.error("command", "is empty once expanded", Some("name a program".into()));
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
                self.secrets.inserted(&expanded.inserted);
                plain.push(expanded.text);
            }
        }
        self.secrets.args(&plain);
        let mut variables = Vec::with_capacity(env.len());
        for (name, value) in env {
            if let Some(expanded) = self.expand(&suggest::join("env", name), value) {
                self.secrets.inserted(&expanded.inserted);
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
                None => {
                    let message = format!("needs the variable {variable}, which is not set");
                    self.error("bearer_token_env", message, Some(format!("set {variable}")));
                }
                Some(token) if !is_header_value(token.trim()) => {
                    let message = format!("the variable {variable} holds characters that no header may have");
                    self.error("bearer_token_env", message, None);
                }
                Some(token) => {
                    let token = token.trim();
                    self.secrets.certain(token);
                    if plain.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization")) {
                        self.warn("bearer_token_env", "replaces the header \"Authorization\"");
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
            self.error("url", "must start with http:// or https://", fix);
            return None;
        }
        if text.contains(|c: char| c.is_whitespace() || c.is_control() || c == '\\') {
            self.error("url", "contains a space, a backslash or a control character", fix);
            return None;
        }
        match url::Url::parse(text) {
            Ok(parsed) if parsed.host_str().is_some_and(|host| !host.is_empty()) => {
                self.secrets.inserted(&expanded.inserted);
                self.secrets.url(text);
                Some(text.to_owned())
            }
            Ok(_) => {
                self.error("url", "has no host", fix);
                None
            }
            Err(error) => {
                self.error("url", format!("not an address: {error}"), fix);
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
            self.error(&within, "can't be the name of a header", None);
            return None;
        }
        if OWN.iter().any(|own| name.eq_ignore_ascii_case(own)) {
            self.warn(&within, "is written by Callboard itself; ignored");
            return None;
        }
        if earlier.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)) {
            self.error(&within, "is written twice", Some("keep one of them".into()));
            return None;
        }
        let expanded = self.expand(&within, value)?;
        if expanded.text.contains(['\r', '\n']) {
            self.error(&within, "contains a line break", Some("write the value on one line".into()));
            return None;
        }
        let text = expanded.text.trim();
        if !is_header_value(text) {
            self.error(&within, "holds characters that no header may have", None);
            return None;
        }
        self.secrets.inserted(&expanded.inserted);
        self.secrets.named(name, text);
        Some((name.to_owned(), SecretText::new(text)))
    }

    fn spec(&mut self, raw: &RawServer, hash: &str, transport: TransportSpec) -> ServerSpec {
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
            self.warn("timeout", "longer than max_timeout, which ends a call first");
        }
        if own.connect.is_some() && timeouts.connect > timeouts.max_start {
            self.warn("connect_timeout", "longer than timeouts.max_start, which ends a start first");
        }
        if restart.min_delay > restart.max_delay {
            self.error("restart", "min is longer than max_delay", None);
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
            required: raw.required,
            watch: raw.watch.clone(),
            sharing: raw.sharing,
            env_passthrough: raw.env_passthrough.clone(),
            sandbox: raw.sandbox.clone(),
            label: raw.label.clone(),
            description: raw.description.clone(),
        }
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
