//! Properties of the configuration over generated documents, texts and entries: what is not
//! meant by a change stays as it is, and what is shown points at what it speaks of.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::config::document::{self, Form};
use crate::config::edit_text::{self, Edit};
use crate::config::expand::{self, Lookup};
use crate::config::mask::mask_definition;
use crate::config::spec::{Scope, Source};
use crate::config::suggest;

/// How a text is laid out.
#[derive(Clone, Debug)]
struct Layout {
    mark: bool,
    newline: &'static str,
    indent: &'static str,
    trailing_comma: bool,
    comments: bool,
}

fn layout() -> impl Strategy<Value = Layout> {
    let newline = prop::sample::select(vec!["\n", "\r\n"]);
    let indent = prop::sample::select(vec!["", "  ", "    ", "\t"]);
    (any::<bool>(), newline, indent, any::<bool>(), any::<bool>()).prop_map(
        |(mark, newline, indent, trailing_comma, comments)| Layout {
            mark,
            newline,
            indent,
            trailing_comma,
            comments,
        },
    )
}

/// A file with these servers in that layout.
fn written(names: &BTreeSet<String>, layout: &Layout) -> String {
    let Layout { newline, indent, .. } = layout;
    let comment = if layout.comments { "// ü: \"}, {\" " } else { "" };
    let entries: Vec<String> = names
        .iter()
        .map(|name| {
            let note = if comment.is_empty() {
                String::new()
            } else {
                format!("{indent}{indent}{comment}{newline}")
            };
            format!("{note}{indent}{indent}{0}: {{\"command\": {0}, \"args\": [1.50, \"é\"]}}", json!(name))
        })
        .collect();
    let comma = if layout.trailing_comma && !entries.is_empty() { "," } else { "" };
    let mark = if layout.mark { "\u{feff}" } else { "" };
    let body = entries.join(&format!(",{newline}"));
    format!(
        "{mark}{{{newline}{indent}\"mcpServers\": {{{newline}{body}{comma}{newline}{indent}}},{newline}{indent}\"other\": [2.50]{newline}}}{newline}"
    )
}

fn put(name: &str) -> Edit {
    let entry = json!({"command": "new", "args": ["a", "b"], "env": {"K": "v"}});
    let Value::Object(entry) = entry else { unreachable!() };
    Edit::Put { name: name.to_owned(), entry, replace: false }
}

/// The text without white space and commas, which an edit may move.
fn substance(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace() && *c != ',').collect()
}

fn source() -> Source {
    Source { scope: Scope::User, origin: "f.json".into() }
}

struct Variables(BTreeMap<String, String>);

impl Lookup for Variables {
    fn var(&self, name: &str) -> Option<String> {
        self.0.get(name).cloned()
    }
    fn secret(&self, name: &str) -> Option<String> {
        self.0.get(name).cloned()
    }
}

