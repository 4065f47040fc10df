//! Floor 5. Log lines of the command line: on stderr, quiet unless asked, through the redactor of the process. Called
//! once by `cli::main`.

use tracing_subscriber::EnvFilter;

use super::args::LogFormat;
use crate::config::host::LogLevel;
use crate::telemetry::{RedactedStderr, Redaction};

/// The filter for a level. Libraries below us are kept at warnings until details are asked for.
pub fn directives(level: LogLevel) -> &'static str {
    match level {
        LogLevel::Off => "off",
        LogLevel::Error => "error",
        LogLevel::Warn => "warn,ractor=warn,rmcp=warn",
        LogLevel::Info => "warn,callboard=info,ractor=warn,rmcp=warn",
        LogLevel::Debug => "info,callboard=debug,ractor=warn,rmcp=warn",
        LogLevel::Trace => "debug,callboard=trace,ractor=info,rmcp=info",
    }
}

/// Sets the one subscriber of the process. Harmless when there is one already.
pub fn init(level: LogLevel, format: LogFormat, color: bool) {
    let filter = EnvFilter::new(directives(level));
    let base = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(RedactedStderr(Redaction::of_process()));
    let _ = match format {
        LogFormat::Text => base.with_ansi(color).with_target(false).try_init(),
        LogFormat::Json => base.json().try_init(),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_is_a_filter_and_the_default_keeps_libraries_quiet() {
        use LogLevel::{Debug, Error, Info, Off, Trace, Warn};
        for level in [Off, Error, Warn, Info, Debug, Trace] {
            let text = directives(level);
            assert!(EnvFilter::builder().parse(text).is_ok(), "{text}");
        }
        let text = directives(LogLevel::default());
        assert!(text.contains("ractor=warn") && text.contains("rmcp=warn"));
    }
}
