//! `read_text` and `write_file`: below the configured folders only, through `store::beneath`, which
//! judges what was opened. Blocking; called off the threads of the event loop.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{FILE_BYTES_MAX, Output, WRITE_BYTES_MAX, page};
use crate::config::host::path_glob;
use crate::store::beneath::{PathError, Root};
use crate::telemetry::Redaction;

/// Where files are read and written.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    /// Folders below which files are, absolute; the first one is where relative paths begin.
    pub roots: Vec<PathBuf>,
    /// Folders of Callboard itself.
    pub own: Vec<PathBuf>,
    /// `builtins.allowed_paths`
    pub allowed: Vec<String>,
    /// `builtins.blocked_paths`
    pub blocked: Vec<String>,
}

impl Places {
    /// Tries each folder; the first that has the file decides. What is refused in one is not looked for
    /// in the next.
    fn each<T>(&self, mut act: impl FnMut(&Root) -> Result<T, PathError>) -> Result<T, String> {
        let mut last = None;
        for folder in &self.roots {
            let outcome = Root::open(folder, &self.own).and_then(|root| act(&root));
            match outcome {
                Ok(done) => return Ok(done),
                Err(
                    error @ (PathError::Forbidden(..) | PathError::NotRegular(_) | PathError::TooLarge(..)),
                ) => {
                    return Err(error.to_string());
                }
                // That it is outside says less than that it is not there.
                Err(PathError::Outside(_)) if last.is_some() => {}
                Err(error) => last = Some(error.to_string()),
            }
        }
        Err(last.unwrap_or_else(|| "no folder is open to this tool; set serve.read_roots".into()))
    }

    /// Why a real path is not written.
    fn refusal(&self, real: &Path) -> Option<&'static str> {
        let hit = |patterns: &[String]| {
            // A pattern that can't be used blocks, and allows nothing.
            patterns
                .iter()
                .map(|pattern| path_glob(pattern).map(|glob| glob.is_match(real)))
                .collect::<Vec<_>>()
        };
        if hit(&self.blocked).iter().any(|found| found.unwrap_or(true)) {
            return Some("builtins.blocked_paths has it");
        }
        let allowed =
            self.allowed.is_empty() || hit(&self.allowed).iter().any(|found| found.unwrap_or(false));
        (!allowed).then_some("builtins.allowed_paths does not have it")
    }

    /// `read_text`
    pub(super) fn read(&self, arguments: &Value, redaction: &Redaction) -> Result<Output, String> {
        let path = argument(arguments, "path")?;
        let bytes = self.each(|root| root.read(Path::new(path), FILE_BYTES_MAX))?;
        if let [0xff, 0xfe, ..] | [0xfe, 0xff, ..] = bytes.as_slice() {
            return Err(format!("{path}: UTF-16; only UTF-8 is read: convert it first"));
        }
        if bytes.contains(&0) {
            return Err(format!("{path}: no text: it holds NUL bytes"));
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            format!("{path}: not UTF-8 from byte {at} on; convert it first")
        })?;
        // Before it is cut, so that no page begins or ends inside a secret.
        let mut structured = page(&redaction.text(&text), arguments)?;
        structured["path"] = path.into();
        let shown = structured["text"].as_str().unwrap_or_default().to_owned();
        Ok(Output { text: Some(shown), structured })
    }

    /// `write_file`
    pub(super) fn write(&self, arguments: &Value) -> Result<Output, String> {
        let (path, content) = (argument(arguments, "path")?, argument(arguments, "content")?);
        if content.len() > WRITE_BYTES_MAX {
            return Err(format!("{path}: the content is larger than {WRITE_BYTES_MAX} bytes"));
        }
        let write =
            |root: &Root| root.write_where(Path::new(path), content.as_bytes(), |real| self.refusal(real));
        let real = self.each(write)?;
        let structured = json!({"path": real.to_string_lossy(), "bytes": content.len()});
        Ok(Output {
            text: Some(format!("{} bytes written to {}", content.len(), real.display())),
            structured,
        })
    }
}

pub(super) fn argument<'a>(arguments: &'a Value, name: &str) -> Result<&'a str, String> {
    arguments[name].as_str().ok_or_else(|| format!("{name} is missing, or no text"))
}
