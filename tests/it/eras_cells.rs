//! Every feature of the protocol between clients and servers of both eras, in all four pairs: what the
//! table of eras (`docs/eras.md`) says happens.

use std::sync::Arc;

use callboard::config::spec::{Protocol, ServerSpec};
use callboard::serve::Host;
use serde_json::{Value, json};

use crate::support::client::{Raw, host};
use crate::support::{Fleet, Tape, Wire, idle, method_of, spec};

/// One client and one server, each of one era.
struct Pair {
    client: Raw,
    tape: Tape,
    /// Whether the client, and whether the server is modern.
    modern: (bool, bool),
    _host: Arc<Host>,
}

/// With everything that a typed model of the protocol would drop or write another way.
const ODD: &str = r#""x-new":1.10,"icons":[{"src":"data:,","x":1.10}],"annotations":{"audience":["pets"],"x":1.10},"_meta":{"k":1.10}"#;

/// Acknowledges a `subscriptions/listen`, and reports each resource in it as changed.
fn follows(message: &Value, wire: &Wire) {
    let meta = format!(r#"{{"io.modelcontextprotocol/subscriptionId":{}}}"#, message["id"]);
    let filter = &message["params"]["notifications"];
    wire.line(format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{{"_meta":{meta},"notifications":{filter}}}}}"#
    ));
    for uri in filter["resourceSubscriptions"].as_array().into_iter().flatten() {
        wire.line(format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{{"_meta":{meta},"uri":{uri}}}}}"#
        ));
    }
}

