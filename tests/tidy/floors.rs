//! The floors: which crates and which modules each part of `src/` may name. The table of
//! ARCHITECTURE.md, as code.

use std::collections::{BTreeMap, BTreeSet};

use super::source::Source;
use super::tree::Tree;

/// Modules of `src/` with their floor. A module that is not listed fails the check.
const FLOORS: [(&str, u8); 35] = [
    ("id", 0),
    ("time", 0),
    ("call", 0),
    ("view", 1),
    ("wire", 1),
    ("policy", 1),
    ("catalog", 1),
    ("shaping", 1),
    ("config", 1),
    ("config::load", 2),
    ("config::approvals", 2),
    ("config::edit", 2),
    ("config::rule_file", 2),
    ("config::effective", 2),
    ("config::switch", 2),
    ("config::secret_store", 2),
    ("clients", 1),
    ("clients::files", 2),
    ("transport", 2),
    ("telemetry", 2),
    ("audit", 1),
    ("audit::file", 2),
    ("audit::read", 2),
    ("store", 2),
    ("outputs", 2),
    ("fence_id", 2),
    ("actors", 3),
    ("runtime", 4),
    ("builtins", 4),
    ("serve", 5),
    ("agent", 5),
    ("cli", 5),
    ("console", 5),
    ("demo", 5),
    ("bin", 6),
];

/// Crates that each floor may name beyond those of the floors below it. Floor 1 has only pure
/// libraries; a new one is a decision, and is made here.
const CRATES: [&[&str]; 7] = [
    &["bytes", "serde", "rmcp"],
    &[
        "aho_corasick",
        "base64",
        "globset",
        "hmac",
        "humantime",
        "jsonc_parser",
        "jsonschema",
        "memchr",
        "regex",
        "serde_json",
        "sha2",
        "simdutf8",
        "wide",
        "strsim",
        "toml_edit",
        "unicode_normalization",
        "unicode_segmentation",
        "unicode_width",
        "url",
    ],
    &[
        "close_fds",
        "figment",
        "futures_util",
        "getrandom",
        "http",
        "http_body",
        "h2",
        "hyper",
        "hyper_rustls",
        "hyper_util",
        "landlock",
        "libc",
        "rustix",
        "rustls",
        "rustls_platform_verifier",
        "seccompiler",
        "signal_hook",
        "tempfile",
        "tokio",
        "tower_service",
        "tracing",
        "tracing_subscriber",
    ],
    &["governor", "ractor"],
    &[],
    &["clap", "clap_complete", "comfy_table", "rustyline"],
    &[],
];

/// What a single file may name although its floor may not, and why.
const EXCEPTIONS: [(&str, &str, &str); 2] = [
    ("src/time.rs", "tokio", "the one reader of clocks follows tokio's paused clock"),
    ("src/time.rs", "humantime", "writes the wall clock as RFC 3339"),
];

/// What lower floors may name and edges may not: an edge talks to refs, not to actors.
const NOT_AT_EDGES: [&str; 2] = ["ractor", "governor"];

/// Words that floors 0 and 1 must not contain, whatever they are imported from.
const IMPURE: [&str; 3] = ["rand", "SystemTime::now", "Instant::now"];

/// Parts of the standard library that floors 0 and 1 must not name.
const IMPURE_STD: [&str; 6] = ["fs", "net", "process", "thread", "env", "sync::mpsc"];

/// Edges see each other only where one is a verb of another.
const EDGE_USES: [(&str, &str); 3] = [("cli", "agent"), ("cli", "demo"), ("cli", "serve")];

/// The module of `FLOORS` that a path of modules belongs to, with its floor.
fn floor_of(module: &[String]) -> Option<(&'static str, u8)> {
    let deep = module.iter().take(2).cloned().collect::<Vec<_>>().join("::");
    let exact = FLOORS.iter().find(|(name, _)| *name == deep);
    let top = || FLOORS.iter().find(|(name, _)| Some(*name) == module.first().map(String::as_str));
    exact.or_else(top).copied()
}

