//! Values that the words before them give away: of fields, headers, flags, variables and query
//! parameters that are named like credentials, of authorisation schemes, and passwords in
//! addresses. Also inside JSON that is itself text. Names such as `nextPageToken` or
//! `max_tokens` are none, and a value that is no text (a schema) is never one. Called by `shapes`.

use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use super::looks_secret;
use super::values::{is_code, is_cookie, is_no_value, is_prose, is_reference, is_short_word};

/// Longest name that is read around a word, in bytes.
const NAME_LEN_MAX: usize = 64;
/// Longest value that is followed to its end, in bytes.
const VALUE_LEN_MAX: usize = 64 * 1024;
/// Shortest value that is hidden, in bytes.
const VALUE_LEN_MIN: usize = 3;
/// How many bytes of values are judged at most: so many, and these for each byte of the text.
const JUDGED_MIN: usize = 256 * 1024;
const JUDGED_FOR_EACH: usize = 4;

/// A word in a name that makes it worth a look, or what stands before a credential by itself.
const WORDS: [&str; 18] = [
    "token",
    "secret",
    "passw",
    "passphrase",
    "pwd",
    "apikey",
    "key",
    "cookie",
    "authorization",
    "credential",
    "jwt",
    "sig",
    "bearer ",
    "basic ",
    "ssws ",
    "://",
    "private key",
    "auth",
];

/// Words before `token` that make it a place in a list, a limit, or a piece of text.
const NOT_CREDENTIAL_TOKENS: [&str; 44] = [
    "next",
    "page",
    "prev",
    "previous",
    "continuation",
    "continue",
    "cursor",
    "sync",
    "max",
    "min",
    "start",
    "end",
    "stop",
    "pad",
    "padding",
    "eos",
    "bos",
    "unk",
    "sep",
    "mask",
    "cls",
    "first",
    "last",
    "current",
    "cancel",
    "cancellation",
    "progress",
    "pagination",
    "resume",
    "delta",
    "change",
    "total",
    "prompt",
    "completion",
    "input",
    "output",
    "special",
    "per",
    "new",
    "peek",
    "lookahead",
    "html",
    "image",
    "text",
];

/// A whole automaton without a search for rare bytes before it: in numbers and logs every byte is rare.
static AUTOMATON: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .match_kind(MatchKind::LeftmostFirst)
        .kind(Some(AhoCorasickKind::DFA))
        .prefilter(false)
        .build(WORDS)
        .ok()
});

/// Spans of the values, in no order.
pub(super) fn find(text: &[u8], into: &mut Vec<Range<usize>>) {
    let Some(words) = &*AUTOMATON else { return };
    let mut covered = 0;
    let mut names = Names::default();
    let mut budget = JUDGED_MIN + text.len().saturating_mul(JUDGED_FOR_EACH);
    for hit in words.find_iter(text) {
        if hit.start() < covered {
            continue;
        }
        let span = match WORDS.get(hit.pattern().as_usize()).copied() {
            Some("://") => password_in_address(text, hit.start()),
            Some("bearer " | "basic " | "ssws ") => after_scheme(text, hit.range()),
            Some("private key") => private_key(text, hit.end()),
            _ => names.around(text, hit.range()).and_then(|name| value_of_field(text, name, &mut budget)),
        };
        if let Some(span) = span.filter(|span| !span.is_empty()) {
            covered = span.end;
            into.push(span);
        }
    }
}

/// The names that were read: each once, however many words are in it.
#[derive(Default)]
struct Names {
    /// Behind the run of a name's letters that was looked at last.
    end: usize,
    /// It was judged.
    done: bool,
}

impl Names {
    /// The name that the word stands in, if it ends near and was not read yet.
    fn around(&mut self, text: &[u8], word: Range<usize>) -> Option<Range<usize>> {
        if word.end > self.end {
            *self = Self { end: while_at(text, word.end, text.len(), is_name), done: false };
        }
        if self.done || self.end - word.end > NAME_LEN_MAX {
            return None;
        }
        self.done = true;
        let head = text.get(word.start.saturating_sub(NAME_LEN_MAX)..word.start)?;
        let mut start = word.start - head.iter().rev().take_while(|b| is_name(**b)).count();
        // The letter of an escape (`\n`) is not part of the name.
        if start > 0 && byte(text, start - 1) == Some(b'\\') && start < word.start {
            start += 1;
        }
        Some(start..self.end)
    }
}

