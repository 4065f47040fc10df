//! The habits that a machine can see: sizes, opening comments, bans, bounds, one writer.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{Source, Token};
use super::tree::Tree;

/// Longest file, in lines that are not tests.
const FILE_LINES_MAX: usize = 500;

/// Who else may publish a snapshot, and when: never at the same time as its writer.
const HEIRS: [(&str, &str, &str); 1] =
    [("ServerView", "supervisor", "speaks for a server whose actor failed for good, after its end")];

/// Who may look into a secret, and what for. Everything else passes it on unseen.
const REVEALERS: [(&str, &str); 14] = [
    ("src/agent/model/endpoint.rs", "hands the key of the model to its endpoint"),
    ("src/cli/doctor.rs", "tries out what is configured"),
    ("src/cli/once.rs", "writes the entry of a server that runs once"),
    ("src/config/child_env.rs", "makes the environment of a child"),
    ("src/config/literal.rs", "compares literals"),
    ("src/config/load/world.rs", "expands stored secrets"),
    ("src/config/reveal.rs", "finds the credentials of an address that is shown as written"),
    ("src/config/secret.rs", "collects what the redactor has to know"),
    ("src/config/secret_store.rs", "is the file of stored secrets"),
    ("src/config/validate.rs", "checks addresses and headers"),
    ("src/policy/outbound.rs", "refuses to send it elsewhere"),
    ("src/builtins/web.rs", "hands the key of the search to the search"),
    ("src/runtime/connectors.rs", "hands it to the server that it belongs to"),
    ("src/shaping/redact/mod.rs", "hides it"),
];

/// Secrets that are looked into at a place that is not listed, and logs past the redactor.
pub(crate) fn choke_points(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for file in tree.src() {
        let tokens = file.tokens();
        let known = REVEALERS.iter().any(|(path, _)| *path == file.path);
        for (at, token) in tokens.iter().enumerate() {
            let called = at > 0 && matches!(tokens[at - 1].text.as_str(), "." | "::");
            if file.is_test(token.at) || !called {
                continue;
            }
            let of_module = at > 1 && tokens[at - 2].text == "reveal";
            if token.text == "reveal"
                && !known
                && !of_module
                && tokens.get(at + 1).is_some_and(|next| next.text != "::")
            {
                found.push(format!(
                    "{}: a secret is looked into; list the file and say why",
                    file.place(token.at)
                ));
            }
            let writer = tokens.get(at + 2).map_or("", |next| next.text.as_str());
            if token.text == "with_writer" && writer != "RedactedStderr" {
                found.push(format!("{}: a log goes through RedactedStderr", file.place(token.at)));
            }
        }
    }
    found
}

/// Files over the cap, or without their opening comment.
pub(crate) fn shapes(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for file in tree.rust() {
        let lines = file.lines_without_tests();
        if lines > FILE_LINES_MAX {
            found.push(format!("{}: {lines} lines without tests, at most {FILE_LINES_MAX}", file.path));
        }
        if !file.text.starts_with("//!") {
            found.push(format!("{}: must open with //! (owns, must never do, who calls it)", file.path));
        }
    }
    found
}

/// Things that stand in for finished work, or switch a check off without a reason.
pub(crate) fn bans(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for file in tree.rust() {
        let tokens = file.tokens();
        for i in 0..tokens.len() {
            let hit = attribute(&tokens, i).or_else(|| nap(file, &tokens, i)).or_else(|| stub(&tokens, i));
            if let Some(message) = hit {
                found.push(format!("{}: {message}", file.place(tokens[i].at)));
            }
        }
    }
    found
}

fn word(tokens: &[Token], i: usize) -> &str {
    tokens.get(i).map_or("", |token| token.text.as_str())
}

fn attribute(tokens: &[Token], i: usize) -> Option<&'static str> {
    let open = if word(tokens, i + 1) == "!" { i + 2 } else { i + 1 };
    if word(tokens, i) != "#" || word(tokens, open) != "[" {
        return None;
    }
    let inside = tokens[open + 1..].iter().take_while(|t| t.text != "]");
    let words: Vec<&str> = inside.map(|t| t.text.as_str()).collect();
    let has = |name: &str| words.windows(2).any(|w| w[0] == name && (w[1] == "(" || w[1] == "="));
    if has("allow") {
        return Some("allow hides a warning for ever; use #[expect(…, reason = \"…\")]");
    }
    if has("expect") && !words.contains(&"reason") {
        return Some("#[expect] needs a reason");
    }
    (words.first() == Some(&"ignore")).then_some("an ignored test is no test")
}

