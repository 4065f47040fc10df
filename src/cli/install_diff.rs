//! Floor 5. The difference between two texts, as people read it: lines that go and lines that
//! come, with a few around them. Values that are not for the eyes are hidden first.
//! Used by `install`.

/// Lines around a change that are shown.
const AROUND: usize = 2;
/// Most lines on each side that are compared line by line; more are shown as one block.
const LINES_MAX: usize = 2000;
/// What stands in place of a hidden value.
const HIDDEN: &str = "[hidden]";

/// The difference. Empty when there is none.
pub(super) fn diff(before: &str, after: &str, hidden: &[String]) -> String {
    let hide = |text: &str| {
        // As it stands in the file, where quotes and backslashes are escaped.
        hidden.iter().fold(text.to_owned(), |text, value| {
            let escaped = serde_json::to_string(value).unwrap_or_default();
            text.replace(escaped.trim_matches('"'), HIDDEN).replace(value.as_str(), HIDDEN)
        })
    };
    let (before, after) = (hide(before), hide(after));
    let old: Vec<&str> = before.lines().collect();
    let new: Vec<&str> = after.lines().collect();
    let lines = compare(&old, &new);
    let mut out = Vec::new();
    let mut last = None;
    for (at, (mark, line)) in lines.iter().enumerate() {
        let near =
            lines[at.saturating_sub(AROUND)..lines.len().min(at + AROUND + 1)].iter().any(|l| l.0 != ' ');
        if near {
            if last.is_some_and(|last| last + 1 != at) {
                out.push("  …".to_owned());
            }
            out.push(format!("{mark} {line}").trim_end().to_owned());
            last = Some(at);
        }
    }
    out.join("\n")
}

fn compare<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<(char, &'a str)> {
    let head = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let tail = old[head..].iter().rev().zip(new[head..].iter().rev()).take_while(|(a, b)| a == b).count();
    let (a, b) = (&old[head..old.len() - tail], &new[head..new.len() - tail]);
    let mut out: Vec<(char, &str)> = old[..head].iter().map(|line| (' ', *line)).collect();
    if a.len() > LINES_MAX || b.len() > LINES_MAX {
        out.extend(a.iter().map(|line| ('-', *line)));
        out.extend(b.iter().map(|line| ('+', *line)));
    } else {
        middle(a, b, &mut out);
    }
    out.extend(old[old.len() - tail..].iter().map(|line| (' ', *line)));
    out
}

/// The longest common subsequence, from a table of lengths.
fn middle<'a>(a: &[&'a str], b: &[&'a str], out: &mut Vec<(char, &'a str)>) {
    let wide = b.len() + 1;
    let mut table = vec![0u32; (a.len() + 1) * wide];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            table[i * wide + j] = if a[i] == b[j] {
                table[(i + 1) * wide + j + 1] + 1
            } else {
                table[(i + 1) * wide + j].max(table[i * wide + j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < a.len() || j < b.len() {
        if i < a.len() && j < b.len() && a[i] == b[j] {
            out.push((' ', a[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == b.len() || (i < a.len() && table[(i + 1) * wide + j] >= table[i * wide + j + 1]) {
            out.push(('-', a[i]));
            i += 1;
        } else {
            out.push(('+', b[j]));
            j += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_go_and_come_are_marked_and_values_are_hidden() {
        let shown =
            diff("a\nb\nkey: se\\\"cret\nc\nd\ne\n", "a\nb\nnew\nc\nd\ne\n", &["se\"cret".to_owned()]);
        assert_eq!(shown, "  a\n  b\n- key: [hidden]\n+ new\n  c\n  d");
        assert_eq!(diff("x\n", "x\n", &[]), "");
        assert_eq!(diff("", "x\n", &[]), "+ x");
    }
}
