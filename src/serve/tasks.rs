//! Whose tasks are whose: which server made a task, for which client. Ids pass as the server wrote them;
//! a client finds its own tasks and nobody else's.

use std::collections::{HashMap, VecDeque};

use super::caller::Identity;
use super::client::Client;
use super::host::locked;
use crate::id::{ServerId, SessionId};
use crate::wire::envelope::{member, text};
use crate::wire::era::Era;

/// Tasks that are remembered; the oldest go first.
pub const TASKS_MAX: usize = 4096;

/// Whose a task is: of a connection where there are any, else of an identity.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Owner {
    Session(SessionId),
    Identity(Identity),
}

/// The table of tasks.
#[derive(Debug, Default)]
pub(super) struct Owners {
    /// `None`: two servers gave the same client the same id, so nobody can say whose it is.
    of: HashMap<(Owner, String), Option<ServerId>>,
    order: VecDeque<(Owner, String)>,
}

impl Owners {
    fn add(&mut self, key: (Owner, String), server: &ServerId) {
        if let Some(known) = self.of.get_mut(&key) {
            if known.as_ref() != Some(server) {
                *known = None;
            }
            return;
        }
        while self.order.len() >= TASKS_MAX {
            let Some(oldest) = self.order.pop_front() else { break };
            self.of.remove(&oldest);
        }
        self.order.push_back(key.clone());
        self.of.insert(key, Some(server.clone()));
    }
}

impl Client {
    fn owner(&self) -> Owner {
        match self.era() {
            Era::Legacy => Owner::Session(self.session()),
            Era::Modern => Owner::Identity(self.who().identity.clone()),
        }
    }

    /// Notes the task that a result tells of, if it does.
    pub(super) fn note_task(&self, server: &ServerId, result: &[u8]) {
        let Some(id) = task_of(result) else { return };
        locked(&self.host.owners).add((self.owner(), id), server);
    }

    /// The server that has a task of this client.
    pub(super) fn task_at(&self, id: &str) -> Option<ServerId> {
        let server = locked(&self.host.owners).of.get(&(self.owner(), id.to_owned())).cloned().flatten();
        server.filter(|server| self.host.reaches(&self.pane(), server))
    }
}

/// The id of the task in a result: `task.taskId` (2025-11-25), or `taskId` of a result of the kind `task`.
fn task_of(result: &[u8]) -> Option<String> {
    // A cheap look first: hardly any result has one.
    memchr::memmem::find(result, b"taskId")?;
    let word = |object: &[u8], key: &str| {
        let span = member(object, key)?;
        text(&object[span]).map(std::borrow::Cow::into_owned)
    };
    if let Some(span) = member(result, "task") {
        return word(&result[span], "taskId");
    }
    (word(result, "resultType").as_deref() == Some("task")).then(|| word(result, "taskId")).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_found_in_both_shapes_and_nowhere_else() {
        for (result, id) in [
            (r#"{"task":{"taskId":"a","status":"working"}}"#, Some("a")),
            (r#"{"resultType":"task","taskId":"b"}"#, Some("b")),
            (r#"{"taskId":"c"}"#, None),
            (r#"{"content":[{"type":"text","text":"taskId"}]}"#, None),
            (r#"{"task":7,"taskId":"d"}"#, None),
        ] {
            assert_eq!(task_of(result.as_bytes()).as_deref(), id, "{result}");
        }
    }

    #[test]
    fn tasks_are_their_owners_bounded_and_never_guessed() {
        let mut owners = Owners::default();
        let key = |session: u64, id: &str| (Owner::Session(SessionId(session)), id.to_owned());
        owners.add(key(1, "t"), &ServerId::new("a"));
        owners.add(key(2, "t"), &ServerId::new("b"));
        assert_eq!(owners.of[&key(1, "t")], Some(ServerId::new("a")));
        owners.add(key(1, "t"), &ServerId::new("b"));
        assert_eq!(owners.of[&key(1, "t")], None, "two servers, one id: neither");
        for n in 0..TASKS_MAX * 2 {
            owners.add(key(3, &n.to_string()), &ServerId::new("a"));
        }
        assert_eq!((owners.of.len(), owners.order.len()), (TASKS_MAX, TASKS_MAX));
    }
}
