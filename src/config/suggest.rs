//! Floor 1. Wording of issues: the nearest known word for a wrong one, and how key paths
//! are written. Called by everything in `config` that reports.

/// The known word that a wrong one probably means, if one is near: equal but for case, `_`
/// and `-`, or at most a third of its letters away.
pub fn nearest<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const WORD_LEN_MAX: usize = 64;
    if wrong.len() > WORD_LEN_MAX {
        return None;
    }
    let plain = |word: &str| -> Vec<char> {
        word.chars().filter(|c| *c != '_' && *c != '-').flat_map(char::to_lowercase).collect()
    };
    let wrong = plain(wrong);
    let allowed = wrong.len() / 3;
    known
        .into_iter()
        .map(|word| (distance(&wrong, &plain(word)), word))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}

/// Edits from one word to the other; a swap of neighbours counts as one.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, to) in b.iter().enumerate() {
            let mut best = (last[j] + usize::from(from != to)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *from == b[j - 1] && a[i - 1] == *to {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

/// Appends a key to a key path: `a.b`, or `a["b c"]` when the key itself holds anything odd.
pub fn join(path: &str, key: &str) -> String {
    let plain = !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '$'));
    match (path.is_empty(), plain) {
        (true, true) => key.to_owned(),
        (false, true) => format!("{path}.{key}"),
        (_, false) => format!("{path}[{key:?}]"),
    }
}

/// The first key of a key path, and what follows it; a `.` within quotes parts nothing.
pub fn first(path: &str) -> (&str, &str) {
    let (mut quoted, mut escaped) = (false, false);
    for (at, c) in path.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '.' if !quoted => return (&path[..at], &path[at + 1..]),
            '[' if !quoted && at > 0 => return path.split_at(at),
            _ => {}
        }
    }
    (path, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_path_parts_at_its_keys_whatever_they_hold() {
        for name in ["git", "./x", "a.b", "x\"].y", "\\", "[", "a b", "ключ.", ""] {
            let path = join(&join("mcpServers", name), "env");
            let (head, rest) = first(&path);
            assert_eq!(head, "mcpServers", "{path}");
            let (key, last) = first(rest);
            assert_eq!((key, last), (join("", name).as_str(), "env"), "{path}");
        }
        assert_eq!(first("args[1]"), ("args", "[1]"));
        assert_eq!(first("[1].x"), ("[1]", "x"));
        assert_eq!(first("one"), ("one", ""));
        assert_eq!(first(""), ("", ""));
    }

    #[test]
    fn spelling_habits_of_other_tools_are_recognised() {
        let known = ["bearer_token_env", "connect_timeout", "allowedTools", "env", "cwd"];
        assert_eq!(nearest("bearerTokenEnv", known), Some("bearer_token_env"));
        assert_eq!(nearest("connect-timeout", known), Some("connect_timeout"));
        assert_eq!(nearest("alowedTools", known), Some("allowedTools"));
        assert_eq!(nearest("evn", known), Some("env"));
        assert_eq!(nearest("foo", known), None);
        assert_eq!(nearest("", known), None);
    }

    #[test]
    fn key_paths_stay_unambiguous() {
        assert_eq!(join("", "mcpServers"), "mcpServers");
        assert_eq!(join("mcpServers", "git-hub"), "mcpServers.git-hub");
        assert_eq!(join("mcpServers", "my.dotted"), "mcpServers[\"my.dotted\"]");
        assert_eq!(join("", "a b"), "[\"a b\"]");
    }
}
