//! The merged view of all servers: exposed names to routes, conflicts as data.
//! The result depends on the set of catalogues only, never on their arrival (I12).
//! Called by the registry actor after every change, and by whoever looks a name up.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::definition;
use super::items::{Item, ListKind, ServerCatalog};
use super::naming::{self, Identity, NamingRule};
use super::pin::{Held, HeldTools};
use crate::call::ItemKind;
use crate::config::spec::{NamingStyle, ToolFilter};
use crate::id::ServerId;
use crate::wire::splice::Parts;

/// Where an exposed tool leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The server.
    pub server: ServerId,
    /// The tool as the server sent it.
    pub item: Arc<Item>,
}

/// One tool under its exposed name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExposedTool {
    /// `[A-Za-z0-9_-]{1,64}`, unique.
    pub name: String,
    /// Where it leads.
    pub route: Route,
}

/// A name that several servers claim in the bare style.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The name.
    pub name: String,
    /// Who claims it, as (server, raw tool name), sorted.
    pub claimants: Vec<(ServerId, String)>,
}

/// The merged view. Immutable; published as a snapshot.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    /// Counts publications; changes only when the content changed.
    pub version: u64,
    /// Exposed tools: by server name, then in the server's own order.
    pub tools: Vec<ExposedTool>,
    /// Exposed name to index in `tools`.
    pub by_name: HashMap<String, usize>,
    /// Names held back.
    pub conflicts: Vec<Conflict>,
    /// The unmerged catalogues by server.
    pub servers: BTreeMap<ServerId, Arc<ServerCatalog>>,
    /// Tools that may be called, by server and raw name: the exposed ones and those in conflict.
    pub routes: HashMap<ServerId, HashMap<String, Route>>,
    /// How many tools of a server its filter hides; absent means none.
    pub filtered: BTreeMap<ServerId, usize>,
    /// The names to remember: given now or before. The next merge takes them as
    /// `remembered`, once every configured server has shown its catalogue: names
    /// remembered earlier than that would depend on who was first.
    pub names: BTreeMap<Identity, String>,
}

/// What a merge looks at.
pub struct MergeInput<'a> {
    /// The catalogues to merge.
    pub servers: &'a BTreeMap<ServerId, Arc<ServerCatalog>>,
    /// Listing filters by server; absent means everything.
    pub filters: &'a BTreeMap<ServerId, ToolFilter>,
    /// The naming style.
    pub style: NamingStyle,
    /// Longest exposed name: 64, or 48 where the client adds a prefix.
    pub name_len_max: usize,
    /// Names that no server may take.
    pub reserved: &'a [String],
    /// Names given before: they stay with their owner (server, raw name).
    pub remembered: &'a BTreeMap<(ServerId, String), String>,
}

/// What a bare or exposed name means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution<'a> {
    /// Exactly one tool.
    One(&'a Route),
    /// Several; each with its exposed name, if it has one.
    Ambiguous(Vec<String>),
    /// None.
    Unknown,
}

/// Merges the catalogues under their exposed names. `version` is 0: the publisher counts.
pub fn merge(input: &MergeInput<'_>) -> Catalog {
    let bare = input.style == NamingStyle::Bare;
    let keeps =
        |server: &ServerId, raw: &str| input.filters.get(server).is_none_or(|filter| filter.keeps(raw));
    // Hidden tools keep their names, so that a change of the filter renames nobody; in the
    // bare style hiding one of two is the way out of a conflict.
    let identities: BTreeSet<Identity> = input
        .servers
        .iter()
        .flat_map(|(server, catalog)| catalog.tools.items.iter().map(move |item| (server, &item.name)))
        .filter(|(server, name)| !bare || keeps(server, name))
        .map(|(server, name)| (server.clone(), name.clone()))
        .collect();
    let rule = NamingRule { style: input.style, len_max: input.name_len_max, reserved: input.reserved };
    let mut names = naming::assign(rule, &identities, input.remembered);
    let mut out = Catalog {
        servers: input.servers.clone(),
        names: naming::remember(input.remembered, &names),
        conflicts: std::mem::take(&mut names.conflicts),
        ..Catalog::default()
    };
    for (server, catalog) in input.servers {
        for item in &catalog.tools.items {
            if !keeps(server, &item.name) {
                *out.filtered.entry(server.clone()).or_default() += 1;
                continue;
            }
            let route = Route { server: server.clone(), item: Arc::clone(item) };
            out.routes.entry(server.clone()).or_default().insert(item.name.clone(), route.clone());
            if let Some(name) = names.given.get(&(server.clone(), item.name.clone())) {
                out.by_name.insert(name.clone(), out.tools.len());
                out.tools.push(ExposedTool { name: name.clone(), route });
            }
        }
    }
    out
}

