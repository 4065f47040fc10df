//! Floor 1. Amounts with decimals, kept as millionths so that they compare and add up exactly. Used by the
//! keys of the settings.

/// One whole, in millionths.
pub const MILLION: u64 = 1_000_000;

/// A decimal number in millionths; `None` for one that has more decimals, a sign or an exponent.
pub fn millionths(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(part) || part.len() > 6 {
        return None;
    }
    let part: u64 = format!("{part:0<6}").parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(MILLION)?.checked_add(part)
}

/// Millionths as the shortest decimal number.
pub fn decimal(number: u64) -> String {
    let (whole, part) = (number / MILLION, number % MILLION);
    match part {
        0 => whole.to_string(),
        part => format!("{whole}.{}", format!("{part:06}").trim_end_matches('0')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_come_back_as_they_were_written() {
        for (text, number) in
            [("0", 0), ("0.25", 250_000), ("15", 15_000_000), ("0.000001", 1), ("3.75", 3_750_000)]
        {
            assert_eq!((millionths(text), decimal(number).as_str()), (Some(number), text));
        }
        for wrong in ["", ".5", "1.", "-1", "1e3", "0.0000001", "x", "99999999999999999999"] {
            assert_eq!(millionths(wrong), None, "{wrong}");
        }
    }
}
