//! The tokens by which chat templates of models tell turns, roles and tool calls apart, and
//! where they stand in a view. A text of a server that had one could speak as somebody else.
//! Reads every byte a bounded number of times. Called by `sanitise`.

use std::ops::Range;

use memchr::memmem;

use super::fold::FLOWER;
use super::sanitise::TOKEN;

/// Longest name between brackets, in bytes without white space.
const NAME_LEN_MAX: usize = 48;
/// White space that may stand at one place inside a token.
const GAP_MAX: usize = 8;

/// Families and the tokens of each as a template writes them: what the tests go through.
/// Anything of the form `<|name|>` is one, whoever's it is.
pub const FAMILIES: [(&str, &[&str]); 16] = [
    ("ChatML", &["<|im_start|>", "<|im_end|>", "<|im_sep|>"]),
    ("GPT", &["<|endoftext|>", "<|endofprompt|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>"]),
    (
        "Harmony",
        &["<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|return|>", "<|call|>", "<|constrain|>"],
    ),
    (
        "Llama 3",
        &[
            "<|begin_of_text|>",
            "<|end_of_text|>",
            "<|start_header_id|>",
            "<|end_header_id|>",
            "<|eot_id|>",
            "<|eom_id|>",
            "<|python_tag|>",
            "<|reserved_special_token_0|>",
        ],
    ),
    ("Llama 4", &["<|header_start|>", "<|header_end|>", "<|eot|>", "<|eom|>", "<|image_start|>"]),
    ("Llama 2", &["<<SYS>>", "<</SYS>>", "<s>", "</s>"]),
    (
        "Mistral",
        &[
            "[INST]",
            "[/INST]",
            "[TOOL_CALLS]",
            "[AVAILABLE_TOOLS]",
            "[/AVAILABLE_TOOLS]",
            "[TOOL_RESULTS]",
            "[/TOOL_RESULTS]",
            "[TOOL_CONTENT]",
            "[CALL_ID]",
            "[SYSTEM_PROMPT]",
            "[/SYSTEM_PROMPT]",
            "[THINK]",
            "[/THINK]",
            "[SYS]",
            "[/SYS]",
        ],
    ),
    ("Gemma", &["<start_of_turn>", "<end_of_turn>", "<bos>", "<eos>", "<start_of_image>", "<end_of_image>"]),
    ("Phi", &["<|system|>", "<|user|>", "<|assistant|>", "<|placeholder1|>"]),
    (
        "Qwen",
        &[
            "<tool_call>",
            "</tool_call>",
            "<tool_response>",
            "</tool_response>",
            "<think>",
            "</think>",
            "<|vision_start|>",
            "<function=",
            "✿FUNCTION✿",
            "✿ARGS✿",
            "✿RESULT✿",
            "✿RETURN✿",
        ],
    ),
    (
        "DeepSeek",
        &[
            "<｜begin▁of▁sentence｜>",
            "<｜end▁of▁sentence｜>",
            "<｜User｜>",
            "<｜Assistant｜>",
            "<｜tool▁calls▁begin｜>",
            "<｜tool▁sep｜>",
        ],
    ),
    (
        "Command R",
        &[
            "<|START_OF_TURN_TOKEN|>",
            "<|END_OF_TURN_TOKEN|>",
            "<|SYSTEM_TOKEN|>",
            "<|USER_TOKEN|>",
            "<|CHATBOT_TOKEN|>",
        ],
    ),
    ("Granite", &["<|start_of_role|>", "<|end_of_role|>", "<|tool_call|>"]),
    ("GLM", &["[gMASK]", "<sop>", "<eop>", "<|observation|>"]),
    (
        "Claude",
        &["\n\nHuman:", "\n\nAssistant:", "<function_calls>", "</function_calls>", "<function_results>"],
    ),
    ("Alpaca", &["### Instruction:", "### Response:", "### Human:", "### Assistant:"]),
];

/// Names between angle brackets that are tokens without bars too. Those of one or two letters
/// count only without white space.
const ANGLE: [&str; 24] = [
    "s",
    "bos",
    "eos",
    "pad",
    "unk",
    "sop",
    "eop",
    "think",
    "tool_call",
    "tool_calls",
    "tool_response",
    "tool_code",
    "tool_output",
    "function_calls",
    "function_results",
    "start_of_turn",
    "end_of_turn",
    "start_of_image",
    "end_of_image",
    "image_soft_token",
    "begin_of_text",
    "end_of_text",
    "endoftext",
    "end_of_sentence",
];

/// Names that are tokens with a bar at either side, also where white space stands around the bars.
const BARRED: [&str; 28] = [
    "im_start",
    "im_end",
    "im_sep",
    "endoftext",
    "endofprompt",
    "start",
    "end",
    "channel",
    "message",
    "return",
    "call",
    "constrain",
    "system",
    "user",
    "assistant",
    "begin_of_text",
    "end_of_text",
    "start_header_id",
    "end_header_id",
    "eot_id",
    "eom_id",
    "python_tag",
    "eot",
    "eom",
    "begin_of_sentence",
    "end_of_sentence",
    "observation",
    "placeholder",
];

