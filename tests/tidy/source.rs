//! Reads Rust text well enough to check it: comments and literals are blanked, test code is
//! marked, paths are expanded. Owns no rule; the rules are in the files beside this one.

use std::ops::Range;

/// One file of the tree.
pub(crate) struct Source {
    /// Path from the root of the repository, with `/`.
    pub(crate) path: String,
    /// The text as it stands.
    pub(crate) text: String,
    /// The text with comments and literals blanked; same length, same lines.
    pub(crate) code: String,
    /// Byte ranges of test code.
    tests: Vec<Range<usize>>,
    /// Names of modules that are declared `#[cfg(test)] mod name;`.
    pub(crate) test_mods: Vec<String>,
}

/// One word or sign of `code`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    /// The word, `::`, or one other character.
    pub(crate) text: String,
    /// Where it starts.
    pub(crate) at: usize,
}

impl Source {
    /// Reads one file.
    pub(crate) fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        let (path, text) = (path.into(), text.into());
        let code = if path.ends_with(".rs") { blank(&text) } else { text.clone() };
        let mut source = Self { path, text, code, tests: Vec::new(), test_mods: Vec::new() };
        if source.path.ends_with(".rs") {
            (source.tests, source.test_mods) = test_regions(&source.tokens());
        }
        source
    }

    /// Whether the file is Rust.
    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Marks the whole file as test code.
    pub(crate) fn mark_as_test(&mut self) {
        self.tests = std::iter::once(0..self.text.len()).collect();
    }

    /// Whether the byte at `at` belongs to test code.
    pub(crate) fn is_test(&self, at: usize) -> bool {
        self.tests.iter().any(|range| range.contains(&at))
    }

    /// `path:line` of a byte.
    pub(crate) fn place(&self, at: usize) -> String {
        format!("{}:{}", self.path, self.text[..at].matches('\n').count() + 1)
    }

    /// Lines that are not test code.
    pub(crate) fn lines_without_tests(&self) -> usize {
        let mut at = 0;
        let mut count = 0;
        for line in self.text.split_inclusive('\n') {
            count += usize::from(!self.is_test(at));
            at += line.len();
        }
        count
    }

    /// The words and signs of the code.
    pub(crate) fn tokens(&self) -> Vec<Token> {
        let bytes = self.code.as_bytes();
        let mut tokens = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let start = at;
            if is_word(bytes[at]) {
                while at < bytes.len() && is_word(bytes[at]) {
                    at += 1;
                }
            } else if bytes[at..].starts_with(b"::") {
                at += 2;
            } else {
                at += 1;
            }
            let text = &self.code.as_bytes()[start..at];
            if !text[0].is_ascii_whitespace() {
                tokens.push(Token { text: String::from_utf8_lossy(text).into_owned(), at: start });
            }
        }
        tokens
    }

    /// Every path that starts with one of `roots`, groups expanded, with its place. `super` and
    /// `self` are resolved and start with `crate`.
    pub(crate) fn paths(&self, roots: &[&str]) -> Vec<(Vec<String>, usize)> {
        let tokens = self.tokens();
        let mut found = Vec::new();
        for (i, token) in tokens.iter().enumerate() {
            let starts = roots.contains(&token.text.as_str());
            let leads = tokens.get(i + 1).is_some_and(|next| next.text == "::");
            let inner = i > 0 && (tokens[i - 1].text == "::" || tokens[i - 1].text == ".");
            if starts && leads && !inner {
                let mut paths = Vec::new();
                expand(&tokens, i, Vec::new(), &mut paths);
                found.extend(paths.into_iter().map(|path| (self.resolve(path), token.at)));
            }
        }
        found
    }

    fn resolve(&self, path: Vec<String>) -> Vec<String> {
        if path[0] != "super" && path[0] != "self" {
            return path;
        }
        let ups = path.iter().take_while(|part| *part == "super").count();
        let mut full = vec!["crate".to_owned()];
        let module = module_of(&self.path);
        full.extend(module[..module.len().saturating_sub(ups)].iter().cloned());
        full.extend(path.into_iter().skip_while(|part| part == "super" || part == "self"));
        full
    }
}

