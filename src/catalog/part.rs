//! The catalogue as one of several clients sees it that share a host: its own servers under its own names,
//! merged as if nobody else were there. Whatever other servers run changes no name and shows no tool. For
//! the edge that serves, which does not use it yet: its clients of one house see all that runs there.

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
    /// The client's own names of servers, and the ids under which they run.
    pub leads: &'a BTreeMap<ServerId, ServerId>,
    /// Listing filters by the client's own names; absent means everything.
    pub filters: &'a BTreeMap<ServerId, ToolFilter>,
    /// How names are made for it.
    pub rule: NamingRule<'a>,
    /// Names given to it before: they stay.
    pub remembered: &'a BTreeMap<Identity, String>,
}

/// The part of a catalogue that a client sees. Servers in it bear the client's own names; what they lead to
/// is in [`Own::leads`], and nothing else can be reached.
pub fn part(all: &BTreeMap<ServerId, Arc<ServerCatalog>>, own: &Own<'_>) -> Catalog {
    let known = own.leads.iter().filter_map(|(name, id)| Some((name.clone(), named(all.get(id)?, name))));
    let servers: BTreeMap<ServerId, Arc<ServerCatalog>> = known.collect();
    merge(&MergeInput {
        servers: &servers,
        filters: own.filters,
        style: own.rule.style,
        name_len_max: own.rule.len_max,
        reserved: own.rule.reserved,
        remembered: own.remembered,
    })
}

/// The catalogue of a server under that name.
fn named(catalog: &Arc<ServerCatalog>, name: &ServerId) -> Arc<ServerCatalog> {
    if catalog.server == *name {
        return catalog.clone();
    }
    Arc::new(ServerCatalog { server: name.clone(), ..ServerCatalog::clone(catalog) })
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
    fn server(id: &str, tools: &[&str]) -> (ServerId, Arc<ServerCatalog>) {
        let mut catalog = ServerCatalog::empty(ServerId::new(id), Generation(1));
        catalog.tools.items.extend(tools.iter().map(|tool| {
            let raw = Bytes::from(format!(r#"{{"name":"{tool}","inputSchema":{{"type":"object"}}}}"#));
            Arc::new(definition::read(ListKind::Tools, raw).unwrap())
        }));
        (ServerId::new(id), Arc::new(catalog))
    }

    fn leads(pairs: &[(&str, &str)]) -> BTreeMap<ServerId, ServerId> {
        pairs.iter().map(|(name, id)| (ServerId::new(name), ServerId::new(id))).collect()
    }

    fn seen(all: &Servers, leads: &BTreeMap<ServerId, ServerId>, style: NamingStyle) -> Catalog {
        let rule = NamingRule { style, len_max: 48, reserved: &[] };
        part(all, &Own { leads, filters: &BTreeMap::new(), rule, remembered: &BTreeMap::new() })
    }

    fn names(catalog: &Catalog) -> Vec<&str> {
        catalog.tools.iter().map(|tool| tool.name.as_str()).collect()
    }

    #[test]
    fn each_client_sees_its_own_servers_under_its_own_names() {
        let all = Servers::from([server("fs", &["read"]), server("fs/2", &["read", "write"])]);
        let one = seen(&all, &leads(&[("fs", "fs")]), NamingStyle::ServerTool);
        let two = seen(&all, &leads(&[("fs", "fs/2")]), NamingStyle::ServerTool);
        assert_eq!(names(&one), ["fs__read"]);
        assert_eq!(names(&two), ["fs__read", "fs__write"]);
        let route = &two.exposed("fs__write").unwrap().route;
        assert_eq!((route.server.as_str(), two.servers[&route.server].server.as_str()), ("fs", "fs"));
        let bare = seen(&all, &leads(&[("fs", "fs/2")]), NamingStyle::Bare);
        assert_eq!(names(&bare), ["read", "write"], "another client's server is no conflict");
    }

    #[test]
    fn a_server_that_has_said_nothing_yet_has_no_tools_and_a_filter_is_the_clients_own() {
        let all = Servers::from([server("fs/2", &["read", "write"])]);
        let leads = leads(&[("fs", "fs/2"), ("slow", "slow")]);
        let include = Globs::compile(&["read".to_owned()]).unwrap();
        let filter = ToolFilter { include, exclude: Globs::default() };
        let own = Own {
            leads: &leads,
            filters: &BTreeMap::from([(ServerId::new("fs"), filter)]),
            rule: NamingRule { style: NamingStyle::McpDouble, len_max: 48, reserved: &[] },
            remembered: &BTreeMap::new(),
        };
        let part = part(&all, &own);
        assert_eq!(names(&part), ["mcp__fs__read"]);
        assert_eq!(part.filtered[&ServerId::new("fs")], 1);
    }

    proptest! {
        /// Whatever runs besides, under whatever id: a client sees what it would see alone.
        #[test]
        fn what_others_run_changes_nothing_that_a_client_sees(
            own in proptest::collection::vec((0usize..4, any::<bool>()), 0..4),
            others in proptest::collection::btree_set(0usize..4, 0..4),
            style in proptest::sample::select(vec![
                NamingStyle::McpDouble, NamingStyle::McpSingle, NamingStyle::ServerTool, NamingStyle::Bare,
            ]),
        ) {
            const NAMES: [&str; 4] = ["a", "a_b", "b", "b__c"];
            const TOOLS: [&str; 3] = ["c", "b__c", "say"];
            let own: BTreeMap<usize, bool> = own.into_iter().collect();
            let id = |at: usize, plain: bool| if plain { NAMES[at].to_owned() } else { format!("{}/7", NAMES[at]) };
            let alone: Servers = own.keys().map(|at| server(NAMES[*at], &TOOLS)).collect();
            let mut all: Servers = others.iter().map(|at| server(&id(*at, true), &["c", "foreign"])).collect();
            all.extend(own.iter().map(|(at, plain)| server(&id(*at, *plain), &TOOLS)));
            let pairs = own.iter().map(|(at, plain)| (ServerId::new(NAMES[*at]), ServerId::new(id(*at, *plain))));
            let leads: BTreeMap<ServerId, ServerId> = pairs.collect();
            let same = own.keys().map(|at| (ServerId::new(NAMES[*at]), ServerId::new(NAMES[*at]))).collect();
            let (here, there) = (seen(&all, &leads, style), seen(&alone, &same, style));
            prop_assert!(here.same_content(&there));
            prop_assert_eq!(&here.names, &there.names);
            prop_assert!(here.servers.keys().all(|server| leads.contains_key(server)));
            prop_assert!(here.tools.iter().all(|tool| tool.route.item.name != "foreign"));
        }
    }
}
