//! `key=value` arguments become one JSON object, typed by the tool's schema and
//! written without detours: integers of any size, backslashes and quotes arrive as
//! typed. Nothing is dropped and nothing becomes a silent `{}`. Called by the
//! command line, which then checks the object as any other.

use serde_json::Value;
use serde_json::value::RawValue;

use super::schema_walk::decoded;
use super::violation::{Violation, speaks_of_credentials};

/// How many references and alternatives in a row are followed to learn a type.
const FOLLOW_MAX: usize = 8;

/// One typed word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argument<'a> {
    /// The name of the argument.
    pub key: &'a str,
    /// The value as typed.
    pub value: &'a str,
    /// Whether the value is JSON whatever the schema says.
    pub json: bool,
}

/// Builds the object. A value takes the type that the schema gives its key: numbers and booleans
/// by their spelling, arrays as JSON or split at commas, objects as JSON; a key that is
/// repeated adds to its array. Without a type, what is JSON is JSON and the rest is text.
pub fn typed_args(
    schema: Option<&Value>,
    arguments: &[Argument<'_>],
) -> Result<Box<RawValue>, Vec<Violation>> {
    let mut keys: Vec<&str> = Vec::new();
    for argument in arguments {
        if !keys.contains(&argument.key) {
            keys.push(argument.key);
        }
    }
    let mut faults = Vec::new();
    let mut members = Vec::new();
    for key in keys {
        let given: Vec<&Argument<'_>> = arguments.iter().filter(|a| a.key == key).collect();
        let wanted = Wanted::of_member(schema, key);
        match wanted.read_all(&given) {
            Ok(json) => members.push(format!("{}:{json}", Value::from(key))),
            Err(message) => faults.push(Violation { path: key.to_owned(), message }),
        }
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    RawValue::from_string(format!("{{{}}}", members.join(",")))
        .map_err(|e| vec![Violation::of_all(format!("can't be written as JSON: {e}"))])
}

/// What a schema says about one value, as far as typing needs it.
#[derive(Debug, Default)]
struct Wanted<'a> {
    key: &'a str,
    root: Option<&'a Value>,
    kinds: Vec<&'a str>,
    options: Vec<&'a Value>,
    items: Option<&'a Value>,
}

impl<'a> Wanted<'a> {
    fn of_member(root: Option<&'a Value>, key: &'a str) -> Self {
        let mut holders = Vec::new();
        if let Some(schema) = root {
            collect(schema, schema, 0, &mut holders);
        }
        let member = holders.iter().find_map(|holder| holder.get("properties")?.get(key));
        let other = || holders.iter().find_map(|holder| holder.get("additionalProperties"));
        Self::of(root, key, member.or_else(other))
    }

    fn of(root: Option<&'a Value>, key: &'a str, schema: Option<&'a Value>) -> Self {
        let mut out = Self { key, root, ..Self::default() };
        let mut found = Vec::new();
        if let (Some(root), Some(schema)) = (root, schema) {
            collect(root, schema, 0, &mut found);
        }
        for schema in found {
            match schema.get("type") {
                Some(Value::String(kind)) => out.kinds.push(kind),
                Some(Value::Array(kinds)) => out.kinds.extend(kinds.iter().filter_map(Value::as_str)),
                _ => {}
            }
            if schema.get("nullable") == Some(&Value::Bool(true)) {
                out.kinds.push("null");
            }
            out.options.extend(schema.get("enum").and_then(Value::as_array).into_iter().flatten());
            out.options.extend(schema.get("const"));
            out.items = out.items.or_else(|| schema.get("items").filter(|items| items.is_object()));
        }
        out
    }

    fn takes(&self, kind: &str) -> bool {
        self.kinds.contains(&kind)
    }

    fn is_list(&self) -> bool {
        self.takes("array") && !self.takes("string")
    }

    /// All values given for one key.
    fn read_all(&self, given: &[&Argument<'_>]) -> Result<String, String> {
        if let [one] = given {
            return if one.json { json(one.value) } else { self.read(one.value) };
        }
        if !self.takes("array") && !self.kinds.is_empty() {
            return Err("is given more than once, and is no list".to_owned());
        }
        let item = Self::of(self.root, self.key, self.items);
        let mut elements = Vec::new();
        for one in given {
            // Given one by one, each is an element as it stands; commas belong to it.
            match one.json {
                true => elements.push(json(one.value)?),
                false => elements.push(item.read(one.value)?),
            }
        }
        Ok(format!("[{}]", elements.join(",")))
    }

    fn read(&self, text: &str) -> Result<String, String> {
        let trimmed = text.trim();
        if let Some(option) = self.options.iter().find(|option| option.as_str() == Some(text)) {
            return Ok(option.to_string());
        }
        if let Some(option) =
            self.options.iter().find(|option| !option.is_string() && option.to_string() == trimmed)
        {
            return Ok(option.to_string());
        }
        if self.kinds.is_empty() {
            // Options of text only: a wrong one stays text, for the check to name it.
            let texts = !self.options.is_empty() && self.options.iter().all(|option| option.is_string());
            return Ok(if texts { quoted(text) } else { json(text).unwrap_or_else(|_| quoted(text)) });
        }
        let is =
            |kind: fn(&Value) -> bool| serde_json::from_str::<Value>(trimmed).is_ok_and(|value| kind(&value));
        if (self.takes("null") && trimmed == "null")
            || (self.takes("boolean") && matches!(trimmed, "true" | "false"))
        {
            return Ok(trimmed.to_owned());
        }
        if (self.takes("integer") || self.takes("number")) && is_number(trimmed) {
            return Ok(trimmed.to_owned());
        }
        if (self.takes("object") && is(Value::is_object)) || (self.takes("array") && is(Value::is_array)) {
            return Ok(trimmed.to_owned());
        }
        if self.takes("string") {
            return Ok(quoted(text));
        }
        if self.is_list() && !trimmed.starts_with('[') {
            return self.split(text);
        }
        Err(self.refusal(text))
    }

    fn split(&self, text: &str) -> Result<String, String> {
        if text.trim().is_empty() {
            return Ok("[]".to_owned());
        }
        let item = Self::of(self.root, self.key, self.items);
        let parts: Result<Vec<String>, String> = text.split(',').map(|part| item.read(part.trim())).collect();
        Ok(format!("[{}]", parts?.join(",")))
    }

    fn refusal(&self, text: &str) -> String {
        let shown = match speaks_of_credentials(self.key) {
            true => "what was given is none".to_owned(),
            false => format!("got {:?}", super::json::cut(text, 40)),
        };
        let mut wanted = Vec::new();
        for kind in &self.kinds {
            let words = match *kind {
                "boolean" => "true or false",
                "integer" => "an integer",
                "number" => "a number, such as 1.5",
                "array" => "a list: JSON such as [\"a\",\"b\"], or a,b",
                "object" => "a JSON object, such as {\"a\":1}",
                other => other,
            };
            if !wanted.contains(&words) {
                wanted.push(words);
            }
        }
        format!("must be {}; {shown}", wanted.join(" or "))
    }
}

/// A schema and everything that it says in other places about the same value.
fn collect<'a>(root: &'a Value, schema: &'a Value, depth: usize, into: &mut Vec<&'a Value>) {
    if depth > FOLLOW_MAX || into.len() > 64 {
        return;
    }
    into.push(schema);
    if let Some(pointer) = schema.get("$ref").and_then(Value::as_str).and_then(|r| r.strip_prefix('#'))
        && let Some(target) = root.pointer(&decoded(pointer))
    {
        collect(root, target, depth + 1, into);
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        for inner in schema.get(key).and_then(Value::as_array).into_iter().flatten() {
            collect(root, inner, depth + 1, into);
        }
    }
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// JSON as typed, if it is JSON.
fn json(text: &str) -> Result<String, String> {
    match serde_json::from_str::<&RawValue>(text) {
        Ok(raw) => Ok(raw.get().to_owned()),
        Err(e) => Err(format!("is not valid JSON: {e}")),
    }
}

/// A number as JSON writes it, of any size.
fn is_number(text: &str) -> bool {
    text.starts_with(|c: char| c == '-' || c.is_ascii_digit())
        && serde_json::from_str::<&RawValue>(text).is_ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        json!({
            "properties": {
                "n": {"type": "integer"}, "x": {"type": "number"}, "b": {"type": "boolean"}, "s": {"type": "string"},
                "list": {"type": "array", "items": {"type": "integer"}}, "words": {"type": "array", "items": {"type": "string"}},
                "o": {"type": "object"}, "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                "either": {"type": ["integer", "string"]}, "unit": {"enum": ["c", "f", 1, null]}, "any": {},
                "there": {"$ref": "#/$defs/id"}, "token": {"type": "integer"}, "soft": {"type": "string", "nullable": true},
                "mode": {"enum": ["1", "true"]}, "words_or_text": {"type": ["array", "string"]},
            },
            "$defs": {"id": {"allOf": [{"type": "integer"}]}},
        })
    }

    fn typed(words: &[&str]) -> Result<String, String> {
        let arguments: Vec<Argument<'_>> = words
            .iter()
            .map(|word| {
                let (key, value) = word.split_once('=').unwrap();
                Argument { key: key.trim_end_matches(':'), value, json: key.ends_with(':') }
            })
            .collect();
        typed_args(Some(&schema()), &arguments)
            .map(|raw| raw.get().to_owned())
            .map_err(|faults| faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
    }

    #[test]
    fn values_take_the_type_of_their_key() {
        for (words, want) in [
            (&["n=5", "x=1.50", "b=true", "s=5"][..], r#"{"n":5,"x":1.50,"b":true,"s":"5"}"#),
            (&["n=123456789012345678901234567890"], r#"{"n":123456789012345678901234567890}"#),
            (&["n=-9007199254740993", "x=1e400"], r#"{"n":-9007199254740993,"x":1e400}"#),
            (&[r"s=C:\new\table"], r#"{"s":"C:\\new\\table"}"#),
            (&["s=", "s2=a=b"], r#"{"s":"","s2":"a=b"}"#),
            (&["list=1,2, 3"], r#"{"list":[1,2,3]}"#),
            (&["list=[1,2]"], r#"{"list":[1,2]}"#),
            (&["list="], r#"{"list":[]}"#),
            (&["words=a,b"], r#"{"words":["a","b"]}"#),
            (&["words=a,b", "words=c"], r#"{"words":["a,b","c"]}"#),
            (&["words_or_text=a,b"], r#"{"words_or_text":"a,b"}"#),
            (&[r#"o={"a": 1.0}"#], r#"{"o":{"a": 1.0}}"#),
            (&["maybe=null", "soft=null", "s=null"], r#"{"maybe":null,"soft":null,"s":"null"}"#),
            (&["maybe=7", "either=7", "either2=7"], r#"{"maybe":7,"either":7,"either2":7}"#),
            (&["either=seven"], r#"{"either":"seven"}"#),
            (&["unit=c", "mode=1"], r#"{"unit":"c","mode":"1"}"#),
            (&["unit=1", "mode=2"], r#"{"unit":1,"mode":"2"}"#),
            (&["any=true", "any2=007", "any3=\"5\""], r#"{"any":true,"any2":"007","any3":"5"}"#),
            (&["any=1", "any=b"], r#"{"any":[1,"b"]}"#),
            (&["there=5"], r#"{"there":5}"#),
            (&["s:=[1]", "n:=\"x\""], r#"{"s":[1],"n":"x"}"#),
            (&["odd \"key\"=1"], r#"{"odd \"key\"":1}"#),
            (&[], "{}"),
        ] {
            assert_eq!(typed(words).as_deref(), Ok(want), "{words:?}");
        }
    }

    #[test]
    fn what_has_the_wrong_type_is_refused_by_its_key() {
        for (words, want) in [
            (&["n=five"][..], r#"n: must be an integer; got "five""#),
            (&["n="], r#"n: must be an integer; got """#),
            (&["x=.5"], r#"x: must be a number, such as 1.5; got ".5""#),
            (&["b=yes"], r#"b: must be true or false; got "yes""#),
            (&["o=[1]"], r#"o: must be a JSON object, such as {"a":1}; got "[1]""#),
            (&["list=1,x"], r#"list: must be an integer; got "x""#),
            (&["list=[1"], r#"list: must be a list: JSON such as ["a","b"], or a,b; got "[1""#),
            (&["n=1", "n=2"], "n: is given more than once, and is no list"),
            (&["token=canary"], "token: must be an integer; what was given is none"),
            (
                &["there=x", "maybe=x"],
                r#"there: must be an integer; got "x"; maybe: must be an integer or null; got "x""#,
            ),
        ] {
            assert_eq!(typed(words), Err(want.to_owned()), "{words:?}");
        }
        assert!(typed(&["s:={"]).unwrap_err().starts_with("s: is not valid JSON"));
    }

    #[test]
    fn without_a_schema_json_is_json_and_the_rest_is_text() {
        let arguments = [("a", "1"), ("b", "x y"), ("c", "{\"d\":[]}")].map(|(key, value)| Argument {
            key,
            value,
            json: false,
        });
        assert_eq!(typed_args(None, &arguments).unwrap().get(), r#"{"a":1,"b":"x y","c":{"d":[]}}"#);
    }

    #[test]
    fn endless_references_end() {
        let circle = json!({"properties": {"a": {"$ref": "#/properties/a", "anyOf": [{"$ref": "#/properties/a"}, {"$ref": "#"}]}}});
        let arguments = [Argument { key: "a", value: "x", json: false }];
        assert_eq!(typed_args(Some(&circle), &arguments).unwrap().get(), r#"{"a":"x"}"#);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        #[test]
        fn text_arrives_as_typed_and_the_result_is_always_an_object(
            text in any::<String>(), key in proptest::sample::select(vec!["s", "n", "any", "list", "o", "new", "b"]),
        ) {
            let schema = schema();
            let all = [Argument { key: "s", value: &text, json: false }];
            let object: Value = serde_json::from_str(typed_args(Some(&schema), &all).unwrap().get()).unwrap();
            prop_assert_eq!(object["s"].as_str(), Some(text.as_str()));
            if let Ok(raw) = typed_args(Some(&schema), &[Argument { key, value: &text, json: false }]) {
                let object: Value = serde_json::from_str(raw.get()).unwrap();
                prop_assert_eq!(object.as_object().unwrap().len(), 1);
            }
        }

        #[test]
        fn integers_of_any_size_keep_their_digits(digits in "-?[1-9][0-9]{0,60}") {
            let raw = typed_args(Some(&schema()), &[Argument { key: "n", value: &digits, json: false }]).unwrap();
            prop_assert_eq!(raw.get(), format!(r#"{{"n":{digits}}}"#));
        }
    }
}
