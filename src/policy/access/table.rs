//! The order of the policy against the table that people read (`table.txt`), in every case there is.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::tests::{entry, globs, spec};
use super::*;
use crate::config::spec::Globs;

/// The facts of a case, in the order of the columns, with every word that each can be.
const FACTS: [(&str, &[&str]); 12] = [
    ("entry", &["on", "off", "pending", "wrong"]),
    ("item", &["tool", "resource", "prompt", "method"]),
    ("denied", &["no", "yes"]),
    ("listed", &["absent", "has", "lacks"]),
    ("pin", &["-", "held"]),
    ("trust", &["untrusted", "read-only", "trusted"]),
    ("name", &["reads", "changes", "unknown"]),
    ("mode", &["plan", "safe", "readonly", "auto"]),
    ("hint", &["absent", "yes", "no"]),
    ("rule", &["no", "yes", "every"]),
    ("all", &["no", "yes"]),
    ("person", &["no", "yes"]),
];

struct Row {
    fits: Vec<String>,
    verdict: String,
    why: String,
}

fn rows() -> Vec<Row> {
    let lines = TABLE.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        for (word, (fact, known)) in words.iter().zip(FACTS) {
            let bare = word.trim_start_matches('!');
            assert!(bare == "*" || known.contains(&bare), "{fact} can't be {word}: {line}");
        }
        Row {
            fits: words[..FACTS.len()].iter().map(|word| (*word).to_owned()).collect(),
            verdict: words[FACTS.len()].to_owned(),
            why: words[FACTS.len() + 1..].join(" "),
        }
    };
    lines.map(row).collect()
}

/// Whether a word of the table fits a word of a case. A rule for every tool is a rule.
fn fits(pattern: &str, word: &str) -> bool {
    let word = if word == "every" { "yes" } else { word };
    match pattern.strip_prefix('!') {
        Some(other) => other != word,
        None => pattern == "*" || pattern == word,
    }
}

/// Whether a rule is the one that a row names; `…` stands for the pattern in it.
fn is_why(named: &str, rule: &str) -> bool {
    named.strip_suffix('…').map_or(named == rule, |start| rule.starts_with(start))
}

/// The pieces that are slow to make.
struct Parts {
    fitting: Globs,
    other: Globs,
    rules: BTreeMap<&'static str, AllowRules>,
}

const NAMES: [(&str, &str); 3] = [("reads", "get_x"), ("changes", "delete_x"), ("unknown", "weather")];
/// Known requests of the protocol for the same three looks: these count for nothing.
const METHODS: [(&str, &str); 3] =
    [("reads", "completion/complete"), ("changes", "resources/unsubscribe"), ("unknown", "logging/setLevel")];

impl Parts {
    fn new() -> Self {
        let rules = |tools: &[&str]| {
            let mut rules = AllowRules::default();
            tools.iter().for_each(|tool| rules.allow(Scope::User, "s".into(), tool));
            // What must never count: another tool, another server, another scope.
            rules.allow(Scope::User, "s".into(), "get_");
            rules.allow(Scope::User, "S".into(), "*");
            rules.allow(Scope::Project, "s".into(), "*");
            rules
        };
        let exact = NAMES.map(|(_, name)| name);
        let rules = BTreeMap::from([("no", rules(&[])), ("yes", rules(&exact)), ("every", rules(&["*"]))]);
        Self { fitting: globs(&["none", "*e*"]), other: globs(&["none"]), rules }
    }

    fn decide(&self, case: &[&str]) -> Verdict {
        let kind = match case[1] {
            "tool" => ItemKind::Tool,
            "resource" => ItemKind::Resource,
            "prompt" => ItemKind::Prompt,
            _ => ItemKind::Method,
        };
        self.decide_as(kind, if kind == ItemKind::Method { METHODS } else { NAMES }, case)
    }

