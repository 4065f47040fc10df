//! Replays the corpus of the fuzz target, so that what fuzzing has found stays mended; and goes on from
//! it by mutations of its own, which need no fuzzer and can be repeated.

use std::path::PathBuf;

use super::fuzz_checks;

/// How many mutated inputs are tried; another number of them by this variable (`.ci/long fence`).
const CASES: u64 = 20_000;
const CASES_VAR: &str = "CALLBOARD_FENCE_CASES";
/// Longest mutated input, in bytes.
const LEN_MAX: usize = 512;

fn folder() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "fuzz"].iter().collect()
}

fn corpus() -> Vec<(PathBuf, Vec<u8>)> {
    let files = std::fs::read_dir(folder().join("corpus/fence")).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<_> = files.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect();
    all.sort();
    all
}

/// The words of the fuzzer's dictionary.
fn words() -> Vec<Vec<u8>> {
    let text = std::fs::read_to_string(folder().join("fence.dict")).unwrap();
    let quoted = text.lines().filter_map(|line| line.trim().strip_prefix('"')?.strip_suffix('"'));
    let decoded = |word: &str| {
        let mut bytes = Vec::new();
        let mut rest = word.as_bytes();
        while let [first, more @ ..] = rest {
            rest = more;
            bytes.push(match (first, more) {
                (b'\\', [b'x', high, low, after @ ..]) => {
                    rest = after;
                    let digit = |b: &u8| char::from(*b).to_digit(16).unwrap() as u8;
                    digit(high) << 4 | digit(low)
                }
                (b'\\', [escaped, after @ ..]) => {
                    rest = after;
                    *escaped
                }
                _ => *first,
            });
        }
        bytes
    };
    quoted.map(decoded).collect()
}

/// A small source of chance that can be repeated.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides.max(1)
    }

    fn span(&mut self, len: usize) -> std::ops::Range<usize> {
        let from = self.roll(len);
        from..(from + 1 + self.roll(24)).min(len)
    }
}

/// What texts are hidden in: characters of every kind that the rules speak of.
const SIGNS: [&str; 24] = [
    "\u{200b}",
    "\u{200d}",
    "\u{ad}",
    "\u{fe0f}",
    "\u{301}",
    "\u{338}",
    "\u{202e}",
    "\u{e0041}",
    "\u{1b}[",
    "\u{9b}",
    "\u{85}",
    "\r",
    "\n",
    "&#x",
    "&lt",
    "&amp;",
    ";",
    "\\u00",
    "%",
    "＜",
    "｜",
    "≪",
    "é",
    "👩",
];

fn mutated(dice: &mut Dice, corpus: &[(PathBuf, Vec<u8>)], words: &[Vec<u8>]) -> Vec<u8> {
    let mut data = corpus[dice.roll(corpus.len())].1.clone();
    for _ in 0..1 + dice.roll(6) {
        let at = dice.roll(data.len() + 1);
        let insert: Vec<u8> = match dice.roll(7) {
            0 if !data.is_empty() => {
                let span = dice.span(data.len());
                drop(data.drain(span));
                continue;
            }
            1 if !data.is_empty() => {
                let at = dice.roll(data.len());
                data[at] = dice.roll(256) as u8;
                continue;
            }
            2 if !data.is_empty() => data[dice.span(data.len())].to_vec(),
            3 => {
                let other = &corpus[dice.roll(corpus.len())].1;
                if other.is_empty() { continue } else { other[dice.span(other.len())].to_vec() }
            }
            4 => SIGNS[dice.roll(SIGNS.len())].into(),
            _ => words[dice.roll(words.len())].clone(),
        };
        data.splice(at..at, insert);
    }
    data.truncate(LEN_MAX);
    data
}

#[test]
fn corpus_of_fence_holds() {
    let all = corpus();
    for (path, data) in &all {
        let held = std::panic::catch_unwind(|| fuzz_checks::fence(data));
        assert!(held.is_ok(), "{} does not hold any more", path.display());
    }
    assert!(all.len() >= 40, "only {} inputs", all.len());
}

#[expect(clippy::disallowed_methods, reason = "a long run by hand says how long")]
fn cases() -> u64 {
    std::env::var(CASES_VAR).ok().and_then(|number| number.parse().ok()).unwrap_or(CASES)
}

#[test]
fn mutations_of_the_corpus_of_fence_hold() {
    let (corpus, words) = (corpus(), words());
    assert!(words.len() >= 20, "only {} words", words.len());
    for case in 0..cases() {
        let data = mutated(&mut Dice(case.wrapping_mul(0x9e37_79b9_7f4a_7c15)), &corpus, &words);
        let held = std::panic::catch_unwind(|| fuzz_checks::fence(&data));
        assert!(held.is_ok(), "case {case}: {:?}", String::from_utf8_lossy(&data));
    }
}
