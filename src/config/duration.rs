//! Floor 1. Durations and sizes as people write them: numbers, or words with a unit.
//! Called by `config::fields` and `config::host`.

use std::time::Duration;

/// The longest duration that a setting may have: 30 days.
pub const DURATION_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

/// What a number without a unit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds; fractions are fine.
    Seconds,
    /// Milliseconds: the `…Ms` spellings.
    Millis,
}

/// A number of `unit`. Errors: negative, not finite, or longer than [`DURATION_MAX`].
pub fn from_number(number: f64, unit: Unit) -> Result<Duration, String> {
    let seconds = match unit {
        Unit::Seconds => number,
        Unit::Millis => number / 1000.0,
    };
    if number.is_sign_negative() && number != 0.0 {
        return Err("can't be negative".into());
    }
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if duration <= DURATION_MAX => Ok(duration),
        _ => Err("longer than 30 days".into()),
    }
}

/// A word: `30s`, `2m`, `1m 30s`, `500ms`; or digits alone, which count `unit`.
pub fn from_word(word: &str, unit: Unit) -> Result<Duration, String> {
    let word = word.trim();
    if let Ok(number) = word.parse::<f64>() {
        return from_number(number, unit);
    }
    match humantime::parse_duration(word) {
        Ok(duration) if duration <= DURATION_MAX => Ok(duration),
        Ok(_) => Err("longer than 30 days".into()),
        Err(_) => Err("not a duration: write seconds, or a word such as \"30s\", \"2m\"".into()),
    }
}

/// The duration as a word that [`from_word`] reads back.
pub fn to_word(duration: Duration) -> String {
    humantime::format_duration(duration).to_string()
}

/// Bytes: digits, or digits with `KiB`, `MiB`, `GiB` (also `K`, `M`, `G`, `KB`, …, all binary).
pub fn bytes_from_word(word: &str) -> Result<u64, String> {
    const WRONG: &str = "not a size: write bytes, or a word such as \"16MiB\"";
    let word = word.trim();
    let digits = word.find(|c: char| !c.is_ascii_digit()).unwrap_or(word.len());
    let (number, unit) = word.split_at(digits);
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        _ => return Err(WRONG.into()),
    };
    number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor)).ok_or_else(|| WRONG.into())
}

/// The size as a word that [`bytes_from_word`] reads back exactly.
pub fn bytes_to_word(bytes: u64) -> String {
    for (shift, unit) in [(30, "GiB"), (20, "MiB"), (10, "KiB")] {
        if bytes != 0 && bytes.trailing_zeros() >= shift {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_number_counts_its_unit_and_a_word_names_it() {
        assert_eq!(from_number(30.0, Unit::Seconds), Ok(Duration::from_secs(30)));
        assert_eq!(from_number(0.5, Unit::Seconds), Ok(Duration::from_millis(500)));
        assert_eq!(from_number(1500.0, Unit::Millis), Ok(Duration::from_millis(1500)));
        assert_eq!(from_word("30", Unit::Seconds), Ok(Duration::from_secs(30)));
        assert_eq!(from_word("30", Unit::Millis), Ok(Duration::from_millis(30)));
        assert_eq!(from_word(" 1m 30s ", Unit::Millis), Ok(Duration::from_secs(90)));
        assert_eq!(from_word("500ms", Unit::Seconds), Ok(Duration::from_millis(500)));
    }

    #[test]
    fn nonsense_is_refused_with_a_reason() {
        assert!(from_number(-1.0, Unit::Seconds).is_err());
        assert!(from_number(f64::NAN, Unit::Seconds).is_err());
        assert!(from_number(1e300, Unit::Seconds).is_err());
        for word in ["", "soon", "30 parsecs", "-5s", "inf", "NaN", "1e40"] {
            assert!(from_word(word, Unit::Seconds).is_err_and(|e| !e.is_empty()), "{word:?}");
        }
    }

    #[test]
    fn sizes_are_bytes_or_binary_words() {
        assert_eq!(bytes_from_word("16MiB"), Ok(16 << 20));
        assert_eq!(bytes_from_word("64 k"), Ok(64 << 10));
        assert_eq!(bytes_from_word("12"), Ok(12));
        for word in ["", "MiB", "1.5MiB", "99999999999999999999", "-1", "18014398509481984 KiB"] {
            assert!(bytes_from_word(word).is_err(), "{word:?}");
        }
    }

    proptest! {
        #[test]
        fn words_read_back_exactly(millis in 0u64..DURATION_MAX.as_millis() as u64, bytes: u64) {
            let duration = Duration::from_millis(millis);
            prop_assert_eq!(from_word(&to_word(duration), Unit::Seconds), Ok(duration));
            prop_assert_eq!(bytes_from_word(&bytes_to_word(bytes)), Ok(bytes));
        }

        #[test]
        fn no_word_panics(word in ".{0,40}") {
            let _ = from_word(&word, Unit::Millis);
            let _ = bytes_from_word(&word);
        }
    }
}
