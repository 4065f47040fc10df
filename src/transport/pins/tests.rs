//! The files of pins: private, locked, whole or not at all, and closed when they are broken.

use std::fs;

use bytes::Bytes;

use super::*;
use crate::catalog::items::{ItemList, ListKind};
use crate::catalog::parse::parse_page;
use crate::catalog::pin::Held;
use crate::config::spec::{EntryState, Source};

fn entry(scope: Scope, name: &str) -> Entry {
    Entry {
        id: name.into(),
        source: Source { scope, origin: "mcp.json".into() },
        project: None,
        shadows: Vec::new(),
        issues: Vec::new(),
        hash: String::new(),
        transport: "stdio",
        summary: String::new(),
        label: None,
        description: None,
        required: false,
        down: None,
        state: EntryState::Pending,
    }
}

fn owner(name: &str) -> Owner {
    Owner::of(&entry(Scope::User, name), Path::new("/p"))
}

fn list(tools: &str) -> ItemList {
    let mut list = ItemList::default();
    parse_page(ListKind::Tools, &Bytes::from(format!("{{\"tools\":[{tools}]}}")), &mut list, 99).unwrap();
    list
}

const ODD: &str = r#"{"name":"a\"\u0000é","description":"\ud800 \u2028","inputSchema":{"maximum":1e999,"x":{"b":1,"b":2,"a":[]}}},
    {"name":"b","inputSchema":{"type":"object"}}"#;

fn seen(tools: &str) -> Book {
    let mut book = Book::default();
    assert!(book.see(&list(tools), "2026-01-02T03:04:05Z").is_empty());
    book
}

#[test]
fn pins_come_back_as_they_were_and_for_nobody_else() {
    let home = tempfile::tempdir().unwrap();
    let folder = folder(home.path());
    let book = seen(ODD);
    assert_eq!(add(&folder, &owner("s"), &book).unwrap(), book);
    assert_eq!(read(&folder, &owner("s")).unwrap(), book);
    let others = [
        owner("t"),
        Owner::of(&entry(Scope::Flag, "s"), Path::new("/p")),
        Owner::of(&entry(Scope::Project, "s"), Path::new("/p")),
        Owner::of(&entry(Scope::Project, "s"), Path::new("/q")),
    ];
    let files: std::collections::BTreeSet<PathBuf> =
        others.iter().chain([&owner("s")]).map(|owner| file(&folder, owner)).collect();
    assert_eq!(files.len(), 5);
    assert!(others.iter().all(|other| read(&folder, other).unwrap() == Book::default()));
    // Copied to another's place it counts as broken.
    fs::copy(file(&folder, &owner("s")), file(&folder, &others[0])).unwrap();
    assert!(read(&folder, &others[0]).is_err());
}

#[test]
#[cfg(unix)]
fn the_file_is_private_and_its_name_is_ours() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = tempfile::tempdir().unwrap();
    let folder = folder(home.path());
    add(&folder, &owner("../../x"), &seen(ODD)).unwrap();
    let path = file(&folder, &owner("../../x"));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(&folder)), (0o600, 0o700));
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
    assert_eq!(path.parent(), Some(folder.as_path()));
}

#[test]
fn a_broken_file_holds_everything_and_is_left_as_it_is() {
    let home = tempfile::tempdir().unwrap();
    let whole = encode(&seen(ODD), &owner("s"), WRITTEN_BYTES_MAX);
    let path = file(home.path(), &owner("s"));
    let broken = [
        String::new(),
        "{".to_owned(),
        "[]".to_owned(),
        whole[..whole.len() / 2].to_owned(),
        whole.replace("\"version\":1", "\"version\":2"),
        whole.replace("\"type\":\"object\"", "\"type\":\"objects\""),
        whole.replacen("\"sha256\":\"", "\"sha256\":\"0", 1),
    ];
    for text in broken {
        assert_ne!(text, whole);
        fs::write(&path, &text).unwrap();
        let mut book = load(home.path(), &owner("s"));
        let held = book.see(&list(r#"{"name":"new","inputSchema":{}}"#), "now");
        let Held::Unreadable { why, cure } = &held["new"] else { panic!("{held:?}") };
        let place = path.display().to_string();
        assert!(why.contains(&place) && cure.contains(&place), "{why} {cure}");
        assert!(add(home.path(), &owner("s"), &seen(ODD)).is_err());
        assert!(accept(home.path(), &owner("s"), &[]).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        // The others are no worse for it.
        assert!(!load(home.path(), &owner("t")).is_unreadable());
    }
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(load(home.path(), &owner("s")).is_unreadable(), "a folder in its place");
}

#[test]
fn two_hosts_that_see_a_tool_first_agree_on_one_definition() {
    let home = tempfile::tempdir().unwrap();
    let one = seen(r#"{"name":"a","description":"one","inputSchema":{}}"#);
    let two = seen(r#"{"name":"a","description":"two","inputSchema":{}},{"name":"b","inputSchema":{}}"#);
    std::thread::scope(|scope| {
        for book in [&one, &two] {
            scope.spawn(|| add(home.path(), &owner("s"), book).unwrap());
        }
    });
    let file = read(home.path(), &owner("s")).unwrap();
    assert_eq!(file.pins().len(), 2);
    assert!([&one, &two].iter().any(|book| file.get("a") == book.get("a")));
    assert_eq!(add(home.path(), &owner("s"), &one).unwrap(), file);
}

#[test]
fn accepting_sets_exactly_what_is_named() {
    let home = tempfile::tempdir().unwrap();
    add(home.path(), &owner("s"), &seen(ODD)).unwrap();
    let pin = Pin::of(br#"{"name":"b","inputSchema":{"type":"object","x":1}}"#, "later", By::Accepted);
    accept(home.path(), &owner("s"), &[("b".to_owned(), pin.clone())]).unwrap();
    let book = read(home.path(), &owner("s")).unwrap();
    assert_eq!(book.get("b"), Some(&pin));
    assert_eq!(book.pins().len(), 2);
}

#[test]
fn a_large_book_loses_its_longest_definitions_and_no_hash() {
    let text = |name: &str, len: usize| {
        format!("{{\"name\":\"{name}\",\"description\":\"{}\",\"inputSchema\":{{}}}}", "x".repeat(len))
    };
    let book = seen(&[text("a", 10), text("b", 5000), text("c", 200)].join(","));
    let written = encode(&book, &owner("s"), 2000);
    assert!(written.len() <= 2000);
    let back = decode(&written, &owner("s")).unwrap();
    for (tool, pin) in book.pins() {
        assert_eq!(back.get(tool).map(|pin| pin.hash), Some(pin.hash));
        assert_eq!(back.get(tool).unwrap().definition.is_some(), tool != "b");
    }
}
