//! A whole object or array checked sixty-four bytes at a time, without a branch per token:
//! every rule of the grammar is a relation of neighbours, computed for all bytes of a block at once;
//! only brackets, literals and signs are looked at one by one. Called by `Cursor` for
//! values that are not short; must never say yes to what the cursor would refuse.

use super::masks::{BLOCK, Loaded, TextMasks, TokenMasks};
use super::scalars::{Block, Scalars};

/// Brackets that `Walk::objects` has bits for; what is nested deeper is left to the cursor.
const OBJECTS_MAX: usize = 64;

/// What reaches over from one block into the next.
#[derive(Default)]
struct Walk {
    /// The first byte is escaped: 0 or 1.
    escaped: u64,
    /// The first byte is inside a string: all ones, or 0.
    inside: u64,
    /// That string may be a key: 0 or 1.
    key_candidate: u64,
    /// What the token before was; the next one is still to come: each 0 or 1.
    after_comma_or_open: u64,
    after_colon: u64,
    after_value: u64,
    after_key: u64,
    scalars: Scalars,
    /// Bit 0: whether the innermost bracket is an object.
    objects: u64,
    depth: usize,
}

/// Tokens of one block, outside of strings.
struct Tokens {
    masks: TokenMasks,
    /// All white space.
    white: u64,
    /// First bytes of strings.
    string: u64,
    /// Last bytes of strings.
    string_end: u64,
    /// Bytes from the first of a string on, without its last.
    inside: u64,
}

/// What a block says of the bracket around it.
struct Evidence {
    /// Here it must be an array.
    array: u64,
    /// Here it must be an object.
    object: u64,
    /// Here it is wrong in any case.
    faults: u64,
}

/// Where the object or array that begins at `from` ends, if it is well-formed and nested at most
/// `depth_max` deep. `None` leaves open what is wrong, and whether anything is.
pub(super) fn container_end(bytes: &[u8], from: usize, depth_max: usize) -> Option<usize> {
    // The container itself is a value that is waited for.
    let mut walk = Walk { after_colon: 1, ..Walk::default() };
    let mut at = from;
    loop {
        if walk.inside != 0 && walk.escaped == 0 {
            at = skip_plain_text(bytes, at);
        }
        let rest = bytes.get(at..).filter(|rest| !rest.is_empty())?;
        let end = match rest.first_chunk::<BLOCK>() {
            Some(block) => walk.block(block, bytes, at, depth_max)?,
            None => {
                let mut block = [b' '; BLOCK];
                block[..rest.len()].copy_from_slice(rest);
                walk.block(&block, bytes, at, depth_max)?
            }
        };
        if let Some(last) = end {
            return Some(at + last + 1);
        }
        at += BLOCK;
    }
}

/// Skips whole blocks of a long string.
fn skip_plain_text(bytes: &[u8], from: usize) -> usize {
    let mut at = from;
    while let Some(block) = bytes.get(at..).and_then(<[u8]>::first_chunk)
        && Loaded::new(block).is_plain_text()
    {
        at += BLOCK;
    }
    at
}

impl Walk {
    /// Checks the block at `at` of `bytes`. `Some(Some(i))`: its byte `i` ends the container.
    #[inline]
    fn block(
        &mut self,
        block: &[u8; BLOCK],
        bytes: &[u8],
        at: usize,
        depth_max: usize,
    ) -> Option<Option<usize>> {
        let loaded = Loaded::new(block);
        let text = loaded.text();
        let escaped = self.escapes(text.backslash);
        let quote = text.quote & !escaped;
        let inside = prefix_xor(quote) ^ self.inside;
        let mut faults = text.control & inside;
        if escaped != 0 {
            faults |= bad_escapes(&bytes[at..], escaped & inside);
        }
        if quote == 0 && self.inside != 0 {
            return if faults == 0 { Some(None) } else { None };
        }
        self.inside = if inside >> 63 == 1 { u64::MAX } else { 0 };
        let tokens = outside(loaded, &text, quote, inside);
        let found = self.relations(&tokens, loaded, bytes, at)?;
        self.brackets(block, &tokens.masks, &found, faults | found.faults, depth_max)
    }

    /// The bytes that a backslash escapes.
    fn escapes(&mut self, backslash: u64) -> u64 {
        const EVEN: u64 = 0x5555_5555_5555_5555;
        if backslash == 0 {
            return std::mem::take(&mut self.escaped);
        }
        let backslash = backslash & !self.escaped;
        let follows = backslash << 1 | self.escaped;
        // Runs that begin on odd bits: adding them to all leaves a carry where they end.
        let odd_starts = backslash & !EVEN & !follows;
        let (sums, over) = odd_starts.overflowing_add(backslash);
        self.escaped = u64::from(over);
        (EVEN ^ (sums << 1)) & follows
    }

