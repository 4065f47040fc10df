//! How long a request of the modern era may go on: until its pass counts no more, or the host stops.

use std::sync::Arc;

use tokio::sync::watch;

use super::who::{Gate, Pass};

/// How far the stopping of the front has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Requests are taken.
    Serving,
    /// What runs may finish; what is new is refused.
    Draining,
    /// Everything ends.
    Over,
}

/// See the module.
#[derive(Debug)]
pub struct Until {
    /// Who looks at passes.
    pub gate: Arc<Gate>,
    /// What was shown.
    pub pass: Pass,
    /// Turns when passes should be looked at again.
    pub tokens: watch::Receiver<u64>,
    /// How far stopping has come.
    pub phase: watch::Receiver<Phase>,
    /// The phase at which it ends: a stream that has no end of its own ends when draining begins.
    pub at: Phase,
}

impl Until {
    /// Resolves when it is over.
    pub async fn over(&mut self) {
        let (gate, pass, tokens) = (&self.gate, &self.pass, &mut self.tokens);
        let revoked = async {
            while gate.still(pass, crate::time::wall()) {
                if tokens.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        tokio::select! {
            biased;
            _ = self.phase.wait_for(|phase| *phase >= self.at) => {}
            () = revoked => {}
        }
    }
}
