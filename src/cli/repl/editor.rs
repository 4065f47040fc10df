//! Floor 5. The line editor, on a thread of its own: reads a line when it is told to, and shows what
//! happens meanwhile above it. Knows no command. Used by `repl` and `asking`.

use std::sync::{Arc, Mutex, PoisonError, mpsc as std_mpsc};
use std::thread;

use rustyline::error::ReadlineError;
use rustyline::history::{History as _, MemHistory};
use rustyline::{ColorMode, CompletionType, Config, Editor as LineEditor, KeyCode, KeyEvent, Modifiers};
use tokio::sync::mpsc;

use super::helper::{Helper, Shared};
use super::history::{ENTRIES_MAX, History};
use super::tty::forget_typed;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;

/// Wishes that wait for the editor: it has one at a time.
const WISHES_MAX: usize = 4;
/// Lines that were typed and not taken yet.
const TYPED_MAX: usize = 4;
/// More candidates than are ever offered: the editor never stops to ask whether to list them.
const LIST_MAX: usize = 1000;

/// What comes of a wish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Typed {
    /// A line.
    Line(String),
    /// Ctrl-C.
    Interrupted,
    /// Ctrl-D at an empty line, or no terminal any more.
    End,
}

/// A line that is wanted.
#[derive(Debug)]
enum Wish {
    /// At the prompt.
    Main,
    /// The answer to a question, shown in front of it.
    Answer(String),
}

/// The editor.
#[derive(Debug)]
pub struct Editor {
    wishes: std_mpsc::SyncSender<Wish>,
    typed: mpsc::Receiver<Typed>,
    /// Questions that nobody waits for any more: what is typed behind them is dropped.
    stale: usize,
    /// What the helper goes by.
    pub shared: Arc<Shared>,
}

impl Editor {
    /// Starts its threads. Nothing is read yet.
    ///
    /// # Errors
    /// When there is no terminal to edit on.
    pub fn start(shared: Arc<Shared>, history: History) -> Result<Self, Failure> {
        let failed = |e: &dyn std::fmt::Display| {
            Failure::new("internal", Exit::Unavailable, format!("the line editor can't start: {e}"))
        };
        let config = Config::builder()
            .max_history_size(ENTRIES_MAX)
            .and_then(|config| config.history_ignore_dups(true))
            .map_err(|e| failed(&e))?
            .history_ignore_space(true)
            .completion_type(CompletionType::List)
            .completion_prompt_limit(LIST_MAX)
            // Who wants no colour still wants the bar: the helper paints, and knows.
            .color_mode(ColorMode::Forced)
            .build();
        let (memory, asked) = (MemHistory::with_config(&config), MemHistory::with_config(&config));
        let (wishes, wanted) = std_mpsc::sync_channel(WISHES_MAX);
        let (tell, typed) = mpsc::channel(TYPED_MAX);
        let mut editor: LineEditor<Helper, MemHistory> =
            LineEditor::with_history(config.clone(), memory).map_err(|e| failed(&e))?;
        editor.set_helper(Some(Helper::new(shared.clone())));
        let newline = rustyline::EventHandler::Simple(rustyline::Cmd::Newline);
        editor.bind_sequence(KeyEvent(KeyCode::Enter, Modifiers::ALT), newline);
        // An editor of its own for questions: what was typed ahead at the prompt answers none.
        let asker = LineEditor::with_history(config, asked).map_err(|e| failed(&e))?;
        let helper = shared.clone();
        thread::Builder::new()
            .name("callboard-editor".to_owned())
            .spawn(move || serve((editor, asker), &helper, &history, &wanted, &tell))
            .map_err(|e| failed(&e))?;
        Ok(Self { wishes, typed, stale: 0, shared })
    }

    /// Wants a line at the prompt; [`Editor::typed`] brings it.
    pub fn want(&self) {
        let _ = self.wishes.try_send(Wish::Main);
    }

    /// What was typed at the prompt. Cancel-safe.
    pub async fn typed(&mut self) -> Typed {
        while self.stale > 0 {
            if self.typed.recv().await.is_none() {
                return Typed::End;
            }
            self.stale -= 1;
        }
        self.typed.recv().await.unwrap_or(Typed::End)
    }

    /// The answer to a question. Given up, what is typed behind it is dropped.
    pub async fn answer(&mut self, question: &str) -> Typed {
        while self.stale > 0 && self.typed.recv().await.is_some() {
            self.stale -= 1;
        }
        forget_typed();
        if self.wishes.try_send(Wish::Answer(question.to_owned())).is_err() {
            return Typed::End;
        }
        self.stale += 1;
        let typed = self.typed.recv().await.unwrap_or(Typed::End);
        self.stale -= 1;
        typed
    }
}

fn serve(
    (mut editor, mut asker): (LineEditor<Helper, MemHistory>, LineEditor<Helper, MemHistory>),
    shared: &Shared,
    history: &History,
    wanted: &std_mpsc::Receiver<Wish>,
    tell: &mpsc::Sender<Typed>,
) {
    let mut loaded = false;
    while let Ok(wish) = wanted.recv() {
        if !std::mem::replace(&mut loaded, true) {
            for entry in history.load() {
                let _ = editor.history_mut().add(&entry);
            }
        }
        let main = matches!(wish, Wish::Main);
        shared.begin(main);
        let typed = match &wish {
            Wish::Main => editor.readline(&shared.prompt()),
            Wish::Answer(question) => asker.readline(question),
        };
        shared.end();
        let typed = match typed {
            Ok(line) => {
                if let Some(entry) = history.fit(&line).filter(|_| main)
                    && editor.add_history_entry(entry.as_str()).unwrap_or(false)
                {
                    // A prompt without a memory is better than none.
                    let _ = history.add(&entry);
                }
                Typed::Line(line)
            }
            Err(ReadlineError::Interrupted) => Typed::Interrupted,
            Err(_) => Typed::End,
        };
        if tell.blocking_send(typed).is_err() {
            return;
        }
    }
}

/// The inside of a lock, whoever panicked with it.
pub(super) fn open<T>(lock: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}
