//! What the policy goes by, as one value: published by the desk, read by the front end.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::config::host::HostSettings;
use crate::config::rules::AllowRules;
use crate::policy::access::Mode;
use crate::telemetry::Redaction;

/// Where allow rules are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulePlace {
    /// Callboard's own folder.
    pub home: PathBuf,
    /// Root of the project.
    pub root: PathBuf,
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
