//! Properties of the command line over generated words and texts: no word makes it panic, what is
//! typed arrives as it was meant, and what is shown fits the screen.

use std::ffi::OsString;

use clap::FromArgMatches;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::add_form;
use super::args::{Cli, Command, Mcp};
use super::help;
use super::out::{Style, Tone};
use super::table::{Column, Field, sheet, table};
use super::text::quoted;
use super::usage::{self, Refused};
use crate::catalog::schema::{CompiledSchema, check};
use crate::catalog::typed::{Argument, typed_args};

/// Words that mean something here, and some that mean nothing.
fn word() -> impl Strategy<Value = String> {
    let known = vec![
        "mcp",
        "call",
        "add",
        "list",
        "status",
        "prompt",
        "read",
        "tools",
        "--",
        "--json",
        "-y",
        "-e",
        "-H",
        "--timeout",
        "--wait",
        "-C",
        ".",
        "-o",
        "--help",
        "-h",
        "doctor",
        "explain",
        "completions",
        "bash",
        "--log-level",
        "debug",
        "-",
        "@x",
        "a=1",
        "{}",
        "https://h/",
        "--mcp-config",
        "on",
        "--version",
        "--no-such",
    ];
    prop_oneof![4 => prop::sample::select(known).prop_map(str::to_owned), 1 => "[ -~é]{0,8}"]
}

/// A value of a kind, as JSON and as somebody would type it.
fn typed_value() -> impl Strategy<Value = (&'static str, Value, String)> {
    prop_oneof![
        any::<String>().prop_map(|text| ("s", json!(text), text)),
        any::<i64>().prop_map(|number| ("n", json!(number), number.to_string())),
        any::<bool>().prop_map(|flag| ("b", json!(flag), flag.to_string())),
        proptest::collection::vec(any::<i32>(), 0..4).prop_map(|list| {
            let text = list.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
            ("list", json!(list), text)
        }),
        proptest::collection::btree_map("[a-z]{1,3}", any::<i32>(), 0..3).prop_map(|map| (
            "o",
            json!(map),
            json!(map).to_string()
        )),
    ]
}

fn schema() -> Value {
    json!({"type": "object", "properties": {
        "s": {"type": "string"}, "n": {"type": "integer"}, "b": {"type": "boolean"},
        "list": {"type": "array", "items": {"type": "integer"}},
        "words": {"type": "array", "items": {"type": "string"}}, "o": {"type": "object"},
    }, "additionalProperties": false})
}

fn typed(pairs: &[(&str, &str)]) -> Result<Value, String> {
    let arguments: Vec<Argument<'_>> =
        pairs.iter().map(|(key, value)| Argument { key, value, json: false }).collect();
    let schema = schema();
    let raw = typed_args(Some(&schema), &arguments).map_err(|faults| format!("{faults:?}"))?;
    let compiled = CompiledSchema::compile(schema.to_string().as_bytes()).map_err(|why| why.to_string())?;
    check(Some(&compiled), Some(raw.get().as_bytes())).map_err(|faults| format!("{faults:?}"))?;
    serde_json::from_str(raw.get()).map_err(|e| e.to_string())
}

