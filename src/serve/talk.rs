//! What goes to and fro while the host does something for a process of its user: that process gets lines
//! about what is going on, questions to whoever sits at its terminal, and the pieces of a stream; back come
//! answers, the width of its screen, and that it gives up. All of it is bounded: a process that does not
//! read loses lines, and one that is gone ends what is done for it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
};
use tokio::sync::{Mutex, mpsc, watch};

use crate::policy::approve::Answer;

/// What may wait for a process that does not read.
const SAID_MAX: usize = 256;
/// Answers that may wait for who asked.
const ANSWERS_MAX: usize = 4;
/// Longest line of the process that asked, in bytes.
const HEARD_LEN_MAX: u64 = 4096;
/// How long the last word waits for a process that does not read.
const LAST_WORD_MAX: Duration = Duration::from_secs(30);

/// One word of the host.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    /// What is going on, in place of what was; empty: nothing any more.
    Line(String),
    /// A person has to say yes or no.
    Ask(Asking),
    /// No answer to that question is wanted any more.
    Settled(u64),
    /// One part of a stream: as JSON, and the same for a person.
    Piece(Box<RawValue>, String),
}

/// A question to a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asking {
    /// Names it in the answer.
    pub number: u64,
    /// What is asked about, one line or more.
    pub head: String,
    /// The question.
    pub line: String,
    /// All of what the head leaves out something of.
    pub whole: Option<String>,
    /// Whether the answer can be kept for good.
    pub can_keep: bool,
}

/// One word of the process that asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Heard {
    /// The answer to a question.
    Answer(u64, Decided),
    /// Its screen has so many columns now.
    Width(u16),
    /// It gives up: what can be stopped is stopped, and the host says what came of it.
    GiveUp,
}

/// What a person decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decided {
    /// Yes, once.
    Once,
    /// Yes, always.
    Always,
    /// No.
    No,
}

impl From<Decided> for Answer {
    fn from(decided: Decided) -> Self {
        match decided {
            Decided::Once => Self::Once,
            Decided::Always => Self::Always,
            Decided::No => Self::Deny,
        }
    }
}

/// The host's end. All clones are one.
#[derive(Clone, Debug)]
pub struct Talk {
    said: mpsc::Sender<Said>,
    answers: Arc<Mutex<mpsc::Receiver<(u64, Decided)>>>,
    last: Arc<AtomicU64>,
    given_up: watch::Receiver<bool>,
    width: watch::Receiver<Option<u16>>,
}

/// The other end of a [`Talk`]: what carries it.
#[derive(Debug)]
pub struct Carried {
    said: mpsc::Receiver<Said>,
    answers: mpsc::Sender<(u64, Decided)>,
    given_up: watch::Sender<bool>,
    width: watch::Sender<Option<u16>>,
}

impl Talk {
    /// Both ends of a new one.
    pub fn pair() -> (Self, Carried) {
        let (said, saying) = mpsc::channel(SAID_MAX);
        let (answered, answers) = mpsc::channel(ANSWERS_MAX);
        let (give_up, given_up) = watch::channel(false);
        let (wide, width) = watch::channel(None);
        let answers = Arc::new(Mutex::new(answers));
        let talk = Self { said, answers, last: Arc::default(), given_up, width };
        (talk, Carried { said: saying, answers: answered, given_up: give_up, width: wide })
    }

    /// Shows what is going on. Never waits: a process that does not read misses it.
    pub fn line(&self, text: &str) {
        let _ = self.said.try_send(Said::Line(text.to_owned()));
    }

    /// Sends one part of a stream, when there is room; `false` when nobody is there any more.
    pub async fn piece(&self, json: Box<RawValue>, human: String) -> bool {
        self.said.send(Said::Piece(json, human)).await.is_ok()
    }

    /// Asks a person. Given up, the question is withdrawn; when nobody is there, the answer is no.
    pub async fn ask(&self, question: Asking) -> Answer {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let mut answers = self.answers.lock().await;
        if self.said.send(Said::Ask(Asking { number, ..question })).await.is_err() {
            return Answer::Deny;
        }
        let mut open = Open { said: &self.said, number: Some(number) };
        while let Some((of, decided)) = answers.recv().await {
            // The answer to a question that was withdrawn may come late.
            if of == number {
                open.number = None;
                return decided.into();
            }
        }
        open.number = None;
        Answer::Deny
    }

    /// Resolves when the process that asked gives up.
    pub async fn given_up(&self) {
        let mut given_up = self.given_up.clone();
        if given_up.wait_for(|given_up| *given_up).await.is_err() {
            std::future::pending().await
        }
    }

    /// Columns of its screen, once they changed.
    pub fn width(&self) -> Option<u16> {
        *self.width.borrow()
    }
}

/// A question that has no answer yet.
struct Open<'a> {
    said: &'a mpsc::Sender<Said>,
    number: Option<u64>,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            let _ = self.said.try_send(Said::Settled(number));
        }
    }
}

/// Carries a talk on a pair of streams while `act` runs, and writes its outcome at the end: one line of
/// JSON each. When the other side leaves, `act` is dropped.
///
/// # Errors
/// When the other side does not take what is written.
pub async fn hold<T: Serialize>(
    input: impl AsyncRead + Unpin,
    mut output: impl AsyncWrite + Unpin,
    carried: Carried,
    act: impl Future<Output = T>,
    says: impl Fn(Said) -> T,
) -> io::Result<()> {
    let Carried { mut said, answers, given_up, width } = carried;
    let hearing = hear(input, answers, given_up, width);
    let mut act = Box::pin(act);
    let outcome = {
        let writing = async {
            while let Some(word) = said.recv().await {
                write(&mut output, &says(word)).await?;
            }
            io::Result::Ok(())
        };
        tokio::pin!(hearing, writing);
        let mut wrote = false;
        let outcome = loop {
            tokio::select! {
                biased;
                outcome = &mut act => break outcome,
                all = &mut writing, if !wrote => {
                    all?;
                    wrote = true;
                }
                () = &mut hearing => return Err(io::ErrorKind::ConnectionAborted.into()),
            }
        };
        // What was said before the end comes before it, each word whole.
        drop(act);
        if !wrote {
            last(&mut writing).await?;
        }
        outcome
    };
    last(write(&mut output, &outcome)).await
}

async fn last(word: impl Future<Output = io::Result<()>>) -> io::Result<()> {
    tokio::time::timeout(LAST_WORD_MAX, word).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

async fn write(output: &mut (impl AsyncWrite + Unpin), word: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(word)?;
    line.push(b'\n');
    output.write_all(&line).await
}

/// Hears the other side until it leaves.
async fn hear(
    input: impl AsyncRead + Unpin,
    answers: mpsc::Sender<(u64, Decided)>,
    given_up: watch::Sender<bool>,
    width: watch::Sender<Option<u16>>,
) {
    let mut input = BufReader::new(input);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut input).take(HEARD_LEN_MAX).read_until(b'\n', &mut line).await {
            Ok(read) if read > 0 && line.ends_with(b"\n") => {}
            _ => return,
        }
        match serde_json::from_slice(&line) {
            Ok(Heard::Answer(number, decided)) => _ = answers.try_send((number, decided)),
            Ok(Heard::Width(columns)) => _ = width.send_replace(Some(columns)),
            Ok(Heard::GiveUp) => _ = given_up.send_replace(true),
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests;
