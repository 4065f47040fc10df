//! One definition of a list, judged alone: usable (with notes and repairs), or kept
//! out with a reason. The bytes stay as sent; repairs are spans beside them. Called
//! by `parse` for every entry and by `merge` to write a definition out.

use std::ops::Range;

use bytes::Bytes;

use super::items::{Edit, Hints, Item, ListKind, limits};
use super::json::{Kind, Member, cut, members, text};
use super::pin::fingerprint;
use crate::wire::splice::Parts;

/// A missing input schema means: an object with anything in it.
const ANY_OBJECT: &str = r#"{"type":"object"}"#;

/// Judges one list entry. The error is the reason to keep it out.
pub fn read(kind: ListKind, raw: Bytes) -> Result<Item, String> {
    let Some(fields) = members(&raw) else {
        return Err(match Kind::of(&raw) {
            Kind::Object => "the entry is not valid JSON".to_owned(),
            other => format!("the entry is {}, not an object", other.named()),
        });
    };
    let key = kind.name_key();
    for watched in [key, "inputSchema", "annotations", "description"] {
        if fields.iter().filter(|m| m.key == watched).count() > 1 {
            return Err(format!("`{watched}` is given more than once"));
        }
    }
    let (name, name_span) = name_of(kind, &raw, &fields)?;
    let mut draft =
        Draft { raw: &raw, fields: &fields, notes: Vec::new(), edits: Vec::new(), removed: Vec::new() };
    if name.chars().count() > limits::NAME_CHARS_NOTED {
        draft.note(format!(
            "`{key}` is longer than {} characters: some clients refuse it",
            limits::NAME_CHARS_NOTED
        ));
    }
    let mut title = draft.optional_text("title");
    let description = draft.description();
    draft.extras();
    let mut hints = Hints::default();
    let mut input_schema = None;
    match kind {
        ListKind::Tools => {
            input_schema = draft.input_schema()?;
            draft.output_schema();
            draft.execution();
            let (found, inner_title) = draft.annotations();
            hints = found;
            title = title.or(inner_title);
        }
        ListKind::Prompts => draft.prompt_arguments(),
        ListKind::Resources | ListKind::Templates => {
            if !fields.iter().any(|m| m.key == "name" && Kind::of(&raw[m.value.clone()]) == Kind::Text) {
                draft.note("`name` is missing".to_owned());
            }
        }
    }
    let (notes, edits) = draft.finish();
    let fingerprint = (kind == ListKind::Tools).then(|| fingerprint(&raw));
    Ok(Item { name, name_span, title, description, input_schema, hints, notes, edits, fingerprint, raw })
}

/// The definition as a client may see it: the bytes as sent, with `name` (if given)
/// in place of the raw one and the repairs done. Byte for byte the same otherwise.
/// `name` must need no escaping (exposed names never do).
pub fn write(item: &Item, name: Option<&str>) -> Parts {
    let mut edits: Vec<(Range<usize>, String)> =
        item.edits.iter().map(|edit| (edit.span.clone(), edit.with.to_owned())).collect();
    if let Some(name) = name {
        edits.push((item.name_span.clone(), format!("\"{name}\"")));
        edits.sort_by_key(|(span, _)| (span.start, span.end));
    }
    let mut parts = Parts::default();
    let mut at = 0;
    for (span, with) in edits {
        parts.push(item.raw.slice(at..span.start));
        parts.push(with);
        at = span.end;
    }
    parts.push(item.raw.slice(at..));
    parts
}

/// The name of an entry as far as there is one, for a message; bounded.
pub(super) fn label(kind: ListKind, raw: &[u8]) -> Option<String> {
    let found = members(raw)?.into_iter().rev().find(|m| m.key == kind.name_key())?;
    let name = text(&raw[found.value])?;
    (!name.is_empty()).then(|| cut(&name, 256).to_owned())
}

