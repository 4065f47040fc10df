//! `x-mcp-header` (SEP-2243): arguments that a tool wants mirrored in `Mcp-Param-…`
//! headers, so that servers and proxies can route without reading the body. Pure.
//! The catalogue compiles a tool's schema once; a schema that breaks the rules makes
//! the tool unusable over HTTP in the modern era, and the error says why. The front
//! checks with the same rules what its own clients send.

use std::collections::HashSet;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::encode;

/// The annotation in a property's schema.
const ANNOTATION: &str = "x-mcp-header";
/// Header names are this with the annotated name behind it.
const PREFIX: &str = "Mcp-Param-";

/// The annotated parameters of one tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParamHeaders(Vec<ParamHeader>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct ParamHeader {
    /// Keys from the arguments object to the value.
    path: Vec<String>,
    /// The whole header name.
    name: String,
}

impl ParamHeaders {
    /// Reads the annotations of a tool's `inputSchema` (JSON). Errors name the property
    /// and the rule that it breaks: names are HTTP tokens, unique without regard to
    /// case, on properties of a primitive type that are reached through `properties` alone.
    pub fn of_schema(schema: &[u8]) -> Result<Self, String> {
        // Nearly all schemas have none: don't parse them.
        if memchr::memmem::find(schema, ANNOTATION.as_bytes()).is_none() {
            return Ok(Self::default());
        }
        let schema: Map<String, Value> =
            serde_json::from_slice(schema).map_err(|e| format!("inputSchema is not a JSON object: {e}"))?;
        let mut walk = Walk { path: Vec::new(), found: Vec::new(), seen: HashSet::new() };
        walk.schema(&schema, true)?;
        Ok(Self(walk.found))
    }

    /// Whether there is nothing to mirror.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The headers for these `arguments` (a JSON object). A parameter that is absent,
    /// null or no primitive has none.
    pub fn headers(&self, arguments: &[u8]) -> Vec<(String, String)> {
        let mut out = Vec::new();
        for header in &self.0 {
            if let Some(value) = value_at(arguments, &header.path) {
                out.push((header.name.clone(), encode::value(value.text()).into_owned()));
            }
        }
        out
    }

    /// Whether the headers of a call say what its `arguments` (a JSON object) say. `header` looks one
    /// up by name, and fails when it has no one value.
    ///
    /// # Errors
    /// The first header that is missing, unreadable, or says something else, as text for its sender.
    pub fn agree<'a, E>(
        &self,
        arguments: &[u8],
        header: impl Fn(&str) -> Result<Option<&'a str>, E>,
    ) -> Result<(), String> {
        for ParamHeader { path, name } in &self.0 {
            let place = path.join(".");
            let given = header(name)
                .map_err(|_| format!("{name} is there more than once, or holds bytes that are no ASCII"))?;
            match (given, value_at(arguments, path)) {
                (None, None) => {}
                (None, Some(_)) => {
                    return Err(format!("{name} is missing: it must repeat the argument {place}"));
                }
                (Some(_), None) => {
                    return Err(format!(
                        "{name} is there, but the argument {place} is not, or has no text that a header could repeat"
                    ));
                }
                (Some(given), Some(value)) => {
                    let given = encode::unwrapped(given)
                        .ok_or_else(|| format!("{name} is not Base64 of UTF-8 between =?base64? and ?="))?;
                    if !value.is(&given) {
                        return Err(format!("{name} is not the argument {place}"));
                    }
                }
            }
        }
        Ok(())
    }
}

/// The headers of one call, straight from a tool's schema; none when the schema breaks the rules.
pub fn param_headers(schema: &[u8], arguments: &[u8]) -> Vec<(String, String)> {
    ParamHeaders::of_schema(schema).map(|headers| headers.headers(arguments)).unwrap_or_default()
}

struct Walk {
    path: Vec<String>,
    found: Vec<ParamHeader>,
    seen: HashSet<String>,
}

impl Walk {
    /// Goes through one schema object; `chain` says that it was reached through
    /// `properties` alone, so that annotations of its properties count.
    fn schema(&mut self, schema: &Map<String, Value>, chain: bool) -> Result<(), String> {
        for (key, value) in schema {
            match key.as_str() {
                ANNOTATION if self.path.is_empty() => {
                    return Err(format!("{ANNOTATION} must be on a property, not on the schema itself"));
                }
                ANNOTATION if !chain => {
                    return Err(format!(
                        "{}: {ANNOTATION} must be reached through `properties` alone",
                        self.place()
                    ));
                }
                // Checked by `property`, which sees the type beside it.
                ANNOTATION => {}
                "properties" if chain => self.properties(value)?,
                "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas"
                | "dependencies" => self.map_off_chain(key, value)?,
                // Data and names, not schemas.
                "default" | "const" | "enum" | "examples" | "required" | "dependentRequired" => {}
                _ => self.off_chain(key, value)?,
            }
        }
        Ok(())
    }

