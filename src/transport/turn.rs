//! Floor 2. How much of the one thread that serves all servers the readers of one get: a turn
//! at a time, and over time no more than a pace of what nobody asked for. A server that writes
//! faster finds its pipe full and waits. Used by the readers of stdout and stderr.

use std::time::Duration;

use super::inbound::Inbound;
use crate::time::Monotonic;

/// Lines that are taken before the others have their turn: some 50 µs of small ones.
pub(super) const TURN_LINES_MAX: usize = 64;
/// Bytes that are taken before the others have their turn.
pub(super) const TURN_BYTES_MAX: usize = 256 * 1024;
/// What one line that answers nobody costs: 50,000 a second may come for ever.
const LINE_COST: Duration = Duration::from_micros(20);
/// What a KiB of stderr, or of a line that is too long, costs: 120 MiB a second.
const KIB_COST: Duration = Duration::from_micros(8);
/// Cost that may come at once: about 8,000 lines, more than a pipe holds of ordinary ones.
pub(super) const CREDIT: Duration = Duration::from_millis(160);

/// What was taken since the others had their turn, and what it cost so far.
#[derive(Debug, Default)]
pub(super) struct Turn {
    lines: usize,
    bytes: usize,
    /// Bytes of those that nobody asked for.
    unasked: usize,
    /// Answers when the turn began.
    answers: u64,
    pace: Pace,
}

impl Turn {
    /// A line was taken by `inbound`.
    pub(super) async fn line(&mut self, inbound: &Inbound) {
        self.lines += 1;
        if self.lines >= TURN_LINES_MAX {
            let before = std::mem::replace(&mut self.answers, inbound.answers());
            let answered = usize::try_from(self.answers - before).unwrap_or(usize::MAX);
            let unasked = std::mem::take(&mut self.lines).saturating_sub(answered);
            self.end(times(LINE_COST, unasked)).await;
        }
    }

    /// So many bytes were read, of a line that may be an answer, or `unasked`.
    pub(super) async fn read(&mut self, bytes: usize, unasked: bool) {
        self.bytes += bytes;
        self.unasked += if unasked { bytes } else { 0 };
        if self.bytes >= TURN_BYTES_MAX {
            self.end(Duration::ZERO).await;
        }
    }

    async fn end(&mut self, cost: Duration) {
        self.bytes = 0;
        let kib = std::mem::take(&mut self.unasked) / 1024;
        let now = Monotonic::now();
        match self.pace.charge(cost + times(KIB_COST, kib), now) {
            Some(pause) => tokio::time::sleep_until((now + pause).into_tokio()).await,
            None => tokio::task::yield_now().await,
        }
    }
}

fn times(cost: Duration, count: usize) -> Duration {
    cost.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX))
}

/// An account that time pays.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    debt: Duration,
    at: Option<Monotonic>,
}

impl Pace {
    /// Adds a cost; how long to wait until the debt is within the credit again.
    fn charge(&mut self, cost: Duration, now: Monotonic) -> Option<Duration> {
        let paid = self.at.map_or(Duration::ZERO, |at| now.since(at));
        self.at = Some(now);
        self.debt = self.debt.saturating_sub(paid) + cost;
        self.debt.checked_sub(CREDIT).filter(|over| !over.is_zero())
    }
}

#[cfg(test)]
mod tests;
