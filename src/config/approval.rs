//! Floor 1. Approvals of project entries: what one is bound to, and whether it covers an
//! entry as it is now. The file is kept by `config::approvals`; called by `merge` and the edges.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// One approval: this name, in this project, exactly as written then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// Name of the server.
    pub name: String,
    /// Root of the project, absolute.
    pub project: PathBuf,
    /// Hash of the whole unexpanded entry.
    pub hash: String,
    /// The program that the command meant then; `None` for addresses and for a command that
    /// was not found.
    pub command: Option<PathBuf>,
    /// RFC 3339 time, for display.
    pub approved_at: String,
}

/// Whether an entry is approved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is, as it stands.
    Approved,
    /// Nobody approved this name in this project.
    Never,
    /// It was approved, but the entry has been edited since.
    Edited,
    /// It was approved, but its command means another program now.
    OtherProgram {
        /// The program that was approved.
        approved: Option<PathBuf>,
        /// The program that it would be now.
        now: Option<PathBuf>,
    },
}

/// Looks an entry up. `program` is called only when the hash matches: before that nothing of
/// an entry may be expanded.
pub fn verdict(
    approvals: &[Approval],
    project: &Path,
    name: &str,
    hash: &str,
    program: impl FnOnce() -> Option<PathBuf>,
) -> Verdict {
    let mut of_name =
        approvals.iter().filter(|approval| approval.name == name && approval.project == project);
    let Some(approval) = of_name.clone().find(|approval| approval.hash == hash) else {
        return if of_name.next().is_some() { Verdict::Edited } else { Verdict::Never };
    };
    let now = program();
    if approval.command == now {
        Verdict::Approved
    } else {
        Verdict::OtherProgram { approved: approval.command.clone(), now }
    }
}

impl Verdict {
    /// Why the entry waits, for an issue; `None` when it is approved.
    pub fn reason(&self) -> Option<String> {
        let show = |path: &Option<PathBuf>| match path {
            Some(path) => path.display().to_string(),
            None => "nothing that can be found".into(),
        };
        match self {
            Self::Approved => None,
            Self::Never => Some("comes from the project and waits for approval".into()),
            Self::Edited => Some("was edited since it was approved, and waits for approval again".into()),
            Self::OtherProgram { approved, now } => Some(format!(
                "its command meant {} when it was approved, and means {} now; waits for approval again",
                show(approved),
                show(now)
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn approval(hash: &str, command: Option<&str>) -> Approval {
        Approval {
            name: "s".into(),
            project: "/p".into(),
            hash: hash.into(),
            command: command.map(PathBuf::from),
            approved_at: String::new(),
        }
    }

    fn ask(approvals: &[Approval], project: &str, name: &str, hash: &str, now: Option<&str>) -> Verdict {
        verdict(approvals, Path::new(project), name, hash, || now.map(PathBuf::from))
    }

    #[test]
    fn only_the_same_name_project_hash_and_program_is_approved() {
        let list = [approval("h", Some("/bin/x"))];
        assert_eq!(ask(&list, "/p", "s", "h", Some("/bin/x")), Verdict::Approved);
        assert_eq!(ask(&list, "/p", "S", "h", Some("/bin/x")), Verdict::Never);
        assert_eq!(ask(&list, "/p/q", "s", "h", Some("/bin/x")), Verdict::Never);
        assert_eq!(ask(&list, "/p", "s", "i", Some("/bin/x")), Verdict::Edited);
        for now in [Some("/usr/bin/x"), None] {
            assert!(matches!(ask(&list, "/p", "s", "h", now), Verdict::OtherProgram { .. }));
        }
        let unknown = [approval("h", None)];
        assert_eq!(ask(&unknown, "/p", "s", "h", None), Verdict::Approved);
        assert!(matches!(ask(&unknown, "/p", "s", "h", Some("/bin/x")), Verdict::OtherProgram { .. }));
        assert_eq!(ask(&[], "/p", "s", "h", None), Verdict::Never);
    }

    #[test]
    fn the_program_is_not_looked_up_before_the_hash_matches() {
        let list = [approval("h", None)];
        for hash in ["i", ""] {
            let verdict = verdict(&list, Path::new("/p"), "s", hash, || panic!("expanded too early"));
            assert_eq!(verdict, Verdict::Edited);
        }
    }

    #[test]
    fn every_verdict_but_one_has_a_reason() {
        assert_eq!(Verdict::Approved.reason(), None);
        let other = Verdict::OtherProgram { approved: None, now: Some("/bin/x".into()) };
        for verdict in [Verdict::Never, Verdict::Edited, other] {
            assert!(
                verdict.reason().is_some_and(|reason| reason.contains("waits for approval")),
                "{verdict:?}"
            );
        }
    }
}
