//! The form in which what a server offers is kept between runs: one JSON text whose definitions
//! are the bytes that the server sent. Pure; `transport::kept` reads and writes the files.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::items::{ItemList, ListKind, Quarantined, ServerCatalog, limits};
use super::parse::parse_page;
use crate::id::{Generation, ServerId};
use crate::wire::era::Revision;
use crate::wire::scan;

/// The version of the form. A text of another one is not read.
const VERSION: u32 = 1;
/// Largest text of one server, in bytes; a server that offers more is asked again each time.
pub const KEPT_BYTES_MAX: usize = 8 << 20;

#[derive(Deserialize)]
struct Whole<'a> {
    version: u32,
    entry: String,
    server: String,
    #[serde(default)]
    instructions: Option<String>,
    #[serde(borrow, default)]
    capabilities: Option<&'a RawValue>,
    #[serde(default)]
    revision: Option<String>,
    #[serde(borrow)]
    lists: BTreeMap<Cow<'a, str>, &'a RawValue>,
}

#[derive(Default, Deserialize)]
struct Beside {
    #[serde(default)]
    quarantined: Vec<(String, String)>,
    #[serde(default)]
    incomplete: bool,
}

/// Whether a catalogue says all that its server offers, so that it may be kept.
pub fn is_whole(catalog: &ServerCatalog) -> bool {
    catalog.listed && ListKind::ALL.iter().all(|kind| catalog.list(*kind).unread.is_none())
}

/// Whether two catalogues of one server are kept as the same text.
pub fn is_same(a: &ServerCatalog, b: &ServerCatalog) -> bool {
    let same = |kind: &ListKind| {
        let (a, b) = (a.list(*kind), b.list(*kind));
        a.items == b.items && a.quarantined == b.quarantined && a.incomplete == b.incomplete
    };
    let handshake = |of: &ServerCatalog| (of.instructions.clone(), of.capabilities.clone(), of.revision);
    handshake(a) == handshake(b) && ListKind::ALL.iter().all(same)
}

/// The text of a catalogue, for the entry of that hash; `None` when it would be too large.
pub fn encode(catalog: &ServerCatalog, entry: &str) -> Option<Vec<u8>> {
    let mut out = format!(
        "{{\"version\":{VERSION},\"entry\":{},\"server\":{},\"instructions\":{},",
        json(entry),
        json(catalog.server.as_str()),
        json(&catalog.instructions),
    )
    .into_bytes();
    if let Some(revision) = catalog.revision {
        out.extend_from_slice(format!("\"revision\":{},", json(revision.as_str())).as_bytes());
    }
    if let Some(capabilities) = &catalog.capabilities {
        out.extend_from_slice(b"\"capabilities\":");
        out.extend_from_slice(capabilities);
        out.push(b',');
    }
    out.extend_from_slice(b"\"lists\":{");
    let filled = ListKind::ALL.into_iter().filter(|kind| *catalog.list(*kind) != ItemList::default());
    for (index, kind) in filled.enumerate() {
        let list = catalog.list(kind);
        let mut head = String::new();
        let comma = if index == 0 { "" } else { "," };
        let quarantined: Vec<(&str, &str)> =
            list.quarantined.iter().map(|bad| (bad.name.as_str(), bad.reason.as_str())).collect();
        let _ = write!(
            head,
            "{comma}\n{}:{{\"incomplete\":{},\"quarantined\":{},{}:[",
            json(kind.method()),
            list.incomplete,
            json(&quarantined),
            json(kind.result_key())
        );
        out.extend_from_slice(head.as_bytes());
        for (index, item) in list.items.iter().enumerate() {
            out.extend_from_slice(if index == 0 { b"\n" } else { b",\n" });
            out.extend_from_slice(&item.raw);
            if out.len() > KEPT_BYTES_MAX {
                return None;
            }
        }
        out.extend_from_slice(b"]}");
    }
    out.extend_from_slice(b"}}\n");
    (out.len() <= KEPT_BYTES_MAX).then_some(out)
}

fn json(value: &(impl Serialize + ?Sized)) -> String {
    serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned())
}

