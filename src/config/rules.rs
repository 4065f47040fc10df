//! Floor 1. Allow rules in force: `server/tool` and `server/*`, each for the entry of one scope. Matched on
//! identity, in case, never on a prefix or an exposed name. What the file of rules says is the
//! matter of `rule_book`. Asked by `policy::access`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::config::spec::Scope;
use crate::id::ServerId;

/// The word for every tool of a server.
pub const EVERY_TOOL: &str = "*";

/// The rules in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowRules {
    by_server: BTreeMap<(Scope, ServerId), OfServer>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct OfServer {
    all: bool,
    tools: BTreeSet<String>,
}

/// A rule that does not act.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleFault {
    /// The rule as written.
    pub rule: String,
    /// What is wrong with it.
    pub fault: String,
    /// Whether it will act once the server is configured; else it never does.
    pub waits: bool,
}

impl fmt::Display for RuleFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "allow rule {:?} {}", self.rule, self.fault)
    }
}

impl AllowRules {
    /// Adds one rule for the entry of that scope; `*` means every tool of the server.
    pub fn allow(&mut self, scope: Scope, server: ServerId, tool: &str) {
        let of = self.by_server.entry((scope, server)).or_default();
        if tool == EVERY_TOOL {
            of.all = true;
        } else {
            of.tools.insert(tool.to_owned());
        }
    }

    /// Adds all rules of another set.
    pub fn extend(&mut self, other: &Self) {
        for ((scope, server), of) in &other.by_server {
            let mine = self.by_server.entry((*scope, server.clone())).or_default();
            mine.all |= of.all;
            mine.tools.extend(of.tools.iter().cloned());
        }
    }

    /// Adds the rules of another set for the entry of that scope and name, for one of the servers of that
    /// name.
    pub fn take(&mut self, other: &Self, scope: Scope, server: &ServerId) {
        if let Some(of) = other.by_server.get(&(scope, server.plain())) {
            self.by_server.insert((scope, server.clone()), of.clone());
        }
    }

    /// The rule that allows this tool of the entry of that scope, as one would write it.
    pub fn rule_for(&self, scope: Scope, server: &ServerId, tool: &str) -> Option<String> {
        let of = self.by_server.get(&(scope, server.clone()))?;
        if of.tools.contains(tool) {
            return Some(format!("{server}/{tool}"));
        }
        of.all.then(|| format!("{server}/{EVERY_TOOL}"))
    }

    /// All rules as one would write them, with the scope of the entry, sorted.
    pub fn written(&self) -> Vec<(Scope, String)> {
        let of = |((scope, server), of): (&(Scope, ServerId), &OfServer)| {
            let all = of.all.then_some(EVERY_TOOL);
            let tools = all.into_iter().chain(of.tools.iter().map(String::as_str));
            tools.map(|tool| (*scope, format!("{server}/{tool}"))).collect::<Vec<_>>()
        };
        self.by_server.iter().flat_map(of).collect()
    }
}

/// Server and tool of a rule as written. A server's name has no slash, a tool's may.
///
/// # Errors
/// What is wrong with it, as the rest of a sentence that begins with the rule.
pub fn split(rule: &str) -> Result<(ServerId, &str), String> {
    let Some((server, tool)) = rule.split_once('/') else {
        return Err("is not `server/tool` or `server/*`".to_owned());
    };
    if server.is_empty() {
        return Err("is not `server/tool` or `server/*`".to_owned());
    }
    if server.contains('*') {
        return Err("must name one server: no `*` before the slash".to_owned());
    }
    check_tool(tool)?;
    Ok((ServerId::new(server), tool))
}

/// Whether a rule can name a tool so.
///
/// # Errors
/// What is wrong with it, as the rest of a sentence that begins with the rule.
pub fn check_tool(tool: &str) -> Result<(), String> {
    if tool.is_empty() {
        return Err("names no tool".to_owned());
    }
    if tool != EVERY_TOOL && tool.contains('*') {
        return Err("may be exact or end in `/*`; other patterns belong into allowedTools".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(written: &[&str]) -> AllowRules {
        let mut out = AllowRules::default();
        for rule in written {
            let (server, tool) = split(rule).unwrap();
            out.allow(Scope::User, server, tool);
        }
        out
    }

    fn allowed(rules: &AllowRules, server: &str, tool: &str) -> bool {
        rules.rule_for(Scope::User, &server.into(), tool).is_some()
    }

    /// B128
    #[test]
    fn rule_means_exactly_one_server_and_tool_in_case() {
        let rules = rules(&["git/*", "foo.bar/read"]);
        assert!(allowed(&rules, "git", "anything") && allowed(&rules, "git", "a/b"));
        for server in ["github", "Git", "git_", "gi", ""] {
            assert!(!allowed(&rules, server, "anything"), "{server}");
        }
        assert!(allowed(&rules, "foo.bar", "read"));
        assert!(!allowed(&rules, "foo_bar", "read"));
        assert!(!allowed(&rules, "foo.bar", "Read") && !allowed(&rules, "foo.bar", "read2"));
        assert_eq!(rules.rule_for(Scope::Project, &"git".into(), "x"), None, "another entry of that name");
    }

    #[test]
    fn what_is_no_rule_says_why() {
        for bad in ["*(", "a", "/x", "a/", "*/x", "a/del*", "a/**", ""] {
            assert!(split(bad).is_err_and(|why| why.len() > 5), "{bad}");
        }
        assert_eq!(split("a/b/c"), Ok((ServerId::new("a"), "b/c")));
    }

    #[test]
    fn exact_rule_is_named_before_the_general_one() {
        let mut rules = rules(&["a/*", "a/x"]);
        let named =
            |rules: &AllowRules, server: &str, tool| rules.rule_for(Scope::User, &server.into(), tool);
        assert_eq!(named(&rules, "a", "x").as_deref(), Some("a/x"));
        assert_eq!(named(&rules, "a", "y").as_deref(), Some("a/*"));
        assert_eq!(named(&rules, "b", "y"), None);
        let mut more = AllowRules::default();
        more.allow(Scope::Project, "b".into(), "y");
        rules.extend(&more);
        let written: Vec<String> =
            rules.written().into_iter().map(|(scope, rule)| format!("{} {rule}", scope.as_str())).collect();
        assert_eq!(written, ["user a/*", "user a/x", "project b/y"]);
    }
}
