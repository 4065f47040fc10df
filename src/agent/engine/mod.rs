//! The engine of a conversation: does what a turn decides. Asks the model, makes its calls at several servers
//! at once through the runtime (so that policy, limits and audit know no exception), writes down what happens.
//! Ends at once when it is told to, whatever a server does. Shows nothing itself; the command line listens.

mod ask;
mod call;
mod context;
mod given;
mod run;
mod settings;
mod told;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

pub use ask::{Ask, Nobody, Question};
pub use run::Stopper;
pub use settings::{EngineSettings, key_hint};
pub use told::{TOLD_MAX, Told};

use super::log::Log;
use super::model::Model;
use super::surface::{Surface, Wanted, bridge};
use super::turn::{Conversation, Entry};
use crate::call::ItemKind;
use crate::config::mode::Mode;
use crate::config::rules::AllowRules;
use crate::config::spec::ServerSet;
use crate::id::{ServerId, SessionId};
use crate::policy::access::{Question as Access, Verdict, decide};
use crate::runtime::Runtime;
use crate::telemetry::Redaction;
use crate::time::{rfc3339, wall};

/// Whether a tool may be called at all, by server and raw name.
pub type May = Arc<dyn Fn(&ServerId, &str) -> bool + Send + Sync>;

/// What a conversation is begun with.
pub struct Plan {
    /// The servers.
    pub runtime: Arc<Runtime>,
    /// The model.
    pub model: Arc<dyn Model>,
    /// What it goes by.
    pub settings: EngineSettings,
    /// Through which everything is shown and written.
    pub redaction: Redaction,
    /// Callboard's own folder: results that are cut are kept there while the conversation lasts.
    pub home: Option<PathBuf>,
    /// Where it is written down.
    pub log: Option<Log>,
    /// What an earlier process wrote down of it.
    pub entries: Vec<Entry>,
    /// What else the model is told before everything: the notes of an approved project.
    pub notes: Option<String>,
    /// What is denied is not shown: see [`may`].
    pub may: May,
}

/// A conversation.
pub struct Agent {
    hands: Arc<call::Hands>,
    model: Arc<dyn Model>,
    settings: EngineSettings,
    log: Option<Log>,
    conversation: Conversation,
    surface: Surface,
    /// The catalogue that the surface was made of.
    version: Option<u64>,
    /// Warnings that were told.
    warned: BTreeSet<String>,
    /// Instructions that the model was given.
    instructed: BTreeSet<(ServerId, String)>,
    system: String,
    may: May,
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agent").field("model", self.model.about()).finish_non_exhaustive()
    }
}

/// What of these servers may be called in any mode: everything but what is denied or not among the allowed.
pub fn may(servers: &ServerSet) -> May {
    let servers = servers.clone();
    Arc::new(move |server, tool| {
        let Some(entry) = servers.entries.iter().find(|entry| entry.id == *server) else { return true };
        let question = Access {
            entry,
            kind: ItemKind::Tool,
            name: tool,
            hints: Default::default(),
            mode: Mode::Auto,
            rules: &AllowRules::default(),
            held: None,
            granted: false,
        };
        !matches!(decide(&question), Verdict::Refuse(_))
    })
}

/// Names that the plan of an agent's runtime reserves (`RuntimePlan::reserved`).
pub fn reserved() -> Vec<String> {
    bridge::Own::reserved().collect()
}

impl Agent {
    /// A conversation that begins, or goes on after its entries.
    pub fn new(plan: Plan) -> Self {
        let session = SessionId::fresh();
        let hands =
            call::Hands::new(plan.runtime, session, plan.redaction, plan.home, plan.settings.result_max);
        let mut agent = Self {
            hands: Arc::new(hands),
            conversation: Conversation::of(&plan.entries),
            model: plan.model,
            settings: plan.settings,
            log: plan.log,
            surface: Surface::default(),
            version: None,
            warned: BTreeSet::new(),
            instructed: BTreeSet::new(),
            system: context::system(plan.notes.as_deref()),
            may: plan.may,
        };
        let about = agent.model.about();
        let begun = Entry::Begun {
            at: rfc3339(wall()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            provider: about.provider.to_owned(),
            model: about.name.clone(),
        };
        let _ = agent.write(&begun);
        agent
    }

    /// The conversation so far.
    pub fn conversation(&self) -> &Conversation {
        &self.conversation
    }

    /// What the model sees of the servers, as of the last answer.
    pub fn surface(&self) -> &Surface {
        &self.surface
    }

    /// The id by which the conversation is taken up again; `None` when it is not written down.
    pub fn id(&self) -> Option<&str> {
        self.log.as_ref().map(Log::id)
    }

    /// The session of its calls.
    pub fn session(&self) -> SessionId {
        self.hands.session
    }

    /// Another model from the next answer on.
    pub fn set_model(&mut self, model: Arc<dyn Model>) {
        self.model = model;
        self.version = None;
    }

    /// Adds an entry; why it is not in the log.
    fn write(&mut self, entry: &Entry) -> Option<String> {
        self.conversation.add(entry);
        let failed = self.log.as_mut()?.append(entry).err()?;
        // A log with a gap is worse than one that ends.
        self.log = None;
        Some(format!("the conversation is not written down any more: {failed}"))
    }

    fn wanted<'a>(&'a self, catalog: &'a crate::catalog::merge::Catalog) -> Wanted<'a> {
        let about = self.model.about();
        Wanted {
            catalog,
            exposure: self.settings.exposure,
            window: about.window,
            dialect: about.dialect,
            tools_max: self.settings.tools_max,
            may: &*self.may,
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // What was approved for this session is over with it.
        self.hands.runtime.approvals().end_session(self.hands.session);
    }
}
