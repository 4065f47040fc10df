//! A tool that is not what it was when it was pinned takes no call, whatever allows it: when it
//! changes in mid-session, across restarts of the host, and while calls wait for it.

use std::path::Path;
use std::sync::{Arc, Mutex};

use callboard::actors::approvals::Gate;
use callboard::call::{CallError, CallReply, Delivery, ErrorCode};
use callboard::catalog::pin::Held;
use callboard::config::spec::Trust;
use callboard::id::ServerId;
use callboard::policy::access::Mode;
use callboard::runtime::{PinsAt, Runtime, RuntimePlan};
use callboard::transport::pins;
use callboard::view::LifeState;
use serde_json::{Value, json};

use crate::cli_home::Home;
use crate::support::bad::{self, Host, Yard, runs, runs_in};
use crate::support::client;
use crate::support::*;

/// What the tool `t` says of itself, and the calls that wait for their answers.
#[derive(Clone, Default)]
struct Stage {
    says: Arc<Mutex<Option<&'static str>>>,
    waiting: Arc<Mutex<Vec<(Value, Wire)>>>,
}

impl Stage {
    fn saying(text: &'static str) -> Self {
        let stage = Self::default();
        stage.say(Some(text));
        stage
    }

    /// The description of `t` from now on; none when it is gone.
    fn say(&self, text: Option<&'static str>) {
        *self.says.lock().unwrap() = text;
    }

