//! The agent's own tools: the seven that reach all servers, the search, and the pages of what was cut. Their
//! definitions, and what a call of one asks for. Pure; `engine` answers them.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::adapt::canonical;
use crate::agent::chat::ToolDef;
use crate::config::model::Exposure;

/// The name under which the bridge reaches the agent's own paging tool.
pub const OWN_SERVER: &str = "callboard";
/// Tools that one search returns unless asked otherwise, and at most.
pub const FOUND: usize = 8;
/// See [`FOUND`].
pub const FOUND_MAX: usize = 20;

/// The agent's own tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Own {
    /// `mcp_list_servers`
    ListServers,
    /// `mcp_list_tools`
    ListTools,
    /// `mcp_call_tool`
    CallTool,
    /// `mcp_list_resources`
    ListResources,
    /// `mcp_read_resource`
    ReadResource,
    /// `mcp_list_prompts`
    ListPrompts,
    /// `mcp_get_prompt`
    GetPrompt,
    /// `mcp_search_tools`
    SearchTools,
    /// `mcp_read_output`
    ReadOutput,
}

impl Own {
    /// The seven of the bridge.
    pub const BRIDGE: [Self; 7] = [
        Self::ListServers,
        Self::ListTools,
        Self::CallTool,
        Self::ListResources,
        Self::ReadResource,
        Self::ListPrompts,
        Self::GetPrompt,
    ];

    /// Those of a way of showing. The bridge has exactly seven: it reaches the pages as a tool of the server
    /// `callboard`.
    pub fn of(exposure: Exposure) -> &'static [Self] {
        match exposure {
            Exposure::Bridge => &Self::BRIDGE,
            Exposure::Search => &[Self::SearchTools, Self::CallTool, Self::ReadOutput],
            Exposure::Direct | Exposure::Auto => &[Self::ReadOutput],
        }
    }

    /// All names: no server may take one of them.
    pub fn reserved() -> impl Iterator<Item = String> {
        Self::BRIDGE.iter().chain(&[Self::SearchTools, Self::ReadOutput]).map(|own| own.name().to_owned())
    }

    /// The name.
    pub fn name(self) -> &'static str {
        match self {
            Self::ListServers => "mcp_list_servers",
            Self::ListTools => "mcp_list_tools",
            Self::CallTool => "mcp_call_tool",
            Self::ListResources => "mcp_list_resources",
            Self::ReadResource => "mcp_read_resource",
            Self::ListPrompts => "mcp_list_prompts",
            Self::GetPrompt => "mcp_get_prompt",
            Self::SearchTools => "mcp_search_tools",
            Self::ReadOutput => "mcp_read_output",
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::ListServers => "Lists the MCP servers with their state and what each offers.",
            Self::ListTools => "Lists the tools of one MCP server with their parameters.",
            Self::CallTool => {
                "Calls a tool of an MCP server. Its parameters must be known: list or search first."
            }
            Self::ListResources => "Lists the resources of one MCP server.",
            Self::ReadResource => "Reads a resource of an MCP server.",
            Self::ListPrompts => "Lists the prompts of one MCP server with their arguments.",
            Self::GetPrompt => "Gets a prompt of an MCP server.",
            Self::SearchTools => {
                "Finds tools of all MCP servers by words: names, descriptions, parameters. Returns the best with \
                 their parameters, to be called with mcp_call_tool."
            }
            Self::ReadOutput => {
                "Reads on in a result that was cut. `id` stands in the note at its end; `offset` is the byte to \
                 begin with."
            }
        }
    }

    fn schema(self) -> Value {
        let text = |what: &str| json!({"type": "string", "description": what});
        let server = text("name of the server");
        let object = json!({"type": "object", "description": "the arguments"});
        let (properties, required) = match self {
            Self::ListServers => (json!({}), vec![]),
            Self::ListTools | Self::ListResources | Self::ListPrompts => {
                (json!({"server": server}), vec!["server"])
            }
            Self::CallTool => (
                json!({"server": server, "name": text("name of the tool"), "arguments": object}),
                vec!["server", "name"],
            ),
            Self::ReadResource => (json!({"server": server, "uri": text("its URI")}), vec!["server", "uri"]),
            Self::GetPrompt => (
                json!({"server": server, "name": text("name of the prompt"), "arguments": object}),
                vec!["server", "name"],
            ),
            Self::SearchTools => (
                json!({
                    "query": text("words for what is to be done"),
                    "limit": {"type": "integer", "minimum": 1, "maximum": FOUND_MAX, "description": "how many; 8 if left out"},
                }),
                vec!["query"],
            ),
            Self::ReadOutput => (
                json!({
                    "id": {"type": "integer", "description": "number of the kept result"},
                    "offset": {"type": "integer", "minimum": 0, "description": "byte to begin with"},
                }),
                vec!["id"],
            ),
        };
        json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
    }

    /// As the model sees it. The words are ours, so there is no fence.
    pub fn definition(self) -> ToolDef {
        ToolDef {
            name: self.name().to_owned(),
            description: self.description().to_owned(),
            schema: canonical(&self.schema()),
        }
    }
}

