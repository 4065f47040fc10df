//! Which tools show which part, and which servers make a flow together.

use bytes::Bytes;

use super::*;
use crate::catalog::definition::read;
use crate::catalog::items::ListKind;

fn item(name: &str, parameters: &[&str], open_world: Option<bool>) -> Item {
    let properties: serde_json::Map<String, Value> =
        parameters.iter().map(|name| ((*name).to_owned(), serde_json::json!({"type": "string"}))).collect();
    let mut tool = serde_json::json!({
        "name": name, "inputSchema": {"type": "object", "properties": properties}
    });
    if let Some(open) = open_world {
        tool["annotations"] = serde_json::json!({"openWorldHint": open});
    }
    read(ListKind::Tools, Bytes::from(tool.to_string())).unwrap()
}

fn shown(name: &str, parameters: &[&str]) -> String {
    let letter = |part: &Part| match part {
        Part::ReadsPrivate => 'p',
        Part::TakesUntrusted => 'u',
        Part::SendsOut => 's',
    };
    parts(&item(name, parameters, None)).iter().map(letter).collect()
}

#[test]
fn the_names_of_a_tool_and_its_parameters_say_what_it_can_carry() {
    for (name, parameters, want) in [
        ("read_file", &["path"][..], "p"),
        ("list_directory", &["path"], "p"),
        ("search_nodes", &["query"], ""),
        ("read_graph", &[], "p"),
        ("query", &["sql"], "p"),
        ("git_diff", &["repo_path"], "p"),
        ("get_calendar_events", &[], "p"),
        ("fetch", &["url", "max_length"], "us"),
        ("browser_navigate", &["url"], "us"),
        ("firecrawl_scrape", &["url"], "us"),
        ("web_search", &["query"], "u"),
        ("list_issues", &["repo"], "u"),
        ("get_issue_comments", &["number"], "u"),
        ("create_issue", &["title", "body"], "s"),
        ("add_issue_comment", &["body"], "s"),
        ("send_email", &["to", "body"], "s"),
        ("search_emails", &["query"], "pu"),
        ("post_message", &["channel", "text"], "s"),
        ("slack_get_channel_history", &["channel"], "pu"),
        ("run_command", &["command"], "pus"),
        ("execute_python", &["code"], "pus"),
        ("upload_file", &["path"], "s"),
        ("http_request", &["method", "url"], "us"),
        ("add", &["a", "b"], ""),
        ("calculate", &["expression"], ""),
        ("get_current_time", &["timezone"], ""),
        ("sequentialthinking", &["thought"], ""),
    ] {
        assert_eq!(shown(name, parameters), want, "{name}");
    }
    assert_eq!(parts(&item("lookup", &[], Some(true))), [Part::TakesUntrusted]);
    assert_eq!(parts(&item("lookup", &[], Some(false))), []);
}

#[test]
fn servers_are_a_flow_only_when_they_have_all_three_parts_together() {
    let of = |tools: &[(&str, &[&str])]| {
        let items: Vec<Item> = tools.iter().map(|(name, given)| item(name, given, None)).collect();
        Reach::of(items.iter())
    };
    let files = of(&[("read_file", &["path"]), ("list_directory", &["path"])]);
    let web = of(&[("web_search", &["query"])]);
    let mail = of(&[("send_email", &["to", "body"])]);
    let fetch = of(&[("fetch", &["url"])]);
    let shell = of(&[("add", &[]), ("run_command", &["command"])]);
    let time = of(&[("get_current_time", &[])]);
    let all = [
        ("files", &files),
        ("web", &web),
        ("mail", &mail),
        ("fetch", &fetch),
        ("shell", &shell),
        ("time", &time),
    ];
    for (names, whole) in [
        (&[][..], false),
        (&["files"], false),
        (&["files", "web"], false),
        (&["files", "mail"], false),
        (&["web", "mail"], false),
        (&["web", "fetch", "mail", "time"], false),
        (&["files", "web", "mail"], true),
        (&["files", "fetch"], true),
        (&["shell"], true),
        (&["time", "shell"], true),
        (&["files", "time"], false),
    ] {
        let found = flow(all.iter().filter(|(name, _)| names.contains(name)).copied());
        assert_eq!(found.is_some(), whole, "{names:?}: {found:?}");
    }
    let found = flow([("files", &files), ("fetch", &fetch), ("time", &time)].into_iter()).unwrap();
    assert_eq!(
        found.to_string(),
        "together these servers could carry private data away: reads private data: files (read_file); \
         takes in what strangers write: fetch (fetch); can send out: fetch (fetch)"
    );
    assert!(found.has("files") && found.has("fetch") && !found.has("time"));
    let shown = found.cleaned(&|name| name.to_uppercase());
    assert_eq!(shown.reads_private[0].tool, "READ_FILE");
}
