//! Floor 5. What a server of the running host says, as it says it: lines of stderr, and the frames that
//! pass. Everything is redacted before it leaves the host. Called by `deeds`.

use std::time::SystemTime;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use super::ctx::Ctx;
use super::exit::Exit;
use super::failure::Failure;
use super::out::Tone;
use super::text;
use crate::id::ServerId;
use crate::runtime::Runtime;
use crate::serve::Talk;
use crate::shaping::redact::Stream;
use crate::shaping::render::printable;
use crate::time::{rfc3339, wall};
use crate::transport::tap::{Ear, Heard, Passed, Tap, Way};

/// Longest line of stderr that is shown, in characters.
const LINE_LEN_MAX: usize = 8 * 1024;

/// What is wanted of the log of a server.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Following {
    /// Lines of stderr as they come.
    pub stderr: bool,
    /// Frames as they pass.
    pub wire: bool,
}

/// One part of the stream in `--json`.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Part<'a> {
    Stderr {
        server: &'a str,
        time: String,
        line: &'a str,
    },
    Frame {
        server: &'a str,
        time: String,
        direction: &'static str,
        size_bytes: usize,
        frame: &'a str,
        is_cut: bool,
    },
    Missed {
        server: &'a str,
        time: String,
        what: &'static str,
        count: u64,
    },
}

/// The lines of stderr that are kept of a server.
pub fn kept(ctx: &Ctx, runtime: &Runtime, server: &ServerId) -> Vec<String> {
    let kept = runtime.tap(server).map(|tap| tap.stderr()).filter(|text| !text.is_empty());
    match kept {
        Some(text) => text::lines(&ctx.clean(&text)),
        // Of a process that is gone the view has the last words.
        None => {
            let views = runtime.status();
            views.into_iter().find(|view| view.id == *server).map(|view| view.stderr_tail).unwrap_or_default()
        }
    }
}

/// One who listens to a server.
#[derive(Debug)]
pub struct Tail {
    server: ServerId,
    before: Vec<String>,
    stderr: Option<Ear<Bytes>>,
    frames: Option<Ear<Passed>>,
    /// What of stderr can't be judged yet.
    held: Stream,
}

impl Tail {
    /// Listens from now on; with what is kept before.
    pub fn new(ctx: &Ctx, runtime: &Runtime, server: &ServerId, wanted: Following) -> Result<Self, Failure> {
        let tap: Tap = runtime.tap(server).ok_or_else(|| {
            Failure::new(
                "disabled",
                Exit::Refused,
                format!("{server} does not run: there is nothing to follow"),
            )
            .on(server.as_str())
            .fix(format!("callboard mcp why {}", crate::id::shell_word(server.as_str())))
        })?;
        let stderr = wanted.stderr.then(|| tap.stderr_pieces());
        let before = if wanted.stderr { kept(ctx, runtime, server) } else { Vec::new() };
        let frames = wanted.wire.then(|| tap.frames());
        Ok(Self { server: server.clone(), before, stderr, frames, held: Stream::default() })
    }

    /// Sends everything to the process that asked, until it is gone.
    pub async fn send(mut self, ctx: &Ctx, talk: &Talk) {
        for line in std::mem::take(&mut self.before) {
            if !self.line(ctx, talk, &line).await {
                return;
            }
        }
        loop {
            let there = tokio::select! {
                heard = next(&mut self.stderr) => match heard {
                    Heard::One(piece) => {
                        let safe = self.held.push(&ctx.redactor(), &piece);
                        let text = ctx.clean(&String::from_utf8_lossy(&safe));
                        let mut there = true;
                        for line in text::lines(&text) {
                            there = there && self.line(ctx, talk, &line).await;
                        }
                        there
                    }
                    Heard::Missed(count) => {
                        // What follows may begin within a secret: its line is left out.
                        self.held = Stream::default();
                        self.missed(ctx, talk, "pieces of stderr", count).await
                    }
                },
                heard = next(&mut self.frames) => match heard {
                    Heard::One(passed) => self.frame(ctx, talk, &passed).await,
                    Heard::Missed(count) => self.missed(ctx, talk, "frames", count).await,
                },
            };
            if !there {
                return;
            }
        }
    }

