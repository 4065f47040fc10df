//! Floor 5. The words of `serve` (`--mcp-serve`). Parses only.

use std::ffi::OsString;

use clap::{Args, ValueEnum};

use crate::config::serve::ServeApproval;

/// `serve`
#[derive(Clone, Debug, Default, Args)]
pub struct ServeArgs {
    /// A host of its own for this client, which ends with it
    #[arg(long)]
    pub private: bool,
    /// Read the configuration's files again only when asked: by SIGHUP, or by `mcp reload`
    #[arg(long)]
    pub no_watch: bool,
    /// Serve only what fits: a server, server/item or exposed name; repeatable
    #[arg(long, value_name = "GLOB")]
    pub only: Vec<String>,
    /// Who says yes to a call that needs approval: elicitation (default), client
    #[arg(long, value_name = "WHO", hide_possible_values = true)]
    pub approval: Option<ApprovalWord>,
    /// Serve over HTTP, at /mcp, instead of stdin and stdout
    #[arg(long)]
    pub mcp_http: bool,
    /// The port for HTTP (http.port, 8931); 0 takes a free one
    #[arg(long, value_name = "N")]
    pub mcp_port: Option<u16>,
    /// The address for HTTP (http.host, 127.0.0.1); localhost for both loopbacks
    #[arg(long, value_name = "H")]
    pub mcp_host: Option<String>,
    /// Let other machines reach it; they need a token
    #[arg(long)]
    pub allow_remote: bool,
    /// Ask nobody over HTTP who they are: every user of this machine can use it
    #[arg(long)]
    pub no_auth: bool,
}

impl ServeArgs {
    /// Whether it serves over HTTP: each of its flags says so.
    pub fn is_http(&self) -> bool {
        self.mcp_http
            || self.mcp_port.is_some()
            || self.mcp_host.is_some()
            || self.allow_remote
            || self.no_auth
    }
}

/// The words with `serve` put in where a flag implies it: `callboard --mcp-http`.
pub fn implied(argv: &[OsString]) -> Vec<OsString> {
    let is = |word: &OsString, flags: &[&str]| {
        word.to_str().is_some_and(|word| flags.contains(&word.split('=').next().unwrap_or_default()))
    };
    let mut words = argv.to_vec();
    let Some(at) = words.iter().position(|word| is(word, &["--mcp-http", "--mcp-port", "--mcp-host"])) else {
        return words;
    };
    let known = words.iter().take(at).skip(1).any(|word| is(word, &["serve", "--mcp-serve"]));
    let later = words.iter().skip(at).position(|word| is(word, &["--mcp-serve"]));
    if !known {
        if let Some(later) = later {
            words.remove(at + later);
        }
        words.insert(at, "serve".into());
    }
    words
}

/// `--approval`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ApprovalWord {
    /// The client's user is asked through the protocol
    Elicitation,
    /// The client asks by itself before it calls
    Client,
}

impl From<ApprovalWord> for ServeApproval {
    fn from(word: ApprovalWord) -> Self {
        match word {
            ApprovalWord::Elicitation => Self::Elicitation,
            ApprovalWord::Client => Self::Client,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_of_http_imply_serve() {
        let of = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let words = implied(&words);
            words.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(of("callboard --mcp-http"), "callboard serve --mcp-http");
        assert_eq!(of("callboard --mode safe --mcp-port=0"), "callboard --mode safe serve --mcp-port=0");
        assert_eq!(of("callboard --mcp-serve --mcp-http"), "callboard --mcp-serve --mcp-http");
        assert_eq!(of("callboard --mcp-http --mcp-serve"), "callboard serve --mcp-http");
        assert_eq!(of("callboard serve --mcp-host ::1"), "callboard serve --mcp-host ::1");
        assert_eq!(of("callboard mcp list"), "callboard mcp list");
    }
}
