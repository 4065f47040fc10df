//! The architecture is a test: floors, sizes, bans, bounds, and what the documents claim, checked
//! over the whole tree. Each rule has self-tests that show it fail. Runs with `cargo test`.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "in a test, a panic is the report")]

#[path = "tidy/floors.rs"]
mod floors;
#[path = "tidy/house.rs"]
mod house;
#[path = "tidy/records.rs"]
mod records;
#[path = "tidy/source.rs"]
mod source;
#[path = "tidy/tree.rs"]
mod tree;

use tree::Tree;

fn holds(rule: &str, breaches: &[String]) {
    assert!(breaches.is_empty(), "{rule}: {} breaches\n  {}\n", breaches.len(), breaches.join("\n  "));
}

/// Crates that the package may name, as Rust writes them.
fn dependencies(tree: &Tree) -> Vec<String> {
    let manifest = &tree.get("Cargo.toml").expect("Cargo.toml").text;
    let manifest: toml_edit::DocumentMut = manifest.parse().expect("Cargo.toml is TOML");
    let mut names = Vec::new();
    for section in ["dependencies", "dev-dependencies"] {
        let table = manifest.get(section).and_then(|item| item.as_table()).expect("a table");
        names.extend(table.iter().map(|(name, _)| name.replace('-', "_")));
    }
    assert!(names.iter().any(|name| name == "tokio") && names.iter().any(|name| name == "ractor"));
    names
}

#[test]
fn floors_are_kept_and_acyclic() {
    let tree = Tree::read();
    holds("floors", &floors::breaches(&tree, &dependencies(&tree)));
    holds("no circles", &floors::cycles(&tree));
}

#[test]
fn files_are_short_and_say_what_they_own() {
    holds("shapes", &house::shapes(&Tree::read()));
}

#[test]
fn nothing_is_stubbed_ignored_silenced_or_slept_through() {
    holds("bans", &house::bans(&Tree::read()));
}

#[test]
fn actors_hold_no_locks() {
    holds("locks", &house::locks(&Tree::read()));
}

#[test]
fn secrets_are_looked_into_at_few_places_and_logs_pass_the_redactor() {
    holds("choke points", &house::choke_points(&Tree::read()));
}

#[test]
fn every_queue_has_a_named_bound() {
    holds("queues", &house::queues(&Tree::read()));
}

#[test]
fn every_snapshot_has_one_writer() {
    holds("writers", &house::writers(&Tree::read()));
}

#[test]
fn every_invariant_names_a_test_that_exists() {
    holds("invariants", &records::invariants(&Tree::read()));
}

#[test]
fn every_promise_of_security_names_a_test_that_exists() {
    holds("security", &records::security(&Tree::read()));
}

#[test]
fn every_field_report_names_a_test_that_exists() {
    assert!(records::report_ids_are_unique());
    holds("field reports", &records::field_reports(&Tree::read()));
}

#[test]
fn the_manual_has_every_setting_and_no_other() {
    holds("settings", &records::settings(&Tree::read()));
}

#[test]
fn every_setting_is_gone_by() {
    holds("unused settings", &records::unused_settings(&Tree::read()));
}

#[test]
fn no_file_tells_about_one_machine() {
    holds("places", &records::places(&Tree::read()));
}

#[test]
fn pages_are_there_and_short() {
    holds("pages", &records::pages(&Tree::read()));
}
