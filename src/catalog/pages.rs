//! The walk over the pages of one list: which cursor to fetch next and when to stop.
//! Pure; `transport/list` fetches what it says. It never asks for the same cursor
//! twice, so a server that repeats or cycles its cursors ends the walk.

use std::collections::HashSet;

use bytes::Bytes;

use super::items::{ItemList, ListKind, limits};
use super::parse::parse_page;

/// Bounds of one walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageCaps {
    /// Pages that are fetched.
    pub pages_max: usize,
    /// Items that are kept.
    pub items_max: usize,
    /// Bytes of all pages; the page that passes it is the last one.
    pub bytes_max: usize,
}

impl Default for PageCaps {
    fn default() -> Self {
        Self { pages_max: limits::PAGES_MAX, items_max: limits::ITEMS_MAX, bytes_max: limits::LIST_BYTES_MAX }
    }
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WalkStep {
    /// Ask for the page of this cursor.
    Fetch(String),
    /// The walk is over; `finish` has the list.
    Done,
}

/// A finished list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// All pages together.
    pub list: ItemList,
    /// The shortest `ttlMs` of the pages, in milliseconds.
    pub ttl_ms: Option<u64>,
}

/// A walk in progress. The first page is asked for without a cursor.
#[derive(Debug)]
pub struct PageWalk {
    kind: ListKind,
    caps: PageCaps,
    asked: HashSet<String>,
    pages: usize,
    bytes: usize,
    list: ItemList,
    ttl_ms: Option<u64>,
    failed: Option<String>,
}

impl PageWalk {
    /// Begins a walk.
    pub fn new(kind: ListKind, caps: PageCaps) -> Self {
        Self {
            kind,
            caps,
            asked: HashSet::new(),
            pages: 0,
            bytes: 0,
            list: ItemList::default(),
            ttl_ms: None,
            failed: None,
        }
    }

    /// Takes the `result` value of the page asked for last.
    pub fn next(&mut self, result: &Bytes) -> WalkStep {
        let page = match parse_page(self.kind, result, &mut self.list, self.caps.items_max) {
            Ok(page) => page,
            Err(cause) => return self.fail(&cause),
        };
        self.pages += 1;
        self.bytes = self.bytes.saturating_add(result.len());
        self.ttl_ms = match (self.ttl_ms, page.ttl_ms) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let Some(cursor) = page.next_cursor else { return WalkStep::Done };
        if page.cut {
            return WalkStep::Done;
        }
        let method = self.kind.method();
        if !self.asked.insert(cursor.clone()) {
            let pages = self.pages;
            self.list
                .warnings
                .push(format!("{method}: a cursor came back a second time; stopped after {pages} pages"));
            return WalkStep::Done;
        }
        let PageCaps { pages_max, bytes_max, .. } = self.caps;
        let over = if self.pages >= pages_max {
            format!("more than {pages_max} pages")
        } else if self.bytes > bytes_max {
            format!("more than {bytes_max} bytes in {} pages", self.pages)
        } else {
            return WalkStep::Fetch(cursor);
        };
        self.list.warnings.push(format!("{method}: {over}; the rest is missing"));
        self.list.incomplete = true;
        WalkStep::Done
    }

    /// The page asked for last could not be had. Earlier pages are kept, marked incomplete.
    pub fn fail(&mut self, cause: &str) -> WalkStep {
        if self.pages == 0 {
            self.failed = Some(cause.to_owned());
        } else {
            let cause = format!("{}: page {} failed: {cause}", self.kind.method(), self.pages + 1);
            self.list.warnings.push(cause.clone());
            self.list.broken = Some(cause);
            self.list.incomplete = true;
        }
        WalkStep::Done
    }