proptest! {
    /// Adding an entry puts text in and takes nothing out; removing it gives the file back.
    #[test]
    fn an_added_entry_is_all_that_an_edit_adds_and_all_that_its_removal_takes(
        names in proptest::collection::btree_set("[a-zä.\" ]{1,6}", 0..5),
        layout in layout(),
    ) {
        let names: BTreeSet<String> = names.into_iter().filter(|name| name.trim() == name).collect();
        let text = written(&names, &layout);
        let added = edit_text::apply(&text, &put("zz-new")).unwrap();
        let mut rest = added.chars().filter(|c| !c.is_whitespace() && *c != ',');
        for wanted in substance(&text).chars() {
            prop_assert!(rest.any(|c| c == wanted), "{wanted:?} lost:\n{text}\n{added}");
        }
        let removed = edit_text::apply(&added, &Edit::Remove { name: "zz-new".into() }).unwrap();
        prop_assert_eq!(substance(&removed), substance(&text), "{}\n{}", added, removed);
        prop_assert_eq!(removed.starts_with('\u{feff}'), layout.mark);
        // A file keeps its line ends.
        if layout.newline == "\r\n" {
            for edited in [&added, &removed] {
                prop_assert_eq!(edited.matches('\n').count(), edited.matches("\r\n").count(), "{:?}", edited);
            }
        } else {
            prop_assert!(!added.contains('\r') && !removed.contains('\r'));
        }
    }

    /// Every key knows its place: the line and column of its opening quote.
    #[test]
    fn a_place_is_that_of_the_key_that_it_names(
        names in proptest::collection::btree_set("[a-zä]{1,6}", 1..5),
        layout in layout(),
    ) {
        let text = written(&names, &layout);
        let document = document::parse(&text, &source(), Path::new("/"), Form::File);
        prop_assert_eq!(document.definitions.len(), names.len());
        let lines: Vec<&str> = document::strip_bom(&text).split('\n').collect();
        for definition in &document.definitions {
            for (path, (line, column)) in &definition.positions {
                let at: String = lines[line - 1].chars().skip(column - 1).collect();
                let wanted = match path.as_str() {
                    "" => json!(definition.name).to_string(),
                    "args[0]" => "1.50".to_owned(),
                    "args[1]" => "\"é\"".to_owned(),
                    key => format!("\"{key}\""),
                };
                prop_assert!(at.starts_with(&wanted), "{path} at {line}:{column} of\n{text}");
            }
        }
    }

    /// Expansion asks for exactly what a text is said to read, and what it inserts stays as it is.
    #[test]
    fn expansion_puts_in_what_a_text_reads_and_nothing_else(
        pieces in proptest::collection::vec(
            prop_oneof![
                "[ -#%-~é]{0,6}".prop_map(|text| (text.clone(), text, None)),
                "[ -~]{0,6}".prop_map(|text| (text.replace('$', "$$"), text, None)),
                "[A-C]".prop_map(|name| (format!("${{{name}}}"), format!("${{{name}}}$$"), Some(name))),
                "[A-C]".prop_map(|name| (format!("${{secret:{name}}}"), format!("${{{name}}}$$"), Some(format!("secret:{name}")))),
            ],
            0..6,
        ),
    ) {
        // Each value looks like a reference itself, so that expanding twice would show.
        let values = ["A", "B", "C"].map(|name| (name.to_owned(), format!("${{{name}}}$$")));
        let text: String = pieces.iter().map(|(typed, ..)| typed.as_str()).collect();
        let wanted: String = pieces.iter().map(|(_, becomes, _)| becomes.as_str()).collect();
        let reads: Vec<String> = pieces.iter().filter_map(|(.., read)| read.clone()).collect();
        let expanded = expand::expand(&text, &Variables(values.into())).unwrap();
        prop_assert_eq!(&expanded.text, &wanted, "{}", text);
        prop_assert_eq!(expand::reads(&text), reads);
        // Literal text written so that it is taken literally comes out the same, however often.
        let escaped = wanted.replace('$', "$$");
        prop_assert_eq!(expand::expand(&escaped, &Variables(BTreeMap::new())).unwrap().text, wanted);
    }

    /// Two different ways through a document never have one name.
    #[test]
    fn key_paths_are_one_to_one(
        a in proptest::collection::vec("[a.\\[\"\\]0]{0,4}", 1..4),
        b in proptest::collection::vec("[a.\\[\"\\]0]{0,4}", 1..4),
    ) {
        let path = |keys: &[String]| keys.iter().fold(String::new(), |path, key| suggest::join(&path, key));
        prop_assert_eq!(path(&a) == path(&b), a == b, "{} {}", path(&a), path(&b));
    }

    /// A masked entry has nothing left to mask, keeps its keys, and shows no literal of `env`.
    #[test]
    fn masking_is_done_in_one_go(
        env in proptest::collection::btree_map("[A-Z_]{1,8}", "[ -~]{0,16}", 0..4),
        args in proptest::collection::vec("-{0,2}[a-z]{0,8}=?[ -~]{0,12}", 0..5),
        url in "https?://([a-z:]{0,6}@)?[a-z.]{1,8}(/[a-z0-9]{0,24})?([?][a-z=&]{0,8})?",
    ) {
        let entry = json!({"command": "x", "args": args, "env": env, "url": url});
        let masked = mask_definition(&entry);
        prop_assert_eq!(&mask_definition(&masked), &masked, "{}", entry);
        let shown: Map<String, Value> = masked["env"].as_object().unwrap().clone();
        prop_assert_eq!(shown.keys().collect::<Vec<_>>(), env.keys().collect::<Vec<_>>());
        for (name, value) in &env {
            let hidden = shown[name].as_str().unwrap();
            prop_assert!(hidden.contains("[redacted]") || !expand::has_literal(value) || value.trim().is_empty(), "{value:?} as {hidden:?}");
        }
    }
}
