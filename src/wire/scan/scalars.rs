//! Numbers and literals of one block as bit masks. Called by `blocks` only.

use super::masks::{Loaded, TokenMasks};

/// One block: its masks, its bytes in registers, and all bytes from its first one on.
pub(super) struct Block<'a> {
    pub(super) masks: &'a TokenMasks,
    pub(super) loaded: Loaded,
    pub(super) rest: &'a [u8],
}

/// What was found in a block.
pub(super) struct Found {
    /// First bytes of numbers and literals.
    pub(super) starts: u64,
    /// First bytes behind them.
    pub(super) afters: u64,
    pub(super) faults: u64,
}

/// Masks of the bytes of numbers that are no digits.
#[derive(Default)]
struct Marks {
    minus: u64,
    point: u64,
    plus: u64,
    /// `e` or `E`
    exponent: u64,
}

/// What reaches over from one block into the next: each 0 or 1 for what its last byte was.
#[derive(Default)]
pub(super) struct Scalars {
    scalar: u64,
    digit: u64,
    /// A zero that begins a number.
    leading_zero: u64,
    /// Any of those below may be set.
    busy: bool,
    literal: u64,
    /// Bytes of a literal that goes on in the next block.
    literal_rest: u64,
    /// A minus in front of a number.
    sign: u64,
    point: u64,
    exponent: u64,
    exponent_sign: u64,
    /// Digits behind a point, or of an exponent, go on.
    in_fraction: u64,
    in_exponent: u64,
}

/// The bytes behind those in `mask`; `carry` says whether the first byte is one.
#[inline]
fn behind(mask: u64, carry: &mut u64) -> u64 {
    let behind = mask << 1 | *carry;
    *carry = mask >> 63;
    behind
}

/// Behind the runs of digits that begin at `starts`.
#[inline]
fn run_ends(digits: u64, starts: u64, carry: &mut u64) -> u64 {
    let (sums, over) = digits.overflowing_add(starts & digits);
    let (sums, over_too) = sums.overflowing_add(*carry);
    *carry = u64::from(over | over_too);
    sums & !digits
}

impl Scalars {
    /// Checks the bytes in `scalar`: all that is neither string, white space nor punctuation.
    /// `None` when a byte has no place in any scalar.
    #[inline]
    pub(super) fn check(&mut self, scalar: u64, block: &Block<'_>) -> Option<Found> {
        if scalar | self.scalar == 0 {
            return Some(Found { starts: 0, afters: 0, faults: 0 });
        }
        let behind_scalar = behind(scalar, &mut self.scalar);
        let starts = scalar & !behind_scalar;
        let digit = block.masks.digit & scalar;
        let faults = if digit == scalar && !self.busy {
            self.digit = digit >> 63;
            behind(block.masks.zero & starts, &mut self.leading_zero) & digit
        } else {
            self.marked(scalar, starts, block)?
        };
        Some(Found { starts, afters: behind_scalar & !scalar, faults })
    }

    /// The same where there is more than digits; gives the faults.
    fn marked(&mut self, scalar: u64, starts: u64, block: &Block<'_>) -> Option<u64> {
        let digit = block.masks.digit & scalar;
        let signs = block.loaded.number();
        let mut marks =
            Marks { minus: signs.minus & scalar, point: signs.point & scalar, ..Marks::default() };
        let others = scalar & !(digit | marks.minus | marks.point);
        let literal = self.sort(others, starts, &mut marks, block.rest)?;
        let number = scalar & !literal;
        let after_literal = behind(literal, &mut self.literal);

        let first = starts & number;
        let sign = marks.minus & first;
        let after_sign = behind(sign, &mut self.sign);
        let leading_zero = block.masks.zero & digit & (first | after_sign);
        let after_zero = behind(leading_zero, &mut self.leading_zero);
        let after_digit = behind(digit, &mut self.digit);
        let after_point = behind(marks.point, &mut self.point);
        let fraction_ends = run_ends(digit, after_point, &mut self.in_fraction);

        let mut faults = (after_literal & number)
            | (after_zero & digit)
            | ((after_sign | after_point) & !digit)
            | (marks.point & !after_digit)
            | (fraction_ends & marks.point);
        if marks.plus | marks.exponent | self.exponent | self.exponent_sign | self.in_exponent == 0 {
            faults |= marks.minus & !first;
        } else {
            faults |= self.exponents(&marks, digit, first, after_digit);
        }
        self.busy = self.literal | self.literal_rest | self.sign | self.point | self.in_fraction != 0
            || self.exponent | self.exponent_sign | self.in_exponent != 0;
        Some(faults)
    }

    /// The neighbours of exponents and their signs.
    fn exponents(&mut self, marks: &Marks, digit: u64, first: u64, after_digit: u64) -> u64 {
        let after_exponent = behind(marks.exponent, &mut self.exponent);
        let signs = (marks.minus | marks.plus) & after_exponent;
        let after_sign = behind(signs, &mut self.exponent_sign);
        let ends = run_ends(digit, after_exponent | after_sign, &mut self.in_exponent);
        (marks.minus & !(first | after_exponent))
            | (marks.plus & !after_exponent)
            | (marks.exponent & !after_digit)
            | (after_exponent & !(digit | signs))
            | (after_sign & !digit)
            | (ends & (marks.point | marks.exponent))
    }

    /// Sorts the bytes that are no digits, points and minus signs; gives the bytes of literals.
    fn sort(&mut self, others: u64, starts: u64, marks: &mut Marks, rest: &[u8]) -> Option<u64> {
        let mut literal = std::mem::take(&mut self.literal_rest);
        let mut left = others & !literal;
        while left != 0 {
            let bit = left & left.wrapping_neg();
            let at = bit.trailing_zeros();
            let text = word_at(rest, at as usize);
            // Which of the three it is can't be foretold: no branches.
            let five = (&text[..4] == b"fals") & (text[4] == b'e');
            let four = (&text[..4] == b"true") | (&text[..4] == b"null");
            if four | five {
                if starts & bit == 0 {
                    return None;
                }
                let bytes = (0b1111 | u128::from(five) << 4) << at;
                literal |= bytes as u64;
                self.literal_rest = (bytes >> 64) as u64;
            } else {
                match text[0] {
                    b'+' => marks.plus |= bit,
                    b'e' | b'E' => marks.exponent |= bit,
                    _ => return None,
                }
            }
            left &= !(bit | literal);
        }
        Some(literal)
    }
}

/// Five bytes from `at` on; zeros behind the end.
#[inline]
fn word_at(bytes: &[u8], at: usize) -> [u8; 5] {
    let rest = bytes.get(at..).unwrap_or_default();
    rest.first_chunk().copied().unwrap_or_else(|| {
        let mut word = [0; 5];
        word[..rest.len()].copy_from_slice(rest);
        word
    })
}
