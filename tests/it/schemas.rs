//! Field reports about tool definitions: bad input schemas, harmless slips, foreign
//! dialects, bad optional parts. One bad definition costs itself at most.

use callboard::catalog::items::{ListKind, Quarantined};
use callboard::catalog::merge::exposed_definition;
use serde_json::{Value, json};

use crate::support::bad::{self, Host};

/// The definitions that are kept out.
fn kept_out(host: &Host) -> Vec<Quarantined> {
    host.catalog("s").list(ListKind::Tools).quarantined.clone()
}

/// The definition of a tool as clients see it.
fn shown(host: &Host, tool: &str) -> Value {
    let catalog = host.runtime.catalog();
    let exposed = catalog.tools.iter().find(|exposed| exposed.route.item.name == tool).unwrap();
    serde_json::from_slice(&exposed_definition(exposed).to_bytes()).unwrap()
}

/// Calls these tools and expects each to have run.
async fn callable(host: &Host, tools: &[&str]) {
    for tool in tools {
        host.call("s", tool, &json!({})).await.unwrap_or_else(|e| panic!("{tool}: {e:?}"));
    }
    assert_eq!(host.executed("s"), tools);
}

#[tokio::test]
async fn a_bad_schema_costs_its_own_tool_alone() {
    let host = Host::of(&bad::flags("B064")).await;
    let kept_out = kept_out(&host);
    let names: Vec<&str> = kept_out.iter().map(|bad| bad.name.as_str()).collect();
    assert_eq!(names, ["bad-string-root"], "the others can be adapted: {kept_out:?}");
    assert!(kept_out[0].reason.contains("string"), "{kept_out:?}");
    for tool in ["bad-anyof-top", "bad-missing", "bad-empty-object"] {
        assert_eq!(shown(&host, tool)["inputSchema"]["type"], "object", "{tool}");
        assert!(!host.tool("s", tool).notes.is_empty(), "{tool}: the repair is told");
    }
    let counts = host.view("s").counts;
    assert_eq!((counts.tools, counts.quarantined), (5 + 3 + 3, 1));
    callable(&host, &["t0", "t1", "t2", "bad-anyof-top", "bad-missing", "bad-empty-object"]).await;
    let error = host.call("s", "bad-string-root", &json!({})).await.unwrap_err();
    assert!(error.message.contains("quarantined") && error.message.contains("string"), "{error}");
    host.end().await;
}

#[tokio::test]
async fn harmless_slips_are_repaired_entry_by_entry() {
    let host = Host::of(&bad::flags("B065")).await;
    assert_eq!(kept_out(&host), Vec::new());
    let view = host.warned("s", "tools: 1 null entries dropped").await;
    assert_eq!(view.counts.tools, 5 + 3 + 2);
    assert_eq!(shown(&host, "bad-missing")["inputSchema"], json!({"type": "object"}));
    let schema = &shown(&host, "bad-required-null")["inputSchema"];
    assert!(schema.get("required").is_none_or(Value::is_array), "{schema}");
    callable(&host, &["t0", "t1", "t2", "bad-required-null", "bad-missing"]).await;
    host.end().await;
}

#[tokio::test]
async fn any_dialect_is_accepted() {
    let host = Host::of(&bad::flags("B067")).await;
    assert_eq!(kept_out(&host), Vec::new());
    callable(&host, &["dialect-draft-04", "dialect-draft-07", "dialect-2020-12", "dialect-nonsense"]).await;
    let reply = host.call("s", "dialect-nonsense", &json!({"n": 1})).await.unwrap();
    let body: Value = serde_json::from_slice(&reply.body()).unwrap();
    assert_eq!(
        body["structuredContent"],
        json!({"n": 1}),
        "an output schema that nobody knows checks nothing"
    );
    host.end().await;
}

#[tokio::test]
async fn bad_optional_parts_are_dropped_and_the_tool_stays() {
    let host = Host::of(&bad::flags("B068")).await;
    assert_eq!(kept_out(&host), Vec::new());
    let tools = ["out-no-type", "out-garbage", "annotated-string", "annotated-values", "annotated-null"];
    callable(&host, &tools).await;
    let told = |tool: &str, part: &str| host.tool("s", tool).notes.iter().any(|note| note.contains(part));
    assert!(told("out-garbage", "outputSchema"));
    assert!(told("annotated-string", "annotations") && told("annotated-values", "annotations"));
    assert!(shown(&host, "out-garbage").get("outputSchema").is_none());
    assert!(shown(&host, "annotated-string").get("annotations").is_none());
    assert_eq!(host.tool("s", "annotated-values").hints.read_only, None, "a word is no permission");
    host.end().await;
}
