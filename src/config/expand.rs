//! Floor 1. Expansion of `${VAR}`, `${VAR:-default}`, `${secret:NAME}` and `$$`, once: what
//! comes out is never looked at again. Must never put a value into an error.
//! Called by `config::validate`; `config::approval` asks only which names a text reads.

use super::secret::is_ordinary_variable;
use crate::id::shell_word;

/// What expansion may ask of the world.
pub trait Lookup {
    /// The value of a host variable, if set.
    fn var(&self, name: &str) -> Option<String>;
    /// Whether a host variable is set to something that is not UTF-8, and so has no value here.
    fn is_unreadable(&self, _name: &str) -> bool {
        false
    }
    /// The value of a stored secret, if there is one.
    fn secret(&self, name: &str) -> Option<String>;
}

/// Why a text can't be expanded. Names only, never values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpandError {
    /// `${VAR}` and the variable is not set.
    Unset(String),
    /// `${VAR}` and the variable is set to something that is not UTF-8.
    NotUtf8(String),
    /// `${secret:NAME}` and no such secret is stored.
    NoSecret(String),
    /// `${` without `}`.
    Unclosed,
    /// The name between the braces can't be a name; the text between them.
    BadName(String),
}

impl std::fmt::Display for ExpandError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unset(name) => write!(f, "needs the variable {name}, which is not set"),
            Self::NotUtf8(name) => write!(f, "needs the variable {name}, whose value is not UTF-8"),
            Self::NoSecret(name) => write!(f, "needs the secret {name}, which is not stored"),
            Self::Unclosed => f.write_str("has \"${\" without \"}\""),
            Self::BadName(name) => write!(f, "can't expand ${{{name}}}: not a name of a variable"),
        }
    }
}

impl ExpandError {
    /// What to do about it.
    pub fn fix(&self) -> String {
        match self {
            Self::Unset(name) => format!("set {name}, or write ${{{name}:-default}}"),
            Self::NotUtf8(name) => format!("set {name} to a text in UTF-8"),
            Self::NoSecret(name) => format!("callboard secret set {}", shell_word(name)),
            Self::Unclosed => "close it, or write $$ for a plain $".into(),
            Self::BadName(name) => match name.strip_prefix("env:") {
                Some(plain) => format!("write ${{{plain}}}"),
                None => "write ${VAR}, ${VAR:-default} or ${secret:NAME}; $$ for a plain $".into(),
            },
        }
    }
}

/// A piece of an unexpanded text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Piece<'a> {
    Literal(&'a str),
    /// `$$`
    Dollar,
    Var {
        name: &'a str,
        default: Option<&'a str>,
    },
    Secret(&'a str),
}

/// An expanded text. `Debug` shows none of it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Expanded {
    /// The text.
    pub text: String,
    /// The values that came out of stored secrets and of variables that are not plainly
    /// ordinary (such as `HOME`): candidates for the redactor.
    pub inserted: Vec<String>,
    /// Those of them that are stored secrets.
    pub stored: Vec<String>,
}

impl std::fmt::Debug for Expanded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Expanded").finish_non_exhaustive()
    }
}

/// Expands one text. The first fault is the error.
pub fn expand(text: &str, lookup: &dyn Lookup) -> Result<Expanded, ExpandError> {
    let mut out = Expanded::default();
    for piece in pieces(text)? {
        match piece {
            Piece::Literal(literal) => out.text.push_str(literal),
            Piece::Dollar => out.text.push('$'),
            Piece::Secret(name) => {
                let value = lookup.secret(name).ok_or_else(|| ExpandError::NoSecret(name.to_owned()))?;
                out.text.push_str(&value);
                out.stored.push(value.clone());
                out.inserted.push(value);
            }
            // Set, so no default stands in for it, as none does in a shell.
            Piece::Var { name, .. } if lookup.is_unreadable(name) => {
                return Err(ExpandError::NotUtf8(name.to_owned()));
            }
            Piece::Var { name, default } => {
                // As in a shell, `:-` also covers a variable that is set but empty.
                let set = lookup.var(name).filter(|value| default.is_none() || !value.is_empty());
                match (set, default) {
                    (Some(value), _) => {
                        out.text.push_str(&value);
                        if !is_ordinary_variable(name) {
                            out.inserted.push(value);
                        }
                    }
                    (None, Some(default)) => out.text.push_str(default),
                    (None, None) => return Err(ExpandError::Unset(name.to_owned())),
                }
            }
        }
    }
    Ok(out)
}