fn name_of(kind: ListKind, raw: &[u8], fields: &[Member]) -> Result<(String, Range<usize>), String> {
    let key = kind.name_key();
    let Some(field) = fields.iter().find(|m| m.key == key) else {
        return Err(format!("`{key}` is missing"));
    };
    let value = &raw[field.value.clone()];
    let Some(name) = text(value) else {
        return Err(match Kind::of(value) {
            Kind::Text => format!("`{key}` is not valid Unicode text"),
            other => format!("`{key}` is {}, not text", other.named()),
        });
    };
    if name.trim().is_empty() {
        return Err(format!("`{key}` is empty"));
    }
    let len_max = match kind {
        ListKind::Tools | ListKind::Prompts => limits::NAME_LEN_MAX,
        ListKind::Resources | ListKind::Templates => limits::URI_LEN_MAX,
    };
    if name.len() > len_max {
        return Err(format!("`{key}` has {} bytes, more than {len_max}", name.len()));
    }
    Ok((name, field.value.clone()))
}

/// An entry while it is judged.
struct Draft<'a> {
    raw: &'a [u8],
    fields: &'a [Member],
    notes: Vec<String>,
    edits: Vec<Edit>,
    /// Indices in `fields` of members to leave out.
    removed: Vec<usize>,
}

