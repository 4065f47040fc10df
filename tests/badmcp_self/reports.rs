//! The table of field reports names flags that badmcp understands.

use toml_edit::{DocumentMut, Item};

use super::pipe::command;
use tempfile::TempDir;

const TABLE: &str = include_str!("../field_reports.toml");

fn words(item: &Item) -> Vec<String> {
    item.as_array().into_iter().flatten().filter_map(|v| v.as_str()).map(str::to_owned).collect()
}

#[test]
fn the_flags_of_every_report_are_understood() {
    let table: DocumentMut = TABLE.parse().expect("TOML");
    let dir = TempDir::new().expect("folder");
    let mut seen = 0;
    for (id, entry) in table.iter() {
        let mut sets = vec![words(&entry["flags"])];
        sets.extend(entry.get("others").and_then(Item::as_array).into_iter().flatten().map(|set| {
            set.as_array().into_iter().flatten().filter_map(|v| v.as_str()).map(str::to_owned).collect()
        }));
        for flags in sets.into_iter().filter(|flags| !flags.is_empty()) {
            seen += 1;
            // Each behaviour stays asleep: the process exits with 7 as soon as it has understood them all.
            let mut all: Vec<&str> = flags.iter().map(String::as_str).collect();
            all.extend(["--exit-on-start", "7"]);
            let output = command(&dir, &all).output().expect("runs");
            assert_eq!(output.status.code(), Some(7), "{id}: {}", String::from_utf8_lossy(&output.stderr));
        }
    }
    assert!(seen > 30, "{seen} sets of flags");
}
