//! One page of a list result becomes items: leniently, entry by entry, so that one
//! bad definition costs itself only. Items are slices of the server's bytes. Called
//! by `pages` for every answer to a list request.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;

use super::definition;
use super::items::{Item, ItemList, ListKind, Quarantined, limits};
use super::json::{Kind, cut, elements, members, text};

/// What a page says beside its entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The cursor of the next page; `None` on the last one (absent, null or empty).
    pub next_cursor: Option<String>,
    /// `ttlMs`: how long the page may be kept, in milliseconds.
    pub ttl_ms: Option<u64>,
    /// Whether entries were left out because `items_max` was reached.
    pub cut: bool,
}

/// Reads one page into `into`. `result` is the value of the answer's `result`. At most
/// `items_max` items are kept in the whole list. The error says why this is no page.
pub fn parse_page(
    kind: ListKind,
    result: &Bytes,
    into: &mut ItemList,
    items_max: usize,
) -> Result<Page, String> {
    let method = kind.method();
    let Some(fields) = members(result) else {
        return Err(match Kind::of(result) {
            Kind::Object => format!("the result of {method} is not valid JSON"),
            other => format!("the result of {method} is {}, not an object", other.named()),
        });
    };
    let value = |key: &str| fields.iter().rev().find(|m| m.key == key).map(|m| result.slice(m.value.clone()));
    let key = kind.result_key();
    let mut page =
        Page { ttl_ms: value("ttlMs").and_then(|v| serde_json::from_slice(&v).ok()), ..Page::default() };
    match value(key) {
        None => return Err(format!("the result of {method} has no `{key}`")),
        Some(list) => match Kind::of(&list) {
            Kind::Array => page.cut = read_entries(kind, &list, into, items_max),
            Kind::Null => into.warnings.push(format!("`{key}` is null: taken as empty")),
            other => {
                return Err(format!("`{key}` in the result of {method} is {}, not an array", other.named()));
            }
        },
    }
    page.next_cursor = cursor(value("nextCursor"), into);
    Ok(page)
}

fn cursor(value: Option<Bytes>, into: &mut ItemList) -> Option<String> {
    let value = value?;
    match (Kind::of(&value), text(&value)) {
        (Kind::Null, _) => {
            into.null_cursor = true;
            None
        }
        (_, Some(cursor)) if cursor.is_empty() => None,
        (_, Some(cursor)) if cursor.len() <= limits::CURSOR_LEN_MAX => Some(cursor),
        (kind, found) => {
            let why = match found {
                Some(cursor) => format!("has {} bytes, more than {}", cursor.len(), limits::CURSOR_LEN_MAX),
                None => format!("is {} that can't be used as a cursor", kind.named()),
            };
            into.warnings.push(format!("`nextCursor` {why}: pages after it are missing"));
            into.incomplete = true;
            None
        }
    }
}

