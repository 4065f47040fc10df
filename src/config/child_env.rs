//! Floor 1. The whole environment of a child (spec section 2): a short list of ordinary host
//! variables, what the entry and the host pass through by name, and the entry's `env`. Nothing
//! else is inherited. Called where a server is launched, and for the text of its failure.

use std::collections::{BTreeMap, BTreeSet};

use super::spec::{ServerSpec, TransportSpec};

/// Host variables that every child sees.
#[cfg(not(windows))]
pub const ALWAYS: &[&str] =
    &["HOME", "PATH", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "USER", "SHELL", "TERM", "TMPDIR", "TZ"];
/// Host variables that every child sees.
#[cfg(windows)]
pub const ALWAYS: &[&str] = &[
    "APPDATA",
    "COMSPEC",
    "HOMEDRIVE",
    "HOMEPATH",
    "LOCALAPPDATA",
    "PATH",
    "PATHEXT",
    "PROCESSOR_ARCHITECTURE",
    "PROGRAMDATA",
    "PROGRAMFILES",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "TEMP",
    "TMP",
    "USERNAME",
    "USERPROFILE",
];

/// Variables for proxies and certificate authorities: programs fail in odd ways without them.
const NETWORK: [&str; 16] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "AWS_CA_BUNDLE",
    "PIP_CERT",
];

/// Whether a server is another one in every folder that it is started in: a word of its command line is a
/// path from there on (`.`, `./x`, `--root=../x`).
pub fn depends_on_folder(spec: &ServerSpec) -> bool {
    let TransportSpec::Stdio { args, .. } = &spec.transport else { return false };
    args.iter().any(|arg| {
        let word = arg.reveal();
        let value = word.rsplit_once('=').map_or(word, |(_, value)| value);
        matches!(value.split('/').next(), Some("." | ".."))
    })
}

/// The environment of a stdio server, sorted by name; of any other server, none. `host` is the
/// environment of this process, `passthrough` the host-wide names (`env.passthrough`). Host
/// values that start with `()` are shell functions in disguise and are dropped.
pub fn child_env(
    host: &BTreeMap<String, String>,
    spec: &ServerSpec,
    passthrough: &[String],
) -> Vec<(String, String)> {
    let TransportSpec::Stdio { env, .. } = &spec.transport else { return Vec::new() };
    let named = spec.env_passthrough.iter().chain(passthrough).map(String::as_str);
    let mut child: BTreeMap<String, String> = ALWAYS
        .iter()
        .copied()
        .chain(named)
        .filter_map(|name| host.get_key_value(name))
        .filter(|(_, value)| !value.starts_with("()"))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    child.extend(env.iter().map(|(name, value)| (name.clone(), value.reveal().to_owned())));
    child.into_iter().collect()
}

/// What a program writes when the network failed it, in lower case: parts of words. Only then are
/// proxies and certificates worth a word; they are set on many machines, and seldom to blame.
const NETWORK_FAULTS: [&str; 22] = [
    "certificate",
    "tls",
    "ssl",
    "x509",
    "proxy",
    "enotfound",
    "eai_again",
    "econnrefused",
    "econnreset",
    "econnaborted",
    "etimedout",
    "ehostunreach",
    "enetunreach",
    "getaddrinfo",
    "could not resolve",
    "name resolution",
    "dns",
    "connect",
    "timed out",
    "network",
    "fetch failed",
    "unreachable",
];

/// What a program writes beside the name of a variable that it misses, in lower case.
const WANTING: [&str; 12] = [
    "required",
    "not set",
    "must be set",
    "must set",
    "missing",
    "not provided",
    "not defined",
    "not found",
    "undefined",
    "unset",
    "please ",
    "keyerror",
];

/// Names of the host variables that one child does and does not see. No values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Withheld {
    names: Vec<String>,
    seen: Vec<String>,
}

