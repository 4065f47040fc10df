//! Floor 5. Tables and sheets for people: fitted to the screen with colour there,
//! plain lines with stable columns in a pipe. Pure. Used by every listing verb.

use comfy_table::{
    Attribute, Cell, CellAlignment, Color, ColumnConstraint, ContentArrangement, Table, Width, presets,
};

use super::out::{Style, Tone};

/// One cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Field {
    /// Its text; printable.
    pub text: String,
    /// What it means.
    pub tone: Tone,
}

impl Field {
    /// Text without special meaning.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), tone: Tone::Plain }
    }

    /// Text with a meaning.
    pub fn toned(text: impl Into<String>, tone: Tone) -> Self {
        Self { text: text.into(), tone }
    }
}

/// A column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its heading.
    pub head: &'static str,
    /// Whether it holds numbers.
    pub right: bool,
    /// Columns of the screen that it keeps even when space is short.
    pub width_min: u16,
}

impl Column {
    /// A column of text.
    pub const fn text(head: &'static str) -> Self {
        Self { head, right: false, width_min: 4 }
    }

    /// A column of numbers.
    pub const fn number(head: &'static str) -> Self {
        Self { head, right: true, width_min: 3 }
    }

    /// A column that is never squeezed below `width_min`.
    pub const fn wide(head: &'static str, width_min: u16) -> Self {
        Self { head, right: false, width_min }
    }
}

/// A table with a heading line. In a pipe an empty cell is `-`, so that columns can be counted.
pub fn table(columns: &[Column], rows: &[Vec<Field>], style: Style) -> String {
    if style.width.is_some_and(|width| usize::from(width) < width_least(columns)) {
        return stacked(columns, rows, style);
    }
    let mut table = base(style);
    table.set_header(columns.iter().map(|c| cell(&Field::toned(c.head, Tone::Strong), c.right, style)));
    for row in rows {
        table.add_row(row.iter().enumerate().map(|(i, field)| {
            let right = columns.get(i).is_some_and(|c| c.right);
            if field.text.is_empty() && style.width.is_none() {
                cell(&Field::new("-"), right, style)
            } else {
                cell(field, right, style)
            }
        }));
    }
    if style.width.is_some() {
        for (i, column) in columns.iter().enumerate() {
            if let Some(c) = table.column_mut(i) {
                c.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(column.width_min)));
            }
        }
    }
    tidy(&table, style)
}

/// Columns of the screen below which a table can't be read.
fn width_least(columns: &[Column]) -> usize {
    const GAP: usize = 2;
    columns.iter().map(|column| usize::from(column.width_min) + GAP).sum::<usize>().saturating_sub(GAP)
}

/// The same rows on a screen that is too narrow for a table: one value on a line.
fn stacked(columns: &[Column], rows: &[Vec<Field>], style: Style) -> String {
    let sheets = rows.iter().map(|row| {
        let named: Vec<(&str, Field)> = columns.iter().map(|c| c.head).zip(row.iter().cloned()).collect();
        sheet(&named, style)
    });
    sheets.collect::<Vec<_>>().join("\n\n")
}

/// Names and values below each other; values wrap beside the names, empty ones are left out.
pub fn sheet(rows: &[(&str, Field)], style: Style) -> String {
    let mut table = base(style);
    for (name, field) in rows.iter().filter(|(_, field)| !field.text.is_empty()) {
        table.add_row([cell(&Field::toned(*name, Tone::Dim), false, style), cell(field, false, style)]);
    }
    if let Some(names) = table.column_mut(0) {
        names.set_constraint(ColumnConstraint::ContentWidth);
    }
    tidy(&table, style)
}

fn base(style: Style) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    match style.width {
        Some(width) => {
            table.set_content_arrangement(ContentArrangement::Dynamic);
            table.set_width(width);
        }
        None => {
            table.set_content_arrangement(ContentArrangement::Disabled);
        }
    }
    if style.color {
        table.enforce_styling();
        table.style_text_only();
    } else {
        table.force_no_tty();
    }
    table
}