    fn properties(&mut self, properties: &Value) -> Result<(), String> {
        let Value::Object(properties) = properties else { return Ok(()) };
        for (name, schema) in properties {
            let Value::Object(schema) = schema else { continue };
            self.path.push(name.clone());
            if let Some(annotation) = schema.get(ANNOTATION) {
                self.property(schema, annotation)?;
            }
            self.schema(schema, true)?;
            self.path.pop();
        }
        Ok(())
    }

    fn property(&mut self, schema: &Map<String, Value>, annotation: &Value) -> Result<(), String> {
        let place = self.place();
        let Value::String(name) = annotation else {
            return Err(format!("{place}: {ANNOTATION} must be a string"));
        };
        if name.is_empty() || !name.bytes().all(is_token_byte) {
            return Err(format!("{place}: {ANNOTATION} {name:?} is not a header name"));
        }
        if !self.seen.insert(name.to_ascii_lowercase()) {
            return Err(format!("{place}: {ANNOTATION} {name:?} is used twice"));
        }
        match schema.get("type").and_then(Value::as_str) {
            Some("string" | "integer" | "number" | "boolean") => {}
            _ => {
                return Err(format!(
                    "{place}: {ANNOTATION} needs the type string, integer, number or boolean"
                ));
            }
        }
        self.found.push(ParamHeader { path: self.path.clone(), name: format!("{PREFIX}{name}") });
        Ok(())
    }

    /// A map of names to schemas off the chain.
    fn map_off_chain(&mut self, key: &str, map: &Value) -> Result<(), String> {
        let Value::Object(map) = map else { return Ok(()) };
        map.iter().try_for_each(|(name, schema)| self.off_chain(&format!("{key}.{name}"), schema))
    }

    /// Anything else that may hold schemas: an annotation in there is an error.
    fn off_chain(&mut self, key: &str, value: &Value) -> Result<(), String> {
        self.path.push(key.to_owned());
        match value {
            Value::Object(schema) => self.schema(schema, false)?,
            Value::Array(items) => items.iter().try_for_each(|item| self.off_chain("[]", item))?,
            _ => {}
        }
        self.path.pop();
        Ok(())
    }

    fn place(&self) -> String {
        format!("property {:?}", self.path.join("."))
    }
}

/// RFC 9110, 5.6.2.
fn is_token_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b)
}

/// A primitive argument, as header text.
enum Mirrored {
    /// As it is.
    Text(String),
    /// Integers as the caller wrote them.
    Number(String),
}

impl Mirrored {
    fn text(&self) -> &str {
        let (Self::Text(text) | Self::Number(text)) = self;
        text
    }

    /// Whether a header says the same; numbers may be written in another way.
    fn is(&self, given: &str) -> bool {
        given == self.text() || matches!(self, Self::Number(text) if number(given) == *text)
    }
}

/// The primitive at `path`.
fn value_at(arguments: &[u8], path: &[String]) -> Option<Mirrored> {
    let mut raw: Box<RawValue> = serde_json::from_slice(arguments).ok()?;
    for key in path {
        // The last one counts when a key is repeated, as for every JSON reader that we know of.
        let mut members: std::collections::HashMap<String, Box<RawValue>> =
            serde_json::from_str(raw.get()).ok()?;
        raw = members.remove(key)?;
    }
    let text = raw.get().trim();
    match text.as_bytes().first()? {
        b'"' => serde_json::from_str(text).ok().map(Mirrored::Text),
        b't' | b'f' => Some(Mirrored::Text(text.to_owned())),
        b'-' | b'0'..=b'9' => Some(Mirrored::Number(number(text))),
        _ => None,
    }
}