/// `src/a/b.rs` is module `a::b`, `src/a/mod.rs` is `a`, `src/lib.rs` is the root.
fn module_of(path: &str) -> Vec<String> {
    let inner = path.strip_prefix("src/").unwrap_or(path).trim_end_matches(".rs");
    let mut parts: Vec<String> = inner.split('/').map(str::to_owned).collect();
    if matches!(parts.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        parts.pop();
    }
    parts
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Follows one use tree or path from token `i`; returns the index after it.
fn expand(tokens: &[Token], mut i: usize, mut path: Vec<String>, out: &mut Vec<Vec<String>>) -> usize {
    while let Some(token) = tokens.get(i) {
        match token.text.as_str() {
            "{" => {
                i += 1;
                while tokens.get(i).is_some_and(|t| t.text != "}") {
                    i = if tokens[i].text == "," { i + 1 } else { expand(tokens, i, path.clone(), out) };
                }
                return i + 1;
            }
            "*" => path.push("*".to_owned()),
            word if is_word(word.as_bytes()[0]) => path.push(word.to_owned()),
            _ => break,
        }
        i += 1;
        if tokens.get(i).is_none_or(|t| t.text != "::") {
            break;
        }
        i += 1;
    }
    if tokens.get(i).is_some_and(|t| t.text == "as") {
        i += 2;
    }
    out.push(path);
    // Whatever stands here that is no separator must not stop the caller's loop.
    if tokens.get(i).is_some_and(|t| t.text != "," && t.text != "}") { i + 1 } else { i }
}

/// Test regions, and names of test modules that stand in files of their own.
fn test_regions(tokens: &[Token]) -> (Vec<Range<usize>>, Vec<String>) {
    let word = |i: usize| tokens.get(i).map_or("", |t: &Token| t.text.as_str());
    let (mut regions, mut mods) = (Vec::new(), Vec::new());
    let mut i = 0;
    while i < tokens.len() {
        if !(word(i) == "#" && word(i + 1) == "[" && word(i + 2) == "cfg") {
            i += 1;
            continue;
        }
        let start = tokens[i].at;
        let close = matching(tokens, i + 1);
        let words: Vec<&str> = (i + 3..close).map(word).collect();
        i = close + 1;
        if !words.contains(&"test") || words.windows(3).any(|w| w == ["not", "(", "test"]) {
            continue;
        }
        let mut end = i;
        while word(end) == "#" {
            end = matching(tokens, end + 1) + 1;
        }
        while end < tokens.len() && !matches!(word(end), "{" | ";") {
            end = if matches!(word(end), "(" | "[") { matching(tokens, end) + 1 } else { end + 1 };
        }
        if word(end) == ";" && word(end - 2) == "mod" {
            mods.push(word(end - 1).to_owned());
        }
        end = if word(end) == "{" { matching(tokens, end) } else { end };
        let last = tokens.get(end).map_or(usize::MAX, |t| t.at + 1);
        regions.push(start..last);
        i = end + 1;
    }
    (regions, mods)
}

/// Index of the bracket that closes the one at `open`; the last index when none does.
fn matching(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0usize;
    for (i, token) in tokens.iter().enumerate().skip(open) {
        match token.text.as_str() {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return i;
                }
            }
            _ => {}
        }
    }
    tokens.len().saturating_sub(1)
}

/// Replaces comments, strings and character literals by blanks; line ends stay.
fn blank(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let end = literal_end(bytes, at);
        if end == at {
            out.push(bytes[at]);
            at += 1;
        } else {
            out.extend(bytes[at..end].iter().map(|&b| if b == b'\n' { b } else { b' ' }));
            at = end;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Where the comment or literal that starts at `at` ends; `at` when none starts there.
fn literal_end(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    let after_word = at > 0 && is_word(bytes[at - 1]);
    if rest.starts_with(b"//") {
        return at + rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
    }
    if rest.starts_with(b"/*") {
        return block_comment_end(bytes, at);
    }
    if !after_word && matches!(rest[0], b'r' | b'b' | b'c') {
        let prefix = rest.iter().take_while(|b| matches!(b, b'r' | b'b' | b'c')).count();
        let hashes = rest[prefix..].iter().take_while(|&&b| b == b'#').count();
        let quote = rest.get(prefix + hashes);
        let raw = rest[..prefix].contains(&b'r');
        if prefix <= 2 && quote == Some(&b'"') && (raw || hashes == 0) {
            let open = at + prefix + hashes;
            return if raw { raw_end(bytes, open, hashes) } else { quoted_end(bytes, open, b'"') };
        }
        if &rest[..prefix] == b"b" && rest.get(1) == Some(&b'\'') {
            return quoted_end(bytes, at + 1, b'\'');
        }
    }
    match rest[0] {
        b'"' => quoted_end(bytes, at, b'"'),
        b'\'' if is_char_literal(rest) => quoted_end(bytes, at, b'\''),
        _ => at,
    }
}

fn block_comment_end(bytes: &[u8], mut at: usize) -> usize {
    let mut depth = 0;
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    at
}

fn raw_end(bytes: &[u8], open: usize, hashes: usize) -> usize {
    let close: Vec<u8> = std::iter::once(b'"').chain(std::iter::repeat_n(b'#', hashes)).collect();
    let body = &bytes[open + 1..];
    let len = body.windows(close.len()).position(|w| w == close.as_slice());
    len.map_or(bytes.len(), |len| open + 1 + len + close.len())
}

fn quoted_end(bytes: &[u8], open: usize, quote: u8) -> usize {
    let mut at = open + 1;
    while at < bytes.len() && bytes[at] != quote {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(bytes.len())
}

/// `'x'` and `'\n'` are literals, `'a` is a lifetime.
fn is_char_literal(rest: &[u8]) -> bool {
    if rest.get(1) == Some(&b'\\') {
        return true;
    }
    let text = String::from_utf8_lossy(&rest[1..rest.len().min(9)]).into_owned();
    text.chars().nth(1) == Some('\'')
}
