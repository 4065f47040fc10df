//! The words that `lint` looks for. All are found in one pass over the text; case does not count.

use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, MatchKind};

use super::lint::{LabelKind, is_alone};

/// Words that command a model: who only describes a tool has no use for them.
const IMPERATIVE: [&str; 46] = [
    "ignore previous",
    "ignore all previous",
    "ignore any previous",
    "ignore the previous",
    "ignore prior",
    "ignore all other",
    "disregard previous",
    "disregard all",
    "disregard the",
    "forget previous",
    "forget all",
    "override previous",
    "instead of using",
    "before using this tool",
    "before using any",
    "before calling",
    "before you use",
    "before invoking",
    "you must first",
    "you must always",
    "you must never",
    "you must not",
    "you must call",
    "you must read",
    "you must pass",
    "you must include",
    "always call this",
    "always use this tool",
    "do not tell",
    "don't tell",
    "do not mention",
    "don't mention",
    "do not inform",
    "do not reveal",
    "without telling",
    "without asking",
    "without informing",
    "never tell",
    "hide this from",
    "keep this secret",
    "secretly",
    "system prompt",
    "new instructions",
    "otherwise the tool will not work",
    "the user must not",
    "as an ai",
];

/// Beginnings of tags that look like commands.
const TAGS: [&str; 20] = [
    "<important",
    "</important",
    "<system",
    "</system",
    "<instruction",
    "</instruction",
    "<secret",
    "<critical",
    "<admin",
    "<assistant",
    "<override",
    "<hidden",
    "<must",
    "<|im_start|>",
    "<|im_end|>",
    "[important]",
    "[system]",
    "[inst]",
    "<<sys>>",
    "<|system|>",
];

/// Where secrets are kept.
const SECRETS: [&str; 31] = [
    ".ssh/",
    "~/.ssh",
    "id_rsa",
    "id_ed25519",
    "id_ecdsa",
    ".aws/credentials",
    ".aws/config",
    ".config/gcloud",
    ".azure/",
    ".kube/config",
    ".docker/config.json",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".gnupg",
    ".pgpass",
    ".env file",
    "/.env",
    "/etc/passwd",
    "/etc/shadow",
    "/proc/self/environ",
    ".cursor/mcp.json",
    "claude_desktop_config",
    ".claude.json",
    ".codex/config",
    ".callboard/",
    "keychain",
    "login data",
    "wallet.dat",
    ".bash_history",
];

struct Table {
    finder: Option<AhoCorasick>,
    kinds: Vec<LabelKind>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let rows = [
        (LabelKind::Tag, TAGS.as_slice()),
        (LabelKind::Imperative, IMPERATIVE.as_slice()),
        (LabelKind::SecretPath, SECRETS.as_slice()),
    ];
    let kinds = rows.iter().flat_map(|(kind, words)| words.iter().map(|_| *kind)).collect();
    let finder = AhoCorasick::builder()
        .match_kind(MatchKind::LeftmostLongest)
        .ascii_case_insensitive(true)
        .build(rows.iter().flat_map(|(_, words)| *words))
        .ok();
    Table { finder, kinds }
});

/// What of these words stands in a text. White space between words may be of any kind and length.
pub(super) fn hits(text: &str) -> Vec<(LabelKind, Range<usize>)> {
    let Some(finder) = &TABLE.finder else { return Vec::new() };
    let (flat, places) = flat(text);
    let hits = finder.find_iter(&flat).filter_map(|hit| {
        let kind = TABLE.kinds[hit.pattern().as_usize()];
        // A path may go on on both sides, a word may not.
        let whole = kind != LabelKind::Imperative || is_alone(&flat, hit.range());
        let tag = kind != LabelKind::Tag
            || !flat[hit.end()..].starts_with(|c: char| c.is_alphanumeric() && c != 's');
        (whole && tag).then(|| (kind, places.span(hit.range(), text)))
    });
    hits.collect()
}

/// Where the characters of a flat text stood.
struct Places(Vec<(usize, usize)>);

impl Places {
    fn origin(&self, at: usize) -> usize {
        let index = self.0.partition_point(|(flat, _)| *flat <= at).saturating_sub(1);
        self.0.get(index).map_or(at, |(flat, origin)| origin + (at - flat))
    }

    fn span(&self, span: Range<usize>, text: &str) -> Range<usize> {
        let (mut start, mut end) = (self.origin(span.start), self.origin(span.end.saturating_sub(1)) + 1);
        while !text.is_char_boundary(start) {
            start -= 1;
        }
        end = end.min(text.len());
        while !text.is_char_boundary(end) {
            end += 1;
        }
        start..end
    }
}

/// The text with one space for each run of white space, and without characters that can't be seen:
/// neither shall hide a word.
fn flat(text: &str) -> (String, Places) {
    let mut flat = String::with_capacity(text.len());
    let mut places = vec![(0, 0)];
    let mut moved = false;
    for (at, c) in text.char_indices() {
        let space = c.is_whitespace();
        if (space && flat.ends_with(' ')) || (!space && super::lint::is_hidden(c)) {
            moved = true;
            continue;
        }
        if moved {
            places.push((flat.len(), at));
        }
        moved = space && c.len_utf8() > 1;
        flat.push(if space { ' ' } else { c });
    }
    (flat, Places(places))
}

/// What a parameter's name asks for, if that is something that no tool should be given in passing.
pub(super) fn suspicious_parameter(name: &str) -> Option<&'static str> {
    let mut parts: Vec<String> = Vec::new();
    let mut lower_before = false;
    for c in name.chars() {
        let begins = c.is_uppercase() && lower_before;
        if !c.is_alphanumeric() || begins || parts.is_empty() {
            parts.push(String::new());
        }
        if let Some(part) = parts.last_mut().filter(|_| c.is_alphanumeric()) {
            part.extend(c.to_lowercase());
        }
        lower_before = c.is_lowercase();
    }
    let has = |words: &[&str]| parts.iter().any(|part| words.contains(&part.as_str()));
    let takes = has(&["content", "contents", "contentof", "reading", "read", "from", "dump", "copy"]);
    if has(&["rsa", "ed25519", "ecdsa", "ssh"]) && (takes || has(&["id"])) {
        return Some("an SSH key");
    }
    if takes
        && has(&[
            "passwd",
            "shadow",
            "env",
            "credentials",
            "credential",
            "netrc",
            "keychain",
            "secrets",
            "wallet",
            "cookies",
        ])
    {
        return Some("a file of secrets");
    }
    if takes
        && has(&["system", "conversation", "chat"])
        && has(&["prompt", "history", "messages", "transcript"])
    {
        return Some("what was said to the model");
    }
    if has(&["sidenote", "chainofthought", "scratchpad"])
        || (has(&["conversation", "chat"]) && has(&["history", "transcript"]))
    {
        return Some("what the model thinks or was told");
    }
    None
}
