//! The file of rules: what acts, what is reported, and what a change leaves alone.

use super::*;
use proptest::prelude::*;

fn user(server: &str) -> RuleKey {
    RuleKey::of(Scope::User, Path::new("/p"), &server.into())
}

fn theirs(root: &str, server: &str) -> RuleKey {
    RuleKey::of(Scope::Project, Path::new(root), &server.into())
}

fn tools(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn book(blocks: Value) -> RuleBook {
    RuleBook::parse(&json!({"version": 1, "servers": blocks}).to_string()).unwrap()
}

fn written(rules: &AllowRules) -> Vec<String> {
    rules.written().into_iter().map(|(scope, rule)| format!("{} {rule}", scope.as_str())).collect()
}

/// B127
#[test]
fn rules_that_cannot_act_are_reported_by_name_and_the_others_act() {
    let book = book(json!([
        {"scope": "user", "server": "a", "tools": ["*", "del*", "", 7, "x"]},
        {"scope": "user", "server": "zz", "tools": ["*"]},
        {"scope": "user", "server": "*(", "tools": ["**"]},
        {"scope": "mine", "server": "b", "tools": []},
        {"scope": "user", "tools": []},
        {"scope": "user", "server": "c", "project": "/p", "tools": []},
        {"scope": "project", "server": "d", "tools": []},
        {"scope": "user", "server": "e", "tools": "*"},
        "nonsense",
    ]));
    let (rules, faults) = book.in_force(Path::new("/p"), |_, server| server.as_str() == "a");
    assert_eq!(written(&rules), ["user a/*", "user a/x", "user zz/*"]);
    let reported: Vec<_> = faults.iter().map(|fault| (fault.rule.as_str(), fault.waits)).collect();
    assert_eq!(
        reported,
        [
            ("a/del*", false),
            ("a/", false),
            ("a/7", false),
            ("zz/…", true),
            ("*(/**", false),
            ("*(/…", true),
            ("b/…", false),
            ("?/…", false),
            ("c/…", false),
            ("d/…", false),
            ("e/…", false),
            ("?/…", false),
        ]
    );
    for fault in &faults {
        assert!(fault.to_string().contains(&fault.rule) && fault.fault.len() > 5, "{fault}");
    }
}

#[test]
fn a_block_counts_for_its_own_scope_and_project_alone() {
    let mut book = RuleBook::default();
    book.set(&user("s"), &tools(&["mine"]));
    book.set(&theirs("/p", "s"), &tools(&["theirs"]));
    book.set(&theirs("/q", "s"), &tools(&["others"]));
    let (rules, faults) = book.in_force(Path::new("/p"), |_, _| true);
    assert!(faults.is_empty());
    assert_eq!(written(&rules), ["user s/mine", "project s/theirs"]);
    assert_eq!(written(&book.in_force(Path::new("/P"), |_, _| true).0), ["user s/mine"]);
}

#[test]
fn a_block_is_replaced_as_a_whole_and_takes_no_rule_of_another_server() {
    let mut book = book(json!([
        {"scope": "user", "server": "git", "tools": ["a", "b"]},
        {"scope": "user", "server": "github", "tools": ["c", "bad*"], "note": "kept"},
    ]));
    let before = book.clone();
    for rule in ["github/x", "Git/x", "gi/x", "git", "git/", "*/x", "git/x*"] {
        let faults = book.replace(&user("git"), &["git/fine".into(), rule.into()]).unwrap_err();
        assert_eq!(faults.len(), 1, "{rule}");
        assert_eq!(faults[0].rule, rule);
        assert_eq!(book, before, "{rule}: nothing changed");
    }
    book.replace(&user("git"), &["git/x".into(), "git/y/z".into()]).unwrap();
    assert_eq!(book.tools(&user("git")), tools(&["x", "y/z"]));
    assert_eq!(book.blocks[1], before.blocks[1], "faults and strange keys of others stay");
    book.replace(&user("git"), &[]).unwrap();
    assert_eq!(book.blocks, before.blocks[1..]);
}

#[test]
fn two_blocks_of_one_entry_become_one_at_a_change() {
    let mut book = book(json!([
        {"scope": "user", "server": "s", "tools": ["a"]},
        {"scope": "user", "server": "t", "tools": ["a"]},
        {"scope": "user", "server": "s", "tools": ["b"]},
    ]));
    assert_eq!(book.tools(&user("s")), tools(&["a", "b"]));
    book.set(&user("s"), &tools(&["c"]));
    assert_eq!((book.blocks.len(), book.tools(&user("s"))), (2, tools(&["c"])));
}

#[test]
fn what_is_no_file_of_rules_is_not_understood() {
    for text in [
        "",
        "{",
        "[]",
        "{}",
        r#"{"version":2,"servers":[]}"#,
        r#"{"version":1}"#,
        r#"{"version":1,"servers":{}}"#,
    ] {
        assert_eq!(RuleBook::parse(text), None, "{text}");
    }
}

proptest! {
    #[test]
    fn a_change_of_one_entry_leaves_every_other_as_it_was(
        edits in prop::collection::vec((0usize..4, prop::collection::btree_set("[a-c*]", 0..3)), 1..12),
    ) {
        let keys = [user("a"), user("ab"), theirs("/p", "a"), theirs("/q", "a")];
        let mut book = RuleBook::default();
        let mut model = std::collections::BTreeMap::new();
        for (at, names) in edits {
            book.set(&keys[at], &names);
            model.insert(at, names);
            book = RuleBook::parse(&book.to_text()).unwrap();
            for (at, key) in keys.iter().enumerate() {
                prop_assert_eq!(book.tools(key), model.get(&at).cloned().unwrap_or_default());
            }
        }
    }

    #[test]
    fn no_text_makes_reading_panic(text in ".{0,60}") {
        if let Some(book) = RuleBook::parse(&text) {
            book.in_force(Path::new("/p"), |_, _| true);
        }
    }
}
