//! Floor 1. What of a configuration is secret: masks for display, and the values that the
//! redactor has to know. Masking is greedy (a mask too many hurts nobody); collecting for the
//! redactor is careful, because a redacted everyday word would spoil every result.
//! Called by `merge`, `validate` and `effective`, and by the edges for what they print.

use super::expand;
pub(super) use super::spec::SecretText;

/// What stands for a hidden value.
pub const MASK: &str = "[redacted]";
/// Shorter values are never given to the redactor.
const SECRET_LEN_MIN: usize = 4;

/// Whether a host variable is plainly no secret, whatever its value.
pub fn is_ordinary_variable(name: &str) -> bool {
    const NAMES: [&str; 22] = [
        "HOME",
        "PATH",
        "LANG",
        "LANGUAGE",
        "LOGNAME",
        "USER",
        "USERNAME",
        "SHELL",
        "TERM",
        "TMPDIR",
        "TMP",
        "TEMP",
        "TZ",
        "PWD",
        "OLDPWD",
        "HOSTNAME",
        "EDITOR",
        "PAGER",
        "DISPLAY",
        "USERPROFILE",
        "APPDATA",
        "COLORTERM",
    ];
    NAMES.contains(&name) || name.starts_with("LC_") || name.starts_with("XDG_")
}

/// Whether a key, header, flag or variable name says that its value is a credential.
pub fn is_credential_name(name: &str) -> bool {
    const WORDS: [&str; 21] = [
        "token",
        "tokens",
        "secret",
        "secrets",
        "password",
        "passwd",
        "passphrase",
        "pass",
        "pwd",
        "apikey",
        "key",
        "auth",
        "authorization",
        "credential",
        "credentials",
        "cookie",
        "bearer",
        "signature",
        "sig",
        "pat",
        "jwt",
    ];
    const INSIDE: [&str; 6] = ["token", "secret", "passw", "apikey", "credential", "authorization"];
    let plain: String = name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect();
    INSIDE.iter().any(|word| plain.contains(word))
        || words(name).iter().any(|word| WORDS.contains(&word.as_str()))
}

/// Splits at everything that is no letter or digit, and where a small letter meets a capital.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut last_lower = false;
    for c in name.chars() {
        let boundary = !c.is_alphanumeric() || (last_lower && c.is_uppercase());
        if boundary {
            words.push(String::new());
        }
        if let (true, Some(word)) = (c.is_alphanumeric(), words.last_mut()) {
            word.extend(c.to_lowercase());
        }
        last_lower = c.is_lowercase() || c.is_ascii_digit();
    }
    words
}

/// Whether a value has the shape of a well-known kind of credential, or of a random string.
pub fn looks_secret(value: &str) -> bool {
    const PREFIXES: [&str; 22] = [
        "sk-",
        "sk_",
        "pk_live_",
        "rk_live_",
        "ghp_",
        "gho_",
        "ghu_",
        "ghs_",
        "ghr_",
        "github_pat_",
        "glpat-",
        "xoxb-",
        "xoxp-",
        "xoxa-",
        "xapp-",
        "AKIA",
        "ASIA",
        "AIza",
        "hf_",
        "npm_",
        "ya29.",
        "eyJ",
    ];
    const PREFIXED_LEN_MIN: usize = 16;
    (value.len() >= PREFIXED_LEN_MIN && PREFIXES.iter().any(|prefix| value.starts_with(prefix)))
        || is_random(value)
}

/// A UUID, or a run of 20 and more letters and digits with both among them.
fn is_random(value: &str) -> bool {
    const RUN_LEN_MIN: usize = 20;
    let uuid = value.len() == 36
        && value.bytes().enumerate().all(|(index, byte)| match index {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        });
    let token =
        value.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b'=' | b'~'));
    uuid || token
        && value.split(|c: char| !c.is_ascii_alphanumeric()).any(|run| {
            run.len() >= RUN_LEN_MIN
                && run.bytes().any(|b| b.is_ascii_digit())
                && run.bytes().any(|b| b.is_ascii_alphabetic())
        })
}

/// A value of `env` or `headers` for display: references stay readable, literals are hidden.
pub fn mask_value(text: &str) -> String {
    let scheme = auth_scheme_len(text);
    let (head, tail) = text.split_at(scheme);
    if tail.is_empty() || expand::is_reference_only(tail) { text.to_owned() } else { format!("{head}{MASK}") }
}

