//! The structural scan: one pass that says whether a frame is well-formed JSON
//! as far as forwarding needs it (UTF-8, strings and escapes, brackets, depth,
//! tokens), without building anything. serde_json alone would accept any depth
//! behind a `RawValue`. Called by `envelope` and `splice` for every frame that
//! is forwarded; must never recurse, allocate by input size or panic.

use std::fmt;

mod blocks;
mod cursor;
mod masks;
mod scalars;
mod text;

pub(crate) use cursor::{Cursor, Member};
pub(crate) use text::{key_is, unescaped};

/// The deepest nesting that we forward.
pub const DEPTH_MAX: usize = 128;

/// Why a frame must not be forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanError {
    /// Not UTF-8.
    Utf8 {
        /// Offset of the first bad byte.
        at: usize,
    },
    /// Not JSON (RFC 8259).
    Syntax {
        /// Offset where it stops being JSON.
        at: usize,
    },
    /// Nested deeper than `DEPTH_MAX`.
    TooDeep {
        /// Offset of the bracket that is one too many.
        at: usize,
    },
}

impl fmt::Display for ScanError {
    /// The fault and its place, to follow the name of what was scanned and a form of "to be".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Utf8 { at } => write!(f, "not UTF-8 (byte {at})"),
            Self::Syntax { at } => write!(f, "not valid JSON (byte {at})"),
            Self::TooDeep { at } => write!(f, "nested deeper than {DEPTH_MAX} (byte {at})"),
        }
    }
}

impl ScanError {
    /// Offset of the fault in the scanned bytes.
    pub fn at(self) -> usize {
        match self {
            Self::Utf8 { at } | Self::Syntax { at } | Self::TooDeep { at } => at,
        }
    }
}

/// Accepts exactly what serde_json accepts as one JSON value with optional
/// white space around it, except that depth is bounded by `depth_max` (at most
/// `DEPTH_MAX`; every open bracket counts one) and numbers may have any magnitude
/// and strings may hold lone surrogate escapes: those are valid by RFC 8259 and pass
/// through as they are. Bytes that are not UTF-8 are reported before any other fault.
pub fn check(frame: &[u8], depth_max: usize) -> Result<(), ScanError> {
    utf8(frame)?;
    let mut cursor = Cursor::new(frame, depth_max);
    cursor.white();
    cursor.value()?;
    cursor.end()
}

/// Where the value at the start of `bytes` ends, found block by block and token by token. What
/// the first finds the second must find too: compared by the fuzz checks.
pub(crate) fn both_ends(bytes: &[u8]) -> (Option<usize>, Result<usize, ScanError>) {
    let mut cursor = Cursor::new(bytes, DEPTH_MAX);
    let by_token = cursor.value_by_token().map(|()| cursor.at());
    let container = matches!(bytes.first(), Some(b'{' | b'['));
    let by_blocks = if container { blocks::container_end(bytes, 0, DEPTH_MAX) } else { None };
    (by_blocks, by_token)
}

/// UTF-8 over the whole frame, with the offset of the first bad byte.
pub(crate) fn utf8(frame: &[u8]) -> Result<(), ScanError> {
    if simdutf8::basic::from_utf8(frame).is_ok() {
        return Ok(());
    }
    match simdutf8::compat::from_utf8(frame) {
        Ok(_) => Ok(()),
        Err(error) => Err(ScanError::Utf8 { at: error.valid_up_to() }),
    }
}

#[cfg(test)]
mod tests;
