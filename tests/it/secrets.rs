//! Canaries: values that are configured in every place a secret can stand in, and said again by
//! servers in every encoding. None may come out of any channel of the program.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use callboard::call::ErrorCode;
use callboard::config::spec::SecretText;
use callboard::id::ServerId;
use serde_json::{Value, json};

use crate::cli_home::{Home, Ran};
use crate::support::bad::{Yard, flags, program, runs};

/// How many canaries there are, and how many one home has.
pub(crate) const CANARIES: usize = 40;
pub(crate) const EACH: usize = 10;
/// In how many encodings each is said.
pub(crate) const FORMS: usize = 6;

/// A value as people have them, with what encoders must escape.
pub(crate) fn canary(number: usize) -> String {
    format!("cnry{number:02}/q+{}\"&z", number * 7919 % 9973)
}

/// The encodings in which a canary is said again.
pub(crate) fn forms(canary: &str) -> [String; FORMS] {
    let hex: String = canary.bytes().map(|b| format!("{b:02x}")).collect();
    let percent: String = url::form_urlencoded::byte_serialize(canary.as_bytes()).collect();
    let json = json!(canary).to_string();
    [
        canary.to_owned(),
        percent,
        json[1..json.len() - 1].to_owned(),
        hex,
        STANDARD.encode(format!("user:{canary}")),
        URL_SAFE_NO_PAD.encode(canary),
    ]
}

/// What must not be seen of a form: base64 of more than the value has a part that is the value's own.
pub(crate) fn telling(form: &str) -> &str {
    if form.starts_with("dXNlcjp") { &form[10..form.len() - 6] } else { form }
}

/// A home whose servers know canaries `from..from + EACH`, and say them.
pub(crate) struct Cage {
    pub(crate) home: Home,
    pub(crate) canaries: Vec<String>,
}

impl Cage {
    pub(crate) fn new(from: usize) -> Self {
        let home = Home::new();
        let canaries: Vec<String> = (from..from + EACH).map(canary).collect();
        let stored: serde_json::Map<String, Value> =
            canaries[6..8].iter().enumerate().map(|(n, value)| (format!("K{n}"), json!(value))).collect();
        let secrets = home.home().join("secrets.json");
        std::fs::write(&secrets, Value::Object(stored).to_string()).unwrap();
        std::fs::set_permissions(&secrets, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        // Said on stderr, each line in two writes.
        let lines: String = canaries.iter().map(|value| forms(value).join(" ") + "\n").collect();
        std::fs::write(home.project().join("said"), &lines).unwrap();
        let say = "n=$(wc -c < said); h=$((n / 2)); head -c $h said >&2; tail -c +$((h + 1)) said >&2; \
                   tr '\\0' ' ' < /proc/$PPID/cmdline > seen; tr '\\0' ' ' < /proc/$PPID/environ >> seen 2>/dev/null;";
        let env = json!({
            "A_TOKEN": canaries[0], "B_PASSWORD": canaries[1], "C_KEY": canaries[2], "D": "${FROM_HOST}",
            "E": "${secret:K0}", "F_SECRET": "${secret:K1}"
        });
        let args = |end: &str| {
            json!([
                "-c",
                format!("{say} {end}"),
                "sh",
                format!("--api-key={}", canaries[4]),
                "--token",
                canaries[5]
            ])
        };
        let query: String = url::form_urlencoded::byte_serialize(canaries[8].as_bytes()).collect();
        let exec = format!("exec {}", program().display());
        let entries = json!({"mcpServers": {
            "s": {"command": "/bin/sh", "args": args(&exec), "env": env, "allowAllTools": true},
            "dies": {"command": "/bin/sh", "args": args("exit 3"), "env": env},
            "h": {"url": format!("http://127.0.0.1:9/mcp?token={query}"), "headers": {"X-Api-Key": canaries[9]}},
            "o": {"command": program(), "allowAllTools": true},
        }});
        home.user(&entries.to_string());
        Self { home, canaries }
    }

    fn run(&self, words: &[&str]) -> Ran {
        self.home.run_env(&[("FROM_HOST", &self.canaries[3])], words)
    }

    /// Every form of every canary that is in the text.
    fn leaks(&self, text: &str) -> Vec<String> {
        let all = self.canaries.iter().flat_map(|value| forms(value));
        all.filter(|form| text.contains(telling(form))).collect()
    }

    #[track_caller]
    pub(crate) fn clean(&self, channel: &str, text: &str) {
        let leaks = self.leaks(text);
        assert!(leaks.is_empty(), "{channel} shows {leaks:?}:\n{text}");
    }

    /// Everything that the program wrote into its home by itself.
    pub(crate) fn written(&self) -> String {
        fn walk(folder: &Path, into: &mut Vec<PathBuf>) {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() { walk(&path, into) } else { into.push(path) }
            }
        }
        let mut files = Vec::new();
        walk(&self.home.home(), &mut files);
        files.retain(|file| !file.ends_with("mcp.json") && !file.ends_with("secrets.json"));
        files
            .iter()
            .map(|file| String::from_utf8_lossy(&std::fs::read(file).unwrap_or_default()).into_owned())
            .collect()
    }
}

