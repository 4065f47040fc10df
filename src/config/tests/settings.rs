//! The host settings: their sources and order, provenance, and what a project may set.

use std::time::Duration;

use proptest::prelude::*;

use super::desk::{Desk, errors, one, spec, warnings};
use crate::config::effective::effective;
use crate::config::host::{ColorChoice, DEFAULT_TOML, HostSettings, Kind, LogLevel, Setting};
use crate::config::host_keys::HOST_KEYS;
use crate::config::spec::{NamingStyle, Rate, Scope, StartMode};

/// The manual names every key once, with its default, and nothing else.
#[test]
fn the_manual_and_the_table_of_keys_are_the_same() {
    let manual: toml_edit::DocumentMut = DEFAULT_TOML.parse().unwrap();
    let mut names = Vec::new();
    named(manual.as_table(), "", &mut names);
    let known: Vec<&str> = HOST_KEYS.iter().map(|key| key.name).collect();
    assert_eq!(names, known);
    let loaded = Desk::new().load();
    assert_eq!(loaded.settings, HostSettings::default());
    assert!(loaded.provenance.iter().all(|(_, source)| source.scope == Scope::Default));
}

/// The dotted names of all keys below a table, in its order.
fn named(table: &toml_edit::Table, above: &str, names: &mut Vec<String>) {
    for (name, item) in table {
        match item.as_table() {
            Some(inner) => named(inner, &format!("{above}{name}."), names),
            None => names.push(format!("{above}{name}")),
        }
    }
}

/// Every key of the manual has a comment above it.
#[test]
fn the_manual_explains_every_key() {
    let lines: Vec<&str> = DEFAULT_TOML.lines().collect();
    for (index, line) in
        lines.iter().enumerate().filter(|(_, line)| line.contains(" = ") && !line.starts_with('#'))
    {
        assert!(index > 0 && lines[index - 1].starts_with("# "), "{line}");
    }
}

/// Each key reads back from its field what was written to it, and touches no other one.
#[test]
fn every_key_maps_to_one_field_and_back() {
    for key in HOST_KEYS {
        let before = HostSettings::default();
        let value = match (key.get)(&before) {
            Setting::Word(word) => {
                let Kind::Word(words) = key.kind else { panic!("{}", key.name) };
                Setting::Word(words.iter().find(|other| **other != word).unwrap())
            }
            Setting::Duration(duration) => Setting::Duration(duration + Duration::from_secs(1)),
            Setting::Flag(flag) => Setting::Flag(!flag),
            Setting::Count(64) if key.name == "naming.name_len_max" => Setting::Count(32),
            Setting::Count(count) => Setting::Count(count + 1),
            Setting::Bytes(bytes) => Setting::Bytes(bytes + 1),
            Setting::Texts(_) if matches!(key.kind, Kind::Folders | Kind::Paths) => {
                Setting::Texts(vec!["/x".into()])
            }
            Setting::Texts(_) => Setting::Texts(vec!["X".into()]),
            Setting::Text(_) if key.kind == Kind::Address => Setting::Text("::1".into()),
            Setting::Text(_) if key.kind == Kind::Url => Setting::Text("http://127.0.0.1:8080/".into()),
            Setting::Text(_) if matches!(key.kind, Kind::Decimal { .. }) => Setting::Text("0.25".into()),
            Setting::Text(_) => Setting::Text("${secret:KEY}".into()),
        };
        let mut after = before.clone();
        if key.name == "rate.burst" {
            after.rate = Some(Rate { per_second: 1, burst: 7 });
        }
        if key.name == "serve.rate.burst" {
            after.serve.rate = Some(Rate { per_second: 1, burst: 7 });
        }
        (key.set)(&mut after, &value);
        assert_eq!((key.get)(&after), value, "{}", key.name);
        let others = HOST_KEYS.iter().filter(|other| other.name != key.name && !other.name.contains("rate."));
        for other in others {
            assert_eq!((other.get)(&after), (other.get)(&before), "{} changed {}", key.name, other.name);
        }
        assert_eq!(key.check_text(&text_of(&value)).unwrap(), value, "{}", key.name);
    }
}

fn text_of(value: &Setting) -> String {
    match value {
        Setting::Texts(texts) => texts.join(","),
        other => other.to_string(),
    }
}

