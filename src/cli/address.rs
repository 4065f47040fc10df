//! Floor 5. Words that look like the address of a server and are none: another scheme, a slip
//! in `http://`, a host without a scheme. Says what is meant, so that nobody ends up with a
//! command of that name. Pure. Used by `add` and by everything that takes a URL for a server.

use super::text::quoted;
use crate::id::shell_word;

/// Ends of a path that MCP servers are reached at.
const ENDS: [&str; 2] = ["/mcp", "/sse"];

/// Whether a word is the address of a server.
pub fn is_url(word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    lower.starts_with("http://") || lower.starts_with("https://")
}

/// What a word means that looks like an address and is not one that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistaken {
    /// What is wrong with it, in one sentence.
    pub message: String,
    /// The address that is probably meant.
    pub meant: Option<String>,
}

impl Mistaken {
    /// The cure, with `before` in front of the address: the command that takes it.
    pub fn fix(&self, before: &str) -> String {
        match &self.meant {
            Some(url) => format!("write `{before} {}`", shell_word(url)),
            None => format!("write its address as `{before} http://HOST:PORT/PATH`, or https://…"),
        }
    }
}

/// What is wrong with a word that looks like an address; `None` for a command, a path, a name
/// and a good address.
pub fn mistaken(word: &str) -> Option<Mistaken> {
    if is_url(word) || word.starts_with(['/', '.', '~', '-', '$']) {
        return None;
    }
    let shown = quoted(word);
    if let Some((scheme, rest)) = scheme(word) {
        if matches!(scheme.as_str(), "http" | "https") {
            let rest = rest.trim_start_matches(['/', '\\']);
            let meant = (!rest.is_empty()).then(|| format!("{scheme}://{rest}"));
            return Some(Mistaken {
                message: format!("{shown} is no address: two `/` follow the colon"),
                meant,
            });
        }
        if rest.starts_with("//") {
            let message = format!(
                "{shown} is an address of a kind ({scheme}://) that servers are not reached at; only http:// and https:// work"
            );
            let meant = match scheme.as_str() {
                "ws" | "sse" | "mcp" => Some(format!("http:{rest}")),
                "wss" => Some(format!("https:{rest}")),
                _ => None,
            };
            return Some(Mistaken { message, meant });
        }
    }
    is_bare_host(word).then(|| Mistaken {
        message: format!("{shown} looks like an address without its http:// or https://"),
        meant: Some(format!("{}://{word}", if is_local(word) { "http" } else { "https" })),
    })
}

/// A scheme, in lower case, and what follows its colon.
fn scheme(word: &str) -> Option<(String, &str)> {
    let (scheme, rest) = word.split_once(':')?;
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    let fine = scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(legal);
    fine.then(|| (scheme.to_ascii_lowercase(), rest))
}

/// `host:port`, with or without a path; or a host with a dot and a path that servers have.
fn is_bare_host(word: &str) -> bool {
    let (authority, path) = word.split_at(word.find(['/', '?']).unwrap_or(word.len()));
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()) => {
            (host, Some(port))
        }
        _ => (authority, None),
    };
    let in_brackets = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let legal = match in_brackets {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-')),
    };
    let known = ENDS.iter().any(|end| path.trim_end_matches('/').ends_with(end));
    legal && (port.is_some() || known && (host.contains('.') || host == "localhost" || in_brackets.is_some()))
}

/// Whether an address is of this machine, which seldom speaks TLS.
fn is_local(word: &str) -> bool {
    ["localhost", "127.", "[::1]", "0.0.0.0"].iter().any(|start| word.to_ascii_lowercase().starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_looks_like_an_address_is_told_with_the_one_that_is_meant() {
        for (word, meant) in [
            ("http:/x", Some("http://x")),
            ("HTTPS:x/mcp", Some("https://x/mcp")),
            ("http:", None),
            ("localhost:3000/mcp", Some("http://localhost:3000/mcp")),
            ("127.0.0.1:80", Some("http://127.0.0.1:80")),
            ("[::1]:3000/mcp", Some("http://[::1]:3000/mcp")),
            ("example.com:8443", Some("https://example.com:8443")),
            ("example.com/mcp", Some("https://example.com/mcp")),
            ("localhost/mcp", Some("http://localhost/mcp")),
            ("wss://h/x", Some("https://h/x")),
            ("ftp://h/x", None),
            ("file:///etc/x", None),
            ("stdio://x", None),
        ] {
            let told = mistaken(word).unwrap_or_else(|| panic!("{word}"));
            assert_eq!(told.meant.as_deref(), meant, "{word}");
            assert!(told.message.contains(word) && !told.fix("callboard mcp add x").is_empty());
        }
    }

    #[test]
    fn a_command_a_path_and_a_name_are_none() {
        for word in [
            "npx",
            "uvx",
            "./mcp",
            "/usr/bin/mcp",
            "bin/mcp",
            "node_modules/.bin/mcp",
            "my-server.py",
            "C:\\x\\mcp.exe",
            "c:/x/mcp",
            "a b",
            "",
            "git",
            "fs:read",
            "http",
            "python3.12",
            "~/x:1",
            "$HOST:1",
            "https://h/",
            "HTTP://h",
        ] {
            assert_eq!(mistaken(word), None, "{word}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_meant_is_an_address(word in "[a-z:/.\\[\\]0-9]{0,20}") {
            if let Some(Mistaken { meant: Some(url), .. }) = mistaken(&word) {
                prop_assert!(is_url(&url) && mistaken(&url).is_none(), "{url}");
            }
        }
    }
}