/// `1.0` and `1e2` are the integers 1 and 100; what is written as an integer stays as it is.
fn number(text: &str) -> String {
    /// Up to here every integer is exact in a double.
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    if text.bytes().all(|b| b == b'-' || b.is_ascii_digit()) {
        return text.to_owned();
    }
    match text.parse::<f64>() {
        Ok(n) if n.fract() == 0.0 && n.abs() <= EXACT_MAX => format!("{n:.0}"),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn schema(properties: &str) -> String {
        format!(r#"{{"type":"object","properties":{properties}}}"#)
    }

    fn headers(properties: &str, arguments: &str) -> Vec<(String, String)> {
        param_headers(schema(properties).as_bytes(), arguments.as_bytes())
    }

    fn one(name: &str, value: &str) -> Vec<(String, String)> {
        vec![(name.to_owned(), value.to_owned())]
    }

    #[test]
    fn annotated_arguments_become_headers() {
        let region = r#"{"region":{"type":"string","x-mcp-header":"Region"},"n":{"type":"integer"}}"#;
        assert_eq!(headers(region, r#"{"region":"eu","n":1}"#), one("Mcp-Param-Region", "eu"));
        assert_eq!(headers(region, r#"{"region":" eu"}"#), one("Mcp-Param-Region", "=?base64?IGV1?="));
        assert_eq!(
            headers(region, r#"{"region":"M\u00fcnchen"}"#),
            one("Mcp-Param-Region", "=?base64?TcO8bmNoZW4=?=")
        );
        for absent in [r#"{"n":1}"#, r#"{"region":null}"#, r#"{"region":["eu"]}"#, r#"{"region":{}}"#, "{}"] {
            assert_eq!(headers(region, absent), [], "{absent}");
        }
    }

    #[test]
    fn numbers_and_booleans_are_written_as_text() {
        let p = r#"{"n":{"type":"integer","x-mcp-header":"N"}}"#;
        for (json, want) in [
            ("42", "42"),
            ("-7", "-7"),
            ("1.0", "1"),
            ("1e2", "100"),
            ("1.5", "1.5"),
            ("123456789012345678901234567890", "123456789012345678901234567890"),
            ("true", "true"),
            ("false", "false"),
        ] {
            assert_eq!(headers(p, &format!(r#"{{"n":{json}}}"#)), one("Mcp-Param-N", want), "{json}");
        }
    }

    #[test]
    fn nested_properties_are_reached_by_their_path() {
        let p = r#"{"db":{"type":"object","properties":{"name":{"type":"string","x-mcp-header":"Db"}}}}"#;
        assert_eq!(headers(p, r#"{"db":{"name":"main"}}"#), one("Mcp-Param-Db", "main"));
        assert_eq!(headers(p, r#"{"db":"main"}"#), []);
    }

    #[test]
    fn each_broken_annotation_is_named() {
        let cases = [
            (schema(r#"{"a":{"type":"string","x-mcp-header":1}}"#), "must be a string"),
            (schema(r#"{"a":{"type":"string","x-mcp-header":""}}"#), "not a header name"),
            (schema(r#"{"a":{"type":"string","x-mcp-header":"two words"}}"#), "not a header name"),
            (schema(r#"{"a":{"type":"string","x-mcp-header":"a\r\nb"}}"#), "not a header name"),
            (
                schema(
                    r#"{"a":{"type":"string","x-mcp-header":"X"},"b":{"type":"string","x-mcp-header":"x"}}"#,
                ),
                "used twice",
            ),
            (schema(r#"{"a":{"type":"object","x-mcp-header":"X"}}"#), "needs the type"),
            (schema(r#"{"a":{"type":["string","null"],"x-mcp-header":"X"}}"#), "needs the type"),
            (schema(r#"{"a":{"x-mcp-header":"X"}}"#), "needs the type"),
            (r#"{"type":"object","x-mcp-header":"X"}"#.to_owned(), "on a property"),
            (
                schema(r#"{"a":{"type":"array","items":{"type":"string","x-mcp-header":"X"}}}"#),
                "`properties` alone",
            ),
            (r#"{"$defs":{"d":{"type":"string","x-mcp-header":"X"}}}"#.to_owned(), "`properties` alone"),
            (
                r#"{"anyOf":[{"properties":{"a":{"type":"string","x-mcp-header":"X"}}}]}"#.to_owned(),
                "`properties` alone",
            ),
            (r#"["x-mcp-header"]"#.to_owned(), "not a JSON object"),
        ];
        for (schema, want) in cases {
            let error = ParamHeaders::of_schema(schema.as_bytes()).unwrap_err();
            assert!(error.contains(want), "{schema}: {error}");
        }
    }

    #[test]
    fn the_word_in_data_or_as_a_property_name_is_no_annotation() {
        for schema in [
            r#"{"default":{"x-mcp-header":"X"}}"#,
            r#"{"properties":{"a":{"type":"string","const":"x-mcp-header"}}}"#,
            r#"{"properties":{"a":{"enum":["x-mcp-header"]}}}"#,
            r#"{"description":"x-mcp-header"}"#,
            r#"{"properties":{"x-mcp-header":{"type":"string"}}}"#,
        ] {
            let found = ParamHeaders::of_schema(schema.as_bytes());
            assert_eq!(found, Ok(ParamHeaders::default()), "{schema}");
        }
    }

    fn agrees(kind: &str, arguments: &str, header: Result<Option<&str>, ()>) -> Result<(), String> {
        let p = format!(r#"{{"a":{{"type":"{kind}","x-mcp-header":"A"}},"b":{{"type":"string"}}}}"#);
        let headers = ParamHeaders::of_schema(schema(&p).as_bytes()).unwrap();
        headers.agree(arguments.as_bytes(), |name| if name == "Mcp-Param-A" { header } else { Ok(None) })
    }

    #[test]
    fn what_a_client_mirrors_must_be_there_and_say_what_the_arguments_say() {
        let good = [
            ("string", r#"{"a":"Hello"}"#, Some("Hello")),
            ("string", r#"{"a":"Hello"}"#, Some("=?base64?SGVsbG8=?=")),
            ("string", r#"{"a":"SGVsbG8="}"#, Some("SGVsbG8=")),
            ("string", r#"{"a":"=?base64?SGVsbG8="}"#, Some("=?base64?SGVsbG8=")),
            ("string", r#"{"a":"M\u00fcnchen"}"#, Some("=?base64?TcO8bmNoZW4=?=")),
            ("string", r#"{"a":""}"#, Some("")),
            ("string", r#"{"a":null}"#, None),
            ("string", r#"{"b":"x"}"#, None),
            ("string", "", None),
            ("integer", r#"{"a":42}"#, Some("42")),
            ("integer", r#"{"a":42.0}"#, Some("42")),
            ("integer", r#"{"a":42}"#, Some("42.0")),
            ("number", r#"{"a":1.5}"#, Some("1.5")),
            ("boolean", r#"{"a":true}"#, Some("true")),
        ];
        for (kind, arguments, header) in good {
            assert_eq!(agrees(kind, arguments, Ok(header)), Ok(()), "{arguments} {header:?}");
        }
        let bad = [
            ("string", r#"{"a":"Hello"}"#, Some("=?base64?SGVsbG8?="), "not Base64"),
            ("string", r#"{"a":"Hello"}"#, Some("=?base64?SGVs!!!bG8=?="), "not Base64"),
            ("string", r#"{"a":"Hello"}"#, Some("=?base64?/w==?="), "not Base64"),
            ("string", r#"{"a":"Hello"}"#, Some("SGVsbG8="), "is not the argument a"),
            ("string", r#"{"a":"Hello"}"#, Some("hello"), "is not the argument a"),
            ("string", r#"{"a":"Hello"}"#, None, "is missing"),
            ("string", r#"{"a":""}"#, None, "is missing"),
            ("string", r#"{"a":null}"#, Some("null"), "is there, but"),
            ("string", r#"{"a":["x"]}"#, Some("x"), "is there, but"),
            ("string", "{}", Some("x"), "is there, but"),
            ("integer", r#"{"a":42}"#, Some("43"), "is not the argument a"),
            ("integer", r#"{"a":123456789012345678901}"#, Some("123456789012345678902"), "is not"),
            ("boolean", r#"{"a":true}"#, Some("True"), "is not the argument a"),
            ("string", r#"{"a":"42"}"#, Some("42.0"), "is not the argument a"),
        ];
        for (kind, arguments, header, want) in bad {
            let error = agrees(kind, arguments, Ok(header)).unwrap_err();
            assert!(error.contains(want) && error.contains("Mcp-Param-A"), "{arguments} {header:?}: {error}");
        }
        assert!(agrees("string", r#"{"a":"x"}"#, Err(())).unwrap_err().contains("more than once"));
    }

    proptest! {
        #[test]
        fn headers_that_we_make_agree_with_their_arguments(text in ".*", n in any::<f64>()) {
            let properties = r#"{"a":{"type":"string","x-mcp-header":"A"},"n":{"type":"number","x-mcp-header":"N"}}"#;
            let arguments = serde_json::json!({ "a": text, "n": n }).to_string();
            let made = headers(properties, &arguments);
            let compiled = ParamHeaders::of_schema(schema(properties).as_bytes()).unwrap();
            let look = |name: &str| {
                let found = made.iter().find(|(key, _)| key == name);
                Ok::<_, ()>(found.map(|(_, value)| value.as_str()))
            };
            prop_assert_eq!(compiled.agree(arguments.as_bytes(), look), Ok(()));
        }

        #[test]
        fn any_string_argument_gives_a_legal_header(text in ".*") {
            let arguments = serde_json::json!({ "a": text }).to_string();
            let found = headers(r#"{"a":{"type":"string","x-mcp-header":"A"}}"#, &arguments);
            prop_assert_eq!(found.len(), 1);
            prop_assert!(http::header::HeaderValue::from_str(&found[0].1).is_ok());
        }

        #[test]
        fn no_schema_bytes_panic(schema in "\\PC*x-mcp-header\\PC*", arguments in "\\PC*") {
            let _ = param_headers(schema.as_bytes(), arguments.as_bytes());
        }
    }
}
