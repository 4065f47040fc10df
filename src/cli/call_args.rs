//! Floor 5. ARGS of `call` and `prompt`: what was typed becomes one JSON object, or a
//! refusal that names the word. Never a silent `{}`. Pure: files and stdin come in by
//! a function. Used by `call` and `use_verbs`.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::failure::Failure;
use super::text::{bytes, quoted};

/// Largest arguments that a file or stdin may hold, in bytes.
pub const ARGUMENTS_LEN_MAX: usize = 16 * 1024 * 1024;

/// What was typed.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arguments {
    /// A JSON object, byte for byte.
    Object(Box<RawValue>),
    /// Pairs that still need types.
    Pairs(Vec<Pair>),
}

/// One `key=value` or `key:=json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair {
    /// The key; not empty.
    pub key: String,
    /// The value as typed.
    pub value: String,
    /// Whether the value is JSON whatever the schema says.
    pub json: bool,
}

/// Where the text of `@file` and `-` comes from.
pub trait ReadText {
    /// The whole text of a file.
    fn file(&mut self, path: &str) -> Result<String, Unread>;
    /// The whole of stdin.
    fn stdin(&mut self) -> Result<String, Unread>;
}

/// Why a text could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unread {
    /// It has more than [`ARGUMENTS_LEN_MAX`] bytes; how many, where that is known.
    TooLarge(Option<u64>),
    /// Anything else, in one line.
    Other(String),
}

impl std::fmt::Display for Unread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let limit = bytes(ARGUMENTS_LEN_MAX as u64);
        match self {
            Self::TooLarge(Some(size)) => {
                write!(f, "it has {size} bytes ({}), and at most {limit} are read", bytes(*size))
            }
            Self::TooLarge(None) => write!(f, "it has more than {limit}, the most that is read"),
            Self::Other(text) => f.write_str(text),
        }
    }
}

/// Reads the words. None at all mean an empty object.
pub fn parse(words: &[String], read: &mut dyn ReadText) -> Result<Arguments, Failure> {
    match words {
        [] => Ok(Arguments::Pairs(Vec::new())),
        [one] if one == "-" => object(&read.stdin().map_err(|e| unreadable("stdin", &e))?, "stdin"),
        [one] if one.starts_with('@') => {
            let path = &one[1..];
            object(&read.file(path).map_err(|e| unreadable(path, &e))?, path)
        }
        [one] if looks_like_json(one) => object(one, "the arguments"),
        words => words.iter().map(|word| pair(word)).collect::<Result<_, _>>().map(Arguments::Pairs),
    }
}

fn unreadable(what: &str, error: &Unread) -> Failure {
    Failure::invalid_arguments(format!("can't read {what}: {error}")).fix(match error {
        Unread::TooLarge(_) => {
            "send less: split it over several calls, or hand the tool a path or URL to read it from"
        }
        Unread::Other(_) => "write `@file` with a file that exists, `-` for stdin, or the JSON object itself",
    })
}

fn looks_like_json(word: &str) -> bool {
    let word = word.trim_start();
    word.starts_with(['{', '[', '"']) || !word.contains('=') && serde_json::from_str::<Value>(word).is_ok()
}

fn object(text: &str, place: &str) -> Result<Arguments, Failure> {
    let text = text.trim_start_matches('\u{feff}').trim();
    let hint = "write one JSON object, such as '{\"path\":\".\"}', or key=value …";
    if text.is_empty() {
        return Err(Failure::invalid_arguments(format!("{place} is empty; expected a JSON object")).fix(hint));
    }
    let raw = RawValue::from_string(text.to_owned())
        .map_err(|e| Failure::invalid_arguments(format!("{place}: not valid JSON: {e}")).fix(hint))?;
    if raw.get().starts_with('{') {
        return Ok(Arguments::Object(raw));
    }
    let found = match raw.get().as_bytes().first() {
        Some(b'[') => "an array",
        Some(b'"') => "a text",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') => "null",
        _ => "a number",
    };
    Err(Failure::invalid_arguments(format!("{place}: expected a JSON object, found {found}")).fix(hint))
}

fn pair(word: &str) -> Result<Pair, Failure> {
    let Some((key, value)) = word.split_once('=') else {
        let mut failure = Failure::invalid_arguments(format!("{} is no key=value", quoted(word)));
        failure.fix = Some("write key=value, or one JSON object in quotes for the shell".to_owned());
        return Err(failure);
    };
    let (key, json) = match key.strip_suffix(':') {
        Some(key) => (key, true),
        None => (key, false),
    };
    if key.is_empty() {
        return Err(Failure::invalid_arguments(format!("{} has no key before the `=`", quoted(word)))
            .fix("write key=value"));
    }
    if json && let Err(e) = serde_json::from_str::<&RawValue>(value) {
        return Err(Failure::invalid_arguments(format!("{}: not valid JSON: {e}", quoted(key)))
            .fix("write key=value for a plain text"));
    }
    Ok(Pair { key: key.to_owned(), value: value.to_owned(), json })
}

