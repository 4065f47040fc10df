//! A cursor over the bytes of one frame: checks the RFC 8259 grammar while it
//! walks and tells where tokens begin and end. Iterative; the open brackets are
//! bits of one number. Knows nothing of JSON-RPC.

use std::ops::Range;

use super::{DEPTH_MAX, ScanError, blocks, text};

/// From this many bytes on that are left, objects and arrays are first tried block by block.
const BLOCKS_MIN: usize = 128;

/// One member of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    /// The key's text between its quotes, escapes as written.
    pub(crate) key: Range<usize>,
    /// The value.
    pub(crate) value: Range<usize>,
}

/// What must come next inside the innermost bracket.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expect {
    /// A value, or the end of an array that has just begun.
    FirstElement,
    /// A key, or the end of an object that has just begun.
    FirstKey,
    /// A value.
    Value,
    /// A key.
    Key,
    /// A comma or the end of the innermost bracket.
    After,
}

/// Walks one frame from front to back.
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    depth: usize,
    depth_max: usize,
}

impl<'a> Cursor<'a> {
    /// A cursor at the first byte. `bytes` must be UTF-8 for the verdict to count.
    pub(crate) fn new(bytes: &'a [u8], depth_max: usize) -> Self {
        Self { bytes, at: 0, depth: 0, depth_max: depth_max.min(DEPTH_MAX) }
    }