impl Draft<'_> {
    fn note(&mut self, text: String) {
        self.notes.push(text);
    }

    fn find(&self, key: &str) -> Option<(usize, Range<usize>, Kind)> {
        let index = self.fields.iter().position(|m| m.key == key)?;
        let span = self.fields[index].value.clone();
        let kind = Kind::of(&self.raw[span.clone()]);
        Some((index, span, kind))
    }

    /// Notes an optional part that does not parse, and leaves it out of what clients see.
    fn drop_part(&mut self, index: usize, why: &str) {
        self.note(format!("`{}` is left out: {why}", self.fields[index].key));
        self.removed.push(index);
    }

    fn optional_text(&mut self, key: &str) -> Option<String> {
        let (index, span, kind) = self.find(key)?;
        let found = text(&self.raw[span]);
        if found.is_none() {
            let why = match kind {
                Kind::Text => "it is not valid Unicode text".to_owned(),
                other => format!("it is {}, not text", other.named()),
            };
            self.drop_part(index, &why);
        }
        found
    }

    fn description(&mut self) -> Option<String> {
        let mut found = self.optional_text("description")?;
        if found.len() > limits::DESCRIPTION_LEN_MAX {
            self.note(format!(
                "`description` has {} bytes; {} are shown",
                found.len(),
                limits::DESCRIPTION_LEN_MAX
            ));
            found.truncate(cut(&found, limits::DESCRIPTION_LEN_MAX).len());
        }
        Some(found)
    }

    /// The span of a usable input schema; the error quarantines the tool.
    fn input_schema(&mut self) -> Result<Option<Range<usize>>, String> {
        let Some((_, span, kind)) = self.find("inputSchema") else {
            self.note("`inputSchema` is missing: any object is accepted".to_owned());
            let end = self.raw.iter().rposition(|&b| b == b'}').unwrap_or(self.raw.len());
            self.edits.push(Edit { span: end..end, with: r#","inputSchema":{"type":"object"}"# });
            return Ok(None);
        };
        match kind {
            Kind::Object => {}
            Kind::Null => {
                self.note("`inputSchema` is null: any object is accepted".to_owned());
                self.edits.push(Edit { span, with: ANY_OBJECT });
                return Ok(None);
            }
            other => return Err(format!("`inputSchema` is {}, not an object", other.named())),
        }
        if span.len() > limits::SCHEMA_LEN_MAX {
            return Err(format!(
                "`inputSchema` has {} bytes, more than {}",
                span.len(),
                limits::SCHEMA_LEN_MAX
            ));
        }
        self.schema_root(&span)?;
        Ok(Some(span))
    }

    fn schema_root(&mut self, span: &Range<usize>) -> Result<(), String> {
        let schema = &self.raw[span.clone()];
        let fields = members(schema).unwrap_or_default();
        let value = |key: &str| fields.iter().rev().find(|m| m.key == key).map(|m| &schema[m.value.clone()]);
        let mut unwanted = Vec::new();
        for (i, field) in fields.iter().enumerate() {
            let found = &schema[field.value.clone()];
            let fault = match field.key.as_str() {
                "required" if serde_json::from_slice::<Vec<String>>(found).is_err() => "a list of names",
                "properties" if Kind::of(found) != Kind::Object => "an object",
                _ => continue,
            };
            self.note(format!("`inputSchema.{}` is left out: it is not {fault}", field.key));
            unwanted.push(i);
        }
        self.edits.extend(removals(&fields, &unwanted, span.start));
        self.property_schemas("inputSchema", span);
        match fields.iter().rev().find(|m| m.key == "type") {
            None => {
                self.note("`inputSchema` has no `type`: taken as \"object\"".to_owned());
                let at = span.start + 1;
                let alone = fields.len() == unwanted.len();
                let with = if alone { r#""type":"object""# } else { r#""type":"object","# };
                self.edits.push(Edit { span: at..at, with });
            }
            Some(declared) => {
                if !root_type(&schema[declared.value.clone()])? {
                    self.note("`inputSchema.type` is not just \"object\": taken as \"object\"".to_owned());
                    let place = declared.value.start + span.start..declared.value.end + span.start;
                    self.edits.push(Edit { span: place, with: r#""object""# });
                }
            }
        }
        for key in ["anyOf", "oneOf", "allOf", "not", "enum"] {
            if value(key).is_some() {
                self.note(format!("`inputSchema` has `{key}` at the top: some model APIs refuse it"));
            }
        }
        Ok(())
    }

    /// Properties whose schema is no object, for which some clients refuse the whole list: `true` and
    /// `false` have a form that is one, and anything else says nothing.
    fn property_schemas(&mut self, part: &str, schema: &Range<usize>) {
        let fields = members(&self.raw[schema.clone()]).unwrap_or_default();
        let Some(field) = fields.iter().rev().find(|m| m.key == "properties") else { return };
        let from = schema.start + field.value.start;
        let inner = &self.raw[from..schema.start + field.value.end];
        let mut odd: Option<String> = None;
        for property in members(inner).unwrap_or_default() {
            let value = &inner[property.value.clone()];
            let with = match value {
                b"false" => r#"{"not":{}}"#,
                _ if Kind::of(value) == Kind::Object => continue,
                _ => "{}",
            };
            odd.get_or_insert_with(|| {
                let (name, found) = (cut(&property.key, 64), Kind::of(value).named());
                format!("`{part}.properties.{name}` is {found}: shown as {with}, and so is each like it")
            });
            let span = from + property.value.start..from + property.value.end;
            self.edits.push(Edit { span, with });
        }
        self.notes.extend(odd);
    }

    /// What any definition may carry, and clients refuse a whole list for.
    fn extras(&mut self) {
        if let Some((index, span, kind)) = self.find("icons") {
            let icons: Option<Vec<serde_json::Value>> = serde_json::from_slice(&self.raw[span]).ok();
            if kind != Kind::Array {
                self.drop_part(index, &format!("it is {}, not an array", kind.named()));
            } else if !icons.is_some_and(|icons| icons.iter().all(|icon| icon["src"].is_string())) {
                self.drop_part(index, "not each of them has a `src`");
            }
        }
        if let Some((index, _, kind)) = self.find("_meta")
            && kind != Kind::Object
        {
            self.drop_part(index, &format!("it is {}, not an object", kind.named()));
        }
    }

    fn execution(&mut self) {
        let Some((index, span, kind)) = self.find("execution") else { return };
        if kind != Kind::Object {
            self.drop_part(index, &format!("it is {}, not an object", kind.named()));
            return;
        }
        let object = &self.raw[span];
        let fields = members(object).unwrap_or_default();
        let support =
            fields.iter().rev().find(|m| m.key == "taskSupport").map(|m| text(&object[m.value.clone()]));
        let known = |word: Option<String>| {
            word.is_some_and(|word| ["forbidden", "optional", "required"].contains(&word.as_str()))
        };
        if support.is_some_and(|word| !known(word)) {
            self.drop_part(index, "its `taskSupport` is none of forbidden, optional, required");
        }
    }

    fn output_schema(&mut self) {
        let Some((index, span, kind)) = self.find("outputSchema") else { return };
        if kind != Kind::Object {
            self.drop_part(index, &format!("it is {}, not an object", kind.named()));
            return;
        }
        let schema = &self.raw[span.clone()];
        let declared = members(schema).and_then(|fields| fields.into_iter().rev().find(|m| m.key == "type"));
        match declared.map(|m| text(&schema[m.value])) {
            Some(Some(name)) if name == "object" => self.property_schemas("outputSchema", &span),
            Some(Some(name)) => {
                self.drop_part(index, &format!("its `type` is {:?}, not \"object\"", cut(&name, 32)));
            }
            Some(None) => self.drop_part(index, "its `type` is not text"),
            None => self.note("`outputSchema` has no `type`".to_owned()),
        }
    }

    /// The hints, and the title that the annotations carry.
    fn annotations(&mut self) -> (Hints, Option<String>) {
        let mut hints = Hints::default();
        let Some((index, span, kind)) = self.find("annotations") else { return (hints, None) };
        if kind != Kind::Object {
            self.drop_part(index, &format!("it is {}, not an object", kind.named()));
            return (hints, None);
        }
        let object = &self.raw[span.clone()];
        let fields = members(object).unwrap_or_default();
        let mut title = None;
        let mut bad = Vec::new();
        for (i, field) in fields.iter().enumerate() {
            let value = &object[field.value.clone()];
            let slot = match field.key.as_str() {
                "readOnlyHint" => &mut hints.read_only,
                "destructiveHint" => &mut hints.destructive,
                "idempotentHint" => &mut hints.idempotent,
                "openWorldHint" => &mut hints.open_world,
                "title" => {
                    title = text(value);
                    if title.is_none() {
                        bad.push(i);
                    }
                    continue;
                }
                _ => continue,
            };
            *slot = match value {
                b"true" => Some(true),
                b"false" => Some(false),
                _ => {
                    bad.push(i);
                    None
                }
            };
        }
        for &i in &bad {
            let found = Kind::of(&object[fields[i].value.clone()]).named();
            self.notes.push(format!("`annotations.{}` is left out: it is {found}", fields[i].key));
        }
        self.edits.extend(removals(&fields, &bad, span.start));
        (hints, title)
    }

    fn prompt_arguments(&mut self) {
        if let Some((index, _, kind)) = self.find("arguments")
            && kind != Kind::Array
        {
            self.drop_part(index, &format!("it is {}, not an array", kind.named()));
        }
    }

    fn finish(self) -> (Vec<String>, Vec<Edit>) {
        let mut edits = self.edits;
        edits.extend(removals(self.fields, &self.removed, 0));
        edits.sort_by_key(|edit| (edit.span.start, edit.span.end));
        (self.notes, edits)
    }
}

/// Whether a root type is plainly "object", or needs repair. The error quarantines.
fn root_type(declared: &[u8]) -> Result<bool, String> {
    let refuse = |what: &str| Err(format!("`inputSchema.type` is {what}; arguments are always an object"));
    match serde_json::from_slice(declared) {
        Ok(serde_json::Value::String(name)) if name == "object" => Ok(true),
        Ok(serde_json::Value::String(name)) => refuse(&format!("{:?}", cut(&name, 32))),
        Ok(serde_json::Value::Array(names)) if !names.iter().any(|n| n == "object") => {
            refuse("a list without \"object\"")
        }
        _ => Ok(false),
    }
}

/// Edits that take the members at `unwanted` (ascending) out of an object, each with one comma.
fn removals(fields: &[Member], unwanted: &[usize], offset: usize) -> Vec<Edit> {
    let mut kept_before = false;
    let mut edits = Vec::new();
    for (i, field) in fields.iter().enumerate() {
        if !unwanted.contains(&i) {
            kept_before = true;
            continue;
        }
        let span = if kept_before {
            fields[i - 1].value.end..field.value.end
        } else {
            let end = fields.get(i + 1).map_or(field.value.end, |next| next.key_span.start);
            field.key_span.start..end
        };
        edits.push(Edit { span: span.start + offset..span.end + offset, with: "" });
    }
    edits
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn tool(json: &str) -> Result<Item, String> {
        read(ListKind::Tools, Bytes::copy_from_slice(json.as_bytes()))
    }

    fn shown(item: &Item) -> String {
        String::from_utf8(write(item, None).to_bytes().to_vec()).unwrap()
    }

    #[test]
    fn sound_definition_has_no_note_no_edit_and_is_written_byte_for_byte() {
        let json = r#"{ "x-vendor":[1e999], "name" : "ec\u0068o","description":"says \"it\"","inputSchema":{"type":"object","properties":{"name":{"type":"string"}}},"annotations":{"readOnlyHint":true,"title":"Echo"} }"#;
        let item = tool(json).unwrap();
        assert_eq!(item.name, "echo");
        assert_eq!(item.title.as_deref(), Some("Echo"));
        assert_eq!(item.description.as_deref(), Some("says \"it\""));
        assert_eq!(item.hints, Hints { read_only: Some(true), ..Hints::default() });
        assert!(item.notes.is_empty() && item.edits.is_empty(), "{item:?}");
        assert_eq!(shown(&item), json);
        let renamed = String::from_utf8(write(&item, Some("s__echo")).to_bytes().to_vec()).unwrap();
        assert_eq!(renamed, json.replacen(r#""ec\u0068o""#, r#""s__echo""#, 1));
    }

    #[test]
    fn missing_or_null_schema_is_repaired_and_noted() {
        for (json, want) in [
            (r#"{"name":"a"}"#, r#"{"name":"a","inputSchema":{"type":"object"}}"#),
            (r#"{"name":"a","inputSchema":null }"#, r#"{"name":"a","inputSchema":{"type":"object"} }"#),
            (r#"{"name":"a","inputSchema":{}}"#, r#"{"name":"a","inputSchema":{"type":"object"}}"#),
            (
                r#"{"name":"a","inputSchema":{ "properties":{}}}"#,
                r#"{"name":"a","inputSchema":{"type":"object", "properties":{}}}"#,
            ),
        ] {
            let item = tool(json).unwrap();
            assert_eq!(shown(&item), want);
            assert_eq!(item.notes.len(), 1, "{:?}", item.notes);
            assert_eq!(&item.raw[..], json.as_bytes(), "what was sent stays");
        }
    }

    #[test]
    fn null_required_is_dropped_wherever_it_stands() {
        for (schema, want) in [
            (r#"{"required":null}"#, r#"{"type":"object"}"#),
            (r#"{"required":null,"x":1}"#, r#"{"type":"object","x":1}"#),
            (r#"{"type":"object","required":null}"#, r#"{"type":"object"}"#),
            (r#"{"required":null,"type":"object"}"#, r#"{"type":"object"}"#),
            (r#"{"type":"object", "required" : null , "x":1}"#, r#"{"type":"object" , "x":1}"#),
        ] {
            let item = tool(&format!(r#"{{"name":"a","inputSchema":{schema}}}"#)).unwrap();
            assert_eq!(shown(&item), format!(r#"{{"name":"a","inputSchema":{want}}}"#));
        }
    }

    #[test]
    fn schema_that_is_no_object_quarantines_the_tool_with_its_reason() {
        for (schema, part) in [
            (r#""x""#, "text"),
            ("[]", "an array"),
            ("true", "a boolean"),
            ("7", "a number"),
            (r#"{"type":"string"}"#, "\"string\""),
            (r#"{"type":["string","null"]}"#, "list without"),
        ] {
            let reason = tool(&format!(r#"{{"name":"a","inputSchema":{schema}}}"#)).unwrap_err();
            assert!(reason.contains("inputSchema") && reason.contains(part), "{schema}: {reason}");
        }
    }

    #[test]
    fn odd_but_usable_schemas_stay_with_a_note() {
        for (schema, part, want) in [
            (r#"{"type":"object","anyOf":[{}]}"#, "anyOf", r#"{"type":"object","anyOf":[{}]}"#),
            (r#"{"type":["object","null"]}"#, "just", r#"{"type":"object"}"#),
            (r#"{"type": null}"#, "just", r#"{"type": "object"}"#),
            (r#"{"type":"object","properties":[]}"#, "properties", r#"{"type":"object"}"#),
            (r#"{"properties":[],"required":[1]}"#, "required", r#"{"type":"object"}"#),
        ] {
            let item = tool(&format!(r#"{{"name":"a","inputSchema":{schema}}}"#)).unwrap();
            assert!(item.notes.iter().any(|n| n.contains(part)), "{schema}: {:?}", item.notes);
            assert_eq!(shown(&item), format!(r#"{{"name":"a","inputSchema":{want}}}"#));
            assert!(item.input_schema.is_some());
        }
    }

    #[test]
    fn bad_optional_parts_are_left_out_and_the_tool_stays() {
        let item = tool(
            r#"{"title":7,"name":"a","inputSchema":{"type":"object"},"outputSchema":{"type":["object"]},"annotations":{"readOnlyHint":"yes","idempotentHint":true,"title":3},"description":[],"keep":1}"#,
        )
        .unwrap();
        assert_eq!(item.hints, Hints { idempotent: Some(true), ..Hints::default() });
        assert_eq!(
            shown(&item),
            r#"{"name":"a","inputSchema":{"type":"object"},"annotations":{"idempotentHint":true},"keep":1}"#
        );
        assert_eq!(item.notes.len(), 5, "{:?}", item.notes);
        let item =
            tool(r#"{"name":"a","inputSchema":{"type":"object"},"annotations":"x","outputSchema":null}"#)
                .unwrap();
        assert_eq!(shown(&item), r#"{"name":"a","inputSchema":{"type":"object"}}"#);
    }

    #[test]
    fn what_strict_clients_refuse_a_whole_list_for_is_mended_and_the_rest_stays_as_sent() {
        let schema = r#"{"type":"object","properties":{"a":true,"b" : false,"c":{"x":1.0},"d":[]}}"#;
        let mended = r#"{"type":"object","properties":{"a":{},"b" : {"not":{}},"c":{"x":1.0},"d":{}}}"#;
        let item =
            tool(&format!(r#"{{"name":"a","inputSchema":{schema},"outputSchema":{schema}}}"#)).unwrap();
        assert_eq!(shown(&item), format!(r#"{{"name":"a","inputSchema":{mended},"outputSchema":{mended}}}"#));
        assert_eq!(item.notes.len(), 2, "{:?}", item.notes);
        for (part, stays) in [
            (r#""icons":"none""#, false),
            (r#""icons":[{"src":"x:y"},{}]"#, false),
            (r#""icons":[{"src":"x:y","more":1}]"#, true),
            (r#""_meta":[]"#, false),
            (r#""_meta":{"a":[]}"#, true),
            (r#""execution":{"taskSupport":"perhaps"}"#, false),
            (r#""execution":{"taskSupport":"optional","more":1}"#, true),
            (r#""execution":{"more":1}"#, true),
            (r#""execution":1"#, false),
        ] {
            let plain = r#"{"name":"a","inputSchema":{"type":"object"}"#;
            let item = tool(&format!("{plain},{part}}}")).unwrap();
            let want = if stays { format!("{plain},{part}}}") } else { format!("{plain}}}") };
            assert_eq!((shown(&item), item.notes.is_empty()), (want, stays), "{part}");
        }
    }

    #[test]
    fn name_faults_quarantine() {
        let long = "n".repeat(limits::NAME_LEN_MAX + 1);
        for (json, part) in [
            (r#"{"inputSchema":{}}"#.to_owned(), "missing"),
            (r#"{"name":""}"#.to_owned(), "empty"),
            (r#"{"name":"  "}"#.to_owned(), "empty"),
            (r#"{"name":3}"#.to_owned(), "a number"),
            (r#"{"name":"\ud800"}"#.to_owned(), "Unicode"),
            (r#"{"name":"a","name":"b"}"#.to_owned(), "more than once"),
            (format!(r#"{{"name":"{long}"}}"#), "1025 bytes"),
            ("[1]".to_owned(), "an array"),
            ("null".to_owned(), "null"),
        ] {
            let reason = tool(&json).unwrap_err();
            assert!(reason.contains(part), "{json}: {reason}");
        }
    }

    #[test]
    fn limits_hold_at_one_below_at_and_one_above() {
        for (len, noted) in [(127, false), (128, false), (129, true)] {
            let item =
                tool(&format!(r#"{{"name":"{}","inputSchema":{{"type":"object"}}}}"#, "é".repeat(len)))
                    .unwrap();
            assert_eq!(!item.notes.is_empty(), noted, "{len}");
        }
        for (len, fine) in [(1023, true), (1024, true), (1025, false)] {
            let json = format!(r#"{{"name":"{}","inputSchema":{{"type":"object"}}}}"#, "n".repeat(len));
            assert_eq!(tool(&json).is_ok(), fine, "{len}");
        }
        for (len, noted) in [(16_383, false), (16_384, false), (16_385, true)] {
            let json =
                json!({"name": "a", "description": "d".repeat(len), "inputSchema": {"type": "object"}});
            let item = tool(&json.to_string()).unwrap();
            assert_eq!(!item.notes.is_empty(), noted, "{len}");
            assert_eq!(item.description.unwrap().len(), len.min(16_384));
        }
        let empty = r#"{"type":"object","x":""}"#;
        for (len, fine) in [(262_143, true), (262_144, true), (262_145, false)] {
            let schema = empty.replace("\"\"", &format!("\"{}\"", "x".repeat(len - empty.len())));
            assert_eq!(schema.len(), len);
            assert_eq!(tool(&format!(r#"{{"name":"a","inputSchema":{schema}}}"#)).is_ok(), fine, "{len}");
        }
    }

    #[test]
    fn other_kinds_are_named_by_their_own_key() {
        let uri =
            read(ListKind::Resources, Bytes::from_static(br#"{"uri":"file:///a","name":"a"}"#)).unwrap();
        assert_eq!((uri.name.as_str(), uri.notes.len()), ("file:///a", 0));
        let template =
            read(ListKind::Templates, Bytes::from_static(br#"{"uriTemplate":"x://{y}"}"#)).unwrap();
        assert_eq!((template.name.as_str(), template.notes.len()), ("x://{y}", 1));
        let prompt = read(ListKind::Prompts, Bytes::from_static(br#"{"name":"p","arguments":{}}"#)).unwrap();
        assert_eq!(shown(&prompt), r#"{"name":"p"}"#);
    }

    fn part() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(Value::Null),
            Just(json!(true)),
            Just(json!(3)),
            Just(json!("object")),
            Just(json!(["object", "null"])),
            Just(json!({"type": "object", "required": null, "properties": {}})),
            Just(json!({"required": null})),
            Just(json!({"readOnlyHint": "yes", "title": null, "openWorldHint": false})),
            Just(json!({})),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]
        #[test]
        fn whatever_the_parts_the_written_definition_is_json_that_needs_no_repair(
            parts in proptest::collection::vec(
                (proptest::sample::select(vec!["inputSchema", "outputSchema", "annotations", "title", "description", "_meta"]), part()),
                0..6,
            ),
            at in 0usize..6,
        ) {
            let mut object = serde_json::Map::new();
            for (i, (key, value)) in parts.iter().enumerate() {
                if i == at.min(parts.len() - 1) {
                    object.insert("name".into(), json!("n"));
                }
                object.insert((*key).into(), value.clone());
            }
            object.entry("name").or_insert(json!("n"));
            if let Ok(item) = tool(&Value::Object(object).to_string()) {
                let out = write(&item, None).to_bytes();
                let again = read(ListKind::Tools, out.clone()).unwrap();
                prop_assert!(again.edits.is_empty(), "{:?} -> {:?}", item.raw, out);
                prop_assert_eq!(again.hints, item.hints);
            }
        }
    }
}
