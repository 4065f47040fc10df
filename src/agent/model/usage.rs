//! What answers cost: tokens as the endpoint counts them, money only from prices that the user wrote. Pure.

use serde::{Deserialize, Serialize};

use crate::config::model::Prices;

/// Tokens of one answer, or of many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Input that was read afresh.
    pub input: u64,
    /// Input that the endpoint had kept.
    #[serde(default)]
    pub cache_read: u64,
    /// Input that it keeps from now on.
    #[serde(default)]
    pub cache_write: u64,
    /// Output, reasoning included.
    pub output: u64,
}

/// Money, in millionths of the unit of the prices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Cost(pub u64);

impl std::fmt::Display for Cost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Four decimals: a short answer costs less than a hundredth.
        let rounded = self.0.saturating_add(50) / 100;
        write!(f, "{}.{:04}", rounded / 10_000, rounded % 10_000)
    }
}

impl Usage {
    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write: self.cache_write.saturating_add(other.cache_write),
            output: self.output.saturating_add(other.output),
        }
    }

    /// All input.
    pub fn whole_input(self) -> u64 {
        self.input.saturating_add(self.cache_read).saturating_add(self.cache_write)
    }

    /// What it cost; `None` unless prices for input and output are known.
    pub fn cost(self, prices: &Prices) -> Option<Cost> {
        let (input, output) = (prices.input?, prices.output?);
        let of = |tokens: u64, price: u64| u128::from(tokens) * u128::from(price);
        let sum = of(self.input, input)
            + of(self.output, output)
            + of(self.cache_read, prices.cache_read.unwrap_or(input))
            + of(self.cache_write, prices.cache_write.unwrap_or(input));
        Some(Cost(u64::try_from(sum / 1_000_000).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_is_told_only_where_prices_are_written() {
        let used = Usage { input: 1_000_000, cache_read: 2_000_000, cache_write: 0, output: 500_000 };
        assert_eq!(used.cost(&Prices::default()), None);
        let prices = Prices { input: Some(3_000_000), output: Some(15_000_000), ..Prices::default() };
        assert_eq!(used.cost(&prices), Some(Cost(16_500_000)));
        let prices = Prices { cache_read: Some(300_000), ..prices };
        assert_eq!(used.cost(&prices).unwrap().to_string(), "11.1000");
        assert_eq!(Cost(149).to_string(), "0.0001");
        assert_eq!(used.and(used).whole_input(), 6_000_000);
    }
}