impl Catalog {
    /// The tool under an exposed name.
    pub fn exposed(&self, name: &str) -> Option<&ExposedTool> {
        self.by_name.get(name).and_then(|&index| self.tools.get(index))
    }

    /// The exposed name of a server's tool; `None` when it is unknown, hidden or in conflict.
    pub fn exposed_name(&self, server: &ServerId, raw: &str) -> Option<&str> {
        let name = self.names.get(&(server.clone(), raw.to_owned()))?;
        let tool = self.exposed(name)?;
        (tool.route.server == *server && tool.route.item.name == raw).then_some(name)
    }

    /// What a written name means: an exposed name, else `server/tool`, else a raw name
    /// that only one server offers. Never a silent pick among several.
    pub fn resolve(&self, name: &str) -> Resolution<'_> {
        if let Some(tool) = self.exposed(name) {
            return Resolution::One(&tool.route);
        }
        let mut found: Vec<&Route> = name
            .match_indices('/')
            .filter_map(|(at, _)| self.routes.get(&ServerId::new(&name[..at]))?.get(&name[at + 1..]))
            .collect();
        if found.is_empty() {
            found = self.routes.values().filter_map(|tools| tools.get(name)).collect();
        }
        match found.as_slice() {
            [] => Resolution::Unknown,
            [route] => Resolution::One(route),
            several => {
                let mut names: Vec<String> = several.iter().map(|route| self.written(route)).collect();
                names.sort();
                Resolution::Ambiguous(names)
            }
        }
    }

    /// A name that `resolve` leads back to this tool.
    fn written(&self, route: &Route) -> String {
        match self.exposed_name(&route.server, &route.item.name) {
            Some(name) => name.to_owned(),
            None => format!("{}/{}", route.server, route.item.name),
        }
    }

    /// The item of a server by its raw name (tool, prompt) or URI; filters apply.
    pub fn find(&self, server: &ServerId, kind: ItemKind, raw: &str) -> Option<&Arc<Item>> {
        let list = match kind {
            ItemKind::Tool => return self.routes.get(server)?.get(raw).map(|route| &route.item),
            ItemKind::Resource => ListKind::Resources,
            ItemKind::Prompt => ListKind::Prompts,
            ItemKind::Method => return None,
        };
        self.servers.get(server)?.list(list).items.iter().find(|item| item.name == raw)
    }

    /// Why a tool of a server is held, if it is.
    pub fn held(&self, server: &ServerId, tool: &str) -> Option<&Held> {
        self.servers.get(server)?.held.get(tool)
    }

    /// Size of a server's exposed tool definitions in bytes.
    pub fn definition_bytes(&self, server: &ServerId) -> u64 {
        let tools = self.routes.get(server).into_iter().flat_map(HashMap::values);
        tools.map(|route| route.item.raw.len() as u64).sum()
    }

    /// Names like a wrong one, best first: exposed names of all servers, or raw names of `server`.
    pub fn similar(&self, name: &str, server: Option<&ServerId>, count_max: usize) -> Vec<String> {
        match server {
            Some(server) => {
                let tools = self.routes.get(server).into_iter().flat_map(HashMap::keys);
                closest(name, tools.map(|raw| (raw.as_str(), raw.as_str())), count_max)
            }
            None => {
                let tools = self.tools.iter();
                let pairs =
                    tools.flat_map(|t| [(t.name.as_str(), t.name.as_str()), (&t.route.item.name, &t.name)]);
                closest(name, pairs, count_max)
            }
        }
    }

    /// Whether a client would see the same: tools, names, conflicts and the other lists;
    /// generations and warnings don't count.
    pub fn same_content(&self, other: &Self) -> bool {
        const REST: [ListKind; 3] = [ListKind::Resources, ListKind::Templates, ListKind::Prompts];
        let lists = |catalog: &Self| -> Vec<(ServerId, ListKind, Vec<bytes::Bytes>)> {
            let all = catalog
                .servers
                .iter()
                .flat_map(|(id, server)| REST.map(|kind| (id, kind, server.list(kind))));
            all.filter(|(_, _, list)| !list.items.is_empty())
                .map(|(id, kind, list)| {
                    (id.clone(), kind, list.items.iter().map(|i| i.raw.clone()).collect())
                })
                .collect()
        };
        let texts = |catalog: &Self| -> Vec<(ServerId, String)> {
            let all = catalog.servers.iter();
            all.filter_map(|(id, server)| Some((id.clone(), server.instructions.clone()?))).collect()
        };
        let held = |catalog: &Self| -> Vec<(ServerId, Arc<HeldTools>)> {
            let all = catalog.servers.iter().filter(|(_, server)| !server.held.is_empty());
            all.map(|(id, server)| (id.clone(), server.held.clone())).collect()
        };
        self.tools == other.tools
            && held(self) == held(other)
            && self.conflicts == other.conflicts
            && texts(self) == texts(other)
            && lists(self) == lists(other)
    }
}

