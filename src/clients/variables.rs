//! Floor 1. References in the texts of other clients, written in our way: `${VAR}`,
//! `${VAR:-default}`, `${secret:NAME}`; every other `$` becomes `$$`, so that it stays one.

use super::client::Client;
use crate::config::expand::is_secret_name;

/// What references may stand for.
#[derive(Clone, Debug)]
pub struct Surroundings<'a> {
    /// The client whose text it is.
    pub client: Client,
    /// The folder that the client would have open.
    pub workspace: &'a str,
}

/// A text in our way, with the names that the client would have asked its user for added to
/// `inputs`. An error says what can't be said here.
pub fn translate(at: &Surroundings<'_>, text: &str, inputs: &mut Vec<String>) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('$') {
        out.push_str(&rest[..start]);
        let tail = &rest[start..];
        let taken = match at.client {
            // They hand texts on as they are.
            Client::ClaudeDesktop | Client::Codex | Client::Zed => None,
            Client::ClaudeCode => {
                braced(tail).and_then(|inner| plain(at, inner).map(|t| (t, inner.len() + 3)))
            }
            Client::Gemini => gemini(at, tail),
            Client::Cursor | Client::Vscode | Client::Windsurf => match braced(tail) {
                Some(inner) => editor(at, inner, inputs)?.map(|text| (text, inner.len() + 3)),
                None => None,
            },
        };
        let (text, len) = taken.unwrap_or_else(|| ("$$".to_owned(), 1));
        out.push_str(&text);
        rest = &tail[len..];
    }
    out.push_str(rest);
    Ok(out)
}

/// What stands between `${` and `}`.
fn braced(tail: &str) -> Option<&str> {
    let inner = tail.strip_prefix("${")?;
    Some(&inner[..inner.find('}')?])
}

/// A literal piece.
fn literal(text: &str) -> String {
    text.replace('$', "$$")
}

fn is_variable(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// `VAR` and `VAR:-default`
fn plain(at: &Surroundings<'_>, inner: &str) -> Option<String> {
    let name = inner.split_once(":-").map_or(inner, |(name, _)| name);
    if name == "CLAUDE_PROJECT_DIR" && at.client == Client::ClaudeCode {
        return Some(literal(at.workspace));
    }
    is_variable(name).then(|| format!("${{{inner}}}"))
}

/// `$VAR` and `${VAR}`: what is written, and its length in bytes.
fn gemini(at: &Surroundings<'_>, tail: &str) -> Option<(String, usize)> {
    if let Some(inner) = braced(tail) {
        return plain(at, inner).map(|text| (text, inner.len() + 3));
    }
    let name: &str = &tail[1..];
    let len = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(name.len());
    is_variable(&name[..len]).then(|| (format!("${{{}}}", &name[..len]), len + 1))
}

/// The references of editors. `None` when it is no reference, so a literal.
fn editor(at: &Surroundings<'_>, inner: &str, inputs: &mut Vec<String>) -> Result<Option<String>, String> {
    let base = || at.workspace.rsplit('/').next().unwrap_or_default();
    Ok(Some(match inner {
        "workspaceFolder" | "workspaceRoot" | "cwd" => literal(at.workspace),
        "workspaceFolderBasename" => literal(base()),
        "userHome" => "${HOME}".to_owned(),
        "pathSeparator" | "/" => std::path::MAIN_SEPARATOR.to_string(),
        _ => match inner.split_once(':') {
            Some(("env", name)) if is_variable(name) => format!("${{{name}}}"),
            Some(("input", name)) => {
                if !is_secret_name(name) {
                    return Err(format!("the name in ${{{inner}}} can't be that of a secret"));
                }
                if !inputs.iter().any(|known| known == name) {
                    inputs.push(name.to_owned());
                }
                format!("${{secret:{name}}}")
            }
            Some(_) => return Err(format!("${{{inner}}} has no counterpart here")),
            None => return Ok(None),
        },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::expand::{Lookup, expand};
    use proptest::prelude::*;

    fn of(client: Client, text: &str) -> Result<String, String> {
        translate(&Surroundings { client, workspace: "/w/app" }, text, &mut Vec::new())
    }

    #[test]
    fn references_of_each_client_are_written_in_our_way() {
        for (client, theirs, ours) in [
            (Client::ClaudeCode, "Bearer ${T}, ${A:-b}", "Bearer ${T}, ${A:-b}"),
            (Client::ClaudeCode, "$T ${input:x} ${CLAUDE_PROJECT_DIR}/a", "$$T $${input:x} /w/app/a"),
            (Client::Gemini, "$T-${U}$", "${T}-${U}$$"),
            (Client::Vscode, "${env:T}:${workspaceFolder}${/}x", "${T}:/w/app/x"),
            (Client::Vscode, "${input:key} ${unknown}", "${secret:key} $${unknown}"),
            (Client::Cursor, "${userHome}/${workspaceFolderBasename}", "${HOME}/app"),
            (Client::Windsurf, "Bearer ${env:T}", "Bearer ${T}"),
            (Client::Codex, "${T} $$", "$${T} $$$$"),
        ] {
            assert_eq!(of(client, theirs).unwrap(), ours, "{client:?}");
        }
        for unknown in ["${command:pick}", "${config:a.b}", "${file:/x}", "${input:a b}"] {
            assert!(of(Client::Vscode, unknown).is_err(), "{unknown}");
        }
    }

    struct Nothing;
    impl Lookup for Nothing {
        fn var(&self, _: &str) -> Option<String> {
            None
        }
        fn secret(&self, _: &str) -> Option<String> {
            None
        }
    }

    proptest! {
        #[test]
        fn a_text_that_a_client_hands_on_as_it_is_comes_out_of_expansion_the_same(text in "[a${}:\\-]{0,12}") {
            let ours = of(Client::Codex, &text).unwrap();
            prop_assert_eq!(expand(&ours, &Nothing).unwrap().text, text);
        }
    }
}
