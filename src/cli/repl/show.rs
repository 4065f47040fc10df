//! Floor 5. A turn as it is shown: the model's words as markdown, each call with what came of it, a line
//! about what runs. While a question stands, everything else waits. Used by `talk`.

use std::collections::BTreeMap;
use std::time::Duration;

use super::markdown::Markdown;
use crate::agent::engine::Told;
use crate::agent::turn::End;
use crate::cli::ctx::Ctx;
use crate::cli::out::{Style, Tone, write_stdout};
use crate::cli::session::StatusLine;
use crate::cli::text::{first_line, span};
use crate::shaping::render::{one_line, printable};
use crate::time::Monotonic;

/// After that long a call that runs is told of.
const SHOW_AFTER: Duration = Duration::from_secs(1);
/// Columns of what is told of a call.
const WIDTH_MAX: usize = 90;

/// Shows one turn.
pub struct Show {
    style: Style,
    markdown: Markdown,
    line: StatusLine,
    /// What runs: the tool, since when, what is known of it.
    runs: BTreeMap<String, (String, Monotonic, String)>,
    /// What waits for a question to be answered.
    held: String,
    usage: Option<String>,
}

impl Show {
    /// For the screen of whoever typed.
    pub fn new(ctx: &Ctx) -> Self {
        let style = ctx.style();
        Self {
            style,
            markdown: Markdown::new(style),
            line: StatusLine::new(ctx),
            runs: BTreeMap::new(),
            held: String::new(),
            usage: None,
        }
    }

    /// Shows one thing; `busy` while a question stands.
    pub fn told(&mut self, told: Told, busy: bool) {
        let text = self.text(told);
        self.held.push_str(&text);
        if !busy && !self.held.is_empty() {
            self.line.clear();
            let _ = write_stdout(&std::mem::take(&mut self.held));
        }
    }

    /// Says what runs, when it has run for a while.
    pub fn tick(&mut self, busy: bool) {
        if busy {
            return;
        }
        let now = Monotonic::now();
        let parts: Vec<String> = self
            .runs
            .values()
            .filter(|(_, since, _)| now.since(*since) >= SHOW_AFTER)
            .map(|(name, since, more)| {
                let gap = if more.is_empty() { "" } else { ": " };
                format!("{name}, {}{gap}{more}", span(Duration::from_secs(now.since(*since).as_secs())))
            })
            .collect();
        self.line.show(&parts.join(" · "));
    }

    /// The end of the turn.
    pub fn finish(&mut self, end: &End) {
        self.line.clear();
        let mut text = std::mem::take(&mut self.held);
        text.push_str(&self.markdown.finish());
        let said = match end {
            End::Done => None,
            End::Length => Some("the answer reached the limit of its length (model.max_output)".to_owned()),
            End::Filtered => Some("the endpoint kept the model from going on".to_owned()),
            End::Cancelled => Some("interrupted".to_owned()),
            End::Limit(limit) => Some(format!("ended by a limit: {}", limit.setting())),
            End::Denied => Some("ended: no was said too often".to_owned()),
            End::Failed(error) => Some(error.to_string()),
        };
        if let Some(said) = said {
            text.push_str(&format!("{}\n", self.style.paint(Tone::Warn, &printable(&said))));
        }
        if let Some(usage) = &self.usage {
            text.push_str(&format!("{}\n", self.style.paint(Tone::Dim, usage)));
        }
        let _ = write_stdout(&text);
    }

    fn text(&mut self, told: Told) -> String {
        match told {
            Told::Text(text) => self.markdown.push(&text),
            Told::Reasoning(_) | Told::Calling(_) | Told::Surface(_) => String::new(),
            Told::Began { id, server, tool, arguments } => {
                let name = server.map_or(tool.clone(), |server| format!("{server} {tool}"));
                let name = one_line(&name, WIDTH_MAX);
                self.runs.insert(id, (name.clone(), Monotonic::now(), String::new()));
                let arguments = one_line(&arguments, WIDTH_MAX.saturating_sub(name.len()).max(20));
                let rest = self.markdown.finish();
                format!("{rest}{}\n", self.style.paint(Tone::Dim, &format!("→ {name} {arguments}")))
            }
            Told::Waits { id, why: more } | Told::Progress { id, text: more } => {
                if let Some(run) = self.runs.get_mut(&id) {
                    run.2 = one_line(&more, WIDTH_MAX);
                }
                String::new()
            }
            Told::Ended { id, is_error, text, notes, elapsed } => {
                let name = self.runs.remove(&id).map_or_else(String::new, |(name, ..)| name);
                let (sign, tone) = if is_error { ("✗", Tone::Bad) } else { ("←", Tone::Dim) };
                let text = first_line(&inside(&printable(&text)), WIDTH_MAX);
                let mut out = self.style.paint(tone, &format!("{sign} {name} ({}): {text}", span(elapsed)));
                out.push('\n');
                for note in notes {
                    out.push_str(
                        &self.style.paint(Tone::Dim, &format!("  {}\n", one_line(&note, WIDTH_MAX))),
                    );
                }
                out
            }
            Told::Again { attempt, wait, why } => {
                self.aside(&format!("{why}; asking again in {} ({attempt})", span(wait)))
            }
            Told::MadeRoom { how, before, after } => self.aside(&format!(
                "the conversation was shortened ({how}): about {before} tokens, now {after}"
            )),
            Told::Used { last, all, cost } => {
                let cost = cost.map_or(String::new(), |cost| format!(", cost {cost}"));
                self.usage = Some(format!(
                    "{} tokens in, {} out; {} in all{cost}",
                    last.whole_input(),
                    last.output,
                    all.whole_input() + all.output
                ));
                String::new()
            }
            Told::Warning(text) => self.aside(&text),
        }
    }

    fn aside(&mut self, text: &str) -> String {
        let rest = self.markdown.finish();
        format!("{rest}{}\n", self.style.paint(Tone::Warn, &printable(text)))
    }
}

/// What stands in a fence, without the fence: the person knows who said it.
fn inside(text: &str) -> String {
    let mut lines = text.lines().skip_while(|line| !line.starts_with("<<<")).peekable();
    if lines.peek().is_none() {
        return text.to_owned();
    }
    let inner = lines.skip(1).skip_while(|line| line.starts_with("<<<") || is_about(line));
    inner.take_while(|line| !line.starts_with("<<<")).collect::<Vec<_>>().join("\n")
}

/// A line of the fence itself: whose words they are.
fn is_about(line: &str) -> bool {
    line.trim().is_empty() || line.starts_with("Source:") || line.starts_with("source:") || line == "---"
}
