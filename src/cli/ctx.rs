//! Floor 5. What every verb of `mcp` works with: the options, the terminal, the loaded
//! configuration, and the one cleaner for text that others wrote. Made by `cli::run`.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use super::address;
use super::args::Global;
use super::exit::Exit;
use super::failure::{Failure, nearest};
use super::far::Far;
use super::once::ONCE;
use super::out::{Style, Terminal};
use super::repl::house::House;
use super::stand_in::StandIn;
use crate::config::approvals;
use crate::config::load::{LoadOptions, Loaded, SOURCE_VARIABLES, load};
use crate::config::spec::{Entry, EntryState, Issue, IssueCode, Scope, Severity};
use crate::id::shell_word;
use crate::shaping::redact::Redactor;
use crate::shaping::render::printable;
use crate::telemetry::Redaction;
use crate::transport::guard::Guarding;

/// `--strict-mcp-config` means the files that are named, and none is.
const STRICT_WITHOUT_FILES: &str =
    "--strict-mcp-config without --mcp-config FILE: no file is read, so there are no servers of yours";

/// What a verb may look at.
#[derive(Clone, Debug)]
pub struct Ctx {
    /// Options of every command.
    pub global: Global,
    /// What we are attached to.
    pub term: Terminal,
    /// The words as typed, program name first.
    pub argv: Vec<OsString>,
    /// What decides what is loaded.
    pub options: LoadOptions,
    /// The effective configuration.
    pub loaded: Loaded,
    /// What stands for the one server when it is not configured and runs for this command alone.
    pub once: Option<StandIn>,
    /// How its servers are guarded.
    pub guard: Option<Guarding>,
    /// Through which everything that others wrote is shown.
    pub redaction: Redaction,
    /// The process that asked, where a verb is done for another one.
    pub far: Option<Arc<Far>>,
    /// The servers that run already, where the verb is typed at a prompt.
    pub house: Option<Arc<House>>,
}

/// The options of loading that belong to these flags.
pub fn load_options(global: &Global) -> LoadOptions {
    let mut options = LoadOptions::from_process();
    options.config_files.clone_from(&global.mcp_config);
    options.strict = global.strict_mcp_config;
    if let Some(level) = global.log_level {
        options.settings.push(("log.level".to_owned(), level.as_str().to_owned()));
    }
    if let Some(mode) = &global.mode {
        options.settings.push(("mode".to_owned(), mode.clone()));
    }
    if global.no_color {
        options.settings.push(("display.color".to_owned(), "never".to_owned()));
    }
    options
}

impl Ctx {
    /// Loads the configuration. Never fails: faults are issues in it.
    pub fn new(global: Global, term: Terminal, argv: Vec<OsString>) -> Self {
        let options = load_options(&global);
        let loaded = load(&options);
        let guard = Guarding::of_this_program(loaded.home.as_deref().ok());
        let redaction = Redaction::of_process();
        redaction.learn(&loaded.servers.secrets);
        Self { guard, redaction, ..Self::of(global, term, argv, options, loaded) }
    }

    fn of(global: Global, term: Terminal, argv: Vec<OsString>, options: LoadOptions, loaded: Loaded) -> Self {
        let redaction = Redaction::default();
        redaction.learn(&loaded.servers.secrets);
        let term = term.colored(loaded.settings.color);
        Self {
            global,
            term,
            argv,
            options,
            loaded,
            once: None,
            guard: None,
            redaction,
            far: None,
            house: None,
        }
    }

    /// The same with the configuration of a server that runs once.
    pub fn once(&self, options: LoadOptions, loaded: Loaded, stand_in: StandIn) -> Self {
        let ctx = Self::of(self.global.clone(), self.term, self.argv.clone(), options, loaded);
        self.redaction.learn(&ctx.loaded.servers.secrets);
        Self { once: Some(stand_in), guard: self.guard.clone(), redaction: self.redaction.clone(), ..ctx }
    }

    /// How to write to stdout.
    pub fn style(&self) -> Style {
        self.term.style()
    }