proptest! {
    /// Whatever is typed is understood, or refused in one sentence with a cure.
    #[test]
    fn no_words_make_the_command_line_panic(words in proptest::collection::vec(word(), 0..8)) {
        let argv = std::iter::once("callboard".to_owned()).chain(words.iter().cloned());
        let parsed = help::command()
            .try_get_matches_from(argv)
            .and_then(|mut matches| Cli::from_arg_matches_mut(&mut matches));
        if let Err(error) = parsed {
            match usage::refused(&error, false) {
                Refused::Failure(failure) => {
                    prop_assert!(!failure.message.is_empty() && failure.fix.is_some(), "{words:?}: {failure:?}");
                    prop_assert_eq!(failure.exit.code(), 2);
                }
                Refused::Help(text) | Refused::Missing(text) => prop_assert!(!text.is_empty()),
            }
        }
    }

    /// A command after the dashes is kept word by word, whatever the words are.
    #[test]
    fn every_word_of_a_command_is_kept(words in proptest::collection::vec("[ -~é]{1,8}", 1..6)) {
        prop_assume!(!words[0].starts_with('-'));
        let argv: Vec<OsString> = ["callboard", "mcp", "add", "name", "--"]
            .into_iter()
            .chain(words.iter().map(String::as_str))
            .map(OsString::from)
            .collect();
        let mut matches = help::command().try_get_matches_from(&argv).unwrap();
        let Some(Command::Mcp { verb: Mcp::Add(args) }) = Cli::from_arg_matches_mut(&mut matches).unwrap().command else {
            return Err(TestCaseError::fail("not an add"));
        };
        let entry = Value::Object(add_form::plan(args, &argv).unwrap().entry);
        let mut kept = vec![entry["command"].as_str().unwrap().to_owned()];
        let rest = entry.get("args").and_then(Value::as_array).into_iter().flatten();
        kept.extend(rest.map(|word| word.as_str().unwrap().to_owned()));
        prop_assert_eq!(kept, words);
    }

    /// `key=value` arrives as the value of the type that the schema gives it, and passes its check.
    #[test]
    fn what_is_typed_by_the_schema_arrives_as_it_was_meant((key, value, text) in typed_value()) {
        prop_assert_eq!(typed(&[(key, &text)]), Ok(json!({key: value})));
    }

    /// A key that is repeated is a list of its words, commas, brackets and blanks included.
    #[test]
    fn a_repeated_key_is_a_list_of_exactly_these_words(words in proptest::collection::vec(any::<String>(), 2..5)) {
        let pairs: Vec<(&str, &str)> = words.iter().map(|word| ("words", word.as_str())).collect();
        prop_assert_eq!(typed(&pairs), Ok(json!({"words": words})));
    }

    /// Typing never makes something else of a value: it is refused, or of the wanted type.
    #[test]
    fn a_value_is_of_its_type_or_refused(key in prop::sample::select(vec!["n", "b", "list", "o"]), text in "[ -~]{0,12}") {
        if let Ok(object) = typed(&[(key, &text)]) {
            let value = &object[key];
            let fits = match key {
                "n" => value.is_number(),
                "b" => value.is_boolean(),
                "list" => value.as_array().is_some_and(|list| list.iter().all(Value::is_number)),
                _ => value.is_object(),
            };
            prop_assert!(fits, "{key}={text:?} became {value}");
        }
    }

    /// Tables and sheets fit the screen, whatever is in them.
    #[test]
    fn no_line_is_wider_than_the_screen(
        cells in proptest::collection::vec("[a-z 漢é-]{0,60}", 6),
        width in 40u16..120,
        color: bool,
    ) {
        let style = Style { color, width: Some(width) };
        let field = |text: &String| Field::toned(text.clone(), Tone::Good);
        let rows: Vec<Vec<Field>> = cells.chunks(3).map(|row| row.iter().map(field).collect()).collect();
        let columns = [Column::wide("one", 8), Column::number("two"), Column::wide("three", 8)];
        let named: Vec<(&str, Field)> = cells.iter().map(|text| ("name", field(text))).collect();
        for shown in [table(&columns, &rows, style), sheet(&named, style)] {
            for line in shown.lines() {
                let plain = crate::shaping::render::printable(line);
                let columns = unicode_width::UnicodeWidthStr::width(plain.as_ref());
                prop_assert!(columns <= usize::from(width), "{columns} of {width}: {line:?}");
            }
        }
    }

    /// A quoted word has nothing in it that could end the quotes or steer a terminal.
    #[test]
    fn a_quoted_word_stays_within_its_quotes(text in any::<String>()) {
        let shown = quoted(&text);
        prop_assert!(shown.starts_with('"') && shown.ends_with('"') && shown.len() >= 2, "{shown}");
        prop_assert!(!shown.chars().any(char::is_control), "{shown:?}");
        let inner = &shown[1..shown.len() - 1];
        let bare = inner.replace("\\\\", "").replace("\\\"", "");
        prop_assert!(!bare.contains('"'), "{shown}");
    }
}