/// The catalogue of a text. It counts as not listed: the server may offer something else by now.
///
/// # Errors
/// When the text is of another version, entry or server, or makes no sense.
pub fn decode(text: &Bytes, server: &ServerId, entry: &str) -> Result<ServerCatalog, String> {
    scan::check(text, scan::DEPTH_MAX).map_err(|error| error.to_string())?;
    let whole: Whole<'_> = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    if whole.version != VERSION {
        return Err(format!("version {} of the form, not {VERSION}", whole.version));
    }
    if whole.entry != entry || whole.server != server.as_str() {
        return Err("it is about another entry".to_owned());
    }
    let mut catalog = ServerCatalog::empty(server.clone(), Generation::default());
    catalog.instructions = whole.instructions;
    catalog.capabilities = whole.capabilities.map(|raw| text.slice_ref(raw.get().as_bytes()));
    catalog.revision = whole.revision.as_deref().and_then(Revision::parse);
    for kind in ListKind::ALL {
        let Some(raw) = whole.lists.get(kind.method()) else { continue };
        let beside: Beside = serde_json::from_str(raw.get()).map_err(|error| error.to_string())?;
        let mut list = ItemList::default();
        parse_page(kind, &text.slice_ref(raw.get().as_bytes()), &mut list, limits::ITEMS_MAX)?;
        list.quarantined = beside
            .quarantined
            .into_iter()
            .take(limits::QUARANTINED_MAX)
            .map(|(name, reason)| Quarantined { name, reason })
            .collect();
        list.warnings.clear();
        list.incomplete = beside.incomplete;
        *catalog.list_mut(kind) = list;
    }
    Ok(catalog)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PAGE: &str = r#"{ "tools": [ {"name" : "a",  "x": 1.0e2, "inputSchema":{"type":"object"} },
        {"name":"é\u0301","description":"\u0000 \n","inputSchema":{}}, null, {"name":7}, {"name":"bad","inputSchema":1} ] }"#;

    fn catalog() -> ServerCatalog {
        let mut catalog = ServerCatalog::empty("s".into(), Generation(7));
        parse_page(ListKind::Tools, &Bytes::from(PAGE), &mut catalog.tools, 99).unwrap();
        let prompts = Bytes::from(r#"{"prompts":[{"name":"p","arguments":[]}]}"#);
        parse_page(ListKind::Prompts, &prompts, &mut catalog.prompts, 99).unwrap();
        catalog.instructions = Some("be \"kind\"\n".to_owned());
        catalog.capabilities = Some(Bytes::from(r#"{"tools": {}, "x":1.50}"#));
        catalog.revision = Some(Revision::LATEST);
        catalog.listed = true;
        catalog
    }

    #[test]
    fn definitions_come_back_byte_for_byte() {
        let before = catalog();
        assert!(is_whole(&before) && before.tools.items.len() == 2 && before.tools.quarantined.len() == 2);
        let text = Bytes::from(encode(&before, "hash").unwrap());
        let after = decode(&text, &"s".into(), "hash").unwrap();
        assert!(is_same(&before, &after));
        assert!(!after.listed && !is_whole(&after));
        for (old, new) in before.tools.items.iter().zip(&after.tools.items) {
            assert_eq!(old.raw, new.raw);
        }
        assert_eq!(encode(&after, "hash").unwrap(), text);
    }

    #[test]
    fn a_text_of_something_else_is_not_taken() {
        let text = encode(&catalog(), "hash").unwrap();
        let decode_as = |server: &str, entry: &str| decode(&text.clone().into(), &server.into(), entry);
        assert!(decode_as("s", "hash").is_ok());
        assert!(decode_as("other", "hash").is_err() && decode_as("s", "changed").is_err());
        let next = String::from_utf8(text).unwrap().replace("\"version\":1", "\"version\":2");
        assert!(decode(&next.into(), &"s".into(), "hash").unwrap_err().contains("version 2"));
    }

    #[test]
    fn what_is_too_large_or_not_known_whole_is_not_kept() {
        let mut large = catalog();
        let filler = "x".repeat(limits::SCHEMA_LEN_MAX - 100);
        let tools: Vec<_> = (0..40)
            .map(|n| serde_json::json!({"name": n.to_string(), "inputSchema": {"x": filler}}))
            .collect();
        let page = Bytes::from(serde_json::json!({ "tools": tools }).to_string());
        parse_page(ListKind::Tools, &page, &mut large.tools, 99).unwrap();
        assert!(encode(&large, "h").is_none());
        let mut unread = catalog();
        unread.prompts.unread = Some("no answer".to_owned());
        assert!(!is_whole(&unread));
    }

    proptest! {
        /// Whatever happened to the file: no panic, and what is taken is sound.
        #[test]
        fn a_broken_text_is_refused_or_read(at in 0usize..400, with in any::<u8>(), cut in 0usize..400) {
            let mut text = encode(&catalog(), "hash").unwrap();
            let len = text.len();
            text[at % len] = with;
            text.truncate(len - cut.min(len));
            if let Ok(read) = decode(&text.into(), &"s".into(), "hash") {
                prop_assert!(read.tools.items.len() <= 5);
            }
        }
    }
}
