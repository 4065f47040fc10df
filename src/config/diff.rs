//! Floor 1. What a reload has to do: the difference of two server sets by name. Called by
//! the supervisor's edge of `reload`.

use super::spec::{Entry, EntryState, ServerSet};
use crate::id::ServerId;

/// What happened to one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// New.
    Added(ServerId),
    /// Gone.
    Removed(ServerId),
    /// Runs differently, or may run now, or no longer.
    Changed(ServerId),
    /// Runs exactly as before: must not notice the reload.
    Unchanged(ServerId),
}

impl Change {
    /// The name.
    pub fn id(&self) -> &ServerId {
        match self {
            Self::Added(id) | Self::Removed(id) | Self::Changed(id) | Self::Unchanged(id) => id,
        }
    }
}

/// One change for each name of either set, sorted by name. Ready entries are compared by
/// their expanded spec, so a changed variable counts and a moved file does not.
pub fn diff(old: &ServerSet, new: &ServerSet) -> Vec<Change> {
    let mut changes: Vec<Change> = old
        .entries
        .iter()
        .filter(|entry| new.get(entry.id.as_str()).is_none())
        .map(|entry| Change::Removed(entry.id.clone()))
        .collect();
    for entry in &new.entries {
        let id = entry.id.clone();
        changes.push(match old.get(id.as_str()) {
            None => Change::Added(id),
            Some(before) if same(before, entry) => Change::Unchanged(id),
            Some(_) => Change::Changed(id),
        });
    }
    changes.sort_by(|a, b| a.id().cmp(b.id()));
    changes
}

/// Whether both run the same: a reload leaves such an entry alone.
pub fn same(a: &Entry, b: &Entry) -> bool {
    match (&a.state, &b.state) {
        (EntryState::Ready(a), EntryState::Ready(b)) => a == b,
        (EntryState::Disabled, EntryState::Disabled) => true,
        (EntryState::Pending, EntryState::Pending) | (EntryState::Invalid, EntryState::Invalid) => {
            a.hash == b.hash && a.issues == b.issues
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::document::{self, Form};
    use crate::config::expand::Lookup;
    use crate::config::host::HostSettings;
    use crate::config::merge::{Merge, merge};
    use crate::config::spec::{Scope, Source};
    use crate::config::validate::{Context, World};
    use std::path::{Path, PathBuf};

    /// A machine with one variable and no files.
    struct Machine(&'static str);

    impl Lookup for Machine {
        fn var(&self, name: &str) -> Option<String> {
            (name == "V").then(|| self.0.to_owned())
        }
        fn secret(&self, _: &str) -> Option<String> {
            None
        }
    }

    impl World for Machine {
        fn is_dir(&self, _: &Path) -> bool {
            false
        }
        fn is_program(&self, _: &Path) -> bool {
            false
        }
        fn search(&self, _: &str, _: &str, _: &Path) -> Option<PathBuf> {
            None
        }
    }

    fn set_in(text: &str, scope: Scope, variable: &'static str) -> ServerSet {
        let source = Source { scope, origin: format!("{scope:?}").into() };
        let document = document::parse(text, &source, Path::new("/"), Form::Inline);
        let settings = HostSettings::default();
        let context = Context { world: &Machine(variable), settings: &settings, cwd: Path::new("/") };
        let rules = Merge { context, project: Path::new("/"), approvals: &[] };
        merge(&document.definitions, document.issues, rules)
    }

    fn set(text: &str) -> ServerSet {
        set_in(text, Scope::User, "v")
    }

    fn words(changes: &[Change]) -> String {
        let words = changes.iter().map(|change| match change {
            Change::Added(id) => format!("+{id}"),
            Change::Removed(id) => format!("-{id}"),
            Change::Changed(id) => format!("~{id}"),
            Change::Unchanged(id) => format!("={id}"),
        });
        words.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn each_name_is_told_once_sorted_with_what_happened() {
        let old = set(r#"{"a": {"command": "x"}, "b": {"command": "x"}, "c": {"command": "x"}}"#);
        let new = set(r#"{"d": {"command": "x"}, "c": {"command": "y"}, "a": {"command": "x"}}"#);
        assert_eq!(words(&diff(&old, &new)), "=a -b ~c +d");
        assert_eq!(words(&diff(&new, &old)), "=a +b ~c -d");
        assert_eq!(words(&diff(&old, &old)), "=a =b =c");
        assert_eq!(words(&diff(&ServerSet::default(), &ServerSet::default())), "");
    }

    #[test]
    fn layout_and_source_do_not_count_and_an_expanded_value_does() {
        let text = r#"{"a": {"command": "x", "args": ["${V}"]}}"#;
        let other_layout = "{ /* moved */ \"a\": {\"args\": [\"${V}\"], \"command\": \"x\",},}";
        let old = set(text);
        assert_eq!(words(&diff(&old, &set_in(other_layout, Scope::Flag, "v"))), "=a");
        assert_eq!(words(&diff(&old, &set_in(text, Scope::User, "w"))), "~a");
    }

    #[test]
    fn a_change_of_state_counts() {
        let on = set(r#"{"a": {"command": "x"}}"#);
        let off = set(r#"{"a": {"command": "x", "enabled": false}}"#);
        let bad = set(r#"{"a": {"command": 1}}"#);
        let worse = set(r#"{"a": {"command": 2, "url": 3}}"#);
        let waits = set_in(r#"{"a": {"command": "x"}}"#, Scope::Project, "v");
        for (old, new, expected) in [
            (&on, &off, "~a"),
            (&off, &on, "~a"),
            (&off, &off, "=a"),
            (&on, &bad, "~a"),
            (&bad, &bad, "=a"),
            (&bad, &worse, "~a"),
            (&on, &waits, "~a"),
            (&waits, &waits, "=a"),
            (&waits, &off, "~a"),
        ] {
            assert_eq!(words(&diff(old, new)), expected);
        }
    }
}