/// Length of a leading `Bearer ` or the like.
pub(super) fn auth_scheme_len(text: &str) -> usize {
    const SCHEMES: [&str; 5] = ["bearer ", "basic ", "token ", "apikey ", "digest "];
    let lower = text.to_ascii_lowercase();
    SCHEMES.iter().find(|scheme| lower.starts_with(*scheme)).map_or(0, |scheme| scheme.len())
}

/// An address for display: user information, values of the query, the fragment and path
/// segments that look like credentials are hidden; references (`${VAR}`) stay readable.
pub fn mask_url(url: &str) -> String {
    let Some(at) = url.find("://") else {
        // Not an address as we accept it: show it only if nothing in it can be a credential.
        let plain = !url.contains(['@', '?', '#', '=']) && !looks_secret(url);
        return if plain || expand::is_reference_only(url) { url.to_owned() } else { MASK.to_owned() };
    };
    let (scheme, rest) = url.split_at(at + 3);
    let authority_len = rest.find(['/', '\\', '?', '#']).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(authority_len);
    let mut out = scheme.to_owned();
    match authority.rsplit_once('@') {
        Some((user, host)) => {
            out.push_str(&mask_userinfo(user));
            out.push('@');
            out.push_str(host);
        }
        None => out.push_str(authority),
    }
    let (rest, fragment) =
        rest.split_once('#').map_or((rest, None), |(rest, fragment)| (rest, Some(fragment)));
    let (path, query) = rest.split_once('?').map_or((rest, None), |(path, query)| (path, Some(query)));
    let segments: Vec<&str> = path.split('/').map(|s| if looks_secret(s) { MASK } else { s }).collect();
    out.push_str(&segments.join("/"));
    if let Some(query) = query {
        out.push('?');
        out.push_str(&query.split('&').map(mask_pair).collect::<Vec<_>>().join("&"));
    }
    if fragment.is_some_and(|fragment| !fragment.is_empty()) {
        out.push('#');
        out.push_str(MASK);
    }
    out
}

fn mask_userinfo(user: &str) -> String {
    if expand::is_reference_only(&user.replacen(':', "", 1)) { user.to_owned() } else { MASK.to_owned() }
}

/// `name=value` of a query: the name is shown.
fn mask_pair(pair: &str) -> String {
    match pair.split_once('=') {
        Some((_, "")) => pair.to_owned(),
        Some((_, value)) if expand::is_reference_only(value) => pair.to_owned(),
        Some((name, _)) => format!("{name}={MASK}"),
        None if pair.is_empty() || expand::is_reference_only(pair) => pair.to_owned(),
        None => MASK.to_owned(),
    }
}

/// Arguments for display: values of flags and assignments that are named like credentials,
/// headers, credentials in addresses and values that look like credentials are hidden.
pub fn mask_args<T: AsRef<str>>(args: &[T]) -> Vec<String> {
    let mut next_is_secret = false;
    let masked = args.iter().map(|arg| {
        let arg = arg.as_ref();
        let hidden = std::mem::take(&mut next_is_secret) && !arg.starts_with("--");
        if hidden {
            return mask_value(arg);
        }
        next_is_secret = arg.starts_with('-') && !arg.contains('=') && is_credential_name(arg);
        mask_arg(arg)
    });
    masked.collect()
}

fn mask_arg(arg: &str) -> String {
    if let Some((name, value)) = split_named(arg) {
        let separator = arg.as_bytes()[name.len()] as char;
        if is_credential_name(name) {
            let blanks = value.len() - value.trim_start().len();
            return format!("{name}{separator}{}{}", &value[..blanks], mask_value(&value[blanks..]));
        }
        if separator == '=' {
            return format!("{name}={}", mask_bare(value));
        }
    }
    mask_bare(arg)
}

/// Splits `name=value` and `Name: value`.
pub(super) fn split_named(arg: &str) -> Option<(&str, &str)> {
    let at = arg.find(['=', ':'])?;
    let (name, value) = (&arg[..at], &arg[at + 1..]);
    let header = arg.as_bytes()[at] == b':';
    let named = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '.'));
    (named && !(header && value.starts_with("//"))).then_some((name, value))
}

fn mask_bare(text: &str) -> String {
    if text.contains("://") {
        return mask_url(text);
    }
    if looks_secret(text) || auth_scheme_len(text) > 0 { mask_value(text) } else { text.to_owned() }
}

