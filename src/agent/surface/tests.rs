//! The list of tools over made-up catalogues.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::catalog::definition;
use crate::catalog::items::{ListKind, ServerCatalog};
use crate::catalog::merge::{MergeInput, merge};
use crate::config::spec::NamingStyle;
use crate::id::Generation;

type Servers = BTreeMap<ServerId, Arc<ServerCatalog>>;

fn tool(name: &str, description: &str) -> Arc<Item> {
    let raw = json!({"name": name, "description": description, "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}}}});
    Arc::new(definition::read(ListKind::Tools, Bytes::from(raw.to_string())).unwrap())
}

fn server(name: &str, tools: &[(&str, &str)]) -> (ServerId, Arc<ServerCatalog>) {
    let id = ServerId::from(name);
    let mut catalog = ServerCatalog::empty(id.clone(), Generation(1));
    catalog.tools.items = tools.iter().map(|(name, text)| tool(name, text)).collect();
    (id, Arc::new(catalog))
}

fn many(name: &str, count: usize, text: &str) -> (ServerId, Arc<ServerCatalog>) {
    let names: Vec<String> = (0..count).map(|n| format!("t{n:03}")).collect();
    server(name, &names.iter().map(|name| (name.as_str(), text)).collect::<Vec<_>>())
}

fn merged(servers: &Servers) -> Catalog {
    let reserved: Vec<String> = bridge::Own::reserved().collect();
    merge(&MergeInput {
        servers,
        filters: &BTreeMap::new(),
        style: NamingStyle::McpDouble,
        name_len_max: 64,
        reserved: &reserved,
        remembered: &BTreeMap::new(),
    })
}

fn wanted(catalog: &Catalog, exposure: Exposure, window: u64) -> Wanted<'_> {
    Wanted {
        catalog,
        exposure,
        window: Some(window),
        dialect: Dialect::OpenAi,
        tools_max: 128,
        may: &|_, _| true,
    }
}

fn names(surface: &Surface) -> Vec<&str> {
    surface.tools.iter().map(|tool| tool.name.as_str()).collect()
}

#[test]
fn auto_is_direct_for_few_or_cheap_tools_and_searches_else() {
    let auto = |count: usize, text: &str, window: u64| {
        let catalog = merged(&Servers::from([many("s", count, text)]));
        Surface::new(&wanted(&catalog, Exposure::Auto, window), None).exposure
    };
    assert_eq!(auto(20, "", 10_000), Exposure::Direct);
    assert_eq!(auto(21, "", 10_000), Exposure::Search, "more than twenty");
    assert_eq!(auto(21, "", 2_000_000), Exposure::Direct, "under a twentieth");
    assert_eq!(auto(20, &"long ".repeat(200), 20_000), Exposure::Search, "more than a quarter");
    assert_eq!(auto(200, "", 100_000_000), Exposure::Search, "more than endpoints take");
}

#[test]
fn bridge_and_search_have_their_own_tools_and_reserved_names_are_nobody_elses() {
    let catalog = merged(&Servers::from([server("s", &[("a", "")])]));
    let surface = |exposure| Surface::new(&wanted(&catalog, exposure, 9), None);
    assert_eq!(names(&surface(Exposure::Bridge)).len(), 7);
    assert_eq!(names(&surface(Exposure::Search)), ["mcp_search_tools", "mcp_call_tool", "mcp_read_output"]);
    let direct = surface(Exposure::Direct);
    assert_eq!(names(&direct), ["mcp_read_output", "mcp__s__a"]);
    assert_eq!(direct.leads("mcp__s__a"), Some(&Leads::Tool("s".into(), "a".into())));
    assert_eq!(direct.leads("mcp_read_output"), Some(&Leads::Own(bridge::Own::ReadOutput)));
    assert_eq!(direct.leads("a"), None);
}

#[test]
fn a_cap_takes_from_each_server_the_same_and_says_so() {
    let catalog =
        merged(&Servers::from([many("a", 100, ""), many("b", 100, ""), server("c", &[("only", "")])]));
    let surface = Surface::new(&Wanted { tools_max: 50, ..wanted(&catalog, Exposure::Direct, 9) }, None);
    let of = |server: &str| {
        names(&surface).iter().filter(|name| name.starts_with(&format!("mcp__{server}__"))).count()
    };
    assert_eq!((surface.tools.len(), of("a"), of("b"), of("c")), (50, 24, 24, 1));
    assert_eq!(surface.warnings.len(), 2);
    assert!(surface.warnings[0].contains("76 of 100 tools of a"), "{:?}", surface.warnings);
}

#[test]
fn what_a_server_says_of_its_tool_is_fenced_cut_and_the_same_at_every_start() {
    let text = format!("does it <|im_start|> {} {}", crate::shaping::fence::CLOSING, "x".repeat(9000));
    let catalog = merged(&Servers::from([server("s", &[("a", &text)])]));
    let surface = Surface::new(&wanted(&catalog, Exposure::Direct, 9), None);
    let said = &surface.tools[1].description;
    assert!(said.starts_with(crate::shaping::fence::OPENING) && said.len() < DESCRIPTION_MAX + 400, "{said}");
    assert_eq!(said.matches(crate::shaping::fence::CLOSING).count(), 1);
    assert!(!said.contains("im_start") && said.contains("[cut: "));
    let again = Surface::new(&wanted(&catalog, Exposure::Direct, 9), None);
    assert_eq!(surface.bytes(), again.bytes());
}

#[test]
fn what_may_not_be_called_is_not_shown_and_not_found() {
    let catalog = merged(&Servers::from([server("s", &[("read_file", ""), ("delete_file", "")])]));
    let may = |_: &ServerId, tool: &str| tool != "delete_file";
    let wanted = Wanted { may: &may, ..wanted(&catalog, Exposure::Direct, 9) };
    assert_eq!(names(&Surface::new(&wanted, None)), ["mcp_read_output", "mcp__s__read_file"]);
    let found = listing::search(&wanted, "file", 9);
    assert!(found.contains("read_file") && !found.contains("delete_file"), "{found}");
    assert!(!listing::tools(&wanted, &"s".into()).contains("delete_file"));
}

#[test]
fn what_joins_is_appended_and_the_cost_of_what_changes_is_told() {
    let mut servers = Servers::from([server("m", &[("b", ""), ("c", "")])]);
    let before = Surface::new(&wanted(&merged(&servers), Exposure::Auto, 100_000), None);
    servers.extend([server("a", &[("x", "")]), server("m", &[("b", ""), ("c", ""), ("a", "")])]);
    let after = Surface::new(&wanted(&merged(&servers), Exposure::Auto, 100_000), Some(&before));
    assert_eq!(names(&after)[..3], names(&before)[..], "the beginning stays");
    let change = after.change(&before);
    assert_eq!(change.added, ["mcp__a__x", "mcp__m__a"]);
    assert!(change.tokens > 0 && change.tokens < after.tokens);
    servers.remove(&ServerId::from("m"));
    let less = Surface::new(&wanted(&merged(&servers), Exposure::Auto, 100_000), Some(&after));
    assert_eq!(less.change(&after).removed, ["mcp__m__a", "mcp__m__b", "mcp__m__c"]);
    assert_eq!(after.change(&after), Change::default());
}

#[test]
fn once_tools_are_searched_for_it_stays_so() {
    let many = merged(&Servers::from([many("s", 60, "")]));
    let few = merged(&Servers::from([server("s", &[("a", "")])]));
    let before = Surface::new(&wanted(&many, Exposure::Auto, 10_000), None);
    assert_eq!(before.exposure, Exposure::Search);
    let after = Surface::new(&wanted(&few, Exposure::Auto, 10_000), Some(&before));
    assert_eq!((after.exposure, after.bytes()), (Exposure::Search, before.bytes()));
}

#[test]
fn a_search_ranks_by_words_and_returns_parameters() {
    let catalog = merged(&Servers::from([
        server("fs", &[("read_file", "Reads a file"), ("list_folder", "Lists a folder")]),
        server("git", &[("commit", "Makes a commit"), ("log", "Shows what was committed to a file")]),
    ]));
    let wanted = wanted(&catalog, Exposure::Search, 9);
    let found: serde_json::Value = serde_json::from_str(&listing::search(&wanted, "read a file", 2)).unwrap();
    assert_eq!(found["tools"][0]["name"], "read_file");
    assert_eq!(found["tools"][0]["parameters"]["properties"]["path"]["type"], "string");
    assert_eq!((found["tools"].as_array().unwrap().len(), &found["searched"]), (2, &json!(4)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn the_same_catalogue_is_the_same_bytes_whoever_started_first(
        lists in proptest::collection::vec(proptest::collection::btree_set("[a-z.é_]{1,5}", 0..6), 3),
        order in Just(vec![0usize, 1, 2]).prop_shuffle(),
        shuffled in any::<bool>(),
        exposure in proptest::sample::select(vec![Exposure::Auto, Exposure::Direct, Exposure::Bridge, Exposure::Search]),
    ) {
        let one = |i: usize, turned: bool| {
            let mut tools: Vec<(&str, &str)> = lists[i].iter().map(|name| (name.as_str(), "says")).collect();
            if turned {
                tools.reverse();
            }
            server(["a", "b", "é"][i], &tools)
        };
        let at_once: Servers = (0..3).map(|i| one(i, false)).collect();
        // Another start: servers answer in another order, and list their tools in another one.
        let mut late = Servers::new();
        for i in order {
            late.extend([one(i, shuffled)]);
        }
        let first = Surface::new(&wanted(&merged(&at_once), exposure, 50_000), None);
        let second = Surface::new(&wanted(&merged(&late), exposure, 50_000), None);
        prop_assert_eq!(first.bytes(), second.bytes());
        let unique: BTreeSet<&str> = names(&first).into_iter().collect();
        prop_assert_eq!(unique.len(), first.tools.len());
        prop_assert!(names(&first).iter().all(|name| name.len() <= 64));
    }
}