/// The definition of a tool as clients see it: the bytes as sent with the exposed name
/// in place of the raw one. A definition that strict clients would refuse is repaired
/// at the spans of `Item::edits`; everything else is byte for byte the same.
pub fn exposed_definition(tool: &ExposedTool) -> Parts {
    definition::write(&tool.route.item, Some(&tool.name))
}

/// The values whose keys are most like `wanted`, best first, each once.
pub(super) fn closest<'a>(
    wanted: &str,
    pairs: impl Iterator<Item = (&'a str, &'a str)>,
    count_max: usize,
) -> Vec<String> {
    const LEN_MAX: usize = 256;
    let wanted = wanted.to_lowercase();
    if wanted.is_empty() || wanted.len() > LEN_MAX {
        return Vec::new();
    }
    let mut scored: Vec<(f64, &str)> = pairs
        .filter(|(key, _)| key.len() <= LEN_MAX)
        .filter_map(|(key, value)| {
            let key = key.to_lowercase();
            let like = strsim::normalized_damerau_levenshtein(&wanted, &key);
            let inside = wanted.len() >= 3 && key.contains(&wanted);
            (like >= 0.6 || inside).then_some((like, value))
        })
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    let mut out: Vec<String> = Vec::new();
    for (_, value) in scored {
        if out.len() < count_max && !out.iter().any(|seen| seen == value) {
            out.push(value.to_owned());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::config::spec::Globs;
    use crate::id::Generation;

    fn item(json: &str) -> Arc<Item> {
        Arc::new(definition::read(ListKind::Tools, Bytes::copy_from_slice(json.as_bytes())).unwrap())
    }

    fn server(name: &str, tools: &[&str]) -> (ServerId, Arc<ServerCatalog>) {
        let id = ServerId::from(name);
        let mut catalog = ServerCatalog::empty(id.clone(), Generation(1));
        for tool in tools {
            let name = serde_json::to_string(tool).unwrap();
            catalog
                .tools
                .items
                .push(item(&format!(r#"{{"name":{name},"inputSchema":{{"type":"object"}}}}"#)));
        }
        (id, Arc::new(catalog))
    }

    type Servers = BTreeMap<ServerId, Arc<ServerCatalog>>;

    fn merged(style: NamingStyle, servers: &Servers, filters: &BTreeMap<ServerId, ToolFilter>) -> Catalog {
        merge(&MergeInput {
            servers,
            filters,
            style,
            name_len_max: 64,
            reserved: &[],
            remembered: &BTreeMap::new(),
        })
    }

    fn plain(style: NamingStyle, servers: &Servers) -> Catalog {
        merged(style, servers, &BTreeMap::new())
    }

    fn leads<'a>(catalog: &'a Catalog, name: &str) -> Option<(&'a str, &'a str)> {
        match catalog.resolve(name) {
            Resolution::One(route) => Some((route.server.as_str(), &route.item.name)),
            _ => None,
        }
    }

    #[test]
    fn same_tool_on_two_servers_is_reachable_under_both_names_and_never_picked_silently() {
        let servers = Servers::from([server("a", &["send", "only_a"]), server("b", &["send"])]);
        let catalog = plain(NamingStyle::McpDouble, &servers);
        assert_eq!(leads(&catalog, "mcp__a__send"), Some(("a", "send")));
        assert_eq!(leads(&catalog, "b/send"), Some(("b", "send")));
        assert_eq!(leads(&catalog, "only_a"), Some(("a", "only_a")));
        let both = vec!["mcp__a__send".to_owned(), "mcp__b__send".to_owned()];
        assert_eq!(catalog.resolve("send"), Resolution::Ambiguous(both));
        assert_eq!(catalog.resolve("c/send"), Resolution::Unknown);
        assert_eq!(catalog.resolve("Send"), Resolution::Unknown);
    }

    #[test]
    fn every_pair_leads_to_its_own_server_whatever_the_separators() {
        let names = ["db", "my_db", "a", "a__b", "a/b", "Büro (test)"];
        let tools = ["b__c", "c", "b/c", "a.b/c", "über"];
        let servers: Servers = names.iter().map(|n| server(n, &tools)).collect();
        for style in [NamingStyle::McpDouble, NamingStyle::McpSingle, NamingStyle::ServerTool] {
            let catalog = plain(style, &servers);
            assert_eq!(catalog.tools.len(), names.len() * tools.len());
            for tool in &catalog.tools {
                let there = (tool.route.server.as_str(), tool.route.item.name.as_str());
                assert_eq!(leads(&catalog, &tool.name), Some(there));
                assert_eq!(catalog.exposed_name(&tool.route.server, there.1), Some(tool.name.as_str()));
            }
            // `a/b/c` is tool `b/c` of `a`, or tool `c` of `a/b`.
            assert!(matches!(catalog.resolve("a/b/c"), Resolution::Ambiguous(two) if two.len() == 2));
        }
    }

    #[test]
    fn bare_conflict_is_data_and_its_tools_stay_callable_by_server() {
        let servers = Servers::from([server("a", &["send", "x"]), server("b", &["send"])]);
        let catalog = plain(NamingStyle::Bare, &servers);
        assert_eq!(catalog.tools.iter().map(|t| t.name.as_str()).collect::<Vec<_>>(), ["x"]);
        assert_eq!(catalog.conflicts[0].name, "send");
        assert_eq!(catalog.conflicts[0].claimants.len(), 2);
        assert_eq!(leads(&catalog, "b/send"), Some(("b", "send")));
        let both = vec!["a/send".to_owned(), "b/send".to_owned()];
        assert_eq!(catalog.resolve("send"), Resolution::Ambiguous(both));
        let hide =
            ToolFilter { exclude: Globs::compile(&["se*".to_owned()]).unwrap(), ..ToolFilter::default() };
        let catalog = merged(NamingStyle::Bare, &servers, &BTreeMap::from([("a".into(), hide)]));
        assert!(catalog.conflicts.is_empty());
        assert_eq!(leads(&catalog, "send"), Some(("b", "send")));
    }

    #[test]
    fn hidden_tools_are_counted_not_found_and_keep_their_number() {
        let servers = Servers::from([server("a", &["b_c", "d"]), server("a_b", &["c"])]);
        let hide =
            ToolFilter { exclude: Globs::compile(&["b_c".to_owned()]).unwrap(), ..ToolFilter::default() };
        let catalog = merged(NamingStyle::McpSingle, &servers, &BTreeMap::from([("a".into(), hide)]));
        assert_eq!(catalog.filtered, BTreeMap::from([("a".into(), 1)]));
        assert_eq!(catalog.find(&"a".into(), ItemKind::Tool, "b_c"), None);
        assert_eq!(catalog.resolve("a/b_c"), Resolution::Unknown);
        assert_eq!(catalog.resolve("mcp_a_b_c"), Resolution::Unknown);
        assert_eq!(leads(&catalog, "mcp_a_b_c_2"), Some(("a_b", "c")));
    }

    #[test]
    fn order_is_by_server_then_as_the_server_listed() {
        let servers = Servers::from([server("b", &["z", "a"]), server("a", &["y", "b"])]);
        let catalog = plain(NamingStyle::ServerTool, &servers);
        let names: Vec<_> = catalog.tools.iter().map(|t| t.name.as_str()).collect();
        assert_eq!(names, ["a__y", "a__b", "b__z", "b__a"]);
    }

    #[test]
    fn exposed_definition_differs_in_the_name_only() {
        let (id, mut catalog) = server("s", &[]);
        let json = "{\"_meta\":{\"name\":\"x\"}, \"name\" : \"echo\",\"inputSchema\":{\"type\":\"object\"},\"more\":[1.0e5]}";
        Arc::get_mut(&mut catalog).unwrap().tools.items.push(item(json));
        let catalog = plain(NamingStyle::McpDouble, &Servers::from([(id.clone(), catalog)]));
        let out = exposed_definition(&catalog.tools[0]).to_bytes();
        assert_eq!(std::str::from_utf8(&out).unwrap(), json.replace("\"echo\"", "\"mcp__s__echo\""));
        assert_eq!(catalog.definition_bytes(&id), json.len() as u64);
    }

    #[test]
    fn only_a_change_that_clients_see_is_a_change() {
        let servers = Servers::from([server("a", &["x"]), server("b", &["y"])]);
        let before = plain(NamingStyle::McpDouble, &servers);
        let mut same = servers.clone();
        let mut again = ServerCatalog::clone(&same[&ServerId::from("a")]);
        again.generation = Generation(9);
        again.tools.warnings.push("slow".into());
        same.insert("a".into(), Arc::new(again.clone()));
        assert!(before.same_content(&plain(NamingStyle::McpDouble, &same)));
        again.instructions = Some("be kind".into());
        same.insert("a".into(), Arc::new(again.clone()));
        assert!(!before.same_content(&plain(NamingStyle::McpDouble, &same)));
        again.instructions = None;
        again.prompts.items.push(item(r#"{"name":"p"}"#));
        same.insert("a".into(), Arc::new(again));
        assert!(!before.same_content(&plain(NamingStyle::McpDouble, &same)));
        assert!(!before.same_content(&plain(NamingStyle::McpDouble, &Servers::from([server("a", &["x"])]))));
    }

    #[test]
    fn wrong_names_find_the_right_ones() {
        let servers =
            Servers::from([server("github", &["create_issue", "list_issues"]), server("fs", &["read_file"])]);
        let catalog = plain(NamingStyle::ServerTool, &servers);
        assert_eq!(catalog.similar("create_isue", None, 3)[0], "github__create_issue");
        assert_eq!(catalog.similar("Read_File", Some(&"fs".into()), 3), ["read_file"]);
        assert_eq!(catalog.similar("issue", Some(&"github".into()), 3), ["list_issues", "create_issue"]);
        assert!(catalog.similar("qqqqqq", None, 3).is_empty());
        assert!(catalog.similar("", None, 3).is_empty());
    }

    #[test]
    fn resources_and_prompts_are_found_by_server_and_raw_name() {
        let (id, mut catalog) = server("s", &[]);
        let resource =
            definition::read(ListKind::Resources, Bytes::from_static(br#"{"uri":"a://b","name":"n"}"#));
        Arc::get_mut(&mut catalog).unwrap().resources.items.push(Arc::new(resource.unwrap()));
        let catalog = plain(NamingStyle::McpDouble, &Servers::from([(id.clone(), catalog)]));
        assert!(catalog.find(&id, ItemKind::Resource, "a://b").is_some());
        assert!(catalog.find(&id, ItemKind::Prompt, "a://b").is_none());
        assert!(catalog.find(&"t".into(), ItemKind::Resource, "a://b").is_none());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        #[test]
        fn merged_view_does_not_depend_on_arrival(
            lists in proptest::collection::vec(
                proptest::collection::btree_set(proptest::sample::select(vec!["a", "b", "a_b", "b__a", "a.b", "_", "é"]), 0..5), 4),
            order in Just(vec![0usize, 1, 2, 3]).prop_shuffle(),
            style in proptest::sample::select(vec![NamingStyle::McpDouble, NamingStyle::McpSingle, NamingStyle::ServerTool, NamingStyle::Bare]),
        ) {
            const NAMES: [&str; 4] = ["a", "a_", "a_b", "é"];
            let one = |i: usize| server(NAMES[i], &lists[i].iter().copied().collect::<Vec<_>>());
            let at_once = plain(style, &(0..4).map(one).collect());
            // Late servers join one by one; nothing is remembered until all are there.
            let mut servers = Servers::new();
            let mut last = Catalog::default();
            for &i in &order {
                servers.extend([one(i)]);
                last = plain(style, &servers);
                for tool in &last.tools {
                    prop_assert_eq!(leads(&last, &tool.name), Some((tool.route.server.as_str(), tool.route.item.name.as_str())));
                }
            }
            prop_assert!(last.same_content(&at_once));
            prop_assert_eq!(&last.names, &at_once.names);
            prop_assert_eq!(last.by_name, at_once.by_name);
        }
    }
}