    /// Which token follows which, and what that says. Every token but the first stands behind exactly one
    /// other, so it is enough to say for each kind what may stand behind it.
    fn relations(&mut self, t: &Tokens, loaded: Loaded, bytes: &[u8], at: usize) -> Option<Evidence> {
        let m = &t.masks;
        let scalar = !(t.inside | t.string_end | t.white | m.open | m.close | m.colon | m.comma);
        let scalars = self.scalars.check(scalar, &Block { masks: m, loaded, rest: &bytes[at..] })?;
        let value = t.string | scalars.starts | m.open;

        // Behind a comma or a bracket comes a key, if we are in an object: only brackets can tell.
        let before_item = m.comma | m.open;
        let item = follow(before_item << 1, before_item, &mut self.after_comma_or_open, t.white);
        let after_colon = follow(m.colon << 1, m.colon, &mut self.after_colon, t.white);

        let key_end = self.key_ends(t, t.string & item);
        let after_key = follow(key_end << 1, key_end, &mut self.after_key, t.white);
        let ends = (t.string_end & !key_end) | m.close;
        let after_value = follow(ends << 1 | scalars.afters, ends, &mut self.after_value, t.white);

        Some(Evidence {
            array: (after_key & !m.colon) | (item & !t.string & !m.close),
            object: m.colon,
            faults: scalars.faults
                | (after_colon & !value)
                | (item & !(value | m.close))
                | not_empty(bytes, at, item & m.close)
                | (after_value & !(m.comma | m.close))
                | (after_key & !(m.colon | m.comma | m.close)),
        })
    }

    /// Last bytes of the strings that begin at `candidates`, or began so before this block.
    fn key_ends(&mut self, t: &Tokens, candidates: u64) -> u64 {
        // Added to its bytes, the first one leaves a carry behind the last one.
        let (sums, over) = t.inside.overflowing_add(candidates);
        let (sums, over_too) = sums.overflowing_add(self.key_candidate);
        self.key_candidate = u64::from(over | over_too);
        sums & t.string_end
    }

    /// Opens and closes brackets one by one; between them the evidence must fit the innermost one.
    /// Which way a bracket turns can't be foretold: no branches on it.
    fn brackets(
        &mut self,
        block: &[u8; BLOCK],
        masks: &TokenMasks,
        found: &Evidence,
        faults: u64,
        depth_max: usize,
    ) -> Option<Option<usize>> {
        let mut brackets = masks.open | masks.close;
        let mut unchecked = u64::MAX;
        let mut deepest = self.depth;
        let mut faults = faults;
        while brackets != 0 {
            let bit = brackets & brackets.wrapping_neg();
            let upto = bit | (bit - 1);
            let at = bit.trailing_zeros() as usize;
            faults |= found.against(self.objects) & upto & unchecked;
            unchecked = !upto;
            let opens = masks.open & bit != 0;
            let curly = u64::from(block[at] >> 5 & 1);
            let mismatch = !opens & (curly != self.objects & 1);
            faults |= u64::from(mismatch) << at;
            self.objects = if opens { self.objects << 1 | curly } else { self.objects >> 1 };
            self.depth = if opens { self.depth + 1 } else { self.depth - 1 };
            deepest = deepest.max(self.depth);
            if self.depth == 0 {
                return if faults & upto == 0 && deepest <= depth_max.min(OBJECTS_MAX) {
                    Some(Some(at))
                } else {
                    None
                };
            }
            brackets ^= bit;
        }
        faults |= found.against(self.objects) & unchecked;
        if faults == 0 && deepest <= depth_max.min(OBJECTS_MAX) { Some(None) } else { None }
    }
}

impl Evidence {
    /// What speaks against the innermost bracket, the lowest bit of `objects`.
    #[inline]
    fn against(&self, objects: u64) -> u64 {
        if objects & 1 == 1 { self.array } else { self.object }
    }
}

#[inline]
fn outside(loaded: Loaded, text: &TextMasks, quote: u64, inside: u64) -> Tokens {
    let string = quote & inside;
    let string_end = quote & !inside;
    let out = !(inside | string_end);
    let mut masks = loaded.tokens();
    masks.open &= out;
    masks.close &= out;
    masks.colon &= out;
    masks.comma &= out;
    let more = if text.control == 0 { 0 } else { loaded.white() };
    let white = (masks.space | more) & out;
    Tokens { masks, white, string, string_end, inside }
}

/// From the bytes behind tokens to the first ones that are not white space. `carry` says whether
/// the first byte of the block is such a byte, and is set for the next block; `ends` are the last bytes of the tokens.
#[inline]
fn follow(behind: u64, ends: u64, carry: &mut u64, white: u64) -> u64 {
    let behind = behind | *carry;
    if white == 0 {
        *carry = ends >> 63;
        return behind;
    }
    // A byte added to the white space that begins with it leaves a carry behind it.
    let (sums, over) = (behind & white).overflowing_add(white);
    *carry = ends >> 63 | u64::from(over);
    (sums | behind) & !white
}

/// Those of the `closes`, closing brackets behind a comma or an opening one, that stand behind a comma.
#[inline]
fn not_empty(bytes: &[u8], at: usize, closes: u64) -> u64 {
    let mut bad = 0;
    let mut left = closes;
    while left != 0 {
        let bit = left & left.wrapping_neg();
        let before = &bytes[..at + bit.trailing_zeros() as usize];
        if !matches!(before.trim_ascii_end().last(), Some(b'{' | b'[')) {
            bad |= bit;
        }
        left ^= bit;
    }
    bad
}

/// Bit `i` is the parity of the bits up to `i`.
fn prefix_xor(mut bits: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << shift;
    }
    bits
}

/// Those of the `escaped` bytes that no escape is made of; `rest` begins with the block.
fn bad_escapes(rest: &[u8], escaped: u64) -> u64 {
    let mut bad = 0;
    let mut left = escaped;
    while left != 0 {
        let bit = left & left.wrapping_neg();
        let at = bit.trailing_zeros() as usize;
        let good = match rest.get(at).copied().unwrap_or_default() {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => true,
            b'u' => rest.get(at + 1..at + 5).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit)),
            _ => false,
        };
        if !good {
            bad |= bit;
        }
        left ^= bit;
    }
    bad
}