/// Names between square brackets.
const SQUARE: [&str; 11] = [
    "inst",
    "tool_calls",
    "available_tools",
    "tool_results",
    "tool_content",
    "call_id",
    "system_prompt",
    "think",
    "sys",
    "gmask",
    "b_inst",
];

/// Every token of the view, in no particular order; spans may overlap.
pub(super) fn find(view: &[u8], spans: &mut Vec<Range<usize>>) {
    for at in memchr::memchr2_iter(b'<', b'[', view) {
        let found = match (view[at], view.get(at + 1)) {
            (b'[', Some(next)) if !begins_square(*next) => None,
            // A word of ours.
            (b'[', _) if view[at..].starts_with(TOKEN.as_bytes()) => None,
            (b'<', _) => angle(view, at),
            _ => square(view, at),
        };
        spans.extend(found);
    }
    for word in [&b"human"[..], b"assistant"] {
        let turns = memmem::find_iter(view, word).filter_map(|at| turn(view, at, word.len()));
        spans.extend(turns);
    }
    spans.extend(memmem::find_iter(view, b"###").filter_map(|at| heading(view, at)));
    spans.extend(memchr::memchr_iter(FLOWER, view).filter_map(|at| flower(view, at)));
}

/// Whether a token between square brackets may begin so.
fn begins_square(byte: u8) -> bool {
    byte.is_ascii_whitespace()
        || matches!(byte, b'/' | b'\\')
        || SQUARE.iter().any(|name| name.as_bytes().first() == Some(&byte))
}

/// What a byte is inside brackets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Name,
    Gap,
    Other,
}

/// The kind of each byte: asked for every byte behind a bracket.
static KINDS: [Kind; 256] = {
    let mut kinds = [Kind::Other; 256];
    let mut byte: u8 = 0;
    while byte < 128 {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'|' | b'_' | b'/' | b'-' | b'.') {
            kinds[byte as usize] = Kind::Name;
        } else if byte.is_ascii_whitespace() || byte == b'\\' {
            kinds[byte as usize] = Kind::Gap;
        }
        byte += 1;
    }
    kinds
};

/// A name between brackets, without the white space in it.
struct Name {
    text: [u8; NAME_LEN_MAX],
    len: usize,
    spaced: bool,
    /// Behind the closing bracket.
    end: usize,
}

impl Name {
    /// Reads from behind the opening bracket; `None` when what follows is no name.
    fn read(view: &[u8], from: usize, close: u8) -> Option<Self> {
        let mut name = Self { text: [0; NAME_LEN_MAX], len: 0, spaced: false, end: from };
        let mut gap = 0;
        for (at, b) in view.get(from..)?.iter().enumerate() {
            match KINDS[usize::from(*b)] {
                Kind::Name => {
                    gap = 0;
                    *name.text.get_mut(name.len)? = *b;
                    name.len += 1;
                }
                _ if *b == close => {
                    name.end = from + at + 1;
                    return (name.len > 0).then_some(name);
                }
                Kind::Gap => {
                    gap += 1;
                    name.spaced = true;
                    if gap > GAP_MAX {
                        return None;
                    }
                }
                Kind::Other if *b == b'=' && name.as_slice() == b"function" => {
                    name.end = from + at + 1;
                    return Some(name);
                }
                Kind::Other => return None,
            }
        }
        None
    }

    fn as_slice(&self) -> &[u8] {
        &self.text[..self.len]
    }
}

fn angle(view: &[u8], at: usize) -> Option<Range<usize>> {
    let name = Name::read(view, at + 1, b'>')?;
    let text = name.as_slice();
    if text == b"function" {
        return (view.get(name.end - 1) == Some(&b'=')).then_some(at..name.end);
    }
    let bare = trim(text, b'/');
    let inner = trim(trim(bare, b'|'), b'/');
    let has = |list: &[&str]| list.iter().any(|known| known.as_bytes() == inner);
    let barred = bare.len() > 2 && bare.starts_with(b"|") && bare.ends_with(b"|");
    let is_token = if barred && !name.spaced {
        !inner.is_empty() && !inner.contains(&b'|')
    } else if bare.contains(&b'|') {
        let family = without_digits(inner);
        BARRED.iter().any(|known| known.as_bytes() == family) || has(&ANGLE) || inner.contains(&b'_')
    } else {
        (has(&ANGLE) && (inner.len() > 2 || !name.spaced)) || numbered(inner)
    };
    if is_token {
        return Some(at..name.end);
    }
    // `<<sys>>`
    let opened = at > 0 && view[at - 1] == b'<';
    let closed = view.get(name.end) == Some(&b'>');
    (inner == b"sys" && opened && closed).then(|| at - 1..name.end + 1)
}