impl Withheld {
    /// What a child with this environment does not see of the host's.
    pub fn of(host: &BTreeMap<String, String>, child: &[(String, String)]) -> Self {
        let seen = |name: &String| child.iter().any(|(seen, _)| seen == name);
        Self {
            names: host.keys().filter(|name| !seen(name)).cloned().collect(),
            seen: child.iter().map(|(name, _)| name.clone()).collect(),
        }
    }

    /// Those that this text mentions as a whole word, sorted.
    pub fn mentioned<'a>(&'a self, stderr: &str) -> Vec<&'a str> {
        let words: BTreeSet<&str> = words(stderr).collect();
        self.names().filter(|name| name.len() >= NAME_LEN_MIN && words.contains(name)).collect()
    }

    /// Names of variables that a line of this text calls missing, and that neither the child nor
    /// this process has; in order, each once. They look like `GITHUB_TOKEN`.
    pub fn wanted<'t>(&self, stderr: &'t str) -> Vec<&'t str> {
        let mut wanted = Vec::new();
        for line in stderr.lines() {
            let lower = line.to_ascii_lowercase();
            if !WANTING.iter().any(|sign| lower.contains(sign)) {
                continue;
            }
            for word in words(line).filter(|word| is_variable(word)) {
                let known = self.seen.iter().chain(&self.names).any(|name| name == word);
                if !known && !wanted.contains(&word) {
                    wanted.push(word);
                }
            }
        }
        wanted
    }

    /// Those that lead to a proxy or to certificate authorities, sorted.
    pub fn network(&self) -> Vec<&str> {
        self.names().filter(|name| NETWORK.contains(name)).collect()
    }

    /// What a failure of the child has to say about variables (spec section 2): names and the
    /// cure; `None` when nothing on its stderr suggests that one of them matters.
    pub fn hint(&self, stderr: &str) -> Option<String> {
        let mentioned = self.mentioned(stderr);
        let mut network = if is_of_network(stderr) { self.network() } else { Vec::new() };
        network.retain(|name| !mentioned.contains(name));
        let groups = [(mentioned, "mentioned on its stderr"), (network, "for the network")];
        let told: Vec<String> = groups
            .iter()
            .filter(|(names, _)| !names.is_empty())
            .map(|(names, what)| format!("{} ({what})", list(names)))
            .collect();
        let withheld = (!told.is_empty()).then(|| {
            let told = told.join(", ");
            format!(
                "set here but withheld from the server: {told}; name what it needs in `env_passthrough` \
                 (`-e NAME='${{NAME}}'` of `mcp add`)"
            )
        });
        let wanted = self.wanted(stderr);
        let missing = (!wanted.is_empty()).then(|| {
            format!(
                "its stderr asks for {}, not set here: write it in `env` of the entry (`-e NAME` of `mcp add`)",
                list(&wanted)
            )
        });
        let both: Vec<String> = withheld.into_iter().chain(missing).collect();
        (!both.is_empty()).then(|| both.join("; "))
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }
}

/// Shortest name that is told; shorter ones are words of English.
const NAME_LEN_MIN: usize = 3;

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// Whether a word looks like the name of a variable, and not like that of an error.
fn is_variable(word: &str) -> bool {
    const LEN_MAX: usize = 64;
    (NAME_LEN_MIN..=LEN_MAX).contains(&word.len())
        && word.trim_matches('_').contains('_')
        && word.starts_with(|c: char| c.is_ascii_uppercase())
        && word.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
        && !["ERR_", "ERROR_", "EAI_"].iter().any(|prefix| word.starts_with(prefix))
}

/// Whether a text tells of a fault of the network.
fn is_of_network(stderr: &str) -> bool {
    let stderr = stderr.to_ascii_lowercase();
    NETWORK_FAULTS.iter().any(|sign| stderr.contains(sign))
}

/// The names, or the first of very many.
fn list(names: &[&str]) -> String {
    const NAMES_MAX: usize = 8;
    let more = names.len().saturating_sub(NAMES_MAX);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{rest}", names[..names.len() - more].join(", "))
}

#[cfg(test)]
#[cfg(not(windows))]
mod tests {
    use super::*;

