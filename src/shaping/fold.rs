//! How one character looks to whoever searches a text for markers and tokens: in ASCII, in
//! lower case, whatever it is written with. Stronger than NFKC with case folding: marks,
//! joiners and selectors count for nothing, letters and brackets that look alike are the
//! same. Called by `detect`; what a text *is* never changes here.

use std::sync::OnceLock;

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

use super::terminal::{is_hidden, is_joining};

/// What stands in a view for a character that no token has.
pub(super) const OTHER: u8 = 1;
/// What stands for the flowers around the words of one family's tool calls.
pub(super) const FLOWER: u8 = 2;

/// Characters below this are looked up in what was found out about their block.
const KNOWN_BELOW: usize = 0x20000;
/// From here on whole blocks are plain, and not looked up.
const PLAIN_FROM: usize = 0x3400;
/// Characters of a block.
const BLOCK_LEN: usize = 256;
/// Longest look that is kept, in bytes; longer ones are found out each time.
const LOOK_LEN_MAX: usize = 7;

/// What one character looks like, and how long that is; a longer one than is kept has another length.
type Look = ([u8; LOOK_LEN_MAX], u8);

/// What was found out, block by block: the same for the life of the program.
static KNOWN: [OnceLock<Box<[Look]>>; KNOWN_BELOW / BLOCK_LEN] =
    [const { OnceLock::new() }; KNOWN_BELOW / BLOCK_LEN];

fn find_out(block: usize) -> Box<[Look]> {
    let look = |at: usize| {
        let mut out = Vec::new();
        let c = u32::try_from(block * BLOCK_LEN + at).ok().and_then(char::from_u32);
        c.into_iter().for_each(|c| find_into(c, &mut out));
        let mut look = [0; LOOK_LEN_MAX];
        let len = out.len().min(LOOK_LEN_MAX);
        look[..len].copy_from_slice(&out[..len]);
        (look, u8::try_from(out.len()).unwrap_or(u8::MAX))
    };
    (0..BLOCK_LEN).map(look).collect()
}

/// Appends what `c` looks like; nothing at all when it can't be seen by itself.
pub(super) fn fold_into(c: char, out: &mut Vec<u8>) {
    let code = c as usize;
    if code >= PLAIN_FROM && is_plain(c) {
        return push_other(out);
    }
    let known = KNOWN.get(code / BLOCK_LEN).map(|block| {
        let block = block.get_or_init(|| find_out(code / BLOCK_LEN));
        &block[code % BLOCK_LEN]
    });
    match known {
        Some((look, 1)) if look[0] == OTHER && !c.is_ascii() => push_other(out),
        Some((look, 1)) => out.push(look[0]),
        Some((look, len)) if usize::from(*len) <= LOOK_LEN_MAX => {
            // A run of what is no letter of ours goes on.
            let goes_on = look[0] == OTHER && *len > 0 && out.last() == Some(&OTHER);
            out.extend_from_slice(&look[usize::from(goes_on)..usize::from(*len)]);
        }
        _ => find_into(c, out),
    }
}

/// As [`fold_into`], from the rules.
fn find_into(c: char, out: &mut Vec<u8>) {
    if c.is_ascii() {
        out.push(c.to_ascii_lowercase() as u8);
    } else if is_plain(c) {
        push_other(out);
    } else if is_invisible(c) {
    } else if let Some(like) = looks_like(c) {
        out.extend_from_slice(like.as_bytes());
    } else {
        for part in std::iter::once(c).nfkd() {
            match looks_like(part) {
                _ if part.is_ascii() => out.push(part.to_ascii_lowercase() as u8),
                Some(like) => out.extend_from_slice(like.as_bytes()),
                None if is_invisible(part) => {}
                None => push_other(out),
            }
        }
    }
}

/// A run of such characters is one: no token cares how many there are.
fn push_other(out: &mut Vec<u8>) {
    if out.last() != Some(&OTHER) {
        out.push(OTHER);
    }
}

/// The great blocks whose characters look like no letter of ours: nothing to look up.
fn is_plain(c: char) -> bool {
    matches!(c,
        '\u{3041}'..='\u{3096}' | '\u{30a1}'..='\u{30fa}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}'
        | '\u{1f300}'..='\u{1f64f}' | '\u{1f680}'..='\u{1faff}' | '\u{20000}'..='\u{2fa1d}')
        // 工, 一, 丨, 〳: strokes that are taken for signs.
        && !matches!(c, '\u{4e00}' | '\u{4e28}' | '\u{4e36}' | '\u{4e3f}')
}

fn is_invisible(c: char) -> bool {
    is_joining(c) || is_combining_mark(c) || (is_hidden(c) && !matches!(c, '\n' | '\t' | '\r'))
}

