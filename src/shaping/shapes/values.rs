//! What stands where a credential would, and is none: placeholders, references, code, prose. Called by
//! `fields`.

/// Words that stand where a value is absent, or say what kind it is of.
const NOT_VALUES: [&str; 24] = [
    "true",
    "false",
    "null",
    "nil",
    "none",
    "unset",
    "missing",
    "required",
    "undefined",
    "empty",
    "invalid",
    "expired",
    "redacted",
    "string",
    "object",
    "number",
    "boolean",
    "array",
    "optional",
    "hidden",
    "str",
    "bool",
    "int",
    "omitted",
];

/// What stands for a value that is elsewhere, or for none.
pub(super) fn is_no_value(value: &[u8]) -> bool {
    let word = value.trim_ascii_end().strip_suffix(b".").unwrap_or(value);
    NOT_VALUES.iter().any(|no| word.eq_ignore_ascii_case(no.as_bytes()))
        || is_reference(value)
        || value.starts_with(b"[redacted")
        || value.iter().all(|b| matches!(b, b'*' | b'.' | b'x' | b'X' | b'-' | b'_'))
}

/// `${VAR}`, `$VAR`, `{{var}}`, `<token>`, `%VAR%`
pub(super) fn is_reference(value: &[u8]) -> bool {
    value.starts_with(b"${")
        || value.starts_with(b"{{")
        || value.starts_with(b"<")
        || value.starts_with(b"$(")
        || value.strip_prefix(b"$").is_some_and(|name| {
            name.iter().all(|b| b.is_ascii_uppercase() || matches!(b, b'_' | b'0'..=b'9'))
        })
}

/// An identifier, or what else stands behind a colon in code: a type, a field of something.
pub(super) fn is_code(value: &[u8]) -> bool {
    const CAMEL_LEN_MAX: usize = 40;
    const DIGITS_MAX: usize = 3;
    let digits = value.iter().filter(|b| b.is_ascii_digit()).count();
    let name = value
        .iter()
        .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b':' | b'*' | b'?' | b'!'));
    let joined = value.iter().any(|b| matches!(b, b'_' | b'.'));
    name && (digits == 0 && value.len() < CAMEL_LEN_MAX || joined && digits <= DIGITS_MAX)
}

/// `name=value` comes first.
pub(super) fn is_cookie(value: &[u8]) -> bool {
    let first = value.split(|b| b.is_ascii_whitespace() || matches!(b, b';' | b',')).next();
    first.is_some_and(|pair| pair.contains(&b'='))
}

/// The kind of a token that a parser talks about.
pub(super) fn is_short_word(value: &[u8]) -> bool {
    value.len() < 8 && value.iter().all(u8::is_ascii_lowercase)
}

/// Several words: a text about the field.
pub(super) fn is_prose(value: &[u8]) -> bool {
    const WORDS_MIN: usize = 3;
    let blanks = value.iter().filter(|b| b.is_ascii_whitespace()).count();
    blanks + 1 >= WORDS_MIN || blanks > 0 && !value.iter().any(u8::is_ascii_digit)
}