fn byte(text: &[u8], at: usize) -> Option<u8> {
    text.get(at).copied()
}

fn while_at(text: &[u8], from: usize, len_max: usize, keep: impl Fn(u8) -> bool) -> usize {
    let rest = text.get(from..).unwrap_or_default();
    let rest = rest.get(..len_max).unwrap_or(rest);
    from + rest.iter().position(|byte| !keep(*byte)).unwrap_or(rest.len())
}

/// The end, moved on to where a character ends.
fn whole(text: &[u8], from: usize, end: usize) -> Range<usize> {
    from..while_at(text, end, 4, |byte| byte & 0xc0 == 0x80)
}

/// `user:password@` after `://`.
fn password_in_address(text: &[u8], at: usize) -> Option<Range<usize>> {
    const USER_LEN_MAX: usize = 1024;
    if !at.checked_sub(1).and_then(|before| byte(text, before)).is_some_and(|b| b.is_ascii_alphanumeric()) {
        return None;
    }
    let user = |b: u8| {
        !b.is_ascii_whitespace()
            && !matches!(b, b'/' | b'@' | b'"' | b'\'' | b'<' | b'>' | b'\\' | b'?' | b'#')
    };
    let from = at + 3;
    let end = while_at(text, from, USER_LEN_MAX, user);
    if byte(text, end) != Some(b'@') {
        return None;
    }
    let colon = from + text.get(from..end)?.iter().position(|b| *b == b':')?;
    Some(colon + 1..end).filter(|span| !is_reference(&text[span.clone()]))
}

/// What stands behind `Bearer ` and the like.
fn after_scheme(text: &[u8], scheme: Range<usize>) -> Option<Range<usize>> {
    const CREDENTIAL_MIN: usize = 8;
    let inside =
        scheme.start.checked_sub(1).and_then(|at| byte(text, at)).is_some_and(|b| b.is_ascii_alphabetic());
    let escaped = scheme.start.checked_sub(2).and_then(|at| byte(text, at)) == Some(b'\\');
    if inside && !escaped {
        return None;
    }
    let from = while_at(text, scheme.end, 8, |b| b == b' ');
    let credential =
        |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'~' | b'+' | b'/' | b'=' | b'-');
    let end = while_at(text, from, VALUE_LEN_MAX, credential);
    (end - from >= CREDENTIAL_MIN && looks_secret(&text[from..end])).then_some(from..end)
}

/// The body of `-----BEGIN … PRIVATE KEY-----`.
fn private_key(text: &[u8], at: usize) -> Option<Range<usize>> {
    let from = while_at(text, at, 6, |b| matches!(b, b' ' | b'B' | b'L' | b'O' | b'C' | b'K'));
    text.get(from..)?.strip_prefix(b"-----")?;
    let head = text.get(..at)?;
    let line = head.get(head.len().saturating_sub(NAME_LEN_MAX)..)?;
    let kind = memchr::memmem::rfind(line, b"-----BEGIN ").and_then(|begun| line.get(begun + 11..))?;
    if !kind.iter().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || *b == b' ') {
        return None;
    }
    // In code the words alone are compared.
    if !byte(text, from + 5).is_some_and(|b| b.is_ascii_whitespace() || b == b'\\') {
        return None;
    }
    let end = while_at(text, from + 5, VALUE_LEN_MAX, |b| b != b'-');
    Some(whole(text, from + 5, end))
}

/// How a name and its value are tied.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tie {
    /// `name=value`
    Equals,
    /// `name: value`
    Colon,
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

/// The value that the name is tied to. A text that has more to judge than it can have by chance is
/// made to be slow: from then on such values are hidden as they stand.
fn value_of_field(text: &[u8], name: Range<usize>, budget: &mut usize) -> Option<Range<usize>> {
    let Range { start, end } = name;
    let name = std::str::from_utf8(text.get(start..end)?).ok()?;
    let kind = kind_of(name.trim_start_matches(['-', '.']))?;
    let (tie, from, close) = open_value(text, end)?;
    let value = match close {
        Some(close) => quoted(text, from, close),
        None if kind == Kind::Header && tie == Tie::Colon => header(text, from, name),
        None => from..while_at(text, from, VALUE_LEN_MAX, is_plain),
    };
    *budget = budget.saturating_sub(value.len());
    if *budget == 0 {
        return Some(whole(text, value.start, value.end));
    }
    let context = Context { kind, tie, quoted: close.is_some(), loud: is_loud(text, start, name) };
    context.is_secret(text.get(value.clone())?, name).then(|| whole(text, value.start, value.end))
}