/// What a call of one of these asks for.
#[derive(Clone, Debug)]
pub enum Ask {
    /// The servers.
    Servers,
    /// The tools of one.
    Tools(String),
    /// A call. `server` is empty when the model named none.
    Call {
        /// The server.
        server: String,
        /// The tool, by raw or exposed name.
        name: String,
        /// A JSON object, byte for byte as the model wrote it.
        arguments: Box<RawValue>,
    },
    /// The resources of one.
    Resources(String),
    /// A resource.
    Resource {
        /// The server.
        server: String,
        /// Its URI.
        uri: String,
    },
    /// The prompts of one.
    Prompts(String),
    /// A prompt.
    Prompt {
        /// The server.
        server: String,
        /// Its name.
        name: String,
        /// A JSON object.
        arguments: Box<RawValue>,
    },
    /// Tools by words.
    Search {
        /// The words.
        query: String,
        /// How many at most.
        limit: usize,
    },
    /// A page.
    Output {
        /// The number of a kept result.
        id: u64,
        /// The byte to begin with.
        offset: usize,
    },
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Written {
    server: Option<String>,
    #[serde(alias = "tool", alias = "prompt")]
    name: Option<String>,
    #[serde(alias = "args")]
    arguments: Option<Box<RawValue>>,
    uri: Option<String>,
    query: Option<String>,
    limit: Option<u64>,
    id: Option<Value>,
    offset: Option<u64>,
}

impl Own {
    /// What a call asks for; a sentence that the model can correct itself by, if it makes no sense.
    pub fn asks(self, arguments: &str) -> Result<Ask, String> {
        let text = if arguments.trim().is_empty() { "{}" } else { arguments };
        let written: Written = serde_json::from_str(text).map_err(|error| {
            format!("the arguments of {} are not as its schema wants: {error}", self.name())
        })?;
        let needed = |value: Option<String>, key: &str| {
            value.filter(|value| !value.is_empty()).ok_or_else(|| format!("{} needs {key}", self.name()))
        };
        Ok(match self {
            Self::ListServers => Ask::Servers,
            Self::ListTools => Ask::Tools(needed(written.server, "server")?),
            Self::ListResources => Ask::Resources(needed(written.server, "server")?),
            Self::ListPrompts => Ask::Prompts(needed(written.server, "server")?),
            Self::CallTool => Ask::Call {
                name: needed(written.name, "name")?,
                server: written.server.unwrap_or_default(),
                arguments: object(written.arguments)?,
            },
            Self::ReadResource => {
                Ask::Resource { server: needed(written.server, "server")?, uri: needed(written.uri, "uri")? }
            }
            Self::GetPrompt => Ask::Prompt {
                server: needed(written.server, "server")?,
                name: needed(written.name, "name")?,
                arguments: object(written.arguments)?,
            },
            Self::SearchTools => {
                let limit = usize::try_from(written.limit.unwrap_or(FOUND as u64)).unwrap_or(FOUND);
                Ask::Search { query: needed(written.query, "query")?, limit: limit.clamp(1, FOUND_MAX) }
            }
            Self::ReadOutput => {
                // Some models write numbers as texts.
                let id = written.id.and_then(|id| id.as_u64().or_else(|| id.as_str()?.parse().ok()));
                let offset = usize::try_from(written.offset.unwrap_or_default()).unwrap_or(usize::MAX);
                Ask::Output { id: id.ok_or("mcp_read_output needs id, a number")?, offset }
            }
        })
    }
}

/// The arguments as an object. Some models write the object as a text.
fn object(written: Option<Box<RawValue>>) -> Result<Box<RawValue>, String> {
    let wrong = || "arguments must be a JSON object".to_owned();
    let text = match &written {
        None => "{}".to_owned(),
        Some(raw) if raw.get() == "null" => "{}".to_owned(),
        Some(raw) if raw.get().starts_with('"') => serde_json::from_str(raw.get()).map_err(|_| wrong())?,
        Some(raw) => raw.get().to_owned(),
    };
    let text = if text.trim().is_empty() { "{}".to_owned() } else { text };
    RawValue::from_string(text).ok().filter(|raw| raw.get().trim_start().starts_with('{')).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bridge_has_exactly_these_seven_with_these_arguments() {
        let all: Vec<(String, Vec<String>)> = Own::of(Exposure::Bridge)
            .iter()
            .map(|own| {
                let keys = own.schema()["properties"].as_object().unwrap().keys().cloned().collect();
                assert_eq!(own.schema()["additionalProperties"], false);
                (own.name().to_owned(), keys)
            })
            .collect();
        let want = [
            ("mcp_list_servers", vec![]),
            ("mcp_list_tools", vec!["server"]),
            ("mcp_call_tool", vec!["server", "name", "arguments"]),
            ("mcp_list_resources", vec!["server"]),
            ("mcp_read_resource", vec!["server", "uri"]),
            ("mcp_list_prompts", vec!["server"]),
            ("mcp_get_prompt", vec!["server", "name", "arguments"]),
        ];
        let want = want.map(|(name, keys)| (name.to_owned(), keys.into_iter().map(str::to_owned).collect()));
        assert_eq!(all, want);
        assert_eq!(Own::reserved().count(), 9);
    }

    #[test]
    fn arguments_pass_byte_for_byte_under_either_name() {
        for written in [
            r#"{"server":"s","name":"t","arguments":{"n":1.00}}"#,
            r#"{"server":"s","tool":"t","args":{"n":1.00}}"#,
            r#"{"server":"s","tool":"t","args":"{\"n\":1.00}"}"#,
        ] {
            let Ask::Call { server, name, arguments } = Own::CallTool.asks(written).unwrap() else {
                panic!()
            };
            assert_eq!((server.as_str(), name.as_str(), arguments.get()), ("s", "t", r#"{"n":1.00}"#));
        }
        let Ask::Call { arguments, .. } = Own::CallTool.asks(r#"{"server":"s","name":"t"}"#).unwrap() else {
            panic!()
        };
        assert_eq!(arguments.get(), "{}");
    }

    #[test]
    fn what_makes_no_sense_is_a_sentence_that_says_what_is_wanted() {
        for (own, written, says) in [
            (Own::CallTool, r#"{"server":"s"}"#, "needs name"),
            (Own::CallTool, r#"{"server":"s","name":"t","arguments":[1]}"#, "JSON object"),
            (Own::ListTools, "{}", "needs server"),
            (Own::ListTools, r#"{"server":"s","more":1}"#, "more"),
            (Own::ReadOutput, "{}", "needs id"),
            (Own::SearchTools, "{broken", "schema wants"),
        ] {
            let told = own.asks(written).unwrap_err();
            assert!(told.contains(says), "{told}");
        }
        assert!(matches!(Own::ReadOutput.asks(r#"{"id":"3"}"#), Ok(Ask::Output { id: 3, offset: 0 })));
    }
}
