//! Floor 1. Splits the names that servers give to tools and parameters into words. Pure, knows no
//! word. Called by what guesses from names: `violation` here, `verbs` in the policy.

/// The words of a name in lower case: split at everything that is no letter, and at
/// changes of case (`deleteFile`, `HTTPDelete`, `DeleteV2File`).
pub fn words(name: &str) -> Vec<String> {
    let chars: Vec<char> = name.chars().collect();
    let mut words = Vec::new();
    let mut word = String::new();
    for (i, &c) in chars.iter().enumerate() {
        let starts = c.is_uppercase()
            && i > 0
            && (chars[i - 1].is_lowercase()
                || (chars[i - 1].is_uppercase() && chars.get(i + 1).is_some_and(|next| next.is_lowercase())));
        if (starts || !c.is_alphabetic()) && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if c.is_alphabetic() {
            word.extend(c.to_lowercase());
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split_at_separators_digits_and_changes_of_case() {
        for (name, want) in [
            ("delete_file", "delete file"),
            ("deleteFile", "delete file"),
            ("DeleteFile", "delete file"),
            ("HTTPDelete", "http delete"),
            ("drop.TABLE-now 2go", "drop table now go"),
            ("v2delete3x", "v delete x"),
            ("dropTABLE", "drop table"),
            ("__", ""),
            ("größeÄndern", "größe ändern"),
        ] {
            assert_eq!(words(name).join(" "), want, "{name}");
        }
    }
}