/// Where the value of a name that ends at `at` begins, and the quote that ends it.
fn open_value(text: &[u8], at: usize) -> Option<(Tie, usize, Option<&'static [u8]>)> {
    let blanks = |from| while_at(text, from, 16, |b| matches!(b, b' ' | b'\t'));
    let quote_end = |from: usize| {
        let slashes = while_at(text, from, 8, |b| b == b'\\');
        matches!(byte(text, slashes), Some(b'"' | b'\'')).then_some(slashes + 1)
    };
    let named = quote_end(at).unwrap_or(at);
    let at = blanks(named);
    let (tie, after) = match (byte(text, at)?, byte(text, at + 1)) {
        (b'=', Some(b'=' | b'~')) | (b':', Some(b':' | b'=')) => return None,
        (b'=', Some(b'>')) => (Tie::Colon, at + 2),
        // Blanks around it are code, or a file of settings.
        (b'=', _) => (if at > named { Tie::Colon } else { Tie::Equals }, at + 1),
        (b':', _) => (Tie::Colon, at + 1),
        (b'%', Some(b'3')) if matches!(byte(text, at + 2), Some(b'D' | b'd')) => (Tie::Equals, at + 3),
        _ => return None,
    };
    let from = if tie == Tie::Equals { after } else { blanks(after) };
    let slashes = while_at(text, from, 8, |b| b == b'\\') - from;
    let close: Option<&'static [u8]> = match (slashes, byte(text, from + slashes)) {
        (0, Some(b'"')) => Some(b"\""),
        (0, Some(b'\'')) => Some(b"'"),
        (_, Some(b'"')) => Some(b"\\\""),
        _ => None,
    };
    Some((tie, if close.is_some() { from + slashes + 1 } else { from }, close))
}

/// A value up to its closing quote.
fn quoted(text: &[u8], from: usize, close: &[u8]) -> Range<usize> {
    let mut at = from;
    let end = text.len().min(from + VALUE_LEN_MAX);
    while at < end {
        if text[at..].starts_with(close) {
            return from..at;
        }
        // Within escaped JSON two characters more are an escaped escape.
        at += if text[at] == b'\\' { 2 } else { 1 };
        if matches!(byte(text, at.saturating_sub(1)), Some(b'\n')) {
            return from..at - 1;
        }
    }
    from..end
}

/// A header up to the end of its line; of an authorisation without its scheme.
fn header(text: &[u8], from: usize, name: &str) -> Range<usize> {
    let is_cookie = name.to_ascii_lowercase().contains("cookie");
    let line = |b: u8| !matches!(b, b'\r' | b'\n' | b'"' | b'\\' | b'\'');
    if is_cookie {
        return from..while_at(text, from, VALUE_LEN_MAX, line);
    }
    let first = while_at(text, from, VALUE_LEN_MAX, is_plain);
    let scheme = first - from <= 12 && text[from..first].iter().all(u8::is_ascii_alphabetic);
    if scheme && byte(text, first) == Some(b' ') {
        let from = while_at(text, first, 8, |b| b == b' ');
        return from..while_at(text, from, VALUE_LEN_MAX, is_plain);
    }
    from..first
}

fn is_plain(byte: u8) -> bool {
    !byte.is_ascii_whitespace()
        && !matches!(
            byte,
            b'"' | b'\''
                | b'&'
                | b';'
                | b','
                | b'<'
                | b'>'
                | b'\\'
                | b'{'
                | b'}'
                | b'['
                | b']'
                | b'('
                | b')'
                | b'`'
                | b'|'
        )
}

/// What a name promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A header that carries credentials.
    Header,
    /// A field that is a credential by its name.
    Field,
    /// A name that is a credential only with a value that looks like one.
    Maybe,
}

