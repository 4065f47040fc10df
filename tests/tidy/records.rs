//! What is written down must be true: invariants name tests that exist, field reports are
//! covered, settings match the manual, and no file tells about one machine.

use std::collections::BTreeSet;

use toml_edit::{DocumentMut, Item};

use super::tree::Tree;

/// The number of invariants: I1 to I14.
const INVARIANTS: usize = 14;

/// The field reports that the tests must cover so far, by kind.
const REPORTS: [(&str, &[&str]); 31] = [
    ("LIFE", &["B001", "B002", "B004", "B005", "B007", "B008"]),
    ("CRASH", &["B010", "B011", "B013", "B014"]),
    ("FRAME", &["B016", "B017", "B019", "B020"]),
    ("NOISE", &["B022", "B023", "B025", "B026"]),
    ("START", &["B028", "B029", "B031", "B032"]),
    ("VERS", &["B034", "B035"]),
    ("TIME", &["B037", "B038"]),
    ("CANC", &["B040", "B041", "B043", "B044"]),
    ("RPC", &["B046", "B047", "B049", "B050"]),
    ("PAGE", &["B052", "B053"]),
    ("CHG", &["B055", "B056"]),
    ("RELOAD", &["B118", "B119"]),
    ("NAME", &["B058", "B059", "B061", "B062"]),
    ("SCHEMA", &["B064", "B065", "B067", "B068"]),
    ("ARGS", &["B070", "B071"]),
    ("HTTP", &["B082", "B083", "B085", "B086"]),
    ("NET", &["B088", "B089", "B091", "B092"]),
    ("AGG", &["B106", "B107", "B109", "B110"]),
    ("CONF", &["B112", "B113", "B115", "B116"]),
    ("RESIL", &["B094", "B095", "B097", "B098"]),
    ("CONC", &["B100", "B101"]),
    ("ISO", &["B103", "B104"]),
    ("LEAK", &["B121", "B122"]),
    ("PERM", &["B127", "B128", "B130", "B131"]),
    ("MANY", &["B142", "B143"]),
    ("SECRET", &["B139", "B140"]),
    ("RESULT", &["B073", "B074", "B076", "B077"]),
    ("SIZE", &["B079", "B080"]),
    ("INJ", &["B133", "B134", "B136", "B137"]),
    ("SERVE", &["B124", "B125"]),
    ("PORT", &["B145", "B146"]),
];

/// ARCHITECTURE.md has one table row for each invariant: `| I5 | promise | test |`. The last
/// cell names one or more tests in backquotes, or says `later:` and why.
pub(crate) fn invariants(tree: &Tree) -> Vec<String> {
    let Some(page) = tree.get("ARCHITECTURE.md") else {
        return vec!["ARCHITECTURE.md is missing".to_owned()];
    };
    let tests = tree.test_fns();
    let mut found = Vec::new();
    for number in 1..=INVARIANTS {
        let head = format!("| I{number} |");
        let rows: Vec<&str> = page.text.lines().filter(|line| line.starts_with(&head)).collect();
        let [row] = rows[..] else {
            found.push(format!("ARCHITECTURE.md: I{number} has {} rows, not one", rows.len()));
            continue;
        };
        let proof = row.trim_end_matches([' ', '|']).rsplit('|').next().unwrap_or_default().trim();
        if let Some(reason) = proof.strip_prefix("later:") {
            if reason.split_whitespace().count() < 3 {
                found.push(format!("ARCHITECTURE.md: I{number} says later, but not why"));
            }
            continue;
        }
        let names: Vec<&str> = proof.split('`').skip(1).step_by(2).collect();
        if names.is_empty() {
            found.push(format!("ARCHITECTURE.md: I{number} names no test"));
        }
        for name in names.iter().filter(|name| !tests.iter().any(|test| test == **name)) {
            found.push(format!("ARCHITECTURE.md: I{number} names `{name}`, and there is no such test"));
        }
    }
    found
}