fn cell(field: &Field, right: bool, style: Style) -> Cell {
    let mut cell = Cell::new(&field.text);
    if right {
        cell = cell.set_alignment(CellAlignment::Right);
    }
    if !style.color {
        return cell;
    }
    match field.tone {
        Tone::Plain => cell,
        Tone::Good => cell.fg(Color::Green),
        Tone::Warn => cell.fg(Color::Yellow),
        Tone::Bad => cell.fg(Color::Red),
        Tone::Dim => cell.add_attribute(Attribute::Dim),
        Tone::Strong => cell.add_attribute(Attribute::Bold),
        Tone::Code => cell.fg(Color::Cyan),
        Tone::Italic => cell.add_attribute(Attribute::Italic),
    }
}

/// Takes the left margin and trailing blanks off.
fn tidy(table: &Table, style: Style) -> String {
    let mut out = String::new();
    for (i, line) in table.lines().enumerate() {
        if i > 0 {
            out.push('\n');
        }
        let line = line.strip_prefix(' ').unwrap_or(&line);
        out.push_str(if style.color { line } else { line.trim_end() });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const COLUMNS: [Column; 3] = [Column::text("server"), Column::number("tools"), Column::text("why")];

    fn rows() -> Vec<Vec<Field>> {
        vec![
            vec![Field::new("git"), Field::new("12"), Field::new("")],
            vec![
                Field::toned("filesystem", Tone::Bad),
                Field::new("0"),
                Field::new("command not found: npx; install Node, or write an absolute path"),
            ],
        ]
    }

    #[test]
    fn a_pipe_gets_whole_plain_lines_with_every_column() {
        let text = table(&COLUMNS, &rows(), Style::PLAIN);
        assert_eq!(
            text,
            "server      tools  why\n\
             git            12  -\n\
             filesystem      0  command not found: npx; install Node, or write an absolute path"
        );
    }

    #[test]
    fn a_screen_gets_lines_that_fit() {
        let text = table(&COLUMNS, &rows(), Style { color: false, width: Some(40) });
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
        assert!(text.lines().count() > 3, "long text must wrap, not vanish: {text}");
    }

    #[test]
    fn a_screen_too_narrow_for_a_table_gets_one_value_on_a_line() {
        let many: Vec<Column> = (0..8).map(|_| Column::text("column")).collect();
        let row: Vec<Field> = (0..8).map(|n| Field::new(format!("value-{n}"))).collect();
        for width in [20, 30, 40] {
            let text = table(&many, &[row.clone(), row.clone()], Style { color: false, width: Some(width) });
            assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)), "{width}: {text}");
            assert_eq!(text.matches("value-7").count(), 2, "nothing is cut: {text}");
        }
    }

    #[test]
    fn colour_marks_the_cell_alone() {
        let text = table(&COLUMNS, &rows(), Style { color: true, width: Some(100) });
        assert!(text.contains("\u{1b}["), "{text:?}");
        assert!(!table(&COLUMNS, &rows(), Style { color: false, width: Some(100) }).contains('\u{1b}'));
    }

    #[test]
    fn a_sheet_leaves_out_what_is_empty() {
        let text = sheet(
            &[("state", Field::new("ready")), ("why", Field::new("")), ("pid", Field::new("12"))],
            Style::PLAIN,
        );
        assert_eq!(text, "state  ready\npid    12");
    }

    proptest! {
        #[test]
        fn no_width_makes_a_line_too_long(width in 20_u16..200, words in "[a-z ]{0,300}") {
            let rows = vec![vec![Field::new("server-name"), Field::new("3"), Field::new(words)]];
            let text = table(&COLUMNS, &rows, Style { color: false, width: Some(width) });
            for line in text.lines() {
                prop_assert!(line.chars().count() <= usize::from(width), "{line:?} at {width}");
            }
        }
    }
}
