//! The trace: one JSON line per event, appended by one writer, so that a killed process loses at most a line.
//! It is the judge of every test; it must never change what the server does. Called from everywhere.
//!
//! Every line has `at` (µs since the epoch), `pid` and `ev`. Events:
//! `start` (ppid, pgid, cwd, argv, env: names) · `in`, `out` and `noise` (bytes, raw cut to 64 KB, method, id, tool) ·
//! `http` (method, path, headers) · `http-out` (status) · `session` (id, what) · `executed` (tool) · `cancelled` (id) ·
//! `client-left` · `asked` and `replied` (server-to-client) · `control` · `signal` · `eof` · `grandchild` (child) · `exit` (code, why).

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// As much of a message as the trace names, whatever numbers the rest holds.
#[derive(Deserialize)]
struct Shape<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: Option<String>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Named {
    name: Option<Value>,
}

const RAW_BYTES_MAX: usize = 64 * 1024;

pub(crate) struct Trace {
    file: Option<Mutex<File>>,
}

/// Opens FILE for appending, creating it.
pub(crate) fn append_to(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

/// One line, one write.
pub(crate) fn append_line(path: &Path, line: &str) {
    let written = append_to(path).and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
    if let Err(e) = written {
        crate::life::complain(&format!("badmcp: cannot append to {}: {e}", path.display()));
    }
}

impl Trace {
    pub(crate) fn open(path: Option<&Path>) -> std::io::Result<Self> {
        Ok(Self { file: path.map(append_to).transpose()?.map(Mutex::new) })
    }

    pub(crate) fn on(&self) -> bool {
        self.file.is_some()
    }

    /// Appends the event; `fields` is an object.
    pub(crate) fn event(&self, ev: &str, fields: Value) {
        let Some(file) = &self.file else { return };
        let at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_micros() as u64);
        let mut line = json!({"at": at, "pid": std::process::id(), "ev": ev});
        if let (Value::Object(line), Value::Object(fields)) = (&mut line, fields) {
            line.extend(fields);
        }
        let mut bytes = line.to_string().into_bytes();
        bytes.push(b'\n');
        // A trace that cannot be written is no reason to behave differently.
        let _ = file.lock().unwrap_or_else(PoisonError::into_inner).write_all(&bytes);
    }

    /// A raw message, in or out.
    pub(crate) fn message(&self, ev: &str, bytes: &[u8], session: &str) {
        if !self.on() {
            return;
        }
        let raw = String::from_utf8_lossy(&bytes[..bytes.len().min(RAW_BYTES_MAX)]);
        let mut fields = json!({"bytes": bytes.len(), "raw": raw});
        if !session.is_empty() {
            fields["session"] = json!(session);
        }
        if let Ok(message) = serde_json::from_slice::<Shape<'_>>(bytes) {
            let id = message.id.and_then(|id| serde_json::from_str(id.get()).ok());
            let code = message.error.and_then(|e| e.get("code").cloned());
            let tool =
                message.params.and_then(|p| serde_json::from_str::<Named>(p.get()).ok()).and_then(|p| p.name);
            let found =
                [("id", id), ("method", message.method.map(Value::from)), ("tool", tool), ("code", code)];
            for (key, value) in found {
                if let Some(value) = value {
                    fields[key] = value;
                }
            }
        }
        self.event(ev, fields);
    }
}
