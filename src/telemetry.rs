//! Floor 2. The one redactor of a host: all that is known to be secret joins it, whenever it becomes
//! known, and everything that others wrote is shown through it: views, errors, histories, logs.
//! It never forgets on purpose: a value of a removed server may still stand in texts.

use std::io::{self, Write};
use std::sync::{Arc, LazyLock};

use tokio::sync::watch;
use tracing_subscriber::fmt::MakeWriter;

use crate::config::spec::SecretText;
use crate::shaping::redact::{Redactor, Stream};

/// Shares one redactor that learns. Cheap to clone; all clones know the same.
#[derive(Clone, Debug)]
pub struct Redaction(Arc<watch::Sender<Arc<Redactor>>>);

impl Default for Redaction {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(Arc::default())))
    }
}

static PROCESS: LazyLock<Redaction> = LazyLock::new(Redaction::default);

impl Redaction {
    /// The one of this process, through which its log is written.
    pub fn of_process() -> Self {
        PROCESS.clone()
    }

    /// From now on these values are hidden too.
    pub fn learn(&self, secrets: &[SecretText]) {
        self.0.send_if_modified(|redactor| {
            let Some(more) = redactor.with(secrets) else { return false };
            *redactor = Arc::new(more);
            true
        });
    }

    /// What is known now.
    pub fn now(&self) -> Arc<Redactor> {
        self.0.borrow().clone()
    }

    /// The text without known values and without anything of a secret's form.
    pub fn text(&self, text: &str) -> String {
        self.now().text(text).into_owned()
    }

    /// As `text`, for a piece of something longer: see [`Redactor::piece`].
    pub fn piece(&self, text: &str) -> String {
        self.now().piece(text).into_owned()
    }
}

/// Log lines to stderr, through a redactor.
#[derive(Clone, Debug)]
pub struct RedactedStderr(pub Redaction);

impl<'a> MakeWriter<'a> for RedactedStderr {
    type Writer = RedactedWriter<io::Stderr>;

    fn make_writer(&'a self) -> Self::Writer {
        RedactedWriter::new(self.0.clone(), io::stderr())
    }
}

/// Writes what it is given without secrets, however it is cut; the rest when it is dropped.
#[derive(Debug)]
pub struct RedactedWriter<W: Write> {
    redaction: Redaction,
    stream: Stream,
    out: W,
}

impl<W: Write> RedactedWriter<W> {
    /// One for a whole text, such as a line of a log.
    pub fn new(redaction: Redaction, out: W) -> Self {
        Self { redaction, stream: Stream::default(), out }
    }
}

impl<W: Write> Write for RedactedWriter<W> {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let told = self.stream.push(&self.redaction.now(), piece);
        self.out.write_all(&told)?;
        Ok(piece.len())
    }

    /// What is held back stays so: the rest of a secret may follow.
    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl<W: Write> Drop for RedactedWriter<W> {
    fn drop(&mut self) {
        let rest = self.stream.finish(&self.redaction.now());
        // Nobody is left to be told that a log can't be written.
        let _ = self.out.write_all(&rest).and_then(|()| self.out.flush());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_clones_know_what_one_has_learned() {
        let (one, other) = (Redaction::default(), Redaction::default());
        let clone = one.clone();
        clone.learn(&[SecretText::new("canary-value-1")]);
        assert_eq!(one.text("canary-value-1"), "[redacted]");
        assert_eq!(other.text("canary-value-1"), "canary-value-1");
        assert!(!format!("{one:?}").contains("canary"));
    }

    #[test]
    fn a_log_line_that_is_written_in_pieces_hides_what_crosses_them() {
        let redaction = Redaction::default();
        redaction.learn(&[SecretText::new("canary-value-1")]);
        let mut out = Vec::new();
        let mut writer = RedactedWriter::new(redaction, &mut out);
        for piece in [
            "WARN it said ca",
            "nary-va",
            "lue-1 and ghp_01234567",
            "89012345678901234567\n",
            "done ca",
            "nary-value-1",
        ] {
            writer.write_all(piece.as_bytes()).unwrap();
            writer.flush().unwrap();
        }
        drop(writer);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "WARN it said [redacted] and [redacted]\ndone [redacted]"
        );
    }
}
