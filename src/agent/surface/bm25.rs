//! Ranks tools by words: BM25 over names, descriptions and parameters. A name counts three times. Pure; the
//! same question over the same tools has the same answer.

use std::collections::BTreeMap;

const K1: f64 = 1.2;
const B: f64 = 0.75;
/// How often a word of the name counts.
const NAME_WEIGHT: usize = 3;
/// Words of one description that are looked at.
const WORDS_MAX: usize = 2000;

/// What is searched.
#[derive(Debug, Default)]
pub(super) struct Index {
    docs: Vec<BTreeMap<String, usize>>,
    lengths: Vec<usize>,
    holding: BTreeMap<String, usize>,
}

impl Index {
    /// Adds the next document.
    pub(super) fn add(&mut self, name: &str, text: &str, parameters: &[String]) {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        let named = words(name).into_iter().map(|word| (word, NAME_WEIGHT));
        let rest = words(text).into_iter().take(WORDS_MAX);
        let of_parameters = parameters.iter().flat_map(|parameter| words(parameter));
        for (word, weight) in named.chain(rest.chain(of_parameters).map(|word| (word, 1))) {
            *counts.entry(word).or_default() += weight;
        }
        for word in counts.keys() {
            *self.holding.entry(word.clone()).or_default() += 1;
        }
        self.lengths.push(counts.values().sum());
        self.docs.push(counts);
    }

    /// The numbers of the best documents, best first; those without any of the words are not among them.
    pub(super) fn best(&self, query: &str, count_max: usize) -> Vec<usize> {
        let count = self.docs.len() as f64;
        let mean = (self.lengths.iter().sum::<usize>() as f64 / count.max(1.0)).max(1.0);
        let wanted = words(query);
        let score = |at: usize| -> f64 {
            let length = self.lengths[at] as f64;
            let of = |word: &String| {
                let times = self.docs[at].get(word).copied().unwrap_or_default() as f64;
                let holding = self.holding.get(word).copied().unwrap_or_default() as f64;
                let rare = (1.0 + (count - holding + 0.5) / (holding + 0.5)).ln();
                rare * times * (K1 + 1.0) / (times + K1 * (1.0 - B + B * length / mean))
            };
            wanted.iter().map(of).sum()
        };
        let mut scored: Vec<(f64, usize)> = (0..self.docs.len()).map(|at| (score(at), at)).collect();
        scored.retain(|(score, _)| *score > 0.0);
        scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        scored.into_iter().take(count_max).map(|(_, at)| at).collect()
    }
}

/// The words of a text, lower case: split where letters of one word end, in camel case too; a plural is its
/// singular.
fn words(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut word = String::new();
    let mut was_lower = false;
    for c in text.chars() {
        let starts = c.is_uppercase() && was_lower;
        if (!c.is_alphanumeric() || starts) && !word.is_empty() {
            all.push(std::mem::take(&mut word));
        }
        if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
        }
        was_lower = c.is_lowercase() || c.is_numeric();
    }
    if !word.is_empty() {
        all.push(word);
    }
    all.into_iter()
        .map(|word| match word.strip_suffix('s') {
            Some(one) if one.len() >= 3 && !one.ends_with('s') => one.to_owned(),
            _ => word,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_names_are_found_however_they_are_written() {
        assert_eq!(words("createIssue list_PullRequests"), ["create", "issue", "list", "pull", "request"]);
        assert_eq!(words("HTTP2 class"), ["http2", "class"]);
    }

    #[test]
    fn what_is_named_so_comes_before_what_only_speaks_of_it() {
        let mut index = Index::default();
        index.add("list_files", "Lists what is in a folder, one issue per line", &[]);
        index.add("create_issue", "Opens a new one", &["title".into(), "body".into()]);
        index.add("weather", "Tells the weather", &["city".into()]);
        assert_eq!(index.best("issues", 9), [1, 0]);
        assert_eq!(index.best("weather in a city", 1), [2]);
        assert_eq!(index.best("title", 9), [1]);
        assert_eq!(index.best("nothing like it", 9), Vec::<usize>::new());
    }
}
