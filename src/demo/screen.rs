//! What the demo shows: headings, calls, and a table of servers that lives where there is a
//! screen and is plain lines where there is none. The one writer to stdout of the demo.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

use crate::id::ServerId;
use crate::view::{LifeState, ServerView};

/// Longest piece of text that one line shows, in characters.
const TEXT_LEN_MAX: usize = 140;

/// How the demo writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Whether lines may be drawn again in place: stdout is a screen.
    pub live: bool,
    /// Whether colours are wanted.
    pub color: bool,
}

pub(super) struct Screen<W> {
    out: W,
    look: Look,
    /// Lines of the table that stands at the end of the screen, to be drawn over.
    drawn: usize,
    /// What was last said of each server, where nothing is drawn over.
    said: BTreeMap<ServerId, String>,
    /// Why something that was to be shown is lost.
    lost: Option<io::Error>,
}

impl<W: Write> Screen<W> {
    pub(super) fn new(out: W, look: Look) -> Self {
        Self { out, look, drawn: 0, said: BTreeMap::new(), lost: None }
    }

    /// One line. A reader that left changes nothing: the demo still checks itself.
    pub(super) fn line(&mut self, text: &str) {
        self.write(&format!("{text}\n"));
        self.drawn = 0;
    }

    fn write(&mut self, text: &str) {
        match self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => self.lost = Some(error),
            _ => {}
        }
    }

    /// Why something of what was to be shown is lost; a reader that left lost nothing.
    pub(super) fn lost(self) -> Option<io::Error> {
        self.lost
    }

    pub(super) fn heading(&mut self, text: &str) {
        let text = self.paint("1", text);
        self.line(&format!("\n{text}"));
    }

    /// What is called.
    pub(super) fn asked(&mut self, server: &str, what: &str) {
        let arrow = self.paint("36", "→");
        self.line(&format!("  {arrow} {server}  {}", one_line(what)));
    }

    /// What came back.
    pub(super) fn answered(&mut self, text: &str, took: Duration) {
        let arrow = self.paint("32", "←");
        self.line(&format!("  {arrow} {}  ({})", one_line(text), human(took)));
    }

    /// What went wrong, as it should.
    pub(super) fn failed(&mut self, text: &str, took: Duration) {
        let cross = self.paint("31", "✗");
        self.line(&format!("  {cross} {}  ({})", one_line(text), human(took)));
    }

    /// What was seen and checked.
    pub(super) fn seen(&mut self, text: &str) {
        let tick = self.paint("32", "✓");
        self.line(&format!("  {tick} {text}"));
    }

    /// The servers as they are: drawn over the last table, or told when something changed.
    pub(super) fn servers(&mut self, views: &[ServerView]) {
        if self.look.live {
            self.draw(views);
        } else {
            self.tell(views);
        }
    }

    fn draw(&mut self, views: &[ServerView]) {
        let mut text = String::new();
        if self.drawn > 0 {
            text.push_str(&format!("\x1b[{}A", self.drawn));
        }
        let head = row(["SERVER", "STATE", "PID", "REVISION", "TOOLS", "CALLS", "RESTARTS", "START"]);
        text.push_str(&format!("\x1b[2K{}\n", self.paint("2", &head)));
        for view in views {
            let line = row(cells(view).each_ref().map(String::as_str));
            text.push_str(&format!("\x1b[2K{}\n", self.paint(state_color(view.state), &line)));
        }
        self.write(&text);
        self.drawn = views.len() + 1;
    }

    fn tell(&mut self, views: &[ServerView]) {
        for view in views {
            let mut text = format!("{:<8} {}", view.id.as_str(), state_text(view));
            if view.state == LifeState::Ready {
                let [_, _, pid, revision, tools, ..] = cells(view);
                text.push_str(&format!("  pid {pid}, {revision}, tools {tools}, restarts {}", view.restarts));
            }
            if self.said.get(&view.id) != Some(&text) {
                self.line(&format!("  {text}"));
                self.said.insert(view.id.clone(), text);
            }
        }
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.look.color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

fn row(cells: [&str; 8]) -> String {
    let [server, state, pid, revision, tools, calls, restarts, start] = cells;
    format!(
        "  {server:<8} {state:<20} {pid:>8}  {revision:<11} {tools:>5} {calls:>6} {restarts:>9} {start:>9}"
    )
}

fn cells(view: &ServerView) -> [String; 8] {
    let dash = || "–".to_owned();
    [
        view.id.to_string(),
        state_text(view),
        view.pid.map_or_else(dash, |pid| pid.to_string()),
        view.revision.map_or_else(dash, str::to_owned),
        view.counts.tools.to_string(),
        (view.calls_ok + view.calls_failed).to_string(),
        view.restarts.to_string(),
        view.start_took.map_or_else(dash, human),
    ]
}

fn state_text(view: &ServerView) -> String {
    match view.state {
        LifeState::Parked(reason) => format!("parked: {}", reason.as_str()),
        state => state.as_str().to_owned(),
    }
}

fn state_color(state: LifeState) -> &'static str {
    match state {
        LifeState::Ready => "32",
        LifeState::Parked(_) | LifeState::Stopped => "31",
        LifeState::BackingOff | LifeState::Connecting | LifeState::Draining | LifeState::Dormant => "33",
    }
}

