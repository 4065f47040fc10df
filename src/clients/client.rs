//! Floor 1. The clients that we know: their names, the places of their files and the key under
//! which their servers stand, each from the client's own documentation. Reads nothing.

use std::path::{Path, PathBuf};

/// A client whose file can be read and changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Client {
    /// Claude Desktop
    ClaudeDesktop,
    /// Claude Code
    ClaudeCode,
    /// Cursor
    Cursor,
    /// Visual Studio Code
    Vscode,
    /// Codex
    Codex,
    /// Gemini CLI
    Gemini,
    /// Zed
    Zed,
    /// Windsurf
    Windsurf,
}

/// What a file is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// JSON, with comments and trailing commas.
    Json,
    /// TOML
    Toml,
}

/// Folders of this user that files are looked for in, absolute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// The user's home.
    pub home: PathBuf,
    /// `$XDG_CONFIG_HOME`, by default `~/.config`.
    pub config: PathBuf,
    /// Where programs with windows keep their settings: the same on Linux, `~/Library/Application
    /// Support` on macOS, `%APPDATA%` on Windows.
    pub application: PathBuf,
    /// `$CLAUDE_CONFIG_DIR`
    pub claude: Option<PathBuf>,
    /// `$CODEX_HOME`
    pub codex: Option<PathBuf>,
}

impl Client {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::ClaudeDesktop,
        Self::ClaudeCode,
        Self::Cursor,
        Self::Vscode,
        Self::Codex,
        Self::Gemini,
        Self::Zed,
        Self::Windsurf,
    ];

    /// The word on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::ClaudeDesktop => "claude-desktop",
            Self::ClaudeCode => "claude-code",
            Self::Cursor => "cursor",
            Self::Vscode => "vscode",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Zed => "zed",
            Self::Windsurf => "windsurf",
        }
    }

    /// Its own name.
    pub fn title(self) -> &'static str {
        match self {
            Self::ClaudeDesktop => "Claude Desktop",
            Self::ClaudeCode => "Claude Code",
            Self::Cursor => "Cursor",
            Self::Vscode => "VS Code",
            Self::Codex => "Codex",
            Self::Gemini => "Gemini CLI",
            Self::Zed => "Zed",
            Self::Windsurf => "Windsurf",
        }
    }

    /// What its file is written in.
    pub fn format(self) -> Format {
        if self == Self::Codex { Format::Toml } else { Format::Json }
    }

    /// The key of its file under which servers stand.
    pub fn key(self) -> &'static str {
        match self {
            Self::Vscode => "servers",
            Self::Codex => "mcp_servers",
            Self::Zed => "context_servers",
            _ => "mcpServers",
        }
    }

    /// Its file for this user.
    pub fn user_file(self, places: &Places) -> PathBuf {
        let home = &places.home;
        match self {
            Self::ClaudeDesktop => places.application.join("Claude").join("claude_desktop_config.json"),
            Self::ClaudeCode => places.claude.as_ref().unwrap_or(home).join(".claude.json"),
            Self::Cursor => home.join(".cursor").join("mcp.json"),
            Self::Vscode => places.application.join("Code").join("User").join("mcp.json"),
            Self::Codex => codex_home(places).join("config.toml"),
            Self::Gemini => home.join(".gemini").join("settings.json"),
            Self::Zed if cfg!(windows) => places.application.join("Zed").join("settings.json"),
            Self::Zed => places.config.join("zed").join("settings.json"),
            Self::Windsurf => home.join(".codeium").join("windsurf").join("mcp_config.json"),
        }
    }

    /// The folder or file whose presence shows that this user has the client.
    pub fn trace(self, places: &Places) -> PathBuf {
        let file = self.user_file(places);
        let folder = file.parent().unwrap_or(Path::new("/")).to_path_buf();
        match self {
            // Its file lies in the home itself; its folder comes with the first run.
            Self::ClaudeCode => places.claude.clone().unwrap_or_else(|| places.home.join(".claude")),
            // The folder of the profile is made later than that of the program.
            Self::Vscode => places.application.join("Code"),
            _ => folder,
        }
    }

    /// Its file in a project; `None` when it has none.
    pub fn project_file(self, root: &Path) -> Option<PathBuf> {
        match self {
            Self::ClaudeDesktop | Self::Windsurf => None,
            Self::ClaudeCode => Some(root.join(".mcp.json")),
            Self::Cursor => Some(root.join(".cursor").join("mcp.json")),
            Self::Vscode => Some(root.join(".vscode").join("mcp.json")),
            Self::Codex => Some(root.join(".codex").join("config.toml")),
            Self::Gemini => Some(root.join(".gemini").join("settings.json")),
            Self::Zed => Some(root.join(".zed").join("settings.json")),
        }
    }
}

fn codex_home(places: &Places) -> PathBuf {
    places.codex.clone().unwrap_or_else(|| places.home.join(".codex"))
}
