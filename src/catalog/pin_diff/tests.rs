//! Diffs that a person can judge, whatever a server wrote.

use proptest::prelude::*;

use super::super::pin::canonical;
use super::*;

fn of(before: &str, after: &str) -> Diff {
    diff(&canonical(before.as_bytes()), &canonical(after.as_bytes()))
}

#[test]
fn each_change_is_named_by_its_path() {
    let before = r#"{"name":"t","description":"reads a file from the disk","inputSchema":{"type":"object","properties":{"path":{"type":"string"},"a.b":{"enum":["x","y"]}},"required":["path"]}}"#;
    let after = r#"{"name":"t","description":"reads a file from any disk","inputSchema":{"type":"object","properties":{"path":{"type":"number"},"a.b":{"enum":["y","x"]},"note":{}},"required":[]},"annotations":{"readOnlyHint":true}}"#;
    let found = of(before, after);
    let places: Vec<(&str, Kind)> = found.changes.iter().map(|c| (c.path.as_str(), c.kind)).collect();
    assert_eq!(
        places,
        [
            ("annotations", Kind::Added),
            ("description", Kind::Changed),
            ("inputSchema.properties[\"a.b\"].enum", Kind::Reordered),
            ("inputSchema.properties.note", Kind::Added),
            ("inputSchema.properties.path.type", Kind::Changed),
            ("inputSchema.required[0]", Kind::Removed),
        ]
    );
    let text = found.lines().join("\n");
    assert!(text.contains("+ annotations: {\"readOnlyHint\":true}"), "{text}");
    assert!(text.contains("reads a file from [-the-] {+any+} disk"), "{text}");
}

#[test]
fn what_can_not_be_seen_is_written_as_its_code_point() {
    for (before, after, want) in [
        ("read", "re\u{200b}ad", "\\u{200b}"),
        ("read", "r\u{435}ad", "\\u{435}"),
        ("caf\u{e9} now", "cafe\u{301} now", "e\\u{301}"),
        ("a", "a\u{1b}[2J", "\\u{1b}[2J"),
        ("a", "a\u{202e}b", "\\u{202e}"),
        ("a", "a\u{e0041}", "\\u{e0041}"),
        ("a b", "a\nb", "\\u{a}"),
        ("a b", "a\u{a0}b", "\\u{a0}"),
    ] {
        let definition = |text: &str| serde_json::json!({"name": "t", "description": text}).to_string();
        let text = of(&definition(before), &definition(after)).lines().join("\n");
        assert!(text.contains(want), "{text}");
        assert!(!text.contains(['\u{1b}', '\u{200b}', '\u{202e}', '\u{e0041}']), "{text}");
    }
    assert_eq!(visible("日本語 für Größe 😀"), "日本語 für Größe 😀");
}

#[test]
fn long_texts_show_only_what_stands_beside_a_change() {
    let text = |word: &str| {
        let many = "w ".repeat(300);
        serde_json::json!({"name": "t", "description": format!("{many}{word} {many}")}).to_string()
    };
    let lines = of(&text("old"), &text("new")).lines();
    assert_eq!(lines[1].trim(), "… w w w w [-old-] {+new+} w w w w …");
}

#[test]
fn a_diff_is_bounded_whatever_is_compared() {
    let many = |value: &str| {
        let members: Vec<String> =
            (0..5000).map(|n| format!("\"k{n}\":\"{value}{}\"", "x".repeat(1000))).collect();
        format!("{{\"name\":\"t\",\"inputSchema\":{{{}}}}}", members.join(","))
    };
    let found = of(&many("a"), &many("b"));
    assert_eq!((found.changes.len(), found.more), (CHANGES_MAX, 5000 - CHANGES_MAX));
    assert!(found.lines().iter().all(|line| line.chars().count() < 2000));
    let long =
        |word: &str| format!("{{\"name\":\"t\",\"description\":\"{}\"}}", format!("{word} ").repeat(5000));
    let found = of(&long("a"), &long("b"));
    assert!(found.changes[0].words.is_empty());
    assert!(found.lines().len() < 5);
}

proptest! {
    #[test]
    fn there_is_a_diff_exactly_when_the_hash_differs(a in "\\PC{0,20}( \\PC{0,6}){0,4}", b in "\\PC{0,20}( \\PC{0,6}){0,4}") {
        let definition = |text: &str| serde_json::json!({"name": "t", "description": text, "inputSchema": {"enum": [text, 1]}}).to_string();
        let found = of(&definition(&a), &definition(&b));
        prop_assert_eq!(found.changes.is_empty(), a == b);
        for line in found.lines() {
            prop_assert!(!line.chars().any(|c| c.is_control()), "{:?}", line);
        }
    }
}
