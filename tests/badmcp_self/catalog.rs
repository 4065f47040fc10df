//! Catalogue flags: paging, names, schemas, changes.

use serde_json::{Value, json};

use super::pipe::Pipe;
use super::web::{Web, timed};

fn names(tools: &[Value]) -> Vec<String> {
    tools.iter().map(|t| t["name"].as_str().unwrap_or("(none)").to_owned()).collect()
}

fn find<'a>(tools: &'a [Value], name: &str) -> &'a Value {
    tools.iter().find(|t| t["name"] == name).unwrap_or_else(|| panic!("no {name} in {:?}", names(tools)))
}

/// Follows cursors; the sizes of the pages and all items.
fn walk(pipe: &mut Pipe, method: &str, key: &str) -> (Vec<usize>, Vec<Value>) {
    let (mut sizes, mut all, mut params) = (Vec::new(), Vec::new(), json!({}));
    loop {
        let result = pipe.ask(method, &params)["result"].clone();
        let page = result[key].as_array().expect("a page").clone();
        sizes.push(page.len());
        all.extend(page);
        match result.get("nextCursor") {
            Some(cursor) => params = json!({"cursor": cursor}),
            None => return (sizes, all),
        }
    }
}

#[test]
fn pages_have_their_size_and_lose_nothing() {
    let mut pipe = Pipe::opened(&["--tools", "101", "--page-size", "50"]);
    let (sizes, tools) = walk(&mut pipe, "tools/list", "tools");
    assert_eq!(sizes, [50, 50, 6]);
    let mut unique = names(&tools);
    unique.sort();
    unique.dedup();
    assert_eq!((unique.len(), tools[105]["name"].as_str()), (106, Some("t100")));
    assert_eq!(pipe.ask("tools/list", &json!({"cursor": "made up"}))["error"]["code"], -32602);
    let mut small = Pipe::opened(&["--page-size", "1"]);
    assert_eq!(walk(&mut small, "resources/list", "resources").0, [1, 1, 1]);
    assert_eq!(walk(&mut small, "prompts/list", "prompts").0, [1, 1]);
    assert_eq!(walk(&mut small, "resources/templates/list", "resourceTemplates").0, [1, 1]);
}

#[test]
fn a_cursor_loops_for_ever() {
    let mut pipe = Pipe::opened(&["--cursor-loop"]);
    let mut params = json!({});
    for _ in 0..5 {
        let result = pipe.ask("tools/list", &params)["result"].clone();
        assert_eq!(result["tools"].as_array().map(Vec::len), Some(13));
        assert_eq!(result["nextCursor"], "again");
        params = json!({"cursor": "again"});
    }
}

#[test]
fn cursors_go_round_and_name_every_tool() {
    let mut pipe = Pipe::opened(&["--cursor-cycle"]);
    let (mut params, mut cursors, mut seen) = (json!({}), Vec::new(), Vec::new());
    for _ in 0..4 {
        let result = pipe.ask("tools/list", &params)["result"].clone();
        seen.extend(names(result["tools"].as_array().expect("tools")));
        cursors.push(result["nextCursor"].clone());
        params = json!({"cursor": result["nextCursor"]});
    }
    assert_eq!(cursors, ["A", "B", "A", "B"]);
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 13);
}

#[test]
fn odd_names_are_listed_and_callable() {
    let mut pipe = Pipe::opened(&["--tools", "0", "--name-kind", "long,dots,slash,space,unicode,empty,sep"]);
    let odd = names(&pipe.tools()).split_off(5);
    let mut lengths: Vec<usize> = odd.iter().map(String::len).filter(|len| *len >= 40).collect();
    lengths.sort_unstable();
    assert_eq!(lengths, [40, 40, 128, 128]);
    assert!(
        odd.iter().zip(odd.iter().skip(1)).any(|(a, b)| a.len() == 128 && a[..127] == b[..127] && a != b)
    );
    for part in [".", "/", " ", "漢", "__"] {
        assert!(odd.iter().any(|name| name.contains(part)), "{part:?} in {odd:?}");
    }
    assert!(odd.contains(&String::new()));
    for name in &odd {
        assert_eq!(pipe.text(name, &json!({})), format!("{name} {{}}"));
    }
}

#[test]
fn broken_tools_stand_beside_three_good_ones() {
    let all = "anyof-top,string-root,missing,empty-object,required-null,null-tool";
    let mut pipe = Pipe::opened(&["--bad-schema", all]);
    let tools = pipe.tools();
    assert_eq!(names(&tools)[11..], ["t0", "t1", "t2"]);
    let schema = |name: &str| find(&tools, name).get("inputSchema").cloned();
    assert!(schema("bad-anyof-top").expect("schema")["anyOf"].is_array());
    assert_eq!(schema("bad-string-root"), Some(json!({"type": "string"})));
    assert_eq!(schema("bad-missing"), None);
    assert_eq!(schema("bad-empty-object"), Some(json!({})));
    assert_eq!(schema("bad-required-null").expect("schema")["required"], Value::Null);
    assert_eq!(tools.iter().filter(|t| t.is_null()).count(), 1);
    assert_eq!(pipe.text("t2", &json!({})), "t2 {}");
}