/// What a character is taken for that is another one to Unicode. Signs of the tokens first,
/// then letters of other scripts and kinds.
fn looks_like(c: char) -> Option<&'static str> {
    Some(match c {
        '‹' | '〈' | '⟨' | '❮' | '❬' | '❰' | '˂' | 'ᐸ' | 'ᑀ' | '«' | '⧼' | '⦑' | '≺' | '⋖' | '﹤' | '⥼'
        | '𝈶' | '︿' | '⪪' => "<",
        '≪' | '《' | '⟪' | '⪡' | '⦉' => "<<",
        '⋘' => "<<<",
        '›' | '〉' | '⟩' | '❯' | '❭' | '❱' | '˃' | 'ᐳ' | 'ᐅ' | '»' | '⧽' | '⦒' | '≻' | '⋗' | '𝈷' | '﹀'
        | '⪫' => ">",
        '≫' | '》' | '⟫' | '⪢' | '⦊' => ">>",
        '⋙' => ">>>",
        '│' | '┃' | '❘' | '❙' | '❚' | '∣' | 'ǀ' | '¦' | '⎮' | '⏐' | '׀' | '⼁' | '丨' | '｜' | '￨' | '▏'
        | '▕' | '⎢' | '⎥' | '⏽' | '∥' | '‖' | '۱' | '١' | '╎' | '┆' | '┊' => "|",
        '【' | '〔' | '〖' | '〘' | '〚' | '⟦' | '❲' | '⁅' | '⦋' | '「' | '『' => "[",
        '】' | '〕' | '〗' | '〙' | '〛' | '⟧' | '❳' | '⁆' | '⦌' | '」' | '』' => "]",
        '∕' | '⁄' | '⧸' | '╱' | '⟋' | '⼃' | '㇓' | '〳' | '丿' => "/",
        '▁' | 'ˍ' | '‗' | '‿' | '⁀' | '⎽' | '⏝' | '⸏' => "_",
        '‐' | '‑' | '‒' | '–' | '—' | '―' | '−' | '⁃' | '➖' | 'ー' | '─' | '一' => "-",
        '∶' | '꞉' | 'ː' | '˸' | '։' | '׃' | '፡' | '᛬' | '⁚' | '܃' => ":",
        '♯' | '⋕' => "#",
        '✿' | '❀' | '❁' | '✾' => "\u{2}",
        'а' | 'α' | 'А' | 'Α' | 'ᴀ' | 'ɑ' | 'Ꭺ' | 'ӕ' | 'ⲁ' | 'ꓮ' => "a",
        'в' | 'В' | 'Β' | 'β' | 'ʙ' | 'ь' | 'Ь' | 'Ᏼ' | 'ⲃ' | 'ꓐ' | 'ƅ' => "b",
        'с' | 'С' | 'ϲ' | 'Ϲ' | 'ᴄ' | 'ⅽ' | 'Ꮯ' | 'ⲥ' | 'ꓚ' => "c",
        'ԁ' | 'ᴅ' | 'ɗ' | 'Ꭰ' | 'ꓓ' | 'đ' | 'Đ' | 'ð' | 'ɖ' => "d",
        'е' | 'Е' | 'Ε' | 'ε' | 'ᴇ' | 'ҽ' | 'Ꭼ' | 'ⲉ' | 'ꓰ' | 'ɛ' | 'є' | 'ɘ' => "e",
        'ƒ' | 'ꜰ' | 'ϝ' | 'Ϝ' | 'ſ' | 'ꓝ' | 'ք' => "f",
        'ɡ' | 'ɢ' | 'ց' | 'Ꮐ' | 'ꓖ' | 'ԍ' | 'ǥ' => "g",
        'һ' | 'Н' | 'н' | 'Η' | 'ʜ' | 'հ' | 'Ꮋ' | 'ⲏ' | 'ꓧ' | 'ħ' | 'Ħ' => "h",
        'і' | 'І' | 'Ι' | 'ι' | 'ı' | 'ɪ' | 'Ꭵ' | 'ꓲ' | 'ⲓ' | 'Ӏ' | 'ӏ' | 'ɩ' | 'ꙇ' | 'ɨ' => {
            "i"
        }
        'ј' | 'Ј' | 'ᴊ' | 'ȷ' | 'յ' | 'Ꭻ' | 'ꓙ' | 'ϳ' => "j",
        'к' | 'К' | 'Κ' | 'κ' | 'ᴋ' | 'Ꮶ' | 'ⲕ' | 'ꓗ' | 'ĸ' => "k",
        'ʟ' | 'Ꮮ' | 'ꓡ' | 'ł' | 'Ł' | 'ɫ' | 'ɭ' | 'լ' => "l",
        'м' | 'М' | 'Μ' | 'ᴍ' | 'Ꮇ' | 'ⲙ' | 'ꓟ' | 'ɱ' => "m",
        'п' | 'Ν' | 'ɴ' | 'ո' | 'ռ' | 'ⲛ' | 'ꓠ' | 'η' | 'ŋ' | 'ɲ' | 'ɳ' | 'И' | 'и' => "n",
        'о' | 'О' | 'Ο' | 'ο' | 'ᴏ' | 'օ' | 'ⲟ' | 'ꓳ' | 'σ' | 'ø' | 'Ø' | 'ө' | 'ɵ' | 'ჿ' => {
            "o"
        }
        'р' | 'Р' | 'Ρ' | 'ρ' | 'ᴘ' | 'Ꮲ' | 'ⲣ' | 'ꓑ' | 'þ' => "p",
        'ԛ' | 'զ' | 'ɋ' => "q",
        'г' | 'ʀ' | 'Ꭱ' | 'ꓣ' | 'ɼ' | 'ɽ' | 'я' | 'Я' | 'ᴦ' => "r",
        'ѕ' | 'Ѕ' | 'ꜱ' | 'Ꮪ' | 'ꓢ' | 'ʂ' | 'տ' => "s",
        'ß' | 'ẞ' => "ss",
        'т' | 'Т' | 'Τ' | 'τ' | 'ᴛ' | 'Ꭲ' | 'ⲧ' | 'ꓔ' | 'ŧ' | 'Ŧ' | 'ƭ' | 'ț' => "t",
        'υ' | 'ᴜ' | 'ս' | 'ꓴ' | 'ʋ' | 'μ' | 'µ' | 'ц' => "u",
        'ν' | 'ѵ' | 'ᴠ' | 'Ꮩ' | 'ꓦ' => "v",
        'ԝ' | 'ѡ' | 'ᴡ' | 'Ꮤ' | 'ꓪ' | 'ω' | 'ա' | 'ɯ' => "w",
        'х' | 'Х' | 'Χ' | 'χ' | 'ⲭ' | 'ꓫ' | '×' => "x",
        'у' | 'У' | 'Υ' | 'ү' | 'ʏ' | 'γ' | 'ყ' | 'ꓬ' | 'ⲩ' => "y",
        'ᴢ' | 'Ζ' | 'ζ' | 'Ꮓ' | 'ꓜ' | 'ʐ' => "z",
        // Letters in boxes and circles that have no decomposition.
        '\u{1f130}'..='\u{1f149}' => LETTERS.get(letter(c, 0x1f130)..=letter(c, 0x1f130))?,
        '\u{1f150}'..='\u{1f169}' => LETTERS.get(letter(c, 0x1f150)..=letter(c, 0x1f150))?,
        '\u{1f170}'..='\u{1f189}' => LETTERS.get(letter(c, 0x1f170)..=letter(c, 0x1f170))?,
        '\u{1f1e6}'..='\u{1f1ff}' => LETTERS.get(letter(c, 0x1f1e6)..=letter(c, 0x1f1e6))?,
        _ => return None,
    })
}