    /// Text that others wrote, fit for a person: no secrets that we know, nothing that steers
    /// a terminal.
    pub fn clean(&self, text: &str) -> String {
        self.redaction.text(&printable(text))
    }

    /// As `clean`, for one of several messages: half a secret at its end is hidden too.
    pub fn clean_piece(&self, text: &str) -> String {
        self.redaction.piece(&printable(text))
    }

    /// What takes secrets out.
    pub fn redactor(&self) -> Arc<Redactor> {
        self.redaction.now()
    }

    /// Text without the secrets that we know, for a file.
    pub fn redacted(&self, text: &str) -> String {
        self.redaction.text(text)
    }

    /// The entry of that name, or the failure that names the closest one and the files that
    /// could not be read.
    pub fn entry(&self, name: &str) -> Result<&Entry, Failure> {
        if let Some(entry) = self.loaded.servers.get(name) {
            return Ok(entry);
        }
        let known = self.loaded.servers.entries.iter().map(|entry| entry.id.as_str());
        let mut failure = Failure::unknown_server(name, known.clone());
        let meant = address::mistaken(name).and_then(|told| told.meant);
        if let Some(url) = meant.or_else(|| address::is_url(name).then(|| name.to_owned())) {
            let url = self.clean(&url);
            let stand_in = StandIn::Url(url);
            return Err(failure.fix(format!(
                "this verb takes the name of a configured server; look at it with `{}`, or keep it with `{}`",
                stand_in.command("tools", ""),
                stand_in.keep()
            )));
        }
        if self.has_broken_source() && nearest(name, known).is_none() {
            let shown = super::text::quoted(name);
            failure = Failure::config(format!("no server called {shown} could be read")).on(name);
            failure.fix = Some("correct the file that the warning names".to_owned());
        }
        failure.warnings = self.source_warnings();
        Err(failure)
    }

    /// The entry, if it may run; else the failure that says why not and what to do.
    pub fn runnable(&self, name: &str) -> Result<&Entry, Failure> {
        let entry = self.entry(name)?;
        match &entry.state {
            EntryState::Ready(_) => Ok(entry),
            EntryState::Disabled => {
                let (why, fix) = match &entry.down {
                    Some(down) => (format!("{name}: {}", down.why), down.fix.to_string()),
                    None => (
                        format!("{name} is turned off in {}", entry.source),
                        format!("callboard mcp on {}", shell_word(name)),
                    ),
                };
                Err(Failure::refused("disabled", why).on(name).fix(fix))
            }
            EntryState::Pending => {
                let (message, fix) = self.pending(entry);
                Err(Failure::refused("pending_approval", message).on(name).fix(fix))
            }
            EntryState::Invalid => {
                let Some(issue) = first_error(entry) else {
                    return Err(Failure::config(format!("{name} can't be used as it is written")).on(name));
                };
                let (exit, cure) = match issue.code {
                    IssueCode::Spawn => (Exit::Refused, issue.fix.clone()),
                    _ => (Exit::Config, None),
                };
                let failure = Failure::new(issue.code.as_str(), exit, issue.to_string()).on(name);
                let usual = || "correct the entry; `callboard doctor` checks all of them".to_owned();
                Err(failure.fix(cure.unwrap_or_else(usual)))
            }
        }
    }

    /// Why a project entry waits, and what to do about it. Approvals that can't be read approve
    /// nothing, and nothing can be added to them.
    pub fn pending(&self, entry: &Entry) -> (String, String) {
        let file = self.loaded.home.as_deref().ok().map(approvals::file).unwrap_or_default();
        let of_file = |issue: &&Issue| {
            issue.code == IssueCode::Store && *issue.source.origin == *file.to_string_lossy()
        };
        let lost = self.loaded.servers.issues.iter().find(of_file);
        if let Some(issue) = lost {
            let message = format!(
                "{} comes from the project, and what you approved can't be read: {}",
                entry.id,
                self.clean(&issue.to_string())
            );
            let file = shell_word(&issue.source.origin).into_owned();
            let aside = shell_word(&format!("{}.broken", issue.source.origin)).into_owned();
            let fix = format!("repair it, or move it away and approve again: mv {file} {aside}");
            return (message, fix);
        }
        let word = shell_word(entry.id.as_str());
        (why_pending(entry), format!("callboard mcp get {word}, then callboard mcp approve {word}"))
    }

