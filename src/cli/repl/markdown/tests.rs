//! Markdown on a terminal: what is shown of which text.

use proptest::prelude::*;

use super::*;

const WIDE: Style = Style { color: true, width: Some(60) };
const PLAIN: Style = Style { color: false, width: Some(40) };

fn shown(text: &str, style: Style) -> String {
    let mut markdown = Markdown::new(style);
    let mut out = markdown.push(text);
    out.push_str(&markdown.finish());
    out
}

/// The text without our own colours.
fn bare(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('\u{1b}') {
        out.push_str(&rest[..at]);
        let end = rest[at..].find('m').map_or(rest.len(), |end| at + end + 1);
        rest = &rest[end..];
    }
    out + rest
}

#[test]
fn signs_become_looks() {
    for (text, want) in [
        ("# Title here", "\u{1b}[1mTitle\u{1b}[0m \u{1b}[1mhere\u{1b}[0m\n"),
        ("a **bold** b", "a \u{1b}[1mbold\u{1b}[0m b\n"),
        ("**two words**.", "\u{1b}[1mtwo\u{1b}[0m \u{1b}[1mwords\u{1b}[0m.\n"),
        ("an *italic* _one_", "an \u{1b}[3mitalic\u{1b}[0m \u{1b}[3mone\u{1b}[0m\n"),
        ("use `a b` now", "use \u{1b}[36ma\u{1b}[0m \u{1b}[36mb\u{1b}[0m now\n"),
        ("snake_case_name 2 * 3 * 4 a*b", "snake_case_name 2 * 3 * 4 a*b\n"),
        (r"\*not\* **", "*not* **\n"),
        ("- one\n- two", "\u{1b}[2m• \u{1b}[0mone\n\u{1b}[2m• \u{1b}[0mtwo\n"),
        ("3. three", "\u{1b}[2m3. \u{1b}[0mthree\n"),
        ("> said", "\u{1b}[2m│ \u{1b}[0msaid\n"),
        ("```rust\nfn  f() { *x }\n```\nafter", "  \u{1b}[36mfn  f() { *x }\u{1b}[0m\nafter\n"),
    ] {
        assert_eq!(shown(text, WIDE), want, "{text:?}");
    }
}

#[test]
fn without_colour_signs_stay_and_no_escape_is_written() {
    let text = "# T\n\n**b** `c`\n- x\n\n```\ncode\n```\n---\n| a | b |\n|---|---|\n| 1 | 2 |\n";
    let out = shown(text, PLAIN);
    assert!(!out.contains('\u{1b}'), "{out}");
    for part in ["T\n", "**b** `c`", "• x", "  code", "────", "a  b\n", "1  2\n"] {
        assert!(out.contains(part), "{part:?} in\n{out}");
    }
}

#[test]
fn lines_fit_the_width_and_items_hang() {
    let text = format!("- {}", "word ".repeat(20));
    let out = shown(&text, PLAIN);
    assert!(out.lines().count() > 2 && out.lines().all(|line| line.width() < 40), "{out}");
    assert!(out.lines().skip(1).all(|line| line.starts_with("  word")), "{out}");
    let japanese = shown(&"漢字 ".repeat(30), PLAIN);
    assert!(japanese.lines().all(|line| line.width() < 40), "{japanese}");
}

#[test]
fn a_wide_table_is_wrapped_in_its_cells_and_a_narrow_one_is_aligned() {
    let out = shown("| name | about |\n| --- | --- |\n| a\\|b | short |\n\nend", PLAIN);
    assert_eq!(out, "name  about\n────  ─────\na|b   short\n\nend\n");
    let long = format!("| n | {} |\n|---|---|\n| x | {} |\n", "head ".repeat(12), "y".repeat(90));
    let out = shown(&long, PLAIN);
    assert!(out.lines().all(|line| line.width() <= 40), "{out}");
    assert_eq!(out.matches('y').count(), 90, "nothing is left out: {out}");
}

#[test]
fn nothing_steers_the_terminal() {
    let text = "a\u{1b}[2Jb \u{1b}]0;t\u{7}c\n```\n\u{9b}31m x\u{202e}\n```\n| \u{1b}[1m | \u{8} |\n|-|-|\n# \u{1b}c h";
    let out = bare(&shown(text, WIDE));
    assert!(!out.chars().any(|c| c.is_control() && c != '\n'), "{out:?}");
    assert!(!out.contains('\u{202e}'), "{out:?}");
}

#[test]
fn words_are_shown_as_soon_as_they_are_whole() {
    let mut markdown = Markdown::new(PLAIN);
    assert_eq!(markdown.push("Hel"), "");
    assert_eq!(markdown.push("lo wor"), "Hello");
    assert_eq!(markdown.push("ld\n"), " world\n");
    assert_eq!(markdown.finish(), "");
    assert_eq!(markdown.push("again"), "");
    assert_eq!(markdown.finish(), "again\n");
}

proptest! {
    #[test]
    fn however_it_is_cut_the_same_is_shown_and_it_is_safe(
        pieces in proptest::collection::vec(
            proptest::sample::select(vec![
                "word", " ", "\n", "**", "*", "_", "`", "```", "- ", "1. ", "# ", "> ", "| a ", "|---|", "\u{1b}[31m",
                "\u{1b}", "\u{9b}", "漢", "👩‍👩", "---", "\t", "\r\n", "\\", "x|", "~~~",
            ]), 0..40),
        color in any::<bool>(),
        width in 10u16..100,
    ) {
        let style = Style { color, width: Some(width) };
        let text = pieces.concat();
        let whole = shown(&text, style);
        let mut markdown = Markdown::new(style);
        let mut by_letter = String::new();
        for c in text.chars() {
            by_letter.push_str(&markdown.push(c.encode_utf8(&mut [0; 4])));
        }
        by_letter.push_str(&markdown.finish());
        prop_assert_eq!(&whole, &by_letter);
        let safe = if color { bare(&whole) } else { whole };
        prop_assert!(!safe.chars().any(|c| c.is_control() && c != '\n' && c != '\t'), "{:?}", safe);
    }
}