    async fn line(&self, ctx: &Ctx, talk: &Talk, line: &str) -> bool {
        let line = text::first_line(line, LINE_LEN_MAX);
        let part = Part::Stderr { server: self.server.as_str(), time: rfc3339(wall()), line: &line };
        say(ctx, talk, &part, line.clone()).await
    }

    async fn frame(&self, ctx: &Ctx, talk: &Talk, passed: &Passed) -> bool {
        let text = shown(ctx, passed);
        let (direction, arrow) = match passed.way {
            Way::ToServer => ("to_server", "→"),
            Way::FromServer => ("from_server", "←"),
        };
        let is_cut = passed.bytes.len() < passed.len;
        let (time, size_bytes) = (rfc3339(passed.at), passed.len);
        let head = format!("{} {arrow} {}", clock(passed.at), text::bytes(size_bytes as u64));
        let more = if is_cut { " …" } else { "" };
        let human = format!("{} {}{more}", ctx.style().paint(Tone::Dim, &head), printable(&text));
        let server = self.server.as_str();
        say(ctx, talk, &Part::Frame { server, time, direction, size_bytes, frame: &text, is_cut }, human)
            .await
    }

    async fn missed(&self, ctx: &Ctx, talk: &Talk, what: &'static str, count: u64) -> bool {
        let human = format!("… {count} {what} came faster than they were read, and are not shown");
        let human = ctx.style().paint(Tone::Warn, &human);
        let (server, time) = (self.server.as_str(), rfc3339(wall()));
        say(ctx, talk, &Part::Missed { server, time, what, count }, human).await
    }
}

/// A frame without secrets; of one that is cut, without half of one at its end.
fn shown(ctx: &Ctx, passed: &Passed) -> String {
    let text = String::from_utf8_lossy(&passed.bytes);
    match passed.bytes.len() < passed.len {
        true => ctx.redaction.piece(&text),
        false => ctx.redaction.text(&text),
    }
}

/// The time of day, with milliseconds.
fn clock(at: SystemTime) -> String {
    let whole = humantime::format_rfc3339_millis(at).to_string();
    whole.get(11..23).unwrap_or_default().to_owned()
}

async fn say(ctx: &Ctx, talk: &Talk, part: &Part<'_>, human: String) -> bool {
    let json = match ctx.global.json {
        true => to_raw_value(part).unwrap_or_else(|_| RawValue::NULL.to_owned()),
        false => RawValue::NULL.to_owned(),
    };
    talk.piece(json, human).await
}

async fn next<T: Clone + 'static>(ear: &mut Option<Ear<T>>) -> Heard<T> {
    match ear {
        Some(ear) => ear.next().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::spec::SecretText;

    #[test]
    fn a_frame_is_shown_without_secrets_and_a_cut_one_without_half_of_one() {
        let home = tempfile::tempdir().unwrap();
        let ctx = Ctx::for_test(home.path(), &[]);
        ctx.redaction.learn(&[SecretText::new("canary-value-12345")]);
        let passed = |text: &str, len: usize| Passed {
            at: SystemTime::UNIX_EPOCH,
            way: Way::ToServer,
            len,
            bytes: Bytes::copy_from_slice(text.as_bytes()),
        };
        let whole = r#"{"a":"canary-value-12345","n":1.00}"#;
        assert_eq!(shown(&ctx, &passed(whole, whole.len())), r#"{"a":"[redacted]","n":1.00}"#);
        let cut = shown(&ctx, &passed(r#"{"a":"canary-val"#, 99_999));
        assert!(!cut.contains("canary-v"), "{cut}");
        assert_eq!(clock(SystemTime::UNIX_EPOCH), "00:00:00.000");
    }
}
