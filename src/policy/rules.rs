//! Allow rules: `server/tool` and `server/*`. Each names exactly one server and is
//! matched on identity, in case, never on a prefix or an exposed name. A rule that
//! can't act is reported, not dropped. Pure; read from text by the edges, asked by `access`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::id::ServerId;

/// The rules in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowRules {
    by_server: BTreeMap<ServerId, OfServer>,
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
    /// Whether it is kept because the server may be configured later; else it is left out.
    pub kept: bool,
}

impl fmt::Display for RuleFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "allow rule {:?} {}", self.rule, self.fault)
    }
}

impl AllowRules {
    /// Reads rules, given the names of all configured servers. The good ones are taken
    /// even if others are at fault.
    pub fn parse<'a>(
        rules: impl IntoIterator<Item = &'a str>,
        servers: &BTreeSet<ServerId>,
    ) -> (Self, Vec<RuleFault>) {
        let mut out = Self::default();
        let mut faults = Vec::new();
        for rule in rules {
            let written = rule.trim();
            let mut report = |fault: &str, kept| {
                faults.push(RuleFault { rule: written.to_owned(), fault: fault.to_owned(), kept });
            };
            match split(written, servers) {
                Err(fault) => report(&fault, false),
                Ok((server, tool)) => {
                    if !servers.contains(&server) {
                        report("names a server that is not configured", true);
                    }
                    out.allow(server, tool);
                }
            }
        }
        (out, faults)
    }

    /// Adds one rule; `*` means every tool of the server.
    pub fn allow(&mut self, server: ServerId, tool: &str) {
        let of = self.by_server.entry(server).or_default();
        if tool == "*" {
            of.all = true;
        } else {
            of.tools.insert(tool.to_owned());
        }
    }

    /// The rule that allows this tool, as one would write it.
    pub fn rule_for(&self, server: &ServerId, tool: &str) -> Option<String> {
        let of = self.by_server.get(server)?;
        if of.tools.contains(tool) {
            return Some(format!("{server}/{tool}"));
        }
        of.all.then(|| format!("{server}/*"))
    }

    /// All rules as one would write them, sorted.
    pub fn written(&self) -> Vec<String> {
        let of = |(server, of): (&ServerId, &OfServer)| {
            let all = of.all.then(|| format!("{server}/*"));
            all.into_iter().chain(of.tools.iter().map(|tool| format!("{server}/{tool}"))).collect::<Vec<_>>()
        };
        self.by_server.iter().flat_map(of).collect()
    }
}

/// Server and tool of a rule. A slash in a name is resolved by the configured servers.
fn split<'a>(rule: &'a str, servers: &BTreeSet<ServerId>) -> Result<(ServerId, &'a str), String> {
    let splits: Vec<(&str, &str)> =
        rule.match_indices('/').map(|(at, _)| (&rule[..at], &rule[at + 1..])).collect();
    let known: Vec<_> =
        splits.iter().filter(|(server, _)| servers.contains(&ServerId::new(server))).collect();
    let (server, tool) = match (known.as_slice(), splits.first()) {
        ([one], _) => **one,
        ([], Some(first)) => *first,
        ([], None) => return Err("is not `server/tool` or `server/*`".to_owned()),
        (several, _) => {
            let names: Vec<_> = several.iter().map(|(server, _)| *server).collect();
            return Err(format!("could mean several servers: {}", names.join(", ")));
        }
    };
    if server.is_empty() || tool.is_empty() {
        return Err("is not `server/tool` or `server/*`".to_owned());
    }
    if server.contains('*') {
        return Err("must name one server: no `*` before the slash".to_owned());
    }
    if tool != "*" && tool.contains('*') {
        return Err("may be exact or end in `/*`; other patterns belong into allowedTools".to_owned());
    }
    Ok((ServerId::new(server), tool))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers(names: &[&str]) -> BTreeSet<ServerId> {
        names.iter().map(|n| ServerId::from(*n)).collect()
    }

    fn allowed(rules: &AllowRules, server: &str, tool: &str) -> bool {
        rules.rule_for(&server.into(), tool).is_some()
    }

    #[test]
    fn rule_means_exactly_one_server_and_tool_in_case() {
        let known = servers(&["git", "github", "Git", "git_", "foo.bar", "foo_bar"]);
        let (rules, faults) = AllowRules::parse(["git/*", "foo.bar/read"], &known);
        assert!(faults.is_empty());
        assert!(allowed(&rules, "git", "anything") && allowed(&rules, "git", "a/b"));
        for server in ["github", "Git", "git_", "gi", ""] {
            assert!(!allowed(&rules, server, "anything"), "{server}");
        }
        assert!(allowed(&rules, "foo.bar", "read"));
        assert!(!allowed(&rules, "foo_bar", "read"));
        assert!(!allowed(&rules, "foo.bar", "Read") && !allowed(&rules, "foo.bar", "read2"));
    }

    #[test]
    fn rules_that_cannot_act_are_reported_by_name_and_the_others_act() {
        let (rules, faults) =
            AllowRules::parse(["a/*", "zz/*", "*(", "a", "/x", "a/", "*/x", "a/del*", ""], &servers(&["a"]));
        assert!(allowed(&rules, "a", "x"));
        let reported: Vec<_> = faults.iter().map(|f| (f.rule.as_str(), f.kept)).collect();
        let bad = ["*(", "a", "/x", "a/", "*/x", "a/del*", ""].map(|rule| (rule, false));
        assert_eq!(reported[0], ("zz/*", true));
        assert_eq!(reported[1..], bad);
        for fault in &faults {
            assert!(fault.to_string().contains(&fault.rule) && fault.fault.len() > 5, "{fault}");
        }
        assert_eq!(rules.written(), ["a/*", "zz/*"]);
    }

    #[test]
    fn slash_in_a_name_is_resolved_by_the_configured_servers() {
        let (rules, faults) = AllowRules::parse(["a/b/c", "x/y/z"], &servers(&["a/b", "x"]));
        assert!(faults.is_empty());
        assert!(allowed(&rules, "a/b", "c") && !allowed(&rules, "a", "b/c") && allowed(&rules, "x", "y/z"));
        let (rules, faults) = AllowRules::parse(["a/b/c"], &servers(&["a", "a/b"]));
        assert!(rules.written().is_empty() && faults[0].fault.contains("several servers"));
    }

    #[test]
    fn exact_rule_is_named_before_the_general_one() {
        let (rules, _) = AllowRules::parse(["a/*", "a/x"], &servers(&["a"]));
        assert_eq!(rules.rule_for(&"a".into(), "x").as_deref(), Some("a/x"));
        assert_eq!(rules.rule_for(&"a".into(), "y").as_deref(), Some("a/*"));
        assert_eq!(rules.rule_for(&"b".into(), "y"), None);
    }
}