    /// Callboard's own folder, or the failure of a verb that would have to write there.
    pub fn home(&self) -> Result<&Path, Failure> {
        self.loaded.home.as_deref().map_err(|fault| {
            let message = format!("there is no place for your own files: {fault}");
            Failure::new(IssueCode::NoHome.as_str(), Exit::Config, message).fix(fault.fix())
        })
    }

    /// The failure with a fix that can be typed, when the server has no name.
    pub fn fitting(&self, mut failure: Failure) -> Failure {
        if let Some(stand_in) = &self.once {
            failure.fix = failure.fix.map(|fix| stand_in.working(&fix, ONCE));
        }
        failure
    }

    /// Issues of whole sources, as warnings.
    pub fn source_warnings(&self) -> Vec<String> {
        self.loaded.servers.issues.iter().map(|issue| self.clean(&issue.to_string())).collect()
    }

    /// Errors of whole sources, as warnings: no verb goes on without a word about them.
    pub fn source_errors(&self) -> Vec<String> {
        let errors = self.loaded.servers.issues.iter().filter(|issue| issue.severity == Severity::Error);
        let errors = errors.map(|issue| self.clean(&issue.to_string()));
        let none = self.global.strict_mcp_config && self.global.mcp_config.is_empty();
        errors.chain(none.then(|| STRICT_WITHOUT_FILES.to_owned())).collect()
    }

    /// The failure of a verb that uses servers, when a source that was named for this run can't
    /// be used at all: what was to come from there must not come from elsewhere.
    pub fn named_sources(&self) -> Result<(), Failure> {
        let Some(issue) = self.loaded.servers.issues.iter().find(|issue| is_named_source_lost(issue)) else {
            return Ok(());
        };
        Err(Failure::new(issue.code.as_str(), Exit::Config, self.clean(&issue.to_string()))
            .fix("correct it, or leave it out; nothing was started"))
    }

    /// Issues of sources and doubts about entries, as warnings. Errors of an entry are shown
    /// with the entry.
    pub fn warnings(&self) -> Vec<String> {
        let servers = &self.loaded.servers;
        let off = self.loaded.off.as_ref().map(|off| {
            let down = off.down();
            format!("{}; `{}` lets them run", down.why, down.fix)
        });
        let doubts = servers
            .entries
            .iter()
            .chain(&servers.pending)
            .flat_map(|entry| &entry.issues)
            .filter(|issue| issue.severity == Severity::Warning);
        let issues = servers.issues.iter().chain(doubts).map(|issue| self.clean(&issue.to_string()));
        off.into_iter().chain(issues).collect()
    }

    /// Whether a source could not be used, so that entries may be missing.
    pub fn has_broken_source(&self) -> bool {
        self.loaded.servers.issues.iter().any(|issue| issue.severity == Severity::Error)
    }
}

/// Whether the issue says that nothing of a source is used which a flag or variable names or is.
fn is_named_source_lost(issue: &Issue) -> bool {
    let named = match issue.source.scope {
        Scope::Flag | Scope::EnvFile => true,
        // Settings come from variables too; one that is wrong costs only itself.
        Scope::EnvInline => SOURCE_VARIABLES.contains(&&*issue.source.origin),
        Scope::Default | Scope::User | Scope::Project | Scope::Managed => false,
    };
    let whole = matches!(
        issue.code,
        IssueCode::Unreadable | IssueCode::Syntax | IssueCode::Shape | IssueCode::NotUtf8
    );
    named && whole && issue.severity == Severity::Error
}