/// SECURITY.md: every promise in the table below `## In scope` names tests in backquotes that exist.
pub(crate) fn security(tree: &Tree) -> Vec<String> {
    const PAGE: &str = "SECURITY.md";
    let Some(page) = tree.get(PAGE) else { return vec![format!("{PAGE} is missing")] };
    let tests = tree.test_fns();
    let scope = page.text.split("## In scope").nth(1).unwrap_or_default();
    let scope = scope.split("\n## ").next().unwrap_or_default();
    let rows: Vec<&str> = scope.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    let mut found = Vec::new();
    if rows.is_empty() {
        found.push(format!("{PAGE}: no promise is in scope"));
    }
    for row in rows {
        let proof = row.trim_end_matches([' ', '|']).rsplit(" | ").next().unwrap_or_default();
        let names: Vec<&str> = proof.split('`').skip(1).step_by(2).collect();
        let missing = names.iter().filter(|name| !tests.iter().any(|test| test == **name));
        found.extend(missing.map(|name| format!("{PAGE}: names `{name}`, and there is no such test")));
        if names.is_empty() {
            found.push(format!("{PAGE}: a promise names no test: {row}"));
        }
    }
    found
}

/// `tests/field_reports.toml`: every report of `REPORTS` is a table with `test = "it::module::name"`; the
/// test exists, and its file names the report, to read its flags, unless it says that there are none. The
/// tests of `serve` exist too.
pub(crate) fn field_reports(tree: &Tree) -> Vec<String> {
    const PATH: &str = "tests/field_reports.toml";
    let Some(file) = tree.get(PATH) else { return vec![format!("{PATH} is missing")] };
    let document: DocumentMut = match file.text.parse() {
        Ok(document) => document,
        Err(error) => return vec![format!("{PATH}: {error}")],
    };
    let mut found = Vec::new();
    for id in REPORTS.iter().flat_map(|(_, ids)| ids.iter()) {
        let Some(entry) = document.get(id) else {
            found.push(format!("{PATH}: {id} is missing"));
            continue;
        };
        let names = test_names(entry);
        if names.is_empty() {
            found.push(format!("{PATH}: {id} names no test"));
        }
        let served = entry.get("serve").map(test_names).unwrap_or_default();
        for name in names.iter().chain(&served).filter(|name| !tree.has_test(name)) {
            found.push(format!("{PATH}: {id} names `{name}`, and there is no such test"));
        }
        let reads = |name: &String| {
            let file = tree.test_file(name);
            file.is_none_or(|file| file.text.contains(&format!("\"{id}\"")))
        };
        for name in names.iter().filter(|name| !says_none(entry) && !reads(name)) {
            found.push(format!("{PATH}: {id} names `{name}`, which does not read its flags"));
        }
    }
    found
}

/// Whether a report says that its reproduction has no flags at all.
fn says_none(entry: &Item) -> bool {
    let none = entry.get("flags").and_then(Item::as_array).is_some_and(toml_edit::Array::is_empty);
    none && entry.get("others").is_none()
}

/// `test = "it::a::b"`, `test = ["it::a::b", "c"]`, or the same as the entry itself.
fn test_names(entry: &Item) -> Vec<String> {
    let value = entry.get("test").or_else(|| entry.get("tests")).unwrap_or(entry);
    let texts =
        |array: &toml_edit::Array| array.iter().filter_map(|v| v.as_str()).map(str::to_owned).collect();
    match (value.as_str(), value.as_array()) {
        (Some(name), _) => vec![name.to_owned()],
        (None, Some(array)) => texts(array),
        (None, None) => Vec::new(),
    }
}

/// Fields of the settings that nothing outside the configuration goes by.
pub(crate) fn unused_settings(tree: &Tree) -> Vec<String> {
    const STRUCTS: [(&str, &str); 9] = [
        ("src/config/host.rs", "HostSettings"),
        ("src/config/model.rs", "ModelSettings"),
        ("src/config/model.rs", "AgentSettings"),
        ("src/config/spec.rs", "ServerSpec"),
        ("src/config/bounds.rs", "Timeouts"),
        ("src/config/bounds.rs", "BreakerSpec"),
        ("src/config/bounds.rs", "RestartSpec"),
        ("src/config/bounds.rs", "Limits"),
        ("src/config/bounds.rs", "Rate"),
    ];
    let mut used = BTreeSet::new();
    // What may be started is decided where the configuration is loaded.
    let outside = |path: &str| {
        path == "src/config/spawn.rs" || !(path.starts_with("src/config/") || path.starts_with("src/demo/"))
    };
    for file in tree.src().filter(|file| outside(&file.path)) {
        for pair in file.tokens().windows(2) {
            if pair[0].text == "." && !file.is_test(pair[0].at) {
                used.insert(pair[1].text.clone());
            }
        }
    }
    let mut found = Vec::new();
    for (path, name) in STRUCTS {
        let fields = tree.get(path).map(|file| public_fields(file, name)).unwrap_or_default();
        if fields.is_empty() {
            found.push(format!("{path}: no fields of {name} were found"));
        }
        let idle = |field: &&String| !used.contains(*field);
        found.extend(
            fields.iter().filter(idle).map(|field| format!("{path}: nothing goes by {name}.{field}")),
        );
    }
    found
}

