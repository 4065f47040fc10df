//! Floor 5. The words of the agent: `callboard` without a verb. Parses only.

use clap::Args;

/// The heading of its options in the help.
const AGENT: &str = "Options of the agent (no verb)";

/// The agent.
#[derive(Clone, Debug, Default, Args)]
pub struct AgentArgs {
    /// Answer this and end; stdin, if it is no terminal, is given to the model too
    #[arg(short = 'p', long = "prompt", value_name = "PROMPT", help_heading = AGENT)]
    pub prompt: Option<String>,
    /// The model, as its endpoint calls it (model.name)
    #[arg(long, value_name = "NAME", help_heading = AGENT)]
    pub model: Option<String>,
    /// Where the model is (model.base_url)
    #[arg(long, value_name = "URL", help_heading = AGENT)]
    pub base_url: Option<String>,
    /// Let this tool run without asking, in this run; repeatable
    #[arg(long, value_name = "SERVER/TOOL", help_heading = AGENT)]
    pub allow: Vec<String>,
    /// Go on with the last conversation of this folder
    #[arg(long = "continue", conflicts_with = "resume", help_heading = AGENT)]
    pub go_on: bool,
    /// Go on with that conversation
    #[arg(long, value_name = "ID", help_heading = AGENT)]
    pub resume: Option<String>,
}

impl AgentArgs {
    /// Whether any of its options was given.
    pub fn any(&self) -> bool {
        let Self { prompt, model, base_url, allow, go_on, resume } = self;
        prompt.is_some()
            || model.is_some()
            || base_url.is_some()
            || !allow.is_empty()
            || *go_on
            || resume.is_some()
    }
}
