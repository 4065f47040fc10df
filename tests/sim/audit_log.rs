//! The audit log of one run: a folder of its own, and what it says of each call once the host is gone.

use std::collections::BTreeMap;
use std::os::unix::fs::OpenOptionsExt as _;

use callboard::audit::chain::Sealed;
use callboard::audit::file::Place;
use callboard::audit::read::snapshot;
use callboard::audit::record::Event;

use super::trace::Trace;

/// Longer than any run's log: that full files are put aside is shown elsewhere.
const FILE_MAX: u64 = 1 << 30;

/// What one line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub event: Event,
    /// `ok`, `failed` and so on, where there is an end.
    pub outcome: Option<String>,
    /// The code of an error.
    pub error: Option<String>,
    /// How often the call was sent.
    pub sent: u64,
}

/// What a log says.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// The lines of each call, by its nonce.
    pub lines: BTreeMap<u64, Vec<Line>>,
    /// Differences that the verification found.
    pub differences: Vec<String>,
    /// Calls with a start and no end.
    pub open: u64,
    /// Lines that say that others could not be written, or that something was wrong with the log.
    pub troubles: usize,
}

/// The folder of a log.
pub struct Shelf(tempfile::TempDir);

impl Shelf {
    /// A new one, with its key: a key that the product makes is forced to the disk.
    pub fn new() -> Self {
        let shelf = Self(tempfile::tempdir().expect("a folder"));
        let place = shelf.place();
        std::fs::create_dir(&place.folder).expect("a folder");
        let mut options = std::fs::OpenOptions::new();
        let mut key = options.write(true).create_new(true).mode(0o600).open(place.key()).expect("a file");
        std::io::Write::write_all(&mut key, "5a".repeat(32).as_bytes()).expect("a key");
        shelf
    }

    /// Where the log is.
    pub fn place(&self) -> Place {
        Place::below(self.0.path(), FILE_MAX)
    }

    /// Verifies it, and takes its lines apart.
    pub fn read(&self, trace: &Trace) -> Log {
        let place = self.place();
        let snapshot = snapshot(&place).expect("the log can be read");
        let report = snapshot.verify(&place).expect("the log has its key");
        let differences = report.findings.iter().map(|finding| format!("{finding:?}")).collect();
        let mut log = Log { differences, open: report.unknown_total, ..Log::default() };
        let take = |line: &[u8]| {
            let Some(Sealed { record, .. }) = Sealed::parse(line) else { return };
            log.troubles += usize::from(matches!(record.event, Event::Lost | Event::Recovered));
            let Some(nonce) = record.call_id.and_then(|number| trace.nonce(number)) else { return };
            let line = Line {
                event: record.event,
                outcome: record.outcome,
                error: record.error_type,
                sent: record.exec_count.unwrap_or(0),
            };
            log.lines.entry(nonce).or_default().push(line);
        };
        snapshot.each(take).expect("the log can be read");
        log
    }
}