    use crate::config::spec::SecretText;
    use proptest::prelude::*;

    fn host(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }

    fn spec(env: &[(&str, &str)], passthrough: &[&str]) -> ServerSpec {
        let transport = TransportSpec::Stdio {
            command: "x".into(),
            args: Vec::new(),
            env: env.iter().map(|(n, v)| (n.to_string(), SecretText::new(*v))).collect(),
            cwd: None,
        };
        ServerSpec {
            env_passthrough: passthrough.iter().map(ToString::to_string).collect(),
            ..ServerSpec::new("s", transport)
        }
    }

    fn names(child: &[(String, String)]) -> Vec<&str> {
        child.iter().map(|(name, _)| name.as_str()).collect()
    }

    #[test]
    fn a_child_sees_the_short_list_and_nothing_else() {
        let all: Vec<(&str, &str)> = ALWAYS.iter().map(|name| (*name, "v")).collect();
        let mut host = host(&all);
        host.insert("AWS_SECRET_ACCESS_KEY".into(), "hidden".into());
        host.insert("LC_MESSAGES".into(), "C".into());
        let child = child_env(&host, &spec(&[], &[]), &[]);
        let mut expected = ALWAYS.to_vec();
        expected.sort_unstable();
        assert_eq!(names(&child), expected);
    }

    #[test]
    fn entry_and_host_pass_further_names_through_and_env_beats_both() {
        let host = host(&[("PATH", "/bin"), ("A", "host"), ("B", "host"), ("C", "host")]);
        let child =
            child_env(&host, &spec(&[("PATH", "/own"), ("B", "own")], &["A", "B", "NOPE"]), &["C".into()]);
        let pairs: Vec<(&str, &str)> = child.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        assert_eq!(pairs, [("A", "host"), ("B", "own"), ("C", "host"), ("PATH", "/own")]);
    }

    #[test]
    fn shell_functions_in_host_variables_are_dropped() {
        let host = host(&[("TERM", "() { :; }; touch /tmp/x"), ("LANG", "C")]);
        assert_eq!(names(&child_env(&host, &spec(&[], &[]), &[])), ["LANG"]);
    }

    #[test]
    fn a_failure_names_withheld_variables_that_stderr_mentions() {
        let host = host(&[("GITHUB_TOKEN", "ghp_hidden"), ("GITHUB", "x"), ("PATH", "/bin"), ("NO", "1")]);
        let child = child_env(&host, &spec(&[], &[]), &[]);
        let withheld = Withheld::of(&host, &child);
        let stderr = "Error: NO token. Set `GITHUB_TOKEN` or MY_GITHUB; PATH is fine\n";
        assert_eq!(withheld.mentioned(stderr), ["GITHUB_TOKEN"]);
        let hint = withheld.hint(stderr).unwrap();
        assert_eq!(
            hint,
            "set here but withheld from the server: GITHUB_TOKEN (mentioned on its stderr); \
             name what it needs in `env_passthrough` (`-e NAME='${NAME}'` of `mcp add`)"
        );
        assert!(withheld.mentioned("").is_empty() && withheld.hint("").is_none());
    }

    #[test]
    fn proxies_and_certificates_are_told_only_when_the_network_failed() {
        let host = host(&[("HTTPS_PROXY", "http://u:p@proxy"), ("SSL_CERT_FILE", "/c"), ("X", "1")]);
        let child = child_env(&host, &spec(&[], &["SSL_CERT_FILE"]), &[]);
        let withheld = Withheld::of(&host, &child);
        assert_eq!(withheld.network(), ["HTTPS_PROXY"]);
        for stderr in [
            "Error: getaddrinfo ENOTFOUND api.example.com",
            "SELF_SIGNED_CERT_IN_CHAIN: self-signed certificate in certificate chain",
            "x509: certificate signed by unknown authority",
            "requests.exceptions.SSLError: HTTPSConnectionPool(host='h', port=443)",
            "TypeError: fetch failed",
            "dial tcp: lookup h: i/o timeout: network is down",
        ] {
            let hint = withheld.hint(stderr).unwrap_or_default();
            assert!(hint.contains(": HTTPS_PROXY (for the network); "), "{stderr}: {hint}");
        }
        for stderr in ["", "Error: Cannot find module 'x'", "panic: index out of range", "bad config: line 3"]
        {
            assert_eq!(withheld.hint(stderr), None, "{stderr}");
        }
        let twice = withheld.hint("HTTPS_PROXY is not set").unwrap();
        assert_eq!(twice.matches("HTTPS_PROXY").count(), 1, "{twice}");
    }