#[test]
fn no_channel_of_the_program_shows_a_canary_in_any_encoding() {
    for from in (0..CANARIES).step_by(EACH) {
        let cage = Cage::new(from);
        let said: String = cage.canaries.iter().map(|value| forms(value).join(" ") + "\n").collect();
        let text = format!("text={said}");
        // A channel is the words, and whether its stdout is a result, which scripts get byte for byte.
        let channels: [(&[&str], bool); 25] = [
            (&["mcp", "call", "s", "echo", &text, "-y"], false),
            (&["mcp", "call", "s", "echo", &text, "-y", "--json", "--log-level", "trace"], true),
            (
                &["mcp", "call", "s", "echo", "text=x", "-y", "--log-level", "trace", "--log-format", "json"],
                false,
            ),
            (&["mcp", "status", "--log-level", "debug"], false),
            (&["mcp", "status", "--json"], false),
            (&["mcp", "why", "dies"], false),
            (&["mcp", "why", "s", "--json"], false),
            (&["mcp", "call", "dies", "echo", "text=x", "-y", "--log-level", "trace"], false),
            (&["mcp", "call", "dies", "echo", "text=x", "-y", "--json"], false),
            (&["mcp", "call", "h", "echo", "text=x", "-y", "--json", "--log-level", "trace"], false),
            (&["mcp", "get", "s"], false),
            (&["mcp", "get", "h", "--json"], false),
            (&["mcp", "config", "--json"], false),
            (&["mcp", "list"], false),
            (&["mcp", "list", "--json"], false),
            (&["mcp", "tools", "s", "--json"], false),
            (&["doctor"], false),
            (&["doctor", "--json"], false),
            (&["mcp", "call", "s", "echo", &text, "-y", "--as-model"], false),
            (&["mcp", "check", "s", "--json"], false),
            (&["mcp", "pin", "review", "s", "echo"], false),
            (&["mcp", "pin", "list"], false),
            (&["mcp", "rules", "--json"], false),
            (&["audit", "tail"], false),
            (&["audit", "tail", "--json"], false),
        ];
        let (mut heard, mut cells) = (0, 0);
        for (words, is_result) in channels {
            let ran = cage.run(words);
            let name = words.iter().filter(|word| word.len() < 20).copied().collect::<Vec<_>>().join(" ");
            cage.clean(&format!("stderr of {name}"), &ran.stderr);
            cells += EACH * FORMS;
            if !is_result {
                cage.clean(&format!("stdout of {name}"), &ran.stdout);
                cells += EACH * FORMS;
            }
            heard += (ran.stdout + &ran.stderr).matches("[redacted").count();
        }
        assert!(heard > 40, "something was said, and hidden: {heard}");
        let seen = std::fs::read_to_string(cage.home.project().join("seen")).unwrap();
        assert!(seen.contains("callboard"), "{seen}");
        cage.clean("words and environment of the guard", &seen);
        cage.clean("files of the home", &cage.written());
        assert_eq!(cells + 2 * EACH * FORMS, (25 + 24 + 2) * EACH * FORMS, "a quarter of the table");
    }
}