/// The first error of an entry.
pub fn first_error(entry: &Entry) -> Option<&Issue> {
    entry.issues.iter().find(|issue| issue.severity == Severity::Error)
}

/// Why a project entry waits.
pub fn why_pending(entry: &Entry) -> String {
    let reason = entry.issues.iter().find(|issue| issue.message.contains("approv"));
    let reason = reason.map_or("comes from the project and waits for your approval", |issue| &issue.message);
    format!("{} {reason}", entry.id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::host::ColorChoice;
    use crate::config::load::Env;

    impl Ctx {
        /// A context of a test: this folder is home and project, nothing is a terminal.
        pub(crate) fn for_test(home: &Path, env: &[(&str, &str)]) -> Self {
            let mut all = Env::default();
            all.set("CALLBOARD_HOME", home.display().to_string());
            env.iter().for_each(|(name, value)| all.set(*name, *value));
            let mut options = LoadOptions::new(all, home);
            options.managed_dir = home.join("managed");
            let loaded = load(&options);
            let color = ColorChoice::Auto;
            let term = Terminal {
                stdin: false,
                stdout: false,
                stderr: false,
                color,
                width: 80,
                height: 24,
                width_err: 80,
            };
            Self::of(Global::default(), term, Vec::new(), options, loaded)
        }
    }

    fn ctx(user: &str, project: &str) -> (tempfile::TempDir, Ctx) {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("mcp.json"), user).unwrap();
        if !project.is_empty() {
            std::fs::write(home.path().join(".mcp.json"), project).unwrap();
        }
        let ctx = Ctx::for_test(home.path(), &[("TOKEN", "s3cr3t-value-1")]);
        (home, ctx)
    }

    #[test]
    fn text_of_others_is_clean_of_secrets_and_of_escape_sequences() {
        let (_home, ctx) = ctx(r#"{"mcpServers":{"a":{"command":"x","env":{"TOKEN":"${TOKEN}"}}}}"#, "");
        let shown = ctx.clean("\u{1b}[31mtoken s3cr3t-value-1\u{1b}[0m\nand more");
        assert_eq!(shown, "token [redacted]\nand more");
        let split = ctx.clean("s3cr3t-\u{1b}[1mvalue-1");
        assert!(!split.contains("value-1"), "an escape sequence must not hide a secret: {split}");
    }

    #[test]
    fn each_state_of_an_entry_has_its_refusal() {
        let user = r#"{"mcpServers":{"on":{"command":"x"},"off":{"command":"x","enabled":false},"bad":{"command":7}}}"#;
        let (_home, ctx) = ctx(user, r#"{"mcpServers":{"theirs":{"command":"x"}}}"#);
        assert!(ctx.runnable("on").is_ok());
        for (name, code, exit) in [
            ("off", "disabled", Exit::Refused),
            ("theirs", "pending_approval", Exit::Refused),
            ("bad", "config_value", Exit::Config),
            ("none", "unknown_server", Exit::NotFound),
        ] {
            let failure = ctx.runnable(name).unwrap_err();
            assert_eq!((failure.code.as_ref(), failure.exit), (code, exit), "{name}");
            assert!(failure.fix.is_some(), "{name}");
            assert_eq!(failure.server.as_deref(), Some(name));
        }
    }

    #[test]
    fn a_missing_name_tells_of_files_that_could_not_be_read() {
        let (_home, ctx) = ctx("{ oops", r#"{"mcpServers":{"time":{"command":"x"}}}"#);
        assert!(ctx.has_broken_source());
        let slip = ctx.entry("tmie").unwrap_err();
        assert_eq!((slip.exit, slip.warnings.len()), (Exit::NotFound, 1), "{slip:?}");
        let failure = ctx.entry("git").unwrap_err();
        assert_eq!(
            (failure.exit, failure.server.as_deref()),
            (Exit::Config, Some("git")),
            "it may be in there"
        );
        assert!(failure.warnings[0].contains("mcp.json"), "{:?}", failure.warnings);
    }
}
