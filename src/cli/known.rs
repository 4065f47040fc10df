//! Floor 5. What completion knows of the command line so far, and of what servers offer: the
//! catalogues that were kept. Reads files; starts and contacts nothing. Used by `complete`.

use clap::{ArgMatches, CommandFactory, FromArgMatches};
use clap_complete::CompletionCandidate;

use super::args::{Cli, Global};
use super::ctx::load_options;
use crate::catalog::items::{Item, ListKind};
use crate::config::load::{Loaded, load};
use crate::config::spec::EntryState;
use crate::shaping::redact::Redactor;
use crate::shaping::render::{one_line, printable};
use crate::transport::kept;

/// Columns of the words beside a candidate.
const ABOUT_WIDTH_MAX: usize = 60;

/// What was typed before the word that is completed.
#[derive(Debug, Default)]
pub struct Typed {
    global: Global,
    server: Option<String>,
}

impl Typed {
    /// From the words of this process: a shell's script hands the line over after `--`.
    pub fn of_process() -> Self {
        Self::of(std::env::args().skip_while(|word| word != "--").skip(1))
    }

    /// From a line, the program's name first. What can't be understood is left out.
    pub fn of(line: impl IntoIterator<Item = String>) -> Self {
        let Ok(matches) = Cli::command().ignore_errors(true).try_get_matches_from(line) else {
            return Self::default();
        };
        let global = Global::from_arg_matches(&matches).unwrap_or_default();
        let mut deepest: &ArgMatches = &matches;
        while let Some((_, below)) = deepest.subcommand() {
            deepest = below;
        }
        let server = deepest.try_get_one::<String>("server").ok().flatten().cloned();
        Self { global, server }
    }

    /// The configuration that the line means.
    pub fn load(&self) -> Loaded {
        load(&load_options(&self.global))
    }
}

/// The items of that kind that the server on the line offered when it was last seen.
pub fn items(typed: &Typed, kind: ListKind) -> Vec<CompletionCandidate> {
    typed.server.as_deref().map_or_else(Vec::new, |server| of_server(&typed.load(), server, kind))
}

fn of_server(loaded: &Loaded, server: &str, kind: ListKind) -> Vec<CompletionCandidate> {
    let (Some(entry), Ok(home)) = (loaded.servers.get(server), &loaded.home) else { return Vec::new() };
    let EntryState::Ready(spec) = &entry.state else { return Vec::new() };
    let kept = kept::load(&kept::folder(home), std::iter::once(entry));
    let Some(kept) = kept.get(&entry.id) else { return Vec::new() };
    let redactor = Redactor::new(&loaded.servers.secrets);
    let listed = |item: &Item| kind != ListKind::Tools || spec.filter.keeps(&item.name);
    let items = kept.catalog.list(kind).items.iter();
    items
        .filter(|item| listed(item) && is_plain(&item.name))
        .map(|item| {
            let about = item.title.as_ref().or(item.description.as_ref()).map(|about| {
                let first = printable(about);
                one_line(&redactor.text(first.lines().next().unwrap_or_default()), ABOUT_WIDTH_MAX)
            });
            CompletionCandidate::new(&item.name).help(about.filter(|about| !about.is_empty()).map(Into::into))
        })
        .collect()
}

/// Whether every shell takes the word as it is: what others named must not become a command when
/// it is put on the line.
pub fn is_plain(word: &str) -> bool {
    let plain = |c: char| c.is_alphanumeric() || "_-.:/@+%,".contains(c);
    !word.is_empty() && !word.starts_with('-') && word.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::catalog::items::ServerCatalog;
    use crate::cli::ctx::Ctx;
    use crate::config::spec::Entry;
    use crate::id::Generation;

    fn typed(line: &str) -> (Option<String>, usize) {
        let typed = Typed::of(line.split(' ').map(str::to_owned));
        (typed.server, typed.global.mcp_config.len())
    }

    #[test]
    fn the_server_is_found_on_lines_that_are_not_whole() {
        for (line, server) in [
            ("callboard mcp call fs ", Some("fs")),
            ("callboard mcp call fs re", Some("fs")),
            ("callboard mcp call --timeout 5 fs re", Some("fs")),
            ("callboard mcp why fs x", Some("fs")),
            ("callboard mcp read docs", Some("docs")),
            ("callboard mcp prompt docs ", Some("docs")),
            ("callboard mcp", None),
            ("callboard", None),
        ] {
            assert_eq!(typed(line).0.as_deref(), server, "{line}");
        }
        assert_eq!(typed("callboard --mcp-config a.json mcp call fs "), (Some("fs".to_owned()), 1));
        assert_eq!(typed("callboard mcp call fs t --mcp-config a.json").1, 1);
    }

    fn item(name: &str, description: &str) -> Arc<Item> {
        let raw = format!("{{\"name\":\"{name}\",\"description\":\"{description}\",\"inputSchema\":{{}}}}");
        Arc::new(Item {
            raw: raw.into(),
            name: name.to_owned(),
            name_span: 8..10 + name.len(),
            title: None,
            description: Some(description.to_owned()),
            input_schema: None,
            hints: Default::default(),
            notes: Vec::new(),
            edits: Vec::new(),
            fingerprint: None,
        })
    }

    fn names(loaded: &Loaded, server: &str, kind: ListKind) -> Vec<String> {
        let candidates = of_server(loaded, server, kind);
        candidates.iter().map(|candidate| candidate.get_value().to_string_lossy().into_owned()).collect()
    }

    fn keep(home: &std::path::Path, entry: &Entry) {
        let mut catalog = ServerCatalog::empty(entry.id.clone(), Generation(1));
        catalog.listed = true;
        catalog.tools.items = vec![
            item("read", "Reads"),
            item("hidden", ""),
            item("$(boom)", ""),
            item("a b", ""),
            item("-x", ""),
        ];
        kept::write(&kept::folder(home), entry, &catalog).unwrap();
    }

    #[test]
    fn tools_of_an_earlier_run_are_offered_but_none_that_a_shell_would_run() {
        let home = tempfile::tempdir().unwrap();
        let user = r#"{"mcpServers":{"s":{"command":"x","tools":{"exclude":["hid*"]}},"off":{"command":"x","enabled":false}}}"#;
        std::fs::write(home.path().join("mcp.json"), user).unwrap();
        let ctx = Ctx::for_test(home.path(), &[]);
        assert!(names(&ctx.loaded, "s", ListKind::Tools).is_empty(), "nothing is known yet");
        for server in ["s", "off"] {
            keep(home.path(), ctx.entry(server).unwrap());
        }
        assert_eq!(names(&ctx.loaded, "s", ListKind::Tools), ["read"]);
        assert!(names(&ctx.loaded, "s", ListKind::Prompts).is_empty());
        assert!(names(&ctx.loaded, "off", ListKind::Tools).is_empty(), "it is turned off");
        assert!(names(&ctx.loaded, "none", ListKind::Tools).is_empty());
    }
}