/// Collects the values that the redactor has to know.
#[derive(Clone, Debug, Default)]
pub struct Collector {
    values: Vec<SecretText>,
    credentials: Vec<SecretText>,
}

impl Collector {
    /// The values, longest first, each once.
    pub fn finish(self) -> Vec<SecretText> {
        longest_first(self.values)
    }

    /// Those among them that are credentials beyond doubt, by name or form.
    pub fn credentials(&self) -> Vec<SecretText> {
        longest_first(self.credentials.clone())
    }

    /// Adds what another has collected.
    pub fn absorb(&mut self, other: Self) {
        self.values.extend(other.values);
        self.credentials.extend(other.credentials);
    }

    /// What expansion put into a text.
    pub fn expanded(&mut self, expanded: &expand::Expanded) {
        expanded.stored.iter().for_each(|value| self.certain(value));
        self.inserted(&expanded.inserted);
    }

    /// A value that is known to be secret, such as a stored one.
    pub fn certain(&mut self, value: &str) {
        if value.chars().count() >= SECRET_LEN_MIN && !is_everyday(value) {
            self.values.push(SecretText::new(value));
            self.credentials.push(SecretText::new(value));
        }
    }

    /// A value that may be secret: hidden, but nothing is refused for it.
    fn likely(&mut self, value: &str) {
        if value.chars().count() >= SECRET_LEN_MIN && !is_everyday(value) {
            self.values.push(SecretText::new(value));
        }
    }

    /// A value of `env`, a header or a query under its name.
    pub fn named(&mut self, name: &str, value: &str) {
        let value = value[auth_scheme_len(value)..].trim();
        if value.contains("://") {
            self.url(value);
        }
        if is_credential_name(name) || looks_secret(value) {
            self.certain(value);
        } else if !is_ordinary(value) {
            self.likely(value);
        }
    }

    /// The credentials in an address: password (or a user without one), query, path.
    pub fn url(&mut self, url: &str) {
        let Ok(url) = url::Url::parse(url) else { return };
        let user = url.password().unwrap_or(url.username());
        self.with_decoded(user);
        for (name, value) in url.query_pairs() {
            self.named(&name, &value);
        }
        for segment in url.path_segments().into_iter().flatten().filter(|segment| looks_secret(segment)) {
            self.certain(segment);
        }
    }

    fn with_decoded(&mut self, value: &str) {
        self.certain(value);
        for (decoded, _) in url::form_urlencoded::parse(value.replace('+', "%2B").as_bytes()) {
            self.certain(&decoded);
        }
    }

    /// Expanded arguments: the same ones that [`mask_args`] hides.
    pub fn args<T: AsRef<str>>(&mut self, args: &[T]) {
        let mut next_is_secret = false;
        for arg in args {
            let arg = arg.as_ref();
            if std::mem::take(&mut next_is_secret) && !arg.starts_with("--") {
                self.certain(&arg[auth_scheme_len(arg)..]);
                continue;
            }
            next_is_secret = arg.starts_with('-') && !arg.contains('=') && is_credential_name(arg);
            let value = match split_named(arg) {
                Some((name, value)) if is_credential_name(name) => {
                    self.named(name, value);
                    continue;
                }
                Some((_, value)) => value.trim(),
                None => arg,
            };
            if arg.contains("://") {
                self.url(arg);
                self.url(value);
            }
            if looks_secret(value) || auth_scheme_len(value) > 0 {
                self.certain(&value[auth_scheme_len(value)..]);
            }
        }
    }

    /// Values that expansion put into an argument.
    pub fn inserted<T: AsRef<str>>(&mut self, values: &[T]) {
        for value in values {
            self.named("", value.as_ref());
        }
    }
}

fn longest_first(mut values: Vec<SecretText>) -> Vec<SecretText> {
    values.sort_by(|a, b| b.reveal().len().cmp(&a.reveal().len()).then_with(|| a.reveal().cmp(b.reveal())));
    values.dedup();
    values
}