/// Text of a server on one line: no control character reaches the screen, and the end is cut.
pub(super) fn one_line(text: &str) -> String {
    let mut out = String::new();
    for (count, c) in text.chars().enumerate() {
        if count == TEXT_LEN_MAX {
            out.push('…');
            break;
        }
        match c {
            '\n' => out.push_str(" · "),
            c if c.is_control() => out.extend(c.escape_default()),
            c => out.push(c),
        }
    }
    out
}

/// A duration with the unit that suits it.
pub(super) fn human(time: Duration) -> String {
    let micros = time.as_micros();
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..1_000_000 => format!("{:.1} ms", time.as_secs_f64() * 1e3),
        _ => format!("{:.2} s", time.as_secs_f64()),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::config::spec::Trust;
    use crate::id::Generation;
    use crate::view::{ItemCounts, ParkReason};

    pub(in crate::demo) fn view(name: &str, state: LifeState, pid: Option<u32>) -> ServerView {
        ServerView {
            listed: true,
            generation: Generation(1),
            pid,
            revision: Some("2025-11-25"),
            trust: Trust::Trusted,
            counts: ItemCounts { tools: 3, ..ItemCounts::default() },
            calls_ok: 2,
            calls_failed: 1,
            start_took: Some(Duration::from_millis(12)),
            ..ServerView::unknown(ServerId::new(name), "stdio", state, SystemTime::UNIX_EPOCH)
        }
    }

    fn shown(look: Look, show: impl FnOnce(&mut Screen<&mut Vec<u8>>)) -> String {
        let mut out = Vec::new();
        show(&mut Screen::new(&mut out, look));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn without_a_screen_only_changes_are_told_and_no_escape_is_written() {
        let connecting = [view("notes", LifeState::Connecting, None)];
        let ready = [view("notes", LifeState::Ready, Some(7))];
        let text = shown(Look::default(), |screen| {
            for views in [&connecting, &connecting, &ready, &ready] {
                screen.servers(views);
            }
        });
        let told: Vec<&str> = text.lines().map(str::trim).collect();
        let last = "notes    ready  pid 7, 2025-11-25, tools 3, restarts 0";
        assert_eq!(told, ["notes    connecting", last]);
        assert!(!text.contains('\x1b'));
    }

    #[test]
    fn on_a_screen_the_table_is_drawn_over_itself_until_a_line_follows() {
        let views =
            [view("notes", LifeState::Parked(ParkReason::GivenUp), None), view("x", LifeState::Ready, None)];
        let text = shown(Look { live: true, color: false }, |screen| {
            screen.servers(&views);
            screen.servers(&views);
            screen.line("done");
            screen.servers(&views);
        });
        assert_eq!(text.matches("\x1b[3A").count(), 1, "three lines back once, not over the line after");
        assert_eq!(text.matches("parked: given_up").count(), 3);
    }

    #[test]
    fn colours_are_written_when_wanted_only() {
        let show = |screen: &mut Screen<&mut Vec<u8>>| {
            screen.heading("A");
            screen.seen("B");
            screen.failed("C", Duration::ZERO);
        };
        assert!(shown(Look { live: false, color: true }, show).contains("\x1b[1mA\x1b[0m"));
        assert!(!shown(Look::default(), show).contains('\x1b'));
    }

    #[test]
    fn text_of_a_server_cannot_steer_the_terminal() {
        let line = one_line("a\x1b[2Jb\nc\r\u{9b}");
        assert!(!line.chars().any(char::is_control), "{line:?}");
        assert_eq!(one_line(&"é".repeat(500)).chars().count(), TEXT_LEN_MAX + 1);
    }

    #[test]
    fn durations_have_the_unit_that_suits_them() {
        let words = [999, 1_000, 999_949, 1_500_000].map(|us| human(Duration::from_micros(us)));
        assert_eq!(words, ["999 µs", "1.0 ms", "999.9 ms", "1.50 s"]);
    }
}
