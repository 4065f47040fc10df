//! Field reports about names: too long, odd, taken twice, or with the separator inside;
//! from the exposed name to the raw name that the server gets.

use std::collections::{BTreeMap, BTreeSet};

use callboard::call::{Delivery, ErrorCode};
use callboard::config::spec::NamingStyle;
use serde_json::json;

use crate::support::bad::{self, Host, Yard};

const STYLES: [NamingStyle; 3] = [NamingStyle::McpDouble, NamingStyle::McpSingle, NamingStyle::ServerTool];

/// Whether any client and any model takes the name.
fn is_plain(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
}

/// Calls every tool of a server by its exposed name, and expects the server to get the raw ones.
async fn all_route(host: &Host, server: &str) {
    let exposed = host.exposed(server);
    assert_eq!(exposed.len(), host.tools(server).len(), "each usable tool has a name");
    let before = host.received(server, "tools/call").len();
    for (raw, name) in &exposed {
        assert!(is_plain(name), "{raw:?} is exposed as {name:?}");
        host.call_named(name).await.unwrap_or_else(|e| panic!("{name}: {e:?}"));
    }
    let calls = host.received(server, "tools/call");
    let got: Vec<&str> = calls[before..].iter().map(|m| m["params"]["name"].as_str().unwrap()).collect();
    assert_eq!(got, exposed.keys().collect::<Vec<_>>());
    let distinct: BTreeSet<&String> = exposed.values().collect();
    assert_eq!(distinct.len(), exposed.len());
}

async fn styled(style: NamingStyle, servers: &[(&str, &[String])]) -> Host {
    let mut yard = Yard::new().plan(|plan| plan.naming = style);
    for (name, flags) in servers {
        yard = yard.with(name, flags).await;
    }
    yard.ready().await
}

#[tokio::test]
async fn long_names_are_shortened_stay_unique_and_route_right() {
    let (server, flags) = ("8c5a3c1e-61f4-4b0f-9d1c-0a2b3c4d5e6f", bad::flags("B058"));
    assert_eq!(server.len(), 36);
    for style in STYLES {
        let host = styled(style, &[(server, &flags)]).await;
        let long = host.tools(server).iter().filter(|name| name.starts_with("long_")).count();
        assert_eq!(long, 4, "two of 40 characters, two of 128");
        all_route(&host, server).await;
        let names = host.exposed(server);
        host.end().await;
        let again = styled(style, &[(server, &flags)]).await;
        assert_eq!(again.exposed(server), names, "the same after a restart");
        again.end().await;
    }
}

#[tokio::test]
async fn odd_names_are_callable_and_reach_the_server_unchanged() {
    let (server, flags) = ("Büro (test)", bad::flags("B059"));
    for style in STYLES {
        let host = styled(style, &[(server, &flags)]).await;
        let exposed = host.exposed(server);
        for raw in ["files.read.all", "files_read.all", "files/read", "read a file", "größe_漢字_🎉"] {
            assert!(exposed.contains_key(raw), "{raw:?} is missing: {exposed:?}");
        }
        all_route(&host, server).await;
        // By the raw name too, without any exposed one.
        host.call(server, "größe_漢字_🎉", &json!({})).await.unwrap();
        assert_eq!(host.executed(server).last().unwrap(), "größe_漢字_🎉");
        host.end().await;
    }
}

#[tokio::test]
async fn one_name_on_two_servers_is_ambiguous_and_both_are_reachable() {
    let [quick, slow] = bad::runs("B061");
    let mut seen = BTreeSet::new();
    for (left, right) in [(&quick, &slow), (&slow, &quick)] {
        let host = styled(NamingStyle::default(), &[("left", left), ("right", right)]).await;
        let error = host.call_named("send").await.unwrap_err();
        assert_eq!((error.code, error.delivery), (ErrorCode::AmbiguousName, Delivery::NotSent));
        let names = [host.exposed("left")["send"].clone(), host.exposed("right")["send"].clone()];
        assert!(names.iter().all(|name| error.message.contains(name.as_str())), "{error}");
        for (server, name) in ["left", "right"].iter().zip(&names) {
            host.call_named(name).await.unwrap();
            assert_eq!(host.executed(server), ["send"], "{name}");
            host.call_named(&format!("{server}/send")).await.unwrap();
            assert_eq!(host.executed(server), ["send", "send"]);
        }
        seen.insert(names);
        host.end().await;
    }
    assert_eq!(seen.len(), 1, "whoever came first: {seen:?}");
}

#[tokio::test]
async fn a_name_taken_twice_is_a_conflict_where_bare_names_are_asked_for() {
    let [flags, _] = bad::runs("B061");
    let host = styled(NamingStyle::Bare, &[("left", &flags), ("right", &flags)]).await;
    let catalog = host.runtime.catalog();
    let conflict = catalog.conflicts.iter().find(|conflict| conflict.name == "send").unwrap();
    let claimants: Vec<&str> = conflict.claimants.iter().map(|(server, _)| server.as_str()).collect();
    assert_eq!(claimants, ["left", "right"]);
    let error = host.call_named("send").await.unwrap_err();
    assert_eq!(error.code, ErrorCode::AmbiguousName);
    assert!(error.message.contains("left/send") && error.message.contains("right/send"), "{error}");
    host.call_named("right/send").await.unwrap();
    assert_eq!(host.executed("right"), ["send"]);
    assert_eq!(host.executed("left"), Vec::<String>::new());
    host.end().await;
}

#[tokio::test]
async fn separators_inside_names_never_misroute() {
    let flags = bad::flags("B062");
    let servers = ["a", "a__b", "db", "my_db"];
    let of_all: Vec<(&str, &[String])> = servers.iter().map(|name| (*name, &flags[..])).collect();
    for style in STYLES {
        let host = styled(style, &of_all).await;
        let mut owners: BTreeMap<String, (&str, String)> = BTreeMap::new();
        for server in servers {
            for (raw, name) in host.exposed(server) {
                let taken = owners.insert(name, (server, raw));
                assert!(taken.is_none(), "{style:?}: one name twice: {taken:?}");
            }
        }
        for tool in ["b__c", "c"] {
            for server in servers {
                let before: Vec<_> = servers.iter().map(|name| host.executed(name).len()).collect();
                host.call_named(&host.exposed(server)[tool]).await.unwrap();
                for (name, before) in servers.iter().zip(before) {
                    let ran = host.executed(name).split_off(before);
                    let expected: &[&str] = if *name == server { &[tool] } else { &[] };
                    assert_eq!(ran, expected, "{style:?}: {tool} of {server}, seen on {name}");
                }
            }
        }
        host.end().await;
    }
}