#[test]
fn optional_parts_are_broken_on_request() {
    let mut pipe = Pipe::opened(&["--bad-output-schema", "no-type,garbage", "--bad-annotations"]);
    let tools = pipe.tools();
    assert!(find(&tools, "out-no-type")["outputSchema"].get("type").is_none());
    assert!(find(&tools, "out-garbage")["outputSchema"].is_string());
    assert!(find(&tools, "annotated-string")["annotations"].is_string());
    assert_eq!(find(&tools, "annotated-values")["annotations"]["readOnlyHint"], "maybe");
    assert!(find(&tools, "annotated-null")["annotations"].is_null());
    let result = pipe.call("out-garbage", &json!({}))["result"].clone();
    assert_eq!(
        (&result["structuredContent"], &result["content"][0]["text"]),
        (&json!({"n": 1}), &json!(r#"{"n":1}"#))
    );
}

#[test]
fn each_dialect_has_its_tool() {
    let mut pipe = Pipe::opened(&["--schema-dialect", "draft-04,draft-07,2020-12,nonsense,urn:x"]);
    let tools = pipe.tools();
    for (word, uri) in [
        ("draft-04", "http://json-schema.org/draft-04/schema#"),
        ("draft-07", "http://json-schema.org/draft-07/schema#"),
        ("2020-12", "https://json-schema.org/draft/2020-12/schema"),
        ("nonsense", "urn:nonsense:no-such-dialect"),
        ("urn:x", "urn:x"),
    ] {
        let name = format!("dialect-{word}");
        assert_eq!(find(&tools, &name)["inputSchema"]["$schema"], uri);
        assert_eq!(find(&tools, &name)["outputSchema"]["$schema"], uri);
        assert_eq!(pipe.call(&name, &json!({"n": 1}))["result"]["structuredContent"], json!({"n": 1}));
    }
}

#[test]
fn extra_fields_stand_on_tools_and_results() {
    let mut pipe = Pipe::opened(&["--extra-fields"]);
    let tools = pipe.tools();
    for field in ["title", "icons", "annotations", "execution", "outputSchema", "_meta", "x-vendor"] {
        assert!(tools.iter().all(|tool| tool.get(field).is_some()), "{field}");
    }
    let result = pipe.call("t0", &json!({}))["result"].clone();
    for field in ["_meta", "x-vendor", "structuredContent"] {
        assert!(result.get(field).is_some(), "{field}");
    }
    assert!(result["content"][0]["annotations"]["audience"].is_array());
}

#[test]
fn definitions_change_after_their_lists() {
    let mut pipe = Pipe::opened(&["--mutate-desc-after", "2"]);
    let described: Vec<Value> = (0..3).map(|_| find(&pipe.tools(), "t0")["description"].clone()).collect();
    assert_eq!(described, ["Plain tool t0", "Plain tool t0", "Plain tool t0 (changed)"]);

    let mut pipe = Pipe::opened(&["--mutate-annotations"]);
    let (first, second) = (pipe.tools(), pipe.tools());
    let hints = |tools: &[Value]| find(tools, "t0")["annotations"]["readOnlyHint"].clone();
    assert_eq!([hints(&first), hints(&second)], [false, true]);
    assert_eq!(find(&first, "t0")["description"], find(&second, "t0")["description"]);

    let mut pipe = Pipe::opened(&["--reorder-schema-keys"]);
    let (first, second) = (pipe.tools(), pipe.tools());
    assert_eq!(first, second, "the same values");
    assert_ne!(find(&first, "t0")["inputSchema"].to_string(), find(&second, "t0")["inputSchema"].to_string());
}

#[test]
fn a_storm_blows_at_its_rate() {
    let mut pipe = Pipe::opened(&["--list-changed-storm", "200/s"]);
    let (_, took) = timed(|| {
        for _ in 0..40 {
            assert_eq!(pipe.message()["method"], "notifications/tools/list_changed");
        }
    });
    assert!((150..1500).contains(&took.as_millis()), "40 at 200/s took {took:?}");
    assert_eq!(pipe.tools().len(), 13);
}

#[test]
fn each_list_is_followed_by_list_changed() {
    let mut pipe = Pipe::opened(&["--list-changed-on-list"]);
    pipe.tools();
    assert_eq!(pipe.message()["method"], "notifications/tools/list_changed");
    assert_eq!(pipe.text("t0", &json!({})), "t0 {}");
    assert!(pipe.aside.is_empty());
}

#[test]
fn param_headers_must_say_what_the_arguments_say() {
    let mut web = Web::start(&["--era", "modern", "--param-headers"]);
    let tools = web.modern("tools/list", &json!({})).json()["result"]["tools"].clone();
    let located = find(tools.as_array().expect("tools"), "located");
    assert_eq!(located["inputSchema"]["properties"]["region"]["x-mcp-header"], "Region");
    let call = json!({"name": "located", "arguments": {"region": "Köln"}});
    let with = |web: &mut Web, value: Option<&str>| {
        let mut wire = web.modern_with("tools/call", &call, |headers| {
            headers.extend(value.map(|v| ("mcp-param-region".to_owned(), v.to_owned())));
        });
        wire.read().expect("an answer")
    };
    assert_eq!(with(&mut web, Some("=?base64?S8O2bG4=?=")).status, 200);
    for wrong in [None, Some("Bonn")] {
        let answer = with(&mut web, wrong);
        assert_eq!((answer.status, answer.code()), (400, json!(-32020)), "{wrong:?}");
    }
}