/// Whether the value of such a name is a credential.
fn kind_of(name: &str) -> Option<Kind> {
    const HEADERS: [&str; 9] = [
        "authorization",
        "proxy-authorization",
        "cookie",
        "set-cookie",
        "x-api-key",
        "x-auth-token",
        "x-access-token",
        "api-key",
        "x-goog-api-key",
    ];
    if HEADERS.iter().any(|header| name.eq_ignore_ascii_case(header)) {
        return Some(Kind::Header);
    }
    let words = words(name);
    let last = words.last()?.as_str();
    let before = words.len().checked_sub(2).and_then(|at| words.get(at)).map_or("", String::as_str);
    match last {
        "token" | "accesstoken" | "authtoken" | "refreshtoken" => {
            (!NOT_CREDENTIAL_TOKENS.contains(&before)).then_some(Kind::Field)
        }
        "secret" | "password" | "passwd" | "passphrase" | "pwd" | "apikey" | "cookie" | "authorization"
        | "credential" | "credentials" | "jwt" | "clientsecret" | "accesskey" | "secretkey"
        | "privatekey" => Some(Kind::Field),
        "key" => {
            const KEYS: [&str; 13] = [
                "api",
                "access",
                "private",
                "secret",
                "account",
                "shared",
                "auth",
                "encryption",
                "signing",
                "master",
                "license",
                "service",
                "subscription",
            ];
            KEYS.contains(&before).then_some(Kind::Field).or((words.len() == 1).then_some(Kind::Maybe))
        }
        "sig" | "signature" | "auth" => Some(Kind::Maybe),
        _ => None,
    }
}

/// Splits at everything that is no letter, and where a small letter meets a capital.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut last_lower = false;
    for c in name.chars() {
        if !c.is_ascii_alphanumeric() || (last_lower && c.is_ascii_uppercase()) {
            words.push(String::new());
        }
        if let (true, Some(word)) = (c.is_ascii_alphabetic(), words.last_mut()) {
            word.push(c.to_ascii_lowercase());
        }
        last_lower = c.is_ascii_lowercase() || c.is_ascii_digit();
    }
    words.retain(|word| !word.is_empty());
    words
}

/// A flag, a query parameter or an environment variable: places where code does not stand.
fn is_loud(text: &[u8], start: usize, name: &str) -> bool {
    let before = start.checked_sub(1).and_then(|at| byte(text, at));
    let upper = name.bytes().any(|b| b.is_ascii_uppercase()) && !name.bytes().any(|b| b.is_ascii_lowercase());
    upper || name.starts_with("--") || matches!(before, Some(b'?' | b'&'))
}

struct Context {
    kind: Kind,
    tie: Tie,
    quoted: bool,
    loud: bool,
}

impl Context {
    fn is_secret(&self, value: &[u8], name: &str) -> bool {
        let value = value.trim_ascii();
        if value.len() < VALUE_LEN_MIN || is_no_value(value) || value.eq_ignore_ascii_case(name.as_bytes()) {
            return false;
        }
        if self.kind == Kind::Header && self.quoted {
            // The words around a header are used in plain English too.
            return !is_prose(value) || looks_secret(value);
        }
        let cookie = name.to_ascii_lowercase().contains("cookie");
        if !self.quoted && self.tie == Tie::Colon && (is_code(value) || cookie && !is_cookie(value)) {
            return false;
        }
        let sure = match (self.kind, self.tie) {
            (Kind::Maybe, _) => false,
            _ if self.quoted => !(is_prose(value) || name.ends_with("oken") && is_short_word(value)),
            (_, Tie::Equals) => self.loud,
            (_, Tie::Colon) => false,
        };
        sure || is_value_of_its_own(value, self.kind)
    }
}

/// Outside quotes, and under a name that is used in code too, only what looks random.
fn is_value_of_its_own(value: &[u8], kind: Kind) -> bool {
    const LEN_MIN: usize = 8;
    const LEN_MIN_MAYBE: usize = 16;
    const LEN_MIN_HEADER: usize = 6;
    let len_min = match kind {
        Kind::Header => LEN_MIN_HEADER,
        Kind::Field => LEN_MIN,
        Kind::Maybe => LEN_MIN_MAYBE,
    };
    let digits = value.iter().any(u8::is_ascii_digit);
    let hash = matches!(value.len(), 32 | 40 | 64) && value.iter().all(u8::is_ascii_hexdigit);
    let code = value.windows(2).any(|two| two == b"::" || two == b"->") || value.starts_with(b"self.");
    let number = value.iter().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b':' | b'_' | b'-'));
    let random = looks_secret(value) && (kind != Kind::Maybe || digits);
    value.len() >= len_min && random && !code && !((number || hash) && kind == Kind::Maybe)
}