/// The variables (`VAR`) and secrets (`secret:NAME`) that a text reads, in their order.
/// A text with a fault reads nothing, because it is never expanded.
pub fn reads(text: &str) -> Vec<String> {
    let pieces = pieces(text).unwrap_or_default();
    let names = pieces.into_iter().filter_map(|piece| match piece {
        Piece::Var { name, .. } => Some(name.to_owned()),
        Piece::Secret(name) => Some(format!("secret:{name}")),
        Piece::Literal(_) | Piece::Dollar => None,
    });
    names.collect()
}

/// The fault of a text, if it could never be expanded, whatever is set.
pub fn check(text: &str) -> Result<(), ExpandError> {
    pieces(text).map(|_| ())
}

/// Whether a text holds something of its own that is not read from elsewhere: it reads nothing, or
/// a reference has a default. What merely stands beside a reference does not count.
pub fn has_literal(text: &str) -> bool {
    let pieces = pieces(text).unwrap_or_default();
    let reads = |piece: &Piece<'_>| matches!(piece, Piece::Var { .. } | Piece::Secret(_));
    let has_default =
        |piece: &Piece<'_>| matches!(piece, Piece::Var { default: Some(default), .. } if !default.is_empty());
    !text.is_empty() && (!pieces.iter().any(reads) || pieces.iter().any(has_default))
}

/// Whether a text consists of references alone, without a literal or default that could
/// itself be secret.
pub fn is_reference_only(text: &str) -> bool {
    pieces(text).is_ok_and(|pieces| {
        !pieces.is_empty()
            && pieces
                .iter()
                .all(|p| matches!(p, Piece::Secret(_) | Piece::Var { default: None | Some(""), .. }))
    })
}

fn pieces(text: &str) -> Result<Vec<Piece<'_>>, ExpandError> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let (literal, tail) = rest.split_at(at);
        if !literal.is_empty() {
            pieces.push(Piece::Literal(literal));
        }
        if let Some(after) = tail.strip_prefix("$$") {
            pieces.push(Piece::Dollar);
            rest = after;
        } else if let Some(after) = tail.strip_prefix("${") {
            let end = after.find('}').ok_or(ExpandError::Unclosed)?;
            pieces.push(reference(&after[..end])?);
            rest = &after[end + 1..];
        } else {
            pieces.push(Piece::Literal("$"));
            rest = &tail[1..];
        }
    }
    if !rest.is_empty() {
        pieces.push(Piece::Literal(rest));
    }
    Ok(pieces)
}

fn reference(inner: &str) -> Result<Piece<'_>, ExpandError> {
    if let Some(name) = inner.strip_prefix("secret:") {
        return match is_secret_name(name) {
            true => Ok(Piece::Secret(name)),
            false => Err(bad_name(inner)),
        };
    }
    let (name, default) = match inner.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inner, None),
    };
    if is_variable_name(name) {
        return Ok(Piece::Var { name, default });
    }
    // The default may be secret: only the part before it is told.
    Err(bad_name(name))
}

/// The start of a wrong name, made printable.
fn bad_name(name: &str) -> ExpandError {
    const SHOWN_MAX: usize = 64;
    ExpandError::BadName(name.chars().take(SHOWN_MAX).collect::<String>().escape_debug().to_string())
}

