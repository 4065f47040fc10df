//! The page about commands says nothing that can't be typed.

use callboard::cli::args::Cli;
use callboard::cli::repl::input::{self, Input};
use callboard::cli::repl::words::texts;
use callboard::cli::serve_args::implied;
use clap::Parser;

const PAGE: &str = include_str!("../../docs/commands.md");

/// The cells of the rows of a table, without its two first lines.
fn rows(after: &str) -> Vec<Vec<String>> {
    let from = PAGE.find(after).unwrap();
    let lines = PAGE[from..].lines().skip_while(|line| !line.starts_with('|')).skip(2);
    let rows = lines.take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect()).collect()
}

fn is_understood(line: &str) -> bool {
    let program = |words: Vec<String>| {
        let argv = words.into_iter().map(Into::into).collect::<Vec<_>>();
        Cli::try_parse_from(implied(&argv)).is_ok()
    };
    match line.strip_prefix("/mcp") {
        _ if line.starts_with("callboard") => program(texts(line)),
        Some(verb) if verb.is_empty() || verb.starts_with(' ') => {
            let words = ["callboard", "mcp"].map(str::to_owned).into_iter().chain(texts(verb));
            matches!(input::read(line), Input::Command(..)) && (verb.is_empty() || program(words.collect()))
        }
        _ => matches!(input::read(line), Input::Command(..) | Input::Prompt(..)),
    }
}

#[test]
fn every_command_of_the_forerunners_has_a_counterpart_that_can_be_typed() {
    let rows = rows("## Coming from elsewhere");
    for source in ["Agent8088", "AgInTiFlow", "Agenvoy"] {
        assert!(rows.iter().filter(|row| row[0] == source).count() >= 8, "{source}");
    }
    for row in &rows {
        let here = row[2].trim_matches('`');
        assert!(is_understood(here), "{row:?}");
    }
    for odd in ["/nope", "/mcp nope", "callboard mcp nope"] {
        assert!(!is_understood(odd), "{odd}");
    }
}

#[test]
fn every_command_is_on_the_page() {
    for command in input::COMMANDS {
        assert!(PAGE.contains(&format!("`/{}", command.names[0])), "/{}", command.names[0]);
    }
}