#[test]
fn a_credential_of_one_server_is_not_sent_to_another_from_the_command_line() {
    let cage = Cage::new(0);
    for (value, owner) in [(&cage.canaries[0], "s"), (&cage.canaries[7], "s"), (&cage.canaries[9], "h")] {
        for form in forms(value) {
            let arguments = json!({"text": format!("x {form} y")}).to_string();
            let ran = cage.run(&["mcp", "call", "o", "echo", &arguments, "-y", "--json"]);
            let error = &ran.json(5)["error"];
            assert_eq!(error["code"], "secret_in_arguments", "{ran:?}");
            assert_eq!(error["delivery"], "not_sent");
            let message = error["message"].as_str().unwrap();
            assert!(message.contains(owner) || message.contains("dies"), "{message}");
            assert!(error["fix"].as_str().unwrap().contains("arguments"), "{ran:?}");
            cage.clean("the refusal", &(ran.stdout + &ran.stderr));
        }
    }
    let own = json!({"text": cage.canaries[0]}).to_string();
    let ran = cage.run(&["mcp", "call", "s", "echo", &own, "-y", "--json"]);
    assert_eq!(
        ran.json(0)["data"]["result"]["content"][0]["text"],
        json!(cage.canaries[0]),
        "its own passes"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_credential_never_reaches_another_server_whatever_is_allowed() {
    let value = canary(1);
    let yard = Yard::new().good(&["owner", "other"]).await;
    let mine = [("owner".into(), vec![SecretText::new(value.as_str())])];
    let host = yard.plan(|plan| plan.servers.credentials = mine.into()).ready().await;
    for form in forms(&value) {
        let error = host.call("other", "echo", &json!({"text": form})).await.unwrap_err();
        assert_eq!((error.code, error.server), (ErrorCode::SecretInArguments, Some(ServerId::new("other"))));
        let name = &host.exposed("other")["echo"];
        let mut asked =
            crate::support::request("", "", &json!({"name": name, "arguments": {"text": form}}).to_string());
        asked.target = callboard::call::Target::Exposed(name.clone());
        let error = host.runtime.frontend().call(asked, None).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::SecretInArguments, "by its exposed name too");
        host.echo("owner", &form).await;
    }
    assert!(host.received("other", "tools/call").is_empty(), "nothing was sent");
    host.end().await;
}

/// B140: what a server repeats of our headers, and what a child writes to stderr.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_servers_repeat_of_our_secrets_is_in_no_view_and_no_error() {
    let [echoes, says] = runs("B140");
    let value = says.last().unwrap().clone();
    let header = "canary-of-the-header-1".to_owned();
    let given = (header.clone(), value.clone());
    let host = Yard::new()
        .tuned("web", &echoes, |spec| {
            if let callboard::config::spec::TransportSpec::Http { headers, .. } = &mut spec.transport {
                headers.push(("Authorization".to_owned(), SecretText::new(format!("Bearer {header}"))));
            }
        })
        .await
        .with("child", &says)
        .await
        .plan(|plan| plan.servers.secrets = vec![SecretText::new(given.0), SecretText::new(given.1)])
        .start()
        .await;
    host.until("child", "it is ready", |view| view.listed).await;
    host.echo("child", "x").await;
    let child = host.until("child", "its stderr is seen", |view| view.last_stderr.is_some()).await;
    assert!(child.last_stderr.as_deref().is_some_and(|line| line.contains("[redacted]")), "{child:?}");
    let web = host.until("web", "it says why it can't be used", |view| view.why.is_some()).await;
    let error = host.call("web", "echo", &json!({"text": "x"})).await.unwrap_err();
    let shown = format!("{web:?} {error:?} {child:?} {:?}", web.whole_history());
    assert!(!shown.contains(&header) && !shown.contains(&value), "{shown}");
    host.end().await;
}

/// B139: the same values are masked by every command; the channels are those of the test above.
#[test]
fn every_command_masks_the_same_values() {
    assert!(flags("B139").is_empty(), "the fault is ours alone");
    let home = Home::new();
    let entry = json!({"mcpServers": {"h": {
        "url": "https://user:cnry-password-1@h.example/mcp?token=cnry-query-2", "headers": {"X-Any": "cnry-header-3"}},
        "c": {"command": "x", "args": ["--api-key=cnry-arg-4"], "env": {"ANY": "cnry-env-5"}}}});
    home.user(&entry.to_string());
    for words in [
        &["mcp", "list"][..],
        &["mcp", "list", "--json"],
        &["mcp", "get", "h"],
        &["mcp", "get", "h", "--json"],
        &["mcp", "get", "c"],
        &["mcp", "get", "c", "--json"],
        &["mcp", "config"],
        &["mcp", "config", "--json"],
        &["mcp", "status", "--log-level", "trace"],
        &["mcp", "why", "c"],
        &["doctor", "--json"],
        &["mcp", "add", "n", "-e", "TOKEN=cnry-added-6", "--", "x", "--token", "cnry-added-7"],
    ] {
        let ran = home.run(words);
        assert!(!(ran.stdout.clone() + &ran.stderr).contains("cnry-"), "{ran:?}");
    }
}
