//! What is secret stays hidden in everything that is shown, and is known to the redactor.

use super::desk::{Desk, entry, load_one, one};
use crate::config::effective::{effective, masked_entry};
use crate::config::load::{Loaded, SecretSource};
use crate::config::secret_store;
use crate::config::secret_uses::uses;
use crate::config::spec::{SecretText, ServerSet, ServerSpec, TransportSpec};

fn redacted(loaded: &Loaded) -> Vec<&str> {
    loaded.servers.secrets.iter().map(SecretText::reveal).collect()
}

/// Everything that is ever printed of a configuration.
fn shown(loaded: &Loaded) -> String {
    let entries: Vec<_> =
        loaded.servers.entries.iter().filter_map(|entry| masked_entry(loaded, entry)).collect();
    format!("{loaded:?}\n{:?}\n{entries:?}", effective(loaded))
}

/// B139
#[test]
fn no_view_of_the_configuration_shows_a_secret() {
    let mut desk = Desk::new();
    desk.set("VAR", "canary-var-0001").set("BEARER", "canary-bearer-0002");
    desk.user(
        r#"{"mcpServers": {
            "p": {"command": "run", "args": ["--api-key=canary-arg-0003", "--token", "canary-arg-0004", "${VAR}",
                                             "API_KEY=canary-arg-0010", "-H", "Authorization: Bearer canary-arg-0011"],
                  "env": {"T": "canary-env-0005", "N": "${VAR}"}},
            "u": {"url": "https://user:canary-pw-0006@h.example/mcp?token=canary-query-0007&x=${VAR}",
                  "headers": {"Authorization": "Bearer canary-header-0008", "X-Key": "canary-header-0009"}},
            "b": {"url": "https://h.example/", "bearer_token_env": "BEARER"},
            "bad": {"command": "x", "env": {"T": "canary-bad-0012"}, "args": ["--password", "canary-bad-0013", 5], "token": "canary-bad-0014"},
            "off": {"enabled": false, "url": "https://h/?k=canary-off-0015"}
        }}"#,
    );
    desk.project(r#"{"mcpServers": {"wait": {"command": "x", "env": {"T": "canary-wait-0016"}, "args": ["--secret=canary-wait-0017"]}}}"#);
    let loaded = desk.load();
    let shown = shown(&loaded);
    assert!(!shown.contains("canary"), "{shown}");
    for part in ["[redacted]", "${VAR}", "--api-key=[redacted]", "h.example/mcp?token=[redacted]&x=${VAR}"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}

/// B139
#[test]
fn the_redactor_knows_every_secret_of_a_usable_entry() {
    let mut desk = Desk::new();
    desk.set("VAR", "canary-var-0001").set("BEARER", "canary-bearer-0002");
    secret_store::set(&desk.path("home/.callboard"), "KEY", &SecretText::new("canary-store-0018")).unwrap();
    desk.user(
        r#"{"mcpServers": {
            "p": {"command": "run", "args": ["--api-key=canary-arg-0003", "--token", "canary-arg-0004", "${VAR}", "${secret:KEY}"],
                  "env": {"T": "canary-env-0005", "DATABASE": "postgres://u:canary-db-0019@h/x"}},
            "u": {"url": "https://user:canary%2Dpw-0006@h.example/mcp?token=canary-query-0007",
                  "headers": {"Authorization": "Bearer canary-header-0008"}, "bearer_token_env": "BEARER"}
        }}"#,
    );
    let loaded = desk.load();
    let known = redacted(&loaded);
    for secret in [
        "canary-var-0001",
        "canary-bearer-0002",
        "canary-arg-0003",
        "canary-arg-0004",
        "canary-store-0018",
        "canary-env-0005",
        "canary-db-0019",
        "canary%2Dpw-0006",
        "canary-pw-0006",
        "canary-query-0007",
        "canary-header-0008",
    ] {
        assert!(known.contains(&secret), "{secret}: {known:?}");
    }
    assert!(known.is_sorted_by(|a, b| a.len() >= b.len()), "{known:?}");
}

#[test]
fn everyday_words_paths_and_numbers_are_not_redacted() {
    let mut desk = Desk::new();
    desk.set("USER", "margarethe").set("LANG", "de_DE.UTF-8");
    let home = desk.path("home").display().to_string();
    desk.user(&one(
        r#"{"command": "run", "args": ["${HOME}/docs", "${USER}", "--verbose", "-y", "@scope/package-name"],
            "env": {"NODE_ENV": "production", "DEBUG": "true", "PORT": "8080", "HOME_DIR": "${HOME}", "LANG": "${LANG}",
                    "LOG": "info", "MODE": "strict", "URL": "https://plain.example/x", "SINCE": "2025-06-18", "TOKEN": "none", "KEY": "abc"}}"#,
    ));
    let loaded = desk.load();
    assert_eq!(redacted(&loaded), Vec::<&str>::new(), "home is {home}");
}

