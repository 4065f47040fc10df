//! What cures a fault, in one line: for the view of the server and for the errors of its calls.
//! Pure.

use crate::config::child_env::Withheld;
use crate::transport::LinkFault;
use crate::transport::stdio::{COMMAND_NOT_FOUND, SANDBOX};

/// The cure of a failed start or an unexpected end, if there is one. `stderr` is what the child
/// wrote last; nothing of it gets into the text but names of variables.
pub(super) fn of(fault: &LinkFault, stderr: &str, withheld: &Withheld) -> Option<String> {
    let cure = match fault {
        LinkFault::Config(text) if text.starts_with(COMMAND_NOT_FOUND) => {
            Some("install it, put its folder on PATH, or write an absolute path".to_owned())
        }
        LinkFault::Config(text) if text.starts_with(SANDBOX) => Some(
            "correct `sandbox` or `cwd` of the entry; \"sandbox\": \"off\" runs it unconfined".to_owned(),
        ),
        LinkFault::Config(_) => Some("correct the entry, then run the command again".to_owned()),
        LinkFault::NeedsAuth(_) => Some("set `headers` or `bearer_token_env` of this server".to_owned()),
        LinkFault::Unreachable { cure, .. } | LinkFault::Misfit { cure, .. } => Some((*cure).to_owned()),
        _ => None,
    };
    // A program that never ran missed no variable.
    let unknown =
        !matches!(fault, LinkFault::Config(_) | LinkFault::Unreachable { .. } | LinkFault::Misfit { .. });
    let ran = unknown || !stderr.trim().is_empty();
    let hint = ran.then(|| withheld.hint(stderr)).flatten();
    match cure {
        Some(cure) => Some(and(cure, hint)),
        None => hint,
    }
}

/// What to look at when a server of that transport was started again and again in vain.
pub(super) fn of_giving_up(transport: &str) -> &'static str {
    match transport {
        "stdio" => "run its command by itself to see what it says, then correct the entry",
        _ => "look whether its URL is right and answers, then correct the entry",
    }
}

/// A cure, and a second one in the same line.
pub(super) fn and(cure: String, second: Option<String>) -> String {
    match second {
        Some(second) => format!("{cure}; {second}"),
        None => cure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn withheld() -> Withheld {
        let host = [("HTTPS_PROXY", "v"), ("MY_KEY", "v")].map(|(n, v)| (n.to_owned(), v.to_owned()));
        Withheld::of(&host.into(), &[])
    }

    #[test]
    fn withheld_variables_that_stderr_suggests_are_told_with_every_end_of_a_child_that_ran() {
        let exited = LinkFault::Exited { code: Some(1), signal: None, stderr: String::new() };
        for fault in
            [exited, LinkFault::Closed, LinkFault::TimedOut("t".into()), LinkFault::Config("c".into())]
        {
            let cure = of(&fault, "MY_KEY is not set; no proxy", &withheld()).unwrap();
            assert!(cure.contains("MY_KEY") && cure.contains("HTTPS_PROXY"), "{fault:?}: {cure}");
            assert!(cure.contains("env_passthrough"), "{cure}");
        }
        assert_eq!(of(&LinkFault::Closed, "", &withheld()), None, "nothing suggests one of them");
        assert_eq!(of(&LinkFault::Closed, "", &Withheld::default()), None);
    }

    #[test]
    fn a_program_that_never_ran_missed_no_variable() {
        let fault = LinkFault::Config(format!("{COMMAND_NOT_FOUND}: npx"));
        let cure = of(&fault, "", &withheld()).unwrap();
        assert!(cure.starts_with("install it"), "{cure}");
        assert!(!cure.contains("HTTPS_PROXY"), "{cure}");
    }

    #[test]
    fn the_cure_of_the_fault_comes_first() {
        let cure = of(&LinkFault::Config("exit 126".into()), "MY_KEY", &withheld()).unwrap();
        assert!(cure.starts_with("correct the entry") && cure.contains("; set here but withheld"), "{cure}");
    }
}