fn nap(file: &Source, tokens: &[Token], i: usize) -> Option<&'static str> {
    let called = word(tokens, i) == "sleep" && word(tokens, i + 1) == "(";
    (called && file.is_test(tokens[i].at))
        .then_some("no sleep in tests: pause the clock, or wait on a condition")
}

fn stub(tokens: &[Token], i: usize) -> Option<&'static str> {
    let is_stub = matches!(word(tokens, i), "unimplemented" | "todo") && word(tokens, i + 1) == "!";
    is_stub.then_some("a stub is not finished work")
}

/// Locks and atomics in the actors: one writer each, readers get snapshots.
pub(crate) fn locks(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for file in tree.src().filter(|f| f.path.starts_with("src/actors/")) {
        for token in file.tokens().iter().filter(|t| !file.is_test(t.at)) {
            let lock = matches!(token.text.as_str(), "Mutex" | "RwLock" | "Condvar");
            if lock || token.text.starts_with("Atomic") {
                found.push(format!("{}: {} in an actor", file.place(token.at), token.text));
            }
        }
    }
    found
}

/// Queues without a named bound: `channel(64)` instead of `channel(CALL_EVENTS_MAX)`.
pub(crate) fn queues(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for file in tree.src() {
        let tokens = file.tokens();
        for i in 0..tokens.len() {
            if word(&tokens, i) != "mpsc" || word(&tokens, i + 1) != "::" || file.is_test(tokens[i].at) {
                continue;
            }
            let place = || file.place(tokens[i].at);
            match word(&tokens, i + 2) {
                "unbounded_channel" | "UnboundedSender" => found.push(format!("{}: unbounded", place())),
                "channel" => {
                    let args = tokens[i + 3..].iter().skip_while(|t| t.text != "(").nth(1);
                    let bare = args.is_some_and(|t| t.text.as_bytes()[0].is_ascii_digit());
                    if bare {
                        found.push(format!("{}: give the bound of this queue a name", place()));
                    }
                }
                _ => {}
            }
        }
    }
    found
}

/// Snapshots that more than one actor publishes, and senders made outside `runtime`.
pub(crate) fn writers(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    let mut owners: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for file in tree.src().filter(|f| f.path.starts_with("src/actors/")) {
        let actor = file.path["src/actors/".len()..].split(['/', '.']).next().unwrap_or_default();
        let tokens = file.tokens();
        for i in (0..tokens.len()).filter(|i| !file.is_test(tokens[*i].at)) {
            let head: Vec<&str> = (i..i + 4).map(|k| word(&tokens, k)).collect();
            if head == ["watch", "::", "Sender", "<"] {
                let what = generic(&tokens, i + 3);
                if !HEIRS.iter().any(|(heirloom, heir, _)| *heirloom == what && *heir == actor) {
                    owners.entry(what).or_default().insert(actor);
                }
            }
        }
    }
    for (what, actors) in owners.iter().filter(|(_, actors)| actors.len() > 1) {
        found.push(format!("watch::Sender<{what}> has several writers: {actors:?}"));
    }
    found
}

