//! What a server is started in: the variables that it may see, and the folders that it is told to work in.
//! The same for all servers of a plan, or, where several clients share a host, those of its own client.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::RuntimePlan;
use crate::config::child_env::child_env;
use crate::config::spec::ServerSpec;
use crate::id::ServerId;

/// What a server is started in.
#[derive(Clone)]
pub struct Surroundings {
    /// Variables that it may see.
    pub host_env: Arc<BTreeMap<String, String>>,
    /// Names of further ones for every child.
    pub env_passthrough: Vec<String>,
    /// Folders that it is told to work in, absolute.
    pub roots: Vec<PathBuf>,
    /// How often its lists are read again, if it does not announce changes.
    pub poll: Option<Duration>,
}

/// Without the environment.
impl std::fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Surroundings").field("roots", &self.roots).finish_non_exhaustive()
    }
}

/// What one server of a plan is started in.
pub(super) struct Around<'a> {
    pub(super) host_env: &'a BTreeMap<String, String>,
    pub(super) env_passthrough: &'a [String],
    pub(super) roots: &'a [PathBuf],
    pub(super) poll: Option<Duration>,
}

impl<'a> Around<'a> {
    pub(super) fn of(plan: &'a RuntimePlan, server: &ServerId) -> Self {
        match plan.surroundings.get(server) {
            Some(Surroundings { host_env, env_passthrough, roots, poll }) => {
                Self { host_env, env_passthrough, roots, poll: *poll }
            }
            None => Self {
                host_env: &plan.host_env,
                env_passthrough: &plan.env_passthrough,
                roots: &plan.roots,
                poll: plan.poll,
            },
        }
    }

    pub(super) fn child_env(&self, spec: &ServerSpec) -> Vec<(String, String)> {
        child_env(self.host_env, spec, self.env_passthrough)
    }

    /// The user's home, as the server is told.
    pub(super) fn home(&self) -> Option<&'a Path> {
        self.host_env.get("HOME").map(Path::new).filter(|home| home.is_absolute())
    }
}