/// Names of the public fields of a struct.
fn public_fields(file: &super::source::Source, name: &str) -> Vec<String> {
    let tokens = file.tokens();
    let words: Vec<&str> = tokens.iter().map(|token| token.text.as_str()).collect();
    let Some(at) = words.windows(3).position(|w| w == ["struct", name, "{"]) else { return Vec::new() };
    let body: Vec<&str> = words[at + 3..].iter().take_while(|word| **word != "}").copied().collect();
    body.windows(3).filter(|w| w[0] == "pub" && w[2] == ":").map(|w| w[1].to_owned()).collect()
}

/// `config/default.toml` is the manual: it has exactly the keys of the table in the code, and a
/// comment right above each.
pub(crate) fn settings(tree: &Tree) -> Vec<String> {
    const MANUAL: &str = "config/default.toml";
    const TABLE: &str = "src/config/host_keys.rs";
    let (Some(manual), Some(table)) = (tree.get(MANUAL), tree.get(TABLE)) else {
        return vec![format!("{MANUAL} or {TABLE} is missing")];
    };
    let mut found = Vec::new();
    let mut told = BTreeSet::new();
    let mut section = String::new();
    let mut above = "";
    for (number, line) in manual.text.lines().map(str::trim).enumerate() {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = format!("{name}.");
        } else if let Some((key, _)) = line.split_once('=').filter(|_| !line.starts_with('#')) {
            told.insert(format!("{section}{}", key.trim()));
            if !above.starts_with('#') {
                found.push(format!("{MANUAL}:{}: {} has no comment right above", number + 1, key.trim()));
            }
        }
        above = line;
    }
    let more = tree.get("src/config/agent_keys.rs");
    let tables = [Some(table), more].into_iter().flatten();
    let known: BTreeSet<String> =
        tables.flat_map(|table| table.text.split("host_key!(").skip(1).filter_map(first_literal)).collect();
    if known.is_empty() {
        found.push(format!("{TABLE}: no key was found; has the table another form now?"));
    }
    found.extend(known.difference(&told).map(|key| format!("{MANUAL}: {key} is missing")));
    found.extend(told.difference(&known).map(|key| format!("{MANUAL}: nothing reads {key}")));
    found
}

/// `"x"` at the start of the arguments of a macro.
fn first_literal(text: &str) -> Option<String> {
    text.trim_start().strip_prefix('"')?.split_once('"').map(|(name, _)| name.to_owned())
}

/// Paths of one machine, and hosts in lock files.
pub(crate) fn places(tree: &Tree) -> Vec<String> {
    let homes = [concat!("/ro", "ot/"), concat!("/wo", "rk/"), concat!("/U", "sers/"), concat!("/ho", "me/")];
    // Names that stand for anybody in examples.
    let anybody = ["user", "me", "you", "u", "*", "{"];
    let mut found = Vec::new();
    for file in &tree.files {
        for (number, line) in file.text.lines().enumerate() {
            for home in homes {
                for (at, _) in line.match_indices(home) {
                    let inner = line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-}/".contains(c));
                    let name: String = line[at + home.len()..]
                        .chars()
                        .take_while(|c| c.is_alphanumeric() || "_-*{".contains(*c))
                        .collect();
                    if !inner && !anybody.contains(&name.as_str()) {
                        found.push(format!(
                            "{}:{}: a path of one machine: {home}{name}",
                            file.path,
                            number + 1
                        ));
                    }
                }
            }
        }
        if is_lock_file(&file.path) {
            found.extend(hosts(&file.path, &file.text));
        }
    }
    found
}

fn is_lock_file(path: &str) -> bool {
    ["Cargo.lock", "package-lock.json", "requirements.txt"].iter().any(|name| path.ends_with(name))
}

/// Where packages come from is the business of each machine's own settings.
fn hosts(path: &str, text: &str) -> Vec<String> {
    let usual = "registry+https://github.com/rust-lang/crates.io-index";
    let bad = |line: &str| {
        let resolved = line.contains("\"resolved\"") || line.contains("--index-url");
        let found =
            line.contains("--find-links") || line.contains("--extra-index") || line.contains("http://");
        let source = line.starts_with("source = ") && !line.contains(usual);
        resolved || found || source
    };
    let lines = text.lines().enumerate().filter(|(_, line)| bad(line));
    lines.map(|(number, line)| format!("{path}:{}: names a host: {}", number + 1, line.trim())).collect()
}

