//! Floor 5. What happens to the servers while a person types: the bar, the news, what completion goes
//! by, and files of the configuration that changed. A task of its own. Used by `repl`.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::bar::{Counts, News, bar, counts};
use super::candidates::Known;
use super::editor::open;
use super::helper::{Bar, Shared};
use super::house::House;
use super::{is_configured, verbs};
use crate::cli::ctx::Ctx;
use crate::cli::out::{self, Style, Tone};
use crate::transport::task;
use crate::view::ServerView;

/// Least time between two bars.
const LOOK_EVERY: Duration = Duration::from_millis(150);
/// How often files are looked at, and what does not announce itself.
const LOOK_ANYWAY: Duration = Duration::from_secs(1);

/// What stands in the bar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The servers.
    pub counts: Counts,
    /// Mode and model.
    pub also: Vec<String>,
}

impl Bar for Line {
    fn draw(&self, style: Style, width: usize) -> String {
        bar(self.counts, &self.also, style, width)
    }
}

/// The task, and what it left for the next prompt.
#[derive(Debug)]
pub struct Follow {
    /// How to write.
    pub style: Style,
    task: task::Owned,
    shared: Arc<Shared>,
    look: Arc<tokio::sync::Notify>,
    model: Arc<Mutex<Option<String>>>,
}

/// What the task works with.
struct Watcher {
    house: Arc<House>,
    shared: Arc<Shared>,
    style: Style,
    model: Arc<Mutex<Option<String>>>,
    news: News,
    line: Option<Line>,
}

impl Follow {
    /// Follows the servers of that house.
    pub fn start(house: Arc<House>, shared: Arc<Shared>, ctx: &Ctx) -> Self {
        let look = Arc::<tokio::sync::Notify>::default();
        let (style, model) = (ctx.style(), Arc::<Mutex<Option<String>>>::default());
        let watcher = Watcher {
            house,
            shared: shared.clone(),
            style,
            model: model.clone(),
            news: News::default(),
            line: None,
        };
        let task = task::spawn(watcher.run(look.clone()));
        Self { style, task, shared, look, model }
    }

    /// Looks at once.
    pub fn look(&self) {
        self.look.notify_one();
    }

    /// The model that is named in the bar.
    pub fn name_model(&self, name: Option<String>) {
        *open(&self.model) = name;
        self.look();
    }

    /// Shows what happened while there was no prompt.
    pub fn catch_up(&self) {
        let _ = out::write_stdout(&self.shared.take_news());
    }

    /// Ends it, and gives the house back.
    pub async fn end(mut self) {
        self.task.abort();
        self.task.ended().await;
    }
}

impl Watcher {
    async fn run(mut self, look: Arc<tokio::sync::Notify>) {
        let house = self.house.clone();
        let mut watch = house.runtime().watch(&[]);
        let mut files = tokio::time::interval(LOOK_ANYWAY);
        loop {
            let views = watch.look();
            self.seen(&views).await;
            tokio::time::sleep(LOOK_EVERY).await;
            tokio::select! {
                () = watch.changed() => {}
                () = look.notified() => {}
                _ = files.tick() => {
                    if self.house.is_stale().await {
                        self.reread().await;
                    }
                }
            }
        }
    }

    async fn seen(&mut self, views: &[ServerView]) {
        let ctx = self.house.ctx().await;
        let configured: Vec<ServerView> =
            views.iter().filter(|view| is_configured(view.id.as_str())).cloned().collect();
        let catalog = self.house.runtime().catalog();
        let servers = configured.iter().map(|view| view.id.to_string()).collect();
        self.shared.know(Known { servers, catalog, sessions: Vec::new() });
        let mut also = vec![ctx.loaded.settings.mode.as_str().to_owned()];
        also.extend(open(&self.model).clone());
        let line = Line { counts: counts(&configured), also };
        if self.line.as_ref() != Some(&line) {
            self.shared.set_bar(Box::new(line.clone()));
            self.line = Some(line);
        }
        for text in self.news.of(&configured, &|text| ctx.clean(text)) {
            let tone = if text.starts_with('✗') { Tone::Bad } else { Tone::Dim };
            self.tell(tone, &text);
        }
    }

    async fn reread(&mut self) {
        match self.house.reload().await {
            Ok(done) => {
                let text = verbs::reload_text(&done);
                if !text.is_empty() {
                    self.tell(Tone::Dim, &format!("the configuration was read again: {text}"));
                }
            }
            Err(failure) => self.tell(Tone::Warn, &failure.message),
        }
    }

    fn tell(&self, tone: Tone, text: &str) {
        self.shared.show(&self.style.paint(tone, text));
    }
}