const LETTERS: &str = "abcdefghijklmnopqrstuvwxyz";

fn letter(c: char, first: u32) -> usize {
    (u32::from(c) - first) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(text: &str) -> String {
        let mut out = Vec::new();
        text.chars().for_each(|c| fold_into(c, &mut out));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_looks_alike_is_alike() {
        for (text, want) in [
            ("Ａｂ＜｜＞［／］", "ab<|>[/]"),
            ("<｜begin▁of▁sentence｜>", "<|begin_of_sentence|>"),
            ("≮\u{338}≪⋘《", "<<<<<<<<"),
            ("𝐢𝗆＿𝓈tаrt", "im_start"),
            ("ⒾⓂ🅂🆃", "imst"),
            ("ﬆﬁ㎏K", "stfikgk"),
            ("e\u{301}é\u{200b}\u{ad}\u{fe0f}x", "eex"),
            ("漢字かな한국", "\u{1}"),
            ("مرحبا", "\u{1}"),
            ("\u{a0}\u{3000}\u{2003}", "   "),
            ("\r\n\t", "\r\n\t"),
        ] {
            assert_eq!(folded(text), want, "{text}");
        }
    }

    #[test]
    fn what_is_kept_of_a_character_is_what_the_rules_say() {
        for before in [&b""[..], b"x", &[OTHER]] {
            for c in '\0'..=char::MAX {
                let (mut kept, mut found) = (before.to_vec(), before.to_vec());
                fold_into(c, &mut kept);
                find_into(c, &mut found);
                assert_eq!(kept, found, "U+{:04X} after {before:?}", u32::from(c));
            }
        }
    }

    #[test]
    fn nothing_is_missed_that_nfkc_and_lower_case_see() {
        for c in ('\u{80}'..=char::MAX).filter(|c| !is_hidden(*c)) {
            let reference: String = std::iter::once(c)
                .nfkc()
                .flat_map(char::to_lowercase)
                .filter(|c| !is_combining_mark(*c))
                .collect();
            if !reference.is_empty() && reference.is_ascii() && looks_like(c).is_none() {
                assert_eq!(folded(&c.to_string()), reference, "{c} U+{:04X}", u32::from(c));
            }
        }
    }
}
