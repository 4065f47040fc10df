//! A home and a project in temporary folders, and a way to run the program there as a
//! script would: no terminal, an environment that holds nothing of the machine's.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// One user on one machine.
pub(crate) struct Home {
    root: TempDir,
}

impl Home {
    /// With nothing configured.
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for dir in ["home", "project"] {
            std::fs::create_dir(root.path().join(dir)).unwrap();
        }
        Self { root }
    }

    /// `CALLBOARD_HOME`.
    pub(crate) fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    /// The project, and the working folder of every command.
    pub(crate) fn project(&self) -> PathBuf {
        self.root.path().join("project")
    }

    /// A command of the program, ready to be given more.
    #[expect(clippy::disallowed_methods, reason = "programs that servers are started with are found on PATH")]
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_callboard"));
        command
            .args(words)
            .current_dir(self.project())
            .env_clear()
            .env("HOME", self.root.path())
            .env("CALLBOARD_HOME", self.home())
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .stdin(Stdio::null());
        command
    }

    /// Runs it to its end.
    pub(crate) fn run(&self, words: &[&str]) -> Ran {
        Ran::new(words, self.command(words).output().unwrap())
    }

    /// Runs it to its end with these variables too.
    pub(crate) fn run_env(&self, env: &[(&str, &str)], words: &[&str]) -> Ran {
        Ran::new(words, self.command(words).envs(env.iter().copied()).output().unwrap())
    }

    /// Runs it with that on stdin.
    pub(crate) fn run_with(&self, words: &[&str], stdin: &str) -> Ran {
        let mut child = self
            .command(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
        Ran::new(words, child.wait_with_output().unwrap())
    }

    /// Writes the user's own configuration.
    pub(crate) fn user(&self, text: &str) -> PathBuf {
        write(&self.home().join("mcp.json"), text)
    }

    /// Writes the project's configuration.
    pub(crate) fn project_file(&self, text: &str) -> PathBuf {
        write(&self.project().join(".mcp.json"), text)
    }
}

fn write(path: &Path, text: &str) -> PathBuf {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    path.to_owned()
}

/// A command that ended.
#[derive(Debug)]
pub(crate) struct Ran {
    /// The words, for messages.
    pub(crate) words: String,
    /// Exit code.
    pub(crate) code: i32,
    /// What it wrote to stdout.
    pub(crate) stdout: String,
    /// What it wrote to stderr.
    pub(crate) stderr: String,
}

impl Ran {
    fn new(words: &[&str], output: Output) -> Self {
        Self {
            words: words.join(" "),
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// The one JSON object on stdout, after checking the exit code.
    #[track_caller]
    pub(crate) fn json(&self, code: i32) -> Value {
        self.expect(code);
        assert_eq!(self.stdout.lines().count(), 1, "one object: {self:?}");
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// Checks the exit code.
    #[track_caller]
    pub(crate) fn expect(&self, code: i32) -> &Self {
        assert_eq!(self.code, code, "callboard {}\n{self:#?}", self.words);
        self
    }
}
