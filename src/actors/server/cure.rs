//! What cures a fault, in one line: for the view of the server and for the errors of its calls.
//! Pure.

use crate::config::child_env::Withheld;
use crate::transport::LinkFault;

/// The cure of a failed start or an unexpected end, if there is one. `stderr` is what the child
/// wrote last; nothing of it gets into the text but names of our own variables.
pub(super) fn of(fault: &LinkFault, stderr: &str, withheld: &Withheld) -> Option<String> {
    let cure = match fault {
        LinkFault::Config(_) => Some("correct the entry, then run the command again".to_owned()),
        LinkFault::NeedsAuth(_) => Some("set `headers` or `bearer_token_env` of this server".to_owned()),
        _ => None,
    };
    // A program that never ran missed no variable.
    let ran = !matches!(fault, LinkFault::Config(_)) || !stderr.trim().is_empty();
    let hint = ran.then(|| withheld.hint(stderr)).flatten();
    match cure {
        Some(cure) => Some(and(cure, hint)),
        None => hint,
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
    fn withheld_variables_are_told_with_every_end_of_a_child_that_ran() {
        let exited = LinkFault::Exited { code: Some(1), signal: None, stderr: String::new() };
        for fault in
            [exited, LinkFault::Closed, LinkFault::TimedOut("t".into()), LinkFault::Config("c".into())]
        {
            let cure = of(&fault, "MY_KEY is not set", &withheld()).unwrap();
            assert!(cure.contains("MY_KEY") && cure.contains("HTTPS_PROXY"), "{fault:?}: {cure}");
            assert!(cure.contains("env_passthrough"), "{cure}");
        }
        assert!(of(&LinkFault::Closed, "", &withheld()).unwrap().contains("HTTPS_PROXY"));
        assert_eq!(of(&LinkFault::Closed, "", &Withheld::default()), None);
    }

    #[test]
    fn a_program_that_never_ran_missed_no_variable() {
        let cure = of(&LinkFault::Config("command not found".into()), "", &withheld()).unwrap();
        assert!(!cure.contains("HTTPS_PROXY"), "{cure}");
    }

    #[test]
    fn the_cure_of_the_fault_comes_first() {
        let cure = of(&LinkFault::Config("exit 126".into()), "MY_KEY", &withheld()).unwrap();
        assert!(cure.starts_with("correct the entry") && cure.ends_with("`env_passthrough`"), "{cure}");
    }
}