/// Arguments of a prompt: every value is a text (protocol, `prompts/get`).
pub fn texts(arguments: Arguments) -> Result<Box<RawValue>, Failure> {
    match arguments {
        Arguments::Object(raw) => {
            let map: serde_json::Map<String, Value> = serde_json::from_str(raw.get())
                .map_err(|e| Failure::invalid_arguments(format!("not valid JSON: {e}")))?;
            match map.iter().find(|(_, value)| !value.is_string()) {
                Some((key, _)) => Err(Failure::invalid_arguments(format!(
                    "{}: arguments of a prompt are texts",
                    quoted(key)
                ))
                .fix(format!("write {}", quoted("key\":\"value")))),
                None => Ok(raw),
            }
        }
        Arguments::Pairs(pairs) => {
            let mut map = serde_json::Map::new();
            for pair in pairs {
                if map.insert(pair.key.clone(), Value::String(pair.value)).is_some() {
                    return Err(Failure::invalid_arguments(format!("{} is given twice", quoted(&pair.key)))
                        .fix("give each argument of a prompt once"));
                }
            }
            serde_json::value::to_raw_value(&map)
                .map_err(|e| Failure::invalid_arguments(format!("can't be written as JSON: {e}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::exit::Exit;
    use proptest::prelude::*;

    struct Texts(Result<&'static str, &'static str>);

    impl ReadText for Texts {
        fn file(&mut self, path: &str) -> Result<String, Unread> {
            assert!(!path.starts_with('@'), "the sign is not part of the path");
            self.stdin()
        }
        fn stdin(&mut self) -> Result<String, Unread> {
            self.0.map(str::to_owned).map_err(|text| Unread::Other(text.to_owned()))
        }
    }
    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|w| (*w).to_owned()).collect()
    }

    fn read(typed: &[&str]) -> Result<Arguments, Failure> {
        parse(&words(typed), &mut Texts(Err("nothing to read")))
    }

    fn refusal(typed: &[&str]) -> String {
        let failure = read(typed).expect_err("accepted");
        assert_eq!(failure.exit, Exit::Usage);
        assert_eq!(failure.code, "invalid_arguments");
        assert!(failure.fix.is_some(), "{}", failure.message);
        failure.message
    }

    #[test]
    fn an_object_keeps_its_bytes() {
        let text = r#"{"n": 1.00, "big": 123456789012345678901234567890, "a":1,"a":2}"#;
        match read(&[text]).unwrap() {
            Arguments::Object(raw) => assert_eq!(raw.get(), text),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn pairs_are_split_at_the_first_equal_sign() {
        match read(&["a=1", "b=x=y", "c=", "d:=[1,2]"]).unwrap() {
            Arguments::Pairs(pairs) => {
                let plain =
                    |key: &str, value: &str| Pair { key: key.into(), value: value.into(), json: false };
                assert_eq!(pairs[..3], [plain("a", "1"), plain("b", "x=y"), plain("c", "")]);
                assert_eq!(pairs[3], Pair { key: "d".into(), value: "[1,2]".into(), json: true });
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn invalid_arguments_are_refused_and_never_become_an_empty_object() {
        assert!(refusal(&["{\"a\":"]).contains("not valid JSON"));
        assert!(refusal(&["{a:1}"]).contains("not valid JSON"));
        assert!(refusal(&["[1]"]).contains("found an array"));
        assert!(refusal(&["\"x\""]).contains("found a text"));
        assert!(refusal(&["null"]).contains("found null"));
        assert!(refusal(&["12"]).contains("found a number"));
        assert!(refusal(&["true"]).contains("found a boolean"));
        assert!(refusal(&["path"]).contains("no key=value"));
        assert!(refusal(&["=x"]).contains("no key before"));
        assert!(refusal(&["a:={"]).contains("not valid JSON"));
        assert!(refusal(&["{}", "a=1"]).contains("no key=value"));
        assert!(refusal(&["-"]).contains("can't read stdin"));
        assert!(refusal(&["@a.json"]).contains("can't read a.json"));
    }

    #[test]
    fn files_and_stdin_hold_an_object_too() {
        for typed in [["@a.json"], ["-"]] {
            let parsed = parse(&words(&typed), &mut Texts(Ok("\u{feff} {\"a\": 1}\n"))).unwrap();
            match parsed {
                Arguments::Object(raw) => assert_eq!(raw.get(), "{\"a\": 1}"),
                other => panic!("{other:?}"),
            }
            assert!(parse(&words(&typed), &mut Texts(Ok(" \n"))).is_err(), "empty is no object");
        }
    }

    #[test]
    fn arguments_of_prompts_are_texts() {
        assert_eq!(texts(read(&["n=1", "t=true"]).unwrap()).unwrap().get(), r#"{"n":"1","t":"true"}"#);
        assert_eq!(texts(read(&[r#"{"n":"1"}"#]).unwrap()).unwrap().get(), r#"{"n":"1"}"#);
        assert!(texts(read(&[r#"{"n":1}"#]).unwrap()).is_err());
        assert!(texts(read(&["a=1", "a=2"]).unwrap()).is_err(), "a list is no text");
    }

    proptest! {
        #[test]
        fn no_words_make_a_panic_or_a_lost_value(typed in prop::collection::vec("[ -~]{0,12}", 0..4)) {
            if let Ok(Arguments::Pairs(pairs)) = parse(&typed, &mut Texts(Err("none"))) {
                prop_assert_eq!(pairs.len(), typed.len());
            }
        }
    }
}
