//! Floor 5. A table of markdown, fitted to the width of the screen. Pure. Used by `markdown`.

use unicode_width::UnicodeWidthStr;

use super::inline::{Inline, Look};
use crate::cli::out::{Style, Tone};

/// Between two columns.
const GAP: &str = "  ";
/// A column is never made narrower, in columns of the screen.
const COLUMN_MIN: usize = 6;

/// The rows of a table, as written, as a table for a screen of that many columns.
pub fn grid(rows: &[String], style: Style, width: usize) -> String {
    let rules = rows.iter().map(|row| is_rule(row));
    let has_head = rules.clone().nth(1) == Some(true);
    let rows: Vec<Vec<String>> =
        rows.iter().zip(rules).filter(|(_, rule)| !rule).map(|(row, _)| cells(row)).collect();
    let count = rows.iter().map(Vec::len).max().unwrap_or_default();
    let look = Look { style, tone: Tone::Plain };
    let natural = |at: usize| {
        let widths = rows.iter().filter_map(|row| row.get(at)).map(|cell| Inline::line(cell, look).1);
        widths.max().unwrap_or_default().max(1)
    };
    let widths =
        fitted((0..count).map(natural).collect(), width.saturating_sub(GAP.len() * count.saturating_sub(1)));
    let mut out = String::new();
    for (at, row) in rows.iter().enumerate() {
        let head = at == 0 && has_head;
        out.push_str(&lines(
            row,
            &widths,
            Look { style, tone: if head { Tone::Strong } else { Tone::Plain } },
        ));
        if head {
            let rule: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
            out.push_str(&style.paint(Tone::Dim, &rule.join(GAP)));
            out.push('\n');
        }
    }
    out
}

fn is_rule(row: &str) -> bool {
    row.contains('-') && row.chars().all(|c| "|-: ".contains(c))
}

/// The cells of a row; `\|` is a letter.
fn cells(row: &str) -> Vec<String> {
    let row = row.strip_prefix('|').unwrap_or(row);
    let mut cells = vec![String::new()];
    let mut chars = row.chars().peekable();
    while let Some(c) = chars.next() {
        let last = cells.len() - 1;
        match c {
            '\\' if chars.peek() == Some(&'|') => cells[last].extend(chars.next()),
            '|' => cells.push(String::new()),
            c => cells[last].push(c),
        }
    }
    if cells.last().is_some_and(|cell| cell.trim().is_empty()) {
        cells.pop();
    }
    cells.iter().map(|cell| cell.trim().to_owned()).collect()
}

/// The widths, made smaller from the widest on until all fit.
fn fitted(mut widths: Vec<usize>, room: usize) -> Vec<usize> {
    while widths.iter().sum::<usize>() > room {
        let Some(widest) = widths.iter_mut().max().filter(|widest| **widest > COLUMN_MIN) else { break };
        *widest -= 1;
    }
    widths
}

/// One row, whose cells may take several lines.
fn lines(row: &[String], widths: &[usize], look: Look) -> String {
    let wrapped: Vec<Vec<String>> = widths
        .iter()
        .enumerate()
        .map(|(at, width)| wrap(row.get(at).map_or("", String::as_str), *width))
        .collect();
    let height = wrapped.iter().map(Vec::len).max().unwrap_or_default();
    let mut out = String::new();
    for at in 0..height {
        let mut line = String::new();
        for (column, width) in widths.iter().enumerate() {
            let text = wrapped[column].get(at).map_or("", String::as_str);
            let (shown, columns) = Inline::line(text, look);
            line.push_str(&shown);
            if column + 1 < widths.len() {
                line.push_str(&" ".repeat(width.saturating_sub(columns)));
                line.push_str(GAP);
            }
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// A text in lines of at most that width; a word that is wider is cut.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let mut word = word.to_owned();
        loop {
            let last = lines.len() - 1;
            let used = lines[last].width();
            let gap = usize::from(used > 0);
            if used + gap + word.width() <= width {
                lines[last].push_str(if gap > 0 { " " } else { "" });
                lines[last].push_str(&word);
                break;
            }
            if used > 0 {
                lines.push(String::new());
                continue;
            }
            let mut cut = 0;
            let mut columns = 0;
            for c in word.chars() {
                let wide = unicode_width::UnicodeWidthChar::width(c).unwrap_or_default();
                if columns + wide > width && cut > 0 {
                    break;
                }
                columns += wide;
                cut += c.len_utf8();
            }
            lines[last] = word[..cut].to_owned();
            word = word[cut..].to_owned();
            if word.is_empty() {
                break;
            }
            lines.push(String::new());
        }
    }
    lines
}
