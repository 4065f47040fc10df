//! Floor 1. What can be wrong with a configuration: one fault with its place, and the closed
//! set of kinds. Decides nothing. Made by everything that reads a source; shown by the edges,
//! whose `explain` has a page for each kind.

use std::fmt;

use super::spec::Source;

/// One fault or doubt about the configuration, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// Of which kind it is.
    pub code: IssueCode,
    /// Whether the thing is unusable, or just odd.
    pub severity: Severity,
    /// The file or variable.
    pub source: Source,
    /// `line:column` in that source, when known.
    pub position: Option<(usize, usize)>,
    /// Key path, such as `mcpServers.github.env.TOKEN`; empty for the file itself.
    pub path: String,
    /// What is wrong. Never contains a value that could be secret.
    pub message: String,
    /// What to do about it.
    pub fix: Option<String>,
}

impl fmt::Display for Issue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.source.origin)?;
        if let Some((line, column)) = self.position {
            write!(f, ":{line}:{column}")?;
        }
        if !self.path.is_empty() {
            write!(f, ": {}", self.path)?;
        }
        write!(f, ": {}", self.message)?;
        if let Some(fix) = &self.fix {
            write!(f, " ({fix})")?;
        }
        Ok(())
    }
}

/// How bad an [`Issue`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Works, but is probably not what was meant.
    Warning,
    /// That file or that entry can't be used.
    Error,
}

/// The kinds of issues. Their words are stable: scripts rely on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IssueCode {
    /// A file or variable can't be read at all, or a named one is not there.
    Unreadable,
    /// A text is not valid JSON or TOML.
    Syntax,
    /// The text is valid and its top level is not that of a configuration.
    Shape,
    /// A name or key is written more than once.
    Duplicate,
    /// A key that means nothing here.
    UnknownKey,
    /// A value of a wrong type, or out of its range or set.
    Value,
    /// Two keys contradict each other, or one makes another useless.
    Conflict,
    /// A key that is needed is not there.
    Missing,
    /// `${…}` is not written as a reference.
    Reference,
    /// A variable or stored secret that is needed is not set.
    Unset,
    /// A variable that is needed holds something that is not UTF-8.
    NotUtf8,
    /// A name that no server can have.
    Name,
    /// A source says something that it may not say.
    NotAllowed,
    /// An entry of the project waits for approval.
    Waits,
    /// A key of a later version, without effect in this one.
    NotYet,
    /// There is no folder for the files of the user.
    NoHome,
    /// A file that Callboard itself keeps can't be used.
    Store,
    /// The spawn policy keeps a command from being started.
    Spawn,
    /// An allow rule that can't act.
    Rule,
}

impl IssueCode {
    /// Every kind, in the order of their pages.
    pub const ALL: [Self; 19] = [
        Self::Unreadable,
        Self::Syntax,
        Self::Shape,
        Self::Duplicate,
        Self::UnknownKey,
        Self::Value,
        Self::Conflict,
        Self::Missing,
        Self::Reference,
        Self::Unset,
        Self::NotUtf8,
        Self::Name,
        Self::NotAllowed,
        Self::Waits,
        Self::NotYet,
        Self::NoHome,
        Self::Store,
        Self::Spawn,
        Self::Rule,
    ];

    /// The stable word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unreadable => "config_unreadable",
            Self::Syntax => "config_syntax",
            Self::Shape => "config_shape",
            Self::Duplicate => "config_duplicate",
            Self::UnknownKey => "config_unknown_key",
            Self::Value => "config_value",
            Self::Conflict => "config_conflict",
            Self::Missing => "config_missing",
            Self::Reference => "config_reference",
            Self::Unset => "config_unset",
            Self::NotUtf8 => "config_not_utf8",
            Self::Name => "config_name",
            Self::NotAllowed => "config_not_allowed",
            Self::Waits => "config_waits",
            Self::NotYet => "config_not_yet",
            Self::NoHome => "config_no_home",
            Self::Store => "config_store",
            Self::Spawn => "config_spawn",
            Self::Rule => "config_rule",
        }
    }
}

impl fmt::Display for IssueCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_word_of_its_own() {
        let words: std::collections::BTreeSet<&str> = IssueCode::ALL.iter().map(|c| c.as_str()).collect();
        assert_eq!(words.len(), IssueCode::ALL.len());
        assert!(words.iter().all(|word| word.starts_with("config_") && *word != "config_error"));
    }
}
