//! How many tokens a text comes to, without the tokenizer of any model. An estimate, meant to be a little too
//! high: four bytes of ASCII are one token, every other character is one. Pure.

use crate::agent::chat::ToolDef;

/// What stands around each definition in a request, tokens.
const TOOL_FRAME: u64 = 12;

/// The tokens of a text, estimated.
pub fn tokens(text: &str) -> u64 {
    let ascii = text.bytes().filter(u8::is_ascii).count() as u64;
    let others = text.chars().filter(|c| !c.is_ascii()).count() as u64;
    ascii.div_ceil(4) + others
}

/// The tokens of one definition, estimated.
pub(super) fn of_tool(tool: &ToolDef) -> u64 {
    tokens(&tool.name) + tokens(&tool.description) + tokens(&tool.schema) + TOOL_FRAME
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_grows_with_the_text_and_counts_other_scripts_in_full() {
        assert_eq!((tokens(""), tokens("abcd"), tokens("abcde"), tokens("日本語")), (0, 1, 2, 3));
    }
}