#[test]
fn variables_of_keys_are_distinct_and_collide_with_no_other() {
    let mut names: Vec<String> = HOST_KEYS.iter().map(|key| key.variable()).collect();
    names.extend(
        ["CALLBOARD_HOME", "CALLBOARD_MCP_CONFIG", "CALLBOARD_MCP_CONFIG_JSON", "CALLBOARD_MCP_SERVERS"]
            .map(String::from),
    );
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn later_sources_of_settings_win_and_each_value_knows_its_source() {
    let mut desk = Desk::new();
    desk.write(
        "home/.callboard/callboard.toml",
        "start = \"lazy\"\n[timeouts]\nidle = 10\nlist = \"10s\"\nconnect = 10\npermit = 1\n[limits]\nqueue = 10\n",
    );
    desk.write(
        "project/.callboard/callboard.toml",
        "[timeouts]\nidle = 9\nconnect = 9\n[limits]\nqueue = 9\n",
    );
    desk.set("CALLBOARD_TIMEOUTS_IDLE", "8s").set("CALLBOARD_LIMITS_QUEUE", "8");
    desk.options.settings = vec![("timeouts.idle".into(), "7".into())];
    desk.write("managed/callboard.toml", "[limits]\nqueue = 6\n");
    let loaded = desk.load();
    assert_eq!(errors(&loaded), Vec::<String>::new());
    let settings = &loaded.settings;
    assert_eq!(settings.start, StartMode::Lazy);
    assert_eq!(
        [settings.timeouts.idle, settings.timeouts.connect, settings.timeouts.list].map(|d| d.as_secs()),
        [7, 9, 10]
    );
    assert_eq!(settings.limits.queue, 6);
    let source = |name: &str| loaded.provenance.iter().find(|(key, _)| *key == name).unwrap().1.clone();
    assert_eq!(source("timeouts.idle").scope, Scope::Flag);
    assert_eq!(source("timeouts.connect").scope, Scope::Project);
    assert_eq!(source("timeouts.list").scope, Scope::User);
    assert_eq!(source("limits.queue").scope, Scope::Managed);
    assert_eq!(source("naming.style").scope, Scope::Default);
    assert!(source("start").origin.ends_with("home/.callboard/callboard.toml"));
    let lines = effective(&loaded);
    let line = lines.iter().find(|line| line.key == "timeouts.idle").unwrap();
    assert_eq!((line.value.as_str(), line.source.scope), (Some("7s"), Scope::Flag));
}

#[test]
fn settings_are_the_defaults_of_entries() {
    let mut desk = Desk::new();
    desk.write(
        "home/.callboard/callboard.toml",
        "start = \"lazy\"\n[timeouts]\nidle = \"10s\"\nmax_start = \"20s\"\n[rate]\nper_second = 4\nburst = 8\n[limits]\nframe_max = \"2MiB\"\n",
    );
    desk.user(r#"{"mcpServers": {"a": {"command": "x"}, "b": {"command": "x", "timeout": 3, "start": "eager", "rate": {"per_second": 0}}}}"#);
    desk.set("CALLBOARD_RESTART_MAX", "2");
    let loaded = desk.load();
    let (a, b) = (spec(&loaded, "a"), spec(&loaded, "b"));
    assert_eq!(
        (a.timeouts.idle.as_secs(), a.timeouts.max_start.as_secs(), a.start),
        (10, 20, StartMode::Lazy)
    );
    assert_eq!((a.restart.max, a.limits.frame_max), (2, 2 << 20));
    assert_eq!(a.rate, Some(Rate { per_second: 4, burst: 8 }));
    assert_eq!((b.timeouts.idle.as_secs(), b.start, b.rate), (3, StartMode::Eager, None));
}

#[test]
fn a_project_may_set_display_names_and_start_and_lower_limits() {
    let desk = Desk::new();
    desk.write(
        "project/.callboard/callboard.toml",
        "start = \"lazy\"\n[naming]\nstyle = \"bare\"\nname_len_max = 32\n[display]\ncolor = \"never\"\n[timeouts]\ntotal = 60\n[limits]\nin_flight = 1\n[restart]\nmax = 1\n[rate]\nper_second = 5\n",
    );
    let loaded = desk.load();
    assert_eq!(errors(&loaded), Vec::<String>::new());
    assert_eq!((loaded.settings.naming, loaded.settings.name_len_max), (NamingStyle::Bare, 32));
    assert_eq!((loaded.settings.start, loaded.settings.color), (StartMode::Lazy, ColorChoice::Never));
    assert_eq!((loaded.settings.limits.in_flight, loaded.settings.restart.max), (1, 1));
    assert_eq!(loaded.settings.rate, Some(Rate { per_second: 5, burst: 5 }));
}

#[test]
fn anything_else_in_a_project_is_an_error_and_changes_nothing() {
    let desk = Desk::new();
    desk.write(
        "project/.callboard/callboard.toml",
        "roots = [\"/\"]\n[env]\npassthrough = [\"AWS_SECRET_ACCESS_KEY\"]\n[log]\nlevel = \"off\"\n[restart]\nmax = 0\nmin = 1\n[timeouts]\nidle = \"1h\"\n[limits]\nin_flight = 65\n",
    );
    let loaded = desk.load();
    assert_eq!(loaded.settings, HostSettings::default());
    let errors = errors(&loaded);
    assert_eq!(errors.len(), 7, "{errors:?}");
    assert!(errors.iter().all(|e| e.contains("project/.callboard/callboard.toml")), "{errors:?}");
    assert!(
        errors.iter().any(|e| e.contains("limits.in_flight: a project may only lower this; 64 is in force"))
    );
}

#[test]
fn a_wrong_value_leaves_the_weaker_source_in_force_and_says_where() {
    let mut desk = Desk::new();
    desk.write(
        "home/.callboard/callboard.toml",
        "[timeouts]\nidle = \"soon\"\nlist = 5\n\n[naming]\nstyle = \"mcp_double\"\nname_len_max = 100\n[limits]\nin_flight = -1\nframe_max = true\n[env]\npassthrough = [\"A B\"]\n",
    );
    desk.set("CALLBOARD_LOG_LEVEL", "loud").set("CALLBOARD_TIMEOUTS_LIST", "4s");
    let loaded = desk.load();
    let expected = HostSettings::default();
    assert_eq!(loaded.settings.timeouts.idle, expected.timeouts.idle);
    assert_eq!(loaded.settings.timeouts.list, Duration::from_secs(4));
    assert_eq!(loaded.settings.log_level, LogLevel::Warn);
    let text = errors(&loaded).join("\n");
    for part in [
        "callboard.toml:2:1: timeouts.idle: not a duration",
        "callboard.toml:6:1: naming.style: unknown word",
        "callboard.toml:7:1: naming.name_len_max: must be a whole number from 24 to 64",
        "limits.in_flight: must be a whole number",
        "limits.frame_max: must be a size from 1KiB to 1GiB, not a boolean",
        "env.passthrough: \"A B\" is not the name of a variable",
        "CALLBOARD_LOG_LEVEL: log.level: unknown word",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn a_broken_settings_file_is_one_error_with_its_place() {
    let desk = Desk::new();
    desk.write("home/.callboard/callboard.toml", "start = \"lazy\"\n[timeouts\nidle = 1\n");
    desk.user(&one(r#"{"command": "x"}"#));
    let loaded = desk.load();
    assert_eq!(loaded.settings, HostSettings::default());
    let errors = errors(&loaded);
    assert!(errors.len() == 1 && errors[0].contains("callboard.toml:2:10: not valid TOML"), "{errors:?}");
    assert_eq!(spec(&loaded, "s").start, StartMode::Eager);
}

#[test]
fn unknown_settings_warn_with_the_nearest_known_one() {
    let mut desk = Desk::new();
    desk.write("home/.callboard/callboard.toml", "[timeout]\nidle = 1\n[made]\nup = 1\n");
    desk.set("CALLBOARD_TIMEOUT_IDLE", "1").set("CALLBOARD_SOMETHING_ELSE_ENTIRELY", "1");
    let text = warnings(&desk.load()).join("\n");
    for part in [
        "timeout.idle: unknown key, ignored (did you mean timeouts.idle?)",
        "made.up: unknown key",
        "did you mean CALLBOARD_TIMEOUTS_IDLE?",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(!text.contains("SOMETHING_ELSE"));
    let mut desk = Desk::new();
    desk.options.settings = vec![("timeouts.idel".into(), "1".into()), ("start".into(), "never".into())];
    assert_eq!(errors(&desk.load()).len(), 2);
}

#[test]
fn roots_are_absolute_folders_of_the_user() {
    let mut desk = Desk::new();
    desk.write("home/notes/.keep", "");
    let file = |roots: &str| format!("roots = {roots}\n");
    let toml = "home/.callboard/callboard.toml";
    desk.write(toml, &file(r#"["~/notes", "~", "/"]"#));
    let loaded = desk.load();
    assert_eq!(loaded.issues().map(ToString::to_string).collect::<Vec<_>>(), Vec::<String>::new());
    assert_eq!(loaded.settings.roots, [desk.path("home/notes"), desk.path("home"), "/".into()]);
    let lines = effective(&loaded);
    let shown = &lines.iter().find(|line| line.key == "roots").unwrap().value;
    assert_eq!(shown[0].as_str(), desk.path("home/notes").to_str(), "what counts, not what was written");

    desk.write(toml, &file(r#"["/no/such/folder"]"#));
    let told = warnings(&desk.load());
    assert!(
        told.len() == 1 && told[0].contains("callboard.toml: roots: no such folder: /no/such/folder"),
        "{told:?}"
    );

    for wrong in [r#"["notes"]"#, r#"["./notes"]"#, r#"["~other/x"]"#, r#"["/ok", ""]"#] {
        desk.write(toml, &file(wrong));
        let loaded = desk.load();
        assert!(errors(&loaded)[0].contains("must be an absolute path"), "{wrong}: {:?}", errors(&loaded));
        assert!(loaded.settings.roots.is_empty());
    }
    desk.write(toml, &file("\"/one\""));
    assert!(errors(&desk.load())[0].contains("roots: must be a list of folders, not a string"));

    desk.write(toml, "");
    desk.set("CALLBOARD_ROOTS", "~/notes, /");
    assert_eq!(desk.load().settings.roots, [desk.path("home/notes"), "/".into()]);
    desk.set("HOME", "");
    assert!(errors(&desk.load())[0].contains("needs the variable HOME"));
}

#[test]
fn text_that_is_no_toml_at_all_is_one_error() {
    let deep = format!("start = {}", "[".repeat(100_000));
    let wide = format!("{} = 1", ["a"; 10_000].join("."));
    for text in ["==\n.=", "a=1\na.b=2", "=\n=", "[[", "start = \u{0}", &deep, &wide] {
        let desk = Desk::new();
        desk.write("home/.callboard/callboard.toml", text);
        let loaded = desk.load();
        assert_eq!(loaded.settings, HostSettings::default());
        let told: Vec<String> = loaded.issues().map(ToString::to_string).collect();
        assert_eq!(told.len(), 1, "{told:?}");
    }
}

proptest! {
    #[test]
    fn no_text_of_a_settings_file_makes_loading_panic(
        text in "[a-z.=\\[\\]{}\"'#, \n0-9_+-]{0,60}", odd in ".{0,20}",
    ) {
        let desk = Desk::new();
        desk.write("home/.callboard/callboard.toml", &format!("{text}\n{odd}"));
        prop_assert!(desk.load().issues().all(|issue| !issue.message.is_empty()));
    }

    /// A project can lower and never raise, whatever it writes; and no value of its own makes
    /// anything that is not its business change.
    #[test]
    fn a_project_never_raises_a_limit(
        picks in proptest::collection::btree_map(0..HOST_KEYS.len(), "[0-9]{1,6}|true|\"[a-z0-9_]{1,9}\"|\\[\\]", 1..6),
    ) {
        let desk = Desk::new();
        let lines: String = picks.iter().map(|(index, value)| format!("{} = {value}\n", HOST_KEYS[*index].name)).collect();
        desk.write("project/.callboard/callboard.toml", &lines);
        let (before, after) = (HostSettings::default(), desk.load().settings);
        for key in HOST_KEYS {
            let (old, new) = ((key.get)(&before), (key.get)(&after));
            prop_assert!(old == new || key.allows_project(&new, &old).is_ok(), "{}: {old} to {new} by\n{lines}", key.name);
        }
    }

    /// Every value that a file may hold can be written as a variable as well.
    #[test]
    fn a_file_and_a_variable_mean_the_same(index in 0..HOST_KEYS.len(), number in 24u64..64) {
        let key = &HOST_KEYS[index];
        let mut set = HostSettings::default();
        (key.set)(&mut set, &Setting::Count(number));
        (key.set)(&mut set, &Setting::Bytes(number * 1024));
        (key.set)(&mut set, &Setting::Duration(Duration::from_secs(number)));
        let texts = if matches!(key.kind, Kind::Folders | Kind::Paths) { ["/a b", "/"] } else { ["A", "B"] };
        (key.set)(&mut set, &Setting::Texts(texts.map(String::from).to_vec()));
        let value = (key.get)(&set);
        let by_file = Desk::new();
        by_file.write("home/.callboard/callboard.toml", &format!("{} = {}\n", key.name, value.to_json()));
        let mut by_variable = Desk::new();
        by_variable.set(&key.variable(), &text_of(&value));
        let (file, variable) = (by_file.load(), by_variable.load());
        prop_assert_eq!(errors(&file), Vec::<String>::new());
        prop_assert_eq!(errors(&variable), Vec::<String>::new());
        prop_assert_eq!(&file.settings, &variable.settings, "{}", key.name);
    }
}
