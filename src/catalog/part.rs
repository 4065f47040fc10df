//! The catalogue as one of several clients sees it that share a host: its own servers, merged as if nobody
//! else were there. Whatever other servers run changes no name and shows no tool. Called by the edge that
//! serves.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::items::ServerCatalog;
use super::merge::{Catalog, MergeInput, merge};
use super::naming::{Identity, NamingRule};
use crate::config::spec::ToolFilter;
use crate::id::ServerId;

/// What decides how a client sees its part.
#[derive(Clone, Copy, Debug)]
pub struct Own<'a> {
    /// The client's servers, no two of one name, each with its listing filter.
    pub servers: &'a BTreeMap<ServerId, ToolFilter>,
    /// How names are made for it.
    pub rule: NamingRule<'a>,
    /// Names given to it before: they stay.
    pub remembered: &'a BTreeMap<Identity, String>,
}

/// The part of a catalogue that a client sees; nothing else can be reached by it.
pub fn part(all: &BTreeMap<ServerId, Arc<ServerCatalog>>, own: &Own<'_>) -> Catalog {
    let known = own.servers.keys().filter_map(|id| Some((id.clone(), all.get(id)?.clone())));
    let servers: BTreeMap<ServerId, Arc<ServerCatalog>> = known.collect();
    merge(&MergeInput {
        servers: &servers,
        filters: own.servers,
        style: own.rule.style,
        name_len_max: own.rule.len_max,
        reserved: own.rule.reserved,
        remembered: own.remembered,
    })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::catalog::definition;
    use crate::catalog::items::ListKind;
    use crate::config::spec::{Globs, NamingStyle};
    use crate::id::Generation;

    type Servers = BTreeMap<ServerId, Arc<ServerCatalog>>;

    /// A server that runs under that id.
    fn server(id: ServerId, tools: &[&str]) -> (ServerId, Arc<ServerCatalog>) {
        let mut catalog = ServerCatalog::empty(id.clone(), Generation(1));
        catalog.tools.items.extend(tools.iter().map(|tool| {
            let raw = Bytes::from(format!(r#"{{"name":"{tool}","inputSchema":{{"type":"object"}}}}"#));
            Arc::new(definition::read(ListKind::Tools, raw).unwrap())
        }));
        (id, Arc::new(catalog))
    }

    fn id(name: &str, instance: u32) -> ServerId {
        ServerId::new(name).instance(instance)
    }

    fn own(ids: impl IntoIterator<Item = ServerId>) -> BTreeMap<ServerId, ToolFilter> {
        ids.into_iter().map(|id| (id, ToolFilter::default())).collect()
    }

    fn seen(all: &Servers, servers: &BTreeMap<ServerId, ToolFilter>, style: NamingStyle) -> Catalog {
        let rule = NamingRule { style, len_max: 48, reserved: &[] };
        part(all, &Own { servers, rule, remembered: &BTreeMap::new() })
    }

    fn names(catalog: &Catalog) -> Vec<&str> {
        catalog.tools.iter().map(|tool| tool.name.as_str()).collect()
    }

    #[test]
    fn each_client_sees_its_own_servers_under_its_own_names() {
        let all = Servers::from([server(id("fs", 0), &["read"]), server(id("fs", 2), &["read", "write"])]);
        let one = seen(&all, &own([id("fs", 0)]), NamingStyle::ServerTool);
        let two = seen(&all, &own([id("fs", 2)]), NamingStyle::ServerTool);
        assert_eq!(names(&one), ["fs__read"]);
        assert_eq!(names(&two), ["fs__read", "fs__write"]);
        assert_eq!(two.exposed("fs__write").unwrap().route.server, id("fs", 2));
        let bare = seen(&all, &own([id("fs", 2)]), NamingStyle::Bare);
        assert_eq!(names(&bare), ["read", "write"], "another client's server is no conflict");
    }

    #[test]
    fn a_server_that_has_said_nothing_yet_has_no_tools_and_filters_act() {
        let all = Servers::from([server(id("fs", 2), &["read", "write"])]);
        let include = Globs::compile(&["read".to_owned()]).unwrap();
        let filter = ToolFilter { include, exclude: Globs::default() };
        let servers = BTreeMap::from([(id("fs", 2), filter), (id("slow", 0), ToolFilter::default())]);
        let part = seen(&all, &servers, NamingStyle::McpDouble);
        assert_eq!(names(&part), ["mcp__fs__read"]);
        assert_eq!(part.filtered[&id("fs", 2)], 1);
    }

    proptest! {
        /// Whatever runs besides, under whatever id: a client sees what it would see alone.
        #[test]
        fn what_others_run_changes_nothing_that_a_client_sees(
            own_ones in proptest::collection::btree_map(0usize..4, 0u32..3, 0..4),
            others in proptest::collection::btree_set((0usize..4, 0u32..3), 0..6),
            style in proptest::sample::select(vec![
                NamingStyle::McpDouble, NamingStyle::McpSingle, NamingStyle::ServerTool, NamingStyle::Bare,
            ]),
        ) {
            const NAMES: [&str; 4] = ["a", "a_b", "b", "b__c"];
            const TOOLS: [&str; 3] = ["c", "b__c", "say"];
            let alone: Servers = own_ones.keys().map(|at| server(id(NAMES[*at], 0), &TOOLS)).collect();
            let mut all: Servers =
                others.iter().map(|(at, nth)| server(id(NAMES[*at], *nth), &["c", "foreign"])).collect();
            all.extend(own_ones.iter().map(|(at, nth)| server(id(NAMES[*at], *nth), &TOOLS)));
            let servers = own(own_ones.iter().map(|(at, nth)| id(NAMES[*at], *nth)));
            let here = seen(&all, &servers, style);
            let there = seen(&alone, &own(own_ones.keys().map(|at| id(NAMES[*at], 0))), style);
            let told = |catalog: &Catalog| -> Vec<(String, String, Bytes)> {
                let tools = catalog.tools.iter();
                tools.map(|t| (t.name.clone(), t.route.server.to_string(), t.route.item.raw.clone())).collect()
            };
            prop_assert_eq!(told(&here), told(&there));
            let conflicts = |catalog: &Catalog| -> Vec<String> {
                catalog.conflicts.iter().map(|conflict| conflict.name.clone()).collect()
            };
            prop_assert_eq!(conflicts(&here), conflicts(&there));
            prop_assert!(here.tools.iter().all(|tool| servers.contains_key(&tool.route.server)));
        }
    }
}
