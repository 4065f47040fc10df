//! Floor 1. Verification of a log, as a machine that is fed its lines in order and then the head
//! file. It names each break by file, line, number and kind, and tells which calls have a start and
//! no end. Memory: eight bytes for each line.

use std::collections::HashMap;

use super::CHECKPOINT_EVERY;
use super::chain::{Key, Sealed, Tip};
use super::head::Reading;
use super::record::{Event, Found, Record};

/// Breaks that are told one by one; more are counted.
pub const BREAKS_MAX: usize = 1000;
/// Calls without an end that are told one by one; more are counted.
pub const UNKNOWN_MAX: usize = 1000;

/// How a log differs from what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A line was changed.
    Edited,
    /// Lines are gone.
    Deleted,
    /// A line is not where it was written.
    Swapped,
    /// A line that does not belong there: of another hand, or a copy.
    Inserted,
    /// The end is gone: the head file knows later lines.
    Truncated,
    /// A checkpoint that is none.
    ForgedCheckpoint,
    /// Two writers with the key continued the same line.
    SecondWriter,
    /// The head file is gone, or was when a writer came.
    HeadMissing,
    /// The head file was not sealed with the key, or speaks of a line that the log does not have.
    HeadForged,
    /// A line that its writer could not finish. Not a break: a killed program leaves one.
    Torn,
}

impl Kind {
    /// The word in `--json`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Edited => "edited",
            Self::Deleted => "deleted",
            Self::Swapped => "swapped",
            Self::Inserted => "inserted",
            Self::Truncated => "truncated",
            Self::ForgedCheckpoint => "forged_checkpoint",
            Self::SecondWriter => "second_writer",
            Self::HeadMissing => "head_missing",
            Self::HeadForged => "head_forged",
            Self::Torn => "torn",
        }
    }

    /// Whether it means that somebody touched the log.
    pub fn is_break(self) -> bool {
        self != Self::Torn
    }
}

/// One difference, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What.
    pub kind: Kind,
    /// The file, counted from 0 in the order in which they were fed.
    pub file: usize,
    /// The line in that file, from 1; 0 for what concerns no line.
    pub line: u64,
    /// The numbers concerned, first and last.
    pub seq: Option<(u64, u64)>,
}

/// A call that was started and has no end in the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Unknown {
    /// The file of its start.
    pub file: usize,
    /// The line of its start.
    pub line: u64,
    /// Its start.
    pub start: Record,
}

/// What a verification found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Differences, in the order in which they were noticed.
    pub findings: Vec<Finding>,
    /// Differences in all, also those that are not told one by one.
    pub findings_total: u64,
    /// Genuine lines.
    pub genuine: u64,
    /// Lines in all.
    pub lines: u64,
    /// Number and mac of the last genuine line.
    pub tip: Option<Tip>,
    /// Calls whose end is unknown, by their starts; the last ones.
    pub unknown: Vec<Unknown>,
    /// How many there are.
    pub unknown_total: u64,
    breaks: u64,
}

impl Report {
    /// Whether the log is as its writers left it.
    pub fn is_whole(&self) -> bool {
        self.breaks == 0
    }

    /// Differences that are breaks.
    pub fn breaks(&self) -> u64 {
        self.breaks
    }
}

/// A line that is not genuine, until it is known what stood there.
struct Bad {
    file: usize,
    line: u64,
    checkpoint: bool,
    ended: bool,
    bytes: u64,
    hash: String,
}

/// Lines of a gap.
struct Gap {
    file: usize,
    line: u64,
    first: u64,
    last: u64,
}

/// The machine.
pub struct Verifier<'a> {
    key: &'a Key,
    report: Report,
    file: usize,
    line: u64,
    tip: Tip,
    /// Tag of each line by its number; 0 where none was seen.
    seen: Vec<u64>,
    bad: Vec<Bad>,
    gaps: Vec<Gap>,
    /// Genuine lines without a line end: file, line, number.
    unended: Vec<(usize, u64, u64)>,
    open: HashMap<(String, u64), (usize, u64, Record)>,
}

impl<'a> Verifier<'a> {
    /// For a log that is sealed with that key.
    pub fn new(key: &'a Key) -> Self {
        Self {
            key,
            report: Report::default(),
            file: 0,
            line: 0,
            tip: Tip::START,
            seen: Vec::new(),
            bad: Vec::new(),
            gaps: Vec::new(),
            unended: Vec::new(),
            open: HashMap::new(),
        }
    }