fn top_of(module: &[String]) -> Option<&'static str> {
    floor_of(module).map(|(name, _)| name.split("::").next().unwrap_or(name))
}

fn module_of(file: &Source) -> Vec<String> {
    let inner = file.path.trim_start_matches("src/").trim_end_matches(".rs").trim_end_matches("/mod");
    inner.split('/').map(str::to_owned).collect()
}

/// Every breach of the table.
pub(crate) fn breaches(tree: &Tree, crates: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for file in tree.src().filter(|f| f.path != "src/lib.rs") {
        let module = module_of(file);
        let Some((name, floor)) = floor_of(&module) else {
            found.push(format!("{}: no floor; list its module in tests/tidy/floors.rs", file.path));
            continue;
        };
        check_crates(file, floor, crates, &mut found);
        check_modules(file, &module, name, floor, &mut found);
        if floor <= 1 && file.path != "src/time.rs" {
            check_purity(file, &mut found);
        }
    }
    found
}

fn check_crates(file: &Source, floor: u8, crates: &[String], found: &mut Vec<String>) {
    let roots: Vec<&str> = crates.iter().map(String::as_str).collect();
    for (path, at) in file.paths(&roots) {
        if file.is_test(at) {
            continue;
        }
        let name = path[0].as_str();
        let known = CRATES[..=usize::from(floor)].iter().any(|set| set.contains(&name));
        let excepted = EXCEPTIONS.iter().any(|(f, c, _)| *f == file.path && *c == name);
        let barred = floor == 5 && NOT_AT_EDGES.contains(&name);
        if barred || !(known || excepted) {
            found.push(format!("{}: floor {floor} must not name crate {name}", file.place(at)));
        }
        let model = path.get(1).is_some_and(|part| part == "model");
        if name == "rmcp" && floor <= 1 && !model {
            found.push(format!("{}: floor {floor} may name rmcp::model only", file.place(at)));
        }
    }
}

fn check_modules(file: &Source, module: &[String], own: &str, floor: u8, found: &mut Vec<String>) {
    for (path, at) in file.paths(&["crate", "callboard", "super", "self"]) {
        if file.is_test(at) || path.len() < 2 {
            continue;
        }
        let Some((name, theirs)) = floor_of(&path[1..]) else { continue };
        if name == own {
            check_neighbours(file, module, &path, at, found);
            continue;
        }
        let full = path.join("::");
        if theirs > floor {
            found.push(format!("{}: floor {floor} must not import {full} of floor {theirs}", file.place(at)));
        } else if floor == 5 && theirs == 5 && !EDGE_USES.contains(&(own, name)) {
            found.push(format!("{}: edge {own} must not import edge {name}", file.place(at)));
        } else if floor == 5 && name == "actors" && !is_seam(&path) {
            found.push(format!("{}: an edge sees …Ref types and bounds only, not {full}", file.place(at)));
        }
    }
    if floor == 5 {
        for token in file.tokens() {
            if token.text.len() > 3 && token.text.ends_with("Msg") && !file.is_test(token.at) {
                found.push(format!("{}: an edge must not name {}", file.place(token.at), token.text));
            }
        }
    }
}

