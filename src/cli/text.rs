//! Floor 5. Small words for people: sizes, durations, plurals, one-line cuts,
//! safe quoting. Pure. Used by everything that prints.

use std::time::Duration;

/// A name in quotes with everything that a terminal could interpret escaped.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            c if c.is_control() => out.extend(c.escape_default()),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// The same JSON with everything that a terminal could obey, or that turns the direction of text
/// round, written as `\uXXXX`. Outside of strings JSON has no such characters.
pub fn json_for_screens(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if is_unseen(c) {
            out.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            out.push(c);
        }
    }
    out
}

/// DEL, the C1 controls, and what Unicode has for directions and ends of lines.
fn is_unseen(c: char) -> bool {
    matches!(
        c,
        '\u{7f}'..='\u{9f}' | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}

/// `1 tool`, `2 tools`.
pub fn count(n: usize, one: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {one}s") }
}

/// Bytes in the largest unit that keeps it short: `512 B`, `1.4 KiB`, `3.0 MiB`.
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if n < 1024 {
        return format!("{n} B");
    }
    let mut value = n as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// A duration at the precision a person cares about: `12 ms`, `1.5 s`, `3m 20s`, `2h 5m`.
pub fn span(d: Duration) -> String {
    let ms = d.as_millis();
    let s = d.as_secs();
    match s {
        0 => format!("{ms} ms"),
        1..60 if ms.is_multiple_of(1000) => format!("{s} s"),
        1..60 => format!("{:.1} s", d.as_secs_f64()),
        60..3600 => format!("{}m {}s", s / 60, s % 60),
        3600..86_400 => format!("{}h {}m", s / 3600, s % 3600 / 60),
        _ => format!("{}d {}h", s / 86_400, s % 86_400 / 3600),
    }
}

/// The first line of a text, cut to `chars_max` characters with an ellipsis.
pub fn first_line(text: &str, chars_max: usize) -> String {
    let line = text.trim_start().lines().next().unwrap_or_default().trim_end();
    let more = text.trim().len() > line.len();
    let count = line.chars().count();
    if count <= chars_max && !more {
        return line.to_owned();
    }
    let mut out: String = line.chars().take(chars_max.saturating_sub(1)).collect();
    out.push('…');
    out
}

/// A duration as a person types it: a number of seconds, or words such as `30s`, `2m`, `500ms`.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds)
            .map_err(|_| format!("{text} is no usable number of seconds"));
    }
    humantime::parse_duration(text)
        .map_err(|e| format!("{e}; write a number of seconds, or words such as 500ms, 30s, 2m"))
}

/// The same for a limit: no time at all would be none for anything.
pub fn parse_timeout(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        Duration::ZERO => Err("a limit must be more than zero".to_owned()),
        limit => Ok(limit),
    }
}

/// Indents every line but empty ones.
pub fn indent(text: &str, by: &str) -> String {
    let mut out = String::with_capacity(text.len() + by.len() * 4);
    for (i, line) in text.lines().enumerate() {
        if i > 0 {
            out.push('\n');
        }
        if !line.is_empty() {
            out.push_str(by);
            out.push_str(line);
        }
    }
    out
}

/// The lines of a text that say something; one that is written over and over, as a bar, is its last state.
pub fn lines(text: &str) -> Vec<String> {
    let said = text.split('\n').map(|line| line.trim_end_matches('\r'));
    let last = said.map(|line| line.rsplit('\r').next().unwrap_or_default());
    last.filter(|line| !line.trim().is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoting_leaves_no_control_character() {
        assert_eq!(quoted("a\u{1b}[31m\"b\\\n"), r#""a\u{1b}[31m\"b\\\n""#);
        assert_eq!(quoted("Büro (test)"), "\"Büro (test)\"");
    }

    #[test]
    fn sizes_and_spans_read_well() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1024), "1.0 KiB");
        assert_eq!(bytes(1024 * 1024 - 1), "1.0 MiB");
        assert_eq!(bytes(3 * 1024 * 1024), "3.0 MiB");
        assert_eq!(span(Duration::from_millis(12)), "12 ms");
        assert_eq!(span(Duration::from_secs(2)), "2 s");
        assert_eq!(span(Duration::from_millis(1500)), "1.5 s");
        assert_eq!(span(Duration::from_secs(200)), "3m 20s");
        assert_eq!(span(Duration::from_secs(7500)), "2h 5m");
        assert_eq!(span(Duration::from_secs(90_000)), "1d 1h");
    }

    #[test]
    fn a_cut_line_says_that_there_is_more() {
        assert_eq!(first_line("short", 10), "short");
        assert_eq!(first_line("exactly10!", 10), "exactly10!");
        assert_eq!(first_line("somewhat longer", 10), "somewhat …");
        assert_eq!(first_line("one\ntwo", 10), "one…");
        assert_eq!(first_line("\n\n", 10), "");
    }

    #[test]
    fn durations_are_seconds_or_words() {
        for zero in ["0", "0s", "-0", "0.0000000001"] {
            assert!(parse_duration(zero).is_ok() && parse_timeout(zero).is_err(), "{zero}");
        }
        assert_eq!(parse_timeout("2m"), parse_duration("2m"));
        assert_eq!(parse_duration("2").unwrap(), Duration::from_secs(2));
        assert_eq!(parse_duration("0.5").unwrap(), Duration::from_millis(500));
        assert_eq!(parse_duration("2m").unwrap(), Duration::from_secs(120));
        for bad in ["", "-1", "soon", "NaN", "1e300"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }
}
