//! Completion at the prompt: what is offered where.

use bytes::Bytes;

use super::*;
use crate::catalog::items::ServerCatalog;
use crate::catalog::parse::parse_page;
use crate::id::{Generation, ServerId};

fn known() -> Known {
    let mut files = ServerCatalog::empty(ServerId::new("files"), Generation(1));
    files.listed = true;
    let read = r#"{"name":"read_text","description":"Reads\nmore","inputSchema":{"type":"object","properties":
        {"path":{"type":"string","description":"which"},"head":{"type":"integer"},"mode":{"enum":["fast","slow one"]},
        "deep":{"type":"boolean"}},"required":["path"]}}"#;
    let mut fill = |kind: ListKind, entries: &[&str]| {
        let page = Bytes::from(format!("{{\"{}\":[{}]}}", kind.result_key(), entries.join(",")));
        parse_page(kind, &page, files.list_mut(kind), 100).unwrap();
    };
    let odd = [
        r#"{"name":"re\u001b[2J","inputSchema":{"type":"object"}}"#,
        r#"{"name":"odd name","inputSchema":{"type":"object"}}"#,
    ];
    fill(ListKind::Tools, &[read, odd[0], odd[1]]);
    fill(ListKind::Resources, &[r#"{"uri":"file:///a.txt","name":"A","title":"The A"}"#]);
    fill(ListKind::Prompts, &[r#"{"name":"ask","arguments":[{"name":"topic","required":true}]}"#]);
    let catalog = Catalog { servers: [(files.server.clone(), Arc::new(files))].into(), ..Catalog::default() };
    Known {
        servers: vec!["files".into(), "git".into()],
        catalog: Arc::new(catalog),
        sessions: vec!["s-1".into()],
    }
}

fn texts(line: &str) -> Vec<String> {
    candidates(line, line.len(), &known()).1.into_iter().map(|one| one.text).collect()
}

#[test]
fn each_place_has_its_candidates() {
    for (line, want) in [
        ("/to", &["/tools", "/tool"][..]),
        ("/mcp__f", &["/mcp__files__ask"]),
        ("/mcp rel", &["reload"]),
        ("/mcp call ", &["files", "git"]),
        ("/mcp call files re", &["read_text"]),
        ("/mcp call files ", &["read_text", "'odd name'"]),
        ("/mcp call files read_text ", &["path=", "head=", "mode=", "deep="]),
        ("/mcp call files read_text path=x h", &["head="]),
        ("/mcp call files read_text mode=", &["mode=fast", "'mode=slow one'"]),
        ("/mcp call files read_text deep=t", &["deep=true"]),
        ("/mcp read files ", &["file:///a.txt"]),
        ("/mcp prompt files ", &["ask"]),
        ("/mcp prompt files ask ", &["topic="]),
        ("/mcp__files__ask ", &["topic="]),
        ("/mcp restart files ", &["git"]),
        ("/mode re", &["readonly"]),
        ("/help mo", &["model", "mode"]),
        ("/resume ", &["s-1"]),
        ("look at @fi", &["@files:file:///a.txt"]),
        ("look at fi", &[]),
        ("/mcp call none ", &[]),
    ] {
        assert_eq!(texts(line), want, "{line}");
    }
}

#[test]
fn what_is_completed_begins_where_its_word_does() {
    assert_eq!(candidates("/mcp call fi", 12, &known()).0, 10);
    assert_eq!(candidates("  /he", 5, &known()).0, 2);
    assert_eq!(candidates("see @f", 6, &known()).0, 4);
    assert_eq!(candidates("/mcp call fi more", 12, &known()).1[0].text, "files");
}

#[test]
fn a_name_that_would_steer_the_terminal_is_not_offered_and_no_description_does() {
    for line in ["/mcp call files ", "/mcp call files re", "/", "@"] {
        for one in candidates(line, line.len(), &known()).1 {
            assert!(!one.text.contains('\u{1b}') && !one.shown.contains(['\u{1b}', '\n']), "{one:?}");
        }
    }
}

#[test]
fn the_hint_shows_what_a_call_still_wants() {
    assert_eq!(hint("/mcp call files read_text ", &known()).unwrap(), "path= head= mode= deep=");
    assert_eq!(hint("/mcp call files read_text path=a ", &known()).unwrap(), "head= mode= deep=");
    assert_eq!(hint("hello ", &known()), None);
    assert_eq!(hint("/mcp call files read_text", &known()), None);
}

#[test]
fn every_verb_of_a_server_is_a_verb() {
    let tree = Mcp::augment_subcommands(clap::Command::new("mcp"));
    for verb in OF_SERVER.iter().filter(|verb| **verb != "review") {
        assert!(tree.find_subcommand(verb).is_some(), "{verb}");
    }
}
