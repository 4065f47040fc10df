//! Floor 5. `callboard explain [CODE]`: shows the page of a code, of an exit code, or
//! the list of all. Reads nothing. Called by `cli::run`.

use serde::Serialize;

use super::exit::Exit;
use super::failure::{Failure, nearest};
use super::out::{Answer, Style, Tone};
use super::pages::{self, Page, find};
use super::table::{Column, Field, table};
use crate::config::issue::IssueCode;
use crate::policy::access;

const SCHEMA: &str = "callboard.explain/1";

#[derive(Serialize)]
struct PageView {
    code: &'static str,
    title: &'static str,
    meaning: &'static str,
    execution: &'static str,
    fix: &'static str,
}

impl From<&Page> for PageView {
    fn from(page: &Page) -> Self {
        Self {
            code: page.code,
            title: page.title,
            meaning: page.meaning,
            execution: page.execution,
            fix: page.cure,
        }
    }
}

#[derive(Serialize)]
struct ExitView {
    exit_code: u8,
    meaning: &'static str,
}

#[derive(Serialize)]
struct PolicyView {
    table: &'static str,
}

/// The word for the whole order of the policy.
pub const POLICY: &str = "policy";

#[derive(Serialize)]
struct AllView {
    codes: Vec<PageView>,
    exit_codes: Vec<ExitView>,
}

/// The answer of `explain`.
pub fn explain(code: Option<&str>, style: Style) -> Result<Answer, Failure> {
    let Some(code) = code else { return all(style) };
    if let Some((exit, meaning)) = Exit::ALL.iter().find(|(exit, _)| exit.code().to_string() == code) {
        let view = ExitView { exit_code: exit.code(), meaning };
        return Answer::new(SCHEMA, &view, format!("exit code {}: {meaning}", exit.code()));
    }
    if code == POLICY {
        return Answer::new(SCHEMA, &PolicyView { table: access::TABLE }, access::TABLE.trim_end());
    }
    let word = code.trim().to_lowercase().replace('-', "_");
    match find(&word) {
        Some(page) => Answer::new(SCHEMA, &PageView::from(page), page_text(page, style)),
        None => {
            let near = nearest(&word, pages::all().map(|p| p.code));
            let fix = near.map_or_else(
                || "`callboard explain` lists all codes".to_owned(),
                |near| format!("did you mean {near}? `callboard explain` lists all codes"),
            );
            let shown = super::text::quoted(code);
            Err(Failure::usage(format!("there is no code {shown}")).fix(fix))
        }
    }
}

fn all(style: Style) -> Result<Answer, Failure> {
    let rows: Vec<Vec<Field>> = pages::all()
        .map(|page| vec![Field::toned(page.code, Tone::Strong), Field::new(page.title)])
        .collect();
    let exits: Vec<Vec<Field>> = Exit::ALL
        .iter()
        .map(|(exit, meaning)| {
            vec![Field::toned(exit.code().to_string(), Tone::Strong), Field::new(*meaning)]
        })
        .collect();
    let human = format!(
        "{}\n\n{}",
        table(&[Column::wide("code", 18), Column::text("meaning")], &rows, style),
        table(&[Column::number("exit"), Column::text("meaning")], &exits, style),
    );
    let view = AllView {
        codes: pages::all().map(PageView::from).collect(),
        exit_codes: Exit::ALL
            .iter()
            .map(|(exit, meaning)| ExitView { exit_code: exit.code(), meaning })
            .collect(),
    };
    Answer::new(SCHEMA, &view, human)
}

fn page_text(page: &Page, style: Style) -> String {
    let head = format!("{}: {}", style.paint(Tone::Strong, page.code), page.title);
    let part = |name: &str, text: &str| format!("{}\n{}", style.paint(Tone::Dim, name), wrap(text, style));
    format!(
        "{head}\n\n{}\n\n{}\n\n{}",
        part("What happened", page.meaning),
        part(if of_configuration(page) { "What is in force" } else { "Did it run?" }, page.execution),
        part("What to do", page.cure),
    )
}

/// Whether a page is about a file rather than about a call.
fn of_configuration(page: &Page) -> bool {
    IssueCode::ALL.iter().any(|code| code.as_str() == page.code)
}

/// Columns that a paragraph takes at most: longer lines are hard to read.
const PARAGRAPH_WIDTH_MAX: usize = 96;

fn wrap(text: &str, style: Style) -> String {
    let width = usize::from(style.width.unwrap_or(u16::MAX)).clamp(20, PARAGRAPH_WIDTH_MAX);
    let mut out = String::from("  ");
    let mut used = 2;
    for word in text.split(' ') {
        let len = word.chars().count();
        if used > 2 && used + 1 + len > width {
            out.push_str("\n  ");
            used = 2;
        } else if used > 2 {
            out.push(' ');
            used += 1;
        }
        out.push_str(word);
        used += len;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::ErrorCode;

    #[test]
    fn every_code_can_be_explained_in_both_forms() {
        for code in ErrorCode::ALL {
            let answer = explain(Some(code.as_str()), Style::PLAIN).unwrap();
            assert!(answer.human.starts_with(&format!("{code}: ")), "{}", answer.human);
            assert!(answer.human.contains("Did it run?"));
            let data: serde_json::Value = serde_json::from_str(answer.data.get()).unwrap();
            assert_eq!(data["code"], code.as_str());
        }
    }

    #[test]
    fn a_misspelt_code_gets_a_suggestion_and_an_exit_code_an_answer() {
        let failure = explain(Some("conection_lost"), Style::PLAIN).unwrap_err();
        assert_eq!(failure.exit, Exit::Usage);
        assert!(failure.fix.unwrap().contains("connection_lost"));
        assert!(explain(Some("8"), Style::PLAIN).unwrap().human.contains("outcome unknown"));
        assert!(explain(Some("Connection-Lost"), Style::PLAIN).is_ok());
    }

    #[test]
    fn the_list_names_every_code() {
        let answer = explain(None, Style::PLAIN).unwrap();
        for page in pages::all() {
            assert!(answer.human.contains(page.code));
        }
    }

    #[test]
    fn paragraphs_fit_narrow_screens() {
        let style = Style { color: false, width: Some(40) };
        let answer = explain(Some("busy"), style).unwrap();
        assert!(answer.human.lines().all(|line| line.chars().count() <= 60), "{}", answer.human);
    }
}