    /// A server that answers calls of `slow` when it is told to, and all others at once.
    fn server(&self) -> impl Script {
        let stage = self.clone();
        move |message: &Value, wire: &Wire| match method_of(message) {
            "initialize" => {
                let version = &message["params"]["protocolVersion"];
                let result = json!({"protocolVersion": version,
                    "capabilities": {"tools": {"listChanged": true}}, "serverInfo": {"name": "s", "version": "1"}});
                wire.result(message, &result.to_string());
            }
            "tools/list" => {
                let mut tools = vec![json!({"name": "slow", "inputSchema": {"type": "object"}})];
                if let Some(text) = *stage.says.lock().unwrap() {
                    tools.push(json!({"name": "t", "description": text, "inputSchema": {"type": "object"}}));
                }
                wire.result(message, &json!({ "tools": tools }).to_string());
            }
            "tools/call" if message["params"]["name"] == "slow" => {
                stage.waiting.lock().unwrap().push((message.clone(), wire.clone()));
            }
            "tools/call" => wire.result(message, r#"{"ran":1}"#),
            "notifications/initialized" => stage.waiting.lock().unwrap().push((Value::Null, wire.clone())),
            _ => {}
        }
    }

    fn announce(&self) {
        let line = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
        let wire = self.waiting.lock().unwrap()[0].1.clone();
        wire.line(line);
    }

    /// Answers the calls of `slow` that wait.
    fn release(&self) {
        for (message, wire) in self.waiting.lock().unwrap().iter().filter(|(message, _)| !message.is_null()) {
            wire.result(message, r#"{"ran":1}"#);
        }
    }
}

/// Everything allows everything.
fn open() -> callboard::config::spec::ServerSpec {
    let mut spec = spec("s");
    spec.allow_all_tools = true;
    spec.trust = Trust::Trusted;
    spec
}

fn fleet(home: &Path, script: impl Script) -> Fleet {
    let at = PinsAt { folder: home.join("pins"), project: home.to_path_buf() };
    Fleet::default().with(open(), script).plan(|plan| {
        plan.pins = Some(at);
        plan.gate = Gate { mode: Mode::Auto, ..Gate::default() };
    })
}

async fn ask(runtime: &Runtime, tool: &str) -> Result<CallReply, CallError> {
    runtime.frontend().call(request("s", tool, "{}"), None).await
}

#[track_caller]
fn assert_held(outcome: Result<CallReply, CallError>) {
    let error = outcome.expect_err("a held tool must not run");
    assert_eq!((error.code, error.delivery), (ErrorCode::Held, Delivery::NotSent), "{error:?}");
    assert!(
        error.fix.as_deref().is_some_and(|fix| fix.starts_with("callboard mcp pin review s")),
        "{error:?}"
    );
}

async fn version_after(runtime: &Runtime, before: u64) {
    while runtime.catalog().version == before {
        tokio::time::advance(std::time::Duration::from_millis(100)).await;
        idle().await;
    }
}

#[tokio::test]
async fn a_definition_that_changes_holds_its_tool_and_another_order_of_keys_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let [description, annotations, order]: [Vec<String>; 3] = runs_in("B130", folder.path());
    for (number, (flags, holds)) in
        [(description, true), (annotations, true), (order, false)].into_iter().enumerate()
    {
        let control = folder.path().join(format!("control-{number}"));
        let flags = [flags, vec!["--control".to_owned(), control.display().to_string()]].concat();
        let allow = |spec: &mut callboard::config::spec::ServerSpec| {
            (spec.allow_all_tools, spec.trust) = (true, Trust::Trusted);
        };
        let yard = Yard::new().tuned("s", &flags, allow).await;
        let host = yard.plan(|plan| plan.gate = Gate { mode: Mode::Auto, ..Gate::default() }).ready().await;
        host.echo("s", "before").await;
        std::fs::write(&control, "notify tools\n").unwrap();
        if holds {
            let view = host.until("s", "tools are held", |view| view.counts.held > 0).await;
            assert_eq!(
                (view.counts.held, view.counts.tools),
                (bad::TOOLS, bad::TOOLS),
                "held tools stay listed"
            );
            assert!(view.warnings.iter().any(|text| text.contains("held")), "{:?}", view.warnings);
            // The snapshot of the front end follows; the server's actor refuses in any case.
            assert_held(host.call("s", "echo", &json!({"text": "after"})).await);
            assert_eq!(host.executed("s").len(), 1);
        } else {
            bad::until("it was listed again", || host.received("s", "tools/list").len() > 1).await;
            host.echo("s", "after").await;
            assert_eq!(host.view("s").counts.held, 0);
        }
        host.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_comes_back_changed_is_held_and_free_again_as_it_was() {
    let home = tempfile::tempdir().unwrap();
    let stage = Stage::saying("one");
    let runtime = fleet(home.path(), stage.server()).ready().await;
    ask(&runtime, "t").await.unwrap();
    for (says, holds) in [(None, None), (Some("two"), Some(true)), (None, None), (Some("one"), Some(false))] {
        let before = runtime.catalog().version;
        stage.say(says);
        stage.announce();
        version_after(&runtime, before).await;
        match holds {
            Some(true) => assert_held(ask(&runtime, "t").await),
            Some(false) => drop(ask(&runtime, "t").await.unwrap()),
            None => assert_eq!(ask(&runtime, "t").await.unwrap_err().code, ErrorCode::UnknownTool),
        }
    }
    runtime.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn calls_that_wait_for_a_tool_that_changes_are_refused_and_the_others_go_on() {
    let home = tempfile::tempdir().unwrap();
    let stage = Stage::saying("one");
    let mut spec = open();
    spec.limits.in_flight = 1;
    let runtime = Fleet::default().with(spec, stage.server()).ready().await;
    let (first, second, third) = (ask(&runtime, "slow"), ask(&runtime, "t"), ask(&runtime, "slow"));
    let rest = async {
        idle().await;
        let before = runtime.catalog().version;
        stage.say(Some("two"));
        stage.announce();
        version_after(&runtime, before).await;
        stage.release();
        idle().await;
        stage.release();
    };
    let (first, second, third, ()) = tokio::join!(first, second, third, rest);
    first.unwrap();
    assert_held(second);
    third.unwrap();
    runtime.shutdown().await;
    assert!(!home.path().join("pins").exists(), "without a place nothing is written");
}

#[tokio::test(start_paused = true)]
async fn a_change_across_restarts_of_the_host_is_held_before_the_first_call_leaves() {
    let home = tempfile::tempdir().unwrap();
    for (says, holds) in [("one", false), ("two", true), ("two", true), ("one", false)] {
        let stage = Stage::saying(says);
        let tape = Tape::default();
        let runtime = fleet(home.path(), tape.of(stage.server())).start().await;
        // Asked before anything is listed: it waits for the look at what the tool is now.
        let outcome = ask(&runtime, "t").await;
        if holds {
            assert_held(outcome);
            assert!(tape.received("tools/call").is_empty());
            let held = runtime.catalog().held(&ServerId::new("s"), "t").cloned();
            assert!(matches!(held, Some(Held::Changed { .. })), "{held:?}");
        } else {
            outcome.unwrap();
        }
        runtime.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn pins_that_can_not_be_read_hold_their_server_alone_and_stay_as_they_are() {
    let home = tempfile::tempdir().unwrap();
    let run = || {
        let mut other = open();
        other.id = "other".into();
        fleet(home.path(), Stage::saying("one").server()).with(other, Stage::saying("one").server())
    };
    let runtime = run().ready().await;
    let at = PinsAt { folder: home.path().join("pins"), project: home.path().to_path_buf() };
    let entry = runtime.directory().entries[&ServerId::new("s")].entry.clone();
    runtime.shutdown().await;
    let file = pins::file(&at.folder, &at.owner(&entry));
    assert!(file.is_file());
    std::fs::write(&file, "{ torn").unwrap();
    let runtime = run().ready().await;
    let error = ask(&runtime, "t").await.unwrap_err();
    assert_eq!(error.code, ErrorCode::Held);
    assert!(error.fix.unwrap().contains(&file.display().to_string()), "the cure names the file");
    assert_eq!(runtime.status().iter().map(|view| view.counts.held).sum::<usize>(), 2);
    call(&runtime, "other", "t").await.unwrap();
    runtime.shutdown().await;
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "{ torn");
}

/// Another process accepts the definition of `t` as it is now.
fn accept_elsewhere(runtime: &Runtime, plan: &RuntimePlan) {
    let at = plan.pins.clone().unwrap();
    let item = runtime.catalog().find(&"s".into(), callboard::call::ItemKind::Tool, "t").cloned().unwrap();
    let pin = callboard::catalog::pin::Pin::of(&item.raw, "now", callboard::catalog::pin::By::Accepted);
    pins::accept(&at.folder, &at.owner(&plan.servers.entries[0]), &[("t".to_owned(), pin)]).unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_was_accepted_elsewhere_counts_after_a_reload() {
    let home = tempfile::tempdir().unwrap();
    fleet(home.path(), Stage::saying("one").server()).ready().await.shutdown().await;
    let stage = Stage::saying("two");
    let plan = fleet(home.path(), stage.server()).into_plan();
    let runtime = Runtime::start(plan.clone()).await.unwrap();
    runtime.settle(&[], std::time::Duration::from_secs(5)).await;
    assert_held(ask(&runtime, "t").await);
    accept_elsewhere(&runtime, &plan);
    runtime.reload(&plan).await.unwrap();
    runtime.settle(&[], std::time::Duration::from_secs(5)).await;
    idle().await;
    ask(&runtime, "t").await.unwrap();
    assert_eq!(runtime.status()[0].state, LifeState::Ready);
    assert_eq!(runtime.status()[0].generation.0, 2, "nothing restarted");
    runtime.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn what_was_accepted_elsewhere_counts_in_a_host_that_runs() {
    let home = tempfile::tempdir().unwrap();
    fleet(home.path(), Stage::saying("one").server()).ready().await.shutdown().await;
    let stage = Stage::saying("two");
    let plan = fleet(home.path(), stage.server()).into_plan();
    let runtime = Runtime::start(plan.clone()).await.unwrap();
    runtime.settle(&[], std::time::Duration::from_secs(5)).await;
    assert_held(ask(&runtime, "t").await);
    let (before, generation) = (runtime.catalog().version, runtime.status()[0].generation);
    accept_elsewhere(&runtime, &plan);
    version_after(&runtime, before).await;
    ask(&runtime, "t").await.unwrap();
    assert_eq!(runtime.status()[0].generation, generation, "nothing restarted");
    runtime.shutdown().await;
}

#[tokio::test]
async fn six_hundred_tools_of_two_servers_are_all_listed_and_callable() {
    let [one, two] = runs("B142");
    let host = Yard::new().with("one", &one).await.with("two", &two).await.ready().await;
    // Beside the plain tools that the flag asks for there are five that are always there.
    let each = 300 + 5;
    assert_eq!(host.runtime.catalog().tools.len(), 2 * each);
    for server in ["one", "two"] {
        assert_eq!(host.view(server).counts.tools, each);
        host.call(server, "t299", &json!({})).await.unwrap();
    }
    host.end().await;
}

#[tokio::test]
async fn the_size_of_huge_definitions_is_told() {
    let host = Host::of(&bad::flags("B143")).await;
    assert!(host.view("s").definition_bytes > 50 * 20 * 1000);
    host.end().await;
}

fn configured(home: &Home, flags: &[&str]) {
    let entry =
        json!({"mcpServers": {"s": {"command": bad::program(), "args": flags, "allowAllTools": true}}});
    home.user(&entry.to_string());
}

#[test]
fn the_command_line_shows_a_change_takes_it_and_holds_the_next_one() {
    let home = Home::new();
    configured(&home, &[]);
    home.run(&["mcp", "call", "s", "echo", "text=hi"]).expect(0);
    let listed = home.run(&["mcp", "pin", "list", "--json"]).json(0);
    assert_eq!(listed["data"]["pins"].as_array().unwrap().len(), bad::TOOLS);
    assert!(home.run(&["mcp", "pin", "review"]).expect(0).stdout.contains("No tool is held"));

    configured(&home, &["--desc-kind", "inject,zero-width"]);
    let refused = home.run(&["mcp", "call", "s", "echo", "text=hi", "--json"]).json(5);
    assert_eq!(refused["error"]["code"], "held");
    assert_eq!(refused["error"]["fix"], "callboard mcp pin review s echo");
    let why = home.run(&["mcp", "why", "s", "echo", "--json"]).json(0);
    assert_eq!(why["data"]["tool"]["rule"], "held by a pin", "{why}");
    let tools = home.run(&["mcp", "tools", "s", "-v"]);
    tools.expect(0);
    assert!(tools.stdout.contains("echo (held)") && tools.stdout.contains("look twice"), "{tools:?}");
    let list = home.run(&["mcp", "list", "--json"]).json(0);
    assert_eq!(list["data"]["servers"][0]["tools_held"], bad::TOOLS);
    assert!(list["warnings"][0].as_str().unwrap().contains("13 tools held"), "{list}");
    let status = home.run(&["mcp", "status", "--json"]);
    let status: Value = serde_json::from_str(&status.stdout).unwrap();
    assert_eq!(status["data"]["servers"][0]["tools_held"], bad::TOOLS);

    let review = home.run(&["mcp", "pin", "review", "s", "echo"]);
    review.expect(1);
    for words in
        ["{+", "ignore all previous", "\\u{200b}", "speaks to the model", "callboard mcp pin accept s echo"]
    {
        assert!(review.stdout.contains(words), "{words}: {review:?}");
    }
    home.run(&["mcp", "pin", "accept", "s", "echo"]).expect(5);
    let accepted = home.run(&["mcp", "pin", "accept", "s", "echo", "-y", "--json"]).json(0);
    assert_eq!(accepted["data"]["accepted"].as_array().unwrap().len(), 1);
    home.run(&["mcp", "call", "s", "echo", "text=hi"]).expect(0);
    home.run(&["mcp", "call", "s", "count"]).expect(5);
    home.run(&["mcp", "pin", "accept", "s", "--all", "-y"]).expect(0);
    home.run(&["mcp", "pin", "review", "s"]).expect(0);

    configured(&home, &[]);
    home.run(&["mcp", "call", "s", "echo", "text=hi"]).expect(5);
    home.run(&["mcp", "pin", "accept", "s", "nothing"]).expect(4);
    home.run(&["mcp", "pin", "accept", "s"]).expect(2);
}

/// What the definitions of a server look like on the command line.
fn shown(flags: &[String]) -> crate::cli_home::Ran {
    let home = Home::new();
    configured(&home, &flags.iter().map(String::as_str).collect::<Vec<_>>());
    home.run(&["mcp", "tools", "s", "-v"])
}

#[test]
fn hidden_characters_of_definitions_are_shown_and_flagged_and_huge_lists_are_refused() {
    let [hidden, huge] = runs("B133");
    let listed = shown(&hidden);
    listed.expect(0);
    let is_hidden = |c: char| {
        matches!(c, '\u{200b}' | '\u{2060}' | '\u{feff}' | '\u{202a}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}' | '\u{e0000}'..='\u{e007f}')
    };
    assert!(!listed.stdout.contains(is_hidden), "{listed:?}");
    for words in ["\\u{e0063}", "\\u{202e}", "look twice", "hidden characters", "speaks to the model"] {
        assert!(listed.stdout.contains(words), "{words}: {listed:?}");
    }
    let home = Home::new();
    configured(&home, &hidden.iter().map(String::as_str).collect::<Vec<_>>());
    let status = home.run(&["mcp", "status", "--json"]).json(0);
    assert!(status["data"]["servers"][0]["tools_with_hidden_characters"].as_u64().unwrap() > 0, "{status}");
    let table = home.run(&["mcp", "status"]);
    assert!(table.stdout.contains("with hidden characters"), "{table:?}");
    let sheet = home.run(&["mcp", "status", "s"]);
    assert!(sheet.stdout.contains("with hidden characters (callboard mcp tools -v)"), "{sheet:?}");
    let refused = shown(&huge);
    assert_ne!(refused.code, 0);
    assert!(refused.stderr.contains("limits.frame_max"), "{refused:?}");
}

/// The host rewrites no word of a server unless its configuration asks for it: whoever shapes definitions
/// must know what they were. So what hides in one is told to the person instead.
#[tokio::test(start_paused = true)]
async fn hidden_characters_reach_clients_as_they_are_and_are_counted_for_a_person() {
    let odd =
        r#"{"name":"odd","description":"adds\u200b \u202enumbers\u{200b}","inputSchema":{"type":"object"}}"#
            .replace("\\u{200b}", "\u{200b}");
    let listed = odd.clone();
    let script = move |message: &Value, wire: &Wire| {
        if method_of(message) == "tools/list" {
            wire.result(
                message,
                &format!(r#"{{"tools":[{listed},{{"name":"even","inputSchema":{{"type":"object"}}}}]}}"#),
            );
        } else {
            good(message, wire);
        }
    };
    let fleet = || Fleet::default().with(spec("s"), script.clone());
    let host = client::host(fleet(), |_| {}).await;
    let mut client = client::Raw::legacy(&host, json!({})).await;
    client.request(1, "tools/list", json!({})).await;
    client.line().await.unwrap();
    assert!(client.line.contains(&odd.replace(r#""odd""#, r#""s__odd""#)), "{}", client.line);
    let runtime = fleet().ready().await;
    assert_eq!(runtime.status()[0].counts.unseen, 1);
    runtime.shutdown().await;
}

#[test]
fn servers_that_could_carry_private_data_away_together_are_named_where_a_person_looks() {
    let home = Home::new();
    let entry = |tool: &str| json!({"command": bad::program(), "args": ["--tool", tool], "tools": {"include": [tool]}});
    let mut entries = json!({"mcpServers": {"files": entry("read_file"), "mail": entry("send_email"),
        "web": entry("web_search"), "clock": entry("get_current_time")}});
    home.user(&entries.to_string());
    let status = home.run(&["mcp", "status", "--json"]).json(0);
    let flow = &status["data"]["toxic_flow"];
    assert_eq!(flow["reads_private"], json!([{"server": "files", "tool": "read_file"}]), "{status}");
    assert_eq!(flow["takes_untrusted"], json!([{"server": "web", "tool": "web_search"}]));
    assert_eq!(flow["sends_out"], json!([{"server": "mail", "tool": "send_email"}]));
    let told = "could carry private data away: reads private data: files (read_file); takes in what strangers \
                write: web (web_search); can send out: mail (send_email)";
    let doctor = home.run(&["doctor", "--json"]);
    assert!(doctor.stdout.contains(told), "{doctor:?}");
    let check = home.run(&["mcp", "check", "mail"]);
    assert!(check.stderr.contains(told), "{check:?}");
    let check = home.run(&["mcp", "check", "clock"]);
    assert!(!check.stderr.contains(told), "{check:?}");
    entries["mcpServers"]["web"]["enabled"] = json!(false);
    home.user(&entries.to_string());
    let status = home.run(&["mcp", "status", "--json"]);
    let status: Value = serde_json::from_str(&status.stdout).unwrap();
    assert_eq!(status["data"]["toxic_flow"], Value::Null, "{status}");
}
