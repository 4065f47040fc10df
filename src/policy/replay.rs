//! When a call may be sent again (spec section 4). What is known about execution decides, and
//! how much harm a second run could do; a budget for each server keeps repetitions rare, so
//! that they never add to the load of a server in trouble. Called by the server actor.

use crate::call::{BreakerClass, CallError, Delivery, ErrorCode, ItemKind};

/// Tokens of a fresh budget, in tenths.
const TOKENS_MAX: u32 = 100;
/// What one repetition costs, in tenths.
const COST: u32 = 10;
/// What one answered call gives back, in tenths.
const GAIN: u32 = 1;
/// With fewer tokens than that, in tenths, nothing is repeated.
const TOKENS_MIN: u32 = 50;

/// How much a second run of a call matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It reads: a resource, a prompt.
    Reads,
    /// A tool that is hinted read-only or idempotent, on a server whose hints are believed.
    Repeatable,
    /// Any other tool.
    Unknown,
}

impl Effect {
    /// The effect of an item; `believed` says whether the server is trusted and its hints promise that a second
    /// run changes nothing more.
    pub fn of(kind: ItemKind, believed: bool) -> Self {
        match kind {
            ItemKind::Resource | ItemKind::Prompt => Self::Reads,
            ItemKind::Method if believed => Self::Reads,
            ItemKind::Tool if believed => Self::Repeatable,
            ItemKind::Tool | ItemKind::Method => Self::Unknown,
        }
    }
}

/// Whether another try may cure what `error` says: a connection or an HTTP server that failed. Nothing
/// cures what the server answered, what was refused here, and a limit that fired (its time is spent).
pub fn may_be_cured(error: &CallError) -> bool {
    matches!(error.code, ErrorCode::ConnectionLost | ErrorCode::RateLimited)
        || (error.code == ErrorCode::HttpStatus && error.class == BreakerClass::Trip)
}

/// How often a call that ended with `error` may be sent again in all.
pub fn repeats_max(effect: Effect, error: &CallError) -> u32 {
    if !may_be_cured(error) {
        return 0;
    }
    match (error.delivery, effect) {
        (Delivery::Executed, _) | (Delivery::Unknown, Effect::Unknown) => 0,
        (Delivery::NotSent | Delivery::Unknown, Effect::Reads) => 2,
        (Delivery::NotSent, Effect::Unknown | Effect::Repeatable)
        | (Delivery::Unknown, Effect::Repeatable) => 1,
    }
}

/// The repetitions that one server may still cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayBudget {
    tenths: u32,
}

impl Default for ReplayBudget {
    fn default() -> Self {
        Self { tenths: TOKENS_MAX }
    }
}

impl ReplayBudget {
    /// Takes what one repetition costs; `false` when there is not enough.
    pub fn take(&mut self) -> bool {
        let enough = self.tenths >= TOKENS_MIN;
        if enough {
            self.tenths -= COST;
        }
        enough
    }

    /// A call was answered.
    pub fn answered(&mut self) {
        self.tenths = (self.tenths + GAIN).min(TOKENS_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::{Origin, Phase};

    fn error(code: ErrorCode, delivery: Delivery, class: BreakerClass) -> CallError {
        CallError::refused(code, Phase::Await, Origin::Transport, "x").delivered(delivery).counting(class)
    }

    #[test]
    fn the_table_of_repetitions_holds_row_by_row() {
        use BreakerClass::{Exhausted, Neutral, Trip};
        use Delivery::{Executed, NotSent, Unknown};
        use ErrorCode::{
            ConnectionLost, HttpStatus, MalformedAnswer, RateLimited, TimeoutIdle, TimeoutTotal,
        };
        // tool, repeatable tool, read
        for (code, delivery, class, wanted) in [
            (ConnectionLost, NotSent, Trip, [1, 1, 2]),
            (ConnectionLost, Unknown, Trip, [0, 1, 2]),
            (ConnectionLost, Executed, Trip, [0, 0, 0]),
            (RateLimited, NotSent, Exhausted, [1, 1, 2]),
            (HttpStatus, Unknown, Trip, [0, 1, 2]),
            (HttpStatus, Unknown, Neutral, [0, 0, 0]),
            (MalformedAnswer, Unknown, Trip, [0, 0, 0]),
            (TimeoutIdle, Unknown, Trip, [0, 0, 0]),
            (TimeoutTotal, Unknown, Neutral, [0, 0, 0]),
            (ErrorCode::Busy, NotSent, Neutral, [0, 0, 0]),
            (ErrorCode::NeedsAuth, NotSent, Neutral, [0, 0, 0]),
        ] {
            let error = error(code, delivery, class);
            let found = [Effect::Unknown, Effect::Repeatable, Effect::Reads].map(|e| repeats_max(e, &error));
            assert_eq!(found, wanted, "{code} {delivery:?} {class:?}");
        }
    }

    #[test]
    fn hints_count_for_tools_alone() {
        for believed in [false, true] {
            assert_eq!(Effect::of(ItemKind::Resource, believed), Effect::Reads);
            assert_eq!(Effect::of(ItemKind::Prompt, believed), Effect::Reads);
        }
        assert_eq!(Effect::of(ItemKind::Tool, false), Effect::Unknown);
        assert_eq!(Effect::of(ItemKind::Tool, true), Effect::Repeatable);
    }

    #[test]
    fn a_budget_allows_six_repetitions_in_a_row_and_comes_back_with_success() {
        let mut budget = ReplayBudget::default();
        assert_eq!((0..20).filter(|_| budget.take()).count(), 6);
        for _ in 0..9 {
            budget.answered();
            assert!(!budget.take());
        }
        budget.answered();
        assert!(budget.take());
        assert!(!budget.take());
        for _ in 0..10_000 {
            budget.answered();
        }
        assert_eq!(budget, ReplayBudget::default());
    }
}
