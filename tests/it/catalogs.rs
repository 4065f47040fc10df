//! From what servers list to what callers see: all pages, every change, one bad server
//! or definition alone, names that lead where they should.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use callboard::call::{ErrorCode, Target};
use callboard::config::spec::NamingStyle;
use callboard::view::LifeState;
use serde_json::{Value, json};

use crate::support::*;

fn tools(names: &[String]) -> Value {
    let all: Vec<_> = names.iter().map(|n| json!({"name": n, "inputSchema": {"type": "object"}})).collect();
    json!({ "tools": all })
}

/// Offers these tools; a call answers with the raw name that arrived.
fn offering(names: &[&str]) -> impl Script {
    let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
    move |m: &Value, w: &Wire| match method_of(m) {
        "tools/list" => w.result(m, &tools(&names).to_string()),
        "tools/call" => w.result(m, &json!({"called": m["params"]["name"]}).to_string()),
        _ => {
            good(m, w);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn all_pages_are_read() {
    let runtime = one(|m: &Value, w: &Wire| {
        if method_of(m) != "tools/list" {
            good(m, w);
            return;
        }
        let page: usize = m["params"]["cursor"].as_str().map_or(0, |c| c.parse().unwrap());
        let names: Vec<_> = (page * 50..((page + 1) * 50).min(101)).map(|n| format!("t{n}")).collect();
        let mut result = tools(&names);
        if page < 2 {
            result["nextCursor"] = (page + 1).to_string().into();
        }
        w.result(m, &result.to_string());
    })
    .await;
    assert_eq!(runtime.status()[0].counts.tools, 101);
    assert_eq!(runtime.catalog().tools.len(), 101);
}

#[tokio::test(start_paused = true)]
async fn a_cursor_that_loops_ends_the_walk_with_a_warning() {
    let tape = Tape::default();
    let runtime = one(tape.of(|m: &Value, w: &Wire| {
        if method_of(m) == "tools/list" {
            let mut result = tools(&["a".to_owned(), "b".to_owned()]);
            result["nextCursor"] = "again".into();
            w.result(m, &result.to_string());
        } else {
            good(m, w);
        }
    }))
    .await;
    let view = runtime.status().remove(0);
    assert_eq!(view.counts.tools, 2);
    assert!(view.warnings.iter().any(|w| w.contains("cursor")), "{:?}", view.warnings);
    assert!(tape.received("tools/list").len() <= 3);
}

#[tokio::test(start_paused = true)]
async fn a_bad_definition_is_kept_out_alone() {
    let runtime = one(|m: &Value, w: &Wire| {
        if method_of(m) == "tools/list" {
            let list = r#"{"tools":[{"name":"good","inputSchema":{"type":"object"}},null,{"name":7},
                {"name":"str","inputSchema":"x"},{"name":"missing"},{"name":"good2","inputSchema":{}}]}"#;
            w.result(m, &list.replace('\n', " "));
        } else {
            good(m, w);
        }
    })
    .await;
    let view = runtime.status().remove(0);
    assert!(view.counts.quarantined >= 2, "{view:?}");
    for name in ["good", "good2", "missing"] {
        assert!(runtime.catalog().exposed(&format!("mcp__s__{name}")).is_some(), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_changed_storm_costs_one_list_per_second_and_the_new_tool_appears() {
    let tape = Tape::default();
    let lists = Arc::new(AtomicUsize::new(0));
    let counted = lists.clone();
    let runtime = one(tape.of(move |m: &Value, w: &Wire| match method_of(m) {
        "tools/list" => {
            let nth = counted.fetch_add(1, Ordering::Relaxed);
            let names: Vec<_> = (0..=nth.min(1)).map(|n| format!("t{n}")).collect();
            w.result(m, &tools(&names).to_string());
        }
        "tools/call" => {
            for _ in 0..200 {
                w.line(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
            }
            w.result(m, "{}");
        }
        _ => {
            good(m, w);
        }
    }))
    .await;
    assert_eq!(runtime.catalog().tools.len(), 1);
    call(&runtime, "s", "t0").await.unwrap();
    for _ in 0..20 {
        tokio::time::advance(Duration::from_millis(100)).await;
        idle().await;
    }
    assert_eq!(runtime.catalog().tools.len(), 2, "the new tool is there within 2 s");
    assert!(lists.load(Ordering::Relaxed) <= 3, "{}", lists.load(Ordering::Relaxed));
    call(&runtime, "s", "t1").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_failing_list_leaves_the_server_ready_and_the_others_listed() {
    let broken = |m: &Value, w: &Wire| {
        if method_of(m) == "tools/list" {
            w.line(format!(
                r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32000,"message":"db down"}}}}"#,
                m["id"]
            ));
        } else {
            good(m, w);
        }
    };
    let runtime = Fleet::default().with(spec("bad"), broken).with(spec("s"), offering(&["x"])).ready().await;
    let views = runtime.status();
    assert_eq!(views[0].state, LifeState::Ready);
    assert!(views[0].warnings.iter().any(|w| w.contains("db down")), "{:?}", views[0].warnings);
    assert_eq!(runtime.catalog().tools.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_refresh_that_breaks_off_keeps_the_tools_that_were_known() {
    let broken = Arc::new(AtomicBool::new(false));
    let breaks = broken.clone();
    let runtime = one(move |m: &Value, w: &Wire| {
        if method_of(m) != "tools/list" {
            if method_of(m) == "tools/call" {
                breaks.store(true, Ordering::Relaxed);
                w.line(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
                w.result(m, "{}");
            } else {
                good(m, w);
            }
            return;
        }
        let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
        match m["params"]["cursor"].as_str() {
            None => w.result(m, &json!({"tools": [tool("echo")], "nextCursor": "2"}).to_string()),
            Some(_) if breaks.load(Ordering::Relaxed) => w.result(m, r#"{"tools":"gone"}"#),
            Some(_) => w.result(m, &json!({"tools": [tool("other")]}).to_string()),
        }
    })
    .await;
    assert_eq!(runtime.catalog().tools.len(), 2);
    for _ in 0..2 {
        call(&runtime, "s", "echo").await.unwrap();
        tokio::time::advance(Duration::from_secs(5)).await;
        idle().await;
        assert_eq!(runtime.catalog().tools.len(), 2, "what was known stays");
    }
    let warnings = runtime.status().remove(0).warnings;
    assert!(warnings.iter().any(|text| text.contains("page 2 failed")), "{warnings:?}");
}

#[tokio::test(start_paused = true)]
async fn names_that_could_be_cut_two_ways_lead_to_their_own_server() {
    let servers = ["db", "my_db", "a", "a__b"];
    let mut fleet = Fleet::default();
    for server in servers {
        fleet = fleet.with(spec(server), offering(&["b__c", "c"]));
    }
    let runtime = fleet.ready().await;
    let catalog = runtime.catalog();
    assert_eq!(catalog.tools.len(), 8);
    for tool in &catalog.tools {
        let mut by_name = request("a", "", "{}");
        by_name.target = Target::Exposed(tool.name.clone());
        let reply = runtime.frontend().call(by_name, None).await.unwrap();
        assert_eq!(reply.server, tool.route.server, "{}", tool.name);
        assert_eq!(text(&reply), json!({"called": tool.route.item.name}).to_string());
    }
}

#[tokio::test(start_paused = true)]
async fn a_bare_name_of_two_servers_is_refused_with_its_candidates() {
    for naming in [NamingStyle::Bare, NamingStyle::McpDouble] {
        let runtime = Fleet::default()
            .with(spec("a"), offering(&["send", "only_a"]))
            .with(spec("b"), offering(&["send"]))
            .plan(|plan| plan.naming = naming)
            .ready()
            .await;
        let mut by_name = request("a", "", "{}");
        by_name.target = Target::Exposed("send".to_owned());
        let error = runtime.frontend().call(by_name.clone(), None).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::AmbiguousName, "{error}");
        assert!(error.message.contains('a') && error.message.contains('b'), "{error}");
        by_name.target = Target::Exposed("only_a".to_owned());
        assert_eq!(text(&runtime.frontend().call(by_name, None).await.unwrap()), r#"{"called":"only_a"}"#);
    }
}

#[tokio::test(start_paused = true)]
async fn an_unknown_tool_is_refused_here_with_look_alikes() {
    let tape = Tape::default();
    let runtime = Fleet::default().with(spec("s"), tape.of(offering(&["read_file"]))).ready().await;
    let error = call(&runtime, "s", "raed_file").await.unwrap_err();
    assert_eq!(error.code, ErrorCode::UnknownTool);
    assert!(error.message.contains("read_file"), "{error}");
    assert!(tape.received("tools/call").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_filtered_tool_is_neither_listed_nor_callable() {
    let mut filtered = spec("s");
    filtered.filter.exclude = callboard::config::spec::Globs::compile(&["del*".to_owned()]).unwrap();
    let runtime = Fleet::default().with(filtered, offering(&["get", "delete"])).ready().await;
    let view = runtime.status().remove(0);
    assert_eq!((view.counts.tools, view.counts.filtered), (1, 1));
    assert_eq!(call(&runtime, "s", "delete").await.unwrap_err().code, ErrorCode::Denied);
    call(&runtime, "s", "get").await.unwrap();
}
