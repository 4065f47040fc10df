//! What the three protocols share when an answer is read: the seam of a decoder, and calls that arrive in
//! pieces. Pure.

use super::ModelEvent;
use super::error::ModelError;
use crate::agent::chat::ToolCall;

/// Longest arguments of one call, bytes.
pub(super) const ARGUMENTS_LEN_MAX: usize = 4 << 20;
/// Most calls of one answer.
pub(super) const CALLS_MAX: usize = 128;

/// Reads the answer of one protocol.
pub(super) trait Decode: Send {
    /// One event, or one line, of the stream; or the whole body, where it came at once.
    fn event(&mut self, data: &[u8], out: &mut Vec<ModelEvent>) -> Result<(), ModelError>;

    /// The stream is over.
    fn end(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), ModelError>;

    /// Whether the answer is whole: what follows is of no interest.
    fn is_over(&self) -> bool;
}

/// Calls that are being written, in the order in which they began.
#[derive(Debug, Default)]
pub(super) struct Calls {
    open: Vec<(u64, ToolCall)>,
}

impl Calls {
    /// The call with that mark of the endpoint's, begun if it is not there.
    pub(super) fn at(&mut self, mark: u64) -> Result<&mut ToolCall, ModelError> {
        let found = self.open.iter().rposition(|(known, _)| *known == mark);
        let at = match found {
            Some(at) => at,
            None => self.begin(mark)?,
        };
        Ok(&mut self.open[at].1)
    }

    /// Begins another call with that mark: what comes for it from now on is of this one.
    pub(super) fn begin(&mut self, mark: u64) -> Result<usize, ModelError> {
        if self.open.len() >= CALLS_MAX {
            return Err(ModelError::nonsense("with more calls than anybody can make"));
        }
        let call = ToolCall { id: String::new(), name: String::new(), arguments: String::new() };
        self.open.push((mark, call));
        Ok(self.open.len() - 1)
    }

    /// More of the arguments of a call.
    pub(super) fn write(&mut self, mark: u64, piece: &str) -> Result<(), ModelError> {
        let call = self.at(mark)?;
        if call.arguments.len() + piece.len() > ARGUMENTS_LEN_MAX {
            return Err(ModelError::nonsense("with arguments without end"));
        }
        call.arguments.push_str(piece);
        Ok(())
    }

    /// Whether there is any.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// All of them, whole. One that never got a name is none.
    pub(super) fn take(&mut self, out: &mut Vec<ModelEvent>) {
        let calls = std::mem::take(&mut self.open).into_iter().map(|(_, call)| call);
        out.extend(calls.filter(|call| !call.name.is_empty()).map(ModelEvent::Call));
    }
}