/// Reads the entries; whether some were left out for `items_max`.
fn read_entries(kind: ListKind, list: &Bytes, into: &mut ItemList, items_max: usize) -> bool {
    let ItemList { items, quarantined, warnings, incomplete, .. } = into;
    let mut known: HashMap<String, Arc<Item>> =
        items.iter().map(|item| (item.name.clone(), Arc::clone(item))).collect();
    let (mut nulls, mut repeats, mut over, mut unnamed) = (0usize, 0usize, 0usize, 0usize);
    let spans = elements(list).unwrap_or_default();
    for (index, span) in spans.into_iter().enumerate() {
        let raw = list.slice(span);
        if Kind::of(&raw) == Kind::Null {
            nulls += 1;
            continue;
        }
        if items.len() >= items_max {
            over += 1;
            continue;
        }
        let outcome = definition::read(kind, raw.clone()).and_then(|item| match known.get(&item.name) {
            Some(first) if first.raw == item.raw => Ok(None),
            Some(_) => Err("another definition before it has the same name".to_owned()),
            None => Ok(Some(item)),
        });
        match outcome {
            Ok(Some(item)) => {
                let item = Arc::new(item);
                known.insert(item.name.clone(), Arc::clone(&item));
                items.push(item);
            }
            Ok(None) => repeats += 1,
            Err(reason) if quarantined.len() < limits::QUARANTINED_MAX => {
                let name = definition::label(kind, &raw).unwrap_or_else(|| format!("#{}", index + 1));
                quarantined.push(Quarantined { name, reason: cut(&reason, 512).to_owned() });
            }
            Err(_) => unnamed += 1,
        }
    }
    let key = kind.result_key();
    for (count, what) in [
        (nulls, "null entries dropped"),
        (repeats, "entries sent again, byte for byte the same, dropped"),
        (unnamed, "more bad definitions kept out"),
        (over, "entries left out: the limit of items is reached"),
    ] {
        if count > 0 {
            warnings.push(format!("{key}: {count} {what}"));
        }
    }
    *incomplete |= over > 0;
    over > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(json: &str) -> (Result<Page, String>, ItemList) {
        let mut list = ItemList::default();
        let page = parse_page(
            ListKind::Tools,
            &Bytes::copy_from_slice(json.as_bytes()),
            &mut list,
            limits::ITEMS_MAX,
        );
        (page, list)
    }

    fn names(list: &ItemList) -> Vec<&str> {
        list.items.iter().map(|i| i.name.as_str()).collect()
    }

    #[test]
    fn items_are_slices_of_what_the_server_sent() {
        let json = Bytes::from_static(br#"{"tools":[ {"name":"a","inputSchema":{"type":"object"}} ]}"#);
        let mut list = ItemList::default();
        parse_page(ListKind::Tools, &json, &mut list, 10).unwrap();
        let raw = &list.items[0].raw;
        assert_eq!(raw.as_ptr() as usize, json.as_ptr() as usize + 11);
        assert_eq!(&raw[..], br#"{"name":"a","inputSchema":{"type":"object"}}"#);
    }

    #[test]
    fn one_bad_definition_costs_itself_only() {
        let (result, list) = page(
            r#"{"tools":[null,{"name":"a","inputSchema":{"type":"object"}},{"name":"root","inputSchema":{"type":"string"}},
            {"name":"a","inputSchema":{"type":"object","x":1}},"x",{"name":"b","inputSchema":{"type":"object"}},null,
            {"name":"a","inputSchema":{"type":"object"}}],"nextCursor":null,"ttlMs":5000,"resultType":"complete"}"#,
        );
        assert_eq!(result.unwrap(), Page { next_cursor: None, ttl_ms: Some(5000), cut: false });
        assert_eq!(names(&list), ["a", "b"]);
        let kept_out: Vec<_> =
            list.quarantined.iter().map(|q| (q.name.as_str(), q.reason.as_str())).collect();
        assert_eq!(kept_out.len(), 3);
        assert!(kept_out[0].0 == "root" && kept_out[0].1.contains("string"));
        assert!(kept_out[1].0 == "a" && kept_out[1].1.contains("same name"));
        assert!(kept_out[2].0 == "#5" && kept_out[2].1.contains("text"));
        assert_eq!(list.warnings.len(), 2, "{:?}", list.warnings);
        assert!(list.warnings[0].contains("2 null") && !list.incomplete);
    }

    #[test]
    fn what_is_no_page_is_an_error_that_names_the_method() {
        for (json, part) in [
            ("[]", "an array"),
            ("null", "null"),
            ("{}", "no `tools`"),
            (r#"{"tools":{}}"#, "an object, not an array"),
            (r#"{"tools":"x"}"#, "text"),
        ] {
            let reason = page(json).0.unwrap_err();
            assert!(reason.contains("tools/list") && reason.contains(part), "{json}: {reason}");
        }
        let (result, list) = page(r#"{"tools":null}"#);
        assert!(result.is_ok() && list.items.is_empty() && list.warnings.len() == 1);
    }

    #[test]
    fn cursor_is_text_or_the_end() {
        for (json, want, complete) in [
            (r#""c""#, Some("c"), true),
            (r#""\u0063\n""#, Some("c\n"), true),
            ("null", None, true),
            (r#""""#, None, true),
            ("7", None, false),
            (r#"{"a":1}"#, None, false),
        ] {
            let (result, list) = page(&format!(r#"{{"tools":[],"nextCursor":{json}}}"#));
            assert_eq!(result.unwrap().next_cursor.as_deref(), want, "{json}");
            assert_eq!((!list.incomplete, list.null_cursor), (complete, json == "null"), "{json}");
        }
        for (len, fine) in [(16_383, true), (16_384, true), (16_385, false)] {
            let (result, list) = page(&format!(r#"{{"tools":[],"nextCursor":"{}"}}"#, "c".repeat(len)));
            assert_eq!((result.unwrap().next_cursor.is_some(), list.incomplete), (fine, !fine));
        }
    }

    #[test]
    fn kept_out_definitions_are_bounded_and_counted() {
        let entries = vec![r#"{"name":7}"#; limits::QUARANTINED_MAX + 3].join(",");
        let (_, list) = page(&format!(r#"{{"tools":[{entries}]}}"#));
        assert_eq!(list.quarantined.len(), limits::QUARANTINED_MAX);
        assert!(list.warnings[0].contains("3 more"), "{:?}", list.warnings);
    }

    #[test]
    fn items_stop_at_their_limit() {
        let entry = |i| format!(r#"{{"name":"t{i}","inputSchema":{{"type":"object"}}}}"#);
        for (count, cut) in [(2, false), (3, false), (4, true)] {
            let json = format!(r#"{{"tools":[{}]}}"#, (0..count).map(entry).collect::<Vec<_>>().join(","));
            let mut list = ItemList::default();
            let page = parse_page(ListKind::Tools, &Bytes::from(json), &mut list, 3).unwrap();
            assert_eq!((page.cut, list.incomplete, list.items.len()), (cut, cut, count.min(3)));
        }
    }
}