    /// The next file of the log begins.
    pub fn next_file(&mut self) {
        self.file += 1;
        self.line = 0;
    }

    /// Takes the next line, without its line end; `ended` says whether it had one.
    pub fn line(&mut self, bytes: &[u8], ended: bool) {
        self.line += 1;
        self.report.lines += 1;
        let sealed = Sealed::parse(bytes);
        match sealed {
            Some(sealed) if sealed.is_genuine(self.key) => {
                if !ended {
                    self.unended.push((self.file, self.line, sealed.record.seq));
                }
                self.genuine(sealed);
            }
            other => {
                let claimed = other.map(|sealed| sealed.record);
                let checkpoint = claimed.is_some_and(|record| record.event == Event::Checkpoint)
                    || memchr::memmem::find(bytes, b"\"event\":\"checkpoint\"").is_some();
                if self.bad.len() < BREAKS_MAX {
                    let (bytes, hash) = (bytes.len() as u64, self.key.arguments(b"torn", bytes).hex());
                    self.bad.push(Bad { file: self.file, line: self.line, checkpoint, ended, bytes, hash });
                } else {
                    self.report.findings_total += 1;
                    self.report.breaks += 1;
                }
            }
        }
    }

    fn found(&mut self, kind: Kind, file: usize, line: u64, seq: Option<(u64, u64)>) {
        self.report.findings_total += 1;
        self.report.breaks += u64::from(kind.is_break());
        if self.report.findings.len() < BREAKS_MAX {
            self.report.findings.push(Finding { kind, file, line, seq });
        }
    }

    fn here(&mut self, kind: Kind, seq: u64) {
        self.found(kind, self.file, self.line, Some((seq, seq)));
    }

    fn genuine(&mut self, sealed: Sealed) {
        self.report.genuine += 1;
        let seq = sealed.record.seq;
        if seq <= self.tip.seq {
            return self.out_of_order(&sealed);
        }
        if let Some(found) = &sealed.record.found {
            self.explained(found);
        }
        let gap = seq - self.tip.seq - 1;
        let left = self.settle_bad(gap);
        if left > 0 {
            let first = seq - left;
            self.gaps.push(Gap { file: self.file, line: self.line, first, last: seq - 1 });
        }
        if gap == 0 && sealed.prev != self.tip.mac {
            self.here(Kind::SecondWriter, seq);
        }
        if seq.is_multiple_of(CHECKPOINT_EVERY) != (sealed.record.event == Event::Checkpoint) {
            self.here(Kind::ForgedCheckpoint, seq);
        }
        self.mark(seq, sealed.mac.tag());
        self.tip = Tip { seq, mac: sealed.mac };
        self.follow(sealed.record);
    }

    /// Bad lines before a gap of that many numbers: the first of them were those lines, the others were
    /// put in. Returns how many numbers of the gap are left, at its end.
    fn settle_bad(&mut self, gap: u64) -> u64 {
        let mut left = gap;
        for bad in std::mem::take(&mut self.bad) {
            let stood = (left > 0).then(|| self.tip.seq + 1 + (gap - left));
            left = left.saturating_sub(1);
            let kind = match stood {
                _ if bad.checkpoint => Kind::ForgedCheckpoint,
                Some(_) => Kind::Edited,
                None => Kind::Inserted,
            };
            self.found(kind, bad.file, bad.line, stood.map(|seq| (seq, seq)));
        }
        left
    }

    /// A recovery tells of a torn line right before it, and of a head that was not as it should be.
    fn explained(&mut self, found: &Found) {
        if let (Some(bytes), Some(hash)) = (found.torn_bytes, &found.torn_hash)
            && self.bad.last().is_some_and(|bad| bad.bytes == bytes && bad.hash == *hash)
            && let Some(bad) = self.bad.pop()
        {
            self.found(Kind::Torn, bad.file, bad.line, None);
        }
        match found.head.as_deref() {
            Some("missing") => self.found(Kind::HeadMissing, self.file, self.line, None),
            Some(_) => self.found(Kind::HeadForged, self.file, self.line, None),
            None => {}
        }
    }

