//! Floor 1. The settings of serving (`[serve]`): how the host looks to its clients, and what one
//! client may take. The keys are in the table of `host_keys`.

use std::time::Duration;

use super::spec::{NamingStyle, Rate};

/// `serve.approval`: who is asked about a call that needs approval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ServeApproval {
    /// The client's user, by `elicitation/create`; a client that has none can't run such calls.
    #[default]
    Elicitation,
    /// Nobody: the client asks its user before it calls.
    Client,
}

/// `[serve]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServeSettings {
    /// `serve.naming`: shape of exposed names.
    pub naming: NamingStyle,
    /// `serve.name_len_max`, characters: most clients put a prefix of their own in front.
    pub name_len_max: usize,
    /// `serve.approval`
    pub approval: ServeApproval,
    /// `serve.read_project_mcp`: whether the project's files count.
    pub read_project_mcp: bool,
    /// `serve.instructions_max`, bytes: of all servers' instructions together.
    pub instructions_max: usize,
    /// `serve.rate_…`: of each client; `None`: no limit.
    pub rate: Option<Rate>,
    /// `serve.calls_max`: requests of one client that run at once.
    pub calls_max: usize,
    /// `serve.park_ttl`: how long a call waits for its client to come back with an answer that its
    /// server wants.
    pub park_ttl: Duration,
    /// `serve.grace`: how long running calls have when their client or the host ends.
    pub grace: Duration,
    /// `serve.body_max`, bytes: largest message over HTTP.
    pub body_max: usize,
    /// `serve.sessions_max`: sessions over HTTP at once.
    pub sessions_max: usize,
    /// `serve.session_idle`: after that time without use, a session over HTTP is ended.
    pub session_idle: Duration,
    /// `http.host`: an address, or `localhost` for both loopbacks.
    pub http_host: String,
    /// `http.port`; 0 takes a free one.
    pub http_port: u16,
    /// `http.hosts`: further names by which the host may be reached over HTTP.
    pub http_hosts: Vec<String>,
    /// `http.origins`: sites whose pages may use the host.
    pub http_origins: Vec<String>,
    /// `serve.linger`: how long the shared host stays after its last client.
    pub linger: Duration,
}

impl Default for ServeSettings {
    /// The values of `default.toml` (a test compares them).
    fn default() -> Self {
        Self {
            naming: NamingStyle::ServerTool,
            name_len_max: 48,
            approval: ServeApproval::Elicitation,
            read_project_mcp: false,
            instructions_max: 8 << 10,
            rate: None,
            calls_max: 256,
            park_ttl: Duration::from_secs(600),
            grace: Duration::from_secs(5),
            body_max: 16 << 20,
            sessions_max: 256,
            session_idle: Duration::from_secs(30 * 60),
            http_host: "127.0.0.1".to_owned(),
            http_port: 8931,
            http_hosts: Vec::new(),
            http_origins: Vec::new(),
            linger: Duration::from_secs(60),
        }
    }
}
