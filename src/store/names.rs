//! Which files nobody who acts for a model may read or write, wherever they lie: names of
//! credentials, files that run code by themselves, our own configuration. Pure: it judges the real
//! path of a file that is already open. Called by `beneath`.

use std::path::{Component, Path};

/// What is to be done with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To read it.
    Read,
    /// To write it.
    Write,
}

/// Folders whose whole content is credentials.
const CREDENTIAL_FOLDERS: [&str; 11] = [
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker",
    ".password-store",
    "keyrings",
    "gcloud",
    ".callboard",
    "callboard",
];

/// Files that hold credentials.
const CREDENTIALS: [&str; 25] = [
    ".netrc",
    "_netrc",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".pgpass",
    ".my.cnf",
    ".htpasswd",
    ".dockercfg",
    ".vault-token",
    ".env",
    ".envrc",
    "credentials",
    "credentials.json",
    "credentials.toml",
    "credentials.db",
    "secrets.json",
    "shadow",
    "gshadow",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "token.json",
    "hosts.yml",
];

/// Endings of such files.
const CREDENTIAL_ENDINGS: [&str; 7] = [".pem", ".key", ".p12", ".pfx", ".kdbx", ".keystore", ".jks"];

/// Samples of a `.env`, which hold none.
const SAMPLES: [&str; 4] = [".env.example", ".env.sample", ".env.template", ".env.dist"];

/// Files that a shell, a desktop, a version control or a client of tools runs or obeys.
const STARTERS: [&str; 29] = [
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".kshrc",
    ".cshrc",
    ".tcshrc",
    ".login",
    ".xinitrc",
    ".xprofile",
    ".xsession",
    ".inputrc",
    ".vimrc",
    ".gitconfig",
    ".gitmodules",
    ".mcp.json",
    "mcp.json",
    "callboard.toml",
    "config.fish",
    "crontab",
    "sitecustomize.py",
    "usercustomize.py",
];

/// Folders whose files are run or obeyed, as the ends of their paths.
const STARTER_FOLDERS: [&[&str]; 8] = [
    &[".git"],
    &["conf.d"],
    &["autostart"],
    &["systemd", "user"],
    &["LaunchAgents"],
    &[".husky"],
    &[".vscode"],
    &[".claude"],
];

/// Why the file at this real path is out of reach, if it is.
pub fn forbidden(real: &Path, purpose: Purpose) -> Option<&'static str> {
    let parts: Vec<String> = real
        .components()
        .filter_map(|part| match part {
            Component::Normal(part) => Some(part.to_string_lossy().to_lowercase()),
            _ => None,
        })
        .collect();
    let (name, folders) = parts.split_last()?;
    if folders.iter().any(|folder| CREDENTIAL_FOLDERS.contains(&folder.as_str())) || is_credential(name) {
        return Some("it holds credentials, or is of a folder that does");
    }
    let within = |tail: &[&str]| {
        folders.windows(tail.len()).any(|run| run.iter().zip(tail).all(|(a, b)| *a == b.to_lowercase()))
    };
    let starts = STARTERS.contains(&name.as_str()) || STARTER_FOLDERS.iter().any(|tail| within(tail));
    (purpose == Purpose::Write && starts).then_some("what is written there is run or obeyed by itself")
}

fn is_credential(name: &str) -> bool {
    let dotenv = name.starts_with(".env.") && !SAMPLES.contains(&name);
    let of_key = name.strip_prefix("id_").is_some_and(|rest| !rest.ends_with(".pub"))
        && CREDENTIALS.iter().any(|known| known.starts_with("id_") && name.starts_with(known));
    let ends = CREDENTIAL_ENDINGS.iter().any(|ending| name.ends_with(ending));
    CREDENTIALS.contains(&name) || dotenv || of_key || ends
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(path: &str, purpose: Purpose) -> bool {
        forbidden(Path::new(path), purpose).is_some()
    }

    #[test]
    fn credentials_are_neither_read_nor_written() {
        for path in [
            "/h/.ssh/config",
            "/h/.SSH/known_hosts",
            "/h/.aws/config",
            "/h/.gnupg/x/y",
            "/p/.env",
            "/p/.env.local",
            "/p/.ENV.production",
            "/h/.netrc",
            "/h/.npmrc",
            "/p/id_rsa",
            "/p/id_ed25519.bak",
            "/p/server.pem",
            "/p/a.KEY",
            "/h/.callboard/mcp.json",
            "/etc/callboard/policy.toml",
            "/etc/shadow",
            "/h/.config/gcloud/x",
            "/h/.cargo/credentials.toml",
            "/h/.local/share/keyrings/login.keyring",
        ] {
            assert!(judged(path, Purpose::Read) && judged(path, Purpose::Write), "{path}");
        }
    }

    #[test]
    fn what_runs_by_itself_is_read_and_never_written() {
        for path in [
            "/h/.bashrc",
            "/h/.ZSHRC",
            "/h/.profile",
            "/p/.git/hooks/pre-commit",
            "/p/.git/config",
            "/p/.mcp.json",
            "/h/.config/fish/conf.d/x.fish",
            "/h/.config/autostart/x.desktop",
            "/h/.config/systemd/user/x.service",
            "/p/.vscode/tasks.json",
            "/h/.gitconfig",
            "/h/.cursor/mcp.json",
            "/p/sub/.git/modules/x/hooks/y",
        ] {
            assert!(!judged(path, Purpose::Read) && judged(path, Purpose::Write), "{path}");
        }
    }

    #[test]
    fn ordinary_files_are_both() {
        for path in [
            "/p/README.md",
            "/p/src/main.rs",
            "/p/.env.example",
            "/p/environment.ts",
            "/p/keys.rs",
            "/p/monkey",
            "/p/id_rsa.pub",
            "/p/.gitignore",
            "/p/.github/workflows/ci.yml",
            "/p/tokens.css",
            "/p/git/hooks/x",
            "/p/profile",
            "/p/credentials.md",
        ] {
            assert!(!judged(path, Purpose::Read) && !judged(path, Purpose::Write), "{path}");
        }
    }
}