/// Words that are never secret, whatever names them.
pub(super) fn is_everyday(value: &str) -> bool {
    const WORDS: [&str; 44] = [
        "true",
        "false",
        "none",
        "null",
        "undefined",
        "auto",
        "default",
        "enabled",
        "disabled",
        "always",
        "never",
        "debug",
        "info",
        "warn",
        "warning",
        "error",
        "trace",
        "verbose",
        "quiet",
        "silent",
        "production",
        "prod",
        "development",
        "develop",
        "staging",
        "test",
        "testing",
        "local",
        "localhost",
        "127.0.0.1",
        "0.0.0.0",
        "utf8",
        "utf-8",
        "json",
        "text",
        "stdio",
        "http",
        "https",
        "node",
        "python",
        "application/json",
        "text/plain",
        "text/event-stream",
        "public",
    ];
    WORDS.iter().any(|word| value.eq_ignore_ascii_case(word))
}

/// Values that are plainly no credential as long as their name doesn't say so: paths,
/// numbers, versions, dates, plain addresses, short words of letters.
fn is_ordinary(value: &str) -> bool {
    const WORD_LEN_MAX: usize = 7;
    let path = ["/", "./", "../", "~/", "\\\\"].iter().any(|start| value.starts_with(start))
        || value.get(1..3).is_some_and(|colon| colon == ":\\" || colon == ":/");
    let number = value
        .bytes()
        .all(|b| b.is_ascii_digit() || matches!(b, b'.' | b',' | b':' | b'-' | b'+' | b'_' | b'/'));
    let word = value.len() <= WORD_LEN_MAX && value.bytes().all(|b| b.is_ascii_alphabetic());
    let locale = value.len() <= 16 && value.ends_with(".UTF-8");
    path || number || word || locale || value.contains("://")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn collected(fill: impl FnOnce(&mut Collector)) -> Vec<String> {
        let mut collector = Collector::default();
        fill(&mut collector);
        collector.finish().iter().map(|value| value.reveal().to_owned()).collect()
    }

    #[test]
    fn names_of_credentials_are_recognised_in_every_spelling() {
        for name in [
            "API_KEY",
            "apiKey",
            "api-key",
            "--api-key",
            "X-API-Key",
            "GITHUB_TOKEN",
            "githubToken",
            "Authorization",
            "DB_PASSWORD",
            "db.passwd",
            "clientSecret",
            "PAT",
            "Cookie",
            "AWS_SECRET_ACCESS_KEY",
            "sig",
            "KEY",
            "--pass",
        ] {
            assert!(is_credential_name(name), "{name}");
        }
        for name in
            ["PATH", "monkey", "KEYBOARD", "author", "--path", "pattern", "X-Trace", "compass", "assign", ""]
        {
            assert!(!is_credential_name(name), "{name}");
        }
    }

    #[test]
    fn values_that_look_like_credentials_are_recognised_and_ordinary_ones_are_not() {
        for value in [
            "ghp_0123456789abcdef",
            "sk-proj-abcdefghijkl",
            "xoxb-1234-5678-abcd",
            "AKIAIOSFODNN7EXAMPLE",
            "eyJhbGciOiJIUzI1NiJ9.e30.x",
            "3f2504e0-4f89-11d3-9a0c-0305e82c3301",
            "a1b2c3d4e5f6a7b8c9d0e1f2",
        ] {
            assert!(looks_secret(value), "{value}");
        }
        for value in [
            "-y",
            "@modelcontextprotocol/server-filesystem",
            "server-everything",
            "/usr/share/doc/package-1.2",
            "sk-short",
            "2025-06-18",
            "mcp-server-git==2025.1.14",
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            "",
        ] {
            assert!(!looks_secret(value), "{value}");
        }
    }

    #[test]
    fn addresses_keep_their_shape_and_lose_their_secrets() {
        for (url, shown) in [
            ("https://h.example/mcp", "https://h.example/mcp"),
            ("https://user:pw@h/x", "https://[redacted]@h/x"),
            ("https://user@h", "https://[redacted]@h"),
            ("https://${USER}:${PASS}@h/x", "https://${USER}:${PASS}@h/x"),
            ("https://u:p@ss@h/", "https://[redacted]@h/"),
            ("https://h/x?token=abc&flag&e=&r=${R}", "https://h/x?token=[redacted]&[redacted]&e=&r=${R}"),
            ("https://h/x#frag", "https://h/x#[redacted]"),
            ("https://h?k=v", "https://h?k=[redacted]"),
            ("https://h\\@evil/?a=b", "https://h\\@evil/?a=[redacted]"),
            ("https://h/s/a1b2c3d4e5f6a7b8c9d0e1f2/mcp", "https://h/s/[redacted]/mcp"),
            ("${URL}", "${URL}"),
            ("u:p@h", "[redacted]"),
            ("${URL:-https://u:p@h/}", "${URL:-https://[redacted]@h/}"),
        ] {
            assert_eq!(mask_url(url), shown);
        }
    }

    #[test]
    fn arguments_lose_what_their_flags_or_looks_give_away() {
        let shown = |args: &[&str]| mask_args(args).join(" ");
        assert_eq!(shown(&["-y", "pkg", "--port", "80"]), "-y pkg --port 80");
        assert_eq!(shown(&["--api-key", "x", "y"]), "--api-key [redacted] y");
        assert_eq!(shown(&["--api-key", "--verbose", "x"]), "--api-key --verbose x");
        assert_eq!(shown(&["--token=x", "TOKEN=${T}", "A=b"]), "--token=[redacted] TOKEN=${T} A=b");
        assert_eq!(shown(&["-H", "Authorization: Bearer x"]), "-H Authorization: Bearer [redacted]");
        assert_eq!(shown(&["Bearer abc", "ghp_0123456789abcdef"]), "Bearer [redacted] [redacted]");
        assert_eq!(shown(&["--url=https://u:p@h/?k=v"]), "--url=https://[redacted]@h/?k=[redacted]");
        assert_eq!(shown(&["https://u:p@h/"]), "https://[redacted]@h/");
        assert_eq!(shown(&["DB=postgres://u:p@h/d"]), "DB=postgres://[redacted]@h/d");
        assert_eq!(shown(&["--password"]), "--password");
    }

    #[test]
    fn values_show_references_and_hide_literals() {
        for (text, shown) in [
            ("${T}", "${T}"),
            ("Bearer ${T}", "Bearer ${T}"),
            ("Bearer abc", "Bearer [redacted]"),
            ("abc", "[redacted]"),
            ("", ""),
            ("${T:-abc}", "[redacted]"),
            ("${secret:K}", "${secret:K}"),
            ("a${T}", "[redacted]"),
        ] {
            assert_eq!(mask_value(text), shown);
        }
    }

    #[test]
    fn the_redactor_gets_what_is_masked_but_no_everyday_words() {
        assert_eq!(collected(|c| c.named("TOKEN", "abcd")), ["abcd"]);
        assert!(collected(|c| c.named("TOKEN", "abc")).is_empty(), "three characters are too few");
        assert!(collected(|c| c.named("TOKEN", "True")).is_empty());
        assert!(collected(|c| c.named("MODE", "strict")).is_empty());
        assert_eq!(collected(|c| c.named("MODE", "correct horse")), ["correct horse"]);
        assert_eq!(collected(|c| c.named("Authorization", "Bearer  tok-en-1 ")), ["tok-en-1"]);
        assert_eq!(collected(|c| c.url("https://tok3n@h/")), ["tok3n"]);
        assert_eq!(
            collected(|c| c.url("https://margarethe:pw12@h/?v=2025&t=s3cr3t-x")),
            ["s3cr3t-x", "pw12"]
        );
        assert_eq!(collected(|c| c.args(&["--key", "v4lue", "--log=debug"])), ["v4lue"]);
        assert_eq!(collected(|c| c.inserted(&["/u/ada", "s3cr3t-x"])), ["s3cr3t-x"]);
        assert_eq!(
            collected(|c| {
                c.certain("same");
                c.certain("same");
                c.certain("longer")
            }),
            ["longer", "same"]
        );
    }

    proptest! {
        #[test]
        fn user_information_and_query_values_never_survive(
            user in "[a-z]{0,6}", password in "[a-zA-Z0-9]{6,12}", name in "[a-z]{1,5}", value in "[A-Z0-9]{6,12}",
        ) {
            prop_assume!(!user.contains(&password) && password != value);
            let url = format!("https://{user}:{password}@host.example/path?{name}={value}&x={value}#{value}");
            let shown = mask_url(&url);
            prop_assert!(!shown.contains(&password) && !shown.contains(&value), "{shown}");
            let flag = mask_args(&[format!("--{name}={url}")]).concat();
            prop_assert!(!flag.contains(&password) && !flag.contains(&value), "{flag}");
        }

        #[test]
        fn no_text_makes_a_mask_panic(text in ".{0,60}", next in ".{0,20}") {
            let _ = (mask_url(&text), mask_value(&text), mask_args(&[&text, &next]));
            let _ = collected(|c| { c.args(&[&text, &next]); c.named(&next, &text); c.url(&text); });
        }
    }
}
