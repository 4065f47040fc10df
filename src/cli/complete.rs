//! Floor 5. Completion in shells: prints the script for a shell, and answers the
//! shell when that script asks. Starts no server: tools, resources and prompts are those of the
//! catalogues that earlier runs kept. Called by `cli::main`.

use clap::CommandFactory;
use clap_complete::CompletionCandidate;
use clap_complete::env::{Bash, CompleteEnv, Elvish, EnvCompleter, Fish, Powershell, Zsh};
use serde::Serialize;

use super::args::{Cli, Shell};
use super::exit::Exit;
use super::failure::Failure;
use super::known::{Typed, is_plain, items};
use super::out::Answer;
use super::pages;
use crate::catalog::items::ListKind;
use crate::config::secret_store;
use crate::config::secret_uses::uses;
use crate::shaping::render::printable;

const SCHEMA: &str = "callboard.completions/1";

/// The variable by which a script asks us.
const ASK_VAR: &str = "COMPLETE";

#[derive(Serialize)]
struct ScriptView<'a> {
    shell: &'static str,
    script: &'a str,
}

/// Answers a shell that asks for candidates and ends the process; returns when none asks.
pub fn answer_shell() {
    CompleteEnv::with_factory(Cli::command).var(ASK_VAR).complete();
}

/// The configured servers, with what they run. Reads files; starts nothing.
pub fn servers() -> Vec<CompletionCandidate> {
    let loaded = Typed::of_process().load();
    let entries = loaded.servers.entries.iter().chain(&loaded.servers.pending);
    // A project's file may name a server as it likes: nothing that a shell would run is offered.
    entries
        .filter(|entry| is_plain(entry.id.as_str()))
        .map(|entry| {
            let about = printable(&entry.summary).into_owned();
            CompletionCandidate::new(entry.id.as_str()).help((!about.is_empty()).then(|| about.into()))
        })
        .collect()
}

/// The tools that the server on the line was last seen to offer.
pub fn tools() -> Vec<CompletionCandidate> {
    items(&Typed::of_process(), ListKind::Tools)
}

/// Its resources.
pub fn resources() -> Vec<CompletionCandidate> {
    items(&Typed::of_process(), ListKind::Resources)
}

/// Its prompts.
pub fn prompts() -> Vec<CompletionCandidate> {
    items(&Typed::of_process(), ListKind::Prompts)
}

/// The stored secrets, and those that entries read: names only.
pub fn secrets() -> Vec<CompletionCandidate> {
    let loaded = Typed::of_process().load();
    let home = loaded.home.as_deref().ok();
    let stored = home.and_then(|home| secret_store::read(home).ok()).unwrap_or_default();
    let mut names: Vec<String> = stored.into_keys().chain(uses(&loaded.definitions).into_keys()).collect();
    names.sort();
    names.dedup();
    names.into_iter().filter(|name| is_plain(name)).map(CompletionCandidate::new).collect()
}

/// The codes that can be explained.
pub fn codes() -> Vec<CompletionCandidate> {
    pages::all().map(|page| CompletionCandidate::new(page.code).help(Some(page.title.into()))).collect()
}

/// The answer of `completions SHELL`: the script.
pub fn script(shell: Shell) -> Result<Answer, Failure> {
    let completer: &dyn EnvCompleter = match shell {
        Shell::Bash => &Bash,
        Shell::Zsh => &Zsh,
        Shell::Fish => &Fish,
        Shell::Elvish => &Elvish,
        Shell::Powershell => &Powershell,
    };
    let mut script = Vec::new();
    completer
        .write_registration(ASK_VAR, "callboard", "callboard", "callboard", &mut script)
        .map_err(|e| Failure::io(Exit::Unhealthy, format!("can't write the script: {e}")))?;
    let script = String::from_utf8_lossy(&script).into_owned();
    Answer::new(SCHEMA, &ScriptView { shell: completer.name(), script: &script }, script.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shell_gets_a_script_that_asks_us() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Elvish, Shell::Powershell] {
            let answer = script(shell).unwrap();
            assert!(answer.human.contains("callboard"), "{shell:?}");
            assert!(answer.human.contains(ASK_VAR), "{shell:?}: {}", answer.human);
        }
    }
}