    /// Offset of the next byte.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// The next byte.
    pub(crate) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// Skips white space.
    pub(crate) fn white(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    /// Only white space may be left.
    pub(crate) fn end(&mut self) -> Result<(), ScanError> {
        self.white();
        if self.at == self.bytes.len() { Ok(()) } else { self.syntax() }
    }

    /// Enters the object or array whose bracket is next. `false` when it is empty and
    /// has been left again. Pair it with `next_member` or `next_element` until they say that it ended.
    pub(crate) fn open(&mut self, close: u8) -> Result<bool, ScanError> {
        self.deeper()?;
        self.at += 1;
        self.white();
        if self.peek() == Some(close) {
            self.at += 1;
            self.depth -= 1;
            return Ok(false);
        }
        Ok(true)
    }

    /// The next member of the object entered by `open`, and whether another follows.
    pub(crate) fn member(&mut self) -> Result<(Member, bool), ScanError> {
        let key = self.key()?;
        let value = self.spanned_value()?;
        Ok((Member { key, value }, self.another(b'}')?))
    }

    /// The next element of the array entered by `open`, and whether another follows.
    pub(crate) fn element(&mut self) -> Result<(Range<usize>, bool), ScanError> {
        let value = self.spanned_value()?;
        Ok((value, self.another(b']')?))
    }

    fn spanned_value(&mut self) -> Result<Range<usize>, ScanError> {
        let from = self.at;
        self.value()?;
        Ok(from..self.at)
    }

    fn another(&mut self, close: u8) -> Result<bool, ScanError> {
        self.white();
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                self.white();
                Ok(true)
            }
            Some(byte) if byte == close => {
                self.at += 1;
                self.depth -= 1;
                Ok(false)
            }
            _ => self.syntax(),
        }
    }

    fn deeper(&mut self) -> Result<(), ScanError> {
        if self.depth == self.depth_max {
            return Err(ScanError::TooDeep { at: self.at });
        }
        self.depth += 1;
        Ok(())
    }

    /// A key with its colon; stands at the value afterwards.
    fn key(&mut self) -> Result<Range<usize>, ScanError> {
        if self.peek() != Some(b'"') {
            return self.syntax();
        }
        let from = self.at + 1;
        self.string()?;
        let key = from..self.at - 1;
        self.white();
        if self.peek() != Some(b':') {
            return self.syntax();
        }
        self.at += 1;
        self.white();
        Ok(key)
    }

    /// Checks one value that begins at the next byte and stands behind it afterwards.
    pub(crate) fn value(&mut self) -> Result<(), ScanError> {
        if let Some(b'{' | b'[') = self.peek()
            && self.bytes.len() - self.at >= BLOCKS_MIN
            && let Some(end) = blocks::container_end(self.bytes, self.at, self.depth_max - self.depth)
        {
            self.at = end;
            return Ok(());
        }
        self.value_by_token()
    }

    /// The same, token by token: for short values, and to name the fault of long ones.
    pub(super) fn value_by_token(&mut self) -> Result<(), ScanError> {
        let outside = self.depth;
        // Bit 0: whether the innermost bracket is an object.
        let mut objects = 0_u128;
        let mut expect = Expect::Value;
        loop {
            let Some(byte) = self.peek() else { return self.syntax() };
            match (expect, byte) {
                (Expect::FirstElement, b']') | (Expect::FirstKey, b'}') => self.close(&mut objects),
                (Expect::FirstKey | Expect::Key, _) => {
                    self.key()?;
                    expect = Expect::Value;
                    continue;
                }
                (Expect::After, b',') => {
                    self.at += 1;
                    self.white();
                    expect = if objects & 1 == 1 { Expect::Key } else { Expect::Value };
                    continue;
                }
                (Expect::After, _) => {
                    if byte != if objects & 1 == 1 { b'}' } else { b']' } {
                        return self.syntax();
                    }
                    self.close(&mut objects);
                }
                (_, b'{' | b'[') => {
                    self.deeper()?;
                    self.at += 1;
                    let object = byte == b'{';
                    objects = objects << 1 | u128::from(object);
                    expect = if object { Expect::FirstKey } else { Expect::FirstElement };
                    self.white();
                    continue;
                }
                (_, b'"') => self.string()?,
                (_, _) => self.scalar(byte)?,
            }
            if self.depth == outside {
                return Ok(());
            }
            expect = Expect::After;
            self.white();
        }
    }

    fn close(&mut self, objects: &mut u128) {
        self.at += 1;
        self.depth -= 1;
        *objects >>= 1;
    }

    /// A number or a literal.
    fn scalar(&mut self, first: u8) -> Result<(), ScanError> {
        match first {
            b'-' | b'0'..=b'9' => self.number(),
            b't' => self.literal(b"true"),
            b'f' => self.literal(b"false"),
            b'n' => self.literal(b"null"),
            _ => self.syntax(),
        }
    }

    fn literal(&mut self, word: &[u8]) -> Result<(), ScanError> {
        for &letter in word {
            if self.peek() != Some(letter) {
                return self.syntax();
            }
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), ScanError> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => {
                self.at += 1;
                // A leading zero stands alone.
                if self.peek().is_some_and(|b| b.is_ascii_digit()) {
                    return self.syntax();
                }
            }
            _ => self.digits()?,
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    /// At least one digit.
    fn digits(&mut self) -> Result<(), ScanError> {
        let from = self.at;
        while self.peek().is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at == from { self.syntax() } else { Ok(()) }
    }

    /// A string from its quote to behind its closing quote.
    fn string(&mut self) -> Result<(), ScanError> {
        self.at += 1;
        loop {
            self.at = text::plain_until(self.bytes, self.at);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => {
                    self.at += 1;
                    self.escape()?;
                }
                _ => return self.syntax(),
            }
        }
    }

    /// What stands behind a backslash.
    fn escape(&mut self) -> Result<(), ScanError> {
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.at += 1;
                Ok(())
            }
            Some(b'u') => {
                self.at += 1;
                for _ in 0..4 {
                    if !self.peek().is_some_and(|b| b.is_ascii_hexdigit()) {
                        return self.syntax();
                    }
                    self.at += 1;
                }
                Ok(())
            }
            _ => self.syntax(),
        }
    }

    fn syntax<T>(&self) -> Result<T, ScanError> {
        Err(ScanError::Syntax { at: self.at })
    }
}
