//! What the policy goes by, as one value: published by the desk, read by the front end.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::config::host::HostSettings;
use crate::config::rule_book::RuleBook;
use crate::config::rules::AllowRules;
use crate::config::spec::Scope;
use crate::id::ServerId;
use crate::policy::access::Mode;
use crate::telemetry::Redaction;

/// Where allow rules are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulePlace {
    /// Callboard's own folder.
    pub home: PathBuf,
    /// Root of the project.
    pub root: PathBuf,
    /// The servers of a host for several projects: each with the scope of its entry, and the root of its
    /// project. Empty where there is one project: its rules go by names.
    pub servers: BTreeMap<ServerId, (Scope, PathBuf)>,
}

impl RulePlace {
    /// Root of the project that a server belongs to.
    pub fn root_of(&self, server: &ServerId) -> &Path {
        self.servers.get(server).map_or(&self.root, |(_, root)| root)
    }

    /// The rules in force of what the file says.
    pub fn in_force(&self, book: &RuleBook) -> AllowRules {
        if self.servers.is_empty() {
            return book.in_force(&self.root, |_, _| true).0;
        }
        let mut of_root: BTreeMap<&Path, AllowRules> = BTreeMap::new();
        let mut all = AllowRules::default();
        for (server, (scope, root)) in &self.servers {
            let rules = of_root.entry(root).or_insert_with(|| book.in_force(root, |_, _| true).0);
            all.take(rules, *scope, server);
        }
        all
    }
}

/// What the policy goes by.
#[derive(Clone)]
pub struct Gate {
    /// How much runs without asking.
    pub mode: Mode,
    /// The allow rules of the file.
    pub rules: Arc<AllowRules>,
    /// Rules for this run alone (`-y`).
    pub of_run: Arc<AllowRules>,
    /// Where an answer for good is kept; `None` means it can't be.
    pub place: Option<RulePlace>,
    /// How long a request waits for a person.
    pub expires: Duration,
    /// Takes secrets out of what a person is shown.
    pub redaction: Redaction,
    /// All rules, as soon as somebody asked for them.
    pub all: AllRules,
}

/// Rules that were put together. A clone has none: its gate may get others.
#[derive(Debug, Default)]
pub struct AllRules(OnceLock<AllowRules>);

impl Clone for AllRules {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Default for Gate {
    fn default() -> Self {
        let settings = HostSettings::default();
        Self {
            mode: settings.mode,
            rules: Arc::default(),
            of_run: Arc::default(),
            place: None,
            expires: settings.approval_expires,
            redaction: Redaction::default(),
            all: AllRules::default(),
        }
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate")
            .field("mode", &self.mode)
            .field("rules", &self.rules)
            .field("of_run", &self.of_run)
            .field("place", &self.place)
            .field("expires", &self.expires)
            .finish_non_exhaustive()
    }
}

impl Gate {
    /// All allow rules in force, put together once for each gate that is published.
    pub fn all_rules(&self) -> &AllowRules {
        self.all.0.get_or_init(|| {
            let mut rules = AllowRules::clone(&self.rules);
            rules.extend(&self.of_run);
            rules
        })
    }
}
