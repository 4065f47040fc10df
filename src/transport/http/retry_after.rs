//! How long a server asks us to stay away: `Retry-After` in seconds or as an HTTP
//! date (RFC 9110, 5.6.7 and 10.2.3). Pure; the wall clock is handed in.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The longest wait that a server can impose on us.
pub(super) const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);
/// The shortest wait, so that `Retry-After: 0` makes no busy loop.
pub(super) const RETRY_AFTER_MIN: Duration = Duration::from_secs(1);

/// The wait that the header value asks for, between [`RETRY_AFTER_MIN`] and
/// [`RETRY_AFTER_MAX`]; `None` when it is neither a number of seconds nor a date.
pub(super) fn wait(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    let asked = if !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit()) {
        Duration::from_secs(value.parse().unwrap_or(u64::MAX))
    } else {
        let at = UNIX_EPOCH.checked_add(Duration::from_secs(date(value)?))?;
        at.duration_since(now).unwrap_or_default()
    };
    Some(asked.clamp(RETRY_AFTER_MIN, RETRY_AFTER_MAX))
}

/// Seconds since 1970 of an HTTP date in any of its three forms.
fn date(text: &str) -> Option<u64> {
    let words: Vec<&str> = text.split([' ', ',', '-']).filter(|w| !w.is_empty()).collect();
    let (day, month, year, clock) = match words.as_slice() {
        // Sun, 06 Nov 1994 08:49:37 GMT, and with dashes and a short year: Sunday, 06-Nov-94 08:49:37 GMT
        [_, day, month, year, clock, "GMT" | "UTC"] => (*day, *month, *year, *clock),
        // Sun Nov  6 08:49:37 1994
        [_, month, day, clock, year] => (*day, *month, *year, *clock),
        _ => return None,
    };
    let year: i64 = match (year.len(), year.parse::<i64>().ok()?) {
        (2, short) if short < 70 => short + 2000,
        (2, short) => short + 1900,
        (4, full) => full,
        _ => return None,
    };
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = i64::try_from(months.iter().position(|m| m.eq_ignore_ascii_case(month))?).ok()? + 1;
    let day = bounded(day, 1, 31)?;
    let mut parts = clock.split(':');
    let hour = bounded(parts.next()?, 0, 23)?;
    let minute = bounded(parts.next()?, 0, 59)?;
    let second = bounded(parts.next()?, 0, 60)?;
    if parts.next().is_some() {
        return None;
    }
    let seconds = days_since_1970(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    u64::try_from(seconds).ok()
}

fn bounded(text: &str, min: i64, max: i64) -> Option<i64> {
    text.parse().ok().filter(|n| (min..=max).contains(n))
}

/// Days from 1970-01-01 to a date of the Gregorian calendar. Years are counted from
/// March, so that the leap day is the last of its year.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1994-11-06 08:49:37 UTC, the example of RFC 9110.
    const EXAMPLE: u64 = 784_111_777;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn seconds_are_taken_within_bounds() {
        let cases = [
            ("7", Some(7)),
            (" 120 ", Some(120)),
            ("0", Some(1)),
            ("300", Some(300)),
            ("301", Some(300)),
            ("99999999999999999999999", Some(300)),
            ("", None),
            ("-5", None),
            ("1.5", None),
            ("soon", None),
        ];
        for (text, want) in cases {
            assert_eq!(wait(text, at(0)), want.map(Duration::from_secs), "{text:?}");
        }
    }

    #[test]
    fn all_three_date_forms_mean_the_same_instant() {
        for text in
            ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
        {
            assert_eq!(date(text), Some(EXAMPLE), "{text}");
            assert_eq!(wait(text, at(EXAMPLE - 90)), Some(Duration::from_secs(90)), "{text}");
        }
    }

    #[test]
    fn a_date_in_the_past_means_the_shortest_wait_and_a_far_one_the_longest() {
        let text = "Sun, 06 Nov 1994 08:49:37 GMT";
        assert_eq!(wait(text, at(EXAMPLE + 5)), Some(RETRY_AFTER_MIN));
        assert_eq!(wait(text, at(0)), Some(RETRY_AFTER_MAX));
    }

    #[test]
    fn leap_days_and_year_ends_are_counted() {
        let cases = [
            ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
            ("Tue, 29 Feb 2000 12:00:00 GMT", 951_825_600),
            ("Fri, 31 Dec 2027 23:59:59 GMT", 1_830_297_599),
            ("Wed, 01 Mar 2028 00:00:00 GMT", 1_835_481_600),
        ];
        for (text, want) in cases {
            assert_eq!(date(text), Some(want), "{text}");
        }
    }

    #[test]
    fn broken_dates_are_no_dates() {
        for text in [
            "Sun, 06 Nov 1994 08:49 GMT",
            "Sun, 32 Nov 1994 08:49:37 GMT",
            "Sun, 06 Foo 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37:00 GMT",
            "Sun, 06 Nov 99999 08:49:37 GMT",
            "Thu, 01 Jan 1960 00:00:00 GMT",
        ] {
            assert_eq!(date(text), None, "{text}");
        }
    }
}
