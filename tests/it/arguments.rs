//! Field reports about the arguments of calls: none at all, and such that are no object.

use callboard::call::{Delivery, ErrorCode, Phase};
use serde_json::json;

use crate::cli_home::Home;
use crate::support::bad::{self, Host};
use crate::support::{self, request};

#[tokio::test]
async fn a_call_without_arguments_sends_an_empty_object() {
    let host = Host::of(&bad::flags("B070")).await;
    for params in ["{}", r#"{"name":"t0"}"#, r#"{"name":"t0","arguments":{}}"#, ""] {
        let reply = host.runtime.frontend().call(request("s", "t0", params), None).await.unwrap();
        assert!(!reply.is_error, "{params}: {}", support::text(&reply));
    }
    let calls = host.received("s", "tools/call");
    assert_eq!(calls.len(), 4);
    assert!(calls.iter().all(|call| call["params"]["arguments"] == json!({})), "{calls:?}");
    host.end().await;
}

#[test]
fn a_typed_call_without_arguments_sends_an_empty_object() {
    let home = Home::new();
    let mut args = bad::flags("B070");
    let trace = home.project().join("trace");
    args.extend(["--trace".to_owned(), trace.display().to_string()]);
    home.user(&json!({"mcpServers": {"x": {"command": bad::program(), "args": args}}}).to_string());
    home.run(&["mcp", "call", "x", "t0", "-y"]).expect(0);
    let calls = bad::trace(&trace, "in").into_iter().filter(|event| event["method"] == "tools/call");
    let sent: Vec<String> = calls.map(|event| event["raw"].as_str().unwrap().to_owned()).collect();
    assert!(sent.len() == 1 && sent[0].contains(r#""arguments":{}"#), "{sent:?}");
}

#[tokio::test]
async fn arguments_that_are_no_object_are_refused_before_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let [flags] = bad::runs_in("B071", folder.path());
    let host = Host::of(&flags).await;
    let ask = async |arguments: &str| {
        let params = format!(r#"{{"name":"count"{arguments}}}"#);
        host.runtime.frontend().call(request("s", "count", &params), None).await
    };
    assert!(!ask("").await.unwrap().is_error, "missing means none");
    for arguments in ["null", "[]", r#""x""#, "7", "true", " [ {} ] "] {
        let error = ask(&format!(r#","arguments":{arguments}"#)).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidArguments, "{arguments}: {error:?}");
        assert_eq!((error.code.json_rpc(), error.delivery), (-32602, Delivery::NotSent), "{arguments}");
        assert_eq!(error.phase, Phase::Validate);
        assert!(error.message.contains("arguments"), "{error}");
    }
    // What counts is the member that the server would read.
    let error = ask(r#","arguments":{},"\u0061rguments":[]"#).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::InvalidArguments);
    assert!(!ask(r#","arguments":[],"arguments":{}"#).await.unwrap().is_error);
    assert_eq!(host.received("s", "tools/call").len(), 2);
    assert_eq!(std::fs::read_to_string(folder.path().join("count")).unwrap(), "1\n2\n", "it ran for these");
    host.end().await;
}