    /// The list. The error is the cause when not even the first page could be had.
    pub fn finish(self) -> Result<Listed, String> {
        match self.failed {
            Some(cause) => Err(cause),
            None => Ok(Listed { list: self.list, ttl_ms: self.ttl_ms }),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn page(names: &[&str], cursor: Option<&str>) -> Bytes {
        let tools: Vec<_> =
            names.iter().map(|n| serde_json::json!({"name": n, "inputSchema": {"type": "object"}})).collect();
        let mut result = serde_json::json!({ "tools": tools });
        if let Some(cursor) = cursor {
            result["nextCursor"] = cursor.into();
        }
        result.to_string().into()
    }

    fn walk() -> PageWalk {
        PageWalk::new(ListKind::Tools, PageCaps::default())
    }

    fn fetch(cursor: &str) -> WalkStep {
        WalkStep::Fetch(cursor.to_owned())
    }

    #[test]
    fn all_pages_are_followed() {
        let mut walk = walk();
        assert_eq!(walk.next(&page(&["a", "b"], Some("1"))), fetch("1"));
        assert_eq!(walk.next(&page(&["c"], Some("2"))), fetch("2"));
        assert_eq!(walk.next(&page(&["d"], None)), WalkStep::Done);
        let list = walk.finish().unwrap().list;
        assert_eq!(list.items.len(), 4);
        assert!(list.warnings.is_empty() && !list.incomplete);
    }

    #[test]
    fn same_cursor_for_ever_stops_with_a_warning_and_unique_tools() {
        let mut walk = walk();
        let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
        assert_eq!(walk.next(&page(&names, Some("x"))), fetch("x"));
        assert_eq!(walk.next(&page(&names, Some("x"))), WalkStep::Done);
        let list = walk.finish().unwrap().list;
        assert_eq!((list.items.len(), list.quarantined.len()), (8, 0));
        assert!(list.warnings.iter().any(|w| w.contains("second time")), "{:?}", list.warnings);
    }

    #[test]
    fn cycling_cursors_stop_after_one_round() {
        let mut walk = walk();
        let mut fetched = 0;
        let mut step = walk.next(&page(&["t"], Some("0")));
        while let WalkStep::Fetch(cursor) = step {
            fetched += 1;
            assert!(fetched <= 3);
            let next = (cursor.parse::<u8>().unwrap() + 1) % 3;
            step = walk.next(&page(&["t"], Some(&next.to_string())));
        }
        assert_eq!(fetched, 3);
        assert_eq!(walk.finish().unwrap().list.items.len(), 1);
    }

    #[test]
    fn pages_stop_at_their_limit_and_say_so() {
        for (pages, incomplete) in [(63, false), (64, false), (65, true)] {
            let mut walk = walk();
            let mut count = 0;
            loop {
                count += 1;
                let cursor = (count < pages).then(|| count.to_string());
                if walk.next(&page(&[&format!("t{count}")], cursor.as_deref())) == WalkStep::Done {
                    break;
                }
            }
            let list = walk.finish().unwrap().list;
            assert_eq!((list.items.len(), list.incomplete), (pages.min(64), incomplete), "{pages}");
        }
    }

    #[test]
    fn items_stop_at_their_limit_across_pages() {
        let mut walk =
            PageWalk::new(ListKind::Tools, PageCaps { pages_max: 9, items_max: 3, ..PageCaps::default() });
        assert_eq!(walk.next(&page(&["a", "b"], Some("1"))), fetch("1"));
        assert_eq!(walk.next(&page(&["c", "d"], Some("2"))), WalkStep::Done);
        let list = walk.finish().unwrap().list;
        assert!(list.items.len() == 3 && list.incomplete);
    }

    #[test]
    fn bytes_stop_at_their_limit_across_pages_and_say_so() {
        let [first, second] = [page(&["a"], Some("1")), page(&["b"], Some("2"))];
        let both = first.len() + second.len();
        for (bytes_max, last) in [(both, fetch("2")), (both - 1, WalkStep::Done)] {
            let mut walk = PageWalk::new(ListKind::Tools, PageCaps { bytes_max, ..PageCaps::default() });
            assert_eq!(walk.next(&first), fetch("1"));
            assert_eq!(walk.next(&second), last, "{bytes_max}");
            let list = walk.finish().unwrap().list;
            assert_eq!((list.items.len(), list.incomplete), (2, last == WalkStep::Done));
            let told =
                list.warnings.iter().any(|warning| warning.contains(&format!("{bytes_max} bytes in 2")));
            assert_eq!(told, last == WalkStep::Done, "{:?}", list.warnings);
        }
    }

    #[test]
    fn failed_later_page_keeps_the_earlier_ones_marked_incomplete() {
        let mut first = walk();
        first.next(&page(&["a"], Some("1")));
        assert_eq!(first.fail("timed out"), WalkStep::Done);
        let list = first.finish().unwrap().list;
        assert!(
            list.incomplete && list.items.len() == 1 && list.warnings[0].contains("page 2 failed: timed out")
        );
        let mut broken = walk();
        broken.next(&page(&["a"], Some("1")));
        assert_eq!(broken.next(&Bytes::from_static(b"[]")), WalkStep::Done);
        assert!(broken.finish().unwrap().list.incomplete);
    }

    #[test]
    fn failed_first_page_is_a_failed_list() {
        let mut walk = walk();
        walk.fail("no answer");
        assert_eq!(walk.finish().unwrap_err(), "no answer");
        let mut walk = PageWalk::new(ListKind::Prompts, PageCaps::default());
        walk.next(&Bytes::from_static(b"{}"));
        assert!(walk.finish().unwrap_err().contains("prompts/list"));
    }

    #[test]
    fn shortest_time_to_live_wins() {
        let mut walk = walk();
        walk.next(&Bytes::from_static(br#"{"tools":[],"ttlMs":9000,"nextCursor":"1"}"#));
        walk.next(&Bytes::from_static(br#"{"tools":[],"nextCursor":"2"}"#));
        walk.next(&Bytes::from_static(br#"{"tools":[],"ttlMs":4000}"#));
        assert_eq!(walk.finish().unwrap().ttl_ms, Some(4000));
    }

    proptest! {
        #[test]
        fn any_server_ends_the_walk_within_its_caps(
            cursors in proptest::collection::vec(proptest::option::weighted(0.98, 0u8..90), 1..90),
            names in proptest::collection::vec("[a-c]{1,2}", 1..90),
        ) {
            let caps = PageCaps { pages_max: 16, items_max: 5, ..PageCaps::default() };
            let mut walk = PageWalk::new(ListKind::Tools, caps);
            let mut fetched = HashSet::new();
            let mut pages = 0;
            for (i, cursor) in cursors.iter().cycle().enumerate() {
                pages += 1;
                prop_assert!(pages <= caps.pages_max);
                let cursor = cursor.map(|c| c.to_string());
                match walk.next(&page(&[&names[i % names.len()]], cursor.as_deref())) {
                    WalkStep::Fetch(next) => prop_assert!(fetched.insert(next), "asked twice"),
                    WalkStep::Done => break,
                }
            }
            let list = walk.finish().unwrap().list;
            let unique: HashSet<_> = list.items.iter().map(|i| &i.name).collect();
            prop_assert!(unique.len() == list.items.len() && list.items.len() <= caps.items_max);
        }
    }
}
