//! The parameters that the tools of one server want mirrored in headers, compiled from
//! its list once. A tool whose annotations break the rules must not be offered over HTTP
//! in the modern era (SEP-2243): it is quarantined alone. Pure; kept by the server actor.

use std::collections::HashMap;

use super::params::ParamHeaders;
use crate::catalog::items::{Item, ItemList, Quarantined};
use crate::wire::envelope;

/// Headers by raw tool name; most servers have none.
#[derive(Clone, Debug, Default)]
pub struct MirroredParams(HashMap<String, ParamHeaders>);

impl MirroredParams {
    /// Compiles the annotations of a list of tools and takes the broken ones out of it.
    pub fn vet(list: &mut ItemList) -> Self {
        let mut table = HashMap::new();
        let (items, quarantined) = (&mut list.items, &mut list.quarantined);
        items.retain(|item| match ParamHeaders::of_schema(schema(item)) {
            Ok(headers) => {
                if !headers.is_empty() {
                    table.insert(item.name.clone(), headers);
                }
                true
            }
            Err(reason) => {
                quarantined.push(Quarantined { name: item.name.clone(), reason });
                false
            }
        });
        Self(table)
    }

    /// The headers for a call of `tool` with these `params` (a JSON object).
    pub fn headers(&self, tool: &str, params: &[u8]) -> Vec<(String, String)> {
        let Some(headers) = self.0.get(tool) else { return Vec::new() };
        let arguments = envelope::member(params, "arguments").map(|span| &params[span]);
        arguments.map(|arguments| headers.headers(arguments)).unwrap_or_default()
    }
}

fn schema(item: &Item) -> &[u8] {
    item.input_schema.clone().map_or(&[], |span| &item.raw[span])
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn tool(name: &str, annotation: &str) -> Arc<Item> {
        let schema =
            format!(r#"{{"type":"object","properties":{{"city":{{"type":"string"{annotation}}}}}}}"#);
        let head = r#"{"inputSchema":"#;
        Arc::new(Item {
            input_schema: Some(head.len()..head.len() + schema.len()),
            raw: format!("{head}{schema}}}").into(),
            name: name.to_owned(),
            name_span: 0..0,
            title: None,
            description: None,
            hints: crate::catalog::items::Hints::default(),
            notes: Vec::new(),
            edits: Vec::new(),
            fingerprint: None,
        })
    }

    #[test]
    fn a_tool_with_a_broken_annotation_is_quarantined_alone() {
        let items = vec![
            tool("plain", ""),
            tool("sound", r#","x-mcp-header":"City""#),
            tool("broken", r#","x-mcp-header":7"#),
        ];
        let mut list = ItemList { items, ..ItemList::default() };
        let table = MirroredParams::vet(&mut list);
        assert_eq!(list.items.iter().map(|i| i.name.as_str()).collect::<Vec<_>>(), ["plain", "sound"]);
        assert_eq!(list.quarantined[0].name, "broken");
        assert!(list.quarantined[0].reason.contains("x-mcp-header"));
        let params = br#"{"name":"x","arguments":{"city":"Bern"}}"#;
        assert_eq!(table.headers("sound", params), [("Mcp-Param-City".to_owned(), "Bern".to_owned())]);
        assert_eq!(table.headers("plain", params), []);
        assert_eq!(table.headers("sound", br#"{"name":"x"}"#), []);
    }
}
