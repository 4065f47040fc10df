//! What `why` says about one tool.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;
use crate::catalog::items::{Item, Quarantined};
use crate::catalog::merge::{MergeInput, merge};
use crate::cli::status_view::tests::view;
use crate::config::spec::NamingStyle;
use crate::id::{Generation, ServerId};
use crate::view::LifeState;

fn item(name: &str, read_only: bool) -> Arc<Item> {
    let raw = format!("{{\"name\":\"{name}\",\"inputSchema\":{{}}}}");
    Arc::new(Item {
        raw: raw.into(),
        name: name.to_owned(),
        name_span: 8..10 + name.len(),
        title: None,
        description: None,
        input_schema: None,
        hints: Hints { read_only: read_only.then_some(true), ..Hints::default() },
        notes: Vec::new(),
        edits: Vec::new(),
        fingerprint: None,
    })
}

fn catalog(servers: &[&str], filter: ToolFilter, style: NamingStyle) -> Catalog {
    let servers: BTreeMap<ServerId, Arc<ServerCatalog>> = servers
        .iter()
        .map(|name| {
            let mut list = ServerCatalog::empty(ServerId::new(name), Generation(1));
            list.listed = true;
            list.tools.items = vec![item("read", true), item("write", false), item("hidden", false)];
            list.tools.quarantined = vec![Quarantined { name: "bad".into(), reason: "no schema".into() }];
            (list.server.clone(), Arc::new(list))
        })
        .collect();
    let filters = servers.keys().map(|id| (id.clone(), filter.clone())).collect();
    merge(&MergeInput {
        servers: &servers,
        filters: &filters,
        style,
        name_len_max: 64,
        reserved: &[],
        remembered: &BTreeMap::new(),
    })
}

fn asked(entry_json: &str, catalog: &Catalog, name: &str, listed: bool) -> Result<ToolView, Failure> {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("mcp.json"), format!("{{\"mcpServers\":{{\"s\":{entry_json}}}}}"))
        .unwrap();
    let ctx = Ctx::for_test(home.path(), &[]);
    let entry = ctx.entry("s").unwrap();
    let mut seen = view("s", LifeState::Ready);
    seen.listed = listed;
    let rules = AllowRules::default();
    look(&ctx, catalog, &Asked { entry, view: &seen, name, mode: Mode::ReadOnly, rules: &rules })
}

#[test]
fn each_way_to_be_decided_names_its_rule() {
    let all = catalog(&["s"], ToolFilter::default(), NamingStyle::default());
    for (entry, tool, decision, rule) in [
        (r#"{"command":"x"}"#, "write", "ask", "mode readonly"),
        (r#"{"command":"x","trust":"trusted"}"#, "read", "run", "readOnlyHint of a trusted server"),
        (r#"{"command":"x","allowedTools":["wr*"]}"#, "write", "run", "allowedTools wr*"),
        (r#"{"command":"x","allowedTools":["wr*"]}"#, "read", "refuse", "allowedTools"),
        (r#"{"command":"x","deniedTools":["write"]}"#, "write", "refuse", "deniedTools write"),
        (r#"{"command":"x","enabled":false}"#, "write", "refuse", "disabled"),
    ] {
        let tool = asked(entry, &all, tool, true).unwrap();
        assert_eq!((tool.decision, tool.rule.as_str(), tool.listing), (decision, rule, "listed"), "{entry}");
        assert_eq!(tool.text.is_none(), decision == "run", "{entry}");
    }
}

#[test]
fn a_tool_goes_by_its_raw_name_and_by_the_one_that_clients_see() {
    let all = catalog(&["s"], ToolFilter::default(), NamingStyle::default());
    let exposed = all.exposed_name(&ServerId::new("s"), "write").unwrap().to_owned();
    for name in ["write", &exposed] {
        let tool = asked(r#"{"command":"x"}"#, &all, name, true).unwrap();
        assert_eq!((tool.name.as_str(), tool.exposed_name.as_deref()), ("write", Some(exposed.as_str())));
    }
}

#[test]
fn what_keeps_a_tool_out_of_the_list_is_said() {
    let entry = r#"{"command":"x","tools":{"exclude":["hid*"]}}"#;
    let filter = ToolFilter {
        exclude: crate::config::spec::Globs::compile(&["hid*".to_owned()]).unwrap(),
        ..ToolFilter::default()
    };
    let filtered = catalog(&["s"], filter, NamingStyle::default());
    let tool = asked(entry, &filtered, "hidden", true).unwrap();
    assert_eq!((tool.listing, tool.exposed_name), ("filtered", None));
    assert!(tool.reason.unwrap().contains("tools.exclude of the entry has \"hid*\""));
    let bad = asked(entry, &filtered, "bad", true).unwrap();
    assert_eq!(
        (bad.listing, bad.reason.as_deref()),
        ("quarantined", Some("its definition is broken: no schema"))
    );
    let both = catalog(&["s", "t"], ToolFilter::default(), NamingStyle::Bare);
    let clash = asked(r#"{"command":"x"}"#, &both, "write", true).unwrap();
    assert_eq!(clash.listing, "conflict");
    assert!(clash.reason.unwrap().contains("claimed by t too"));
}

#[test]
fn an_unknown_tool_is_not_found_unless_its_list_is_not_known() {
    let all = catalog(&["s"], ToolFilter::default(), NamingStyle::default());
    let failure = asked(r#"{"command":"x"}"#, &all, "wrte", true).unwrap_err();
    assert_eq!(failure.exit.code(), 4);
    assert!(failure.fix.unwrap().contains("did you mean write?"));
    let tool = asked(r#"{"command":"x"}"#, &Catalog::default(), "wrte", false).unwrap();
    assert_eq!((tool.listing, tool.decision), ("unknown", "ask"));
}