/// A server of either era with one of everything.
fn everything(modern: bool) -> impl Fn(&Value, &Wire) + Send + Sync + 'static {
    move |message: &Value, wire: &Wire| {
        let can = r#"{"tools":{},"resources":{"subscribe":true},"prompts":{},"completions":{},"logging":{}}"#;
        let (plain, cached) = match modern {
            true => (
                r#""resultType":"complete","#,
                r#""resultType":"complete","ttlMs":500,"cacheScope":"public","#,
            ),
            false => ("", ""),
        };
        let params = &message["params"];
        let result = match method_of(message) {
            "initialize" if !modern => format!(
                r#"{{"protocolVersion":{},"capabilities":{can},"serverInfo":{{"name":"s","version":"1"}}}}"#,
                params["protocolVersion"]
            ),
            "server/discover" if modern => {
                format!(r#"{{{cached}"supportedVersions":["2026-07-28"],"capabilities":{can}}}"#)
            }
            "tools/list" => {
                format!(r#"{{{cached}"tools":[{{"name":"t","inputSchema":{{"type":"object"}},{ODD}}}]}}"#)
            }
            "resources/list" => format!(r#"{{{cached}"resources":[{{"uri":"mem:/a","name":"a",{ODD}}}]}}"#),
            "resources/templates/list" => {
                format!(
                    r#"{{{cached}"resourceTemplates":[{{"uriTemplate":"mem:/t/{{x}}","name":"t",{ODD}}}]}}"#
                )
            }
            "prompts/list" => format!(r#"{{{cached}"prompts":[{{"name":"p",{ODD}}}]}}"#),
            "resources/read" => format!(r#"{{{cached}"contents":[{{"uri":"mem:/a","text":"a",{ODD}}}]}}"#),
            "prompts/get" => format!(r#"{{{plain}"messages":[],{ODD}}}"#),
            "completion/complete" => format!(r#"{{{plain}"completion":{{"values":["v"]}},{ODD}}}"#),
            "resources/subscribe" | "resources/unsubscribe" | "logging/setLevel" if !modern => {
                "{}".to_owned()
            }
            "subscriptions/listen" if modern => return follows(message, wire),
            "x/y" => format!(r#"{{{plain}{ODD}}}"#),
            "tools/call" => match params["arguments"]["do"].as_str() {
                Some("hang") => return,
                Some("report") => {
                    let token = &params["_meta"]["progressToken"];
                    wire.line(format!(
                        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":1.50,"x-new":1.10}}}}"#
                    ));
                    for level in ["debug", "error"] {
                        wire.line(format!(
                            r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"{level}","data":1.10}}}}"#
                        ));
                    }
                    format!(r#"{{{plain}"content":[]}}"#)
                }
                Some("list") => format!(r#"{{{plain}"content":[],"structuredContent":[1.10]}}"#),
                _ => format!(r#"{{{plain}"content":[{{"type":"text","text":"\u0061",{ODD}}}],{ODD}}}"#),
            },
            _ if message.get("id").is_none() || message.get("method").is_none() => return,
            method => {
                let text = format!("no {method}");
                let error = json!({"code": -32601, "message": text});
                return wire.line(json!({"jsonrpc": "2.0", "id": message["id"], "error": error}).to_string());
            }
        };
        wire.result(message, &result);
    }
}

impl Pair {
    async fn of(client: bool, server: bool) -> Self {
        let tape = Tape::default();
        let protocol = if server { Protocol::Modern } else { Protocol::Legacy };
        let spec = ServerSpec { protocol, ..spec("s") };
        let fleet = Fleet::default().with(spec, tape.of(everything(server)));
        let host = host(fleet, |_| {}).await;
        let raw = match client {
            true => Raw::attach(&host),
            false => Raw::legacy(&host, json!({})).await,
        };
        Self { client: raw, tape, modern: (client, server), _host: host }
    }

    /// All four pairs.
    async fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for (client, server) in [(false, false), (false, true), (true, false), (true, true)] {
            all.push(Self::of(client, server).await);
        }
        all
    }

    async fn ask(&mut self, method: &str, params: Value) -> Value {
        match self.modern.0 {
            true => self.client.ask_modern(method, params).await,
            false => self.client.ask(method, params).await,
        }
    }

    /// Asks something whose result has `ODD` in it, byte for byte, and is one of the client's era.
    async fn passes(&mut self, method: &str, params: Value) -> Value {
        let answer = self.ask(method, params).await;
        let line = &self.client.line;
        assert!(line.contains(ODD), "{method} {:?}: {line}", self.modern);
        let kind = self.modern.0.then(|| json!("complete"));
        assert_eq!(answer["result"].get("resultType"), kind.as_ref(), "{line}");
        answer["result"].clone()
    }
}

#[tokio::test(start_paused = true)]
async fn lists_of_all_kinds_keep_their_bytes_in_all_pairs_and_say_what_the_era_wants() {
    for mut pair in Pair::all().await {
        for (method, key) in [
            ("tools/list", "tools"),
            ("resources/list", "resources"),
            ("resources/templates/list", "resourceTemplates"),
            ("prompts/list", "prompts"),
        ] {
            let result = pair.passes(method, json!({})).await;
            assert_eq!(result[key].as_array().unwrap().len(), 1, "{result}");
            let said = pair.modern.0.then(|| json!("private"));
            assert_eq!(result.get("cacheScope"), said.as_ref(), "{method}");
            assert_eq!(result.get("ttlMs").is_some(), pair.modern.0, "{method}");
        }
        let wrong = pair.ask("tools/list", json!({"cursor": "none of ours"})).await;
        assert_eq!(wrong["error"]["code"], -32602, "{wrong}");
    }
}

#[tokio::test(start_paused = true)]
async fn tools_resources_prompts_and_completion_answer_in_all_pairs_byte_for_byte() {
    for mut pair in Pair::all().await {
        pair.passes("tools/call", json!({"name": "s__t", "arguments": {}})).await;
        assert!(pair.client.line.contains(r#""text":"\u0061""#), "{}", pair.client.line);
        pair.passes("prompts/get", json!({"name": "s__p"})).await;
        let reference = json!({"type": "ref/prompt", "name": "s__p"});
        let argument = json!({"name": "a", "value": "v"});
        pair.passes("completion/complete", json!({"ref": reference, "argument": argument})).await;
        let read = pair.passes("resources/read", json!({"uri": "mem:/a"})).await;
        let template = pair.passes("resources/read", json!({"uri": "mem:/t/1"})).await;
        let ttl = match pair.modern {
            (_, true) => Some(json!(500)),
            (true, false) => Some(json!(0)),
            (false, false) => None,
        };
        assert_eq!((read.get("ttlMs"), template.get("ttlMs")), (ttl.as_ref(), ttl.as_ref()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_structured_result_that_is_no_object_reaches_legacy_clients_of_modern_servers_as_text() {
    for mut pair in Pair::all().await {
        let answer = pair.ask("tools/call", json!({"name": "s__t", "arguments": {"do": "list"}})).await;
        let result = &answer["result"];
        if pair.modern == (false, true) {
            assert_eq!(result["content"], json!([{"type": "text", "text": "[1.10]"}]));
            assert!(result.get("structuredContent").is_none(), "{answer}");
        } else {
            assert!(pair.client.line.contains(r#""structuredContent":[1.10]"#), "{}", pair.client.line);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn progress_reaches_its_client_under_its_own_token_in_all_pairs() {
    for mut pair in Pair::all().await {
        let meta = json!({"progressToken": "mine"});
        let params = json!({"name": "s__t", "arguments": {"do": "report"}, "_meta": meta});
        pair.ask("tools/call", params).await;
        let told = pair.client.told("notifications/progress").await;
        assert_eq!(told["params"], json!({"progressToken": "mine", "progress": 1.5, "x-new": 1.1}));
        assert_ne!(pair.tape.received("tools/call")[0]["params"]["_meta"]["progressToken"], "mine");
    }
}

#[tokio::test(start_paused = true)]
async fn log_levels_cross_the_eras() {
    const LEVEL: &str = "io.modelcontextprotocol/logLevel";
    for mut pair in Pair::all().await {
        let mut params = json!({"name": "s__t", "arguments": {"do": "report"}});
        if pair.modern.0 {
            params["_meta"] = json!({LEVEL: "error"});
        } else {
            pair.ask("tools/list", json!({})).await;
            let set = pair.ask("logging/setLevel", json!({"level": "error"})).await;
            assert_eq!(set["result"], json!({}));
        }
        pair.ask("tools/call", params).await;
        let told = pair.client.told("notifications/message").await;
        assert_eq!(told["params"]["level"], "error", "{:?}: debug was not wanted", pair.modern);
        idle().await;
        match pair.modern.1 {
            true => {
                let call = &pair.tape.received("tools/call")[0];
                assert_eq!(call["params"]["_meta"][LEVEL], "error", "{:?}", pair.modern);
            }
            false => {
                let set = pair.tape.received("logging/setLevel");
                assert_eq!(set.len(), 1, "{:?}", pair.modern);
                assert_eq!(set[0]["params"]["level"], "error");
            }
        }
    }
    for server in [false, true] {
        let mut pair = Pair::of(true, server).await;
        pair.ask("tools/call", json!({"name": "s__t", "arguments": {"do": "report"}})).await;
        let asked = pair.ask("logging/setLevel", json!({"level": "error"})).await;
        assert_eq!(asked["error"]["code"], -32601);
        let notes = pair.client.aside.iter().filter(|told| told["method"] == "notifications/message");
        assert_eq!(notes.count(), 0, "who says no level wants no messages");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_request_is_cancelled_at_its_server_in_all_pairs() {
    for mut pair in Pair::all().await {
        let mut params = json!({"name": "s__t", "arguments": {"do": "hang"}});
        if pair.modern.0 {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
            });
        }
        pair.client.request("long", "tools/call", params).await;
        idle().await;
        assert_eq!(pair.tape.received("tools/call").len(), 1, "{:?}", pair.modern);
        let cancel =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "long"}});
        pair.client.send(&cancel).await;
        idle().await;
        let told = pair.tape.received("notifications/cancelled");
        assert_eq!(told.len(), 1, "{:?}", pair.modern);
        assert_eq!(told[0]["params"]["requestId"], pair.tape.received("tools/call")[0]["id"]);
        assert_eq!(pair.client.client.running(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn requests_carry_the_meta_of_their_servers_era_and_the_callers_own_keys() {
    const OURS: [&str; 3] = ["protocolVersion", "clientCapabilities", "clientInfo"];
    for mut pair in Pair::all().await {
        let meta = json!({"traceparent": "00-1", "vendor/key": {"a": 1}});
        pair.ask("tools/call", json!({"name": "s__t", "arguments": {}, "_meta": meta})).await;
        let seen = pair.tape.received("tools/call")[0]["params"]["_meta"].clone();
        assert_eq!((&seen["traceparent"], &seen["vendor/key"]), (&json!("00-1"), &json!({"a": 1})));
        for key in OURS {
            let there = seen.get(format!("io.modelcontextprotocol/{key}")).is_some();
            assert_eq!(there, pair.modern.1, "{key} {:?}: {seen}", pair.modern);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn methods_that_we_do_not_know_pass_in_all_pairs_and_unknown_ones_are_refused() {
    for mut pair in Pair::all().await {
        pair.ask("tools/list", json!({})).await;
        pair.passes("x/y", json!({"deep": [1]})).await;
        assert_eq!(pair.tape.received("x/y")[0]["params"]["deep"], json!([1]));
        let refused = pair.ask("nobody/knows", json!({})).await;
        assert_eq!(refused["error"]["code"], -32601, "{refused}");
    }
}

#[tokio::test(start_paused = true)]
async fn resources_are_followed_in_all_pairs_and_a_modern_server_hears_it_as_a_filter() {
    const ID: &str = "io.modelcontextprotocol/subscriptionId";
    for mut pair in Pair::all().await {
        pair.ask("resources/list", json!({})).await;
        if pair.modern.0 {
            for id in ["one", "two"] {
                let params = json!({
                    "notifications": {"resourceSubscriptions": ["mem:/a"]},
                    "_meta": {
                        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                        "io.modelcontextprotocol/clientCapabilities": {},
                    },
                });
                pair.client.request(id, "subscriptions/listen", params).await;
                let told = pair.client.told("notifications/subscriptions/acknowledged").await;
                assert_eq!(told["params"]["_meta"][ID], id);
                assert_eq!(told["params"]["notifications"], json!({"resourceSubscriptions": ["mem:/a"]}));
            }
        } else {
            let answer = pair.ask("resources/subscribe", json!({"uri": "mem:/a"})).await;
            assert_eq!(answer["result"], json!({}), "{:?}", pair.modern);
            if pair.modern.1 {
                let told = pair.client.told("notifications/resources/updated").await;
                assert_eq!(told["params"], json!({"uri": "mem:/a"}), "the stream is ours, not the client's");
            }
        }
        let legacy = pair.tape.received("resources/subscribe").len();
        let heard = pair.tape.received("subscriptions/listen");
        assert_eq!((legacy, heard.len()), if pair.modern.1 { (0, 1) } else { (1, 0) }, "{:?}", pair.modern);
        for stream in heard {
            assert_eq!(stream["params"]["notifications"], json!({"resourceSubscriptions": ["mem:/a"]}));
            let version = &stream["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"];
            assert_eq!(version, "2026-07-28");
        }
        if pair.modern.0 {
            for id in ["one", "two"] {
                let over = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
                pair.client.send(&over).await;
            }
        } else {
            pair.ask("resources/unsubscribe", json!({"uri": "mem:/a"})).await;
        }
        idle().await;
        let (legacy, ended) =
            (pair.tape.received("resources/unsubscribe"), pair.tape.received("notifications/cancelled"));
        assert_eq!(
            (legacy.len(), ended.len()),
            if pair.modern.1 { (0, 1) } else { (1, 0) },
            "{:?}",
            pair.modern
        );
    }
}