/// Whether a text can be the name of an environment variable: letters, digits and `_`, not
/// starting with a digit.
pub fn is_variable_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Whether a text can name a stored secret: as a variable, and also `.`, `-` and `/`.
pub fn is_secret_name(name: &str) -> bool {
    const NAME_LEN_MAX: usize = 128;
    !name.is_empty()
        && name.len() <= NAME_LEN_MAX
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    struct Map(BTreeMap<&'static str, &'static str>);

    impl Lookup for Map {
        fn var(&self, name: &str) -> Option<String> {
            self.0.get(name).map(ToString::to_string)
        }
        fn secret(&self, name: &str) -> Option<String> {
            (name == "KEY").then(|| "s3cret".to_owned())
        }
    }

    fn world() -> Map {
        Map(BTreeMap::from([("TOK", "abc"), ("EMPTY", ""), ("NEST", "${TOK}$$"), ("HOME", "/u/ada")]))
    }

    fn text(input: &str) -> Result<String, ExpandError> {
        expand(input, &world()).map(|expanded| expanded.text)
    }

    #[test]
    fn the_four_forms_expand() {
        assert_eq!(text("Bearer ${TOK}").unwrap(), "Bearer abc");
        assert_eq!(text("${NOPE:-dflt}-${TOK:-x}").unwrap(), "dflt-abc");
        assert_eq!(text("a$$b$$${TOK}").unwrap(), "a$b$abc");
        assert_eq!(text("k=${secret:KEY}").unwrap(), "k=s3cret");
    }

    #[test]
    fn a_default_covers_unset_and_empty_as_in_a_shell() {
        assert_eq!(text("${EMPTY:-d}").unwrap(), "d");
        assert_eq!(text("${EMPTY}").unwrap(), "");
        assert_eq!(text("${NOPE:-}").unwrap(), "");
        assert_eq!(text("${NOPE:-a:-b}").unwrap(), "a:-b");
    }

    #[test]
    fn expanded_values_are_not_expanded_again() {
        assert_eq!(text("${NEST}").unwrap(), "${TOK}$$");
        assert_eq!(text("${NOPE:-$$}").unwrap(), "$$");
    }

    #[test]
    fn other_dollars_stay_as_they_are() {
        for plain in ["$", "$TOK", "5$", "a$b", "$(cmd)", "{TOK}", "$ {TOK}", "%TOK%"] {
            assert_eq!(text(plain).unwrap(), plain);
        }
    }

    #[test]
    fn faults_name_the_variable_and_the_cure_never_a_value() {
        assert_eq!(text("${TOKEN}"), Err(ExpandError::Unset("TOKEN".into())));
        assert_eq!(text("${secret:GONE}"), Err(ExpandError::NoSecret("GONE".into())));
        assert_eq!(text("x${TOK"), Err(ExpandError::Unclosed));
        assert_eq!(text("${env:TOK}"), Err(ExpandError::BadName("env:TOK".into())));
        assert_eq!(ExpandError::BadName("env:TOK".into()).fix(), "write ${TOK}");
        assert_eq!(text("${a b:-hidden}"), Err(ExpandError::BadName("a b".into())));
        assert!(text("${}").is_err() && text("${1A}").is_err() && text("${secret:}").is_err());
        let message = text("${TOKEN}").unwrap_err().to_string();
        assert_eq!(message, "needs the variable TOKEN, which is not set");
    }

    #[test]
    fn what_a_text_reads_is_known_without_expanding_it() {
        assert_eq!(reads("${A}${B:-x}$${C}${secret:K/1}"), ["A", "B", "secret:K/1"]);
        assert!(reads("${A}${").is_empty());
        assert!(is_reference_only("${A}${secret:B}") && !is_reference_only("x${A}"));
        assert!(has_literal("x") && has_literal("${A:-x}") && has_literal("$$") && has_literal("${"));
        assert!(!has_literal("Bearer ${A}") && !has_literal("${secret:A}") && !has_literal("${A:-}"));
        assert!(!is_reference_only("${A:-hunter2}") && !is_reference_only(""));
    }

    #[test]
    fn inserted_values_are_told_for_the_redactor_but_not_the_home_folder() {
        let expanded = expand("${HOME}/x ${TOK} ${secret:KEY}", &world()).unwrap();
        assert_eq!(expanded.inserted, ["abc", "s3cret"]);
    }

    proptest! {
        #[test]
        fn a_text_without_dollars_is_unchanged(input in "[^$]{0,60}") {
            prop_assert_eq!(text(&input).unwrap(), input);
        }

        #[test]
        fn doubling_dollars_escapes_any_text(input in ".{0,60}") {
            prop_assert_eq!(text(&input.replace('$', "$$")).unwrap(), input);
        }

        #[test]
        fn never_panics_and_never_leaks_a_value(input in "[${}:A-Z_\\-a-z ]{0,40}") {
            if let Err(error) = text(&input) {
                prop_assert!(!error.to_string().contains("/u/ada"));
                prop_assert!(!error.to_string().is_empty() && !error.fix().is_empty());
            }
            let _ = (reads(&input), check(&input), is_reference_only(&input));
        }
    }
}