    /// A genuine line with a number that was passed already.
    fn out_of_order(&mut self, sealed: &Sealed) {
        let seq = sealed.record.seq;
        let known = usize::try_from(seq - 1).ok().and_then(|at| self.seen.get(at)).copied().unwrap_or(0);
        if known == 0 {
            self.fill(seq);
            self.mark(seq, sealed.mac.tag());
            self.here(Kind::Swapped, seq);
            self.follow(sealed.record.clone());
        } else if known == sealed.mac.tag() {
            self.here(Kind::Inserted, seq);
        } else {
            self.here(Kind::SecondWriter, seq);
        }
    }

    /// A line of a gap is there after all.
    fn fill(&mut self, seq: u64) {
        let Some(at) = self.gaps.iter().position(|gap| (gap.first..=gap.last).contains(&seq)) else { return };
        let gap = self.gaps.remove(at);
        for (first, last) in [(gap.first, seq - 1), (seq + 1, gap.last)] {
            if first <= last {
                self.gaps.push(Gap { first, last, ..gap });
            }
        }
    }

    fn mark(&mut self, seq: u64, tag: u64) {
        let Ok(at) = usize::try_from(seq - 1) else { return };
        if at >= self.seen.len() {
            self.seen.resize(at + 1, 0);
        }
        self.seen[at] = tag;
    }

    fn follow(&mut self, record: Record) {
        let Some(call) = record.call_id else { return };
        match record.event {
            Event::Started => {
                self.open.insert((record.boot_id.clone(), call), (self.file, self.line, record));
            }
            Event::Finished => {
                self.open.remove(&(record.boot_id, call));
            }
            _ => {}
        }
    }

    /// Ends the verification with what the head file says.
    pub fn finish(mut self, head: Reading) -> Report {
        let torn = self.bad.pop_if(|bad| !bad.ended && bad.file == self.file && bad.line == self.line);
        let known = match head {
            Reading::Sound(head) => head.tip.seq,
            Reading::Missing | Reading::Forged => self.tip.seq,
        };
        let cut = known > self.tip.seq;
        let gap = known.saturating_sub(self.tip.seq);
        let gap = gap.min(self.bad.len() as u64);
        self.settle_bad(gap);
        if let Some(bad) = torn {
            self.found(if cut { Kind::Edited } else { Kind::Torn }, bad.file, bad.line, None);
        }
        // Only a line that nobody had counted yet may lack its end.
        for (file, line, seq) in std::mem::take(&mut self.unended) {
            if file != self.file || seq <= known && matches!(head, Reading::Sound(_)) {
                self.found(Kind::Edited, file, line, Some((seq, seq)));
            }
        }
        for gap in std::mem::take(&mut self.gaps) {
            self.found(Kind::Deleted, gap.file, gap.line, Some((gap.first, gap.last)));
        }
        match head {
            _ if self.report.lines == 0 && head == Reading::Missing => {}
            Reading::Missing => self.found(Kind::HeadMissing, self.file, 0, None),
            Reading::Forged => self.found(Kind::HeadForged, self.file, 0, None),
            Reading::Sound(head) if cut => {
                let seq = Some((self.tip.seq + 1, head.tip.seq));
                self.found(Kind::Truncated, self.file, self.line, seq);
            }
            Reading::Sound(head) if head.tip == Tip::START => {}
            Reading::Sound(head) => {
                let at = usize::try_from(head.tip.seq - 1).ok();
                let seen = at.and_then(|at| self.seen.get(at)).copied().unwrap_or(0);
                if seen != 0 && seen != head.tip.mac.tag() {
                    self.found(Kind::HeadForged, self.file, 0, Some((head.tip.seq, head.tip.seq)));
                }
            }
        }
        let mut unknown: Vec<Unknown> =
            self.open.into_values().map(|(file, line, start)| Unknown { file, line, start }).collect();
        unknown.sort_by_key(|unknown| unknown.start.seq);
        self.report.unknown_total = unknown.len() as u64;
        self.report.unknown = unknown.split_off(unknown.len().saturating_sub(UNKNOWN_MAX));
        self.report.tip = (self.tip.seq > 0).then_some(self.tip);
        self.report
    }
}

#[cfg(test)]
mod tests;
