//! The answer port of one call: used exactly once, dropped means "nobody answered". Where calls are
//! audited, it reports the end of the call, whichever way it came.

use tokio::sync::oneshot;

use crate::actors::audit::Ending;
use crate::call::{CallError, CallReply};

type Answer = Result<CallReply, CallError>;

/// Where the answer of one call goes.
#[derive(Debug)]
pub(crate) struct ReplyPort {
    caller: Option<oneshot::Sender<Answer>>,
    ending: Option<Ending>,
    sends: u32,
}

impl ReplyPort {
    /// A port, and where its answer comes out.
    pub(crate) fn new() -> (Self, oneshot::Receiver<Answer>) {
        let (caller, answer) = oneshot::channel();
        (Self { caller: Some(caller), ending: None, sends: 0 }, answer)
    }

    /// Reports the end of the call there from now on.
    pub(crate) fn follow(&mut self, ending: Ending) {
        self.ending = Some(ending);
    }

    /// Notes that the call is sent, once more.
    pub(crate) fn sent(&mut self) {
        self.sends += 1;
    }

    /// Answers. A caller that left does not need to know.
    pub(crate) fn send(mut self, answer: Answer) -> Result<(), ()> {
        if let Some(ending) = self.ending.take() {
            ending.answered(&answer, self.sends);
        }
        let caller = self.caller.take().ok_or(())?;
        caller.send(answer).map_err(drop)
    }

    /// Whether the caller has left.
    pub(crate) fn is_closed(&self) -> bool {
        self.caller.as_ref().is_none_or(oneshot::Sender::is_closed)
    }

    /// Resolves when the caller leaves.
    pub(crate) async fn closed(&mut self) {
        if let Some(caller) = &mut self.caller {
            caller.closed().await;
        }
    }
}

impl Drop for ReplyPort {
    fn drop(&mut self) {
        if let Some(ending) = self.ending.take() {
            ending.dropped(self.is_closed(), self.sends);
        }
    }
}