    fn decide_as(&self, kind: ItemKind, names: [(&str, &str); 3], case: &[&str]) -> Verdict {
        let [state, _, denied, listed, pin, trust, name, mode, hint, rule, all, person] = case else {
            panic!("{case:?}")
        };
        let mut spec = spec();
        spec.denied_tools = if *denied == "yes" { self.fitting.clone() } else { self.other.clone() };
        spec.allowed_tools = match *listed {
            "has" => Some(self.fitting.clone()),
            "lacks" => Some(self.other.clone()),
            _ => None,
        };
        spec.trust = match *trust {
            "trusted" => Trust::Trusted,
            "read-only" => Trust::ReadOnly,
            _ => Trust::Untrusted,
        };
        spec.allow_all_tools = *all == "yes";
        let entry = entry(match *state {
            "off" => EntryState::Disabled,
            "pending" => EntryState::Pending,
            "wrong" => EntryState::Invalid,
            _ => EntryState::Ready(Arc::new(spec)),
        });
        let named = names.iter().find(|(look, _)| look == name).unwrap().1;
        decide(&Question {
            entry: &entry,
            kind,
            name: named,
            hints: Hints {
                read_only: match *hint {
                    "yes" => Some(true),
                    "no" => Some(false),
                    _ => None,
                },
                // None of these says that nothing is changed.
                destructive: Some(false),
                idempotent: Some(true),
                open_world: Some(false),
            },
            mode: Mode::parse(mode).unwrap(),
            rules: &self.rules[rule],
            held: (*pin == "held").then_some(&Held::Full),
            granted: *person == "yes",
        })
    }
}

/// Shows every case to `check`.
fn every_case(mut check: impl FnMut(&[&str])) -> usize {
    let mut at = [0; FACTS.len()];
    let mut count = 0;
    loop {
        let case: Vec<&str> = at.iter().zip(FACTS).map(|(at, (_, words))| words[*at]).collect();
        check(&case);
        count += 1;
        let Some(turn) = (0..FACTS.len()).rev().find(|n| at[*n] + 1 < FACTS[*n].1.len()) else {
            return count;
        };
        at[turn] += 1;
        at[turn + 1..].fill(0);
    }
}

#[test]
fn every_case_is_decided_as_the_table_says_and_no_row_is_idle() {
    let (rows, parts) = (rows(), Parts::new());
    let mut used = vec![0; rows.len()];
    let count = every_case(|case| {
        let fitting = rows.iter().position(|row| row.fits.iter().zip(case).all(|(p, w)| fits(p, w)));
        let at = fitting.unwrap_or_else(|| panic!("no row fits {case:?}"));
        used[at] += 1;
        let verdict = parts.decide(case);
        let (word, rule) = match &verdict {
            Verdict::Run(rule) => ("run", rule),
            Verdict::Ask(refusal) => ("ask", &refusal.rule),
            Verdict::Refuse(refusal) => ("refuse", &refusal.rule),
        };
        let row = &rows[at];
        let agree = row.verdict == word && is_why(&row.why, &rule.describe());
        assert!(agree, "{case:?}: the table says {} ({}), not {verdict:?}", row.verdict, row.why);
        if let Verdict::Refuse(refusal) | Verdict::Ask(refusal) = &verdict {
            assert!(refusal.fix.is_some() && refusal.text.contains('s'), "{case:?}: {refusal:?}");
        }
    });
    assert_eq!(count, FACTS.iter().map(|(_, words)| words.len()).product::<usize>());
    let idle: Vec<String> =
        rows.iter().zip(&used).filter(|(_, used)| **used == 0).map(|(row, _)| row.fits.join(" ")).collect();
    assert!(idle.is_empty(), "{idle:?}");
}

#[test]
fn what_must_never_run_is_refused_in_every_case() {
    let parts = Parts::new();
    every_case(|case| {
        let (is_tool, verdict) = (case[1] == "tool", parts.decide(case));
        if case[0] != "on" || case[4] == "held" || (is_tool && case[2] == "yes") {
            assert!(matches!(verdict, Verdict::Refuse(_)), "{case:?}");
        }
        if case[7] == "plan" && is_tool && matches!(verdict, Verdict::Run(_)) {
            assert_eq!((case[5], case[8]), ("trusted", "yes"), "{case:?}");
        }
    });
}

#[test]
fn a_method_that_nobody_knows_is_decided_as_a_tool_of_that_name() {
    let parts = Parts::new();
    every_case(|case| {
        if case[1] == "tool" {
            assert_eq!(parts.decide_as(ItemKind::Method, NAMES, case), parts.decide(case), "{case:?}");
        }
    });
}
