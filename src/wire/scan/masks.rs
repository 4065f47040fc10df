//! Sixty-four bytes at a time as bit masks: bit `i` says something of byte `i`.
//! Called by `blocks` only.

use wide::u8x64;

/// Bytes in one block.
pub(super) const BLOCK: usize = 64;

/// One block in vector registers.
#[derive(Clone, Copy)]
pub(super) struct Loaded(u8x64);

/// Which bytes matter to strings.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TextMasks {
    /// `"`
    pub(super) quote: u64,
    /// `\`
    pub(super) backslash: u64,
    /// Below U+0020.
    pub(super) control: u64,
}

/// Which bytes matter outside of strings.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TokenMasks {
    /// `{` or `[`
    pub(super) open: u64,
    /// `}` or `]`
    pub(super) close: u64,
    pub(super) colon: u64,
    pub(super) comma: u64,
    pub(super) space: u64,
    /// `0` to `9`
    pub(super) digit: u64,
    /// `0`
    pub(super) zero: u64,
}

/// Which bytes matter inside numbers, beside the digits.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct NumberMasks {
    pub(super) minus: u64,
    pub(super) point: u64,
}

impl Loaded {
    #[inline]
    pub(super) fn new(block: &[u8; BLOCK]) -> Self {
        Self(u8x64::from(*block))
    }

    #[inline]
    fn equal(self, byte: u8) -> u64 {
        self.0.simd_eq(u8x64::splat(byte)).to_bitmask()
    }

    /// Bytes from `low` to `low + span`.
    #[inline]
    fn within(self, low: u8, span: u8) -> u64 {
        let above = self.0 - u8x64::splat(low);
        above.min(u8x64::splat(span)).simd_eq(above).to_bitmask()
    }

    #[inline]
    pub(super) fn text(self) -> TextMasks {
        let quote = self.equal(b'"');
        let rare = self.controls() | self.0.simd_eq(u8x64::splat(b'\\'));
        if rare.any() {
            TextMasks { quote, backslash: self.equal(b'\\'), control: self.controls().to_bitmask() }
        } else {
            TextMasks { quote, backslash: 0, control: 0 }
        }
    }

    /// All ones in every byte below U+0020.
    #[inline]
    fn controls(self) -> u8x64 {
        self.0.min(u8x64::splat(0x1f)).simd_eq(self.0)
    }

    #[inline]
    pub(super) fn tokens(self) -> TokenMasks {
        // With bit 5 set, both opening brackets are the same byte, and no other one is.
        let folded = Self(self.0 | u8x64::splat(0x20));
        TokenMasks {
            open: folded.equal(b'{'),
            close: folded.equal(b'}'),
            colon: self.equal(b':'),
            comma: self.equal(b','),
            space: self.equal(b' '),
            digit: self.within(b'0', 9),
            zero: self.equal(b'0'),
        }
    }

    #[inline]
    pub(super) fn number(self) -> NumberMasks {
        NumberMasks { minus: self.equal(b'-'), point: self.equal(b'.') }
    }

    /// Whether a string could hold all of it as it is.
    #[inline]
    pub(super) fn is_plain_text(self) -> bool {
        let marks = self.0.simd_eq(u8x64::splat(b'"')) | self.0.simd_eq(u8x64::splat(b'\\'));
        !(self.controls() | marks).any()
    }

    /// Tab, line feed and carriage return.
    pub(super) fn white(self) -> u64 {
        self.equal(b'\t') | self.equal(b'\n') | self.equal(b'\r')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_classed_right_wherever_it_stands() {
        for byte in 0..=255_u8 {
            let mut block = [b'x'; BLOCK];
            for at in [0, 7, 8, 31, 63] {
                block[at] = byte;
            }
            let expected = |test: &dyn Fn(u8) -> bool| {
                block.iter().enumerate().fold(0_u64, |m, (i, &b)| m | u64::from(test(b)) << i)
            };
            let text = TextMasks {
                quote: expected(&|b| b == b'"'),
                backslash: expected(&|b| b == b'\\'),
                control: expected(&|b| b < 0x20),
            };
            let tokens = TokenMasks {
                open: expected(&|b| b == b'{' || b == b'['),
                close: expected(&|b| b == b'}' || b == b']'),
                colon: expected(&|b| b == b':'),
                comma: expected(&|b| b == b','),
                space: expected(&|b| b == b' '),
                digit: expected(&|b| b.is_ascii_digit()),
                zero: expected(&|b| b == b'0'),
            };
            let loaded = Loaded::new(&block);
            assert_eq!((loaded.text(), loaded.tokens()), (text, tokens), "{byte}");
            let number = NumberMasks { minus: expected(&|b| b == b'-'), point: expected(&|b| b == b'.') };
            assert_eq!(loaded.number(), number);
            assert_eq!(loaded.is_plain_text(), !matches!(byte, 0..0x20 | b'"' | b'\\'), "{byte}");
            assert_eq!(loaded.white(), expected(&|b| matches!(b, b'\t' | b'\n' | b'\r')), "{byte}");
        }
    }
}