/// The text between the angle brackets that open at `open`.
fn generic(tokens: &[Token], open: usize) -> String {
    let mut depth = 0usize;
    let mut text = String::new();
    for token in &tokens[open..] {
        match token.text.as_str() {
            "<" => depth += 1,
            ">" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            break;
        }
        text.push_str(&token.text);
    }
    text.trim_start_matches('<').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OK: &str = "//! Owns nothing.\n";

    fn one(check: fn(&Tree) -> Vec<String>, path: &str, text: &str) -> usize {
        check(&Tree::of(&[(path, &format!("{OK}{text}"))])).len()
    }

    #[test]
    fn a_long_file_is_found_and_its_tests_are_not_counted() {
        let body = "const A: u8 = 1;\n".repeat(FILE_LINES_MAX - 1);
        assert_eq!(one(shapes, "src/id.rs", &body), 0);
        assert_eq!(one(shapes, "src/id.rs", &format!("{body}// more\n")), 1);
        let tests = "#[cfg(test)]\nmod tests {\n    // x\n    // y\n}\n";
        assert_eq!(one(shapes, "src/id.rs", &format!("{body}{tests}")), 0);
    }

    #[test]
    fn test_modules_in_their_own_file_are_tests() {
        let long = format!("{OK}{}", "// x\n".repeat(FILE_LINES_MAX * 2));
        let declared =
            [("src/wire/mod.rs", "//! W.\n#[cfg(test)]\nmod golden;\n"), ("src/wire/golden.rs", &long)];
        assert_eq!(shapes(&Tree::of(&declared)), Vec::<String>::new());
        let plain = [("src/wire/mod.rs", "//! W.\nmod golden;\n"), ("src/wire/golden.rs", &long)];
        assert_eq!(shapes(&Tree::of(&plain)).len(), 1);
    }

    #[test]
    fn a_file_without_its_opening_comment_is_found() {
        assert_eq!(shapes(&Tree::of(&[("src/id.rs", "use std::fmt;\n")])).len(), 1);
    }

    #[test]
    fn hidden_warnings_ignored_tests_and_stubs_are_found() {
        for text in [
            "#[allow(dead_code)] fn f() {}",
            "#![allow(unused)]",
            "#[expect(dead_code)] fn f() {}",
            "#[ignore] #[test] fn f() {}",
            "#[ignore = \"slow\"] fn f() {}",
            "fn f() { unimplemented!() }",
            "fn f() { todo!(\"later\") }",
            "#[cfg_attr(x, allow(unused))] fn f() {}",
        ] {
            assert_eq!(one(bans, "src/id.rs", text), 1, "{text}");
        }
        for text in
            ["#[expect(unused, reason = \"x\")] fn f() {}", "// #[ignore]", "fn f() { x.expect(\"y\") }"]
        {
            assert_eq!(one(bans, "src/id.rs", text), 0, "{text}");
        }
    }

    #[test]
    fn a_sleeping_test_is_found_and_a_sleeping_program_is_not() {
        assert_eq!(one(bans, "tests/it.rs", "async fn f() { tokio::time::sleep(D).await }"), 1);
        assert_eq!(one(bans, "src/id.rs", "#[cfg(test)] mod t { fn f() { thread::sleep(D) } }"), 1);
        assert_eq!(one(bans, "src/demo/x.rs", "fn f() { thread::sleep(D) }"), 0);
        assert_eq!(one(bans, "tests/badmcp/main.rs", "fn f() { thread::sleep(D) }"), 0);
    }

    #[test]
    fn a_lock_in_an_actor_is_found() {
        assert_eq!(one(locks, "src/actors/server/x.rs", "use std::sync::Mutex;"), 1);
        assert_eq!(one(locks, "src/actors/server/x.rs", "struct A(AtomicU64);"), 1);
        assert_eq!(one(locks, "src/transport/x.rs", "use std::sync::Mutex;"), 0);
    }

    #[test]
    fn a_queue_without_a_named_bound_is_found() {
        assert_eq!(one(queues, "src/runtime.rs", "fn f() { mpsc::channel(64) }"), 1);
        assert_eq!(one(queues, "src/runtime.rs", "fn f() { mpsc::channel::<u8>(64) }"), 1);
        assert_eq!(one(queues, "src/runtime.rs", "fn f() { mpsc::unbounded_channel() }"), 1);
        assert_eq!(one(queues, "src/runtime.rs", "fn f() { mpsc::channel(EVENTS_MAX) }"), 0);
        assert_eq!(one(queues, "src/runtime.rs", "fn f() { mpsc::channel(plan.queue_len_max) }"), 0);
    }

    #[test]
    fn a_snapshot_with_two_writers_is_found() {
        let both = [
            ("src/actors/registry/a.rs", "struct A { tx: watch::Sender<Arc<Catalog>> }"),
            ("src/actors/server/b.rs", "struct B { tx: watch::Sender<Arc<Catalog>> }"),
        ];
        assert_eq!(writers(&Tree::of(&both)).len(), 1);
        assert_eq!(writers(&Tree::of(&both[..1])).len(), 0);
    }
}
