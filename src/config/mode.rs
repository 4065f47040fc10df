//! Floor 1. The words of the settings that policy goes by: how much runs without asking, and when
//! the commands of servers are checked. Read by `host_keys`, gone by in `policy` and `spawn`.

/// How much runs without asking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Nothing with an effect runs, allowed or not.
    Plan,
    /// As `ReadOnly`, and no resources or prompts from servers that are not trusted.
    Safe,
    /// Read-only tools of trusted servers run, everything else asks.
    #[default]
    ReadOnly,
    /// Nothing asks; what is denied stays denied.
    Auto,
}

impl Mode {
    /// All modes, strictest first.
    pub const ALL: [Self; 4] = [Self::Plan, Self::Safe, Self::ReadOnly, Self::Auto];

    /// The stricter one of two.
    #[must_use]
    pub fn stricter(self, other: Self) -> Self {
        Self::ALL.into_iter().find(|mode| *mode == self || *mode == other).unwrap_or(self)
    }

    /// The word in configuration and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Safe => "safe",
            Self::ReadOnly => "readonly",
            Self::Auto => "auto",
        }
    }

    /// The mode of that word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == word)
    }
}

/// `spawn.check`: when the command of a stdio server must be on `spawn.allow`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SpawnCheck {
    /// In safe mode.
    #[default]
    Safe,
    /// In every mode.
    Always,
}