#[test]
fn stored_secrets_are_read_and_a_keyring_is_asked_first() {
    struct Ring;
    impl SecretSource for Ring {
        fn get(&self, name: &str) -> Option<SecretText> {
            (name == "BOTH").then(|| SecretText::new("from-the-keyring"))
        }
    }
    let mut desk = Desk::new();
    let home = desk.path("home/.callboard");
    secret_store::set(&home, "BOTH", &SecretText::new("from-the-file")).unwrap();
    secret_store::set(&home, "FILE", &SecretText::new("only-in-file")).unwrap();
    desk.user(&one(r#"{"url": "http://h/", "headers": {"A": "${secret:BOTH}", "B": "${secret:FILE}"}}"#));
    assert!(redacted(&desk.load()).contains(&"from-the-file"));
    desk.options.secrets = Some(std::sync::Arc::new(Ring));
    let loaded = desk.load();
    let known = redacted(&loaded);
    assert!(known.contains(&"from-the-keyring") && known.contains(&"only-in-file"), "{known:?}");
}

#[test]
#[cfg(unix)]
fn a_file_of_secrets_that_others_may_read_is_not_used() {
    use std::os::unix::fs::PermissionsExt as _;
    let desk = Desk::new();
    let home = desk.path("home/.callboard");
    secret_store::set(&home, "K", &SecretText::new("exposed-value")).unwrap();
    std::fs::set_permissions(secret_store::file(&home), std::fs::Permissions::from_mode(0o640)).unwrap();
    desk.user(&one(r#"{"command": "x", "env": {"K": "${secret:K}"}}"#));
    let loaded = desk.load();
    let errors = super::desk::errors(&loaded).join("\n");
    assert!(errors.contains("chmod 600") && errors.contains("env.K: needs the secret K"), "{errors}");
    assert!(redacted(&loaded).is_empty());
}

#[test]
fn the_summary_is_the_command_as_written() {
    let loaded = load_one(
        r#"{"command": "npx", "args": ["-y", "pkg", "--token=${TOK:-literal}", "--name", "x"], "enabled": false}"#,
    );
    assert_eq!(entry(&loaded, "s").summary, "npx -y pkg --token=[redacted] --name x");
}

#[test]
fn every_line_of_the_effective_configuration_has_a_key_and_a_source() {
    let desk = Desk::new();
    desk.user(r#"{"mcpServers": {"a.b": {"command": "x", "args": ["y"]}, "bad": 5}}"#);
    desk.project(r#"{"mcpServers": {"a.b": {"command": "z"}}}"#);
    let loaded = desk.load();
    let lines = effective(&loaded);
    let of = |key: &str| {
        lines
            .iter()
            .filter(|line| line.key == key)
            .map(|l| (l.value.to_string(), l.source.scope))
            .collect::<Vec<_>>()
    };
    use crate::config::spec::Scope;
    assert_eq!(
        of("mcpServers[\"a.b\"].state"),
        [("\"usable\"".into(), Scope::User), ("\"pending_approval\"".into(), Scope::Project)]
    );
    assert_eq!(
        of("mcpServers[\"a.b\"].command"),
        [("\"x\"".into(), Scope::User), ("\"z\"".into(), Scope::Project)]
    );
    assert_eq!(of("mcpServers.bad.state"), [("\"config_error\"".into(), Scope::User)]);
    assert_eq!(of("mcpServers.bad"), [("5".into(), Scope::User)]);
    assert_eq!(of("limits.queue"), [("256".into(), Scope::Default)]);
    assert!(lines.iter().all(|line| !line.source.origin.is_empty()));
}

#[test]
fn every_place_that_reads_a_secret_is_found_in_force_or_not() {
    let desk = Desk::new();
    desk.user(
        r#"{"mcpServers":{
            "a":{"command":"x","args":["--key","${secret:K/1}"],"env":{"T":"${secret:K/1}-${secret:L}","P":"$${secret:NO}"}},
            "off":{"enabled":false,"url":"https://h/","headers":{"X-Key":"${secret:L}"}}}}"#,
    );
    desk.project(r#"{"mcpServers":{"wait":{"command":"x","env":{"T":"${secret:L}"}}}}"#);
    let all = uses(&desk.load().definitions);
    let places = |name: &str| -> Vec<String> {
        all[name].iter().map(|place| format!("{} {}", place.server, place.key)).collect()
    };
    assert_eq!(all.keys().collect::<Vec<_>>(), ["K/1", "L"]);
    let mut of_k = places("K/1");
    of_k.sort();
    assert_eq!(of_k, ["a args[1]", "a env.T"]);
    assert_eq!(places("L"), ["a env.T", "off headers.X-Key", "wait env.T"]);
    assert!(all["L"][2].source.ends_with(".mcp.json"));
}

/// Compiles only while `SecretText` can't be serialised: with an implementation of it, the method
/// below would be ambiguous.
#[test]
fn a_secret_can_be_neither_serialised_nor_printed() {
    trait Ambiguous<Marker> {
        fn is_plain() -> bool {
            true
        }
    }
    impl<T: ?Sized> Ambiguous<()> for T {}
    struct Serialisable;
    impl<T: ?Sized + serde::Serialize> Ambiguous<Serialisable> for T {}
    assert!(<SecretText as Ambiguous<_>>::is_plain());

    let secret = SecretText::new("canary-value-1");
    let held = (Some(secret.clone()), vec![("NAME".to_owned(), secret.clone())]);
    let mut spec = ServerSpec::new(
        "s",
        TransportSpec::Stdio {
            command: "x".into(),
            args: vec![secret.clone()],
            env: vec![("TOKEN".into(), secret.clone())],
            cwd: None,
        },
    );
    let stdio = format!("{spec:?} {spec:#?}");
    spec.transport = TransportSpec::Http { url: secret.clone(), headers: vec![("X".into(), secret.clone())] };
    let set = ServerSet {
        secrets: vec![secret.clone()],
        credentials: [(spec.id.clone(), vec![secret.clone()])].into(),
        ..ServerSet::default()
    };
    let plan = crate::runtime::RuntimePlan {
        servers: set.clone(),
        host_env: [("TOKEN".to_owned(), "canary-value-1".to_owned())].into(),
        ..crate::runtime::RuntimePlan::default()
    };
    for shown in [
        format!("{secret} {secret:?} {secret:#?} {secret:>40} {held:?} {held:#?}"),
        stdio,
        format!("{spec:?} {set:?} {set:#?} {plan:?} {plan:#?}"),
    ] {
        assert!(shown.contains("[redacted]") && !shown.contains("canary"), "{shown}");
    }
}