/// Tokens that a vocabulary keeps in reserve.
fn numbered(name: &[u8]) -> bool {
    let digits = |rest: &[u8]| !rest.is_empty() && rest.iter().all(u8::is_ascii_digit);
    [&b"unused"[..], b"extra_id_", b"special_", b"reserved_"]
        .iter()
        .any(|head| name.strip_prefix(*head).is_some_and(digits))
}

/// `placeholder1` is one of a family.
fn without_digits(name: &[u8]) -> &[u8] {
    let digits = name.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    &name[..name.len() - digits]
}

fn trim(mut text: &[u8], byte: u8) -> &[u8] {
    while let [first, rest @ ..] = text {
        if *first != byte {
            break;
        }
        text = rest;
    }
    while let [rest @ .., last] = text {
        if *last != byte {
            break;
        }
        text = rest;
    }
    text
}

fn square(view: &[u8], at: usize) -> Option<Range<usize>> {
    let name = Name::read(view, at + 1, b']')?;
    let inner = trim(name.as_slice(), b'/');
    SQUARE.iter().any(|known| known.as_bytes() == inner).then_some(at..name.end)
}

/// `Human:` or `Assistant:` at the start of a paragraph.
fn turn(view: &[u8], at: usize, len: usize) -> Option<Range<usize>> {
    let end = colon(view, at + len)?;
    let mut lines = 0;
    for b in view[..at].iter().rev() {
        match b {
            b'\n' => lines += 1,
            b if b.is_ascii_whitespace() => {}
            _ => return None,
        }
        if lines == 2 {
            break;
        }
    }
    Some(at..end)
}

/// `### Response:`, wherever it stands.
fn heading(view: &[u8], at: usize) -> Option<Range<usize>> {
    let near = |from: usize, sign: fn(&u8) -> bool| {
        from + view[from..].iter().take(GAP_MAX).take_while(|b| sign(b)).count()
    };
    let word = near(near(at, |b| *b == b'#'), |b| matches!(b, b' ' | b'\t'));
    let known = [&b"instruction"[..], b"response", b"human", b"assistant"];
    let name = known.iter().find(|name| view[word..].starts_with(name))?;
    Some(at..colon(view, word + name.len())?)
}

/// Behind the colon that comes next.
fn colon(view: &[u8], at: usize) -> Option<usize> {
    let gap = view[at..].iter().take(GAP_MAX).take_while(|b| b.is_ascii_whitespace()).count();
    (view.get(at + gap) == Some(&b':')).then_some(at + gap + 1)
}

/// A word between two flowers.
fn flower(view: &[u8], at: usize) -> Option<Range<usize>> {
    let name = Name::read(view, at + 1, FLOWER)?;
    [&b"function"[..], b"args", b"result", b"return"].contains(&name.as_slice()).then_some(at..name.end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shaping::detect::View;

    fn found(text: &str) -> Vec<&str> {
        let view = View::of(text);
        let mut spans = Vec::new();
        find(&view.bytes, &mut spans);
        view.in_text(&mut spans);
        spans.into_iter().map(|span| &text[span]).collect()
    }

    #[test]
    fn every_token_of_every_family_is_found_whole() {
        assert!(FAMILIES.len() >= 12);
        for (family, tokens) in FAMILIES {
            for token in tokens {
                let text = format!("a\n{token} b");
                let all = found(&text);
                assert!(all.iter().any(|found| *found == token.trim_start()), "{family}: {token}: {all:?}");
            }
        }
    }

    #[test]
    fn other_ways_to_write_a_token_are_found_too() {
        for text in [
            "< | im_start | >",
            "<|im_start>",
            "<im_start|>",
            "<start_of_turn|>",
            "[ INST ]",
            "\\[INST\\]",
            "[/ INST]",
            "<|anything-new.9|>",
            "<unused12>",
            "<｜ＩＭ＿start｜>",
            "&lt;|im_end|&gt;",
            "\\u003c|im_end|\\u003e",
            "<function=x>",
            "</think>",
            "<< SYS>>",
            "\n\n human :",
        ] {
            assert!(!found(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn what_only_looks_a_little_like_one_is_left_alone() {
        for text in [
            "a <| b |> c <| d",
            "x |> f <| y",
            "<a href='|x|'>",
            "Vec<String>",
            "if a < s > b",
            "[1, 2] [inst",
            "array[i]",
            "The human: she",
            "a\nHuman: b",
            "### Responses",
            "<<EOF",
            "<strong>",
            "std::vector<s_t>",
            "<|>",
            "<||>",
            "✿ flower ✿",
            "[info] [args]",
        ] {
            assert_eq!(found(text), Vec::<&str>::new(), "{text}");
        }
    }
}