/// Pages that have a length on purpose.
pub(crate) fn pages(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    let limits = [("README.md", 200), ("ARCHITECTURE.md", 250), ("GLOSSARY.md", 200), ("SECURITY.md", 100)];
    for (path, max) in limits {
        match tree.get(path).map(|page| page.text.lines().count()) {
            Some(lines) if lines <= max => {}
            Some(lines) => found.push(format!("{path}: {lines} lines, at most {max}")),
            None => found.push(format!("{path} is missing")),
        }
    }
    for path in ["CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE", "deny.toml"] {
        if tree.get(path).is_none() {
            found.push(format!("{path} is missing"));
        }
    }
    found
}

/// Whether no report stands in the list twice.
pub(crate) fn report_ids_are_unique() -> bool {
    let ids: Vec<&str> = REPORTS.iter().flat_map(|(_, ids)| ids.iter().copied()).collect();
    ids.iter().collect::<BTreeSet<_>>().len() == ids.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TESTS: (&str, &str) = ("tests/it.rs", "#[test]\nfn holds() {}\nfn helper() {}\n");

    fn table(row: &str) -> String {
        let rows = (1..=INVARIANTS)
            .map(|n| if n == 5 { row.to_owned() } else { format!("| I{n} | x | `holds` |\n") });
        rows.collect()
    }

    fn on_row(row: &str) -> Vec<String> {
        invariants(&Tree::of(&[("ARCHITECTURE.md", &table(row)), TESTS]))
    }

    #[test]
    fn an_invariant_without_a_real_test_is_found() {
        assert_eq!(on_row("| I5 | x | `holds` |\n"), Vec::<String>::new());
        assert_eq!(on_row("| I5 | x | later: the host is not there yet |\n"), Vec::<String>::new());
        for row in [
            "",
            "| I5 | x | |\n",
            "| I5 | x | `helper` |\n",
            "| I5 | x | `gone` |\n",
            "| I5 | x | later: |\n",
        ] {
            assert_eq!(on_row(row).len(), 1, "{row}");
        }
        assert_eq!(on_row("| I5 | x | `holds` |\n| I5 | x | `holds` |\n").len(), 1);
        assert_eq!(invariants(&Tree::of(&[TESTS])).len(), 1);
    }

    fn reports(skip: &str, test: &str) -> String {
        let ids = REPORTS.iter().flat_map(|(_, ids)| ids.iter()).filter(|id| **id != skip);
        ids.map(|id| format!("[{id}]\ntest = \"{test}\"\n")).collect()
    }

    #[test]
    fn a_field_report_without_a_real_test_is_found() {
        let on = |text: &str| field_reports(&Tree::of(&[("tests/field_reports.toml", text), TESTS]));
        assert_eq!(on(&reports("", "holds")), Vec::<String>::new());
        assert_eq!(on(&reports("B020", "holds")).len(), 1);
        let all = on(&reports("", "helper")).len();
        assert_eq!(on(&reports("", "it::other::holds")).len(), all, "no such file");
        assert_eq!(on(&reports("", "it::holds")).len(), all, "their flags are not read");
        let ids: String =
            REPORTS.iter().flat_map(|(_, ids)| ids.iter().map(|id| format!("// \"{id}\"\n"))).collect();
        let reading = ("tests/it.rs", &*format!("{ids}{}", TESTS.1));
        let text = reports("", "it::holds");
        assert_eq!(
            field_reports(&Tree::of(&[("tests/field_reports.toml", &text), reading])),
            Vec::<String>::new()
        );
        assert_eq!(on(&reports("", "helper")).len(), REPORTS.iter().map(|(_, ids)| ids.len()).sum::<usize>());
        let none = reports("", "it::holds").replace("\"\n", "\"\nflags = []\n");
        assert_eq!(on(&none), Vec::<String>::new(), "there are no flags to read");
        assert_eq!(on(&none.replace("flags", "serve = \"it::gone\"\nflags")).len(), all, "no such test");
        assert_eq!(on("not toml [").len(), 1);
        assert_eq!(field_reports(&Tree::of(&[TESTS])).len(), 1);
    }

    #[test]
    fn a_setting_that_the_manual_or_the_code_does_not_know_is_found() {
        let on = |manual: &str| {
            let table = "//! K.\nhost_key!(\n    \"start\", A), host_key!(\"log.level\", B)";
            settings(&Tree::of(&[("config/default.toml", manual), ("src/config/host_keys.rs", table)]))
        };
        let whole = "# S.\nstart = 1\n[log]\n# L.\nlevel = \"a\"\n";
        assert_eq!(on(whole), Vec::<String>::new());
        assert_eq!(on("# S.\nstart = 1\n").len(), 1, "a key is missing");
        assert_eq!(on(&format!("{whole}# X.\nextra = 1\n")).len(), 1, "a key is read by nothing");
        assert_eq!(on("start = 1\n[log]\n# L.\nlevel = 1\n").len(), 1, "a key without a comment");
        assert_eq!(settings(&Tree::of(&[])).len(), 1);
    }

    #[test]
    fn a_setting_that_nothing_goes_by_is_found() {
        let spec = "//! S.\npub struct ServerSpec { pub id: A, pub start: B<C> }";
        let bounds = "//! B.\npub struct Timeouts { pub a: X }\npub struct BreakerSpec { pub a: X }\npub struct RestartSpec { pub a: X }\n\
                    pub struct Limits { pub a: X }\npub struct Rate { pub a: X }";
        let on = |user: &str| {
            let host = ("src/config/host.rs", "pub struct HostSettings { pub a: X }");
            let (spec, bounds) = (("src/config/spec.rs", spec), ("src/config/bounds.rs", bounds));
            let model =
                "//! M.\npub struct ModelSettings { pub a: X }\npub struct AgentSettings { pub a: X }";
            let model = ("src/config/model.rs", model);
            unused_settings(&Tree::of(&[host, spec, bounds, model, ("src/runtime.rs", user)])).len()
        };
        assert_eq!(on("fn f() { (s.id, s.start, s.a) }"), 0);
        assert_eq!(on("fn f() { (s.id, s.a) }"), 1, "start is unused");
        assert_eq!(unused_settings(&Tree::of(&[])).len(), 9);
    }

    #[test]
    fn paths_of_one_machine_are_found() {
        for text in [concat!("/ro", "ot/x"), concat!("a /ho", "me/kim/x"), concat!("\"/wo", "rk/repo\"")] {
            assert_eq!(places(&Tree::of(&[("README.md", text)])).len(), 1, "{text}");
        }
        for text in ["/home/user/x", "~/x", "https://example.com/home/x", "src/work/x"] {
            assert_eq!(places(&Tree::of(&[("README.md", text)])).len(), 0, "{text}");
        }
    }

    #[test]
    fn hosts_in_lock_files_are_found() {
        let on = |path: &str, text: &str| places(&Tree::of(&[(path, text)])).len();
        assert_eq!(on("tests/real/package-lock.json", "\"resolved\": \"https://r.example/x.tgz\""), 1);
        assert_eq!(on("tests/real/requirements.txt", "--index-url https://r.example"), 1);
        assert_eq!(on("tests/real/requirements.txt", "--find-links somewhere"), 1);
        assert_eq!(on("Cargo.lock", "source = \"registry+https://r.example/index\""), 1);
        assert_eq!(on("Cargo.lock", "source = \"registry+https://github.com/rust-lang/crates.io-index\""), 0);
    }

    #[test]
    fn a_promise_of_security_without_its_test_is_found() {
        let code = ("src/id.rs", "#[cfg(test)]\nmod tests { #[test]\nfn it_holds() {} }");
        let on = |rows: &str| {
            let page = format!(
                "# S\n\n## In scope\n\n| promise | test |\n|---|---|\n{rows}\n## Out of scope\n| x | y |\n"
            );
            security(&Tree::of(&[code, ("SECURITY.md", &page)])).len()
        };
        assert_eq!(on("| a | `it_holds` |\n"), 0);
        assert_eq!(on("| a `b` | `it_holds`, `gone` |\n"), 1);
        assert_eq!(on("| a | later |\n"), 1);
        assert_eq!(on(""), 1);
        assert_eq!(security(&Tree::of(&[])).len(), 1);
    }

    #[test]
    fn a_missing_or_endless_page_is_found() {
        let all = pages(&Tree::of(&[]));
        assert_eq!(all.len(), 8);
        let long = "x\n".repeat(251);
        assert_eq!(pages(&Tree::of(&[("ARCHITECTURE.md", &long)])).len(), 8);
        assert_eq!(pages(&Tree::of(&[("ARCHITECTURE.md", "x\n")])).len(), 7);
    }
}