/// `crate::actors::x::XRef` or a named bound.
fn is_seam(path: &[String]) -> bool {
    let last = path.last().map_or("", String::as_str);
    last.ends_with("Ref") || last.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

/// One actor sees of another its reference only.
fn check_neighbours(file: &Source, module: &[String], path: &[String], at: usize, found: &mut Vec<String>) {
    let (Some(own), Some(theirs), Some(part)) = (module.get(1), path.get(2), path.get(3)) else { return };
    let inside = module[0] == "actors" && own != theirs;
    if inside && (part == "actor" || part == "state") {
        found.push(format!("{}: actor {own} must not import {}", file.place(at), path.join("::")));
    }
}

fn check_purity(file: &Source, found: &mut Vec<String>) {
    let tokens = file.tokens();
    for pair in tokens.windows(2).filter(|pair| !file.is_test(pair[0].at)) {
        let called = pair[1].text == "(";
        if called && (pair[0].text == "now" || pair[0].text == "wall") {
            let word = &pair[0].text;
            found.push(format!(
                "{}: {word}( reads a clock; take `now` as an argument",
                file.place(pair[0].at)
            ));
        }
        if IMPURE.contains(&pair[0].text.as_str()) {
            found.push(format!("{}: {} has no place on a pure floor", file.place(pair[0].at), pair[0].text));
        }
    }
    for (path, at) in file.paths(&["std"]).into_iter().filter(|(_, at)| !file.is_test(*at)) {
        let inner = path[1..].join("::");
        let hit = IMPURE_STD.iter().find(|bad| inner == **bad || inner.starts_with(&format!("{bad}::")));
        if let Some(bad) = hit {
            found.push(format!("{}: std::{bad} has no place on a pure floor", file.place(at)));
        }
    }
}

/// Circles among the top modules, by what they import outside tests.
pub(crate) fn cycles(tree: &Tree) -> Vec<String> {
    let mut uses: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for file in tree.src().filter(|f| f.path != "src/lib.rs") {
        let Some(own) = top_of(&module_of(file)) else { continue };
        for (path, at) in file.paths(&["crate", "super"]) {
            if file.is_test(at) {
                continue;
            }
            if let Some(name) = top_of(&path[1..]).filter(|name| *name != own) {
                uses.entry(own).or_default().insert(name);
            }
        }
    }
    let reach = |from: &str| {
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        let mut open: Vec<&str> = uses.get(from).into_iter().flatten().copied().collect();
        while let Some(next) = open.pop() {
            if seen.insert(next) {
                open.extend(uses.get(next).into_iter().flatten().copied());
            }
        }
        seen
    };
    let circular: Vec<&str> = uses.keys().copied().filter(|name| reach(name).contains(name)).collect();
    if circular.is_empty() {
        Vec::new()
    } else {
        vec![format!("modules import each other in a circle: {circular:?}")]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(path: &str, text: &str) -> Vec<String> {
        let crates = ["tokio", "ractor", "rmcp", "serde", "figment", "clap"].map(str::to_owned);
        breaches(&Tree::of(&[(path, text)]), &crates)
    }

    #[test]
    fn a_forbidden_crate_is_found_on_every_floor() {
        for (path, text) in [
            ("src/id.rs", "use tokio::sync::mpsc;"),
            ("src/wire/frame.rs", "fn f() { tokio::task::yield_now; }"),
            ("src/policy/x.rs", "use {serde::Serialize, ractor::Actor};"),
            ("src/config/raw.rs", "use figment::Figment;"),
            ("src/transport/link.rs", "use ractor::ActorRef;"),
            ("src/actors/server/actor.rs", "use clap::Parser;"),
            ("src/cli/out.rs", "use ractor::Actor;"),
        ] {
            let clean = on(path, "use serde::Serialize;");
            assert_eq!(clean, Vec::<String>::new(), "{path}");
            assert_eq!(on(path, text).len(), 1, "{path}: {text}");
        }
        assert_eq!(on("src/config/load.rs", "use figment::Figment;"), Vec::<String>::new());
    }

    #[test]
    fn upward_imports_are_found_in_groups_and_through_super() {
        assert_eq!(on("src/wire/frame.rs", "use crate::{id::CallId, actors::{server::X}};").len(), 1);
        assert_eq!(on("src/wire/frame.rs", "use super::super::transport::link::Link;").len(), 1);
        assert_eq!(on("src/wire/frame.rs", "use super::scan::scan; use crate::id::CallId;").len(), 0);
        assert_eq!(on("src/config/spec.rs", "use super::load::load;").len(), 1);
    }

    #[test]
    fn words_in_comments_strings_and_tests_do_not_count() {
        let text = "//! tokio::spawn\n/* use ractor::x; /* a::b */ */\nconst A: &str = \"use tokio::x;\";\n\
                    const B: &str = r#\"tokio::\"x\"\"#; const C: char = '\"'; fn f<'a>(x: &'a u8) {}\n\
                    #[cfg(test)]\nmod tests { use tokio::time; fn f() { Instant::now(); } }\n\
                    #[cfg(all(test, not(windows)))]\nmod more { use tokio::time; }";
        assert_eq!(on("src/wire/frame.rs", text), Vec::<String>::new());
        for live in ["use tokio::time;", "#[cfg(not(test))]\nuse tokio::time;"] {
            assert_eq!(on("src/wire/frame.rs", &format!("{text}\n{live}")).len(), 1, "{live}");
        }
    }

    #[test]
    fn clocks_randomness_and_io_are_found_on_pure_floors() {
        for text in [
            "fn f() { Monotonic::now() }",
            "fn f() { crate::time::wall() }",
            "use rand::random;",
            "use std::fs;",
            "use std::{net::TcpStream, fmt};",
            "fn f() { std::process::exit(1) }",
        ] {
            assert_eq!(on("src/catalog/diff.rs", text).len(), 1, "{text}");
        }
        assert_eq!(on("src/catalog/diff.rs", "fn f(now: Monotonic) { g(now) }").len(), 0);
    }

    #[test]
    fn rmcp_below_floor_two_is_its_model_only() {
        assert_eq!(on("src/catalog/items.rs", "use rmcp::model::Tool;").len(), 0);
        assert_eq!(on("src/catalog/items.rs", "use rmcp::service::Peer;").len(), 1);
        assert_eq!(on("src/catalog/items.rs", "use rmcp::{model::Tool, transport::io};").len(), 1);
    }

    #[test]
    fn edges_see_refs_and_neither_messages_nor_each_other() {
        assert_eq!(
            on("src/cli/call.rs", "use crate::actors::frontend::{FrontendRef, CALL_EVENTS_MAX};").len(),
            0
        );
        assert_eq!(on("src/cli/call.rs", "use crate::actors::server::state::State;").len(), 1);
        assert_eq!(on("src/cli/call.rs", "fn f(m: ServerMsg) {}").len(), 1);
        assert_eq!(on("src/console/mod.rs", "use crate::cli::out;").len(), 1);
        assert_eq!(on("src/cli/mod.rs", "use crate::demo;").len(), 0);
    }

    #[test]
    fn one_actor_sees_of_another_its_reference_only() {
        let path = "src/actors/supervisor/actor.rs";
        assert_eq!(on(path, "use crate::actors::server::reference::ServerRef;").len(), 0);
        assert_eq!(on(path, "use super::state::Ledger; use crate::actors::supervisor::state::X;").len(), 0);
        assert_eq!(on(path, "use crate::actors::server::state::State;").len(), 1);
        assert_eq!(on(path, "use crate::actors::{server::{reference, actor::ServerActor}};").len(), 1);
    }

    #[test]
    fn a_module_without_a_floor_is_found() {
        assert_eq!(on("src/helpers.rs", "").len(), 1);
    }

    #[test]
    fn circles_are_found_and_straight_lines_are_not() {
        let straight = [("src/wire/a.rs", "use crate::id::X;"), ("src/catalog/b.rs", "use crate::wire::a;")];
        assert_eq!(cycles(&Tree::of(&straight)), Vec::<String>::new());
        let round =
            [("src/wire/a.rs", "use crate::catalog::b;"), ("src/catalog/b.rs", "use crate::wire::a;")];
        assert_eq!(cycles(&Tree::of(&round)).len(), 1);
    }
}