    #[test]
    fn a_variable_that_nobody_has_is_said_to_be_wanted() {
        let host = host(&[("MY_KEY", "v"), ("LC_ALL", "C")]);
        let withheld = Withheld::of(&host, &child_env(&host, &spec(&[("GIVEN_ONE", "")], &[]), &[]));
        let told = "its stderr asks for GITHUB_TOKEN, not set here: write it in `env` of the entry \
                    (`-e NAME` of `mcp add`)";
        for stderr in [
            "GITHUB_TOKEN is required",
            "start\nError: Missing GITHUB_TOKEN, again GITHUB_TOKEN\n",
            "KeyError: 'GITHUB_TOKEN'",
            "Please set the GITHUB_TOKEN environment variable",
        ] {
            assert_eq!(withheld.hint(stderr).as_deref(), Some(told), "{stderr}");
        }
        for stderr in [
            "GITHUB_TOKEN was refused",
            "GIVEN_ONE is required",
            "LC_ALL is not set",
            "[ERR_MODULE_NOT_FOUND]: not found",
            "JSON is required, TOKEN too, __dirname is not defined, a_b is missing",
        ] {
            assert_eq!(withheld.hint(stderr), None, "{stderr}");
        }
        let both = withheld.hint("MY_KEY or OTHER_KEY is required").unwrap();
        assert!(both.starts_with("set here but withheld from the server: MY_KEY (mention"), "{both}");
        assert!(both.contains("; its stderr asks for OTHER_KEY, "), "{both}");
    }

    #[test]
    fn a_hint_names_a_few_of_very_many() {
        let names: Vec<String> = (10..40).map(|n| format!("VAR_{n}")).collect();
        let host: BTreeMap<String, String> = names.iter().map(|n| (n.clone(), "secret".into())).collect();
        let hint = Withheld::of(&host, &[]).hint(&names.join(" ")).unwrap();
        assert!(hint.contains("VAR_10, ") && hint.contains("VAR_17 and 22 more"), "{hint}");
    }

    proptest! {
        /// Whatever the host holds and a server writes: names at most, never a value.
        #[test]
        fn no_value_gets_into_a_hint(
            names in proptest::collection::btree_set("[A-Z]{3,6}", 1..6),
            value in "[a-z0-9]{24}", stderr in "[A-Z ]{0,40}",
        ) {
            let host = names.iter().chain([&"HTTP_PROXY".to_owned()]).map(|n| (n.clone(), value.clone())).collect();
            let hint = Withheld::of(&host, &[]).hint(&format!("proxy {stderr} {value}")).unwrap();
            prop_assert!(!hint.contains(&value), "{hint}");
        }

        #[test]
        fn nothing_unnamed_is_ever_inherited(
            host in proptest::collection::btree_map("[A-Z_]{1,8}", "[ -~]{0,12}", 0..20),
            passed in proptest::collection::vec("[A-Z_]{1,8}", 0..4),
        ) {
            let passed: Vec<&str> = passed.iter().map(String::as_str).collect();
            let child = child_env(&host, &spec(&[("OWN", "x")], &passed), &[]);
            for (name, value) in &child {
                let named = ALWAYS.contains(&name.as_str()) || passed.contains(&name.as_str());
                prop_assert!(name == "OWN" || (named && host.get(name) == Some(value)));
            }
            prop_assert!(child.is_sorted());
        }
    }
}
