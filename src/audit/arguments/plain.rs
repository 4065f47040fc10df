//! Arguments that are in the canonical form of RFC 8785 as they stand, as most clients write them:
//! found in one walk, without a parser and without a copy. What is doubtful is left to the parser.

use super::super::arguments;

/// Deeper ones are left to the parser.
const DEPTH_MAX: usize = 16;
/// Digits of a whole number that every double holds.
const DIGITS_MAX: usize = 15;

/// The canonical form of the arguments in `params`, if it is there word for word and `params` is
/// well-formed and names no trace.
pub(super) fn arguments(params: &[u8]) -> Option<&[u8]> {
    debug_assert!(params.len() <= arguments::CANONICAL_BYTES_MAX);
    if !params.is_ascii() || memchr::memchr(b'\\', params).is_some() {
        return None;
    }
    let mut walk = Walk { text: params, at: 0 };
    let mut found = None;
    walk.take(b'{')?;
    let mut more = !walk.took(b'}');
    while more {
        let key = walk.string()?;
        walk.take(b':')?;
        let from = walk.at;
        let is_arguments = key == b"arguments";
        walk.value(is_arguments, 1)?;
        let value = &params[from..walk.at];
        if is_arguments && found.replace(value).is_some() {
            return None;
        }
        if key == b"_meta" && memchr::memmem::find(value, b"traceparent").is_some() {
            return None;
        }
        more = walk.goes_on(b'}')?;
    }
    (walk.at == params.len()).then_some(found.unwrap_or(b"{}"))
}

/// Goes over ASCII without escapes.
struct Walk<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Walk<'a> {
    fn took(&mut self, byte: u8) -> bool {
        let is_it = self.text.get(self.at) == Some(&byte);
        self.at += usize::from(is_it);
        is_it
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        self.took(byte).then_some(())
    }

    /// Behind a member or an element: whether another one follows.
    fn goes_on(&mut self, end: u8) -> Option<bool> {
        if self.took(b',') {
            return Some(true);
        }
        self.take(end).map(|()| false)
    }

    fn string(&mut self) -> Option<&'a [u8]> {
        self.take(b'"')?;
        let from = self.at;
        let length = self.text[from..].iter().position(|byte| *byte == b'"' || *byte < b' ')?;
        self.at += length;
        self.take(b'"')?;
        Some(&self.text[from..from + length])
    }

    /// A value; `sorted`: with its members in their canonical order.
    fn value(&mut self, sorted: bool, depth: usize) -> Option<()> {
        if depth > DEPTH_MAX {
            return None;
        }
        match self.text.get(self.at)? {
            b'"' => self.string().map(drop),
            b'{' => self.object(sorted, depth),
            b'[' => self.array(sorted, depth),
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            b'n' => self.word(b"null"),
            _ => self.number(),
        }
    }

    fn object(&mut self, sorted: bool, depth: usize) -> Option<()> {
        self.take(b'{')?;
        let mut before: Option<&[u8]> = None;
        let mut more = !self.took(b'}');
        while more {
            let key = self.string()?;
            if sorted && before.replace(key).is_some_and(|before| before >= key) {
                return None;
            }
            self.take(b':')?;
            self.value(sorted, depth + 1)?;
            more = self.goes_on(b'}')?;
        }
        Some(())
    }

    fn array(&mut self, sorted: bool, depth: usize) -> Option<()> {
        self.take(b'[')?;
        let mut more = !self.took(b']');
        while more {
            self.value(sorted, depth + 1)?;
            more = self.goes_on(b']')?;
        }
        Some(())
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        let is_it = self.text[self.at..].starts_with(word);
        self.at += word.len();
        is_it.then_some(())
    }

    /// A whole number; a fraction or an exponent is left behind, where no value goes on.
    fn number(&mut self) -> Option<()> {
        let is_negative = self.took(b'-');
        let digits = self.text[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let has_zero = self.text.get(self.at) == Some(&b'0');
        self.at += digits;
        let is_plain =
            if has_zero { digits == 1 && !is_negative } else { (1..=DIGITS_MAX).contains(&digits) };
        is_plain.then_some(())
    }
}
